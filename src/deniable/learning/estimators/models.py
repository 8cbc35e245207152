"""What linear models share: a constant column, coefficients in the units of the columns, and declared classes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.errors import InvalidArgument, NotSupported
from deniable.learning.choice import MethodTable, compare
from deniable.learning.declared import Declared, declared_classes
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
from deniable.learning.planning import LearningPlan, plan_size
from deniable.learning.privacy import make_target
from deniable.learning.reading import counted_weights, read_labels
from deniable.learning.table import IntegerTable


@dataclass(frozen=True)
class CoefficientInterval:
    """What is known of one coefficient."""

    name: str
    estimate: float
    """Without the shrinkage of the fit, so not quite the fitted coefficient."""

    lower: float
    upper: float
    p_value: float
    """How likely an estimate this far from 0 is, were the coefficient 0; not corrected for several tests."""


def _p_value(estimate: float, deviation: float) -> float:
    return 2 * NormalDist().cdf(-abs(estimate) / deviation) if deviation > 0 else 1.0


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
        self._units = np.full(len(theta), 1 / stretch)
        if constant:
            self._units[-1] *= norm * constant
        if not constant:
            return theta, np.zeros(theta.shape[1:])
        return theta[:-1], theta[-1] * (norm * constant)

    def _declare(self, X: Any) -> None:
        """What must be known of a table before anything else: names and number of its columns."""

    def _width(self, columns: int) -> int:
        """How many numbers a margin is made of."""
        return columns + bool(self.fit_intercept)

    def outlook(self, *, columns: int, size: int) -> Outlook:
        """What to expect of a fit, before it is made and from public numbers alone.

        Args:
            columns: how many columns the table has.
            size: how many records there are, about.
        """
        target = make_target(self.epsilon, self.delta, self._relation())
        d = self._width(_checks.count("columns", columns))
        return Outlook.of(target, columns=d, size=_checks.count("size", size))

    def coefficient_intervals(self, *, confidence: float = 0.95) -> list[CoefficientInterval]:
        """An interval for every coefficient and for the intercept, and a test of each against 0. They cost nothing.

        They count the noise of the fit, sampling, and shrinkage; what is assumed is in `optimizers.intervals`. They
        exist for one margin (two classes, or numbers), fitted by the default solver.

        Args:
            confidence: how often an interval holds the truth, if the model is right.
        """
        check_is_fitted(self)
        share = float(_checks.inner_probability("confidence", confidence))
        if self._spread is None:
            raise NotSupported("intervals need one margin, at most 1000 columns, and the default solver.")
        found = self._spread.through(np.diag(self._units * self._label_scale()))
        width = NormalDist().inv_cdf((1 + share) / 2)
        names = list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)]))
        if len(names) + 1 < len(found.estimate):
            names = [str(name) for name in self._encoded_names()]
        estimates = found.estimate.copy()
        if self.fit_intercept:
            names.append("intercept")
            estimates[-1] += self._label_middle()
        return [
            CoefficientInterval(
                str(name), float(at), float(at - width * far), float(at + width * far), _p_value(at, far)
            )
            for name, at, far in zip(names, estimates, found.deviations, strict=True)
        ]

    def _encoded_names(self) -> list[str]:
        """Names of the columns that coefficients belong to."""
        return [f"x{j}" for j in range(self.n_features_in_)]

    def _label_scale(self) -> float:
        """What one unit of the margin is in labels."""
        return 1.0

    def _label_middle(self) -> float:
        """The label of margin 0."""
        return 0.0

    planned_lipschitz: ClassVar[float] = 1.0
    """How much a record's loss may change with θ, for plans of sizes."""

    @classmethod
    def plan_size(cls, **question: Any) -> LearningPlan:
        """The missing one of n, ε and the excess risk: what `dn.size` asks. See `planning.plan_size`.

        Args:
            question: the arguments of `planning.plan_size`: columns, and two of size, epsilon and error.
        """
        return plan_size(cls, **question)

    def compare_solvers(self, *, columns: int, size: int) -> MethodTable:
        """What every solver's theorem predicts for this model, and which of them do not apply.

        These are worst-case bounds: they say what is proved, not which solver is best on data.

        Args:
            columns: how many columns the table has.
            size: how many records there are, about.
        """
        target = make_target(self.epsilon, self.delta, self._relation())
        d = self._width(_checks.count("columns", columns))
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
    class_weight : how much a record of each class counts, {class: weight}, declared. The largest counts 1, as no record
        may count more. "balanced" is refused: it would read the classes' sizes from the data.
    """

    classes: Any = None
    C: Any = None
    class_weight: Any = None

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
        self._declare(X)
        norm, (labels, known) = self._bound("data_norm"), declared_classes(self.classes)
        loss, shares = self._loss(len(labels)), self._class_shares(labels, known)
        rows = self._rows(X, reset=True)
        codes = known.codes(read_labels(y, rows.shape[0]))
        codes, weights = np.maximum(codes, 0), counted_weights(codes >= 0, sample_weight)
        if shares is not None:
            weights = weights * shares[codes]
        strength = 0.0 if self.C is None else 1 / magnitude("C", self.C)
        signs = 2.0 * codes - 1 if loss.outputs == 1 else codes
        coefficients, constants = self._fitted(rows, signs, loss, norm=norm, strength=strength, weights=weights)
        self.classes_ = labels
        self.coef_ = np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(np.asarray(constants, dtype=np.float64))
        return self

    def _class_shares(self, labels: Array, known: Declared) -> Array | None:
        """What a record of each class counts, at most 1."""
        if self.class_weight is None:
            return None
        remedy = "For example class_weight={0: 1, 1: 5}. Sizes of classes in the data are private."
        if not isinstance(self.class_weight, dict) or not self.class_weight:
            raise InvalidArgument("class_weight", self.class_weight, "a dictionary of classes and weights", remedy)
        codes = known.codes(np.fromiter(self.class_weight, dtype=object))
        if (codes < 0).any():
            raise InvalidArgument("class_weight", self.class_weight, "a dictionary of declared classes", remedy)
        shares = np.ones(len(labels))
        for code, weight in zip(codes, self.class_weight.values(), strict=True):
            shares[code] = magnitude("class_weight", weight)
        return np.asarray(shares / shares.max())

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
