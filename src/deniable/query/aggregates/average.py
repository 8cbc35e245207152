"""AVG(column): a noisy sum of the distances from the middle of the bounds, over a noisy count.

With m the middle of the grid, S the noisy sum of (x − m) and C the noisy count, the release is m + S / max(C, 1), cut
to the bounds. Centring halves the noise of the sum for bounds that start at 0, and makes a group without values come
out near the middle. The interval combines an interval of S and one of C, each failing with half the probability
(union bound), over all sums and counts within them; it is cautious. It covers m + s/c of the values that were kept,
if there are any.

Expected error: S/C − s/c = ((S − s) − (s/c)(C − c)) / C, and |s/c| is at most half the width, h. With margins a of S
and b of C, the error in a group of n values is at most (a + h·b) / (n − b).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from deniable.numerics.discrete import laplace_radius
from deniable.query.aggregates.base import Aggregate, EstimateColumn, ExpectedError, Noisy, rounded
from deniable.query.intervals import divided, outward, ratio_range
from deniable.query.measures import Measure, Values


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
        low, high = ratio_range(
            sums.values,
            counts.values,
            sum_margin=sums.margin(failure / 2),
            count_margin=counts.margin(failure / 2),
            low=total.low,
            high=total.high,
        )
        value = np.clip(divided(sums.values, np.maximum(counts.values, 1)), total.low, total.high)
        step, centre = float(total.step), float(total.centre * total.step)
        least, most = ((end + total.centre) * total.step for end in (total.low, total.high))
        ends = outward(low * step + centre, high * step + centre, least=float(least), most=float(most))
        return EstimateColumn(np.clip(value * step + centre, float(least), float(most)), *ends)

    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        total, count = self.measures
        return AverageError(
            sum_margin=laplace_radius(scales[total], failure / 2) * total.step,
            count_margin=laplace_radius(scales[count], failure / 2),
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
