"""FROM and JOIN: one private table, and tables joined to it by equal columns: public ones, or those of `private_joins`.

A join with a public table turns every private row into the rows of that table that match it, none, one or many. All of
them belong to the person of the private row, and limits are applied after the join, so a join that multiplies a
person's rows changes nothing about the sensitivity. Where every row is a unit of its own there is no such limit, and
the plan refuses a public table that has several rows for one key (`Join.repeats` asks it; it is public).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from deniable.query import private_joins
from deniable.query.parsing import refusal
from deniable.query.predicates import Reader, common_type
from deniable.query.schema import Column, Kind, Table, listed
from deniable.query.scope import FIRST, Named, relation, shown
from deniable.query.values import column_as, quoted


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


def read_tables(sql: str, tree: exp.Select, tables: tuple[Table, ...]) -> tuple[Reader, tuple[Join, ...]]:
    """The reader of a query's columns, and its joins."""
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
    reader, joins = Reader(sql, (first,)), []
    for i, node in enumerate(tree.args.get("joins") or [], start=1):
        named = _named(sql, node.this, tables, short=f"p{i}")
        named = named if named.table.public else private_joins.admitted(sql, node.this, named, reader.tables)
        if named.alias.casefold() in (other.alias.casefold() for other in reader.tables):
            raise refusal(node.this, f"two tables are called {named.alias}; rename one with AS", sql)
        named = replace(named, merged=frozenset(part.name.casefold() for part in node.args.get("using") or []))
        reader = Reader(sql, (*reader.tables, named))
        joins.append(_join(reader, node, named))
    return reader, tuple(joins)


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


def _join(reader: Reader, node: exp.Join, named: Named) -> Join:
    """One join: INNER or LEFT, ON equal columns or USING them."""
    reader.only(node, "this", "on", "using", "side", "kind")
    side, kind = str(node.args.get("side") or ""), str(node.args.get("kind") or "")
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        raise reader.refuse(node, f"{side or kind} JOIN is not supported; write JOIN or LEFT JOIN")
    pairs = _pairs(reader, node, named)
    if not pairs:
        raise reader.refuse(node, "a join needs ON with equal columns, or USING; a product of tables is not supported")
    if not named.table.public:
        private_joins.check(reader, node, named, pairs)
    tests, keys = [], []
    for theirs, ours in pairs:
        both_untyped = theirs.kind is ours.kind is Kind.UNTYPED
        type = "VARCHAR" if both_untyped else common_type(ours, theirs)
        if type is None:
            raise reader.refuse(
                node,
                f"columns {ours.name} ({ours.kind.value}) and {theirs.name} ({theirs.kind.value}) cannot be joined",
            )
        tests.append(f"{column_as(ours, type)} = {column_as(theirs, type)}")
        keys.append(column_as(theirs, type) + (" + 0" if type == "DOUBLE" else ""))
    if not named.table.public:
        ones = [quoted(theirs.name) for theirs, _ in pairs]
        place = f"{private_joins.source(named, [f'one.{name}' for name in ones])} AS {named.short}"
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


def _pairs(reader: Reader, node: exp.Join, named: Named) -> list[tuple[Column, Column]]:
    """The equal columns of a join: of the joined table first."""
    using = [exp.column(part.name, table=named.alias) for part in node.args.get("using") or []]
    if using:
        before = Reader(reader.sql, reader.tables[:-1])
        return [(reader.column(part), before.column(exp.column(part.name))) for part in using]
    on = node.args.get("on")
    found = []
    for part in on.flatten() if isinstance(on, exp.And) else [on] if on is not None else []:
        while isinstance(part, exp.Paren):
            part = part.this
        sides = [reader.column(side) for side in (part.this, part.expression)] if isinstance(part, exp.EQ) else []
        mine = [(column.sql or "").startswith(f"{named.short}.") for column in sides]
        if mine.count(True) != 1:
            raise reader.refuse(
                part,
                f"ON is supported for equal columns, one of them of {named.alias}; put other conditions into WHERE",
            )
        found.append((sides[0], sides[1]) if mine[0] else (sides[1], sides[0]))
    return found
