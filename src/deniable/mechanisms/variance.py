"""The variance of a bounded column: the mean squared distance from the mean (divisor n).

With a public n (REPLACE): for integers z, n·Σz² − (Σz)² = n²·variance is an integer, and replacing one value in a
range of width w moves it by at most (n − 1)·w². (As a function of one z it is the parabola (n − 1)(z − v)² + const
with its vertex v at the mean of the others, inside the range.) So the variance has sensitivity (n − 1)/n²·(b − a)².

With a private n (ADD_REMOVE): a third of the budget each for the count, for Σu and for Σ(u² − h²/2), where u is the
distance from the middle of the bounds and h half their width; the variance is read off those and clamped to [0, h²].

>>> variance(bounds=(0, 1), epsilon=1, n=1000, relation=Relation.REPLACE).statement(0.95)
'with probability 95 % the error is at most 0.003'
>>> variance(bounds=(0, 1), epsilon=1).statement(0.95, n=10_000)
'with probability 95 % the error is at most 0.00153'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from deniable._checks import Number
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, lengths, records
from deniable.mechanisms.additive import Noised, Statistic, budget_of, fit, relation_of, together
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Grid, Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Variance(Mechanism):
    """The variance of n clamped records, n public."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    n: int
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy variance, at least 0. A missing record counts as the point of the bounds nearest to 0."""
        found = records.numbers(values)
        lengths.held(found, self.n, what="variance")
        first, second = moments(self.grid.place(found) - self.grid.lowest)
        noisy = self.noised.release_one(self.n * second - first * first, source)
        return grids.float_of(max(noisy, Fraction(0)) / self.n**2 * self.grid.step**2)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − variance of the clamped records|, rounding included."""
        noise = self.noised.radius(failure(confidence)) / self.n**2 * self.grid.step**2
        return float_above(noise + rounding(self.grid))


@dataclass(frozen=True, repr=False)
class VarianceOfUnknownSize(Mechanism):
    """The variance of clamped records whose number is private."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    parts: tuple[Noised, Noised, Noised] = field(repr=False)

    @property
    def event(self) -> Event:
        return together([part.noise for part in self.parts])

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy variance of the values that are there, between 0 and a quarter of the squared width."""
        found = records.numbers(values)
        found = found[~np.isnan(found)]
        width = self.grid.highest - self.grid.lowest
        # u = 2(z − lowest) − width lies in [−width, width]: twice the distance from the middle.
        first, second = moments(2 * (self.grid.place(found) - self.grid.lowest) - width)
        count = max(self.parts[0].release_one(len(found), source), Fraction(1))
        u1 = _clamped(self.parts[1].release_one(first, source) / count, -width, width)
        shifted = self.parts[2].release_one(2 * second - len(found) * width**2, source)
        u2 = _clamped((shifted / count + width**2) / 2, 0, width**2)
        return grids.float_of(_clamped(u2 - u1 * u1, 0, width**2) / 4 * self.grid.step**2)

    def error(self, confidence: Number = Fraction(19, 20), *, n: int | None = None) -> float:
        """A bound on |release − variance| for n values: each moment is off as in `mean`, u1² by 2w times that."""
        many = lengths.planned(n, what="variance")
        width = Fraction(self.grid.highest - self.grid.lowest)
        c, s1, s2 = (part.radius(failure(confidence) / 3) for part in self.parts)
        most = width**2
        if c < many:
            first = (s1 + width * c) / (many - c)
            second = (s2 + width**2 * c) / (2 * (many - c))
            most = min(most, second + 2 * width * first)
        return float_above(most / 4 * self.grid.step**2 + rounding(self.grid))


def variance(
    *,
    bounds: tuple[Number, Number],
    epsilon: Number,
    delta: Number = 0,
    n: int | None = None,
    relation: Relation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> Variance | VarianceOfUnknownSize:
    """A variance with Laplace noise, or Gaussian noise if `delta` is positive; `n` as for `mean`."""
    relation_of(relation, Relation.ADD_REMOVE, Relation.REPLACE, why="A blanked record has no place in a variance.")
    many = lengths.stated(n, relation, least=2)
    found, allowed = budget_of(epsilon, delta)
    grid = grids.record_grid(bounds, step)
    width = grid.highest - grid.lowest
    if many is None:
        third = Fraction(1, 3)
        statistics = [Statistic(moved, share=third) for moved in (1, width, width**2)]
        count, first, second = fit(statistics, epsilon=found, delta=allowed, relation=relation)
        return VarianceOfUnknownSize(found, allowed, grid, (count, first, second))
    (noised,) = fit([Statistic((many - 1) * width**2)], epsilon=found, delta=allowed, relation=relation)
    return Variance(found, allowed, grid, many, noised)


def moments(indices: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[int, int]:
    """The sum and the sum of squares of integers below 2**53 in size, exactly."""
    low, high = indices & 0x3FFFFFF, indices >> 26
    chunk = 1 << 8  # products of 27 bits, and sums of 2**8 of them, stay below 2**63
    squares = 0
    for factor, one, other in ((1, low, low), (2 << 26, low, high), (1 << 52, high, high)):
        product = one * other
        padded = np.append(product, np.zeros(-len(product) % chunk, dtype=np.int64)).reshape(-1, chunk)
        squares += factor * sum(map(int, padded.sum(axis=1)))
    total = (int(high.sum()) << 26) + int(low.sum())
    return total, squares


def rounding(grid: Grid) -> Fraction:
    """How far placing every record within half a step moves a variance: at most (width + step)·step/2.

    The standard deviation moves by at most half a step; before and after, it is at most half the width and a step.
    """
    return Fraction(grid.highest - grid.lowest + 1, 2) * grid.step**2


def _clamped(value: Fraction, low: int, high: int) -> Fraction:
    return min(max(value, Fraction(low)), Fraction(high))
