"""Scalers and encoders on declared ranges and categories. They learn nothing from the data, so they cost nothing.

Put them before a private estimator in a `Pipeline` and the whole is private: `fit` only checks shapes.

>>> RangeScaler(bounds=[(0, 100), (0, 40)]).fit_transform([[50, 40], [200, 10]]).tolist()
[[0.0, 1.0], [1.0, -0.5]]
>>> CategoryEncoder(categories=[["a", "b"]]).fit_transform([["b"], ["?"]]).tolist()
[[0.0, 1.0], [0.0, 0.0]]
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.learning.reading import read

Array = NDArray[Any]


class RangeScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each column from its declared range to [-1, 1]; what lies outside counts as the nearer end.

    `bounds` is one pair for all columns or a list with one pair for each. A row of d columns then has norm at most √d,
    which is the `data_norm` of the estimator that follows.
    """

    def __init__(self, *, bounds: Any = None) -> None:
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check shapes and bounds. Nothing is learned."""
        X = read(self, X, dtype=np.float64)
        self.low_, self.high_ = _ranges(self.bounds, X.shape[1])
        return self

    def transform(self, X: Any) -> Array:
        """Scaled and clipped columns."""
        check_is_fitted(self)
        X = read(self, X, dtype=np.float64, reset=False)
        return np.asarray(np.clip(2 * (X - self.low_) / (self.high_ - self.low_) - 1, -1.0, 1.0))


class BinEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each column as indicators of bins with declared edges: below the first, between two, from the last on.

    >>> BinEncoder(edges=[[10, 20]]).fit_transform([[5], [10], [25]]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, *, edges: Any = None) -> None:
        self.edges = edges

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check shapes and edges. Nothing is learned."""
        X = read(self, X, dtype=np.float64)
        if self.edges is None or len(self.edges) != X.shape[1]:
            raise InvalidArgument("edges", self.edges, f"a list of {X.shape[1]} lists of edges, one per column")
        self.edges_ = [np.asarray(edges, dtype=np.float64) for edges in self.edges]
        if any(len(edges) == 0 or (np.diff(edges) <= 0).any() or not np.isfinite(edges).all() for edges in self.edges_):
            raise InvalidArgument("edges", self.edges, "finite and increasing in every column")
        return self

    def transform(self, X: Any) -> Array:
        """Indicators of bins."""
        check_is_fitted(self)
        X = read(self, X, dtype=np.float64, reset=False)
        parts = [
            np.eye(len(edges) + 1)[np.searchsorted(edges, X[:, j], side="right")] for j, edges in enumerate(self.edges_)
        ]
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names such as x0_from_10."""
        check_is_fitted(self)
        named = _names(self, input_features)
        return np.array(
            [
                f"{name}_from_{edge:g}"
                for name, edges in zip(named, self.edges_, strict=True)
                for edge in (-np.inf, *edges)
            ],
            dtype=object,
        )


class CategoryEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each column as indicators of its declared categories; any other value is all zeros."""

    def __init__(self, *, categories: Any = None) -> None:
        self.categories = categories

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check shapes and categories. Nothing is learned."""
        X = _objects(self, X, reset=True)
        if self.categories is None or isinstance(self.categories, str) or len(self.categories) != X.shape[1]:
            remedy = "The set of values found in the data would leak; take them from the code book."
            raise InvalidArgument(
                "categories", self.categories, f"a list of {X.shape[1]} lists, one per column", remedy
            )
        self.categories_ = [list(column) for column in self.categories]
        for column in self.categories_:
            if not column or len(set(column)) != len(column):
                raise InvalidArgument("categories", self.categories, "different values in every column, one or more")
        return self

    def transform(self, X: Any) -> Array:
        """Indicators of categories."""
        check_is_fitted(self)
        X = _objects(self, X, reset=False)
        parts = [
            np.column_stack([X[:, j] == category for category in column]).astype(np.float64)
            for j, column in enumerate(self.categories_)
        ]
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names such as x0_a."""
        check_is_fitted(self)
        named = _names(self, input_features)
        return np.array(
            [f"{name}_{value}" for name, column in zip(named, self.categories_, strict=True) for value in column],
            dtype=object,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def _ranges(bounds: Any, columns: int) -> tuple[Array, Array]:
    """Low and high of every column."""
    remedy = "Take them from the code book, for example bounds=[(0, 120), (0, 168)]; the data's own range would leak."
    if bounds is None:
        raise InvalidArgument("bounds", None, f"a pair, or {columns} pairs, of numbers", remedy)
    try:
        pairs = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (columns, 2))
    except (TypeError, ValueError):
        raise InvalidArgument("bounds", bounds, f"a pair, or {columns} pairs, of numbers", remedy) from None
    for low, high in pairs:
        _checks.number("bounds", float(low))
        _checks.number("bounds", float(high))
        if low >= high:
            raise InvalidArgument("bounds", bounds, "pairs (low, high) with low < high")
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def _objects(encoder: Any, X: Any, *, reset: bool) -> Array:
    """Columns of anything, as objects."""
    found = read(encoder, X, dtype=object, ensure_all_finite=False, reset=reset)
    if found.ndim != 2:
        raise DataError(f"expected a table of rows and columns; got {found.ndim} dimension(s)")
    return np.asarray(found)


def _names(encoder: Any, given: Any) -> list[str]:
    if given is not None:
        return [str(name) for name in given]
    known = getattr(encoder, "feature_names_in_", None)
    return [f"x{j}" for j in range(encoder.n_features_in_)] if known is None else [str(name) for name in known]
