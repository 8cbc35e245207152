"""The bounded SQL: what the engine runs, so that no unit contributes more than its limits.

Rows that count have a unit, pass WHERE and carry a key; the step `base` gives each its unit `u`, its group, and the
values `v1`, `v2`, … that are read of it. A group is named by columns of content: `g`, its number among the declared
keys, and `k2`, … for a column whose keys are private. `allowance` adds the steps that leave out units whole, `choice`
those that cut a unit to its limits.

NULL units are left out: nobody owns those rows, so nobody's limit would hold for them.

**Cells.** `detailed` is for aggregates that need the kept rows themselves: different values, and rows per bin. It
selects from the step `rows`, which holds the rows that stay within their unit's limits. Like every bounded SQL it
answers with totals only: one line per group, and one per group and bin that has rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.query import choice
from deniable.query.allowance import Allowance
from deniable.query.choice import AtMost, Base, Shortcut, shortcut
from deniable.query.grids import BinNumber, Distinct, Reading, Values
from deniable.query.keys import Keys
from deniable.query.measures import Cells, Totals, joined
from deniable.query.reading import ParsedQuery
from deniable.query.schema import Column, ColumnKind
from deniable.query.values import column_as, name

EVERYBODY = Allowance()
"""Nobody is left out whole."""

EVERY_ROW = "rows AS NOT MATERIALIZED (\n  SELECT * FROM base\n)"
"""The step `rows` where nothing is left out."""

_OF_ROWS = ("COUNT(*)", "COUNT(v{})", "SUM(v{})")
"""What is added up where a line is a row."""


@dataclass(frozen=True)
class Bounded:
    """The SQL text, the lists of texts it takes as parameters, and what it read of every row.

    Its parameters are those lists and, where rows are chosen, the halves of the hash key. Which of them a statement has
    is asked of its parsed form: a text that a query compares with may look like a parameter.
    """

    text: str
    lists: dict[str, tuple[str, ...]]
    values: tuple[Reading, ...]
    shortcut: Shortcut | None = None
    """A faster way to the same totals, which an engine may try."""
    rows: str = ""
    """A fingerprint of which rows count and how they are limited, whatever is read of them; empty where that is not
    told apart from the rest of the text. Statements that have it in common have totals of the same rows."""
    units: bool = False
    """Whether it counts units."""

    @property
    def statements(self) -> tuple[str, ...]:
        """Every statement that an engine may run for it."""
        easy = self.shortcut
        return (self.text,) if easy is None else (self.text, easy.peek, easy.check, easy.plain)

    @property
    def width(self) -> int:
        """How many numbers it finds in one group, at most."""
        sizes = (reading.size if isinstance(reading, BinNumber) else 2 for reading in self.values)
        return 2 + sum(sizes)

    def covers(self, other: Bounded) -> bool:
        """Whether its totals hold all that another statement would find."""
        if self.text == other.text:
            return self.lists == other.lists
        same = bool(self.rows) and self.rows == other.rows
        return same and (self.units or not other.units) and set(other.values) <= set(self.values)


def bounded(
    question: ParsedQuery,
    keys: Sequence[Keys],
    readings: Sequence[Reading],
    *,
    unit: Column | None,
    limits: AtMost | None,
    groups: int | None,
    units: bool = False,
    alike: bool = False,
    whole: Allowance = EVERYBODY,
) -> Bounded:
    """The bounded SQL of a question; `unit` is None when every row is a unit of its own, `groups` when their number is
    private, `alike` asks for the choice of rows that all engines make alike. Units beyond `whole` are left out, all
    others cut to `limits`; None where there are none to cut to.

    It answers with a row per group that has rows: the group's columns, n (rows), p (units, if asked for), and for each
    reading the count m and the sum, in two halves, h·2³² + l, because drivers turn 128-bit integers into floats.
    """
    source = base(question, keys, readings, unit=unit, whole=whole)
    people = "COUNT(DISTINCT u)" if units else None
    easier = None
    if unit is not None and whole:
        steps = kept_rows(source, limits=limits, groups=groups, alike=alike, whole=whole)
        text = _answer(source, steps, "rows", _OF_ROWS, people=people, groups=groups)
    else:
        text = plain = _answer(source, [source.step], "base", _OF_ROWS, people=people, groups=groups)
        if unit is not None and limits is not None:
            text = _chosen(source, limits=limits, groups=groups, units=units, alike=alike)
            if not alike and groups is not None:
                easier = shortcut(source.step, source.by, plain, limits=limits, groups=groups)
    return Bounded(
        text,
        lists(keys, readings),
        tuple(readings),
        easier,
        rows=_rows(question, keys, unit=unit, limits=limits, groups=groups, whole=whole),
        units=units,
    )


def _rows(
    question: ParsedQuery,
    keys: Sequence[Keys],
    *,
    unit: Column | None,
    limits: AtMost | None,
    groups: int | None,
    whole: Allowance,
) -> str:
    """A fingerprint of which rows count and how they are limited."""
    source = base(question, keys, (), unit=unit, whole=whole)
    return sha256(repr((source.select(), lists(keys), limits, groups, whole.limits)).encode()).hexdigest()


def _chosen(source: Base, *, limits: AtMost, groups: int | None, units: bool, alike: bool) -> str:
    """The totals over what stays."""
    if limits.total is not None or (alike and source.values):
        people = "COUNT(CASE WHEN place = 1 THEN 1 END)" if units else None  # a unit has one first row in a group
        choose = choice.portable_rows if alike else choice.total_rows
        steps = choose(source, limits=limits, groups=groups)
        return _answer(source, steps, "rows", _OF_ROWS, people=people, groups=groups)
    if source.values and not units and not choice.few_groups(limits, groups):
        steps = choice.rows(source, limits=limits, groups=groups)
        return _answer(source, steps, "rows", _OF_ROWS, people=None, groups=groups)
    if alike:
        steps = choice.portable_counts(source, limits=limits, groups=groups)
    else:
        steps = choice.counted(source, limits=limits, groups=groups, units=units)
    people = "COUNT(*)" if units else None
    return _answer(source, steps, "counted", ("SUM(n)", "SUM(m{})", "SUM(s{})"), people=people, groups=groups)


def _answer(
    source: Base,
    steps: Sequence[str],
    place: str,
    sums: tuple[str, str, str],
    *,
    people: str | None,
    groups: int | None,
) -> str:
    """The totals of every group over the last of some steps; `sums` give the rows, and the number and sum of values,
    `people` the units, if they are asked for."""
    rows, count, whole = sums
    columns = [*source.by, f"CAST({rows} AS BIGINT) AS n"]
    columns += [f"{people} AS p"] if people is not None else []
    for i in range(1, len(source.values) + 1):
        total = f"COALESCE({whole.format(i)}, 0)"
        columns.append(f"CAST({count.format(i)} AS BIGINT) AS m{i}")
        columns.append(f"CAST({total} >> 32 AS BIGINT) AS h{i}")
        columns.append(f"CAST({total} & 4294967295 AS BIGINT) AS l{i}")
    listed, by = ",\n".join(steps), ", ".join(source.by)
    text = f"WITH {listed}\nSELECT {', '.join(columns)}\nFROM {place}\nGROUP BY {by}"
    return text + (f"\nORDER BY {by}" if groups is None else "")


def kept_rows(
    source: Base, *, limits: AtMost | None, groups: int | None, alike: bool = False, whole: Allowance = EVERYBODY
) -> list[str]:
    """The steps of a WITH whose last one, `rows`, holds the rows that stay: u (if there are units), group, values."""
    if source.person is None or (limits is None and not whole):
        return [source.step, EVERY_ROW]
    if limits is None:
        return [source.step, *whole.leave_out(source.by, source.columns, name="rows", alike=alike)]
    choose = choice.portable_rows if alike else choice.total_rows
    if whole:
        inside = whole.leave_out(source.by, source.columns, name="inside", alike=alike)
        return [source.step, *inside, *choose(source, limits=limits, groups=groups, source="inside")]
    if alike or limits.total is not None:
        return choose(source, limits=limits, groups=groups)
    return choice.rows(source, limits=limits, groups=groups)


def base(
    question: ParsedQuery,
    keys: Sequence[Keys],
    readings: Sequence[Reading],
    *,
    unit: Column | None,
    whole: Allowance = EVERYBODY,
) -> Base:
    """The rows that count. Where units with values outside of bounds are left out, rows are marked with `o`; where
    every row is a unit, those are no rows that count."""
    group, joins, conditions = {"g": _group_number(keys)}, [], []
    for i, k in enumerate(keys, start=1):
        if k.texts is None:
            group[f"k{i}"] = _whole(k.column, k.type)
            conditions.append(f"{group[f'k{i}']} IS NOT NULL")
        elif (ends := k.run) is not None:
            conditions.append(f"{column_as(k.column, k.type)} BETWEEN {ends[0]} AND {ends[1]}")
        else:
            joins.append(f"JOIN {_listed(_keys_parameter(i), k.texts, k.type)} AS k{i} ON {_found(k, f'k{i}')}")
    for i, reading in enumerate(readings, start=1):
        if isinstance(reading, BinNumber) and reading.grid is None:
            listed = _listed(_bins_parameter(i), reading.texts, reading.type)
            joins.append(f"LEFT JOIN {listed} AS b{i} ON {_found(reading, f'b{i}')}")
    person = None if unit is None else _whole(unit, unit.type)
    conditions += [f"{person} IS NOT NULL"] if person is not None else []
    conditions += [question.where] if question.where is not None else []
    values = tuple(reading.read(f"b{i}.i") for i, reading in enumerate(readings, start=1))
    kinds = {"g": ColumnKind.INTEGER} | ({"u": unit.kind} if unit is not None else {})
    kinds |= {f"k{i}": k.column.kind for i, k in enumerate(keys, start=1) if k.private}
    kinds |= {f"v{i}": _kind(reading) for i, reading in enumerate(readings, start=1)}
    outside = whole.outside
    if unit is None and outside:
        conditions.append(f"CASE WHEN {outside} THEN 1 ELSE 0 END = 0")
        outside = ""
    return Base(question.source, person, group, values, tuple(joins), tuple(conditions), kinds, outside)


def lists(keys: Sequence[Keys], readings: Sequence[Reading] = ()) -> dict[str, tuple[str, ...]]:
    """The declared keys and categories, as parameters of the SQL."""
    found = {_keys_parameter(i): k.texts for i, k in enumerate(keys, start=1) if k.texts is not None and k.run is None}
    categories = {
        _bins_parameter(i): reading.texts
        for i, reading in enumerate(readings, start=1)
        if isinstance(reading, BinNumber) and reading.grid is None
    }
    return found | categories


def _listed(parameter: str, texts: Sequence[str], type: str) -> str:
    """A list of texts as a table of values k and their places i. The texts differ, and so do the values: see
    `keys.declare`. So no row meets two of them."""
    return f"(SELECT UNNEST(CAST(${parameter} AS {type}[])) AS k, UNNEST(RANGE({len(texts)})) AS i)"


def _found(listed: Keys | BinNumber, place: str) -> str:
    """That a row's value is one of a list."""
    return f"{column_as(listed.column, listed.type)} = {place}.k"


def _kind(reading: Reading) -> ColumnKind:
    return reading.column.kind if isinstance(reading, Distinct) else ColumnKind.INTEGER


def _whole(column: Column, type: str) -> str:
    """A column that says who or which group. A float loses its NaN (nobody) and its negative zero (the same as 0)."""
    value = name(column) if type == column.type else column_as(column, type)
    if column.kind is ColumnKind.REAL and type in ("DOUBLE", "FLOAT"):
        return f"CASE WHEN ISNAN({value}) THEN NULL ELSE {value} + 0 END"
    return value


def _group_number(keys: Sequence[Keys]) -> str:
    """The number of a row's group among the declared keys: the first column of GROUP BY counts slowest."""
    terms, stride = [], 1
    for i, k in reversed(list(enumerate(keys, start=1))):
        if k.texts is not None:
            terms.append(f"{_place(k, i)} * {stride}" if stride > 1 else _place(k, i))
            stride *= len(k.texts)
    return " + ".join(reversed(terms)) or "CAST(0 AS BIGINT)"


def _place(keys: Keys, number: int) -> str:
    """The place of a row's key among those of a column. No row can make it fail, whether or not it has one of them."""
    ends = keys.run
    if ends is None:
        return f"k{number}.i"
    small = name(keys.column) if keys.column.type == "INTEGER" else f"TRY_CAST({name(keys.column)} AS INTEGER)"
    value = f"CAST({small} AS BIGINT)"
    return f"({value} - {ends[0]})" if ends[0] else value


def _keys_parameter(number: int) -> str:
    return f"keys_{number}"


def _bins_parameter(number: int) -> str:
    return f"bins_{number}"


def detailed(
    question: ParsedQuery,
    keys: Sequence[Keys],
    readings: Sequence[Reading],
    *,
    unit: Column | None,
    limits: AtMost | None,
    groups: int | None,
    alike: bool = False,
    whole: Allowance = EVERYBODY,
) -> Bounded:
    """The bounded SQL of a question; its columns are those that `gather` reads.

    `part` is 0 in a group's line and i in the lines of the i-th reading's bins; `i` numbers the groups that have rows
    in both; `b` is the bin. A sum comes in two halves, h·2³² + l, because drivers turn 128-bit integers into floats.
    """
    source = base(question, keys, readings, unit=unit, whole=whole)
    steps = kept_rows(source, limits=limits, groups=groups, alike=alike, whole=whole)
    text = _lines(source, steps, readings)
    easier = None
    if unit is not None and limits is not None and not whole and groups is not None and not alike:
        plain = _lines(source, [source.step, EVERY_ROW], readings)
        easier = shortcut(source.step, source.by, plain, limits=limits, groups=groups)
    rows = _rows(question, keys, unit=unit, limits=limits, groups=groups, whole=whole)
    return Bounded(text, lists(keys, readings), tuple(readings), easier, rows=rows, units=True)


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
