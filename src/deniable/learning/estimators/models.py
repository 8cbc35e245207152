"""What linear models share: a constant column, coefficients in the units of the columns, and declared classes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.learning.choice import MethodTable, compare
from deniable.learning.declared import declared_classes
from deniable.learning.estimators.base import Array, PrivateEstimator, magnitude
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers import (
    FTRL,
    SGD,
    FrankWolfe,
    LastIterate,
    Localisation,
    PhasedSGD,
    RegularisedExponential,
    TextbookGradientDescent,
)
from deniable.learning.optimizers.base import Data, Method, Task
from deniable.learning.optimizers.whitening import Outlook
from deniable.learning.privacy import make_target
from deniable.learning.reading import counted_weights, read_labels
from deniable.learning.table import IntegerTable


@dataclass(kw_only=True, eq=False, repr=False)
class LinearModel(PrivateEstimator):
    """A model of ⟨row, coefficients⟩ + intercept.

    fit_intercept, intercept_scaling : a constant column that counts intercept_scaling × data_norm.
    """

    fit_intercept: bool = True
    intercept_scaling: Any = 1.0

    def _fitted(
        self, rows: Any, labels: Array, loss: LinearLoss, *, norm: float, strength: float, weights: Array
    ) -> tuple[Array, Any]:
        """Coefficients and constant for rows of norm at most `norm`, a penalty (strength/2)|coefficients|²."""
        constant = magnitude("intercept_scaling", self.intercept_scaling) if self.fit_intercept else 0.0
        data = Data(IntegerTable.place(rows, norm=norm, intercept=constant), labels, weights)
        stretch = norm * math.sqrt(1 + constant * constant)
        share = constant / math.sqrt(1 + constant * constant)
        theta = self._solve(data, loss, regularization=strength / stretch**2, constant=share) / stretch
        if not constant:
            return theta, np.zeros(theta.shape[1:])
        return theta[:-1], theta[-1] * (norm * constant)

    def outlook(self, *, columns: int, size: int) -> Outlook:
        """What to expect of a fit, before it is made and from public numbers alone.

        Args:
            columns: how many columns the table has.
            size: how many records there are, about.
        """
        target = make_target(self.epsilon, self.delta, self._relation())
        d = _checks.count("columns", columns) + bool(self.fit_intercept)
        return Outlook.of(target, columns=d, size=_checks.count("size", size))

    def compare_solvers(self, *, columns: int, size: int) -> MethodTable:
        """What every solver's theorem predicts for this model, and which of them do not apply.

        These are worst-case bounds: they say what is proved, not which solver is best on data.

        Args:
            columns: how many columns the table has.
            size: how many records there are, about.
        """
        target = make_target(self.epsilon, self.delta, self._relation())
        d = _checks.count("columns", columns) + bool(self.fit_intercept)
        task = Task(self._public_loss(), d, target, _checks.count("size", size), constant=0.7 * self.fit_intercept)
        return compare([*self._methods(), *self._by_name()], task)

    @abstractmethod
    def _public_loss(self) -> LinearLoss:
        """The loss, from declared parameters."""

    def _margins(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(np.asarray(self._rows(X, reset=False) @ self.coef_.T) + self.intercept_)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """A linear model of declared classes.

    classes : all labels that may occur. They are not read from the data.
    C : inverse strength of the regularisation, as in scikit-learn; None leaves it to the solver.
    """

    classes: Any = None
    C: Any = None

    def _by_name(self) -> Sequence[Method]:
        passes = (PhasedSGD(), Localisation(), LastIterate(), FTRL())
        return (SGD(), *passes, FrankWolfe(), RegularisedExponential(), TextbookGradientDescent())

    def _public_loss(self) -> LinearLoss:
        return self._loss(len(declared_classes(self.classes)[0]))

    @abstractmethod
    def _loss(self, classes: int) -> LinearLoss:
        """The loss for so many classes, or an error."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        norm, (labels, known) = self._bound("data_norm"), declared_classes(self.classes)
        loss = self._loss(len(labels))
        rows = self._rows(X, reset=True)
        codes = known.codes(read_labels(y, rows.shape[0]))
        weights = counted_weights(codes >= 0, sample_weight)
        codes = np.maximum(codes, 0)
        strength = 0.0 if self.C is None else 1 / magnitude("C", self.C)
        signs = 2.0 * codes - 1 if loss.outputs == 1 else codes
        coefficients, constants = self._fitted(rows, signs, loss, norm=norm, strength=strength, weights=weights)
        self.classes_ = labels
        self.coef_ = np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(np.asarray(constants, dtype=np.float64))
        return self

    def decision_function(self, X: Any) -> Array:
        """The signed margin (log odds) of the second class, or one score per class."""
        scores = self._margins(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """The likeliest class of every row."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy: the part of the records whose label is predicted. An undeclared label is never predicted.

        It is an exact statistic of these records, without noise; 0 where no record counts.
        """
        found = declared_classes(self.classes_)[1].codes(self.predict(X))
        codes = declared_classes(self.classes_)[1].codes(read_labels(y, len(found)))
        weights = counted_weights(np.ones(len(found), dtype=bool), sample_weight)
        total = float(weights.sum())
        return float((weights * (found == codes)).sum() / total) if total else 0.0
