"""What is public about a table: its name, its columns and their kinds.

A plan is made from this and from nothing else. Kinds are families of types: all that the bounded SQL needs to know to
be total. A column of a CSV file is `UNTYPED`: guessing a type from its rows would let one person's row change the
type for everybody, so its text is read as whatever the query compares it with, row by row.

>>> visits = Table("visits", (Column("city", ColumnKind.TEXT, "VARCHAR"), Column("cost", ColumnKind.REAL, "DOUBLE")))
>>> visits.find("COST").name
'cost'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from deniable.errors import DataError


class ColumnKind(Enum):
    """A family of column types, in the word used in messages."""

    INTEGER = "whole numbers"
    REAL = "numbers"
    TEXT = "text"
    UNTYPED = "untyped text"
    BOOLEAN = "true or false"
    DATE = "dates"
    TIMESTAMP = "timestamps"
    OTHER = "a type that cannot be compared"

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, or are read as numbers when bounds say so."""
        return self in (ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.UNTYPED)


_TOTAL = frozenset(
    {
        "NULL", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
        "UBIGINT", "UHUGEINT", "BIGNUM", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "BLOB", "BIT", "UUID", "DATE", "ENUM",
        "STRUCT", "MAP",
    }
)  # fmt: skip
"""DuckDB's types whose values cannot fail when they are read, also inside lists and structs."""
_QUOTED = re.compile(r"\"(?!NULL\")[^\"]*\"|'[^']*'")
"""Names of a struct's fields, and the values of an enum."""
_TYPE_NAME = re.compile(r"\b[A-Z_]+\b")


@dataclass(frozen=True)
class Column:
    """A column of a table, or an expression that is used like one: its name, its kind, the engine's name of its type.

    What is known of an expression beyond that is public too: it follows from the SQL and from declared bounds.
    """

    name: str
    kind: ColumnKind
    type: str
    sql: str | None = None
    """The total SQL of an expression or of a joined column; None for a column of the queried table."""
    low: Fraction | None = None
    high: Fraction | None = None
    """What the values of an expression lie between, as far as declared bounds of its inputs tell; both or neither."""
    domain: tuple[Any, ...] | None = None
    """All values that an expression can have, where the SQL itself lists them."""
    listing: str | None = None
    """SQL that lists the values of a column of a public table."""
    merged: str | None = None
    """Why values that differ may be read as one, so that it cannot say who is who; None where they are told apart."""

    @property
    def held(self) -> str:
        """What its values are, for a message."""
        return f"{self.type}, {self.kind.value}" if self.kind is ColumnKind.OTHER else str(self.kind.value)

    @property
    def fragile(self) -> bool:
        """Whether a row may make reading it fail. DuckDB decodes times of day, durations, JSON, and times inside lists
        or structs as it reads them, and knows no other way."""
        return self.kind is ColumnKind.OTHER and not set(_TYPE_NAME.findall(_QUOTED.sub("", self.type))) <= _TOTAL

    @property
    def wide(self) -> bool:
        """Whether its whole numbers may not fit 64 bits with a sign."""
        return self.type in ("UBIGINT", "HUGEINT", "UHUGEINT")


@dataclass(frozen=True)
class Table:
    """A table that a query may name. What is in a public table may be known to everybody."""

    name: str
    columns: tuple[Column, ...]
    public: bool = False
    owner: str | None = None
    """The column that says whose a row is; None for a public table, and where every row is a unit of its own."""

    def has(self, name: str) -> bool:
        """Whether `find` would find this column."""
        return any(column.name.casefold() == name.casefold() for column in self.columns)

    def find(self, name: str) -> Column:
        """The column of this name: spelled exactly, or else in another case, as SQL reads names."""
        for column in self.columns:
            if column.name == name:
                return column
        for column in self.columns:
            if column.name.casefold() == name.casefold():
                return column
        raise DataError(f"table {self.name} has no column {name}; its columns are {listed(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in the table's order."""
        return tuple(column.name for column in self.columns)

    def unused(self, stem: str) -> str:
        """How no column's name begins, for columns that are added: none may take the place of one that is there."""
        while any(name.casefold().startswith(stem) for name in self.names):
            stem += "_"
        return stem


def listed(names: tuple[str, ...], *, most: int = 20) -> str:
    """Names in a sentence, not more than a reader can take in.

    >>> listed(("a", "b")), listed(("a", "b", "c"), most=2)
    ('a, b', 'a, b and 1 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


@dataclass(frozen=True)
class KeyOutput:
    """A column of the answer that holds a group's key."""

    name: str
    column: Column


@dataclass(frozen=True)
class AggregateOutput:
    """A column of the answer that holds a released number: `function` of `column`, or of the rows when it is None."""

    name: str
    function: str
    column: Column | None
    text: str
    """ "AVG(cost)"."""
    level: Fraction | None = None
    """Which quantile."""
    distinct: bool = False
