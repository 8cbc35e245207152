"""The bounded SQL: what the engine runs, so that no unit contributes more than its limits.

Rows that count have a unit, pass WHERE and carry a key; the step `base` gives each its unit `u`, its group, and the
values `v1`, `v2`, … that are read of it. A group is named by columns of content: `g`, its number among the declared
keys, and `k2`, … for a column whose keys are private. `choice` adds the steps that keep a unit within its limits.

NULL units are left out: nobody owns those rows, so nobody's limit would hold for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deniable.query import choice
from deniable.query.choice import KEY_PARAMETERS, Base
from deniable.query.keys import Keys
from deniable.query.limits import AtMost
from deniable.query.reading import Question
from deniable.query.readings import Reading
from deniable.query.schema import Column, Kind
from deniable.query.values import column_as, name

__all__ = ["KEY_PARAMETERS", "Bounded", "base", "bounded", "lists", "rows"]


@dataclass(frozen=True)
class Bounded:
    """The SQL text, the lists of keys it takes as parameters, and what it read of every row."""

    text: str
    lists: dict[str, tuple[str, ...]]
    values: tuple[Reading, ...]
    hashed: bool
    """Whether it needs the hash key."""


def bounded(
    question: Question,
    keys: Sequence[Keys],
    readings: Sequence[Reading],
    *,
    unit: Column | None,
    limits: AtMost,
    groups: int | None,
    units: bool = False,
) -> Bounded:
    """The bounded SQL of a question; `unit` is None when every row is a unit of its own, `groups` when their number is
    private.

    It answers with a row per group that has rows: the group's columns, n (rows), p (units, if asked for), and for each
    reading the count m and the sum, in two halves, h·2³² + l, because drivers turn 128-bit integers into floats.
    """
    source = base(question, keys, readings, unit=unit)
    if unit is None:
        steps, place, row, each = [source.step], "base", "COUNT(*)", ("COUNT(v{})", "SUM(v{})")
    else:
        steps, place = choice.counted(source, limits=limits, groups=groups, units=units), "counted"
        row, each = "SUM(n)", ("SUM(m{})", "SUM(s{})")
    columns = [*source.by, f"CAST({row} AS BIGINT) AS n"]
    columns += ["COUNT(*) AS p"] if units else []
    for i in range(1, len(readings) + 1):
        count, whole = each[0].format(i), f"COALESCE({each[1].format(i)}, 0)"
        columns.append(f"CAST({count} AS BIGINT) AS m{i}")
        columns.append(f"CAST({whole} >> 32 AS BIGINT) AS h{i}")
        columns.append(f"CAST({whole} & 4294967295 AS BIGINT) AS l{i}")
    listed = ",\n".join(steps)
    by = ", ".join(source.by)
    text = f"WITH {listed}\nSELECT {', '.join(columns)}\nFROM {place}\nGROUP BY {by}"
    text += f"\nORDER BY {by}" if groups is None else ""
    return Bounded(text, lists(keys), tuple(readings), any(f"${parameter}" in text for parameter in KEY_PARAMETERS))


def rows(
    question: Question,
    keys: Sequence[Keys],
    readings: Sequence[Reading],
    *,
    unit: Column | None,
    limits: AtMost,
    groups: int | None,
) -> list[str]:
    """The steps of a WITH whose last one, `rows`, holds the rows that stay: u (if there are units), group, values."""
    source = base(question, keys, readings, unit=unit)
    if unit is None:
        return [source.step, "rows AS NOT MATERIALIZED (\n  SELECT * FROM base\n)"]
    return choice.rows(source, limits=limits, groups=groups)


def base(question: Question, keys: Sequence[Keys], readings: Sequence[Reading], *, unit: Column | None) -> Base:
    """The rows that count."""
    group, joins, conditions = {"g": _group_number(keys)}, [], []
    for i, k in enumerate(keys, start=1):
        if k.texts is None:
            group[f"k{i}"] = _whole(k.column, k.type)
            conditions.append(f"{group[f'k{i}']} IS NOT NULL")
        else:
            listing = f"CAST(${_parameter(i)} AS {k.type}[])"
            keyed = f"SELECT UNNEST({listing}) AS k, UNNEST(RANGE({len(k.texts)})) AS i"
            joins.append(f"JOIN ({keyed}) AS k{i} ON {column_as(k.column, k.type)} = k{i}.k")
    person = None if unit is None else _whole(unit, unit.type)
    conditions += [f"{person} IS NOT NULL"] if person is not None else []
    conditions += [question.where] if question.where is not None else []
    values = tuple(reading.sql for reading in readings)
    return Base(question.source, person, group, values, tuple(joins), tuple(conditions))


def lists(keys: Sequence[Keys]) -> dict[str, tuple[str, ...]]:
    """The declared keys, as parameters of the SQL."""
    return {_parameter(i): k.texts for i, k in enumerate(keys, start=1) if k.texts is not None}


def _whole(column: Column, type: str) -> str:
    """A column that says who or which group. A float loses its NaN (nobody) and its negative zero (the same as 0)."""
    value = name(column) if type == column.type else column_as(column, type)
    if column.kind is Kind.REAL and type in ("DOUBLE", "FLOAT"):
        return f"CASE WHEN ISNAN({value}) THEN NULL ELSE {value} + 0 END"
    return value


def _group_number(keys: Sequence[Keys]) -> str:
    """The number of a row's group among the declared keys: the first column of GROUP BY counts slowest."""
    terms, stride = [], 1
    for i, k in reversed(list(enumerate(keys, start=1))):
        if k.texts is not None:
            terms.append(f"k{i}.i * {stride}" if stride > 1 else f"k{i}.i")
            stride *= len(k.texts)
    return " + ".join(reversed(terms)) or "CAST(0 AS BIGINT)"


def _parameter(number: int) -> str:
    return f"keys_{number}"
