"""What limits and bounds left out: how many units are beyond them, and which share of the rows.

**Units beyond.** A unit is beyond if it has more groups than its limit, more rows in one of them or in all, or a value
outside of its bounds (`allowance`). `BeyondSurvey` counts them, with noise: a unit adds 0 or 1, so the number moves by
at most 1, also when a unit is replaced. With x the noisy number and t the noise that is exceeded with probability α, at
most m = x + t units are beyond but for that probability. Everybody else counts in full, which is what intervals rest on
(`estimates`).

The slack t = ln(1/(2α))/ε is the best there is, but for constants: let a private bound say "fewer than s" with
probability one half when nobody is beyond. With s units beyond it must say so with probability α at most, and the two
differ by a factor of at most e^(sε). So s ≥ ln(1/(2α))/ε: no private bound at 95 % that costs ε = 0.1 is below 23 more
often than not.

**Diagnosis.** What bounding did to the rows: the share that was clamped and the share that was left out, privately.

`diagnose=0.05` spends 5 % of ε on it. Every unit has a weight w, the number of its rows, but at most `most` = groups ×
rows of its limits; it adds w to the first cell, the expected number of its w rows that are left out to the second, and
to one more cell for every column whose values are clamped the number of its w rows outside of the bounds. All are whole
numbers between 0 and w. So a unit adds at most cells × w in all, and replacing it changes each cell by at most w.

A unit that is left out whole loses all of its rows. One that is cut, with c_g rows in each of m groups, keeps
Σ min(c_g, R) rows if m ≤ K, and K/m of that on average if m > K: the groups that stay are drawn evenly. That average
needs no key and depends on the unit's own rows alone.

The shares are ratios of noisy numbers, each with an interval for the noise (the union bound over both parts).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.events import DiscreteLaplace
from deniable.noise import Grid
from deniable.numerics.discrete import laplace_threshold
from deniable.query.allowance import Allowance
from deniable.query.answering import Beyond
from deniable.query.bounding import Bounded
from deniable.query.choice import AtMost
from deniable.query.estimates import Noisy, divided, ratio_range
from deniable.query.grids import Values, wider
from deniable.query.noises import LaplaceIntegers
from deniable.query.schema import Column
from deniable.query.surveys import Survey, SurveyRows, labels
from deniable.units import Relation


@dataclass(frozen=True)
class BeyondSurvey(Survey):
    """How many units are beyond their limits, or have a value outside of the bounds."""

    @property
    def cells(self) -> int:
        return 1

    @property
    def most(self) -> int:
        return 1

    @property
    def name(self) -> str:
        return "units beyond the limits"

    @property
    def event(self) -> DiscreteLaplace:
        """A unit adds 0 or 1, so replacing it moves no more than adding it."""
        reach = 1 if self.relation is Relation.REPLACE else None
        return DiscreteLaplace(1 / self.epsilon, 1, self.relation, reach=reach, coordinates=1)

    def read(self, noisy: NDArray[Any], *, failure: Fraction, in_part: bool) -> Beyond:
        """The bound on their number; it fails with at most this probability. `in_part`: some of them count in part."""
        about = int(noisy[0])
        return Beyond(max(about + laplace_threshold(self.scale, failure) - 1, 0), max(about, 0), failure, in_part)


def survey_beyond(rows: SurveyRows, allowance: Allowance, *, epsilon: Fraction) -> BeyondSurvey:
    """The survey of the units that are beyond limits or bounds."""
    if rows.people:
        steps = [rows.base((), allowance), *allowance.people(rows.group)]
        counted = f"people WHERE {allowance.beyond}"
    else:
        both = [Values(column, each) for column, grid in allowance.grids for each in (grid, wider(grid))]
        clamped = " OR ".join(f"v{2 * i + 1} <> v{2 * i + 2}" for i in range(len(allowance.grids)))
        steps, counted = [rows.base(both)], f"base WHERE {clamped}"
    text = "WITH " + ",\n".join(steps) + f"\nSELECT 0 AS g, COUNT(*) AS n FROM {counted}"
    return BeyondSurvey(Bounded(text, rows.lists, ()), epsilon, rows.relation)


class Share(NamedTuple):
    """A noisy share of rows with the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


class Findings(NamedTuple):
    """The share of rows left out, and per column the share of rows whose value was clamped."""

    dropped: Share | None
    clamped: dict[str, Share]


@dataclass(frozen=True)
class Diagnosis(Survey):
    """The shares of one query."""

    weight: int
    columns: tuple[str, ...]
    leaves_out: bool
    """Whether rows can be left out, and not only clamped."""

    @property
    def cells(self) -> int:
        return 1 + self.leaves_out + len(self.columns)

    @property
    def most(self) -> int:
        return self.cells * self.weight

    @property
    def name(self) -> str:
        parts = [["clamped"] * bool(self.columns), ["left out"] * self.leaves_out]
        return "rows " + " and ".join(part for several in parts for part in several)

    @property
    def event(self) -> DiscreteLaplace:
        """A unit's part of a cell lies between 0 and its weight, so replacing it moves no more than adding it."""
        reach = self.most if self.relation is Relation.REPLACE else None
        return DiscreteLaplace(self.most / self.epsilon, self.most, self.relation, reach=reach, coordinates=self.cells)

    def read(self, noisy: NDArray[Any], *, failure: Fraction) -> Findings:
        """The shares; each interval fails with at most this probability."""
        whole = np.full(self.cells - 1, noisy[0], dtype=object)
        parts = noisy[1:].astype(object)
        ends = [Noisy(each, LaplaceIntegers(self.scale)).ends(failure / 2) for each in (parts, whole)]
        lows, highs = ratio_range(*ends, low=0, high=1)
        values = np.clip(divided(parts, np.maximum(whole, 1)), 0.0, 1.0)
        shares = [Share(*(float(x) for x in three)) for three in zip(values, lows, highs, strict=True)]
        dropped = shares.pop(0) if self.leaves_out else None
        return Findings(dropped, dict(zip(self.columns, shares, strict=True)))


def survey_shares(
    rows: SurveyRows, grids: Mapping[Column, Grid], limits: AtMost, whole: Allowance, *, cut: bool, epsilon: Fraction
) -> Diagnosis | None:
    """The diagnosis of a query that leaves out units beyond `whole`, cuts others to the limits, if it does, and clamps
    to other bounds; None where nothing can be clamped or left out."""
    if not grids and not rows.people:
        return None
    both = [Values(column, each) for column, grid in grids.items() for each in (grid, wider(grid))]
    flags = [f"CASE WHEN v{2 * i + 1} <> v{2 * i + 2} THEN 1 ELSE 0 END" for i in range(len(grids))]
    strict = dict(whole.grids)
    outside = [flag for flag, column in zip(flags, grids, strict=True) if column in strict]
    clamped = [flag for flag, column in zip(flags, grids, strict=True) if column not in strict]
    weight = limits.most_rows if rows.people else 1
    listed = "".join(f", {flag} AS x{i}" for i, flag in enumerate(clamped))
    listed += f", GREATEST({', '.join([*outside, '0'])}) AS o" if strict else ""
    marked = f"marked AS (\n  SELECT *{listed} FROM base\n)"
    sums = "".join(f", SUM(x{i}) AS x{i}" for i in range(len(clamped)))
    names = "".join(f", x{i}" for i in range(len(clamped)))
    flag = ", MAX(o) AS o" if strict else ""
    if rows.people:
        share = f"LEAST(COUNT(*), {limits.groups}) / CAST(COUNT(*) AS DOUBLE)"
        kept = f"SUM(LEAST(c, {limits.rows})) * ({share})" if cut else "SUM(c)"
        lost = f"CASE WHEN {whole.beyond} THEN t ELSE t - kept END" if whole else "t - kept"
        steps = [
            marked,
            f"shares AS (\n  SELECT u, COUNT(*) AS c{sums}{flag} FROM marked GROUP BY u, {', '.join(rows.group)}\n)",
            f"people AS (\n  SELECT COUNT(*) AS k, MAX(c) AS c, SUM(c) AS t, {kept} AS kept{sums}{flag}\n"
            "  FROM shares GROUP BY u\n)",
            f"units AS (\n  SELECT t AS c, {lost} AS d{names} FROM people\n)",
        ]
    else:
        steps = [marked, f"units AS (\n  SELECT 1 AS c{', o AS d' if strict else ''}{names} FROM marked\n)"]
    leaves_out = rows.people or bool(strict)
    parts = [_part(part) for part in (["d"] if leaves_out else []) + [f"x{i}" for i in range(len(clamped))]]
    cells = ["SUM(w)", *(f"SUM({part})" for part in parts)]
    listed_cells = "\n  UNION ALL ".join(
        f"SELECT {i} AS g, CAST(COALESCE({cell}, 0) AS BIGINT) AS n FROM weighed" for i, cell in enumerate(cells)
    )
    weighed = f"weighed AS MATERIALIZED (\n  SELECT *, CAST(LEAST(c, {weight}) AS BIGINT) AS w FROM units\n)"
    text = "WITH " + ",\n".join([rows.base(both), *steps, weighed]) + f"\n{listed_cells}"
    columns = tuple(column for column in grids if column not in strict)
    return Diagnosis(Bounded(text, rows.lists, ()), epsilon, rows.relation, weight, labels(columns), leaves_out)


def _part(part: str) -> str:
    """A unit's rows of one kind, in proportion to its weight, as a whole number between 0 and the weight."""
    share = f"CAST(ROUND(w * (CAST({part} AS DOUBLE) / CAST(c AS DOUBLE))) AS BIGINT)"
    return f"LEAST(GREATEST(COALESCE({share}, 0), 0), w)"
