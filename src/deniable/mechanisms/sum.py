"""The sum of a bounded column.

Every record is clamped to the bounds [a, b] and placed on a grid, so that the sum is an exact integer of grid steps.
One record moves it by max(|a|, |b|) if it is added, removed or blanked out, and by b − a if it is replaced.

>>> m = sum_of(bounds=(0, 100), epsilon=1)
>>> m.event
DiscreteLaplace(scale=512, sensitivity=512)
>>> m.statement(0.95)
'with probability 95 % the error is at most 300'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from deniable._checks import Number
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import Noised, Statistic, budget_of, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Grid, Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Sum(Mechanism):
    """A sum of clamped records. `grid.step` is how finely a record is placed: it moves each by at most half of that."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    def __call__(self, values: object, /, *, source: Source | None = None) -> float | int:
        """The noisy sum. A missing record counts as the point of the bounds nearest to 0."""
        total = self.grid.total(self.grid.place(records.numbers(values)))
        return grids.value_of(self.noised.release_one(total, source), self.grid.step, self.noised.unit)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − sum of the records as clamped and placed on the grid|."""
        return float_above(self.noised.radius(failure(confidence)) * self.grid.step)


def sum_of(
    *,
    bounds: tuple[Number, Number],
    epsilon: Number,
    delta: Number = 0,
    relation: Relation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> Sum:
    """A sum with Laplace noise, or Gaussian noise if `delta` is positive. `step` is the grid."""
    found, allowed = budget_of(epsilon, delta)
    grid = grids.record_grid(bounds, step)
    reach = max(abs(grid.lowest), abs(grid.highest))
    replaced = relation is Relation.REPLACE
    statistic = on_grid(grid.highest - grid.lowest if replaced else reach, step, reach=reach if replaced else None)
    (noised,) = fit([statistic], epsilon=found, delta=allowed, relation=relation)
    return Sum(found, allowed, grid, noised)


def on_grid(moved: int, step: Number | None, *, reach: int | None = None, share: Fraction = Fraction(1)) -> Statistic:
    """A statistic of this sensitivity in grid steps; noise keeps to a step that the caller chose."""
    if step is None:
        return Statistic(moved, reach=reach, share=share)
    return Statistic(1, l1=moved, l2_squared=Fraction(moved) ** 2, reach=reach, share=share)
