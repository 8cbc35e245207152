"""The mean and the geometric median of points in a declared ball.

>>> import numpy as np
>>> X = np.full((2000, 2), 0.5)
>>> model = Mean(epsilon=2, delta=1e-6, data_norm=1.0).fit(X)
>>> bool(np.abs(model.location_ - 0.5).max() < 0.1)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.learning.estimators.base import Array, PrivateEstimator
from deniable.learning.losses import Distance, HalfSquare
from deniable.learning.losses.base import PointLoss
from deniable.learning.optimizers import SGD, GradientDescent, NoisySum
from deniable.learning.optimizers.base import Data, Method


class _Location(PrivateEstimator):
    """A point that represents points within `data_norm` of `center`."""

    def _loss(self) -> PointLoss:
        raise TypeError(f"{type(self).__name__} does not say what it minimises")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        norm = self._bound("data_norm")
        X = self._rows(X, norm=np.inf, reset=True)
        center = self._center(X.shape[1])
        if not self._private:
            raise InvalidArgument("epsilon", self.epsilon, f"finite for {type(self).__name__}")
        dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X) - center
        if (
            self.beyond == "refuse"
            and len(dense)
            and float(np.square(dense).sum(axis=1).max()) > norm * norm * (1 + 1e-9)
        ):
            raise DataError(f"some row lies further than data_norm={norm:g} from the center")
        data = Data(self._placed(dense, norm=norm, intercept=0.0), weights=self._weights(sample_weight, len(dense)))
        theta = self._solve(data, self._loss(), radius=1.0)
        self.location_ = center + norm * theta
        return self

    def _center(self, columns: int) -> Array:
        if self.center is None:
            return np.zeros(columns)
        center = np.asarray(self.center, dtype=np.float64)
        if center.shape not in ((), (columns,)) or not np.isfinite(center).all():
            raise InvalidArgument("center", self.center, f"one number or {columns} numbers, all finite")
        return np.broadcast_to(center, (columns,)).copy()


class Mean(_Location):
    """The mean under (epsilon, delta)-DP: one noisy sum, divided by the (public or noisy) number of records.

    `data_norm` is how far from `center` (default 0) a point may lie; points further away are moved towards it.
    """

    def __init__(
        self,
        *,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        data_norm: Any = None,
        center: Any = None,
        solver: Any = "auto",
        relation: Any = "add_remove",
        size: Any = None,
        beyond: str = "clip",
        ledger: Any = None,
        source: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.center = center
        self.solver = solver
        self.relation = relation
        self.size = size
        self.beyond = beyond
        self.ledger = ledger
        self.source = source

    def _methods(self) -> Sequence[Method]:
        return (NoisySum(),)

    def _loss(self) -> PointLoss:
        return HalfSquare()


class GeometricMedian(_Location):
    """The point with the smallest sum of distances, under (epsilon, delta)-DP, by noisy gradient descent.

    Unlike the mean it does not follow a few far points. `steps` is the number of noisy gradients.
    """

    def __init__(
        self,
        *,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        data_norm: Any = None,
        center: Any = None,
        steps: int = 100,
        solver: Any = "auto",
        relation: Any = "add_remove",
        size: Any = None,
        beyond: str = "clip",
        ledger: Any = None,
        source: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.center = center
        self.steps = steps
        self.solver = solver
        self.relation = relation
        self.size = size
        self.beyond = beyond
        self.ledger = ledger
        self.source = source

    def _methods(self) -> Sequence[Method]:
        # Without momentum the steps may be long enough to reach the ball's edge, and averaging removes their noise.
        return (GradientDescent(steps=_checks.count("steps", self.steps), momentum=0.0),)

    def _by_name(self) -> Sequence[Method]:
        return (SGD(momentum=0.0),)

    def _loss(self) -> PointLoss:
        return Distance()
