"""Scalers and encoders on declared ranges and categories. They learn nothing from the data, so they cost nothing.

Put them before a private estimator in a `Pipeline` and the whole is private: `fit` only looks at the columns. Every
value has a meaning (`reading`, `declared`), so no record decides whether `fit` or `transform` succeeds.

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
from deniable.errors import InvalidArgument
from deniable.learning.declared import UNDECLARED, declared_categories
from deniable.learning.reading import LARGEST, LEAST, check_columns, count_declared, read_columns, read_rows

Array = NDArray[Any]


class RangeScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each column from its declared range to [-1, 1]; what lies outside counts as the nearer end.

    `bounds` is one pair for all columns or a list with one pair for each. A row of d columns then has norm at most √d,
    which is the `data_norm` of the estimator that follows. What is no number counts as the middle of its range, 0.
    """

    def __init__(self, *, bounds: Any = None) -> None:
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check shapes and bounds. Nothing is learned."""
        rows = read_rows(self, X, reset=True, declared=self.bounds)
        self.low_, self.high_ = ranges(self.bounds, rows.shape[1])
        return self

    def transform(self, X: Any) -> Array:
        """Scaled and clipped columns."""
        check_is_fitted(self)
        rows = np.clip(read_rows(self, X, reset=False, missing=np.nan), self.low_, self.high_)
        scaled = np.clip(2 * (rows - self.low_) / (self.high_ - self.low_) - 1, -1.0, 1.0)
        return np.asarray(np.nan_to_num(scaled, nan=0.0))

    def __sklearn_tags__(self) -> Any:
        return total_tags(super().__sklearn_tags__())


class BinEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each column as indicators of bins with declared edges: below the first, between two, from the last on.

    What is no number is in no bin.

    >>> BinEncoder(edges=[[10, 20]]).fit_transform([[5], [10], [25]]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, *, edges: Any = None) -> None:
        self.edges = edges

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check shapes and edges. Nothing is learned."""
        count = read_rows(self, X, reset=True, declared=self.edges).shape[1]
        wanted = f"a list of {count} lists of edges, one per column"
        if not isinstance(self.edges, list | tuple | np.ndarray) or len(self.edges) != count:
            raise InvalidArgument("edges", self.edges, wanted)
        try:
            self.edges_ = [np.asarray(edges, dtype=np.float64) for edges in self.edges]
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgument("edges", self.edges, wanted) from None
        for edges in self.edges_:
            if edges.ndim != 1 or not edges.size or not np.isfinite(edges).all() or (edges[1:] <= edges[:-1]).any():
                raise InvalidArgument("edges", self.edges, "finite and increasing in every column")
        return self

    def transform(self, X: Any) -> Array:
        """Indicators of bins."""
        check_is_fitted(self)
        rows = read_rows(self, X, reset=False, missing=np.nan)
        parts = [
            indicators(
                np.where(np.isnan(column), UNDECLARED, np.searchsorted(edges, column, side="right")), len(edges) + 1
            )
            for edges, column in zip(self.edges_, rows.T, strict=True)
        ]
        return np.hstack(parts)

    def __sklearn_tags__(self) -> Any:
        return total_tags(super().__sklearn_tags__())

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names such as x0_from_10."""
        check_is_fitted(self)
        named = column_names(self, input_features)
        return np.array(
            [
                f"{name}_from_{edge:g}"
                for name, edges in zip(named, self.edges_, strict=True)
                for edge in (-np.inf, *edges)
            ],
            dtype=object,
        )


class CategoryEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each column as indicators of its declared categories; any other value is all zeros.

    Numbers match however they are written: the categories 1 and "1" are one (`declared`).
    """

    def __init__(self, *, categories: Any = None) -> None:
        self.categories = categories

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check shapes and categories. Nothing is learned."""
        count = len(read_columns(X, exact=True, count=count_declared(self.categories)))
        check_columns(self, X, count, reset=True)
        declared_categories(self.categories, count)
        self.categories_ = [list(column) for column in self.categories]
        return self

    def transform(self, X: Any) -> Array:
        """Indicators of categories."""
        check_is_fitted(self)
        columns = read_columns(X, exact=True, count=self.n_features_in_)
        check_columns(self, X, len(columns), reset=False)
        known = declared_categories(self.categories_, len(columns))
        parts = [
            indicators(values.codes(column), len(categories))
            for values, column, categories in zip(known, columns, self.categories_, strict=True)
        ]
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names such as x0_a."""
        check_is_fitted(self)
        named = column_names(self, input_features)
        return np.array(
            [f"{name}_{value}" for name, column in zip(named, self.categories_, strict=True) for value in column],
            dtype=object,
        )

    def __sklearn_tags__(self) -> Any:
        tags = total_tags(super().__sklearn_tags__())
        tags.input_tags.categorical = True
        return tags


def total_tags(tags: Any) -> Any:
    """Tags of what takes every value."""
    tags.input_tags.string = True
    tags.input_tags.allow_nan = True
    return tags


def indicators(codes: Array, count: int) -> Array:
    """A row of zeros for every code, with a one at its place; none for `UNDECLARED`."""
    return np.asarray(codes[:, None] == np.arange(count), dtype=np.float64)


def ranges(bounds: Any, columns: int) -> tuple[Array, Array]:
    """Low and high of every column."""
    remedy = "Take them from the code book, for example bounds=[(0, 120), (0, 168)]; the data's own range would leak."
    if bounds is None:
        raise InvalidArgument("bounds", None, f"a pair, or {columns} pairs, of numbers", remedy)
    try:
        pairs = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (columns, 2))
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("bounds", bounds, f"a pair, or {columns} pairs, of numbers", remedy) from None
    for low, high in pairs:
        _checks.number("bounds", float(low))
        _checks.number("bounds", float(high))
        if low >= high:
            raise InvalidArgument("bounds", bounds, "pairs (low, high) with low < high")
        if max(-low, high) > LARGEST or high - low < LEAST:
            wanted = f"pairs within ±{LARGEST:g}, their ends {LEAST:g} or more apart"
            raise InvalidArgument("bounds", bounds, wanted, "Rescale the column.")
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def column_names(encoder: Any, given: Any) -> list[str]:
    if given is not None:
        return [str(name) for name in given]
    known = getattr(encoder, "feature_names_in_", None)
    return [f"x{j}" for j in range(encoder.n_features_in_)] if known is None else [str(name) for name in known]
