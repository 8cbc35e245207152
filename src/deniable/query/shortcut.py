"""Whether anybody is beyond the limits at all: if nobody is, the plain aggregate is the bounded one.

Most data are like that: a patient has one home town, a voter one district. `Shortcut.check` looks, in one pass that
reads ids and groups only, whether every unit is surely within its limits: it has at most R rows, and they are in one
group or no more than K. Then bounding would leave out nothing, and `Shortcut.plain` gives the same totals, in one more
pass without joins. Otherwise the bounded SQL runs as if nobody had looked. Either way the totals are the same function
of the rows; only the time differs, which is outside of the promise.

`peek` is the same check over the first rows that come. Whoever is beyond the limits with some of their rows is so with
all of them, so one that finds somebody saves the check.

**One number per unit.** Grouping by unit is bound by memory: each aggregate of a unit costs. Where they fit, the number
of rows n and the sums of g and of g² over a unit's rows are the digits of one sum, with g² last. It is a float: exact
below 2⁵³, and no smaller than 2⁵³ beyond. The digits below n cannot carry into it while n ≤ R, and adding only makes
the sum larger, so n > R is always seen. All rows are in one group exactly if n·Σg² = (Σg)² (Cauchy-Schwarz).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deniable.query.limits import AtMost

PEEK = 1 << 18
"""Rows that are looked at before all are."""

_EXACT = 1 << 53


@dataclass(frozen=True)
class Shortcut:
    """SQL around the bounded SQL."""

    peek: str
    """Of the first rows: how many units are not surely within their limits, and how many rows these were."""
    check: str
    """Of all rows: how many units are not surely within their limits."""
    plain: str
    """The totals, with the same columns as the bounded SQL, if nobody is beyond."""


class Marks(NamedTuple):
    """What is computed of every unit's rows, and the condition under which it is not surely within its limits."""

    columns: str
    beyond: str


def shortcut(base: str, by: Sequence[str], plain: str, *, limits: AtMost, groups: int) -> Shortcut:
    """The shortcut of a bounded query over the rows of the step `base`."""
    found = marks(by, limits=limits, groups=groups)

    def look(rows: str, *, unit: str = "u", more: str = "", counted: str = "") -> str:
        people = f"people AS (\n  SELECT {found.columns}{more} FROM {rows} GROUP BY {unit}\n)"
        return f"WITH {base},\n{people}\nSELECT COUNT(*) FILTER ({found.beyond}){counted} FROM people"

    # By a hash, because an array for all units would take longer than these rows. Two units with one hash can only look
    # like one that is beyond.
    peek = look(f"(SELECT * FROM base LIMIT {PEEK})", unit="HASH(u)", more=", COUNT(*) AS c", counted=", SUM(c)")
    return Shortcut(peek, look("base"), plain)


def marks(by: Sequence[str], *, limits: AtMost, groups: int | None) -> Marks:
    """How a unit's rows are summed up; `groups` is None when their number is private."""
    rows, most = limits.rows, limits.groups
    if groups is not None and most >= groups:
        return Marks("COUNT(*) AS n", f"n > {rows}")
    if groups is not None and len(by) == 1 and (packed := _packed(by[0], rows, most, groups)) is not None:
        return packed
    one = " AND ".join(f"MIN({column}) = MAX({column})" for column in by)
    return Marks(f"COUNT(*) AS n, {one} AS one", f"n > {rows} OR (n > {most} AND NOT one)")


def _packed(g: str, rows: int, most: int, groups: int) -> Marks | None:
    """n, Σg and Σg² as digits of one sum; None where they do not fit. `g` is a number from 0 to groups - 1."""
    squares = (rows * (groups - 1) ** 2).bit_length()
    sums = (rows * (groups - 1)).bit_length()
    first = squares + sums
    if (rows + 1) << first > _EXACT:
        return None
    whole = "TRY_CAST(mark AS BIGINT)"
    n, total = f"({whole} >> {first})", f"({whole} >> {squares} & {(1 << sums) - 1})"
    one = f"{n} * ({whole} & {(1 << squares) - 1}) = {total} * {total}"
    return Marks(
        f"SUM(CAST({1 << first} + ({g} << {squares}) + {g} * {g} AS DOUBLE)) AS mark",
        f"mark >= {(rows + 1) << first} OR (mark >= {(most + 1) << first} AND NOT {one})",
    )
