"""Tables as they are: ranges and categories of mixed columns, declared once.

`Columns` reads a frame with numbers, words and things to leave out, and gives rows of a known norm. `HatEncoder` bends
numbers: hat functions on a declared range, for additive models. Both learn nothing, so they cost nothing.

>>> columns = Columns(age=(0, 120), city=["Oslo", "Rome"], note=None)
>>> columns.fit_transform({"age": [30, 200], "city": ["Rome", "Bern"], "note": ["a", "b"]}).tolist()
[[-0.5, 0.0, 1.0], [1.0, 0.0, 0.0]]
>>> round(columns.norm, 3)
1.414
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from deniable._checks import count, type_of
from deniable.errors import InvalidArgument
from deniable.learning.declared import Declared, declared_categories
from deniable.learning.preprocessing import column_names, indicators, ranges, total_tags
from deniable.learning.reading import check_columns, numbers, read_column, read_rows

Array = NDArray[Any]

_REMEDY = "Declare every column: (low, high) for a number, a list for categories, None to leave it out."


def hats(values: Array, low: float, high: float, pieces: int) -> NDArray[np.float64]:
    """Linear B-splines on evenly spaced knots of a range: at most two are above 0, and they add up to 1.

    Their squared length is at most 1, so a column of hats counts no more in a norm than the column itself. What is no
    number has no hat; what lies outside the range counts as the nearer end.
    """
    place = (np.clip(values, low, high) - low) / (high - low) * (pieces - 1)
    found = np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(pieces)))
    return np.asarray(np.nan_to_num(found, nan=0.0))


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers on a declared range."""

    name: str
    low: float
    high: float

    def encode(self, column: Array, pieces: int) -> Array:
        """One column on [−1, 1], 0 for what is no number; or hats."""
        values = numbers(column)
        if pieces:
            return hats(values, self.low, self.high, pieces)
        scaled = 2 * (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low) - 1
        return np.clip(np.nan_to_num(scaled, nan=0.0), -1.0, 1.0)[:, None]

    def names(self, pieces: int) -> list[str]:
        if not pieces:
            return [self.name]
        return [f"{self.name}_at_{knot:g}" for knot in np.linspace(self.low, self.high, pieces)]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of declared categories."""

    name: str
    values: tuple[Any, ...]

    def encode(self, column: Array, pieces: int) -> Array:
        """Indicators; all zeros for anything undeclared."""
        return indicators(Declared(self.name, self.values).codes(column), len(self.values))

    def names(self, pieces: int) -> list[str]:
        return [f"{self.name}_{value}" for value in self.values]


class Columns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Declared columns of a frame, as a transformer: `make_pipeline(columns, model)`.

    A pair is the range of a number, which goes to [−1, 1]; a list holds categories, which become indicators; None
    leaves a column out. A column of the frame that is not declared is refused, as is one that is declared and missing:
    names of columns are public. `norm` is the `data_norm` of the model that follows: the root of the number of columns
    that count, because the indicators of one column have length 1 together.

    Args:
        declared: columns by name, where names are no Python words: Columns({"hours-per-week": (0, 99)}).
        columns: columns by keyword.
    """

    def __init__(self, declared: Mapping[str, Any] | None = None, /, **columns: Any) -> None:
        self.declared = {**(declared or {}), **columns}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The declared columns."""
        return dict(self.declared)

    def set_params(self, **columns: Any) -> Self:
        """Declare columns anew, by name."""
        self.declared = {**self.declared, **columns}
        return self

    def __sklearn_clone__(self) -> Columns:
        return Columns(self.declared)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Columns({self.declared!r})"

    @property
    def kinds(self) -> list[NumberColumn | CategoryColumn]:
        """The columns that count, in their order."""
        kinds = [_kind(name, value) for name, value in self.declared.items()]
        counted = [kind for kind in kinds if kind is not None]
        if not counted:
            raise InvalidArgument("columns", self.declared, "one column or more that counts", _REMEDY)
        return counted

    @property
    def norm(self) -> float:
        """The longest row that can be: the root of the number of columns that count."""
        return math.sqrt(len(self.kinds))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the names of the columns. Nothing is learned."""
        self._read(X)
        self.n_features_in_ = len(self.declared)
        self.feature_names_in_ = np.array(list(self.declared), dtype=object)
        return self

    def transform(self, X: Any) -> Array:
        """Rows of norm at most `norm`."""
        return self.encode(X)

    def encode(self, X: Any, *, pieces: int = 0) -> Array:
        """Rows: numbers on [−1, 1], or as so many hats each; categories as indicators."""
        columns = self._read(X)
        return np.hstack([kind.encode(columns[kind.name], pieces) for kind in self.kinds])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names such as city_Oslo."""
        return np.array([name for kind in self.kinds for name in kind.names(0)], dtype=object)

    def _read(self, X: Any) -> dict[str, Array]:
        """The columns that count, by name."""
        wanted = "a frame, or a dictionary of columns"
        if isinstance(X, Mapping):
            given: dict[str, Any] = {str(name): X[name] for name in X}
        elif hasattr(X, "columns") and hasattr(X, "__getitem__"):
            names = list(getattr(X, "column_names", X.columns))
            check_columns(None, X, len(names), reset=False)
            given = {str(name): X[name] for name in names}
        else:
            raise InvalidArgument("X", type_of(X), wanted, "Columns are matched by name.")
        missing = [name for name in self.declared if name not in given and self.declared[name] is not None]
        unknown = [name for name in given if name not in self.declared]
        if missing or unknown:
            shown = f"{', '.join(missing) or 'none'} missing, {', '.join(unknown) or 'none'} undeclared"
            raise InvalidArgument("X", f"a table with {shown}", "a table of the declared columns", _REMEDY)
        found = {kind.name: read_column(given[kind.name], exact=True) for kind in self.kinds}
        if len({len(column) for column in found.values()}) > 1:
            raise InvalidArgument("X", "columns of different lengths", wanted)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = total_tags(super().__sklearn_tags__())
        tags.input_tags.categorical = True
        tags.requires_fit = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _kind(name: str, value: Any) -> NumberColumn | CategoryColumn | None:
    if value is None:
        return None
    if isinstance(value, tuple) and len(value) == 2:
        low, high = ranges([value], 1)
        return NumberColumn(name, float(low[0]), float(high[0]))
    if isinstance(value, list | np.ndarray):
        declared_categories([list(value)], 1)
        return CategoryColumn(name, tuple(value))
    raise InvalidArgument(name, value, "a pair (low, high), a list of categories, or None", _REMEDY)


class HatEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each column as hat functions on its declared range: linear between evenly spaced knots.

    A linear model of hats is an additive model of the columns, and every linear model is one of them. A row of d
    columns has norm at most √d, as before.

    Args:
        bounds: one pair for all columns, or a pair for each.
        pieces: how many knots a range has.

    >>> HatEncoder(bounds=[(0, 10)], pieces=3).fit_transform([[0], [2.5], [10]]).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, *, bounds: Any = None, pieces: int = 6) -> None:
        self.bounds = bounds
        self.pieces = pieces

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check shapes and bounds. Nothing is learned."""
        rows = read_rows(self, X, reset=True, declared=self.bounds)
        count("pieces", self.pieces, least=2)
        self.low_, self.high_ = ranges(self.bounds, rows.shape[1])
        return self

    def transform(self, X: Any) -> Array:
        """Hats of every column."""
        check_is_fitted(self)
        rows = read_rows(self, X, reset=False, missing=np.nan)
        ends = zip(rows.T, self.low_, self.high_, strict=True)
        return np.hstack([hats(column, low, high, self.pieces) for column, low, high in ends])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names such as x0_at_2.5."""
        check_is_fitted(self)
        ends = zip(column_names(self, input_features), self.low_, self.high_, strict=True)
        return np.array([one for name, low, high in ends for one in NumberColumn(name, low, high).names(self.pieces)])

    def __sklearn_tags__(self) -> Any:
        return total_tags(super().__sklearn_tags__())


def as_columns(declared: Any, X: Any) -> Columns:
    """Declared columns: as they are, by name, or as bounds for the columns of an array, x0, x1 and so on."""
    if isinstance(declared, Columns | Mapping):
        return declared if isinstance(declared, Columns) else Columns(declared)
    width = read_rows(None, X, reset=False, declared=declared).shape[1]
    low, high = ranges(declared, width)
    return Columns({f"x{j}": (float(low[j]), float(high[j])) for j in range(width)})
