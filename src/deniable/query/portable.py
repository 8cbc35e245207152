"""The rule of `choice` in SQL that every engine computes alike: a fixed key keeps the same rows on all of them.

Groups of a unit, and rows of a unit and group, are ranked by MD5 of a text: the key, the unit, and the content, each
written so that engines agree on every letter (`spelled`). A unit keeps its K first groups, and R first rows in each.
`choice` is faster, with functions that DuckDB alone has; this is what Spark and PostgreSQL run, and DuckDB where its
choices are to be compared with theirs.

The argument is that of `choice`. Every step but the last addition looks at one unit, at its rows as a multiset, and at
the key. MD5 need not be strong for that, and two contents that are spelled alike do no harm: ties are broken by the
content itself, and at most K groups and R rows stay in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

from deniable.query.choice import KEY_PARAMETERS, Base, copies, same, summed
from deniable.query.limits import AtMost
from deniable.query.moments import calendar
from deniable.query.schema import Kind

_LARGEST = "9.0e18"
"""Within what fits 64 bits."""


def counted(base: Base, *, limits: AtMost, groups: int | None) -> list[str]:
    """The steps up to `counted`: n, m1, s1, … per unit and group that stay."""
    by, names = ", ".join(base.by), [f"{letter}{i}" for i in range(1, len(base.values) + 1) for letter in "ms"]
    steps = _shares(base, limits=limits, groups=groups, parts=summed(base), names=names)
    if not base.values:
        # All rows of a unit and group are alike: counting the first R is the choice.
        return [*steps, f"counted AS (\n  SELECT {by}, LEAST(n, {limits.rows}) AS n FROM kept\n)"]
    listed = ", ".join([by, "n", *names])
    return [
        *steps,
        *_placed(base, limits=limits),
        f"counted AS (\n  SELECT {listed} FROM kept WHERE n <= {limits.rows}\n  UNION ALL\n"
        f"  SELECT {by}, COUNT(*) AS n{summed(base)} FROM placed WHERE place <= {limits.rows} GROUP BY u, {by}\n)",
    ]


def rows(base: Base, *, limits: AtMost, groups: int | None) -> list[str]:
    """The steps up to `rows`: the rows that stay, with their unit, group and values."""
    columns = ["u", *base.by, *base.names]
    listed, own = ", ".join(columns), ", ".join(f"base.{column}" for column in columns)
    return [
        *_shares(base, limits=limits, groups=groups, parts="", names=()),
        *_placed(base, limits=limits),
        f"rows AS MATERIALIZED (\n  SELECT {own} FROM base JOIN kept ON {same(base)} AND kept.n <= {limits.rows}\n"
        f"  UNION ALL\n  SELECT {listed} FROM placed WHERE place <= {limits.rows}\n)",
    ]


def _shares(base: Base, *, limits: AtMost, groups: int | None, parts: str, names: Sequence[str]) -> list[str]:
    """The steps up to `kept`, with n and, if asked for, the sums."""
    by = ", ".join(base.by)
    share = f"SELECT u, {by}, COUNT(*) AS n{parts}\n  FROM base GROUP BY u, {by}"
    if groups is not None and limits.groups >= groups:
        return [base.step, f"kept AS MATERIALIZED (\n  {share}\n)"]
    place = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {_rank(base, base.by)}, {by}) AS place"
    listed = ", ".join(["u", by, "n", *names])
    return [
        base.step,
        f"shares AS (\n  {share}\n)",
        f"ranked AS (\n  SELECT {listed}, {place} FROM shares\n)",
        f"kept AS MATERIALIZED (\n  SELECT {listed} FROM ranked WHERE place <= {limits.groups}\n)",
    ]


def _placed(base: Base, *, limits: AtMost) -> list[str]:
    """The rows of units and groups with more than R of them, and the place of each."""
    order = ", ".join([_rank(base, [*base.by, *base.names, "copy"]), *base.names, "copy"])
    place = f"ROW_NUMBER() OVER (PARTITION BY u, {', '.join(base.by)} ORDER BY {order}) AS place"
    listed = ", ".join(["u", *base.by, *base.names])
    return [copies(base, limits=limits), f"placed AS (\n  SELECT {listed}, {place}\n  FROM copies\n)"]


def _rank(base: Base, content: Sequence[str]) -> str:
    """The hash of a unit and some content, under the key."""
    kinds = {"copy": Kind.INTEGER, **base.kinds}
    key = [f"CAST(${parameter} AS VARCHAR)" for parameter in KEY_PARAMETERS]
    texts = [f"COALESCE({spelled(name, kinds[name])}, '')" for name in ("u", *content)]
    return "MD5(" + " || '|' || ".join([*key, *texts]) + ")"


def spelled(sql: str, kind: Kind) -> str:
    """A value as text, letter by letter the same on every engine.

    A number with decimals becomes two whole ones, below 2⁶³ each, by operations that IEEE 754 fixes to the last bit; a
    time becomes its microseconds since 1970, within the years 1 to 9999.
    """
    if kind in (Kind.TEXT, Kind.UNTYPED):
        return sql
    if kind is Kind.REAL:
        near = f"LEAST(GREATEST(TRY_CAST({sql} AS DOUBLE), -{_LARGEST}), {_LARGEST})"
        whole = f"TRY_CAST({near} AS BIGINT)"
        rest = f"TRY_CAST(({near} - TRY_CAST({whole} AS DOUBLE)) * 4503599627370496.0e0 AS BIGINT)"
        return f"CAST({whole} AS VARCHAR) || ';' || CAST({rest} AS VARCHAR)"
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        return f"CAST(EPOCH_US({calendar(f'TRY_CAST({sql} AS TIMESTAMP)')}) AS VARCHAR)"
    return f"CAST({sql} AS VARCHAR)"
