"""Linear regression and ridge: least squares for labels in a declared range.

>>> import numpy as np
>>> X = np.linspace(-1, 1, 4000)[:, None]; y = 3 + 2 * X[:, 0]
>>> model = LinearRegression(epsilon=2, delta=1e-6, data_norm=1.0, label_bounds=(0, 6)).fit(X, y)
>>> bool(model.score(X, y) > 0.9)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.multiclass import type_of_target

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.learning.estimators.base import Array
from deniable.learning.estimators.models import LinearModel
from deniable.learning.losses import Squared
from deniable.learning.optimizers import (
    SGD,
    FrankWolfe,
    GradientDescent,
    RegularisedExponential,
    SufficientStatistics,
)
from deniable.learning.optimizers.base import Method


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Least squares under (epsilon, delta)-DP.

    `label_bounds` is the declared range of y; labels outside it count as its ends, and its middle is what is predicted
    when the noise leaves nothing else. The other parameters are those of `LogisticRegression`.
    """

    label_bounds: Any = None

    def _methods(self) -> Sequence[Method]:
        return (SufficientStatistics(), GradientDescent(steps=50, clip=0.5), FrankWolfe())

    def _by_name(self) -> Sequence[Method]:
        return (SGD(clip=0.5), RegularisedExponential())

    def _strength(self) -> float:
        return 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        norm, strength = self._bound("data_norm"), self._strength()
        low, high = label_range(self.label_bounds)
        X, y = self._rows(X, reset=True, y=y)
        middle, half = (low + high) / 2, (high - low) / 2
        labels = np.clip((_numbers(y) - middle) / half, -1.0, 1.0)
        coefficients, constant = self._fitted(
            X, labels, Squared(), norm=norm, strength=strength, sample_weight=sample_weight
        )
        self.coef_ = coefficients * half
        self.intercept_ = float(constant) * half + middle
        return self

    def predict(self, X: Any) -> Array:
        """The predicted label of every row, within the declared bounds."""
        return np.clip(self._margins(X), *label_range(self.label_bounds))


@dataclass(kw_only=True, eq=False, repr=False)
class Ridge(LinearRegression):
    """Least squares with (alpha/2)|coefficients|² against Σ (m − y)²/2: scikit-learn's alpha, on the intercept too."""

    alpha: Any = 1.0

    def _strength(self) -> float:
        return float(_checks.nonnegative("alpha", self.alpha))


def _numbers(y: Any) -> Array:
    """Finite real labels."""
    type_of_target(y, raise_unknown=True)
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf":
        raise DataError(f"y holds {labels.dtype}; regression needs numbers")
    if not np.isfinite(labels).all():
        raise DataError("y holds NaN or infinite values; drop such rows or replace them by a public number")
    return labels.astype(np.float64)


def label_range(bounds: Any) -> tuple[float, float]:
    """The declared range of labels."""
    remedy = "Declare what a label can be, for example label_bounds=(0, 100); the range found in the data would leak."
    if bounds is None or isinstance(bounds, str):
        raise InvalidArgument("label_bounds", bounds, "a pair (low, high)", remedy)
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise InvalidArgument("label_bounds", bounds, "a pair (low, high)", remedy) from None
    first, last = float(_checks.number("label_bounds", low)), float(_checks.number("label_bounds", high))
    if first >= last:
        raise InvalidArgument("label_bounds", bounds, "a pair (low, high) with low < high")
    return first, last
