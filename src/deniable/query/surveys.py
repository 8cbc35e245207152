"""Small private measurements around an answer: bounds and limits that were not stated, and what they cost in bias.

A survey: whole numbers to which every unit adds a little, released with noise.

A unit adds, over all cells of the vector, at most `most` ones (`Survey.most`), as a function of its own rows alone.
So the vector moves by at most D = most in L1 when a unit is added, removed or blanked out, and by at most D = 2·most
when one is replaced. Discrete Laplace noise of scale D/ε in every cell is ε-DP (Ghosh, Roughgarden and Sundararajan
2009). What is read off the noisy cells is post-processing.

**Bounds.** Bounds from the data, privately: `bounds="private"`.

Every unit adds two ones to a histogram over public cells: one at its lowest value and one at its highest (a single row
is its own lowest and highest and adds one). The cells are 1–2–5 steps on both sides of 0, to a billion: from 1 for
whole numbers, from a millionth for others. Values beyond are counted at the ends. The bounds are the outer edges of
the outermost cells whose noisy count reaches a threshold that empty cells reach, all together, once in ten thousand
times; where no cell does, those of the cell with the largest count.

The choice reads noisy counts only. Clamping a few units in cells below the threshold is the point: their noise would
cost everybody more than their values are worth. This is the histogram of Dwork and Lei (2009, their scale estimate),
over cells that are fixed beforehand, so that it needs no δ.

**Limits.** How many groups and rows of one person should count, privately: `per_unit="private"`.

Every person adds a one to each of two histograms over the public numbers of `STEPS`: one by the number of groups they
are in, one by the rows they have in their fullest group (without GROUP BY only the second). The limit is the first step
that, by the noisy counts, holds all but one in twenty people. More than the last step counts as the last step: limits
are never above it.

Whatever limits come out, the answer is computed within them and its noise is scaled to them, so they cannot make it
less private; a bad choice costs accuracy, which the plan's diagnosis shows.

**Diagnosis.** What bounding did to the rows: the share that was clamped and the share that was left out, privately.

`diagnose=0.05` spends 5 % of ε on it. Every unit has a weight w, the number of its rows, but at most `most` = groups ×
rows of its limits; it adds w to the first cell, the expected number of its w rows that are left out to the second, and
to one more cell for every column with bounds the number of its w rows whose value lies outside of them. All are whole
numbers between 0 and w. So a unit adds at most cells × w in all, and replacing it changes each cell by at most w.

A unit with c_g rows in each of m groups keeps Σ min(c_g, R) rows if m ≤ K, and K/m of that on average if m > K: the
groups that stay are drawn evenly. That average needs no key and depends on the unit's own rows alone.

The shares are ratios of noisy numbers, each with an interval for the noise (the union bound over both parts).

>>> [float(edge) for edge in edges(0)], [float(edge) for edge in edges(1)], [float(edge) for edge in edges(-6)]
([0.0, 0.0], [1.0, 2.0], [-100.0, -50.0])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.events import DiscreteLaplace
from deniable.noise import Grid
from deniable.numerics.discrete import laplace_radius
from deniable.query import bounding
from deniable.query.bounding import Bounded
from deniable.query.choice import AtMost
from deniable.query.engines.base import Engine
from deniable.query.estimates import divided, ratio_range
from deniable.query.grids import Values
from deniable.query.keys import Keys
from deniable.query.reading import ParsedQuery
from deniable.query.schema import Column, ColumnKind
from deniable.query.values import name
from deniable.units import Relation


@dataclass(frozen=True)
class SurveyRows:
    """A question, its keys, and the column that says whose a row is (None when every row is a unit).

    The rows that count, as the surveys see them: the same rows that the answer is computed from, before any limit.
    """

    question: ParsedQuery
    keys: tuple[Keys, ...]
    unit: Column | None
    relation: Relation

    @property
    def people(self) -> bool:
        """Whether a unit may own several rows."""
        return self.unit is not None

    def base(self, values: Sequence[Values]) -> str:
        """A step `base` with the unit u, the group, and v1, v2, … of the values, on their grids."""
        return bounding.base(self.question, self.keys, values, unit=self.unit).step

    @property
    def group(self) -> str:
        """The columns of `base` that name a group."""
        return ", ".join(bounding.base(self.question, self.keys, (), unit=self.unit).by)

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """The keys, as parameters of the SQL."""
        return bounding.lists(self.keys)


@dataclass(frozen=True)
class Survey(ABC):
    """One noisy vector; `sql` counts it, `epsilon` pays for it. Every field is public."""

    sql: Bounded
    epsilon: Fraction
    relation: Relation

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many numbers are released."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The most that one unit adds, over all cells."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it finds, in a plan's table: "bounds of cost"."""

    @property
    def event(self) -> DiscreteLaplace:
        """What taking it does to the data."""
        replaced = self.relation is Relation.REPLACE
        moved = 2 * self.most if replaced else self.most
        return DiscreteLaplace(
            moved / self.epsilon,
            moved,
            self.relation,
            reach=self.most if replaced else None,
            coordinates=min(moved, self.cells),
        )

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in every cell."""
        return self.event.scale

    def take(self, engine: Engine) -> NDArray[Any]:
        """The noisy cells. The caller has charged the event."""
        found = engine.run(self.sql, groups=self.cells, key=(0, 0)).rows
        return noise.add(found, noise.discrete_laplace(self.scale, self.cells))


FURTHEST = 10**9
"""Bounds that are found lie within this of 0; every plan that can be made with wider ones can be made with them."""

STRAY = Fraction(1, 10_000)
"""The probability that any empty cell reaches the threshold."""


def widest_grid(column: Column) -> Grid:
    """The grid on which a column is surveyed: in steps of 1 for whole numbers, of a millionth for others."""
    return Grid(low=-FURTHEST, high=FURTHEST, step=1 if column.kind is ColumnKind.INTEGER else Fraction(1, 10**6))


def variants_of_bounds(columns: Sequence[Column]) -> list[dict[str | Column, tuple[Fraction, Fraction]]]:
    """Bounds that can be found, with which SQL takes every form that it can take with others: a grid is in steps below
    1, of 1, and above 1, of whole numbers and of others, for sums and for quantiles."""
    few: list[dict[str | Column, tuple[Fraction, Fraction]]] = [
        {column: (Fraction(0), widest_grid(column).step) for column in columns}
    ]
    for low, high in ((-1000, 2000), (0, FURTHEST), (-FURTHEST, FURTHEST)):
        few.append(dict.fromkeys(columns, (Fraction(low), Fraction(high))))
    return few


def side(column: Column) -> int:
    """The number of cells of each sign: three for every power of ten."""
    return 3 * (len(str(widest_grid(column).highest)) - 1)


def edges(cell: int) -> tuple[Fraction, Fraction]:
    """The ends of a cell, in steps: 0 is 0; 1, 2, 3, 4, … are [1, 2), [2, 5), [5, 10), …; −1, −2, … mirror them."""
    if cell < 0:
        low, high = edges(-cell)
        return -high, -low
    if cell == 0:
        return Fraction(0), Fraction(0)
    decade, place = divmod(cell - 1, 3)
    return Fraction((1, 2, 5)[place] * 10**decade), Fraction((2, 5, 10)[place] * 10**decade)


@dataclass(frozen=True)
class BoundsSurvey(Survey):
    """The bounds of one column."""

    column: Column
    people: bool
    """Whether a unit may own several rows."""

    @property
    def cells(self) -> int:
        return 2 * side(self.column) + 1

    @property
    def most(self) -> int:
        return 2 if self.people else 1

    @property
    def name(self) -> str:
        return f"bounds of {self.column.name}"

    @property
    def threshold(self) -> int:
        """The smallest count that an empty cell hardly reaches: Pr[X ≥ t] ≤ one cell's share of `STRAY`."""
        return laplace_radius(self.scale, 2 * STRAY / self.cells) + 1

    def read(self, noisy: NDArray[Any]) -> tuple[Fraction, Fraction]:
        """The bounds that noisy counts suggest."""
        (full,) = np.nonzero(noisy >= self.threshold)
        first, last = (int(full[0]), int(full[-1])) if full.size else (int(np.argmax(noisy)),) * 2
        step, middle = widest_grid(self.column).step, side(self.column)
        low, high = edges(first - middle)[0] * step, edges(last - middle)[1] * step
        return (low, high) if low < high else (low, low + step)


def survey_bounds(rows: SurveyRows, column: Column, *, epsilon: Fraction) -> BoundsSurvey:
    """The survey of one column over the rows that count."""
    wide = Values(column, widest_grid(column))
    ends = "SELECT UNNEST([MIN(v1), MAX(v1)]) AS v FROM base GROUP BY u" if rows.people else "SELECT v1 AS v FROM base"
    text = (
        f"WITH {rows.base([wide])},\n"
        f"ends AS (\n  {ends}\n),\n"
        f"cells AS (\n  SELECT {_value_cell(side(column))} AS g FROM ends WHERE v IS NOT NULL\n)\n"
        "SELECT g, COUNT(*) AS n FROM cells GROUP BY g"
    )
    return BoundsSurvey(Bounded(text, rows.lists, ()), epsilon, rows.relation, column, rows.people)


def _value_cell(middle: int) -> str:
    """SQL of the number of a value's cell, from 0; what floating point does near an edge stays within the cells."""
    size = "CAST(ABS(v) AS DOUBLE)"
    decade = f"FLOOR(LOG10(GREATEST({size}, 1)))"
    lead = f"{size} / POW(10, {decade})"
    place = f"CASE WHEN {lead} < 2 THEN 1 WHEN {lead} < 5 THEN 2 ELSE 3 END"
    number = f"LEAST(CAST(3 * {decade} + {place} AS INTEGER), {middle})"
    return f"CASE WHEN v = 0 THEN {middle} WHEN v > 0 THEN {middle} + {number} ELSE {middle} - {number} END"


STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000)
"""The limits that can come out."""

MOST = AtMost(groups=STEPS[-1], rows=STEPS[-1])
"""The widest limits that can come out."""

VARIANTS = (
    AtMost(groups=1, rows=1), AtMost(groups=60, rows=STEPS[-1]), AtMost(groups=80, rows=1),
    AtMost(groups=80, rows=STEPS[-1]),
)  # fmt: skip
"""Limits that can come out, with which SQL takes every form that it can take with others, beside the widest: `choice`
has other steps below 64 groups, and its shortcut other marks where numbers are large."""

HELD = Fraction(19, 20)
"""The share of people that a limit should hold."""


@dataclass(frozen=True)
class LimitsSurvey(Survey):
    """The limits of one query."""

    grouped: bool

    @property
    def cells(self) -> int:
        return len(STEPS) * self.most

    @property
    def most(self) -> int:
        return 2 if self.grouped else 1

    @property
    def name(self) -> str:
        return "groups and rows per unit" if self.grouped else "rows per unit"

    def read(self, noisy: NDArray[Any]) -> AtMost:
        """The limits that noisy counts suggest."""
        parts = [_step(part) for part in np.split(np.asarray(noisy), self.most)]
        return AtMost(groups=parts[1] if self.grouped else 1, rows=parts[0])


def survey_limits(rows: SurveyRows, *, epsilon: Fraction) -> LimitsSurvey:
    """The survey of the limits over the rows that count."""
    grouped = bool(rows.keys)
    cells = f"SELECT {_count_cell('c')} AS g FROM units"
    if grouped:
        cells += f" UNION ALL SELECT {len(STEPS)} + {_count_cell('k')} AS g FROM units"
    text = (
        f"WITH {rows.base([])},\n"
        f"shares AS (\n  SELECT u, COUNT(*) AS c FROM base GROUP BY u, {rows.group}\n),\n"
        "units AS MATERIALIZED (\n  SELECT MAX(c) AS c, COUNT(*) AS k FROM shares GROUP BY u\n),\n"
        f"cells AS (\n  {cells}\n)\n"
        "SELECT g, COUNT(*) AS n FROM cells GROUP BY g"
    )
    return LimitsSurvey(Bounded(text, rows.lists, ()), epsilon, rows.relation, grouped)


def _count_cell(count: str) -> str:
    """SQL of the place of a count among the steps."""
    cases = " ".join(f"WHEN {count} <= {step} THEN {place}" for place, step in enumerate(STEPS[:-1]))
    return f"CASE {cases} ELSE {len(STEPS) - 1} END"


def _step(noisy: NDArray[Any]) -> int:
    """The first step that holds the wanted share of a noisy total; the first one where the total is noise."""
    upto = np.cumsum(noisy.astype(object))
    total = int(upto[-1])
    held = [place for place, count in enumerate(upto) if count >= HELD * total]
    return STEPS[held[0]] if total > 0 and held else STEPS[0]


_FURTHEST = 1 << 52


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
    people: bool

    @property
    def cells(self) -> int:
        return 1 + self.people + len(self.columns)

    @property
    def most(self) -> int:
        return self.cells * self.weight

    @property
    def name(self) -> str:
        return "rows clamped and left out" if self.people else "rows clamped"

    @property
    def event(self) -> DiscreteLaplace:
        """A unit's part of a cell lies between 0 and its weight, so replacing it moves no more than adding it."""
        reach = self.most if self.relation is Relation.REPLACE else None
        return DiscreteLaplace(self.most / self.epsilon, self.most, self.relation, reach=reach, coordinates=self.cells)

    def read(self, noisy: NDArray[Any], *, failure: Fraction) -> Findings:
        """The shares; each interval fails with at most this probability."""
        far = laplace_radius(self.scale, failure / 2)
        whole = np.full(self.cells - 1, noisy[0], dtype=object)
        parts = noisy[1:].astype(object)
        lows, highs = ratio_range(parts, whole, sum_margin=far, count_margin=far, low=0, high=1)
        values = np.clip(divided(parts, np.maximum(whole, 1)), 0.0, 1.0)
        shares = [Share(*(float(x) for x in three)) for three in zip(values, lows, highs, strict=True)]
        dropped = shares.pop(0) if self.people else None
        return Findings(dropped, dict(zip(self.columns, shares, strict=True)))


def survey_shares(
    rows: SurveyRows, grids: Mapping[Column, Grid], limits: AtMost, *, epsilon: Fraction
) -> Diagnosis | None:
    """The diagnosis of a query; None where nothing can be clamped or left out."""
    if not grids and not rows.people:
        return None
    both = [Values(column, each) for column, grid in grids.items() for each in (grid, wider(grid))]
    outside = [f"CAST(v{2 * i + 1} <> v{2 * i + 2} AS INTEGER)" for i in range(len(grids))]
    weight = limits.groups * limits.rows if rows.people else 1
    if rows.people:
        sums = "".join(f", SUM({flag}) AS x{i}" for i, flag in enumerate(outside))
        more = "".join(f", SUM(x{i}) AS x{i}" for i in range(len(grids)))
        kept = f"SUM(LEAST(c, {limits.rows})) * (LEAST(COUNT(*), {limits.groups}) / CAST(COUNT(*) AS DOUBLE))"
        units = (
            f"shares AS (\n  SELECT u, COUNT(*) AS c{sums} FROM base GROUP BY u, {rows.group}\n),\n"
            f"units AS (\n  SELECT SUM(c) AS c, SUM(c) - {kept} AS d{more} FROM shares GROUP BY u\n)"
        )
    else:
        listed = "".join(f", {flag} AS x{i}" for i, flag in enumerate(outside))
        units = f"units AS (\n  SELECT 1 AS c{listed} FROM base\n)"
    parts = [_part(part) for part in (["d"] if rows.people else []) + [f"x{i}" for i in range(len(grids))]]
    cells = ["SUM(w)", *(f"SUM({part})" for part in parts)]
    listed_cells = "\n  UNION ALL ".join(
        f"SELECT {i} AS g, CAST(COALESCE({cell}, 0) AS BIGINT) AS n FROM weighed" for i, cell in enumerate(cells)
    )
    text = (
        f"WITH {rows.base(both)},\n{units},\n"
        f"weighed AS MATERIALIZED (\n  SELECT *, CAST(LEAST(c, {weight}) AS BIGINT) AS w FROM units\n)\n"
        f"{listed_cells}"
    )
    names = labels(tuple(grids))
    return Diagnosis(Bounded(text, rows.lists, ()), epsilon, rows.relation, weight, names, rows.people)


def labels(columns: Sequence[Column]) -> tuple[str, ...]:
    """A name for each column, by which a reader tells them apart: where two have one name, with their table."""
    names = [column.name for column in columns]
    return tuple(each.name if names.count(each.name) == 1 else name(each) for each in columns)


def wider(grid: Grid) -> Grid:
    """The grid with one more step at either end: a value that lies elsewhere on it was clamped."""
    ends = (max((grid.lowest - 1), -_FURTHEST), min((grid.highest + 1), _FURTHEST))
    return Grid(low=ends[0] * grid.step, high=ends[1] * grid.step, step=grid.step)


def _part(part: str) -> str:
    """A unit's rows of one kind, in proportion to its weight, as a whole number between 0 and the weight."""
    share = f"CAST(ROUND(w * (CAST({part} AS DOUBLE) / CAST(c AS DOUBLE))) AS BIGINT)"
    return f"LEAST(GREATEST(COALESCE({share}, 0), 0), w)"
