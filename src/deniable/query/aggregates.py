"""The aggregates that can be released privately.

A new aggregate is a class that says which measures it needs and how it reads its answer off them; it joins by a line in
`build`, and by its SQL name in `reading.FUNCTIONS`.

COUNT(*) and COUNT(column): integers, released as they come out of the noise, so they may be negative.

A negative count is kept: cutting it at 0 would make small groups look larger on average, and sums over groups wrong.
The ends of its interval are cut at 0, which no count is below: that is post-processing, and the interval holds the
truth as often as before. So are those of a sum whose bounds lie on one side of 0.

SUM(column): an exact sum on the grid plus noise, times the step. Without rows it is 0 plus noise, where SQL says
NULL: whether a group has rows is private.

AVG(column): a noisy sum of the distances from the middle of the bounds, over a noisy count.

With m the middle of the grid, S the noisy sum of (x − m) and C the noisy count, the release is m + S / max(C, 1), cut
to the bounds. Centring halves the noise of the sum for bounds that start at 0, and makes a group without values come
out near the middle. The interval combines an interval of S and one of C, each failing with half the probability
(union bound), over all sums and counts within them; it is cautious.

Expected error: S/C − s/c = ((S − s) − (s/c)(C − c)) / C, and |s/c| is at most half the width, h. With margins a of S
and b of C, the error in a group of n values is at most (a + h·b) / (n − b).

VAR_POP, VARIANCE (the sample's), and their square roots: a count, a sum and a sum of squares, each with noise.

With u the distance of a value from the middle of the bounds and h the most it can be, three integers are measured: the
number of values C, S = Σu and Q = Σ(u² − h²/2). The middle shift halves the noise of the squares and cancels in the
result: variance = (Q/C + h²/2) − (S/C)². It is cut to [0, h²], which holds for every list of values within the bounds.
VARIANCE and STDDEV are n/(n − 1) times that and are cut to [0, 2h²].

The interval combines intervals of the three, each failing with a third of the probability (union bound): with the
ranges [a, b] of the mean square and [c, d] of the mean, the variance lies between a − max(c², d²) and b − min(c², d²),
where the last is 0 if the mean may be 0. It covers the variance of the values that were kept, if there are any.

COUNT(DISTINCT column): how many people, or how many different values.

A unit counts once in each of its K groups, so the number of people has sensitivity K whatever its rows. A unit's R rows
of a group bring at most R new values, so the number of different values has sensitivity K·R; rows that the limits
leave out cannot bring any.

MODE(column): the most common of the declared categories, by report noisy max.

Every category's count gets noise, and the category with the largest noisy count is released. A unit adds at most R rows
in each of K groups, whichever categories they fall into, so all counts together have sensitivity K·R: the Laplace noise
of scale K·R/ε that noisy max needs for K groups (Dwork and Roth 2014, Claim 3.9, with counts that move by up to R)
already makes the counts themselves private. So they serve as they are: they tell which other categories the true mode
may be, which noisy max alone could not.

`among` lists the categories that cannot be excluded: the true mode is one of them with the stated confidence. With b
bins, all noises stay within m but for the failure probability, when each exceeds m with a b-th part of it (union
bound); then the mode's noisy count is at most 2m below the largest.

MEDIAN, QUANTILE_CONT, MIN and MAX: read off a tree of noisy counts over the bins of a grid.

For the edge j between two bins let D(j) = (1 − q)·(rows below j) − q·(rows above j), times the denominator of q. It
never falls as j grows, and a q-quantile lies in a bin j with D(j) ≤ 0 ≤ D(j + 1). Both counts are sums of nodes of the
tree (see `measures.BinTree`), so the noise in D(j) has a known law. All quantiles of a column share the tree: asking
for three costs as much as for one.

The value is the bin where D crosses 0, after the noisy D is made to rise (the middle of its running maximum from below
and its running minimum from above). The interval is made of all bins j with D(j) ≤ m(j) and D(j + 1) ≥ −m(j + 1), where
m(j) is exceeded with half of the failure probability: the bin of the true quantile is among them unless one of two
given noises strays, so no union over bins is needed.

A value stands for its nearest grid point; the answer is a grid point, cut to the bounds. Without values every bin is
possible, and the interval says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable._checks import shown
from deniable._remedies import HIGH, LOW, MORE, Option, Remedy
from deniable.errors import InvalidArgument, QueryError
from deniable.noise import Grid
from deniable.query.computed import ComputedAggregate
from deniable.query.estimates import (
    Aggregate,
    Choice,
    EstimateColumn,
    ExpectedError,
    Noisy,
    PlainError,
    divided,
    outward,
    possible,
    ratio_range,
    rounded,
)
from deniable.query.finishing import ComputedOutput
from deniable.query.grids import BinNumber, Distinct, Values, coarse, find
from deniable.query.keys import Keys
from deniable.query.measures import BinTree, Different, Measure, NodeCounts, UnitCounts, largest
from deniable.query.noises import IntegerNoise
from deniable.query.schema import AggregateOutput, Column, ColumnKind


@dataclass(frozen=True)
class CountAggregate(Aggregate):
    """The number of rows, or of values of a column."""

    values: Values | None

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (Measure(self.values),)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        found = noisy[self.measures[0]]
        return EstimateColumn(found.values, *possible(found.ends(failure), low=0, high=1))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        return PlainError(Fraction(laws[self.measures[0]].radius(failure)), 1 - failure)


@dataclass(frozen=True)
class SumAggregate(Aggregate):
    """The sum of a column's values."""

    values: Values

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (Measure(self.values, summed=True),)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        measure = self.measures[0]
        found = noisy[measure]
        ends = possible(found.ends(failure), low=measure.low, high=measure.high)
        return EstimateColumn(*(scaled(end, measure.step) for end in (found.values, *ends)))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        measure = self.measures[0]
        return PlainError(laws[measure].radius(failure) * measure.step, 1 - failure)


def scaled(integers: NDArray[Any], step: Fraction) -> NDArray[Any]:
    """Integers times the step: integers when the step is whole, else the nearest floats."""
    if step.denominator == 1:
        return integers if step == 1 else np.asarray(integers.astype(object) * step.numerator, dtype=object)
    if integers.dtype == np.int64 and largest(integers) * step.numerator < 1 << 53 > step.denominator:
        return np.asarray(integers * step.numerator / step.denominator)  # both exact, so this is the nearest float
    return np.asarray(integers.astype(object) * step.numerator / step.denominator, dtype=np.float64)


@dataclass(frozen=True)
class Average(Aggregate):
    """The mean of a column's values."""

    values: Values

    @property
    def measures(self) -> tuple[Measure, ...]:
        grid = Measure(self.values, summed=True)
        return (Measure(self.values, summed=True, centre=(grid.low + grid.high) // 2), Measure(self.values))

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        total, count = self.measures
        sums, counts = noisy[total], noisy[count]
        low, high = ratio_range(sums.ends(failure / 2), counts.ends(failure / 2), low=total.low, high=total.high)
        value = np.clip(divided(sums.values, np.maximum(counts.values, 1)), total.low, total.high)
        step, centre = float(total.step), float(total.centre * total.step)
        least, most = ((end + total.centre) * total.step for end in (total.low, total.high))
        ends = outward(low * step + centre, high * step + centre, least=float(least), most=float(most))
        return EstimateColumn(np.clip(value * step + centre, float(least), float(most)), *ends)

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        total, count = self.measures
        return AverageError(
            sum_margin=laws[total].radius(failure / 2) * total.step,
            count_margin=laws[count].radius(failure / 2),
            width=(total.high - total.low) * total.step,
            confidence=1 - failure,
        )


@dataclass(frozen=True)
class AverageError(ExpectedError):
    """An error that shrinks with the number of values in the group."""

    sum_margin: Fraction
    count_margin: int
    width: Fraction
    confidence: Fraction

    def __call__(self, rows: int | None = None) -> float:
        """The error in a group that keeps this many values; the whole width of the bounds when rows is left out."""
        if rows is None or rows <= self.count_margin:
            return float(self.width)
        half = self.width / 2
        return float(min(self.width, (self.sum_margin + half * self.count_margin) / (rows - self.count_margin)))

    def __str__(self) -> str:
        return f"± {rounded(self(1000))} in a group of 1,000 values, ± {rounded(self(100_000))} in one of 100,000"


@dataclass(frozen=True)
class VarianceAggregate(Aggregate):
    """The variance of a column's values, or its root; of the population, or of a sample."""

    values: Values
    sample: bool
    root: bool

    @property
    def measures(self) -> tuple[Measure, ...]:
        squares = Values(self.values.column, self.values.grid, squared=True)
        return (
            Measure(squares, summed=True, centre=squares.high // 2),
            Measure(self.values, summed=True, centre=self.values.middle),
            Measure(self.values),
        )

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        squares, sums, counts = (noisy[measure] for measure in self.measures)
        square, total, _ = self.measures
        third = failure / 3
        few = counts.ends(third)
        a, b = ratio_range(squares.ends(third), few, low=square.low, high=square.high)
        c, d = ratio_range(sums.ends(third), few, low=total.low, high=total.high)
        centre = float(square.centre)
        least = np.where((c <= 0) & (d >= 0), 0.0, np.minimum(c**2, d**2))
        low, high = a + centre - np.maximum(c**2, d**2), b + centre - least
        some = np.maximum(counts.values, 1)
        mean = np.clip(divided(sums.values, some), float(total.low), float(total.high))
        value = np.clip(divided(squares.values, some), float(square.low), float(square.high)) + centre - mean**2
        if self.sample:
            fewest, most = (np.maximum(np.asarray(end, dtype=np.float64), 2.0) for end in few)
            known = np.maximum(np.asarray(counts.values, dtype=np.float64), 2.0)
            low, high = low * most / (most - 1), high * fewest / (fewest - 1)
            value = value * known / (known - 1)
        top, unit = float(self._most), float(square.step)
        value, low, high = (np.clip(part, 0.0, top) * unit for part in (value, low, high))
        # Before the root, which would make dust near 0 large, and after it.
        low, high = outward(np.minimum(low, value), np.maximum(high, value), least=0.0, most=top * unit)
        if self.root:
            value, low, high = np.sqrt(value), np.sqrt(low), np.sqrt(high)
            low, high = outward(low, high, least=0.0, most=math.sqrt(top * unit))
        return EstimateColumn(value, low, high)

    @property
    def _most(self) -> int:
        """The largest variance that values within the bounds can have, in squared steps."""
        squares = Values(self.values.column, self.values.grid, squared=True)
        return 2 * squares.high if self.sample else squares.high

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        square, total, count = self.measures
        third, step = failure / 3, self.values.step
        return VarianceError(
            squares=laws[square].radius(third) * square.step,
            sums=laws[total].radius(third) * step,
            counts=laws[count].radius(third),
            half=max(abs(total.low), abs(total.high)) * step,
            sample=self.sample,
            root=self.root,
            confidence=1 - failure,
        )


@dataclass(frozen=True)
class VarianceError(ExpectedError):
    """An error that shrinks with the number of values in the group.

    With margins p of Q, a of S and k of C, n values, and h the half width: Q/C is off by (p + k·h²/2)/(n − k), the
    mean by e = (a + k·h)/(n − k), its square by e·(2h + e). The factor n/(n − 1) of a sample is off by at most
    k/(n − k − 1)². A root is off by at most the root of the variance's error.
    """

    squares: Fraction
    sums: Fraction
    counts: int
    half: Fraction
    sample: bool
    root: bool
    confidence: Fraction

    def __call__(self, rows: int | None = None) -> float:
        square = self.half**2
        widest = 2 * square if self.sample else square
        left = 0 if rows is None else rows - self.counts
        if left <= 1:
            found = widest
        else:
            mean = (self.sums + self.half * self.counts) / left
            found = (self.squares + square * self.counts / 2) / left + mean * (2 * self.half + mean)
            if self.sample:
                found = found * left / (left - 1) + square * self.counts / (left - 1) ** 2
        found = min(found, widest)
        return float(found) ** 0.5 if self.root else float(found)

    def __str__(self) -> str:
        return f"± {rounded(self(1000))} in a group of 1,000 values, ± {rounded(self(100_000))} in one of 100,000"


@dataclass(frozen=True)
class CountDistinct(Aggregate):
    """The number of units, or of different values of a column."""

    measure: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        found = noisy[self.measure]
        return EstimateColumn(found.values, *possible(found.ends(failure), low=0, high=1))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        return PlainError(Fraction(laws[self.measure].radius(failure)), 1 - failure)


@dataclass(frozen=True)
class ModeAggregate(Aggregate):
    """The most common category."""

    bins: BinNumber

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (NodeCounts(None, bins=self.bins, tree=BinTree.flat(self.bins.size)),)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> Choice:
        found = noisy[self.measures[0]]
        far = found.law.radius(failure / self.bins.size)
        names = np.array([*self.bins.categories, None], dtype=object)[:-1]  # the None keeps every name as it is
        best = found.values.max(axis=1)
        # Units beyond the limits may have brought the whole lead of another category.
        possible = best[:, None] - found.values <= 2 * far + (found.share or (0, 0))[1]
        among = [", ".join(str(name) for name in names[row]) for row in possible]
        return Choice(names[found.values.argmax(axis=1)], np.array(among, dtype=object))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        return ShortError(Fraction(2 * laws[self.measures[0]].radius(failure / self.bins.size)), 1 - failure)


class ShortError(PlainError):
    """By how many rows the category that is named may fall short of the most common one."""

    def __str__(self) -> str:
        return f"a category with at most {rounded(float(self.size))} rows fewer than the most common one"


@dataclass(frozen=True)
class QuantileAggregate(Aggregate):
    """The q-quantile of a column's values."""

    bins: BinNumber
    level: Fraction

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self._counts,)

    @property
    def _counts(self) -> NodeCounts:
        return NodeCounts(None, bins=self.bins, tree=BinTree.of_bins(self.bins.size))

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        counts = self._counts
        found, tree = noisy[counts], counts.tree
        up, down = self._weights
        lead = up * tree.below(found.values) - down * tree.above(found.values)
        margins = self.margins(found.law, failure / 2)
        rising = (np.maximum.accumulate(lead, axis=1) + np.minimum.accumulate(lead[:, ::-1], axis=1)[:, ::-1]) / 2
        last = tree.size - 1
        first = np.clip((rising[:, 1:] < 0).sum(axis=1), 0, last)
        final = np.clip((rising[:, :-1] <= 0).sum(axis=1) - 1, 0, last)
        # Where D is 0 over several bins all of them are right: the middle is, and of the ends the one next to values.
        value = {Fraction(0): final, Fraction(1): first}.get(self.level, (first + final) // 2)
        # Without M rows of units beyond the limits D is lower by at most up·M and higher by at most down·M.
        beyond = float((found.share or (0, 0))[1])
        possible = (lead[:, :-1] <= margins[:-1] + up * beyond) & (lead[:, 1:] >= -margins[1:] - down * beyond)
        any_ = possible.any(axis=1)
        low = np.where(any_, possible.argmax(axis=1), value)
        high = np.where(any_, last - possible[:, ::-1].argmax(axis=1), value)
        points, low, high = (self._points(bins) for bins in (value, np.minimum(low, value), np.maximum(high, value)))
        return EstimateColumn(points, *((low, high) if found.share is None else self._unrounded(low, high)))

    def _unrounded(self, low: NDArray[Any], high: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ends that hold every value which stands on the grid points between them: half a step further."""
        grid = self._grid
        if self.bins.column.kind is ColumnKind.INTEGER and grid.step == 1:
            return low, high
        half = float(grid.step) / 2 * (1 + 1e-9)
        ends = (np.asarray(low, dtype=np.float64) - half, np.asarray(high, dtype=np.float64) + half)
        return np.maximum(ends[0], float(grid.low)), np.minimum(ends[1], float(grid.high))

    def margins(self, law: IntegerNoise, failure: Fraction) -> NDArray[np.float64]:
        """How far the noise of D may go at each edge, to one side, but for this probability."""
        below, above = self._counts.tree.used
        up, down = self._weights
        known: dict[tuple[int, int], float] = {}
        for pair in set(zip(below.tolist(), above.tolist(), strict=True)):
            known[pair] = law.sum_radius(((up, pair[0]), (down, pair[1])), failure)
        return np.array([known[pair] for pair in zip(below.tolist(), above.tolist(), strict=True)])

    @property
    def _weights(self) -> tuple[float, float]:
        """What D is made of, times the denominator of q: whole numbers, so that ties are ties."""
        return float(self.level.denominator - self.level.numerator), float(self.level.numerator)

    def _points(self, bins: NDArray[np.int64]) -> NDArray[np.float64]:
        grid = self._grid
        points = scaled(bins + grid.lowest, grid.step)
        if grid.low % grid.step == 0 and grid.high % grid.step == 0:
            return points
        return np.clip(np.asarray(points, dtype=np.float64), float(grid.low), float(grid.high))

    @property
    def _grid(self) -> Grid:
        if self.bins.grid is None:
            raise TypeError("quantiles need a grid")
        return self.bins.grid

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        law = laws[self._counts]
        up, down = self._weights
        # Nodes are symmetric and unimodal: where more of them are added up on both sides, the sum goes at least as far.
        pairs = set(zip(*(side.tolist() for side in self._counts.tree.used), strict=True))
        most = [(a, b) for a, b in pairs if not any((a, b) != (c, d) and a <= c and b <= d for c, d in pairs)]
        worst = max(law.sum_radius(((up, a), (down, b)), failure / 2) for a, b in most) / self.level.denominator
        return RankError(worst, self.level, self._grid.high - self._grid.low, 1 - failure)


@dataclass(frozen=True)
class RankError(ExpectedError):
    """An error in ranks: how far the answer is in values depends on how close the values lie, which is private."""

    ranks: float
    level: Fraction
    width: Fraction
    confidence: Fraction

    def __call__(self, rows: int | None = None) -> float:
        """The width of the bounds: no better is known beforehand."""
        return float(self.width)

    @property
    def size_of_noise(self) -> float:
        return self.ranks

    def __str__(self) -> str:
        return f"± {rounded(self.ranks)} in rank, of the {shown(self.level * 100)} % quantile"


_WIDEST = 1 << 31
"""Grid points between bounds, at most, whose squares are added up."""


def build(
    output: AggregateOutput | ComputedOutput,
    grids: Mapping[str, Grid],
    *,
    unit: Column | None,
    categories: Callable[[Column], Keys | None],
) -> Aggregate:
    """The aggregate that an output of a query asks for, with the bounds it needs; `categories` gives those of a
    column."""
    if isinstance(output, ComputedOutput):
        parts = tuple(build(part, grids, unit=unit, categories=categories) for part in output.parts)
        return ComputedAggregate(output.name, output.formula, parts)
    column, function = output.column, output.function
    if column is None:
        return CountAggregate(output.name, None)
    if output.distinct:
        people = unit is not None and column == unit
        measure = UnitCounts(None, noun=column.name) if people else Different(None, distinct=Distinct(column))
        return CountDistinct(output.name, measure)
    if function == "mode":
        known = categories(column)
        if known is None or known.values is None or known.texts is None:
            keys = Option("keys", {column.name: [MORE]})
            raise QueryError(
                Remedy(
                    f"{output.text} needs its categories declared: which values there are must not come from the data; "
                    f"give {keys} with the public list of values",
                    keys,
                )
            )
        return ModeAggregate(output.name, BinNumber(column, None, known.values, known.texts, known.type))
    grid = find(column, grids)
    values = Values(column, grid)
    if function == "count":
        return CountAggregate(output.name, values)
    if grid is None:
        stated = Option("bounds", {column.name: (LOW, HIGH)})
        raise QueryError(
            Remedy(
                f"{output.text} needs bounds for {column.name}: one value could otherwise move it without limit; "
                f"give {stated} from what you know, or give epsilon in place of an error: then they are found "
                "privately",
                stated,
            )
        )
    if function == "quantile" and output.level is not None:
        return QuantileAggregate(output.name, BinNumber(column, coarse(column, grid)), output.level)
    if function in ("sum", "avg"):
        return SumAggregate(output.name, values) if function == "sum" else Average(output.name, values)
    if grid.highest - grid.lowest > _WIDEST:
        raise InvalidArgument(
            f"bounds[{column.name!r}] step", grid.step, f"at least 1/{_WIDEST} of the distance of the bounds",
            "The squares of a variance must fit 64 bits.",
        )  # fmt: skip
    return VarianceAggregate(output.name, values, sample=function.endswith("samp"), root=function.startswith("stddev"))
