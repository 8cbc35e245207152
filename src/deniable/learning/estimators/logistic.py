"""Logistic regression, private by construction: two classes, or several in one joint model.

>>> import numpy as np
>>> X = np.array([[-1.0], [1.0]] * 500); y = np.array([0, 1] * 500)
>>> model = LogisticRegression(epsilon=1, delta=1e-6, data_norm=1.0, classes=[0, 1]).fit(X, y)
>>> float(model.score(X, y))
1.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.learning.estimators.base import Array
from deniable.learning.estimators.models import LinearClassifier
from deniable.learning.losses import Logistic, Multinomial
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers import GradientDescent, ObjectivePerturbation
from deniable.learning.optimizers.base import Method


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(LinearClassifier):
    """Minimises Σ ln(1 + e^{−ym}) + |coefficients|²/(2C) under (epsilon, delta)-DP.

    The parameters are those of `PrivateEstimator` (promise, bounds, solver), and: `classes`, all labels that may occur;
    `C`, the inverse strength of the regularisation, which also shrinks the intercept; `fit_intercept` and
    `intercept_scaling`, a constant column that counts intercept_scaling × data_norm.
    """

    def _methods(self) -> Sequence[Method]:
        short = GradientDescent(clip=0.25)  # most residuals are shorter than 1, and so is the noise then
        return (ObjectivePerturbation(), short, *super()._methods())

    def _loss(self, classes: int) -> LinearLoss:
        return Logistic() if classes == 2 else Multinomial(classes)

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class."""
        from scipy.special import expit

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return Multinomial(len(self.classes_)).chances(scores)
