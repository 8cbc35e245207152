"""The means of d bounded columns over the same n people: the notes' one-way marginals.

Under REPLACE one person moves every mean by (b − a)/n, so for columns in [0, 1] the L1 sensitivity is d/n and the L2
sensitivity √d/n (not 2d/n and 2√d/n). Pure ε needs Laplace noise d/(nε) in every mean; with δ > 0 Gaussian noise
needs √d/(nμ). Columns with other bounds get noise in proportion to their widths.

>>> pure = column_means(bounds=[(0, 1)] * 100, n=100_000, epsilon=1)
>>> approximate = column_means(bounds=[(0, 1)] * 100, n=100_000, epsilon=1, delta=1e-6)
>>> pure.statement(0.95), approximate.statement(0.95)
('with probability 95 % the error is at most 0.00758', 'with probability 95 % the error is at most 0.00158')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import Noised, Statistic, budget_of, fit, relation_of
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Grid, Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class ColumnMeans(Mechanism):
    """The means of clamped columns over n people, n public."""

    epsilon: Fraction
    delta: Fraction
    grids: tuple[Grid, ...] = field(repr=False)
    n: int
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    def __call__(self, rows: object, /, *, source: Source | None = None) -> NDArray[np.float64]:
        """The noisy means of n rows. A missing value counts as the point of its bounds nearest to 0."""
        found = records.table(rows, columns=len(self.grids))
        if len(found) != self.n:
            raise DataError(f"these means are over n={self.n} rows, which is public; the data have another length")
        totals = []
        for column, grid in enumerate(self.grids):
            # In units of the width, so that every column has the same sensitivity: total·(common/width).
            total = grid.total(grid.place(found[:, column])) - self.n * grid.lowest
            totals.append(total * (self._common // (grid.highest - grid.lowest)))
        noisy = self.noised.release(totals, source)
        means = [
            (value / self.n * (grid.highest - grid.lowest) / self._common + grid.lowest) * grid.step
            for value, grid in zip(noisy, self.grids, strict=True)
        ]
        return np.array([grids.float_of(value) for value in means])

    @property
    def _common(self) -> int:
        return common(self.grids)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any mean, in the unit of the widest column, rounding included."""
        widest = max(self.grids, key=lambda grid: grid.high - grid.low)
        width = (widest.highest - widest.lowest) * widest.step
        noise = self.noised.radius(failure(confidence)) / self._common * width / self.n
        return float_above(noise + max(grid.step for grid in self.grids) / 2)


def column_means(
    *,
    bounds: Sequence[tuple[Number, Number]],
    n: int,
    epsilon: Number,
    delta: Number = 0,
    relation: Relation = Relation.REPLACE,
) -> ColumnMeans:
    """Means with Laplace noise, or Gaussian noise if `delta` is positive."""
    relation_of(relation, Relation.REPLACE, why="n is public here; use sum_of and count where it is not.")
    found, allowed = budget_of(epsilon, delta)
    columns = [grids.record_grid(pair, None) for pair in bounds]
    if not columns:
        raise InvalidArgument("bounds", bounds, "one pair (low, high) per column")
    many = _checks.count("n", n)
    size = len(columns)
    statistic = Statistic(common(columns), size, size, Fraction(size), size)
    (noised,) = fit([statistic], epsilon=found, delta=allowed, relation=relation)
    return ColumnMeans(found, allowed, tuple(columns), many, noised)


def common(columns: Sequence[Grid]) -> int:
    """A whole number that every column's width divides: widths are 2**20 steps, give or take two."""
    return int(np.lcm.reduce(np.array([grid.highest - grid.lowest for grid in columns], dtype=object)))
