"""COUNT(DISTINCT column): how many people, or how many different values.

A unit counts once in each of its K groups, so the number of people has sensitivity K whatever its rows. A unit's R rows
of a group bring at most R new values, so the number of different values has sensitivity K·R; rows that the limits
leave out cannot bring any, which is a bias that the interval does not show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from deniable.numerics.discrete import laplace_radius
from deniable.query.aggregates.base import Aggregate, EstimateColumn, ExpectedError, Noisy, PlainError
from deniable.query.measures import Measure


@dataclass(frozen=True)
class CountDistinct(Aggregate):
    """The number of units, or of different values of a column."""

    measure: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        found = noisy[self.measure]
        return EstimateColumn(found.values, *found.ends(failure))

    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        return PlainError(Fraction(laplace_radius(scales[self.measure], failure)), 1 - failure)
