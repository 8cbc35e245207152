"""Small private measurements before an answer: bounds and limits that were not stated.

A survey: whole numbers to which every unit adds a little, released with noise.

A unit adds, over all cells of the vector, at most `most` ones (`Survey.most`), as a function of its own rows alone.
So the vector moves by at most D = most in L1 when a unit is added, removed or blanked out, and by at most D = 2·most
when one is replaced. Discrete Laplace noise of scale D/ε in every cell is ε-DP (Ghosh, Roughgarden and Sundararajan
2009). What is read off the noisy cells is post-processing.

**Counts further out.** Limits and bounds are decided by few people far out, whose number the noise hides.
`OutwardCounts` estimates the counts of the cells by going outward. A cell counts while the next few reach
`NEAR` noise scales together. Further out, k cells in a row count if they reach `FAR`·k^0.3 of them together, which
empty ones do in one survey of a hundred (by simulation): so people who are spread over many cells are seen as well as
people in one. Beyond the last one counts fall as those before did, faster and faster, as in a geometric law: the
ratio q of the last three cells to the three before becomes q², q⁴, … So people that no private survey sees are
expected, as many as would stay unseen, and nobody is expected behind a table in which everybody owns the same.

**Limits.** How much of one person counts: rows in all, groups, and rows of one group, as far as the question needs them
(`limits_to_find`). For each kind every person adds a one to a histogram over the public numbers of `STEPS`. A limit is
the step with the least expected error of a count, as the estimated counts tell: the noise, step/ε, plus the rows that
people beyond it own in one group on average, for they are left out whole. At the least, one more row costs 1/ε and
keeps those who own just that many: so a limit holds all but a number of people that does not grow with the table, not
a quantile. More than the last step counts as the last step: limits are never above it.

**Bounds.** Every unit adds two ones to a histogram over public cells: one at its lowest value and one at its highest (a
single row is its own lowest and highest and adds one). The cells are 1–2–5 steps on both sides of 0, to a billion: from
1 for whole numbers, from a millionth for others. Values beyond are counted at the ends. Each bound is the outer edge of
a cell, with the least of the noise that it causes and of what it cuts off, by the estimated counts. The lower bound is
0 where nobody is below and the values are not all of one size. This is the histogram of Dwork and Lei (2009, their
scale estimate), over cells that are fixed beforehand, so that it needs no δ.

Whatever limits and bounds come out, the answer is computed within them and its noise is scaled to them, so they cannot
make it less private, and the number of units beyond them is measured afterwards (`diagnosis`), so they cannot make it
less honest. A bad choice costs accuracy, and the release shows how much.

>>> [float(edge) for edge in edges(0)], [float(edge) for edge in edges(1)], [float(edge) for edge in edges(-6)]
([0.0, 0.0], [1.0, 2.0], [-100.0, -50.0])
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.events import DiscreteLaplace
from deniable.noise import Grid
from deniable.query import bounding
from deniable.query.allowance import Allowance
from deniable.query.bounding import EVERYBODY, Bounded
from deniable.query.choice import AtMost, draw_key
from deniable.query.engines.base import Engine
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

    def base(self, values: Sequence[Values], allowance: Allowance = EVERYBODY) -> str:
        """A step `base` with the unit u, the group, and v1, v2, … of the values, on their grids; with a mark `o` where
        a value is outside of an allowance."""
        return bounding.base(self.question, self.keys, values, unit=self.unit, whole=allowance).step

    @property
    def group(self) -> tuple[str, ...]:
        """The columns of `base` that name a group."""
        return bounding.base(self.question, self.keys, (), unit=self.unit).by

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

    def take(self, engine: Engine, key: tuple[int, int] | None) -> NDArray[Any]:
        """The noisy cells. The caller has charged the event. No row is chosen by the key: it says who asks, where the
        engine keeps exact totals."""
        found = engine.run(self.sql, groups=self.cells, key=key or draw_key()).rows
        return noise.add(found, noise.discrete_laplace(self.scale, self.cells))


FURTHEST = 10**9
"""Bounds that are found lie within this of 0; every plan that can be made with wider ones can be made with them."""

NEAR, FAR = 4, 9
"""Noise scales that the next cells, or cells further out, must reach, of bounds; of limits one less."""

_LONGEST = 8
"""Cells in a row that are looked at together, further out."""

_SPREAD = 0.4
"""The fullest run of cells has the largest sum, divided by this power of its length."""

_CLEAR, _MIRRORED = 20, 4
"""Noise scales that values within bounds must reach before bounds leave 0 out; and that the cells opposite to the
largest values must reach before bounds include both signs."""

_WINDOW = 3
"""Cells that are looked at together."""


@dataclass(frozen=True)
class OutwardCounts:
    """Estimated counts of cells that go outward, from noisy ones."""

    counts: NDArray[np.float64]
    last: int
    """The last cell whose noisy count is more than noise."""

    @classmethod
    def of(cls, noisy: NDArray[Any], scale: Fraction, *, start: int | None = None) -> OutwardCounts:
        """The estimate; `scale` is that of the noise in every cell. Where no cell is more than noise it begins at
        `start`, or in the fullest run of cells."""
        seen, unit = noisy.astype(np.float64), float(scale)
        near, far = (NEAR, FAR) if start is None else (NEAR - 1, FAR - 1)  # limits have fewer cells than bounds
        last = _fullest(seen) if start is None else start
        while further := _further(seen[last + 1 :] / unit, near=near, far=far):
            last += further
        counts = np.maximum(seen, 0.0)
        counts[last + 1 :] = _fall(seen[: last + 1], len(seen) - last - 1, most=near * unit)
        return cls(counts, last)

    def beyond(self, place: int) -> float:
        """How many lie further out than a cell."""
        return float(self.counts[place + 1 :].sum())


def _fullest(seen: NDArray[np.float64]) -> int:
    """The last cell of the fullest run. Where people are spread over cells, any one of them may have fewer than
    a cell that has noise alone."""
    sums = np.concatenate([[0.0], np.cumsum(seen)])
    best, last = -math.inf, 0
    for size in range(1, min(_LONGEST, len(seen)) + 1):
        runs = (sums[size:] - sums[:-size]) / size**_SPREAD
        place = int(np.argmax(runs))
        if runs[place] > best:
            best, last = float(runs[place]), place + size - 1
    return last


def _further(ahead: NDArray[np.float64], *, near: float, far: float) -> int:
    """How many cells further out the next ones end that are more than noise, counted in noise scales; 0 for none."""
    sums = np.concatenate([[0.0], np.cumsum(ahead)])
    best, end = 1.0, 0
    for size in range(1, min(_LONGEST, len(ahead)) + 1):
        runs = (sums[size:] - sums[:-size]) / (far * size**0.3)
        place = int(np.argmax(runs))
        if runs[place] >= best:
            best, end = runs[place], place + 1 + int(np.argmax(sums[place + 1 : place + size + 1]))
    if end == 0 and len(ahead):
        window = sums[1 : _WINDOW + 1]
        (clear,) = np.nonzero(window >= near * np.sqrt(np.arange(1, len(window) + 1)))
        end = int(clear[0]) + 1 if clear.size else 0
    return end


def _fall(seen: NDArray[np.float64], size: int, *, most: float) -> NDArray[np.float64]:
    """Counts that are expected further out, at most `most` in each window."""
    found = np.zeros(size)
    many, before = (max(float(part.sum()), 0.0) for part in (seen[-_WINDOW:], seen[-2 * _WINDOW : -_WINDOW]))
    ratio = many / before if before > 0 else 1.0
    if len(seen) <= _WINDOW or ratio >= 1:
        return found
    for start in range(0, size, _WINDOW):
        ratio = ratio**2
        many = min(many * ratio, most)
        part = np.array([0.6, 0.3, 0.1])[: size - start]
        found[start : start + _WINDOW] = many * part
    return found


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

    def read(self, noisy: NDArray[Any], *, epsilon: Fraction, groups: int | None) -> tuple[Fraction, Fraction]:
        """The bounds that noisy counts suggest, for an answer with this ε about so many groups."""
        step, middle = widest_grid(self.column).step, side(self.column)
        top = self._end(noisy, epsilon, groups) - middle
        bottom = middle - self._end(noisy[::-1], epsilon, groups)
        low, high = edges(bottom)[0] * step, edges(top)[1] * step
        if low > 0 and (4 * low < high or not self._is_clear(noisy, bottom, top)):
            low = Fraction(0)
        if high < 0 and (low < 4 * high or not self._is_clear(noisy[::-1], -top, -bottom)):
            high = Fraction(0)
        if low >= 0 and self._is_mirrored(noisy, top):
            low = -high
        elif high <= 0 and self._is_mirrored(noisy[::-1], -bottom):
            high = -low
        return (low, high) if low < high else (low, low + step)

    def _is_clear(self, noisy: NDArray[Any], bottom: int, top: int) -> bool:
        """Whether next to nobody has values between 0 and the bounds, which are above 0. Bounds that leave 0 out help
        averages, by a factor of two at most; where they are wrong, they leave out everybody."""
        middle, unit = side(self.column), float(self.scale)
        inside = float(noisy[middle + bottom : middle + top + 1].sum()) / unit
        below = float(noisy[max(middle, middle + bottom - _LONGEST) : middle + bottom].sum()) / unit
        return inside >= _CLEAR and below <= inside / 10

    def _is_mirrored(self, noisy: NDArray[Any], top: int) -> bool:
        """Whether people have values below 0 about as large as the largest above. They cost a sum nothing: it moves by
        the larger end. So less must be seen of them than of values further out."""
        if top <= 0:
            return False
        middle, last = side(self.column), max(top - _WINDOW, 1)
        below, above = noisy[middle - top : middle - last + 1], noisy[middle + last : middle + top + 1]
        return float(below.sum()) >= max(_MIRRORED * float(self.scale), float(above.sum()) / 20)

    def _end(self, noisy: NDArray[Any], epsilon: Fraction, groups: int | None) -> int:
        """The cell at whose outer edge values are cut off, going to the right."""
        middle = side(self.column)
        outward = OutwardCounts.of(noisy, self.scale)
        if outward.last <= middle:  # the values end at 0 or before
            return outward.last
        outer = np.array([float(edges(cell - middle)[1]) for cell in range(self.cells)])
        price, many = 2 / float(epsilon), groups or SOME_GROUPS
        places = range(outward.last, min(outward.last + 1 + _WINDOW, self.cells))  # ten times what was seen, at most
        errors = [
            outer[place] * price + float((outward.counts * np.maximum(outer * 0.7 - outer[place], 0)).sum()) / many
            for place in places
        ]
        return places[int(np.argmin(errors))]


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


STEPS = (
    1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000,
    2000, 5000, 10_000, 20_000, 50_000, 100_000,
)  # fmt: skip
"""The limits of rows that can come out."""

GROUP_STEPS = STEPS[:23]
"""The limits of groups that can come out: up to 1,000."""

SOME_GROUPS = 10
"""How many groups are assumed where their number is private."""


def widest_limits(kinds: Collection[str]) -> AtMost:
    """The widest limits that can come out, where these kinds of them are to be found."""
    groups = GROUP_STEPS[-1] if "groups" in kinds else STEPS[-1]
    return AtMost(groups=groups, rows=STEPS[-1], total=STEPS[-1]) if "total" in kinds else AtMost(groups=groups, rows=1)


@dataclass(frozen=True)
class LimitsSurvey(Survey):
    """The limits of one query: a histogram of units by what they own, for each kind of limit that is to be found."""

    kinds: tuple[str, ...]
    """Of "total", the rows of a unit, "groups", and "rows", those in its fullest group."""

    @property
    def cells(self) -> int:
        return sum(len(_steps(kind)) for kind in self.kinds)

    @property
    def most(self) -> int:
        return len(self.kinds)

    @property
    def name(self) -> str:
        nouns = {"total": "rows", "groups": "groups", "rows": "rows of a group"}
        return " and ".join(nouns[kind] for kind in self.kinds) + " per unit"

    def read(self, noisy: NDArray[Any], *, epsilon: Fraction, groups: int | None) -> AtMost:
        """The limits with the least expected error, for an answer with this ε about so many groups."""
        limits, start, many = {}, 0, groups or SOME_GROUPS
        for kind in self.kinds:
            size = len(_steps(kind))
            limits[kind] = self._least(noisy[start : start + size], _steps(kind), float(epsilon), many)
            start += size
        total = limits.get("total")
        if total is None:
            most = limits["groups"]
            return AtMost(groups=most if groups is None else min(most, groups), rows=1)
        most, rows = (min(limits.get(kind, total), total) for kind in ("groups", "rows"))
        return AtMost(groups=most, rows=rows, total=total)

    def _least(self, noisy: NDArray[Any], steps: tuple[int, ...], epsilon: float, groups: int) -> int:
        """The step with the least expected error: the noise, and what the units beyond it own in one group."""
        counts = OutwardCounts.of(noisy, self.scale, start=0).counts
        lowest = np.array([1, *(step + 1 for step in steps[:-1])])
        owned = counts * np.sqrt(lowest * np.array(steps, dtype=np.float64))
        lost = [float(owned[place + 1 :].sum()) for place in range(len(steps))]
        errors = [step / epsilon + lost[place] / groups for place, step in enumerate(steps)]
        return steps[int(np.argmin(errors))]


def _steps(kind: str) -> tuple[int, ...]:
    return GROUP_STEPS if kind == "groups" else STEPS


def limits_to_find(limited: Collection[str], *, units: bool, gaussian: bool) -> tuple[str, ...]:
    """The limits that a question needs; `limited` says whether "rows" and "groups" matter, `units` whether units are
    counted, and `gaussian` whether the noise may be Gaussian.

    Where rows count, they are limited in all. The number of groups matters to what counts units, and the rows of one
    group to Gaussian noise, which is scaled to L2.
    """
    several, rows = "groups" in limited, "rows" in limited
    groups = several and (units or not rows)
    return ("total",) * rows + ("groups",) * groups + ("rows",) * (several and gaussian and rows)


def survey_limits(rows: SurveyRows, *, kinds: tuple[str, ...], epsilon: Fraction) -> LimitsSurvey:
    """The survey of some kinds of limits over the rows that count."""
    marks = {"total": "t", "groups": "k", "rows": "c"}
    parts, start = [], 0
    for kind in kinds:
        parts.append(f"SELECT {start} + {_count_cell(marks[kind], _steps(kind))} AS g FROM units")
        start += len(_steps(kind))
    if kinds == ("total",):
        steps = ["units AS (\n  SELECT COUNT(*) AS t FROM base GROUP BY u\n)"]
    else:
        steps = [
            f"shares AS (\n  SELECT u, COUNT(*) AS c FROM base GROUP BY u, {', '.join(rows.group)}\n)",
            "units AS MATERIALIZED (\n  SELECT MAX(c) AS c, COUNT(*) AS k, SUM(c) AS t FROM shares GROUP BY u\n)",
        ]
    steps = [rows.base([]), *steps, f"cells AS (\n  {' UNION ALL '.join(parts)}\n)"]
    text = "WITH " + ",\n".join(steps) + "\nSELECT g, COUNT(*) AS n FROM cells GROUP BY g"
    return LimitsSurvey(Bounded(text, rows.lists, ()), epsilon, rows.relation, kinds)


def _count_cell(count: str, steps: tuple[int, ...]) -> str:
    """SQL of the place of a count among the steps."""
    cases = " ".join(f"WHEN {count} <= {step} THEN {place}" for place, step in enumerate(steps[:-1]))
    return f"CASE {cases} ELSE {len(steps) - 1} END"


def labels(columns: Sequence[Column]) -> tuple[str, ...]:
    """A name for each column, by which a reader tells them apart: where two have one name, with their table."""
    names = [column.name for column in columns]
    return tuple(each.name if names.count(each.name) == 1 else name(each) for each in columns)
