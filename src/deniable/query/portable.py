"""The rule of `choice` in SQL that every engine computes alike: a fixed key keeps the same rows on all of them.

Groups of a unit, and rows of a unit and group, are ranked by MD5 of a text: the key, the unit, and the content, each
written so that engines agree on every letter (`spelled`). A unit keeps its K first groups, and R first rows in each.
`choice` is faster, with functions that DuckDB alone has; this is what Spark and PostgreSQL run, and DuckDB in a session
with a fixed key.

1. `ranked`, `chosen`: the rows of each unit's K first groups. Only these go on.
2. `copies`: how many rows a unit has in a group, and which of those that are alike in all that counts a row is.
3. `placed`, `rows`: the R first rows of a unit and group. Ranks are computed where there are more than R.

Every step reads the one before, once: the table itself is read once, and on Spark rows move once, to where those of
their unit are.

The argument is that of `choice`. Every step but the last addition looks at one unit, at its rows as a multiset, and at
the key. MD5 need not be strong for that, and two contents that are spelled alike do no harm: ties are broken by the
content itself, and at most K groups and R rows stay in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

from deniable.query.choice import KEY_PARAMETERS, Base
from deniable.query.functions import calendar
from deniable.query.limits import AtMost
from deniable.query.schema import ColumnKind

_LARGEST = "9.0e18"
"""Within what fits 64 bits."""


def counted(base: Base, *, limits: AtMost, groups: int | None) -> list[str]:
    """The steps up to `counted`, where no values are read: the number n of rows per unit and group that stay. All rows
    of a unit and group are alike, so counting the first R is the choice."""
    by = ", ".join(base.by)
    steps = [base.step, f"shares AS (\n  SELECT u, {by}, COUNT(*) AS n FROM base GROUP BY u, {by}\n)"]
    source = "shares"
    if _few(limits, groups):
        steps.append(f"ranked AS (\n  SELECT u, {by}, n, {_place_of_group(base)} FROM shares\n)")
        source = f"ranked WHERE place <= {limits.groups}"
    return [*steps, f"counted AS (\n  SELECT u, {by}, LEAST(n, {limits.rows}) AS n FROM {source}\n)"]


def rows(base: Base, *, limits: AtMost, groups: int | None) -> list[str]:
    """The steps up to `rows`: the rows that stay, with their unit, group, values, and place within unit and group."""
    columns, owner = ", ".join(["u", *base.by, *base.names]), ", ".join(["u", *base.by])
    steps, source = [base.step], "base"
    if _few(limits, groups):
        steps.append(f"ranked AS (\n  SELECT {columns}, {_place_of_group(base)} FROM base\n)")
        steps.append(f"chosen AS (\n  SELECT {columns} FROM ranked WHERE place <= {limits.groups}\n)")
        source = "chosen"
    copy = f"ROW_NUMBER() OVER (PARTITION BY {columns}) AS copy"
    number = f"COUNT(*) OVER (PARTITION BY {owner}) AS n"
    rank = f"CASE WHEN n > {limits.rows} THEN {_rank(base, [*base.by, *base.names, 'copy'])} END"
    place = f"ROW_NUMBER() OVER (PARTITION BY {owner} ORDER BY {', '.join([rank, *base.names, 'copy'])}) AS place"
    return [
        *steps,
        f"copies AS (\n  SELECT {columns}, {copy}, {number} FROM {source}\n)",
        f"placed AS (\n  SELECT {columns}, {place} FROM copies\n)",
        f"rows AS (\n  SELECT {columns}, place FROM placed WHERE place <= {limits.rows}\n)",
    ]


def _few(limits: AtMost, groups: int | None) -> bool:
    """Whether a unit may have more groups than it keeps."""
    return groups is None or limits.groups < groups


def _place_of_group(base: Base) -> str:
    """The place of a row's group among those of its unit."""
    return f"DENSE_RANK() OVER (PARTITION BY u ORDER BY {_rank(base, base.by)}, {', '.join(base.by)}) AS place"


def _rank(base: Base, content: Sequence[str]) -> str:
    """The hash of a unit and some content, under the key."""
    kinds = {"copy": ColumnKind.INTEGER, **base.kinds}
    key = [f"CAST(${parameter} AS VARCHAR)" for parameter in KEY_PARAMETERS]
    texts = [f"COALESCE({spelled(name, kinds[name])}, '')" for name in ("u", *content)]
    return "MD5(" + " || '|' || ".join([*key, *texts]) + ")"


def spelled(sql: str, kind: ColumnKind) -> str:
    """A value as text, letter by letter the same on every engine.

    A number with decimals becomes two whole ones, below 2⁶³ each, by operations that IEEE 754 fixes to the last bit; a
    time becomes its microseconds since 1970, within the years 1 to 9999.
    """
    if kind in (ColumnKind.TEXT, ColumnKind.UNTYPED):
        return sql
    if kind is ColumnKind.REAL:
        near = f"LEAST(GREATEST(TRY_CAST({sql} AS DOUBLE), -{_LARGEST}), {_LARGEST})"
        whole = f"TRY_CAST({near} AS BIGINT)"
        rest = f"TRY_CAST(({near} - TRY_CAST({whole} AS DOUBLE)) * 4503599627370496.0e0 AS BIGINT)"
        return f"CAST({whole} AS VARCHAR) || ';' || CAST({rest} AS VARCHAR)"
    if kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        return f"CAST(EPOCH_US({calendar(f'TRY_CAST({sql} AS TIMESTAMP)')}) AS VARCHAR)"
    return f"CAST({sql} AS VARCHAR)"
