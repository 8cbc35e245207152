"""Made-up tables of a given schema, for rehearsals. Nothing here reads a table: rows are made from lists of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deniable.query.bounding import Bounded
from deniable.query.engines.duckdb import DuckDB
from deniable.query.schema import Table
from deniable.query.values import quoted

Pools = Mapping[str, Sequence[str | None]]
"""Texts that the values of each column are made from, by the column's name."""


class FakeDuckDB(DuckDB):
    """A DuckDB whose tables are made up."""

    def fill(self, table: Table, pools: Pools, *, rows: int) -> None:
        """A table of these columns, whose values go through each pool in a rhythm of its own.

        A text that its column's type cannot hold is NULL there.
        """
        listed, parameters = [], {}
        for number, column in enumerate(table.columns):
            pool = list(pools.get(column.name, ())) or [None]
            parameters[f"p{number}"] = pool
            # Different strides, so that columns of equal length do not move together.
            place = f"1 + CAST(HASH(i, {number}) % {len(pool)} AS BIGINT)"
            text = f"LIST_EXTRACT(CAST($p{number} AS VARCHAR[]), {place})"
            listed.append(f"TRY_CAST({text} AS {column.type}) AS {quoted(column.name)}")
        with self._lock:
            self._connection.execute(
                f"CREATE TEMP TABLE {quoted(table.name)} AS SELECT {', '.join(listed)} FROM RANGE({int(rows)}) AS r(i)",
                parameters,
            )

    def _computed(self, bounded: Bounded, key: tuple[int, int]) -> dict[str, Any]:
        """Whatever the made-up rows are like, all SQL is tried."""
        easy = bounded.shortcut
        for text in () if easy is None else (easy.peek, easy.check, easy.plain):
            super()._computed(Bounded(text, bounded.lists, bounded.values), key)
        return super()._computed(replace(bounded, shortcut=None), key)
