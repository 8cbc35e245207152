"""The bounded SQL of aggregates that need the kept rows themselves: different values, and rows per bin.

It selects from the step `rows` of `bounding`, which holds the rows that stay within their unit's limits. Like every
bounded SQL it answers with totals only: one line per group, and one per group and bin that has rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.query import bounding
from deniable.query.bounding import EVERY_ROW, Bounded
from deniable.query.choice import Base
from deniable.query.keys import Keys
from deniable.query.limits import AtMost
from deniable.query.measures import Cells, Totals, joined
from deniable.query.reading import ParsedQuery
from deniable.query.readings import BinNumber, Distinct, Reading, Values
from deniable.query.schema import Column
from deniable.query.shortcut import shortcut


def detailed(
    question: ParsedQuery,
    keys: Sequence[Keys],
    readings: Sequence[Reading],
    *,
    unit: Column | None,
    limits: AtMost,
    groups: int | None,
    alike: bool = False,
) -> Bounded:
    """The bounded SQL of a question; its columns are those that `gather` reads.

    `part` is 0 in a group's line and i in the lines of the i-th reading's bins; `i` numbers the groups that have rows
    in both; `b` is the bin. A sum comes in two halves, h·2³² + l, because drivers turn 128-bit integers into floats.
    """
    steps = bounding.rows(question, keys, readings, unit=unit, limits=limits, groups=groups, alike=alike)
    source = bounding.base(question, keys, readings, unit=unit)
    text = _lines(source, steps, readings)
    easier = None
    if unit is not None and groups is not None and not alike:
        plain = _lines(source, [source.step, EVERY_ROW], readings)
        easier = shortcut(source.step, source.by, plain, limits=limits, groups=groups)
    return Bounded(text, bounding.lists(keys, readings), tuple(readings), easier)


def _lines(source: Base, steps: Sequence[str], readings: Sequence[Reading]) -> str:
    """The lines of every group over the step `rows`."""
    by = ", ".join(source.by)
    people = "COUNT(DISTINCT u)" if source.person is not None else "COUNT(*)"
    lines = [
        f"SELECT 0 AS part, {by}, 0 AS b, COUNT(*) AS n, {people} AS p{_totals(readings)}\nFROM rows GROUP BY {by}"
    ]
    lines += [
        f"SELECT {i}, {by}, CAST(v{i} AS BIGINT), COUNT(*), 0{_nothing(readings)}\n"
        f"FROM rows WHERE v{i} IS NOT NULL GROUP BY {by}, v{i}"
        for i, reading in enumerate(readings, start=1)
        if isinstance(reading, BinNumber)
    ]
    # The number of a group serves to tell the lines of a group apart from others; no choice depends on it.
    number = f"DENSE_RANK() OVER (ORDER BY {by}) - 1 AS i"
    listed = ",\n".join([*steps, "counted AS (\n" + "\nUNION ALL\n".join(lines) + "\n)"])
    return f"WITH {listed}\nSELECT *, {number} FROM counted"


def _totals(readings: Sequence[Reading]) -> str:
    """The totals of a group's line."""
    found = ""
    for i, reading in enumerate(readings, start=1):
        if isinstance(reading, Values):
            whole = f"COALESCE(SUM(v{i}), 0)"
            found += f", COUNT(v{i}) AS m{i}, CAST({whole} >> 32 AS BIGINT) AS h{i}"
            found += f", CAST({whole} & 4294967295 AS BIGINT) AS l{i}"
        elif isinstance(reading, Distinct):
            found += f", COUNT(DISTINCT v{i}) AS d{i}"
    return found


def _nothing(readings: Sequence[Reading]) -> str:
    """As many zeros."""
    return ", 0" * sum({Values: 3, Distinct: 1, BinNumber: 0}[type(reading)] for reading in readings)


def gather(bounded: Bounded, found: dict[str, NDArray[Any]], *, groups: int | None) -> Totals:
    """The lines of `detailed` as totals: over all `groups`, or over those found when their number is private."""
    part, lines = found["part"].astype(np.int64), found["i"].astype(np.int64)
    heads = np.flatnonzero(part == 0)
    heads = heads[np.argsort(lines[heads])]
    numbers = found["g"].astype(np.int64)
    size = len(heads) if groups is None else groups
    places = np.arange(len(heads)) if groups is None else numbers[heads]

    def filled(column: str) -> NDArray[np.int64]:
        whole = np.zeros(size, dtype=np.int64)
        whole[places] = found[column][heads].astype(np.int64, casting="safe")
        return whole

    counts: dict[Values, NDArray[Any]] = {}
    sums: dict[Values, NDArray[Any]] = {}
    distincts: dict[Distinct, NDArray[Any]] = {}
    cells: dict[BinNumber, Cells] = {}
    for i, reading in enumerate(bounded.values, start=1):
        if isinstance(reading, Values):
            counts[reading], sums[reading] = filled(f"m{i}"), joined(filled(f"h{i}"), filled(f"l{i}"))
        elif isinstance(reading, Distinct):
            distincts[reading] = filled(f"d{i}")
        else:
            mine = np.flatnonzero(part == i)
            rows = lines[mine] if groups is None else numbers[mine]
            cells[reading] = Cells(rows, found["b"][mine].astype(np.int64), found["n"][mine].astype(np.int64))
    keys = {int(name[1:]): found[name][heads] for name in found if name[0] == "k" and name[1:].isdigit()}
    return Totals(
        filled("n"), counts, sums, filled("p"), distincts, cells, numbers[heads] if groups is None else None, keys
    )
