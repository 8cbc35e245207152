"""A linear support vector machine for two classes.

>>> import numpy as np
>>> X = np.array([[-1.0], [1.0]] * 500); y = np.array(["no", "yes"] * 500)
>>> model = LinearSVC(epsilon=1, delta=1e-6, data_norm=1.0, classes=["no", "yes"]).fit(X, y)
>>> model.predict([[0.9]]).tolist()
['yes']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.learning.estimators.base import Array, PrivateEstimator, unscaled
from deniable.learning.estimators.labels import declared, encoded
from deniable.learning.losses import Hinge, SmoothedHinge
from deniable.learning.optimizers import (
    SGD,
    FrankWolfe,
    GradientDescent,
    LastIterate,
    Localisation,
    OutputPerturbation,
    PhasedSGD,
    TextbookGradientDescent,
)
from deniable.learning.optimizers.base import Data, Method


class LinearSVC(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Minimises Σ hinge + |θ|²/(2C) under (epsilon, delta)-DP.

    `loss` is "smoothed_hinge" (smooth within `width` of the corner) or "hinge" (gradient descent only). The other
    parameters are those of `LogisticRegression`; there are two classes.
    """

    def __init__(
        self,
        *,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        data_norm: Any = None,
        classes: Any = None,
        loss: str = "smoothed_hinge",
        width: Any = 0.5,
        solver: Any = "auto",
        C: Any = None,
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
        self.classes = classes
        self.loss = loss
        self.width = width
        self.solver = solver
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.relation = relation
        self.size = size
        self.beyond = beyond
        self.ledger = ledger
        self.source = source

    def _methods(self) -> Sequence[Method]:
        return (GradientDescent(), OutputPerturbation(), PhasedSGD(), Localisation(), FrankWolfe())

    def _by_name(self) -> Sequence[Method]:
        return (SGD(), LastIterate(), TextbookGradientDescent())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        norm = self._bound("data_norm")
        labels = declared(self.classes)
        if len(labels) != 2:
            raise InvalidArgument("classes", self.classes, "two labels", "LogisticRegression takes more.")
        if self.loss not in ("hinge", "smoothed_hinge"):
            raise InvalidArgument("loss", self.loss, "'smoothed_hinge' or 'hinge'")
        X, y = self._rows(X, norm=norm, reset=True, y=y)
        codes = encoded(y, labels)
        weights = self._weights(sample_weight, X.shape[0])
        intercept = float(_checks.positive("intercept_scaling", self.intercept_scaling)) if self.fit_intercept else 0.0
        pulled = 0.0 if self.C is None else 1 / float(_checks.positive("C", self.C))
        strength = pulled / (norm * norm * (1 + intercept * intercept))
        loss = Hinge() if self.loss == "hinge" else SmoothedHinge(float(_checks.positive("width", self.width)))
        data = Data(self._placed(X, norm=norm, intercept=intercept), 2.0 * codes - 1, weights)
        theta = self._solve(data, loss, regularization=strength)
        self.classes_ = labels
        coefficients, constant = unscaled(theta, norm=norm, intercept=intercept)
        self.coef_ = coefficients[None, :]
        self.intercept_ = np.atleast_1d(np.asarray(constant, dtype=np.float64))
        return self

    def decision_function(self, X: Any) -> Array:
        """The signed margin of every row."""
        check_is_fitted(self)
        rows = self._rows(X, norm=np.inf, reset=False)
        return (np.asarray(rows @ self.coef_.T) + self.intercept_)[:, 0]

    def predict(self, X: Any) -> Array:
        """The class of every row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
