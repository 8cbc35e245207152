"""FROM and JOIN: one private table, and tables joined to it by equal columns: public ones, or those of `private_joins`.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from deniable.query.parsing import refusal
from deniable.query.schema import Column, ColumnKind, Table, listed
from deniable.query.scope import FIRST, Named, Scope, relation, shown
from deniable.query.values import column_as, common_type, quoted

_EXACT = (
    ColumnKind.INTEGER,
    ColumnKind.TEXT,
    ColumnKind.UNTYPED,
    ColumnKind.BOOLEAN,
    ColumnKind.DATE,
    ColumnKind.TIMESTAMP,
)


def admitted(sql: str, node: exp.Expr, named: Named, tables: Sequence[Named]) -> Named:
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


def check(scope: Scope, node: exp.Expr, named: Named, pairs: Sequence[tuple[Column, Column]]) -> None:
    """Refuse a join that is not on the ids of one person; `pairs` are the equal columns, of the joined table first."""
    owner = str(named.table.owner)
    ids = {
        other.column(other.table.find(other.table.owner))
        for other in scope.tables[:-1]
        if not other.table.public and other.table.owner is not None
    }
    mine = named.column(named.table.find(owner))
    equal = [ours for theirs, ours in pairs if theirs == mine and ours in ids]
    if not equal:
        raise scope.refuse(
            node,
            f"{named.table.name} must be joined on {owner}, the id of who is protected: a join by other columns alone "
            "makes rows that belong to two people",
        )
    for ours in equal:
        if not _alike(mine, ours):
            raise scope.refuse(
                node,
                f"{owner} is of type {ours.type} in one table and of type {mine.type} in {named.table.name}, so who is "
                "who may differ; store it in one type",
            )


def source(named: Named, keys: Sequence[str]) -> str:
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


def _alike(one: Column, other: Column) -> bool:
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


def read_tables(sql: str, tree: exp.Select, tables: tuple[Table, ...]) -> tuple[Scope, tuple[Join, ...]]:
    """The scope of a query, and its joins."""
    origin = tree.args.get("from_") or tree.args.get("from")
    if origin is None:
        names = listed(tuple(table.name for table in tables))
        raise refusal(tree, f"FROM is missing; the tables are {names}", sql)
    first = _named(sql, origin.this, tables, short=FIRST)
    if first.table.public:
        raise refusal(
            origin.this,
            f"{first.table.name} is a public table, which needs no privacy; start with the table to protect, and JOIN",
            sql,
        )
    scope, joins = Scope(sql, (first,)), []
    for i, node in enumerate(tree.args.get("joins") or [], start=1):
        named = _named(sql, node.this, tables, short=f"p{i}")
        named = named if named.table.public else admitted(sql, node.this, named, scope.tables)
        if named.alias.casefold() in (other.alias.casefold() for other in scope.tables):
            raise refusal(node.this, f"two tables are called {named.alias}; rename one with AS", sql)
        named = replace(named, merged=frozenset(part.name.casefold() for part in node.args.get("using") or []))
        scope = Scope(sql, (*scope.tables, named))
        joins.append(_join(scope, node, named))
    return scope, tuple(joins)


def _named(sql: str, node: exp.Expr, tables: tuple[Table, ...], *, short: str) -> Named:
    """The table that a node names."""
    known = listed(tuple(table.name for table in tables))
    if isinstance(node, exp.Subquery | exp.Select):
        raise refusal(node, "a subquery is not supported; name a table", sql)
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
        check(scope, node, named, pairs)
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
        place = f"{source(named, [f'one.{name}' for name in ones])} AS {named.short}"
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
        before = Scope(scope.sql, scope.tables[:-1])
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
