"""Logistic regression, private by construction: two classes, or several in one joint model.

>>> import numpy as np
>>> X = np.array([[-1.0], [1.0]] * 500); y = np.array([0, 1] * 500)
>>> model = LogisticRegression(epsilon=1, delta=1e-6, data_norm=1.0, classes=[0, 1]).fit(X, y)
>>> float(model.score(X, y))
1.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.learning.estimators.base import Array, PrivateEstimator, unscaled
from deniable.learning.estimators.labels import declared, encoded
from deniable.learning.losses import Logistic, Multinomial
from deniable.learning.optimizers import (
    SGD,
    FrankWolfe,
    GradientDescent,
    LastIterate,
    Localisation,
    ObjectivePerturbation,
    OutputPerturbation,
    PhasedSGD,
    TextbookGradientDescent,
)
from deniable.learning.optimizers.base import Data, Method


class LogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Minimises Σ ln(1 + e^{−ym}) + |θ|²/(2C) under (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : the promise. delta=0 is pure privacy (output perturbation only); epsilon=inf is no privacy.
    data_norm : the longest row that may count, in L2. Longer rows are shortened (`beyond`).
    classes : all labels that may occur. They are not read from the data.
    solver : "auto", a name, or a method such as `GradientDescent(steps=200, clip=0.3)`.
    C : inverse strength of the regularisation, as in scikit-learn; None leaves it to the solver.
    fit_intercept, intercept_scaling : a constant column that counts intercept_scaling × data_norm.
    relation : "add_remove" or "replace": what may change between neighbours.
    size : how many records, where that is public; else a noisy count is bought under "add_remove".
    beyond : "clip" or "refuse" rows that are longer than data_norm.
    ledger : a ledger, or its path, that is charged before the data are read.
    source : random bits, for tests only.
    """

    def __init__(
        self,
        *,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        data_norm: Any = None,
        classes: Any = None,
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
        short = GradientDescent(clip=0.25)  # most residuals are shorter than 1, and so is the noise then
        return (ObjectivePerturbation(), short, OutputPerturbation(), PhasedSGD(), Localisation(), FrankWolfe())

    def _by_name(self) -> Sequence[Method]:
        return (SGD(), LastIterate(), TextbookGradientDescent())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        norm = self._bound("data_norm")
        labels = declared(self.classes)
        X, y = self._rows(X, norm=norm, reset=True, y=y)
        codes = encoded(y, labels)
        weights = self._weights(sample_weight, X.shape[0])
        intercept = float(_checks.positive("intercept_scaling", self.intercept_scaling)) if self.fit_intercept else 0.0
        pulled = 0.0 if self.C is None else 1 / float(_checks.positive("C", self.C))
        strength = pulled / (norm * norm * (1 + intercept * intercept))
        two = len(labels) == 2
        loss = Logistic() if two else Multinomial(len(labels))
        data = Data(self._placed(X, norm=norm, intercept=intercept), 2.0 * codes - 1 if two else codes, weights)
        theta = self._solve(data, loss, regularization=strength)
        self.classes_ = labels
        coefficients, constants = unscaled(theta, norm=norm, intercept=intercept)
        self.coef_ = coefficients[None, :] if two else coefficients.T
        self.intercept_ = np.atleast_1d(np.asarray(constants, dtype=np.float64))
        return self

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second class, or one score per class."""
        check_is_fitted(self)
        rows = self._rows(X, norm=np.inf, reset=False)
        scores = np.asarray(rows @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """The likeliest class of every row."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class."""
        from scipy.special import expit

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return Multinomial(len(self.classes_)).chances(scores)
