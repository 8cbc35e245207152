"""Linear queries: weighted counts, all at once.

A query gives every key of a public list a weight, and its answer is the sum of the weights of the records. With the
queries as the rows of a matrix A, a record of key j moves the answers by column j: adding or removing it has the
largest column norm as its sensitivity, replacing it the largest distance of two columns (a key outside the list is a
column of zeros). Weights are rounded to a grid first; the matrix is public, so its sensitivity is computed exactly
from what is used.

>>> cumulative = linear_queries(matrix=[[1, 0, 0], [1, 1, 0], [1, 1, 1]], keys=["low", "middle", "high"], epsilon=1)
>>> cumulative.event
DiscreteLaplace(scale=3, sensitivity=3, coordinates=3)
>>> cumulative(["low", "high", "high"]).shape
(3,)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import Noised, Statistic, budget_of, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.histogram import distinct
from deniable.noise import Source
from deniable.units import Relation

_STEPS = 1 << 20
"""Steps of a weight within the largest one, where weights are not multiples of a coarser power of two."""


@dataclass(frozen=True, repr=False)
class LinearQueries(Mechanism):
    """Noisy answers to the rows of a public matrix."""

    epsilon: Fraction
    delta: Fraction
    keys: tuple[Hashable, ...]
    weights: tuple[tuple[int, ...], ...] = field(repr=False)
    step: Fraction
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The weights that are used, after rounding."""
        return np.array(self.weights, dtype=np.float64) * float(self.step)

    def __call__(self, values: object, /, *, source: Source | None = None) -> NDArray[Any]:
        """The noisy answers; a record whose key is not in the list counts for none."""
        counts = records.counts(values, self.keys)
        exact = [sum(w * c for w, c in zip(row, counts, strict=True)) for row in self.weights]
        return grids.values_of(self.noised.release(exact, source), self.step, self.noised.unit)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any answer, for the matrix as rounded (`matrix`)."""
        return float_above(self.noised.radius(failure(confidence)) * self.step)


def linear_queries(
    *,
    matrix: ArrayLike,
    keys: Iterable[Hashable],
    epsilon: Number,
    delta: Number = 0,
    relation: Relation = Relation.ADD_REMOVE,
) -> LinearQueries:
    """Linear queries with Laplace noise, or Gaussian noise if `delta` is positive."""
    found, allowed = budget_of(epsilon, delta)
    cells = distinct("keys", keys)
    rows = np.asarray(matrix, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(cells) or not rows.size or not np.isfinite(rows).all() or not rows.any():
        raise InvalidArgument(
            "matrix", f"shape {rows.shape}", f"finite weights, not all 0, one column for each of {len(cells)} keys"
        )
    step = _step(rows)
    weights = _integers([grids.nearest_all(row, step, size=len(cells)) for row in rows])
    statistic = _statistic(weights, relation)
    (noised,) = fit([statistic], epsilon=found, delta=allowed, relation=relation)
    return LinearQueries(found, allowed, cells, tuple(map(tuple, weights.tolist())), step, noised)


def _step(rows: NDArray[np.float64]) -> Fraction:
    """The coarsest power of two that loses nothing, or else the one that cuts the largest weight into 2**20."""
    finest = grids.power_below(Fraction(float(np.abs(rows).max())) / _STEPS)
    step = Fraction(1)
    while step > finest and not (rows / float(step) == np.rint(rows / float(step))).all():
        step /= 2
    return step if (rows / float(step) == np.rint(rows / float(step))).all() else finest


def _integers(rows: list[list[int]]) -> NDArray[Any]:
    """Weights as machine integers where no difference or sum of them can leave their range, else as Python's."""
    largest = max(abs(weight) for row in rows for weight in row)
    return np.array(rows, dtype=np.int64 if 2 * largest * (len(rows) + 1) < 1 << 62 else object)


def _statistic(weights: NDArray[Any], relation: Relation) -> Statistic:
    """Sensitivities of integer weights, exactly."""
    columns = weights.T
    reach = max(int(np.abs(column).sum()) for column in columns)
    if relation is Relation.REPLACE:
        absent = np.zeros((1, columns.shape[1]), dtype=columns.dtype)
        everyone = np.concatenate([columns, absent])
        changes = [np.abs(everyone - column) for column in columns]
    else:
        changes = [np.abs(columns)]
    l1 = max(int(change.sum(axis=1).max()) for change in changes)
    l2_squared = max(int((change.astype(object) ** 2).sum(axis=1).max()) for change in changes)
    moved = max(int((change != 0).sum(axis=1).max()) for change in changes)
    return Statistic(
        1, weights.shape[0], l1, Fraction(l2_squared), moved, reach=reach if relation is Relation.REPLACE else None
    )
