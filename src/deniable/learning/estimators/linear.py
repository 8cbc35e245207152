"""Linear regression, ridge and quantile regression, for labels in a declared range.

>>> import numpy as np
>>> X = np.linspace(-1, 1, 4000)[:, None]; y = 3 + 2 * X[:, 0]
>>> model = LinearRegression(epsilon=2, delta=1e-6, data_norm=1.0, label_bounds=(0, 6)).fit(X, y)
>>> bool(model.score(X, y) > 0.9)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.learning.estimators.base import Array, magnitude
from deniable.learning.estimators.models import LinearModel
from deniable.learning.losses import Pinball, Squared
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers import (
    SGD,
    FrankWolfe,
    GradientDescent,
    Localisation,
    PhasedSGD,
    RegularisedExponential,
    SufficientStatistics,
    Whitened,
)
from deniable.learning.optimizers.base import Method
from deniable.learning.reading import LARGEST, LEAST, counted_weights, numbers, read_labels


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Least squares under (epsilon, delta)-DP.

    `label_bounds` is the declared range of y; labels outside it count as its ends, and its middle is what is predicted
    when the noise leaves nothing else. The other parameters are those of `LogisticRegression`.
    """

    label_bounds: Any = None

    planned_lipschitz: ClassVar[float] = 2.0  # |m − y| for margins and labels in [−1, 1]

    def _methods(self) -> Sequence[Method]:
        return (Whitened(),)

    def _by_name(self) -> Sequence[Method]:
        descent = GradientDescent(steps=50, clip=0.5)
        return (SufficientStatistics(), descent, SGD(clip=0.5), FrankWolfe(), RegularisedExponential())

    def _public_loss(self) -> LinearLoss:
        return Squared()

    def _strength(self) -> float:
        return 0.0

    def _label_scale(self) -> float:
        low, high = label_range(self.label_bounds)
        return (high - low) / 2

    def _label_middle(self) -> float:
        low, high = label_range(self.label_bounds)
        return (low + high) / 2

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        self._declare(X)
        norm, strength = self._bound("data_norm"), self._strength()
        low, high = label_range(self.label_bounds)
        rows = self._rows(X, reset=True)
        given = numbers(read_labels(y, rows.shape[0]))
        weights = counted_weights(~np.isnan(given), sample_weight)
        middle, half = (low + high) / 2, (high - low) / 2
        labels = np.clip((np.clip(np.nan_to_num(given, nan=middle), low, high) - middle) / half, -1.0, 1.0)
        loss = self._public_loss()
        coefficients, constant = self._fitted(rows, labels, loss, norm=norm, strength=strength, weights=weights)
        self.coef_ = coefficients * half
        self.intercept_ = float(constant) * half + middle
        return self

    def predict(self, X: Any) -> Array:
        """The predicted label of every row, within the declared bounds."""
        return np.clip(self._margins(X), *label_range(self.label_bounds))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the part of the labels' variance that is explained. Records whose label is no number do not count.

        It is an exact statistic of these records, without noise; 0 where the labels do not vary.
        """
        found = self.predict(X)
        given = numbers(read_labels(y, len(found)))
        weights = counted_weights(~np.isnan(given), sample_weight)
        labels = np.nan_to_num(given, nan=0.0)
        scale = max(1.0, float(np.max(np.abs(labels), initial=0.0)), float(np.max(np.abs(found), initial=0.0)))
        labels, found, total = labels / scale, found / scale, float(weights.sum())
        if not total:
            return 0.0
        middle = float((weights * labels).sum() / total)
        around = float((weights * np.square(labels - middle)).sum())
        return float(1 - (weights * np.square(labels - found)).sum() / around) if around > 0 else 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class Ridge(LinearRegression):
    """Least squares with (alpha/2)|coefficients|² against Σ (m − y)²/2: scikit-learn's alpha, on the intercept too."""

    alpha: Any = 1.0

    def _strength(self) -> float:
        return magnitude("alpha", self.alpha) if _checks.nonnegative("alpha", self.alpha) else 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileRegressor(LinearRegression):
    """The `quantile` of y given the row, linear in it, under (epsilon, delta)-DP: 0.5 is the median.

    The other parameters are those of `LinearRegression`. There are no intervals for its coefficients.

    >>> X = np.linspace(-1, 1, 4000)[:, None]; y = X[:, 0] + np.resize([-1.0, 0.0, 0.0, 1.0], 4000)
    >>> model = QuantileRegressor(quantile=0.9, epsilon=4, delta=1e-6, data_norm=1.0, label_bounds=(-2, 2)).fit(X, y)
    >>> bool(np.mean(y <= model.predict(X)) > 0.7)
    True
    """

    quantile: Any = 0.5

    planned_lipschitz: ClassVar[float] = 1.0

    def _by_name(self) -> Sequence[Method]:
        return (GradientDescent(), SGD(), PhasedSGD(), Localisation(), RegularisedExponential())

    def _public_loss(self) -> LinearLoss:
        return Pinball(float(_checks.inner_probability("quantile", self.quantile)))


def label_range(bounds: Any) -> tuple[float, float]:
    """The declared range of labels."""
    remedy = "Declare what a label can be, for example label_bounds=(0, 100); the range found in the data would leak."
    if bounds is None or isinstance(bounds, str):
        raise InvalidArgument("label_bounds", bounds, "a pair (low, high)", remedy)
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise InvalidArgument("label_bounds", bounds, "a pair (low, high)", remedy) from None
    try:
        first, last = float(_checks.number("label_bounds", low)), float(_checks.number("label_bounds", high))
    except OverflowError:
        raise InvalidArgument("label_bounds", "numbers beyond floating point", f"within ±{LARGEST:g}") from None
    if first >= last:
        raise InvalidArgument("label_bounds", bounds, "a pair (low, high) with low < high")
    if max(-first, last) > LARGEST or last - first < LEAST:
        raise InvalidArgument("label_bounds", bounds, f"within ±{LARGEST:g}, and {LEAST:g} or more apart", "Rescale y.")
    return first, last
