"""VAR_POP, VARIANCE (the sample's), and their square roots: a count, a sum and a sum of squares, each with noise.

With u the distance of a value from the middle of the bounds and h the most it can be, three integers are measured: the
number of values C, S = Σu and Q = Σ(u² − h²/2). The middle shift halves the noise of the squares and cancels in the
result: variance = (Q/C + h²/2) − (S/C)². It is cut to [0, h²], which holds for every list of values within the bounds.
VARIANCE and STDDEV are n/(n − 1) times that and are cut to [0, 2h²].

The interval combines intervals of the three, each failing with a third of the probability (union bound): with the
ranges [a, b] of the mean square and [c, d] of the mean, the variance lies between a − max(c², d²) and b − min(c², d²),
where the last is 0 if the mean may be 0. It covers the variance of the values that were kept, if there are any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from deniable.numerics.discrete import laplace_radius
from deniable.query.aggregates.base import Aggregate, EstimateColumn, ExpectedError, Noisy, rounded
from deniable.query.intervals import divided, outward, ratio_range, roomy
from deniable.query.measures import Measure, Values


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
        few = counts.margin(third)
        a, b = ratio_range(
            squares.values, counts.values, sum_margin=squares.margin(third), count_margin=few,
            low=square.low, high=square.high,
        )  # fmt: skip
        c, d = ratio_range(
            sums.values, counts.values, sum_margin=sums.margin(third), count_margin=few, low=total.low, high=total.high
        )
        centre = float(square.centre)
        least = np.where((c <= 0) & (d >= 0), 0.0, np.minimum(c**2, d**2))
        low, high = a + centre - np.maximum(c**2, d**2), b + centre - least
        some = np.maximum(counts.values, 1)
        mean = np.clip(divided(sums.values, some), float(total.low), float(total.high))
        value = np.clip(divided(squares.values, some), float(square.low), float(square.high)) + centre - mean**2
        if self.sample:
            wide = roomy(counts.values, few)
            most = np.maximum(np.asarray(wide + few, dtype=np.float64), 2.0)
            fewest = np.maximum(np.asarray(wide - few, dtype=np.float64), 2.0)
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

    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        square, total, count = self.measures
        third, step = failure / 3, self.values.step
        return VarianceError(
            squares=laplace_radius(scales[square], third) * square.step,
            sums=laplace_radius(scales[total], third) * step,
            counts=laplace_radius(scales[count], third),
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
