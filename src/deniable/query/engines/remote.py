"""What engines elsewhere share: what they know of tables, copies of public ones, and answers as arrays.

Public tables are read once, when a session is opened, into a DuckDB of our own: what a plan is told about them (their
keys, whether a key repeats) stays true, and asking them needs no rights in the database. They travel with every query.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import DataError
from deniable.query.bounding import Bounded
from deniable.query.engines.duckdb import DuckDB
from deniable.query.functions import calendar
from deniable.query.schema import Column, ColumnKind, Table
from deniable.query.values import quoted

MOST_PUBLIC = 1_000_000
"""Rows of a public table that may travel with a query."""

_SHIPPED = {
    ColumnKind.INTEGER: "BIGINT", ColumnKind.REAL: "DOUBLE", ColumnKind.TEXT: "VARCHAR", ColumnKind.UNTYPED: "VARCHAR",
    ColumnKind.BOOLEAN: "BOOLEAN", ColumnKind.DATE: "DATE", ColumnKind.TIMESTAMP: "TIMESTAMP",
}  # fmt: skip


class FetchedTable(NamedTuple):
    """A table that was fetched from an engine: the columns as they are known here, and their values."""

    columns: tuple[Column, ...]
    values: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, columns: tuple[Column, ...], rows: Sequence[Sequence[Any]]) -> FetchedTable:
        """A table of rows, of which there may be none."""
        return cls(columns, [list(values) for values in zip(*rows, strict=True)] or [[] for _ in columns])


class Copies(DuckDB):
    """Public tables, in a DuckDB of our own."""

    def keep(self, name: str, rows: FetchedTable) -> Table:
        """A copy of a table that was fetched."""
        check_size(name, len(rows.values[0]) if rows.values else 0)
        listed = ", ".join(
            f"CAST(UNNEST(CAST(${i} AS {_list_type(column)})) AS {column.type}) AS {quoted(column.name)}"
            for i, column in enumerate(rows.columns, start=1)
        )
        with self._lock:
            self._connection.execute(
                f"CREATE TEMP TABLE {quoted(name)} AS SELECT {listed}", [list(values) for values in rows.values]
            )
        return Table(name, rows.columns, public=True)

    def shipped(self, table: Table) -> FetchedTable:
        """A table as it travels: wide types, and NULL or a text for what cannot be compared.

        It is kept as it travels, too: whether keys repeat is asked of what is kept, and two decimals may be one float.
        """
        columns = tuple(
            Column(column.name, column.kind, _SHIPPED.get(column.kind, "VARCHAR")) for column in table.columns
        )
        listed = ", ".join(f"TRY_CAST({_within(c)} AS {c.type}) AS {quoted(c.name)}" for c in columns)
        known, place = quoted(table.name), f"temp.main.{quoted(table.name)}"
        with self._lock:
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {known} AS SELECT {listed} FROM {place}")
        found = self.look(f"SELECT * FROM {place}")
        check_size(table.name, len(found))
        return FetchedTable.of(columns, found)


class Remote(ABC):
    """An engine elsewhere: what it knows of tables, and copies of those that are public."""

    alike = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copies = Copies()
        self._tables: dict[str, Table] = {}
        self._sources: dict[str, str] = {}
        """What stands for each table after FROM."""
        self._bound: set[str] = set()
        """Statements that the engine has bound, as they are in bounded SQL."""

    def add(self, name: str, data: Any, *, public: bool = False, unit: str | None = None) -> Table:
        self._tables[name] = self._public(name, data) if public else self._private(name, data)
        return self._tables[name]

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        return self._copies.look(sql)

    def bind(self, bounded: Bounded) -> None:
        if bounded.text not in self._bound:
            self._bind(bounded)
            self._bound.add(bounded.text)

    @abstractmethod
    def _bind(self, bounded: Bounded) -> None:
        """Let the engine read a statement and plan it, without a row."""

    @abstractmethod
    def _private(self, name: str, data: Any) -> Table:
        """A table that stays where it is."""

    @abstractmethod
    def _fetched_rows(self, name: str, data: Any) -> FetchedTable | None:
        """All rows of a public table that this engine holds; None for data that are here."""

    @abstractmethod
    def _ship(self, name: str, rows: FetchedTable) -> None:
        """Make ready a public table that travels."""

    def _public(self, name: str, data: Any) -> Table:
        rows = self._fetched_rows(name, data)
        table = self._copies.add(name, data, public=True) if rows is None else self._copies.keep(name, rows)
        shipped = self._copies.shipped(table)
        self._ship(name, shipped)
        return Table(name, shipped.columns, public=True)


def check_size(name: str, rows: int) -> None:
    """Refuse a public table that is too large to travel."""
    if rows > MOST_PUBLIC:
        raise DataError(f"the public table {name} has {rows} rows; at most {MOST_PUBLIC} can travel with a query")


def arrays(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, NDArray[Any]]:
    """An engine's rows as the columns that `base.totals` reads: whole numbers, but for keys that were found."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: _array(name, values) for name, values in zip(names, columns, strict=True)}


def _array(name: str, values: Sequence[Any]) -> NDArray[Any]:
    if not (name[0] == "k" and name[1:].isdigit()):
        return np.array([int(value) for value in values], dtype=np.int64)
    if values and isinstance(values[0], date):
        return np.array(values, dtype="datetime64[us]")
    if values and isinstance(values[0], bool | int | float):
        return np.array(values)
    return np.array(values, dtype=object)


def _within(column: Column) -> str:
    """A column in SQL; a date or time outside of what Python can hold, as infinity is, is NULL."""
    if column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        return calendar(f"TRY_CAST({quoted(column.name)} AS TIMESTAMP)")
    return quoted(column.name)


def _list_type(column: Column) -> str:
    return f"{column.type}[]" if column.kind is not ColumnKind.OTHER else "VARCHAR[]"
