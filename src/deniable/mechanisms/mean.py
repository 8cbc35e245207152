"""The mean of a bounded column, by the relation that says whether its length is public.

Under REPLACE the number n of records is public and one record moves the mean of values in [a, b] by (b − a)/n, not
twice that (which is sometimes printed for [0, 1]). Under ZERO_OUT n is public too, and a blanked record counts as the
middle of the bounds. Under ADD_REMOVE n is private: half the budget buys the sum of x − (a + b)/2, half the count,
and their ratio is clamped to the bounds. Its accuracy depends on n, which `error` must then be told.

>>> m = mean(bounds=(0, 1), epsilon=1, n=1000, relation=Relation.REPLACE)
>>> m.statement(0.95)
'with probability 95 % the error is at most 0.003'
>>> unknown = mean(bounds=(0, 1), epsilon=1)
>>> unknown.event
DiscreteLaplace(scale=512, sensitivity=256) + DiscreteLaplace(scale=2)
>>> unknown.statement(0.95, n=1000)
'with probability 95 % the error is at most 0.00725'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from deniable import _checks
from deniable._checks import Number
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, lengths, records
from deniable.mechanisms.additive import Noised, Statistic, budget_of, fit, together
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.sum import on_grid
from deniable.noise import Grid, Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Mean(Mechanism):
    """A mean of clamped records whose number is public."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    n: int
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy mean of n values. A missing record counts as the point of the bounds nearest to 0.

        Under ZERO_OUT it is a blanked one, and counts as their middle.
        """
        found = records.numbers(values)
        lengths.held(found, self.n, what="mean")
        if self.relation is Relation.ZERO_OUT:
            found = found[~np.isnan(found)]
        # Twice the distance from the middle is an integer; the middle is what a blanked record counts as.
        doubled = 2 * self.grid.total(self.grid.place(found)) - len(found) * (self.grid.lowest + self.grid.highest)
        noisy = self.noised.release_one(doubled, source)
        middle = Fraction(self.grid.lowest + self.grid.highest, 2)
        return grids.float_of((noisy / (2 * self.n) + middle) * self.grid.step)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − mean of the clamped records|, rounding included."""
        noise = self.noised.radius(failure(confidence)) * self.grid.step / (2 * self.n)
        return float_above(noise + self.grid.step / 2)


@dataclass(frozen=True, repr=False)
class MeanOfUnknownSize(Mechanism):
    """A mean of clamped records whose number is private: a noisy sum over a noisy count, clamped to the bounds."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    total: Noised = field(repr=False)
    size: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return together([self.total.noise, self.size.noise])

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy mean of the values that are there; missing ones are left out."""
        found = records.numbers(values)
        found = found[~np.isnan(found)]
        edges = self.grid.lowest + self.grid.highest
        doubled = 2 * self.grid.total(self.grid.place(found)) - len(found) * edges
        noisy = self.total.release_one(doubled, source)
        size = max(self.size.release_one(len(found), source), Fraction(1))
        half = Fraction(self.grid.highest - self.grid.lowest, 2)
        centred = min(max(noisy / (2 * size), -half), half)
        return grids.float_of((centred + Fraction(edges, 2)) * self.grid.step)

    def error(self, confidence: Number = Fraction(19, 20), *, n: int | None = None) -> float:
        """A bound on |release − mean| for data of n values.

        With errors s of the sum and c < n of the count, and |mean| ≤ h, a ratio is off by at most (s + h·c)/(n − c).
        """
        many = lengths.planned(n, what="mean")
        half = Fraction(self.grid.highest - self.grid.lowest, 2)
        risk = failure(confidence) / 2
        s, c = self.total.radius(risk) / 2, self.size.radius(risk)
        ratio = (s + half * c) / (many - c) if c < many else 2 * half
        return float_above((min(ratio, 2 * half) + Fraction(1, 2)) * self.grid.step)


def mean(
    *,
    bounds: tuple[Number, Number],
    epsilon: Number,
    delta: Number = 0,
    n: int | None = None,
    relation: Relation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> Mean | MeanOfUnknownSize:
    """A mean with Laplace noise, or Gaussian noise if `delta` is positive.

    `n` is given under REPLACE and ZERO_OUT, where it is public, and left out under ADD_REMOVE, where it is private.
    """
    _checks.member("relation", relation, Relation, remedy="Use ADD_REMOVE, REPLACE or ZERO_OUT.")
    many = lengths.stated(n, relation)
    found, allowed = budget_of(epsilon, delta)
    grid = grids.record_grid(bounds, step)
    width = grid.highest - grid.lowest
    if many is None:
        half = Fraction(1, 2)
        # Twice the distance of a record from the middle is at most the width.
        statistics = [on_grid(width, step, share=half), Statistic(1, share=half)]
        total, size = fit(statistics, epsilon=found, delta=allowed, relation=relation)
        return MeanOfUnknownSize(found, allowed, grid, total, size)
    moved = 2 * width if relation is Relation.REPLACE else width
    (noised,) = fit([on_grid(moved, step)], epsilon=found, delta=allowed, relation=relation)
    return Mean(found, allowed, grid, many, noised)
