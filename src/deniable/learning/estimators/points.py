"""The mean and the geometric median of points in a declared ball.

>>> import numpy as np
>>> X = np.full((2000, 2), 0.5)
>>> model = Mean(epsilon=2, delta=1e-6, data_norm=1.0).fit(X)
>>> bool(np.abs(model.location_ - 0.5).max() < 0.1)
True
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.learning.estimators.base import Array, PrivateEstimator
from deniable.learning.losses import Distance, HalfSquare
from deniable.learning.losses.base import PointLoss
from deniable.learning.optimizers import SGD, GradientDescent, NoisySum, RegularisedExponential
from deniable.learning.optimizers.base import Data, Method
from deniable.learning.reading import LARGEST, counted_weights
from deniable.learning.table import IntegerTable


@dataclass(kw_only=True, eq=False, repr=False)
class Location(PrivateEstimator):
    """A point that represents points within `data_norm` of `center` (default 0); others are moved towards it.

    A coordinate that is no number counts as the center's.
    """

    center: Any = None

    @abstractmethod
    def _loss(self) -> PointLoss:
        """What is minimised."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        norm = self._bound("data_norm")
        rows = self._rows(X, reset=True, missing=np.nan)
        center = self._center(rows.shape[1])
        points = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows) - center
        weights = counted_weights(np.ones(len(points), dtype=bool), sample_weight)
        data = Data(IntegerTable.place(np.nan_to_num(points, nan=0.0), norm=norm), weights=weights)
        self.location_ = center + norm * self._solve(data, self._loss(), radius=1.0)
        return self

    def _center(self, columns: int) -> Array:
        if self.center is None:
            return np.zeros(columns)
        wanted = f"one number or {columns} numbers, none beyond {LARGEST:g}"
        try:
            center = np.asarray(self.center, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgument("center", self.center, wanted) from None
        if center.shape not in ((), (columns,)) or not (np.abs(center) <= LARGEST).all():
            raise InvalidArgument("center", self.center, wanted)
        return np.broadcast_to(center, (columns,)).copy()


@dataclass(kw_only=True, eq=False, repr=False)
class Mean(Location):
    """The mean under (epsilon, delta)-DP: one noisy sum, divided by the (public or noisy) number of records.

    `data_norm` is how far from `center` a point may lie. With weights it is Σ weight·point over the number of records.
    """

    count_share: ClassVar[Fraction] = Fraction(1, 4)  # the count divides: its error is as bad as the sum's
    cautious: ClassVar[bool] = False

    def _methods(self) -> Sequence[Method]:
        return (NoisySum(),)

    def _loss(self) -> PointLoss:
        return HalfSquare()


@dataclass(kw_only=True, eq=False, repr=False)
class GeometricMedian(Location):
    """The point with the smallest sum of distances, under (epsilon, delta)-DP.

    Unlike the mean it does not follow a few far points. `steps` is the number of noisy gradients, where gradient
    descent is the solver.
    """

    steps: int = 100

    def _methods(self) -> Sequence[Method]:
        # Without momentum the steps may be long enough to reach the ball's edge, and averaging removes their noise.
        return (GradientDescent(steps=_checks.count("steps", self.steps), momentum=0.0),)

    def _by_name(self) -> Sequence[Method]:
        return (RegularisedExponential(), SGD(momentum=0.0))

    def _loss(self) -> PointLoss:
        return Distance()
