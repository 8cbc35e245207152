"""Linear classifiers: logistic regression for two or more classes, and a support vector machine for two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.errors import InvalidArgument
from deniable.learning.estimators.base import Array, magnitude
from deniable.learning.estimators.models import LinearClassifier
from deniable.learning.losses import Hinge, Logistic, Multinomial, SmoothedHinge
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers import GradientDescent, ObjectivePerturbation, OutputPerturbation, Whitened
from deniable.learning.optimizers.base import Method


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(LinearClassifier):
    """Minimises Σ ln(1 + e^{−ym}) + |coefficients|²/(2C) under (epsilon, delta)-DP.

    The parameters are those of `PrivateEstimator` (promise, bounds, solver), and: `classes`, all labels that may occur;
    `C`, the inverse strength of the regularisation, which also shrinks the intercept; `fit_intercept` and
    `intercept_scaling`, a constant column that counts intercept_scaling × data_norm.

    Logistic regression, private by construction: two classes, or several in one joint model.

    >>> import numpy as np
    >>> X = np.array([[-1.0], [1.0]] * 500); y = np.array([0, 1] * 500)
    >>> model = LogisticRegression(epsilon=1, delta=1e-6, data_norm=1.0, classes=[0, 1]).fit(X, y)
    >>> float(model.score(X, y))
    1.0
    """

    def _methods(self) -> Sequence[Method]:
        return (Whitened(), ObjectivePerturbation(), OutputPerturbation())  # the last two for δ = 0

    def _by_name(self) -> Sequence[Method]:
        short = GradientDescent(clip=0.25)  # most residuals are shorter than 1, and so is the noise then
        return (short, *super()._by_name())

    def _loss(self, classes: int) -> LinearLoss:
        return Logistic() if classes == 2 else Multinomial(classes)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of the probability of every class."""
        from scipy.special import log_expit

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return Multinomial(len(self.classes_)).log_chances(scores)

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class."""
        from scipy.special import expit

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return Multinomial(len(self.classes_)).chances(scores)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(LinearClassifier):
    """Minimises Σ hinge + |coefficients|²/(2C) under (epsilon, delta)-DP.

    `loss` is "smoothed_hinge" (smooth within `width` of the corner) or "hinge" (solvers that need no smoothness). The
    other parameters are those of `LogisticRegression`; there are two classes.

    A linear support vector machine for two classes.

    >>> import numpy as np
    >>> X = np.array([[-1.0], [1.0]] * 500); y = np.array(["no", "yes"] * 500)
    >>> model = LinearSVC(epsilon=1, delta=1e-6, data_norm=1.0, classes=["no", "yes"]).fit(X, y)
    >>> model.predict([[0.9]]).tolist()
    ['yes']
    """

    loss: str = "smoothed_hinge"
    width: Any = 0.5

    def _methods(self) -> Sequence[Method]:
        return (Whitened(), OutputPerturbation())  # the last for δ = 0

    def _by_name(self) -> Sequence[Method]:
        return (GradientDescent(), *super()._by_name())

    def _loss(self, classes: int) -> LinearLoss:
        if classes != 2:
            raise InvalidArgument("classes", self.classes, "two labels", "LogisticRegression takes more.")
        if self.loss not in ("hinge", "smoothed_hinge"):
            raise InvalidArgument("loss", self.loss, "'smoothed_hinge' or 'hinge'")
        return Hinge() if self.loss == "hinge" else SmoothedHinge(magnitude("width", self.width))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
