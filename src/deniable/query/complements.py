"""SUM, COUNT and AVG of one column from one vector: the distances of its values from both bounds.

For values x with bounds low and high, w = high − low, two numbers are measured per group: A = Σ(x − low) and B =
Σ(high − x). A row adds x − low to the one and high − x to the other, w in all: both together move by K·R·w in L1, and
by √K·R·w in L2, as one of them alone would. The other numbers follow:

    COUNT = (A + B)/w        SUM = (high·A + low·B)/w        AVG = low + w·A/(A + B).

A sum and a count that are measured side by side share ε. With half of it each, the sum of values in [0, b] has noise of
scale 2K·R·b/ε and the count 2K·R/ε. From the vector, the sum has K·R·b/ε, and the count the sum of two such noises over
b, which reaches two thirds as far. For other bounds the deviation of the sum is √(low² + high²)/max(|low|, |high|) ≤ √2
times as large, where it is 2 apart. An average needs both anyway.

**The interval of an average.** Let p = A/(A + B) be the place of the true average between the bounds, and X, Y the
noises of A and B. Then (1 − p)(A + X) − p(B + Y) = (1 − p)X − pY. If that is within ±m, p lies between
(A + X − m)/(A + X + B + Y) and (A + X + m)/(A + X + B + Y), where the denominator is positive; elsewhere it may be
anywhere. So no union over two margins is needed, and `IntegerNoise.mixture_radius` gives an m for all p at once.

**Units beyond the limits** (`estimates`) add α ≥ 0 to A and β ≥ 0 to B, α + β ≤ M in one group. Without them, p = (A −
α)/(A + B − α − β), and (1 − p)(A + X) − p(B + Y) = (1 − p)X − pY + (1 − p)α − pβ, whose last two terms lie between −pM
and (1 − p)M. So with Z = A + X + B + Y, p lies between (A + X − m − M)/(Z − M) and (A + X + m)/(Z − M) where Z > M.

Columns of which a variance is asked keep their three measures, which an average shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.query.aggregates import (
    Average,
    AverageError,
    CountAggregate,
    SumAggregate,
    VarianceAggregate,
    scaled,
)
from deniable.query.computed import ComputedAggregate
from deniable.query.estimates import (
    Aggregate,
    EstimateColumn,
    ExpectedError,
    IntervalEnds,
    Noisy,
    PlainError,
    divided,
    outward,
    possible,
    roomy,
)
from deniable.query.grids import Values
from deniable.query.measures import BoundDistances, Measure
from deniable.query.noises import IntegerNoise


def share_vectors(aggregates: Sequence[Aggregate]) -> tuple[Aggregate, ...]:
    """The same aggregates, where those of one column that gain by it read one vector."""
    simple = list(_simple(aggregates))
    averaged = {one.values for one in simple if isinstance(one, Average)}
    summed = {one.values for one in simple if isinstance(one, SumAggregate)}
    counted = {one.values for one in simple if isinstance(one, CountAggregate)}
    kept = {one.values for one in simple if isinstance(one, VarianceAggregate)}
    return tuple(_sharing(one, (averaged | (summed & counted)) - kept) for one in aggregates)


def _simple(aggregates: Iterable[Aggregate]) -> Iterator[Aggregate]:
    """The aggregates, and those that formulas are made of."""
    for one in aggregates:
        if isinstance(one, ComputedAggregate):
            yield from _simple(one.parts)
        else:
            yield one


def _sharing(one: Aggregate, columns: set[Values]) -> Aggregate:
    match one:
        case ComputedAggregate():
            return replace(one, parts=tuple(_sharing(part, columns) for part in one.parts))
        case Average(name=name, values=values) if values in columns:
            return SharedAverage(name, BoundDistances(values))
        case SumAggregate(name=name, values=values) if values in columns:
            return SharedSum(name, BoundDistances(values))
        case CountAggregate(name=name, values=Values() as values) if values in columns:
            return SharedCount(name, BoundDistances(values))
    return one


@dataclass(frozen=True)
class SharedAggregate(Aggregate):
    """What is read off the distances from both bounds."""

    distances: BoundDistances

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.distances,)

    def _columns(self, noisy: Mapping[Measure, Noisy], margin: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """A and B, with room to add them and a margin."""
        values = noisy[self.distances].values
        wide = roomy(values, 2 * int(np.abs(values).max(initial=0)) + margin)
        return wide[:, 0], wide[:, 1]

    def _beyond(self, noisy: Mapping[Measure, Noisy]) -> int:
        """The most that units beyond the limits add to A and B together, of one group."""
        return (noisy[self.distances].share or (0, 0))[1]

    def _reach(self, law: IntegerNoise, failure: Fraction, *weights: Fraction) -> int:
        """How far a weighted sum of the two noises may be off, but for this probability, in steps."""
        parts = tuple((float(abs(weight)), 1) for weight in weights)
        return math.ceil(law.sum_radius(parts, failure / 2) * (1 + 1e-12))


class SharedCount(SharedAggregate):
    """The number of values. It is whole, and so are the ends of its interval."""

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        far = self._reach(noisy[self.distances].law, failure, Fraction(1), Fraction(1))
        beyond, width = self._beyond(noisy), self.distances.high
        above, below = self._columns(noisy, far + beyond)
        total = above + below
        ends = IntervalEnds(-((far + beyond - total) // width), (total + far) // width)
        return EstimateColumn((2 * total + width) // (2 * width), *possible(ends, low=0, high=1))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        far = self._reach(laws[self.distances], failure, Fraction(1), Fraction(1))
        return PlainError(Fraction(far, self.distances.high) + Fraction(1, 2), 1 - failure)


class SharedSum(SharedAggregate):
    """The sum of the values, in whole steps."""

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        step, (low, high), width = self.distances.step, self.distances.ends, self.distances.high
        far, beyond = self._margin(noisy[self.distances].law, failure), self._beyond(noisy)
        above, below = self._columns(noisy, far + beyond)
        # Units beyond the limits add (high·α + low·β)/w to the sum, for α, β ≥ 0 with α + β within `beyond`.
        less, more = far + beyond // width * max(high, 0), far - beyond // width * min(low, 0)
        if low == 0:
            ends = possible(IntervalEnds(above - less, above + more), low=low, high=high)
            return EstimateColumn(*(scaled(end, step) for end in (above, *ends)))
        whole = high * above.astype(object) + low * below.astype(object)
        ends = possible(IntervalEnds(-(-whole // width) - less, whole // width + more), low=low, high=high)
        value = (2 * whole + width) // (2 * width)
        return EstimateColumn(*(scaled(np.asarray(part, dtype=object), step) for part in (value, *ends)))

    def _margin(self, law: IntegerNoise, failure: Fraction) -> int:
        low, high = self.distances.ends
        if low == 0:
            return law.radius(failure)
        return self._reach(law, failure, Fraction(high, self.distances.high), Fraction(low, self.distances.high))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        rounding = Fraction(1, 2) if self.distances.ends[0] else Fraction(0)
        return PlainError((self._margin(laws[self.distances], failure) + rounding) * self.distances.step, 1 - failure)


class SharedAverage(SharedAggregate):
    """The mean of the values."""

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        far, beyond = noisy[self.distances].law.mixture_radius(failure), self._beyond(noisy)
        above, below = self._columns(noisy, far + beyond)
        total = above + below

        def place(part: NDArray[Any], whole: NDArray[Any], otherwise: float) -> NDArray[np.float64]:
            ratio = divided(part, np.where(whole > 0, whole, 1))
            return np.where(whole > 0, np.clip(ratio, 0.0, 1.0), otherwise)

        places = (
            place(above, total, 0.5),
            place(above - far - beyond, total - beyond, 0.0),
            place(above + far, total - beyond, 1.0),
        )
        low, high = (float(end * self.distances.step) for end in self.distances.ends)
        value, least, most = (np.clip(low + place * (high - low), low, high) for place in places)
        return EstimateColumn(value, *outward(least, most, least=low, most=high))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        law, half = laws[self.distances], failure / 2
        rows = -(-self._reach(law, half, Fraction(1), Fraction(1)) // self.distances.high)
        return SharedAverageError(
            sum_margin=law.mixture_radius(half) * self.distances.step,
            count_margin=rows,
            width=self.distances.high * self.distances.step,
            confidence=1 - failure,
        )


class SharedAverageError(AverageError):
    """With margins m of (1 − p)X − pY and k of the count, a group of n values is off by at most m/(n − k)."""

    def __call__(self, rows: int | None = None) -> float:
        if rows is None or rows <= self.count_margin:
            return float(self.width)
        return float(min(self.width, self.sum_margin / (rows - self.count_margin)))
