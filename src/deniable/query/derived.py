"""Derived tables: subqueries and WITH, of rows or of people, UNION ALL, and VALUES.

A derived table is read like a query, and written as SQL in the place of a table. What makes it sound is one property,
which every form below keeps: **each of its rows belongs to one unit, and the rows of a unit are a function of that
unit's own rows.** Then a unit that comes, goes or changes adds, takes away or changes rows of its own and no others,
which is all that `bounding` needs: its limits are applied to the outermost table, after everything here.

| form | why it keeps the property |
|---|---|
| SELECT columns FROM … WHERE … | a row is made of one row, or of joined rows of one unit (see `scope`) |
| SELECT id, keys, aggregates … GROUP BY id, keys | a row is made of rows with one id; without keys, of all of them |
| SELECT DISTINCT id, … | the same, without aggregates |
| UNION ALL | the rows of a unit are its rows in both parts |
| VALUES, and all of the above over public tables | nobody's rows |

Grouping by anything but the id of the protected unit makes rows of several people, and is refused. So is LIMIT, which
would choose a person's rows by looking at the others'. Where every row is a unit of its own there is nothing to group
by; and a table may stand once in a UNION ALL, because a row that counts twice would move everything twice as far.

Aggregates within a derived table are exact, and a function of a set of rows: sums are taken in whole steps of a grid,
because a sum of floats depends on the order in which an engine adds them, and the order on the rows of others. The grid
is that of the column's bounds, to which values are clamped, or else has steps of 10⁻⁶ (1 for whole numbers) and 2⁵⁰ of
them to each side.

Every derived table carries the id of its rows' units, also where the SELECT list leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from deniable.errors import DataError, QueryError
from deniable.noise import Grid
from deniable.query import grids, ranges
from deniable.query.expressions import condition, constant, expression, tupled, with_ranges
from deniable.query.functions import TYPES
from deniable.query.parsing import refusal
from deniable.query.ranges import Range
from deniable.query.schema import Column, ColumnKind, Table
from deniable.query.scope import (
    DerivedTable,
    Join,
    Scope,
    bare,
    is_literal,
    owner_column,
    read_tables,
    relation,
    same_ids,
    shown,
)
from deniable.query.values import double, quoted
from deniable.query.values import name as sql_name

_CLAUSES = ("expressions", "from", "from_", "joins", "where", "group", "having", "distinct", "with", "with_")
_REFUSED = {
    "limit": "it would choose rows by looking at those of others; leave it out",
    "offset": "it would choose rows by looking at those of others; leave it out",
    "order": "the rows of a subquery have no order; leave it out",
    "qualify": "window functions have no private form here",
}
WIDEST = 1 << 50
"""Steps of the grid that one row's value may be away from 0 in a sum."""

FINE = Fraction(1, 10**6)
"""The step in which numbers without bounds are added up."""

_MOST_ROWS = 1000
"""Rows of VALUES."""

_KNOWN = "COUNT, SUM, AVG, MIN and MAX"


@dataclass(frozen=True)
class SubqueryReader:
    """Reads derived tables of one statement. `tables` are those that a subquery may name, WITH among them."""

    sql: str
    tables: tuple[Table, ...]
    ranges: Mapping[str | Column, Range]

    def with_tables(self, clause: exp.Expr | None) -> SubqueryReader:
        """The reader, with the tables of a WITH, each of which may name those before it."""
        found = self
        if clause is None:
            return found
        if clause.args.get("recursive"):
            raise refusal(clause, "WITH RECURSIVE is not supported; write each level as a subquery", self.sql)
        for part in clause.expressions:
            alias = part.args["alias"]
            if any(value for name, value in part.args.items() if name not in ("this", "alias")):
                raise refusal(part, f"{alias.name} AS … is supported with a SELECT in brackets only", self.sql)
            table = replace(found.table(part.this, alias.args.get("columns")), name=alias.name)
            if any(
                table.name.casefold() == other.name.casefold() for other in found.tables[: -len(self.tables) or None]
            ):
                raise refusal(part, f"WITH names {table.name} twice", self.sql)
            found = replace(found, tables=(table, *found.tables))
        return found

    def scope(self, tree: exp.Select) -> tuple[Scope, tuple[Join, ...]]:
        """The tables of a SELECT, and its joins."""
        scope, joins = read_tables(self.sql, tree, self.tables, self.table)
        return with_ranges(scope, self.ranges), joins

    def table(self, node: exp.Expr, columns: Sequence[exp.Expr] | None = None) -> DerivedTable:
        """A derived table; `columns` are the names that stand after its alias."""
        while isinstance(node, exp.Subquery) and not node.args.get("joins"):
            node = node.this
        if isinstance(node, exp.Table):  # a join in brackets
            node = _selected(node)
        if isinstance(node, exp.Values):
            found = self._values(node)
            columns = columns or (node.args["alias"].args.get("columns") if node.args.get("alias") else None)
        elif isinstance(node, exp.Union):
            found = self._union(node)
        elif isinstance(node, exp.Select):
            found = self.with_tables(node.args.get("with_") or node.args.get("with"))._select(node)
        else:
            raise refusal(
                node, f"{shown(node)} is not a subquery that is supported; write SELECT in brackets", self.sql
            )
        return found if not columns else self._renamed(node, found, [part.name for part in columns])

    def _renamed(self, node: exp.Expr, table: DerivedTable, names: list[str]) -> DerivedTable:
        if len(names) != len(table.columns):
            raise refusal(node, f"{len(table.columns)} columns have {len(names)} names", self.sql)
        if len({name.casefold() for name in names}) < len(names):
            raise refusal(node, "two columns get one name; rename one", self.sql)
        pairs = list(zip(table.columns, names, strict=True))
        listed = [f"t.{quoted(column.name)} AS {quoted(given)}" for column, given in pairs]
        columns = tuple(replace(column, name=given) for column, given in pairs)
        renamed = {column.name: given for column, given in pairs}
        unit = table.unit
        if unit is not None:
            # An id that is not selected must not share its name with a column: an engine would take the first of them.
            name = renamed.get(unit.name) or Table("", columns).unused("unit_of_row")
            if unit.name not in renamed:
                listed.append(f"t.{quoted(unit.name)} AS {quoted(name)}")
            unit = replace(unit, name=name)
        return replace(
            table,
            sql=f"SELECT {', '.join(listed)} FROM ({table.sql}) AS t",
            columns=columns,
            owner=None if unit is None else unit.name,
            unit=unit,
        )

    def _select(self, tree: exp.Select) -> DerivedTable:
        for clause, value in tree.args.items():
            if value not in (None, False, []) and clause not in _CLAUSES:
                name = clause.strip("_").replace("_", " ").upper()
                why = _REFUSED.get(clause, "leave it out")
                part = value if isinstance(value, exp.Expr) else tree
                raise refusal(part, f"{name} within a subquery is not supported; {why}", self.sql)
        scope, joins = self.scope(tree)
        where, group, having = (tree.args.get(part) for part in ("where", "group", "having"))
        test = condition(scope, where.this) if where is not None else None
        items = _items(scope, tree.expressions)
        source = "\n".join([f"{relation(scope.tables[0].table)} AS t", *(join.sql for join in joins)])
        rows = source + (f"\nWHERE {test}" if test is not None else "")
        inner = tuple(join for named in scope.tables for join in _joins(named.table))
        made = _Rows(scope, rows, (*joins, *inner), self)
        grouped = group is not None or tree.args.get("distinct") is not None
        if grouped or any(_call(part) is not None for _, item in items for part in item.walk()):
            return made.grouped(tree, items, group, having)
        if having is not None:
            raise refusal(having, "HAVING within a subquery needs GROUP BY; write WHERE", self.sql)
        return made.table([(alias, expression(scope, item)) for alias, item in items], made.unit, rows)

    def _union(self, node: exp.Union) -> DerivedTable:
        parts: list[exp.Expr] = []
        left: exp.Expr = node
        while isinstance(left, exp.Union):
            known = ("this", "expression", "distinct")
            if left.args.get("distinct") is not False or any(v for k, v in left.args.items() if k not in known):
                raise refusal(left, "UNION is supported as UNION ALL of SELECTs only", self.sql)
            parts.insert(0, left.expression)
            left = left.this
        tables = [self.table(part) for part in (left, *parts)]
        first = tables[0]
        if any(table.public != first.public for table in tables):
            raise refusal(
                node, "UNION ALL of private and public tables is not supported: rows must have owners", self.sql
            )
        if any(len(table.columns) != len(first.columns) for table in tables):
            raise refusal(node, "the parts of UNION ALL have different numbers of columns", self.sql)
        names = [base for table in tables for base in table.bases]
        if first.unit is None and not first.public and len(set(names)) < len(names):
            raise refusal(
                node,
                "a table stands twice in UNION ALL, and this ledger protects single rows: a row would count twice",
                self.sql,
            )
        for table in tables[1:]:
            if first.unit is not None and (table.unit is None or not same_ids(first.unit, table.unit)):
                raise refusal(
                    node, "the ids of the parts of UNION ALL are of different types; store them in one", self.sql
                )
        columns = [self._common(node, several) for several in zip(*(table.columns for table in tables), strict=True)]
        return self._stacked(tables, columns)

    def _stacked(self, tables: Sequence[DerivedTable], columns: Sequence[Column]) -> DerivedTable:
        """The rows of all parts. The id is one of the columns only where it is in every part; else it is added."""
        first, owner, hidden = tables[0], None, None
        if first.unit is not None:
            every = zip(*(table.columns for table in tables), strict=True)
            ids = [all(c == t.unit for c, t in zip(several, tables, strict=True)) for several in every]
            if True in ids:
                owner = columns[ids.index(True)]
            else:
                hidden = Table("", tuple(columns)).unused("unit_of_row")
                owner = replace(first.unit, name=hidden)
        texts = []
        for table in tables:
            pairs = zip(table.columns, columns, strict=True)
            listed = [f"{_typed(theirs, ours)} AS {quoted(ours.name)}" for theirs, ours in pairs]
            if hidden is not None and table.unit is not None:
                listed.append(f"t.{quoted(table.unit.name)} AS {quoted(hidden)}")
            texts.append(f"SELECT {', '.join(listed)} FROM ({table.sql}) AS t")
        return DerivedTable(
            name=first.name,
            columns=tuple(columns),
            public=first.public,
            owner=None if owner is None else owner.name,
            sql="\nUNION ALL\n".join(texts),
            unit=owner,
            bases=tuple(base for table in tables for base in table.bases),
            joins=tuple(join for table in tables for join in table.joins),
            scopes=tuple(scope for table in tables for scope in table.scopes),
        )

    def _common(self, node: exp.Expr, several: tuple[Column, ...]) -> Column:
        """The column that columns of several parts become."""
        kinds = {column.kind for column in several}
        if kinds == {ColumnKind.INTEGER, ColumnKind.REAL}:
            kinds = {ColumnKind.REAL}
        elif kinds == {ColumnKind.TEXT, ColumnKind.UNTYPED}:
            kinds = {ColumnKind.TEXT}
        if len(kinds) != 1 or ColumnKind.OTHER in kinds:
            held = ", ".join(column.kind.value for column in several)
            raise refusal(
                node, f"column {several[0].name} of UNION ALL is of several kinds: {held}; CAST one", self.sql
            )
        (kind,) = kinds
        found = ranges.hull(*(_range(column) for column in several))
        low, high = found if found is not None else (None, None)
        lists = [column.domain for column in several]
        domain = tuple(dict.fromkeys(v for few in lists if few for v in few)) if all(lists) else None
        return Column(several[0].name, kind, TYPES[kind], None, low, high, domain)

    def _values(self, node: exp.Values) -> DerivedTable:
        """VALUES (…), (…): a public table that the text itself holds."""
        scope = Scope(self.sql, ())
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        if not rows or len(rows) > _MOST_ROWS or len({len(row) for row in rows}) != 1:
            raise refusal(node, f"VALUES needs 1 to {_MOST_ROWS} rows of one length", self.sql)
        columns, cells = [], []
        for i, several in enumerate(zip(*rows, strict=True), start=1):
            given = [None if isinstance(bare(cell), exp.Null) else scope.value(cell) for cell in several]
            held = [constant("", value) for value in given if value is not None]
            kinds = {column.kind for column in held}
            kinds = {ColumnKind.REAL} if kinds == {ColumnKind.INTEGER, ColumnKind.REAL} else kinds
            if len(kinds) != 1:
                raise refusal(node, f"column {i} of VALUES needs values of one kind", self.sql)
            (kind,) = kinds
            columns.append(Column(f"col{i}", kind, TYPES[kind]))
            cells.append([_cast(None if v is None else sql_name(constant("", v)), TYPES[kind]) for v in given])
        lines = [
            "SELECT " + ", ".join(f"{sql} AS {quoted(c.name)}" for sql, c in zip(row, columns, strict=True))
            for row in zip(*cells, strict=True)
        ]
        return DerivedTable("values", tuple(columns), public=True, sql="\nUNION ALL\n".join(lines))


def _cast(sql: str | None, type: str) -> str:
    return f"CAST({'NULL' if sql is None else sql} AS {type})"


def _typed(column: Column, wanted: Column) -> str:
    plain = f"t.{quoted(column.name)}"
    return plain if column.type == wanted.type else f"TRY_CAST({plain} AS {wanted.type})"


def _range(column: Column) -> Range:
    return None if column.low is None or column.high is None else (column.low, column.high)


def _joins(table: Table) -> tuple[Join, ...]:
    return table.joins if isinstance(table, DerivedTable) else ()


def _selected(node: exp.Table) -> exp.Select:
    """A join in brackets as SELECT * of it."""
    first = node.copy()
    joins = first.args.pop("joins", None) or []
    found = exp.Select(expressions=[exp.Star()])
    found.set("from_", exp.From(this=first))
    found.set("joins", joins)
    return found


def _items(scope: Scope, nodes: Sequence[exp.Expr]) -> list[tuple[str, exp.Expr]]:
    """The columns of a SELECT list, by name; * stands for all columns of the tables, or of one."""
    found: list[tuple[str, exp.Expr]] = []
    for node in nodes:
        every = isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
        if every:
            scope.only(node, "this", "table")
            found += _all_columns(scope, node)
        elif isinstance(node, exp.Alias):
            scope.only(node, "this", "alias")
            found.append((node.alias, bare(node.this)))
        elif isinstance(node, exp.Column):
            found.append((node.name, node))
        else:
            found.append((shown(node), bare(node)))
    names = [alias.casefold() for alias, _ in found]
    for i, alias in enumerate(names):
        if alias in names[:i]:
            raise scope.refuse(nodes[0], f"a subquery has two columns {found[i][0]}; rename one with AS")
    return found


def _all_columns(scope: Scope, node: exp.Expr) -> list[tuple[str, exp.Expr]]:
    wanted = node.table.casefold() if isinstance(node, exp.Column) else None
    tables = [named for named in scope.tables if wanted is None or named.alias.casefold() == wanted]
    if not tables:
        raise scope.refuse(node, f"{shown(node)} names no table of this query")
    return [
        (column.name, exp.column(column.name, table=named.alias, quoted=True))
        for named in tables
        for column in named.table.columns
        if not column.fragile and (wanted is not None or column.name.casefold() not in named.merged)
    ]


@dataclass(frozen=True)
class _Rows:
    """The rows that a SELECT reads, as SQL after FROM, and what a derived table is made of them."""

    scope: Scope
    rows: str
    joins: tuple[Join, ...]
    reader: SubqueryReader

    @property
    def unit(self) -> Column | None:
        """The column that says whose a row is."""
        first = self.scope.tables[0]
        found = owner_column(first.table)
        return None if found is None else first.column(found)

    def table(
        self, columns: Sequence[tuple[str, Column]], unit: Column | None, rows: str, *, single: bool = False
    ) -> DerivedTable:
        """The derived table with these columns of `rows`, which may be those that were read, or groups of them."""
        first = self.scope.table
        listed = [f"{sql_name(column)} AS {quoted(alias)}" for alias, column in columns]
        shown = tuple(self._shown(alias, column) for alias, column in columns)
        owner = None
        if unit is not None:
            place = next((i for i, (_, column) in enumerate(columns) if sql_name(column) == sql_name(unit)), None)
            if place is not None:
                owner = shown[place]
            else:
                hidden = Table("", shown).unused("unit_of_row")
                owner = replace(unit, name=hidden, sql=None)
                listed.append(f"{sql_name(unit)} AS {quoted(hidden)}")
        inner = [named.table for named in self.scope.tables]
        bases = tuple(base for table in inner for base in _bases(table))
        within = tuple(scope for table in inner if isinstance(table, DerivedTable) for scope in table.scopes)
        kept = (
            isinstance(first, DerivedTable) and first.single and all(join.table.public is False for join in self.joins)
        )
        return DerivedTable(
            name="subquery",
            columns=shown,
            public=first.public,
            owner=None if owner is None else owner.name,
            sql=f"SELECT {', '.join(listed)}\nFROM {rows}",
            unit=owner,
            single=single or (kept and unit is not None),
            bases=bases,
            joins=self.joins,
            scopes=(self.scope, *within),
        )

    def _shown(self, alias: str, column: Column) -> Column:
        """A column as the query around sees it; bounds that are known here are known there."""
        low, high = self.scope.range(column) or (None, None)
        return replace(column, name=alias, sql=None, low=low, high=high)

    def grouped(
        self, tree: exp.Select, items: Sequence[tuple[str, exp.Expr]], clause: exp.Expr | None, having: exp.Expr | None
    ) -> DerivedTable:
        """One row per unit and keys: groups with their aggregates first, then the columns that are made of them."""
        scope, unit = self.scope, self.unit
        if clause is not None:
            groups = read_groups(scope, clause, tree.expressions)
        else:  # DISTINCT, or aggregates alone
            wanted = [item for _, item in items if not any(_call(part) is not None for part in item.walk())]
            groups = tuple(expression(scope, item) for item in wanted)
        place = clause if clause is not None else tree
        if not scope.table.public:
            self._check_unit(place, groups, unit)
        known: dict[int, Column] = {}
        values: dict[str, str] = {}
        columns = {sql_name(group): f"k{i}" for i, group in enumerate(groups, start=1)}
        nodes = [item for _, item in items] + ([having.this] if having is not None else [])
        for node in nodes:
            self._settle(node, groups, columns, known, values)
        listed = [f"{_grouping(group)} AS {columns[sql_name(group)]}" for group in groups]
        listed += [f"{sql} AS {alias}" for sql, alias in values.items()]
        by = ", ".join(_grouping(group) for group in groups)
        rows = f"(\nSELECT {', '.join(listed)}\nFROM {self.rows}" + (f"\nGROUP BY {by}" if by else "") + "\n) AS t"
        inner = replace(scope, known=known)
        made = [(alias, expression(inner, item)) for alias, item in items]
        if having is not None:
            rows += f"\nWHERE {condition(inner, having.this)}"
        person = None
        if unit is not None:
            group = next(group for group in groups if sql_name(group) == sql_name(unit))
            person = replace(group, sql=f"t.{columns[sql_name(unit)]}", listing=None)
        return self.table(made, person, rows, single=len(groups) == 1)

    def _check_unit(self, node: exp.Expr, groups: Sequence[Column], unit: Column | None) -> None:
        if unit is None:
            raise self.scope.refuse(
                node,
                "a subquery with groups is not supported here: the ledger protects single rows, and a group would be "
                "of several; ask for the groups themselves, in one SELECT",
            )
        if sql_name(unit) not in map(sql_name, groups):
            raise self.scope.refuse(
                node,
                f"a subquery with groups must be grouped by {unit.name}, the id of who is protected: otherwise its "
                f"rows belong to several people; add {unit.name} to GROUP BY, or ask for the groups in one SELECT",
            )

    def _settle(
        self,
        node: exp.Expr,
        groups: Sequence[Column],
        columns: Mapping[str, str],
        known: dict[int, Column],
        values: dict[str, str],
    ) -> None:
        """Find the groups and aggregates that a node is made of: each becomes a column of the grouped rows."""
        node = bare(node)
        call = _call(node)
        if call is not None:
            sql, column = _person_value(self.scope, *call)
            alias = values.setdefault(sql, f"w{len(values) + 1}")
            known[id(node)] = replace(column, sql=f"t.{alias}")
            return
        if is_literal(node):
            return
        with suppress(QueryError, DataError):
            wanted = sql_name(expression(self.scope, node))
            for group in groups:
                if sql_name(group) == wanted:
                    known[id(node)] = replace(group, sql=f"t.{columns[wanted]}")
                    return
        if isinstance(node, exp.Column):
            column = self.scope.column(node)
            raise self.scope.refuse(
                node, f"column {column.name} is neither grouped nor aggregated; add it to GROUP BY or aggregate it"
            )
        for part in node.iter_expressions():
            self._settle(part, groups, columns, known, values)


def _bases(table: Table) -> tuple[str, ...]:
    if isinstance(table, DerivedTable):
        return table.bases
    return () if table.public else (table.name,)


def _grouping(column: Column) -> str:
    """A grouped column, in which every value is one: NaN is none, and −0.0 is 0."""
    if column.kind is ColumnKind.REAL and column.type in ("DOUBLE", "FLOAT"):
        value = sql_name(column)
        return f"CASE WHEN ISNAN({value}) THEN NULL ELSE {value} + 0 END"
    return sql_name(column)


def read_groups(scope: Scope, clause: exp.Expr, items: list[exp.Expr]) -> tuple[Column, ...]:
    """The columns of GROUP BY: columns, expressions, or names and places of the SELECT list."""
    scope.only(clause, "expressions")
    found: list[Column] = []
    for node in clause.expressions:
        column = expression(scope, _meant(scope, node, items))
        if column.kind is ColumnKind.OTHER:
            raise scope.refuse(node, f"GROUP BY {column.name} is not supported: it holds {column.held}")
        if sql_name(column) in map(sql_name, found):
            raise scope.refuse(node, f"column {column.name} stands twice in GROUP BY")
        found.append(column)
    return tuple(found)


def _meant(scope: Scope, node: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """What a term of GROUP BY stands for."""
    node = bare(node)
    if isinstance(node, exp.Literal) and not node.is_string:
        place = scope.value(node)
        if isinstance(place, int) and 1 <= place <= len(items):
            item = items[place - 1]
            return bare(item.this if isinstance(item, exp.Alias) else item)
        raise scope.refuse(node, f"GROUP BY {shown(node)} is not a place in the SELECT list")
    if isinstance(node, exp.Column) and not node.table and not any(t.table.has(node.name) for t in scope.tables):
        for item in items:
            if isinstance(item, exp.Alias) and item.alias.casefold() == node.name.casefold():
                return bare(item.this)
    return node


def _call(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None] | None:
    """An aggregate and the condition of its FILTER; None where a node is none."""
    if isinstance(node, exp.Filter):
        return bare(node.this), node.expression.this
    inside = isinstance(node.parent, exp.Filter) and node.arg_key == "this"
    return (node, None) if isinstance(node, exp.AggFunc) and not inside else None


def _person_value(scope: Scope, node: exp.Expr, kept: exp.Expr | None) -> tuple[str, Column]:
    """An aggregate of one unit's rows in SQL, and the column that it becomes."""
    inner, text = node.this, shown(node)

    def read(part: exp.Expr) -> Column:
        given = part if kept is None else exp.Case(ifs=[exp.If(this=kept.copy(), true=part.copy())])
        return expression(scope, given)

    scope.only(node, "this", "big_int")
    if isinstance(node, exp.CountIf):
        return _counted(f"COUNT({grids.presence(read(exp.Case(ifs=[exp.If(this=inner.copy(), true=_one())])))})", text)
    if isinstance(node, exp.Count):
        if isinstance(inner, exp.Distinct):
            scope.only(inner, "expressions")
            several = len(inner.expressions) > 1
            column = tupled(scope, node, inner.expressions) if several and kept is None else read(inner.expressions[0])
            if column.kind is ColumnKind.OTHER or (several and kept is not None):
                raise scope.refuse(node, f"{text} is not supported within a subquery")
            return _counted(f"COUNT(DISTINCT {grids.Distinct(column).read()})", text)
        if isinstance(inner, exp.Star) or (is_literal(inner) and not isinstance(bare(inner), exp.Null)):
            return _counted("COUNT(*)" if kept is None else f"COUNT({grids.presence(read(_one()))})", text)
        return _counted(f"COUNT({grids.presence(read(inner))})", text)
    makers: dict[type[exp.Expr], Callable[[Scope, exp.Expr, Column], tuple[str, Column]]] = {
        exp.Sum: _summed, exp.Avg: _summed, exp.Min: _extreme, exp.Max: _extreme,
    }  # fmt: skip
    if type(node) not in makers or not isinstance(inner, exp.Expr) or isinstance(inner, exp.Star | exp.Distinct):
        raise scope.refuse(node, f"{text} is not supported within a subquery; its aggregates are {_KNOWN} of a column")
    return makers[type(node)](scope, node, read(inner))


def _one() -> exp.Expr:
    return exp.Literal.number(1)


def _counted(sql: str, text: str) -> tuple[str, Column]:
    return sql, Column(text, ColumnKind.INTEGER, "BIGINT")


def _summed(scope: Scope, node: exp.Expr, column: Column) -> tuple[str, Column]:
    """SUM and AVG, in whole steps of a grid, so that they are the same in whatever order rows come."""
    if not column.kind.numeric:
        raise scope.refuse(node, f"{shown(node)} needs numbers; {column.name} holds {column.held}")
    stated = scope.range(column)
    if stated is not None and stated[0] < stated[1]:
        grid = grids.choose(column, stated)
    else:
        step = Fraction(1) if column.kind is ColumnKind.INTEGER else FINE
        grid = Grid(low=-WIDEST * step, high=WIDEST * step, step=step)
    steps = grids.grid_index(column, grid)
    total = person_total(f"SUM({steps})", grid.step)
    found = Column(shown(node), ColumnKind.REAL, "DOUBLE")
    if isinstance(node, exp.Sum):
        return total, found
    low, high = stated if stated is not None else (None, None)
    return f"{total} / NULLIF(COUNT({steps}), 0)", replace(found, low=low, high=high)


def person_total(sql: str, step: Fraction) -> str:
    """A whole number of steps as a float."""
    whole = f"TRY_CAST({sql} AS DOUBLE)"
    whole += f" / {double(float(step.denominator))}" if step.denominator > 1 else ""
    return whole + (f" * {double(float(step.numerator))}" if step.numerator > 1 else "")


def _extreme(scope: Scope, node: exp.Expr, column: Column) -> tuple[str, Column]:
    """MIN and MAX of one unit's own numbers or times."""
    kinds = (ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.DATE, ColumnKind.TIMESTAMP)
    if column.kind not in kinds:
        raise scope.refuse(
            node, f"{shown(node)} within a subquery needs numbers or times; CAST {column.name} to a type"
        )
    found = scope.range(column)
    low, high = found if found is not None else (None, None)
    value: Any = _grouping(column) if column.kind is ColumnKind.REAL else sql_name(column)
    if column.kind is ColumnKind.REAL and column.type != "DOUBLE":
        column = replace(column, sql=f"TRY_CAST({sql_name(column)} AS DOUBLE)", type="DOUBLE")
        value = _grouping(column)
    return f"{node.key.upper()}({value})", Column(shown(node), column.kind, column.type, None, low, high)
