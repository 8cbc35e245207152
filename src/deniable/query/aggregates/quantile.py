"""MEDIAN, QUANTILE_CONT, MIN and MAX: read off a tree of noisy counts over the bins of a grid.

For the edge j between two bins let D(j) = (1 − q)·(rows below j) − q·(rows above j), times the denominator of q. It
never falls as j grows, and a q-quantile lies in a bin j with D(j) ≤ 0 ≤ D(j + 1). Both counts are sums of nodes of the
tree (see `trees`), so the noise in D(j) has a known law. All quantiles of a column share the tree: asking for three
costs as much as for one.

The value is the bin where D crosses 0, after the noisy D is made to rise (the middle of its running maximum from below
and its running minimum from above). The interval is made of all bins j with D(j) ≤ m(j) and D(j + 1) ≥ −m(j + 1), where
m(j) is exceeded with half of the failure probability: the bin of the true quantile is among them unless one of two
given noises strays, so no union over bins is needed.

A value stands for its nearest grid point; the answer is a grid point, cut to the bounds. Without values every bin is
possible, and the interval says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable._checks import shown
from deniable.noise import Grid
from deniable.numerics.discrete import laplace_sum_radius
from deniable.query.aggregates.base import Aggregate, EstimateColumn, ExpectedError, Noisy, rounded
from deniable.query.aggregates.sum import scaled
from deniable.query.measures import Measure
from deniable.query.readings import BinNumber
from deniable.query.trees import BinTree, NodeCounts


@dataclass(frozen=True)
class QuantileAggregate(Aggregate):
    """The q-quantile of a column's values."""

    bins: BinNumber
    level: Fraction

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self._counts,)

    @property
    def _counts(self) -> NodeCounts:
        return NodeCounts(None, bins=self.bins, tree=BinTree.of_bins(self.bins.size))

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn:
        counts = self._counts
        found, tree = noisy[counts], counts.tree
        up, down = self._weights
        lead = up * tree.below(found.values) - down * tree.above(found.values)
        margins = self.margins(found.scale, failure / 2)
        rising = (np.maximum.accumulate(lead, axis=1) + np.minimum.accumulate(lead[:, ::-1], axis=1)[:, ::-1]) / 2
        last = tree.size - 1
        first = np.clip((rising[:, 1:] < 0).sum(axis=1), 0, last)
        final = np.clip((rising[:, :-1] <= 0).sum(axis=1) - 1, 0, last)
        # Where D is 0 over several bins all of them are right: the middle is, and of the ends the one next to values.
        value = {Fraction(0): final, Fraction(1): first}.get(self.level, (first + final) // 2)
        possible = (lead[:, :-1] <= margins[:-1]) & (lead[:, 1:] >= -margins[1:])
        any_ = possible.any(axis=1)
        low = np.where(any_, possible.argmax(axis=1), value)
        high = np.where(any_, last - possible[:, ::-1].argmax(axis=1), value)
        return EstimateColumn(
            *(self._points(bins) for bins in (value, np.minimum(low, value), np.maximum(high, value)))
        )

    def margins(self, scale: Fraction, failure: Fraction) -> NDArray[np.float64]:
        """How far the noise of D may go at each edge, to one side, but for this probability."""
        below, above = self._counts.tree.used
        up, down = self._weights
        known: dict[tuple[int, int], float] = {}
        for pair in set(zip(below.tolist(), above.tolist(), strict=True)):
            known[pair] = laplace_sum_radius(scale, ((up, pair[0]), (down, pair[1])), failure)
        return np.array([known[pair] for pair in zip(below.tolist(), above.tolist(), strict=True)])

    @property
    def _weights(self) -> tuple[float, float]:
        """What D is made of, times the denominator of q: whole numbers, so that ties are ties."""
        return float(self.level.denominator - self.level.numerator), float(self.level.numerator)

    def _points(self, bins: NDArray[np.int64]) -> NDArray[np.float64]:
        grid = self._grid
        points = scaled(bins + grid.lowest, grid.step)
        if grid.low % grid.step == 0 and grid.high % grid.step == 0:
            return points
        return np.clip(np.asarray(points, dtype=np.float64), float(grid.low), float(grid.high))

    @property
    def _grid(self) -> Grid:
        if self.bins.grid is None:
            raise TypeError("quantiles need a grid")
        return self.bins.grid

    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        worst = float(self.margins(scales[self._counts], failure / 2).max()) / self.level.denominator
        return RankError(worst, self.level, self._grid.high - self._grid.low, 1 - failure)


@dataclass(frozen=True)
class RankError(ExpectedError):
    """An error in ranks: how far the answer is in values depends on how close the values lie, which is private."""

    ranks: float
    level: Fraction
    width: Fraction
    confidence: Fraction

    def __call__(self, rows: int | None = None) -> float:
        """The width of the bounds: no better is known beforehand."""
        return float(self.width)

    def __str__(self) -> str:
        return f"± {rounded(self.ranks)} in rank, of the {shown(self.level * 100)} % quantile"
