"""COUNT(*) and COUNT(column): integers, released as they come out of the noise, so they may be negative.

A negative count is kept: cutting it at 0 would make small groups look larger on average, and sums over groups wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from deniable.numerics.discrete import laplace_radius
from deniable.query.aggregates.base import Aggregate, EstimateColumn, ExpectedError, Noisy, PlainError
from deniable.query.measures import Measure, Values


@dataclass(frozen=True)
class CountAggregate(Aggregate):
    """The number of rows, or of values of a column."""

    values: Values | None

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (Measure(self.values),)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        found = noisy[self.measures[0]]
        return EstimateColumn(found.values, *found.ends(failure))

    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        return PlainError(Fraction(laplace_radius(scales[self.measures[0]], failure)), 1 - failure)
