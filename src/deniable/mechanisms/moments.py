"""Sums, means and variances of bounded columns.

Every record is clamped to public bounds and rounded to a grid, so that sums are exact integers. The relation decides
whether the number of records is public (REPLACE, ZERO_OUT: state `size`) or private (ADD_REMOVE: part of the budget
buys a noisy count).

>>> mean(bounds=(0, 1), epsilon=1, size=1000, relation=Relation.REPLACE).statement(0.95)
'with probability 95 % the error is at most 0.003'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import DataError, InvalidArgument
from deniable.events import Event
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import (
    AdditiveMechanism,
    AdditiveNoise,
    Statistic,
    check_budget,
    check_relation,
    compose_events,
    fit,
)
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Grid, Source
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation


@dataclass(frozen=True, repr=False)
class Sum(AdditiveMechanism):
    """A sum of clamped records. `grid.step` is how finely a record is placed: it moves each by at most half of that."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, values: object, /, *, source: Source | None = None) -> float | int:
        """The noisy sum. A missing record counts as the point of the bounds nearest to 0."""
        total = self.grid.total(self.grid.place(records.read_numbers(values)))
        return grids.from_steps(self.noise.release_one(total, source), self.grid.step, self.noise.unit)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − sum of the records as clamped and placed on the grid|."""
        return float_above(self.noise.radius(failure(confidence)) * self.grid.step)


@limit_sizes
def sum_of(
    *,
    bounds: tuple[Number, Number],
    epsilon: Number,
    delta: Number = 0,
    relation: AnyRelation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> Sum:
    """The sum of a bounded column, with Laplace noise, or Gaussian noise if `delta` is positive.

    Every record is clamped to the bounds [a, b] and placed on a grid, so that the sum is an exact integer of grid
    steps. One record moves it by max(|a|, |b|) if it is added, removed or blanked out, and by b − a if it is replaced.

    Args:
        bounds: the public range (low, high); records outside are clamped to it.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.
        step: the grid of the records; a millionth of the range by default.

    >>> m = sum_of(bounds=(0, 100), epsilon=1)
    >>> m.event
    DiscreteLaplace(scale=512, sensitivity=512)
    >>> m.statement(0.95)
    'with probability 95 % the error is at most 300'
    """
    relation = Relation.of(relation)
    epsilon, delta = check_budget(epsilon, delta)
    grid = grids.make_grid(bounds, step)
    reach = max(abs(grid.lowest), abs(grid.highest))
    replaced = relation is Relation.REPLACE
    statistic = _grid_statistic(
        grid.highest - grid.lowest if replaced else reach, step, reach=reach if replaced else None
    )
    (additive_noise,) = fit([statistic], epsilon=epsilon, delta=delta, relation=relation)
    return Sum(epsilon, delta, grid, additive_noise)


def _grid_statistic(
    sensitivity: int, step: Number | None, *, reach: int | None = None, share: Fraction = Fraction(1)
) -> Statistic:
    """A statistic of this sensitivity in grid steps; noise keeps to a step that the caller chose."""
    if step is None:
        return Statistic(sensitivity, reach=reach, share=share)
    return Statistic(1, l1=sensitivity, l2_squared=Fraction(sensitivity) ** 2, reach=reach, share=share)


@dataclass(frozen=True, repr=False)
class MeanOfKnownSize(AdditiveMechanism):
    """A mean of clamped records whose number is public."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    size: int
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy mean of n values. A missing record counts as the point of the bounds nearest to 0.

        Under ZERO_OUT it is a blanked one, and counts as their middle.
        """
        numbers = records.read_numbers(values)
        records.check_length(numbers, self.size, what="mean")
        if self.relation is Relation.ZERO_OUT:
            numbers = numbers[~np.isnan(numbers)]
        # Twice the distance from the middle is an integer; the middle is what a blanked record counts as.
        doubled = 2 * self.grid.total(self.grid.place(numbers)) - len(numbers) * (self.grid.lowest + self.grid.highest)
        noisy = self.noise.release_one(doubled, source)
        middle = Fraction(self.grid.lowest + self.grid.highest, 2)
        return grids.nearest_float((noisy / (2 * self.size) + middle) * self.grid.step)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − mean of the clamped records|, rounding included."""
        noise = self.noise.radius(failure(confidence)) * self.grid.step / (2 * self.size)
        return float_above(noise + self.grid.step / 2)


@dataclass(frozen=True, repr=False)
class MeanOfUnknownSize(Mechanism):
    """A mean of clamped records whose number is private: a noisy sum over a noisy count, clamped to the bounds."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    total: AdditiveNoise = field(repr=False)
    counted: AdditiveNoise = field(repr=False)

    @property
    def event(self) -> Event:
        return compose_events([self.total.event, self.counted.event])

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy mean of the values that are there; missing ones are left out."""
        numbers = records.read_numbers(values)
        numbers = numbers[~np.isnan(numbers)]
        edges = self.grid.lowest + self.grid.highest
        doubled = 2 * self.grid.total(self.grid.place(numbers)) - len(numbers) * edges
        noisy = self.total.release_one(doubled, source)
        people = max(self.counted.release_one(len(numbers), source), Fraction(1))
        half = Fraction(self.grid.highest - self.grid.lowest, 2)
        centred = min(max(noisy / (2 * people), -half), half)
        return grids.nearest_float((centred + Fraction(edges, 2)) * self.grid.step)

    def error(self, confidence: Number = Fraction(19, 20), *, size: int | None = None) -> float:
        """A bound on |release − mean| for data of n values.

        With errors s of the sum and c < n of the count, and |mean| ≤ h, a ratio is off by at most (s + h·c)/(n − c).
        """
        size = records.check_planned_size(size, what="mean")
        half = Fraction(self.grid.highest - self.grid.lowest, 2)
        risk = failure(confidence) / 2
        s, c = self.total.radius(risk) / 2, self.counted.radius(risk)
        ratio = (s + half * c) / (size - c) if c < size else 2 * half
        return float_above((min(ratio, 2 * half) + Fraction(1, 2)) * self.grid.step)


@limit_sizes
def mean(
    *,
    bounds: tuple[Number, Number],
    epsilon: Number,
    delta: Number = 0,
    size: int | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> MeanOfKnownSize | MeanOfUnknownSize:
    """The mean of a bounded column, by the relation that says whether its length is public.

    Under REPLACE the number n of records is public and one record moves the mean of values in [a, b] by (b − a)/n, not
    twice that (which is sometimes printed for [0, 1]). Under ZERO_OUT n is public too, and a blanked record counts as
    the middle of the bounds. Under ADD_REMOVE n is private: half the budget buys the sum of x − (a + b)/2, half the
    count, and their ratio is clamped to the bounds. Its accuracy depends on n, which `error` must then be told.

    Args:
        bounds: the public range (low, high); records outside are clamped to it.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        size: the number of records: stated under REPLACE and ZERO_OUT, where it is public; None under ADD_REMOVE.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.
        step: the grid of the records; a millionth of the range by default.

    >>> m = mean(bounds=(0, 1), epsilon=1, size=1000, relation=Relation.REPLACE)
    >>> m.statement(0.95)
    'with probability 95 % the error is at most 0.003'
    >>> unknown = mean(bounds=(0, 1), epsilon=1)
    >>> unknown.event
    DiscreteLaplace(scale=512, sensitivity=256) + DiscreteLaplace(scale=2)
    >>> unknown.statement(0.95, size=1000)
    'with probability 95 % the error is at most 0.00725'
    """
    relation = Relation.of(relation)
    public_n = records.check_size(size, relation)
    epsilon, delta = check_budget(epsilon, delta)
    _checks.warn_of_delta(delta, size=public_n)
    grid = grids.make_grid(bounds, step)
    width = grid.highest - grid.lowest
    if public_n is None:
        half = Fraction(1, 2)
        # Twice the distance of a record from the middle is at most the width.
        statistics = [_grid_statistic(width, step, share=half), Statistic(1, share=half)]
        total, counted = fit(statistics, epsilon=epsilon, delta=delta, relation=relation)
        return MeanOfUnknownSize(epsilon, delta, grid, total, counted)
    sensitivity = 2 * width if relation is Relation.REPLACE else width
    (additive_noise,) = fit([_grid_statistic(sensitivity, step)], epsilon=epsilon, delta=delta, relation=relation)
    return MeanOfKnownSize(epsilon, delta, grid, public_n, additive_noise)


@dataclass(frozen=True, repr=False)
class Variance(AdditiveMechanism):
    """The variance of n clamped records, n public."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    size: int
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy variance, at least 0. A missing record counts as the point of the bounds nearest to 0."""
        numbers = records.read_numbers(values)
        records.check_length(numbers, self.size, what="variance")
        first, second = moments(self.grid.place(numbers) - self.grid.lowest)
        noisy = self.noise.release_one(self.size * second - first * first, source)
        return grids.nearest_float(max(noisy, Fraction(0)) / self.size**2 * self.grid.step**2)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − variance of the clamped records|, rounding included."""
        noise = self.noise.radius(failure(confidence)) / self.size**2 * self.grid.step**2
        return float_above(noise + _variance_rounding(self.grid))


@dataclass(frozen=True, repr=False)
class VarianceOfUnknownSize(Mechanism):
    """The variance of clamped records whose number is private."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    parts: tuple[AdditiveNoise, AdditiveNoise, AdditiveNoise] = field(repr=False)

    @property
    def event(self) -> Event:
        return compose_events([part.event for part in self.parts])

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy variance of the values that are there, between 0 and a quarter of the squared width."""
        numbers = records.read_numbers(values)
        numbers = numbers[~np.isnan(numbers)]
        width = self.grid.highest - self.grid.lowest
        # u = 2(z − lowest) − width lies in [−width, width]: twice the distance from the middle.
        first, second = moments(2 * (self.grid.place(numbers) - self.grid.lowest) - width)
        count = max(self.parts[0].release_one(len(numbers), source), Fraction(1))
        u1 = _clamp(self.parts[1].release_one(first, source) / count, -width, width)
        shifted = self.parts[2].release_one(2 * second - len(numbers) * width**2, source)
        u2 = _clamp((shifted / count + width**2) / 2, 0, width**2)
        return grids.nearest_float(_clamp(u2 - u1 * u1, 0, width**2) / 4 * self.grid.step**2)

    def error(self, confidence: Number = Fraction(19, 20), *, size: int | None = None) -> float:
        """A bound on |release − variance| for n values: each moment is off as in `mean`, u1² by 2w times that."""
        size = records.check_planned_size(size, what="variance")
        width = Fraction(self.grid.highest - self.grid.lowest)
        c, s1, s2 = (part.radius(failure(confidence) / 3) for part in self.parts)
        bound = width**2
        if c < size:
            first = (s1 + width * c) / (size - c)
            second = (s2 + width**2 * c) / (2 * (size - c))
            bound = min(bound, second + 2 * width * first)
        return float_above(bound / 4 * self.grid.step**2 + _variance_rounding(self.grid))


@limit_sizes
def variance(
    *,
    bounds: tuple[Number, Number],
    epsilon: Number,
    delta: Number = 0,
    size: int | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> Variance | VarianceOfUnknownSize:
    """The variance of a bounded column: the mean squared distance from the mean (divisor n).

    With a public n (REPLACE): for integers z, n·Σz² − (Σz)² = n²·variance is an integer, and replacing one value in a
    range of width w moves it by at most (n − 1)·w². (As a function of one z it is the parabola (n − 1)(z − v)² + const
    with its vertex v at the mean of the others, inside the range.) So the variance has sensitivity (n − 1)/n²·(b − a)².

    With a private n (ADD_REMOVE): a third of the budget each for the count, for Σu and for Σ(u² − h²/2), where u is the
    distance from the middle of the bounds and h half their width; the variance is read off those and clamped to [0,
    h²].

    Args:
        bounds: the public range (low, high); records outside are clamped to it.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        size: the number of records: stated under REPLACE, where it is public; None under ADD_REMOVE.
        relation: ADD_REMOVE or REPLACE.
        step: the grid of the records; a millionth of the range by default.

    >>> variance(bounds=(0, 1), epsilon=1, size=1000, relation=Relation.REPLACE).statement(0.95)
    'with probability 95 % the error is at most 0.003'
    >>> variance(bounds=(0, 1), epsilon=1).statement(0.95, size=10_000)
    'with probability 95 % the error is at most 0.00153'
    """
    relation = Relation.of(relation)
    check_relation(relation, Relation.ADD_REMOVE, Relation.REPLACE, why="A blanked record has no place in a variance.")
    public_n = records.check_size(size, relation, least=2)
    epsilon, delta = check_budget(epsilon, delta)
    _checks.warn_of_delta(delta, size=public_n)
    grid = grids.make_grid(bounds, step)
    width = grid.highest - grid.lowest
    if public_n is None:
        third = Fraction(1, 3)
        statistics = [Statistic(sensitivity, share=third) for sensitivity in (1, width, width**2)]
        count, first, second = fit(statistics, epsilon=epsilon, delta=delta, relation=relation)
        return VarianceOfUnknownSize(epsilon, delta, grid, (count, first, second))
    (additive_noise,) = fit([Statistic((public_n - 1) * width**2)], epsilon=epsilon, delta=delta, relation=relation)
    return Variance(epsilon, delta, grid, public_n, additive_noise)


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


def _variance_rounding(grid: Grid) -> Fraction:
    """How far placing every record within half a step moves a variance: at most (width + step)·step/2.

    The standard deviation moves by at most half a step; before and after, it is at most half the width and a step.
    """
    return Fraction(grid.highest - grid.lowest + 1, 2) * grid.step**2


def _clamp(value: Fraction, low: int, high: int) -> Fraction:
    return min(max(value, Fraction(low)), Fraction(high))


@dataclass(frozen=True, repr=False)
class ColumnMeans(AdditiveMechanism):
    """The means of clamped columns over n people, n public."""

    epsilon: Fraction
    delta: Fraction
    grids: tuple[Grid, ...] = field(repr=False)
    size: int
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, rows: object, /, *, source: Source | None = None) -> NDArray[np.float64]:
        """The noisy means of n rows. A missing value counts as the point of its bounds nearest to 0."""
        table = records.read_table(rows, columns=len(self.grids))
        if len(table) != self.size:
            raise DataError(
                f"these means are over size={self.size} rows, which is public; the data have another length"
            )
        common = _common_width(self.grids)  # once: it reads every column
        widths = [grid.highest - grid.lowest for grid in self.grids]
        totals = []
        for column, (grid, width) in enumerate(zip(self.grids, widths, strict=True)):
            # In units of the width, so that every column has the same sensitivity: total·(common/width).
            total = grid.total(grid.place(table[:, column])) - self.size * grid.lowest
            totals.append(total * (common // width))
        noisy = self.noise.release(totals, source)
        means = [
            (value / self.size * width / common + grid.lowest) * grid.step
            for value, grid, width in zip(noisy, self.grids, widths, strict=True)
        ]
        return np.array([grids.nearest_float(value) for value in means])

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any mean, in the unit of the widest column, rounding included."""
        widest = max(self.grids, key=lambda grid: grid.high - grid.low)
        width = (widest.highest - widest.lowest) * widest.step
        noise = self.noise.radius(failure(confidence)) / _common_width(self.grids) * width / self.size
        return float_above(noise + max(grid.step for grid in self.grids) / 2)


@limit_sizes
def column_means(
    *,
    bounds: Sequence[tuple[Number, Number]],
    size: int,
    epsilon: Number,
    delta: Number = 0,
    relation: AnyRelation = Relation.REPLACE,
) -> ColumnMeans:
    """The means of d bounded columns over the same n people: the notes' one-way marginals.

    Under REPLACE one person moves every mean by (b − a)/n, so for columns in [0, 1] the L1 sensitivity is d/n and the
    L2 sensitivity √d/n (not 2d/n and 2√d/n). Pure ε needs Laplace noise d/(nε) in every mean; with δ > 0 Gaussian noise
    needs √d/(nμ). Columns with other bounds get noise in proportion to their widths.

    Args:
        bounds: one public range (low, high) per column.
        size: the number of records, where it is public.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        relation: REPLACE.

    >>> pure = column_means(bounds=[(0, 1)] * 100, size=100_000, epsilon=1)
    >>> approximate = column_means(bounds=[(0, 1)] * 100, size=100_000, epsilon=1, delta=1e-6)
    >>> pure.statement(0.95), approximate.statement(0.95)
    ('with probability 95 % the error is at most 0.00758', 'with probability 95 % the error is at most 0.00158')
    """
    relation = Relation.of(relation)
    check_relation(relation, Relation.REPLACE, why="n is public here; use sum_of and count where it is not.")
    epsilon, delta = check_budget(epsilon, delta)
    columns = [grids.make_grid(pair, None) for pair in bounds]
    if not columns:
        raise InvalidArgument("bounds", bounds, "one pair (low, high) per column")
    public_n = _checks.count("size", size)
    _checks.warn_of_delta(delta, size=public_n)
    width = len(columns)
    statistic = Statistic(_common_width(columns), width, width, Fraction(width), width)
    (additive_noise,) = fit([statistic], epsilon=epsilon, delta=delta, relation=relation)
    return ColumnMeans(epsilon, delta, tuple(columns), public_n, additive_noise)


def _common_width(columns: Sequence[Grid]) -> int:
    """A whole number that every column's width divides: widths are 2**20 steps, give or take two."""
    return int(np.lcm.reduce(np.array([grid.highest - grid.lowest for grid in columns], dtype=object)))
