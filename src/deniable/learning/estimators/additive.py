"""Additive models: a sum of one curve for every column, private by the same recipe as linear models.

>>> import numpy as np
>>> X = np.random.default_rng(0).uniform(0, 1, size=(4000, 2)); y = np.sin(6 * X[:, 0])
>>> model = AdditiveRegressor(epsilon=2, delta=1e-6, columns=(0, 1), label_bounds=(-1, 1)).fit(X, y)
>>> bool(model.score(X, y) > 0.8), len(model.shape_functions())
(True, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.learning.columns import Columns, NumberColumn, as_columns
from deniable.learning.estimators.base import Array
from deniable.learning.estimators.classifiers import LogisticRegression
from deniable.learning.estimators.linear import LinearRegression
from deniable.learning.estimators.models import LinearModel
from deniable.learning.optimizers.additive import AdditiveDescent
from deniable.learning.optimizers.base import Method
from deniable.learning.reading import check_columns, read_rows


@dataclass(frozen=True)
class ShapeFunction:
    """What one column adds to a prediction, or to the log odds of a class."""

    name: str
    target: Any
    """The class; None for two classes (the second) and for numbers."""

    points: tuple[Any, ...]
    """Knots of a number's range, or categories."""

    values: Array
    """At the points, with mean 0 over the range; straight between knots."""

    lower: Array | None = None
    upper: Array | None = None
    """95 % bands at every point, as in `coefficient_intervals`; none where there are several classes."""


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveModel(LinearModel):
    """A model of Σ curve(column) + intercept, curves being straight between evenly spaced knots.

    columns : `Columns`, a dictionary of columns, or for arrays a pair, or pairs, of bounds.
    pieces : how many knots a range has.

    Where records are too few for curves at this ε, straight lines are fitted: see `optimizers.additive`.
    """

    columns: Any = None
    pieces: int = 6

    def _methods(self) -> Sequence[Method]:
        kinds = self._declared.kinds if self._declared is not None else []
        groups: list[int] = []
        for kind in kinds:
            groups += [self._pieces] if isinstance(kind, NumberColumn) else [0] * len(kind.values)
        return (AdditiveDescent(tuple(groups), max(1, len(kinds))),)

    def _by_name(self) -> Sequence[Method]:
        return ()

    _declared: ClassVar[Any] = None
    """The columns, once a table was shown."""

    def _width(self, columns: int) -> int:
        return self._pieces * columns + bool(self.fit_intercept)

    @property
    def _pieces(self) -> int:
        return _checks.count("pieces", self.pieces, least=2)

    def _bound(self, name: str) -> float:
        if self.data_norm is not None:
            raise InvalidArgument("data_norm", self.data_norm, "left out", "It follows from the declared columns.")
        return float(self._declared.norm)

    def _declare(self, X: Any) -> None:
        if self.columns is None:
            remedy = "For example columns=dn.learning.Columns(age=(0, 120), city=[...]), or columns=[(0, 1), (0, 9)]."
            raise InvalidArgument("columns", None, "declared ranges and categories", remedy)
        self._declared = as_columns(self.columns, _dense(X))  # type: ignore[misc]

    def _rows(self, X: Any, *, reset: bool, missing: float = 0.0) -> Any:
        self._check_beyond()
        if isinstance(self.columns, Columns | dict):
            rows = self._declared.encode(X, pieces=self._pieces)
            check_columns(self, X, len(self._declared.declared), reset=reset)
            return rows
        table = read_rows(self, _dense(X), reset=reset, missing=np.nan, declared=self.columns)
        return self._declared.encode({f"x{j}": column for j, column in enumerate(table.T)}, pieces=self._pieces)

    def shape_functions(self) -> list[ShapeFunction]:
        """The curve of every column, for every class where there are several. They are released: no cost."""
        check_is_fitted(self)
        found, start = [], 0
        coefficients = np.atleast_2d(self.coef_)
        spread = self._spread and self._spread.through(np.diag(self._units * self._label_scale()))
        for kind in self._declared.kinds:
            bent = isinstance(kind, NumberColumn)
            points = np.linspace(kind.low, kind.high, self._pieces).tolist() if bent else list(kind.values)
            part = coefficients[:, start : start + len(points)]
            weights = np.ones(len(points))
            if bent:
                weights[[0, -1]] = 0.5  # the mean of a curve that is straight between its knots
            center = np.eye(len(points)) - weights / weights.sum()
            targets = [None] if len(part) == 1 else list(getattr(self, "classes_", [None]))
            far = None
            if spread is not None:
                matrix = np.zeros((len(points), len(spread.estimate)))
                matrix[:, start : start + len(points)] = center
                far = 1.96 * spread.through(matrix).deviations
            start += len(points)
            for target, values in zip(targets, part @ center.T, strict=True):
                bands = (None, None) if far is None else (values - far, values + far)
                found.append(ShapeFunction(kind.name, target, tuple(points), values, *bands))
        return found

    def _encoded_names(self) -> list[str]:
        return [name for kind in self._declared.kinds for name in kind.names(self._pieces)]

    def plot(self, axes: Any) -> Any:
        """Draw the curves with their bands, one picture for a column.

        Args:
            axes: Matplotlib axes, one for each column, as `pyplot.subplots(1, columns)` makes them. They are returned.
        """
        curves = self.shape_functions()
        names = list(dict.fromkeys(curve.name for curve in curves))
        places = np.ravel(axes)
        if len(places) != len(names):
            raise InvalidArgument("axes", len(places), f"{len(names)} axes, one for each column")
        for name, place in zip(names, places, strict=True):
            for curve in (curve for curve in curves if curve.name == name):
                text = any(isinstance(point, str) for point in curve.points)
                points = [str(point) for point in curve.points] if text else list(curve.points)
                place.plot(points, curve.values, marker="o" if text else "", label=str(curve.target))
                if curve.lower is not None:
                    place.fill_between(points, curve.lower, curve.upper, alpha=0.2)
            place.set_title(name)
            if len(curves) > len(names):
                place.legend()
        return axes


def _dense(X: Any) -> Any:
    """Hats of a sparse table are not sparse: 0 is a value like any other."""
    return X.toarray() if hasattr(X, "tocsr") else X


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveClassifier(AdditiveModel, LogisticRegression):
    """Logistic regression on curves: two classes or several, one joint model, one ε.

    `classes` are declared, `columns` and `pieces` as in `AdditiveModel`; the other parameters are those of
    `LogisticRegression`.
    """


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveRegressor(AdditiveModel, LinearRegression):
    """Least squares on curves, for labels in `label_bounds`; `columns` and `pieces` as in `AdditiveModel`."""
