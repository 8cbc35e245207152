"""The bounded SQL: what the engine runs, so that no unit contributes more than its limits.

Rows that count have a unit, pass WHERE and carry declared keys; each gets a group number `g` and the whole numbers
`v1`, `v2`, … of the columns that are aggregated. When a unit may own many rows:

1. `shares`: per unit and group the number of rows, of values, and the sums.
2. `kept`: of every unit the K groups with the smallest `rank`, a keyed hash of (unit, group) whose last bits are the
   group number, so that no two groups of a unit tie.
3. Of a unit and group with more than R rows, R are chosen by a keyed hash of (unit, group, whole numbers, copy):
   `copy` numbers the rows that are alike in everything that counts, and ties of the hash are broken by those same
   numbers.

**Why others do not matter.** Every step but the last addition is computed within one unit, from its own rows as a
multiset and the key. Row order, row ids and other units' rows occur nowhere. Adding or removing a unit therefore adds
or removes its own share and changes no other share: the premise of `measures`. The hash need not be strong for that;
it decides which rows stay, and the key, fresh for every query, keeps that choice from being the same one each time.

NULL units are left out: nobody owns those rows, so nobody's limit would hold for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deniable.errors import NotSupported
from deniable.query.grids import place, presence
from deniable.query.keys import Keys
from deniable.query.limits import AtMost
from deniable.query.measures import Values
from deniable.query.reading import Question
from deniable.query.schema import Column, Kind, Table
from deniable.query.values import column_as, name, quoted

KEY_PARAMETERS = ("key_1", "key_2")
"""The two 64-bit halves of the hash key; their values are drawn at every run and are not part of the text."""

MOST_KEPT = 100_000
"""Groups per unit, at most, where they are fewer than the groups in all."""


@dataclass(frozen=True)
class Bounded:
    """The SQL text, the lists of keys it takes as parameters, and the columns it answers with."""

    text: str
    lists: dict[str, tuple[str, ...]]
    values: tuple[Values, ...]
    hashed: bool
    """Whether it needs the hash key."""


def bounded(
    question: Question,
    keys: Sequence[Keys],
    values: Sequence[Values],
    *,
    unit: Column | None,
    limits: AtMost,
    groups: int,
) -> Bounded:
    """The bounded SQL of a question; `unit` is None when every row is a unit of its own.

    It answers with a row per group that has rows: g, n (rows), and for each of `values` its count and its sum, the
    sum in two halves: h·2³² + l, because drivers turn 128-bit integers into floats.
    """
    base = _base(question, keys, values, unit=unit)
    steps = [f"base AS NOT MATERIALIZED (\n{_indent(base)}\n)"]
    hashed = False
    if unit is None:
        source, rows = "base", "COUNT(*)"
        counts, sums = [f"COUNT(v{i})" for i in _numbers(values)], [f"SUM(v{i})" for i in _numbers(values)]
    else:
        more, hashed = _limited(values, limits=limits, groups=groups)
        steps += more
        source, rows = "kept" if not values else "counted", "SUM(n)"
        counts, sums = [f"SUM(m{i})" for i in _numbers(values)], [f"SUM(s{i})" for i in _numbers(values)]
    columns = ["g", f"CAST({rows} AS BIGINT) AS n"]
    for i, count, total in zip(_numbers(values), counts, sums, strict=True):
        whole = f"COALESCE({total}, 0)"
        columns.append(f"CAST({count} AS BIGINT) AS m{i}")
        columns.append(f"CAST({whole} >> 32 AS BIGINT) AS h{i}")
        columns.append(f"CAST({whole} & 4294967295 AS BIGINT) AS l{i}")
    text = "WITH " + ",\n".join(steps) + f"\nSELECT {', '.join(columns)}\nFROM {source}\nGROUP BY g"
    lists = {_parameter(i): k.texts for i, k in enumerate(keys, start=1)}
    return Bounded(text, lists, tuple(values), hashed)


def relation(table: Table) -> str:
    """A table in SQL, with its schema, so that no step below can take its name."""
    return f"temp.main.{quoted(table.name)}"


def _base(question: Question, keys: Sequence[Keys], values: Sequence[Values], *, unit: Column | None) -> str:
    """The rows that count: unit, group number, whole numbers."""
    columns = [f"{_person(unit)} AS u"] if unit is not None else []
    columns.append(f"{_group_number(keys)} AS g")
    for i, value in enumerate(values, start=1):
        columns.append(f"{place(value.column, value.grid) if value.grid else presence(value.column)} AS v{i}")
    lines = ["SELECT " + ",\n  ".join(columns), f"FROM {relation(question.table)} AS t"]
    for i, k in enumerate(keys, start=1):
        listing = f"CAST(${_parameter(i)} AS {k.type}[])"
        keyed = f"SELECT UNNEST({listing}) AS k, UNNEST(RANGE({len(k.values)})) AS i"
        lines.append(f"JOIN ({keyed}) AS k{i} ON {column_as(k.column, k.type)} = k{i}.k")
    conditions = [f"{_person(unit)} IS NOT NULL"] if unit is not None else []
    conditions += [question.where] if question.where is not None else []
    if conditions:
        lines.append("WHERE " + " AND ".join(conditions))
    return "\n".join(lines)


def _limited(values: Sequence[Values], *, limits: AtMost, groups: int) -> tuple[list[str], bool]:
    """The steps that keep a unit within its limits, and whether they hash."""
    parts = "".join(f", COUNT(v{i}) AS m{i}, SUM(v{i}) AS s{i}" for i in _numbers(values))
    # Without values all rows of a unit and group are alike: counting the first R is the choice.
    rows = "COUNT(*)" if values else f"LEAST(COUNT(*), {limits.rows})"
    few = limits.groups < groups
    rank = f", {_rank(groups)} AS rank" if few else ""
    steps = [f"shares AS MATERIALIZED (\n  SELECT u, g, {rows} AS n{parts}{rank}\n  FROM base GROUP BY u, g\n)"]
    if few:
        if limits.groups > MOST_KEPT:
            raise NotSupported(
                f"per_unit keeps {limits.groups} groups of {groups}; at most {MOST_KEPT} are supported, or all of them"
            )
        steps.append(f"last AS (\n  SELECT u, MIN(rank, {limits.groups})[-1] AS edge FROM shares GROUP BY u\n)")
        steps.append(
            "kept AS (\n  SELECT shares.* FROM shares JOIN last ON shares.u = last.u AND shares.rank <= last.edge\n)"
        )
    else:
        steps.append("kept AS (\n  SELECT * FROM shares\n)")
    if not values:
        return steps, few
    names = [f"v{i}" for i in _numbers(values)]
    alike, listed = ", ".join(["u", "g", *names]), ", ".join(names)
    order = f"{_row_rank(names)}, {listed}, copy"
    sums = "".join(f", COUNT(v{i}) AS m{i}, SUM(v{i}) AS s{i}" for i in _numbers(values))
    whole = "".join(f", m{i}, s{i}" for i in _numbers(values))
    steps.append(
        "copies AS (\n"
        f"  SELECT base.u, base.g, {', '.join('base.' + n for n in names)}, "
        f"ROW_NUMBER() OVER (PARTITION BY {', '.join('base.' + n for n in alike.split(', '))}) AS copy\n"
        f"  FROM base JOIN kept ON base.u = kept.u AND base.g = kept.g AND kept.n > {limits.rows}\n)"
    )
    steps.append(
        f"placed AS (\n  SELECT *, ROW_NUMBER() OVER (PARTITION BY u, g ORDER BY {order}) AS place FROM copies\n)"
    )
    steps.append(
        f"counted AS (\n  SELECT g, n{whole} FROM kept WHERE n <= {limits.rows}\n  UNION ALL\n"
        f"  SELECT g, COUNT(*) AS n{sums} FROM placed WHERE place <= {limits.rows} GROUP BY u, g\n)"
    )
    return steps, True


def _rank(groups: int) -> str:
    """A 64-bit rank of (unit, group): hash bits above, the group number below, so ranks of one unit differ."""
    low = (1 << max(1, (groups - 1).bit_length())) - 1
    return f"({_mixed('g')} & {(1 << 64) - 1 - low}::UBIGINT) | g::UBIGINT"


def _row_rank(names: Sequence[str]) -> str:
    """A hash of (unit, group, whole numbers, copy)."""
    return _mixed(", ".join(["g", *names, "copy"]))


def _mixed(content: str) -> str:
    """A hash of the unit and some content. DuckDB's HASH of one 64-bit number mixes all of its bits, and mixes them
    again after each half of the key came in, so the choices of two units, and of two queries, look independent."""
    unit = f"HASH(XOR(HASH(u), ${KEY_PARAMETERS[0]}::UBIGINT))"
    return f"HASH(XOR({unit}, XOR(HASH({content}), ${KEY_PARAMETERS[1]}::UBIGINT)))"


def _person(unit: Column) -> str:
    """The unit of a row. A float id loses its NaN (no id) and its negative zero (the same id as zero)."""
    if unit.kind is Kind.REAL and unit.type in ("DOUBLE", "FLOAT"):
        return f"CASE WHEN ISNAN({name(unit)}) THEN NULL ELSE {name(unit)} + 0 END"
    return name(unit)


def _group_number(keys: Sequence[Keys]) -> str:
    """The number of a row's group: the first column of GROUP BY counts slowest."""
    terms, stride = [], 1
    for i, k in reversed(list(enumerate(keys, start=1))):
        terms.append(f"k{i}.i * {stride}" if stride > 1 else f"k{i}.i")
        stride *= len(k.values)
    return f"CAST({' + '.join(reversed(terms)) or '0'} AS INTEGER)"


def _numbers(values: Sequence[Values]) -> range:
    return range(1, len(values) + 1)


def _parameter(number: int) -> str:
    return f"keys_{number}"


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))
