"""Estimators with scikit-learn's conventions: the constructor stores, `fit` acts, results end in an underscore."""

from deniable.learning.estimators.additive import AdditiveClassifier, AdditiveRegressor
from deniable.learning.estimators.classifiers import LinearSVC, LogisticRegression
from deniable.learning.estimators.direct import PCA, Covariance, GaussianNB, KMeans, StandardScaler
from deniable.learning.estimators.linear import LinearRegression, QuantileRegressor, Ridge
from deniable.learning.estimators.points import GeometricMedian, Mean

__all__ = [
    "PCA",
    "AdditiveClassifier",
    "AdditiveRegressor",
    "Covariance",
    "GaussianNB",
    "GeometricMedian",
    "KMeans",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Mean",
    "QuantileRegressor",
    "Ridge",
    "StandardScaler",
]
