"""Linear regression and ridge: least squares for labels in a declared range.

>>> import numpy as np
>>> X = np.linspace(-1, 1, 4000)[:, None]; y = 3 + 2 * X[:, 0]
>>> model = LinearRegression(epsilon=2, delta=1e-6, data_norm=1.0, label_bounds=(0, 6)).fit(X, y)
>>> bool(model.score(X, y) > 0.9)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.learning.estimators.base import Array, PrivateEstimator, unscaled
from deniable.learning.losses import Squared
from deniable.learning.optimizers import SGD, FrankWolfe, GradientDescent, SufficientStatistics
from deniable.learning.optimizers.base import Data, Method


class _LeastSquares(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Minimises Σ (m − y)²/2 + (alpha/2)|θ|² for labels clipped to their declared bounds."""

    def _methods(self) -> Sequence[Method]:
        return (SufficientStatistics(), GradientDescent(steps=50, clip=0.5), FrankWolfe())

    def _by_name(self) -> Sequence[Method]:
        return (SGD(clip=0.5),)

    def _strength(self) -> float:
        return 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        norm = self._bound("data_norm")
        low, high = label_range(self.label_bounds)
        X, y = self._rows(X, norm=norm, reset=True, y=y)
        type_of_target(y, raise_unknown=True)
        labels = np.asarray(y)
        if labels.dtype.kind not in "biuf":
            raise DataError(f"y holds {labels.dtype}; regression needs numbers")
        labels = labels.astype(np.float64)
        if not np.isfinite(labels).all():
            raise DataError("y holds NaN or infinite values; drop such rows or replace them by a public number")
        weights = self._weights(sample_weight, X.shape[0])
        intercept = float(_checks.positive("intercept_scaling", self.intercept_scaling)) if self.fit_intercept else 0.0
        middle, half = (low + high) / 2, (high - low) / 2
        data = Data(
            self._placed(X, norm=norm, intercept=intercept), np.clip((labels - middle) / half, -1.0, 1.0), weights
        )
        strength = self._strength() / (norm * norm * (1 + intercept * intercept))
        theta = self._solve(data, Squared(), regularization=strength)
        coefficients, constant = unscaled(theta, norm=norm, intercept=intercept)
        self.coef_ = coefficients * half
        self.intercept_ = float(constant) * half + middle
        return self

    def predict(self, X: Any) -> Array:
        """The predicted label of every row, within the declared bounds."""
        check_is_fitted(self)
        rows = self._rows(X, norm=np.inf, reset=False)
        return np.clip(np.asarray(rows @ self.coef_) + self.intercept_, *label_range(self.label_bounds))


class LinearRegression(_LeastSquares):
    """Least squares under (epsilon, delta)-DP.

    `label_bounds` is the declared range of y; labels outside it count as its ends, and its middle is what is predicted
    when the noise leaves nothing else. The other parameters are those of `LogisticRegression`.
    """

    def __init__(
        self,
        *,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        data_norm: Any = None,
        label_bounds: Any = None,
        solver: Any = "auto",
        fit_intercept: bool = True,
        intercept_scaling: Any = 1.0,
        relation: Any = "add_remove",
        size: Any = None,
        beyond: str = "clip",
        ledger: Any = None,
        source: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.label_bounds = label_bounds
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.relation = relation
        self.size = size
        self.beyond = beyond
        self.ledger = ledger
        self.source = source


class Ridge(_LeastSquares):
    """Least squares with (alpha/2)|θ|² against Σ (m − y)²/2: scikit-learn's alpha."""

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        data_norm: Any = None,
        label_bounds: Any = None,
        solver: Any = "auto",
        fit_intercept: bool = True,
        intercept_scaling: Any = 1.0,
        relation: Any = "add_remove",
        size: Any = None,
        beyond: str = "clip",
        ledger: Any = None,
        source: Any = None,
    ) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.label_bounds = label_bounds
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.relation = relation
        self.size = size
        self.beyond = beyond
        self.ledger = ledger
        self.source = source

    def _strength(self) -> float:
        return float(_checks.nonnegative("alpha", self.alpha))


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
