"""SUM(column): an exact sum on the grid plus noise, times the step. Without rows it is 0 plus noise, where SQL says
NULL: whether a group has rows is private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.numerics.discrete import laplace_radius
from deniable.query.aggregates.base import Aggregate, EstimateColumn, ExpectedError, Noisy, PlainError
from deniable.query.measures import Measure, Values, largest


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
        return EstimateColumn(*(scaled(end, measure.step) for end in (found.values, *found.ends(failure))))

    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        measure = self.measures[0]
        return PlainError(laplace_radius(scales[measure], failure) * measure.step, 1 - failure)


def scaled(integers: NDArray[Any], step: Fraction) -> NDArray[Any]:
    """Integers times the step: integers when the step is whole, else the nearest floats."""
    if step.denominator == 1:
        return integers if step == 1 else np.asarray(integers.astype(object) * step.numerator, dtype=object)
    if integers.dtype == np.int64 and largest(integers) * step.numerator < 1 << 53 > step.denominator:
        return np.asarray(integers * step.numerator / step.denominator)  # both exact, so this is the nearest float
    return np.asarray(integers.astype(object) * step.numerator / step.denominator, dtype=np.float64)
