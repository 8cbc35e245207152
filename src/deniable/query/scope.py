"""What a query may name: FROM and JOIN. One private table, and tables joined to it by equal columns.

`Scope` finds columns, reads literals, and refuses. Every function that reads a part of the tree takes it. `read_tables`
makes it of FROM and JOIN.

A join with a public table turns every private row into the rows of that table that match it, none, one or many. All of
them belong to the person of the private row, and limits are applied after the join, so a join that multiplies a
person's rows changes nothing about the sensitivity. Where every row is a unit of its own there is no such limit, and
the plan refuses a public table that has several rows for one key (`Join.repeats` asks it; it is public).

Joins of private tables: on the id of the protected unit, to one row per key.

**Sound.** Let p be a person, and both tables hold p's rows under p's id. If ON makes the two ids equal, every joined
row is made of rows of one person, and the joined rows of p are a function of p's rows in both tables. So adding or
removing p, with all rows in all tables, adds or removes p's joined rows and changes no others: the premise of
`bounding`, whose limits are applied after the join. That needs the ids to be equal in the join exactly when they are
the same unit. Compared as floats, 2⁵³ and 2⁵³ + 1 would be equal, and a row of one person be joined to one of another:
ids must be of one kind in both tables, and of a type that is compared as it is.

**Refused.** A join without the ids (many people to many people) makes rows that belong to two people: one of them could
change any number of the others' rows. Where every row is a unit of its own, every joined row belongs to two units.

**One row per key.** A person with n rows on either side of a join would make n² rows, which no limit after the join
keeps from filling the memory once the charge is made. So the joined table counts with one row for each combination
of the columns in ON: where a person has several, the first in the order of their columns. A join then never makes more
rows than the first table has; a table joined to itself would at best give back its rows, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from deniable.errors import DataError, QueryError
from deniable.query.parsing import refusal
from deniable.query.ranges import Range
from deniable.query.schema import Column, ColumnKind, Table, listed
from deniable.query.values import Value, column_as, common_type, quoted
from deniable.query.values import name as sql_name

FIRST = "t"
"""What the bounded SQL calls the first table, which is private."""

_DIGITS = 400
_LARGEST = 308  # powers of ten that a float holds


@dataclass(frozen=True)
class Named:
    """A table under the name that the query gives it, and the name that the bounded SQL gives it."""

    table: Table
    alias: str
    short: str
    merged: frozenset[str] = frozenset()
    """Columns, by folded name, that USING made one with those of an earlier table."""

    def column(self, column: Column) -> Column:
        """A column of the table as the query sees it. One of a public table says where its values are listed."""
        plain = quoted(column.name)
        if not self.table.public:
            return column if self.short == FIRST else replace(column, sql=f"{self.short}.{plain}")
        listing = f"SELECT DISTINCT {plain} FROM {relation(self.table)} WHERE {plain} IS NOT NULL ORDER BY 1"
        return replace(column, sql=f"{self.short}.{plain}", listing=listing)


@dataclass(frozen=True)
class Scope:
    """The tables of one query, and the ranges that are declared for their columns."""

    sql: str
    tables: tuple[Named, ...]
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """The declared ranges, by the SQL of the column or expression."""
    subquery: Callable[[exp.Expr], DerivedTable] | None = field(default=None, repr=False, compare=False)
    """Reads a subquery over the tables of the statement."""
    known: Mapping[int, Column] = field(default_factory=dict, repr=False, compare=False)
    """Nodes of the tree that stand for columns as they are, by identity: groups and aggregates of a derived table."""

    @property
    def table(self) -> Table:
        """The private table."""
        return self.tables[0].table

    @property
    def within(self) -> tuple[Scope, ...]:
        """The scopes of the derived tables."""
        derived = (named.table for named in self.tables if isinstance(named.table, DerivedTable))
        return tuple(scope for table in derived for scope in table.scopes)

    def refuse(self, node: exp.Expr, message: str) -> QueryError:
        """A refusal at the node's place."""
        return refusal(node, message, self.sql)

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node that says more than what is read from it."""
        for part, value in node.args.items():
            if value not in (None, False, []) and part not in known and not part.startswith("_"):
                raise self.refuse(node, f"{part.replace('_', ' ')} in {node.key.upper()} is not supported")

    def column(self, node: exp.Expr) -> Column:
        """The column that a node names."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise self.refuse(node, f"{shown(node)} is not supported here; name a column of {self.table.name}")
        self.only(node, "this", "table")
        known = ", ".join(named.alias for named in self.tables)
        if node.table:
            tables = [named for named in self.tables if named.alias.casefold() == node.table.casefold()]
            if not tables:
                raise self.refuse(node, f"{node.table} is not a table of this query, which reads {known}")
        else:
            having = [named for named in self.tables if named.table.has(node.name)]
            tables = [named for named in having if node.name.casefold() not in named.merged] or [self.tables[0]]
        if len(tables) > 1:
            raise self.refuse(node, f"column {node.name} is in several tables; write {known} before it, with a dot")
        return self._found(node, tables[0])

    def _found(self, node: exp.Column, named: Named) -> Column:
        try:
            found = named.table.find(node.name)
        except DataError as missing:
            text = f"; the text is written '{node.name}'" if node.this.args.get("quoted") else ""
            raise self.refuse(node, str(missing).rstrip(".") + text) from None
        if found.fragile:
            raise self.refuse(
                node,
                f"column {found.name} is of type {found.type}, which cannot be asked: some values fail when they are "
                "read; make them numbers before they come here",
            )
        return named.column(found)

    def range(self, column: Column) -> Range:
        """What a column's values lie between: computed for an expression, declared for a column."""
        if column.low is not None and column.high is not None:
            return column.low, column.high
        return self.ranges.get(sql_name(column))

    def value(self, node: exp.Expr) -> Value:
        """The value that a literal means."""
        node = bare(node)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            number = self.value(node.this)
            return -number if isinstance(number, int | Fraction) else number
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else self._number(node)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            raise self.refuse(node.parent or node, "comparing with NULL is never true; write IS NULL")
        if is_literal(node):
            return self._moment(node)
        raise self.refuse(node, f"{shown(node)} is not a value; write a number, a text or a date")

    def _number(self, node: exp.Expr) -> int | Fraction:
        text = str(node.this)
        try:
            found = Decimal(text)
        except InvalidOperation:
            raise self.refuse(node, f"{text[:40]} is not a number") from None
        # Exponents are cut before they are multiplied out: 1e999999999 would not fit in memory.
        if not found.is_finite() or not -_DIGITS < found.adjusted() < _LARGEST or len(text) > _DIGITS:
            raise self.refuse(node, f"{text[:40]} is out of the range of numbers")
        exact = Fraction(found)
        return exact.numerator if exact.denominator == 1 else exact

    def _moment(self, node: exp.Expr) -> date | datetime:
        self.only(node, "this", "to")
        target, text = node.args["to"].this, str(node.this.this)
        try:
            if target == exp.DataType.Type.DATE:
                return date.fromisoformat(text)
            if target in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ):
                found = datetime.fromisoformat(text)
                if found.tzinfo is None:
                    return found
        except ValueError:
            pass
        raise self.refuse(node, f"{shown(node)} is not a date or a time without zone; write DATE '2026-01-31'")


@dataclass(frozen=True)
class DerivedTable(Table):
    """A subquery that is used like a table: see `derived`."""

    sql: str = field(default="", repr=False, kw_only=True)
    """The SELECT that gives its rows."""
    unit: Column | None = field(default=None, kw_only=True)
    """The column that says whose a row is; it may be one that the subquery does not select."""
    single: bool = field(default=False, kw_only=True)
    """Whether every unit has one row at most."""
    bases: tuple[str, ...] = field(default=(), kw_only=True)
    """The private tables that it reads, as often as it reads them."""
    joins: tuple[Join, ...] = field(default=(), repr=False, kw_only=True)
    scopes: tuple[Scope, ...] = field(default=(), repr=False, compare=False, kw_only=True)
    """Its own scope, and those of the derived tables in it."""

    def __post_init__(self) -> None:
        """Whose a row is, is told by a name, so no two columns of the SELECT may share one, in any spelling."""
        hidden = [] if self.unit is None or self.unit.name in self.names else [self.unit.name]
        spelled = [name.casefold() for name in (*self.names, *hidden)]
        if len(set(spelled)) < len(spelled):
            raise QueryError("a subquery gives two columns one name; rename one with AS")


def owner_column(table: Table) -> Column | None:
    """The column that says whose a row of a table is; None where every row is a unit of its own."""
    if isinstance(table, DerivedTable):
        return table.unit
    return None if table.owner is None else table.find(table.owner)


def relation(table: Table) -> str:
    """A table in SQL, with its schema, so that no step of the bounded SQL can take its name."""
    return f"({table.sql})" if isinstance(table, DerivedTable) else f"temp.main.{quoted(table.name)}"


def is_literal(node: exp.Expr) -> bool:
    """Whether a node is a value as such: 3, −3, 'a', TRUE, DATE '2026-01-31'."""
    node = bare(node)
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    if type(node) is exp.Cast:
        moments = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)
        return isinstance(node.this, exp.Literal) and node.this.is_string and node.to.this in moments
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)


def written(node: exp.Expr) -> str:
    """A piece of the analyst's SQL on one line."""
    return " ".join(node.sql(dialect="duckdb", comments=False).split())


def shown(node: exp.Expr) -> str:
    """A piece of the analyst's SQL in a sentence, cut where it is long."""
    text = written(node)
    return text if len(text) <= 60 else text[:57] + "..."


def bare(node: exp.Expr | None) -> exp.Expr:
    """A node without its brackets."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node if node is not None else exp.Null()


_EXACT = (
    ColumnKind.INTEGER,
    ColumnKind.TEXT,
    ColumnKind.UNTYPED,
    ColumnKind.BOOLEAN,
    ColumnKind.DATE,
    ColumnKind.TIMESTAMP,
)


def _admit(sql: str, node: exp.Expr, named: Named, tables: Sequence[Named]) -> Named:
    """A private table that may be joined to those before it, without its columns that have no order."""
    if named.table.owner is None or tables[0].table.owner is None:
        raise refusal(
            node,
            f"{named.table.name} cannot be joined: the ledger protects single rows, and a joined row would be two of "
            "them; only tables opened by Session(…, public=…) can be joined",
            sql,
        )
    if any(other.table.name == named.table.name for other in tables):
        raise refusal(
            node,
            f"{named.table.name} cannot be joined to itself: of several rows per key one counts, which is the same row",
            sql,
        )
    columns = tuple(column for column in named.table.columns if column.kind is not ColumnKind.OTHER)
    return replace(named, table=replace(named.table, columns=columns))


def _check_ids(scope: Scope, node: exp.Expr, named: Named, pairs: Sequence[tuple[Column, Column]]) -> None:
    """Refuse a join that is not on the ids of one person; `pairs` are the equal columns, of the joined table first."""
    ids = {
        other.column(found)
        for other in scope.tables[:-1]
        if not other.table.public and (found := owner_column(other.table)) is not None
    }
    unit = owner_column(named.table)
    if unit is None:
        raise TypeError("a private table that is joined has an owner")
    mine, owner = named.column(unit), unit.name
    equal = [ours for theirs, ours in pairs if theirs == mine and ours in ids]
    if not equal:
        raise scope.refuse(
            node,
            f"{named.table.name} must be joined on {owner}, the id of who is protected: a join by other columns alone "
            "makes rows that belong to two people",
        )
    for ours in equal:
        if not same_ids(mine, ours):
            raise scope.refuse(
                node,
                f"{owner} is of type {ours.type} in one table and of type {mine.type} in {named.table.name}, so who is "
                "who may differ; store it in one type",
            )


def _one_row_per_key(named: Named, keys: Sequence[str]) -> str:
    """The joined table with one row per key, in SQL; `keys` are the columns of ON over `one`."""
    columns = [f"one.{quoted(c.name)}" for c in named.table.columns]
    # −0.0 and 0.0 are equal in an order, and not the same: as a divisor, for example.
    values = [
        f"{sql} + 0 AS {quoted(c.name)}" if c.type in ("DOUBLE", "FLOAT") else sql
        for sql, c in zip(columns, named.table.columns, strict=True)
    ]
    order = ", ".join(columns)
    number = named.table.unused("place_of_row")
    place = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {order}) AS {number}"
    listed = ", ".join(f"several.{quoted(c.name)}" for c in named.table.columns)
    return (
        f"(SELECT {listed} FROM (SELECT {', '.join(values)}, {place} FROM {relation(named.table)} AS one) AS several "
        f"WHERE several.{number} = 1)"
    )


def same_ids(one: Column, other: Column) -> bool:
    """Whether two columns tell the same people apart."""
    texts = (ColumnKind.TEXT, ColumnKind.UNTYPED)
    if one.kind in texts and other.kind in texts:
        return True
    if one.kind is not other.kind:
        return False
    return one.kind in _EXACT or (one.kind is ColumnKind.REAL and one.type == other.type in ("DOUBLE", "FLOAT"))


@dataclass(frozen=True)
class Join:
    """A table joined by equal columns."""

    table: Table
    sql: str
    """The JOIN as it stands in the bounded SQL."""
    repeats: str
    """SQL that counts the keys of which a public table has several rows."""
    columns: tuple[str, ...] = ()
    """The names of its equal columns."""


def read_tables(
    sql: str, tree: exp.Select, tables: tuple[Table, ...], subquery: Callable[[exp.Expr], DerivedTable]
) -> tuple[Scope, tuple[Join, ...]]:
    """The scope of a SELECT, and its joins; `subquery` reads those that stand in place of tables."""
    origin = tree.args.get("from_") or tree.args.get("from")
    if origin is None:
        names = listed(tuple(table.name for table in tables))
        raise refusal(tree, f"FROM is missing; the tables are {names}", sql)
    first = _named(sql, origin.this, tables, subquery, short=FIRST)
    scope, joins = Scope(sql, (first,), subquery=subquery), []
    for i, node in enumerate(tree.args.get("joins") or [], start=1):
        named = _named(sql, node.this, tables, subquery, short=f"p{i}")
        if first.table.public and not named.table.public:
            raise refusal(node.this, _PUBLIC.format(first.table.name), sql)
        named = named if named.table.public else _admit(sql, node.this, named, scope.tables)
        if named.alias.casefold() in (other.alias.casefold() for other in scope.tables):
            raise refusal(node.this, f"two tables are called {named.alias}; rename one with AS", sql)
        named = replace(named, merged=frozenset(part.name.casefold() for part in node.args.get("using") or []))
        scope = replace(scope, tables=(*scope.tables, named))
        joins.append(_join(scope, node, named))
    return scope, tuple(joins)


_PUBLIC = "{} is a public table, which needs no privacy; start with the table to protect, and JOIN"


def check_private(scope: Scope, node: exp.Expr) -> None:
    """Refuse a query of public tables alone."""
    if scope.table.public:
        raise scope.refuse(node, _PUBLIC.format(scope.table.name))


def _named(
    sql: str, node: exp.Expr, tables: tuple[Table, ...], subquery: Callable[[exp.Expr], DerivedTable], *, short: str
) -> Named:
    """The table that a node names, or the derived table that it is."""
    known = listed(tuple(table.name for table in tables))
    if isinstance(node, exp.Subquery | exp.Values):
        derived, after = subquery(node), node.args.get("alias")
        if after is not None and after.args.get("columns") and isinstance(node, exp.Subquery):
            raise refusal(node, "names of columns after a subquery are not supported; write AS within it", sql)
        called = node.alias or derived.name
        return Named(replace(derived, name=called), called, short)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise refusal(node, f"{shown(node)} is not a table; the tables are {known}", sql)
    alias = node.args.get("alias")
    for found, parts in ((node, ("this", "alias")), (alias, ("this",))):
        for part, value in found.args.items() if found is not None else ():
            if value not in (None, False, []) and part not in parts:
                what = {"db": "a schema name", "catalog": "a schema name", "joins": "a join"}.get(part, part)
                raise refusal(node, f"{what} with a table is not supported; name one table of {known}", sql)
    for table in tables:
        if table.name.casefold() == node.name.casefold():
            return Named(table, node.alias or table.name, short)
    raise refusal(node, f"there is no table {node.name}; the tables are {known}", sql)


def _join(scope: Scope, node: exp.Join, named: Named) -> Join:
    """One join: INNER or LEFT, ON equal columns or USING them."""
    scope.only(node, "this", "on", "using", "side", "kind")
    side, kind = str(node.args.get("side") or ""), str(node.args.get("kind") or "")
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        raise scope.refuse(node, f"{side or kind} JOIN is not supported; write JOIN or LEFT JOIN")
    pairs = _pairs(scope, node, named)
    if not pairs:
        raise scope.refuse(node, "a join needs ON with equal columns, or USING; a product of tables is not supported")
    if not named.table.public:
        _check_ids(scope, node, named, pairs)
    tests, keys = [], []
    for theirs, ours in pairs:
        both_untyped = theirs.kind is ours.kind is ColumnKind.UNTYPED
        type = "VARCHAR" if both_untyped else common_type(ours, theirs)
        if type is None:
            raise scope.refuse(
                node,
                f"columns {ours.name} ({ours.kind.value}) and {theirs.name} ({theirs.kind.value}) cannot be joined",
            )
        tests.append(f"{column_as(ours, type)} = {column_as(theirs, type)}")
        keys.append(column_as(theirs, type) + (" + 0" if type == "DOUBLE" else ""))
    if not named.table.public:
        ones = [quoted(theirs.name) for theirs, _ in pairs]
        place = f"{_one_row_per_key(named, [f'one.{name}' for name in ones])} AS {named.short}"
        sql = f"{'LEFT ' if side else ''}JOIN {place} ON {' AND '.join(tests)}"
        return Join(named.table, sql, "", tuple(theirs.name for theirs, _ in pairs))
    place = f"{relation(named.table)} AS {named.short}"
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    grouped = f"SELECT 1 FROM {place} WHERE {present} GROUP BY {', '.join(keys)} HAVING COUNT(*) > 1"
    return Join(
        named.table,
        f"{'LEFT ' if side else ''}JOIN {place} ON {' AND '.join(tests)}",
        f"SELECT COUNT(*) FROM ({grouped})",
        tuple(theirs.name for theirs, _ in pairs),
    )


def _pairs(scope: Scope, node: exp.Join, named: Named) -> list[tuple[Column, Column]]:
    """The equal columns of a join: of the joined table first."""
    using = [exp.column(part.name, table=named.alias) for part in node.args.get("using") or []]
    if using:
        before = replace(scope, tables=scope.tables[:-1])
        return [(scope.column(part), before.column(exp.column(part.name))) for part in using]
    on = node.args.get("on")
    found = []
    for part in on.flatten() if isinstance(on, exp.And) else [on] if on is not None else []:
        while isinstance(part, exp.Paren):
            part = part.this
        sides = [scope.column(side) for side in (part.this, part.expression)] if isinstance(part, exp.EQ) else []
        mine = [(column.sql or "").startswith(f"{named.short}.") for column in sides]
        if mine.count(True) != 1:
            raise scope.refuse(
                part,
                f"ON is supported for equal columns, one of them of {named.alias}; put other conditions into WHERE",
            )
        found.append((sides[0], sides[1]) if mine[0] else (sides[1], sides[0]))
    return found
