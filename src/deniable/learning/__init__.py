"""Convex learning with a promise: estimators, methods and losses in NumPy, with scikit-learn's conventions.

What was done is in `event_`, what it costs in `profile_`, why this method in `solver_`. No bound, norm, category or
class is ever read from the data: a missing one is an error that says how to choose it.

>>> import numpy as np
>>> from deniable import learning
>>> X = np.array([[-0.6, 0.8], [0.6, 0.8]] * 500); y = np.array([0, 1] * 500)
>>> model = learning.LogisticRegression(epsilon=1, delta=1e-6, data_norm=1.0, classes=[0, 1], size=1000).fit(X, y)
>>> model.event_.relation, model.solver_.name
(ADD_REMOVE, 'whitened')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deniable.learning import losses as losses
    from deniable.learning.columns import Columns as Columns
    from deniable.learning.columns import HatEncoder as HatEncoder
    from deniable.learning.disclosure import DataProblems as DataProblems
    from deniable.learning.disclosure import disclose_data_problems as disclose_data_problems
    from deniable.learning.estimators import PCA as PCA
    from deniable.learning.estimators import AdditiveClassifier as AdditiveClassifier
    from deniable.learning.estimators import AdditiveRegressor as AdditiveRegressor
    from deniable.learning.estimators import Covariance as Covariance
    from deniable.learning.estimators import GaussianNB as GaussianNB
    from deniable.learning.estimators import GeometricMedian as GeometricMedian
    from deniable.learning.estimators import KMeans as KMeans
    from deniable.learning.estimators import LinearRegression as LinearRegression
    from deniable.learning.estimators import LinearSVC as LinearSVC
    from deniable.learning.estimators import LogisticRegression as LogisticRegression
    from deniable.learning.estimators import Mean as Mean
    from deniable.learning.estimators import QuantileRegressor as QuantileRegressor
    from deniable.learning.estimators import Ridge as Ridge
    from deniable.learning.estimators import StandardScaler as StandardScaler
    from deniable.learning.optimizers import FTRL as FTRL
    from deniable.learning.optimizers import SGD as SGD
    from deniable.learning.optimizers import AdditiveDescent as AdditiveDescent
    from deniable.learning.optimizers import FrankWolfe as FrankWolfe
    from deniable.learning.optimizers import GradientDescent as GradientDescent
    from deniable.learning.optimizers import LastIterate as LastIterate
    from deniable.learning.optimizers import Localisation as Localisation
    from deniable.learning.optimizers import ObjectivePerturbation as ObjectivePerturbation
    from deniable.learning.optimizers import OutputPerturbation as OutputPerturbation
    from deniable.learning.optimizers import PhasedSGD as PhasedSGD
    from deniable.learning.optimizers import RegularisedExponential as RegularisedExponential
    from deniable.learning.optimizers import SufficientStatistics as SufficientStatistics
    from deniable.learning.optimizers import TextbookGradientDescent as TextbookGradientDescent
    from deniable.learning.optimizers import Whitened as Whitened
    from deniable.learning.preprocessing import BinEncoder as BinEncoder
    from deniable.learning.preprocessing import CategoryEncoder as CategoryEncoder
    from deniable.learning.preprocessing import RangeScaler as RangeScaler
    from deniable.learning.validation import cross_val_score as cross_val_score

_HOMES = {
    "columns": ("Columns", "HatEncoder"),
    "disclosure": ("DataProblems", "disclose_data_problems"),
    "estimators": (
        "PCA", "AdditiveClassifier", "AdditiveRegressor", "Covariance", "GaussianNB", "GeometricMedian", "KMeans",
        "LinearRegression", "LinearSVC", "LogisticRegression", "Mean", "QuantileRegressor", "Ridge", "StandardScaler",
    ),
    "optimizers": (
        "FTRL", "SGD", "AdditiveDescent", "FrankWolfe", "GradientDescent", "LastIterate", "Localisation",
        "ObjectivePerturbation", "OutputPerturbation", "PhasedSGD", "RegularisedExponential", "SufficientStatistics",
        "TextbookGradientDescent",
        "Whitened",
    ),
    "preprocessing": ("BinEncoder", "CategoryEncoder", "RangeScaler"),
    "validation": ("cross_val_score",),
}  # fmt: skip
_PLACES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_PLACES, "losses"]


def __getattr__(name: str) -> Any:
    """Estimators need scikit-learn, losses and methods do not: each loads when it is first asked for."""
    if name == "losses":
        return import_module("deniable.learning.losses")
    if name not in _PLACES:
        raise AttributeError(f"module 'deniable.learning' has no attribute {name!r}")
    try:
        return getattr(import_module(f"deniable.learning.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        from deniable.errors import MissingExtra

        raise MissingExtra("sklearn", "learn") from error


def __dir__() -> list[str]:
    return sorted(__all__)
