"""Joins of private tables: on the id of the protected unit, to one row per key.

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
from dataclasses import replace

from sqlglot import exp

from deniable.query.parsing import refusal
from deniable.query.predicates import Reader
from deniable.query.schema import Column, Kind
from deniable.query.scope import Named, relation
from deniable.query.values import quoted

_EXACT = (Kind.INTEGER, Kind.TEXT, Kind.UNTYPED, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)


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
    columns = tuple(column for column in named.table.columns if column.kind is not Kind.OTHER)
    return replace(named, table=replace(named.table, columns=columns))


def check(reader: Reader, node: exp.Expr, named: Named, pairs: Sequence[tuple[Column, Column]]) -> None:
    """Refuse a join that is not on the ids of one person; `pairs` are the equal columns, of the joined table first."""
    owner = str(named.table.owner)
    ids = {
        other.column(other.table.find(other.table.owner))
        for other in reader.tables[:-1]
        if not other.table.public and other.table.owner is not None
    }
    mine = named.column(named.table.find(owner))
    equal = [ours for theirs, ours in pairs if theirs == mine and ours in ids]
    if not equal:
        raise reader.refuse(
            node,
            f"{named.table.name} must be joined on {owner}, the id of who is protected: a join by other columns alone "
            "makes rows that belong to two people",
        )
    for ours in equal:
        if not _alike(mine, ours):
            raise reader.refuse(
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
    texts = (Kind.TEXT, Kind.UNTYPED)
    if one.kind in texts and other.kind in texts:
        return True
    if one.kind is not other.kind:
        return False
    return one.kind in _EXACT or (one.kind is Kind.REAL and one.type == other.type in ("DOUBLE", "FLOAT"))
