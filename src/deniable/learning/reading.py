"""Tables and columns of private records, read by rules that no record can break.

Whether a fit succeeds, and what it says, must not depend on what a record holds. So every value has a meaning, read by
itself (`deniable._values`): a number is that number, and so is text that reads as one, because one word in a file's
column makes text of everybody's numbers. Anything else (missing values, NaN, infinities, numbers beyond float64, other
text, dates, objects) is *no number*: 0 in a table, and in a column of labels or weights a record that does not count.

What may be refused is public: what kind of thing a table is, how many columns it has and what they are called, and that
a column is not as long as the table. Arrays and frames say how many columns they have. A list of rows does not: each
row says it for itself, and no record may decide it for all. So a list is read where the columns are declared or known
from a fit, and refused elsewhere, whatever it holds.

>>> numbers(np.array([1, "2.5", "x", None, float("inf"), 10**400], dtype=object)).tolist()
[1.0, 2.5, nan, nan, nan, nan]
"""

from __future__ import annotations

import numbers as kinds
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable._checks import type_of
from deniable._values import array_of, floats, number
from deniable.errors import InvalidArgument

Array = NDArray[Any]

LEAST, LARGEST = 1e-50, 1e50
"""The sizes that a declared norm, bound or strength may have: their squares are far from the ends of floating point."""

_ROW = "a table, with a row for each record"
_SEQUENCES = (list, tuple, range, np.ndarray)


def numbers(column: Array) -> NDArray[np.float64]:
    """A float64 for every value of a column, NaN for what is no finite number. It never raises."""
    real = floats(column)
    return np.where(np.isfinite(real), real, np.nan)


def read_rows(
    estimator: Any, X: Any, *, reset: bool, sparse: bool = False, missing: float = 0.0, declared: Any = None
) -> Any:
    """The table as float64, `missing` where a value is no number: an array, or a CSR array where X is sparse.

    Sets or checks the `n_features_in_` and `feature_names_in_` of the estimator, if any; they are public. `declared` is
    what was declared of the columns, if it is a sequence with an entry for each.
    """
    if hasattr(X, "tocsr"):
        if not sparse:
            raise _sparse(X)
        rows = _csr(X, missing)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] and X.dtype.kind in "biuf":
        rows = np.nan_to_num(numbers(np.asarray(_array_of(X, "X"))), nan=missing)
    else:
        count = count_declared(declared) if reset or estimator is None else estimator.n_features_in_
        rows = np.column_stack([np.nan_to_num(numbers(column), nan=missing) for column in read_columns(X, count=count)])
    check_columns(estimator, X, rows.shape[1], reset=reset)
    return rows


def count_declared(declared: Any) -> int | None:
    """How many columns were declared one by one; None for one declaration for all of them, or none."""
    if isinstance(declared, _SEQUENCES) and len(declared) and all(isinstance(each, _SEQUENCES) for each in declared):
        return len(declared)
    return None


def read_columns(X: Any, *, exact: bool = False, count: int | None = None) -> list[Array]:
    """The columns of a dense table, each with the type it has there; values of no type of their own are objects.

    `exact` keeps whole numbers beyond 2⁵³ as they are where a column has missing values. `count` says how many columns
    a list of rows has; without it a list is refused.
    """
    if hasattr(X, "tocsr"):
        raise _sparse(X)
    if _is_frame(X):
        columns = [read_column(_frame_column(X, j), exact=exact) for j in range(X.shape[1])]
    elif isinstance(X, list | tuple):
        columns = _columns_of_rows(X, count)
    elif hasattr(X, "__array__"):
        table = _array_of(X, "X")
        if table.ndim == 1 and table.dtype.kind == "O":
            columns = _columns_of_rows(table.tolist(), count)
        elif table.ndim == 1:
            raise _single()
        elif table.ndim != 2:
            raise InvalidArgument("X", f"an array of {table.ndim} dimensions", _ROW)
        else:
            columns = list(table.T)
    else:
        raise InvalidArgument("X", type_of(X), _ROW)
    if not columns:
        raise InvalidArgument(
            "X", "a table of 0 feature(s)", "a table of one column or more: a minimum of 1 is required"
        )
    return columns


def _columns_of_rows(rows: Sequence[Any], count: int | None) -> list[Array]:
    """As many columns as were declared. A longer row is cut, a shorter one ends in None; what is no row is None."""
    if count is None:
        remedy = (
            "A list does not say how many columns it has, and no record may decide it: np.array(X) does. "
            "Reshape your data where it is one column: np.array(X).reshape(-1, 1)."
        )
        raise InvalidArgument("X", "a list of rows", "an array or a frame, with a row for each record", remedy)
    cells = [list(row) if _is_row(row) else None for row in map(_plain_row, rows)]
    return [_objects(None if row is None or j >= len(row) else row[j] for row in cells) for j in range(count)]


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _plain_row(row: Any) -> Any:
    """A row of a frame as an array; anything else as it is."""
    return row.to_numpy() if type(row).__module__.startswith("pandas.") and hasattr(row, "to_numpy") else row


def read_column(values: Any, *, exact: bool = False) -> Array:
    """One column as an array: its own type where it has one, else objects. Never converts one value for another's sake.

    Raises where `values` is no column at all, which is public.
    """
    if hasattr(values, "to_numpy") and hasattr(values, "astype"):  # pandas
        kind = values.dtype.kind
        if isinstance(values.dtype, np.dtype) and kind in "biuf":
            return np.asarray(values)
        if kind == "f" or (kind in "biu" and not exact):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return _objects(values.astype(object).tolist())
    if hasattr(values, "to_numpy") and hasattr(values, "to_list"):  # Polars
        if values.dtype.is_float() or (values.dtype.is_integer() and not exact):
            return np.asarray(values.to_numpy(), dtype=np.float64)
        return _objects(values.to_list())
    if hasattr(values, "to_pylist"):  # Arrow
        return _objects(values.to_pylist())
    if isinstance(values, list | tuple):
        return _objects(values)
    return _array_of(values, "a column")


def read_labels(y: Any, rows: int, *, name: str = "y") -> Array:
    """A column beside a table of so many rows; neither length is told."""
    if y is None:
        remedy = "This fit requires y to be passed, but the target y is None."
        raise InvalidArgument(name, None, "a column with a label for each row", remedy)
    if isinstance(y, str | bytes | dict | set) or not (hasattr(y, "__len__") or hasattr(y, "__array__")):
        raise InvalidArgument(name, type_of(y), "a column with a value for each row")
    if _is_frame(y):
        labels = np.column_stack(
            [read_column(_frame_column(y, j), exact=True).astype(object) for j in range(y.shape[1])]
        )
    else:
        labels = read_column(y, exact=True)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
        _warn_of_a_table(name)
    if labels.ndim != 1:
        raise InvalidArgument(name, "a table", "one column", f"{name} should be a 1d array: a value for each row.")
    if len(labels) != rows:
        raise InvalidArgument(name, "a column of another length", "as long as X has rows")
    return labels


def read_weights(weights: Any, rows: int) -> NDArray[np.float64] | None:
    """Weights in [0, 1]: what is larger counts as 1, what is negative or no number as 0. None for 1 everywhere."""
    if weights is None:
        return None
    if isinstance(weights, kinds.Number | Decimal) or (isinstance(weights, np.ndarray) and weights.ndim == 0):
        column = np.full(rows, number(weights))
    else:
        column = numbers(read_labels(weights, rows, name="sample_weight"))
    return np.asarray(np.clip(np.nan_to_num(column, nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0))


def counted_weights(counts: NDArray[np.bool_], weights: Any) -> NDArray[np.float64]:
    """The weight of every record: 0 where it does not count, else its given weight, or 1."""
    given = read_weights(weights, len(counts))
    return np.where(counts, 1.0 if given is None else given, 0.0)


def check_columns(estimator: Any, X: Any, count: int, *, reset: bool) -> None:
    """scikit-learn's bookkeeping of columns and their names, with names that are told apart."""
    from sklearn.utils.validation import validate_data

    frame = _is_frame(X)
    if frame:
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
        if len({str(name) for name in names}) < len(names):
            raise InvalidArgument("X", "a frame in which two columns have one name", "a table of different columns")
        if len({isinstance(name, str) for name in names}) > 1:
            remedy = "X.columns = X.columns.astype(str) makes them text."
            raise InvalidArgument("X", "a frame whose columns are named by text and by numbers", _ROW, remedy)
    if estimator is not None:
        validate_data(estimator, X if frame else np.empty((0, count)), reset=reset, skip_check_array=True)


def _is_frame(X: Any) -> bool:
    """pandas, Polars or Arrow."""
    return any(hasattr(X, name) for name in ("columns", "column_names")) and len(getattr(X, "shape", ())) == 2


def _frame_column(X: Any, j: int) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    return X.column(j) if hasattr(X, "column") else X.to_series(j)


def _array_of(values: Any, name: str) -> Array:
    """An array as it is; hidden values are missing ones."""
    array = array_of(values)
    if array is None or array.ndim == 0:
        raise InvalidArgument(name, type_of(values), _ROW if name == "X" else "a column with a value for each row")
    return array


def _objects(values: Iterable[Any]) -> Array:
    """A one-dimensional array of the values as they are, lists among them included."""
    return np.fromiter(values, dtype=object)


def _sparse(X: Any) -> InvalidArgument:
    remedy = "Sparse input is not supported here; X.toarray() makes it dense."
    return InvalidArgument("X", type_of(X), f"dense: {_ROW}", remedy)


def _single() -> InvalidArgument:
    return InvalidArgument(
        "X", "a single column or row", _ROW, "Reshape your data: X.reshape(-1, 1) is a table of one column."
    )


def _csr(X: Any, missing: float) -> Any:
    """A sparse table of numbers, no place twice."""
    from scipy import sparse

    given = X.tocoo()
    rows = sparse.coo_array((numbers(given.data), (given.row, given.col)), shape=given.shape)
    with np.errstate(all="ignore"):
        rows = sparse.csr_array(rows)  # adds up what has one place
    rows.data = np.nan_to_num(numbers(rows.data), nan=missing)
    if rows.shape[1] == 0:
        raise InvalidArgument(
            "X", "a table of 0 feature(s)", "a table of one column or more: a minimum of 1 is required"
        )
    return rows


def _warn_of_a_table(name: str) -> None:
    import warnings

    from sklearn.exceptions import DataConversionWarning

    text = f"A column-vector {name} was passed when a 1d array was expected; it is read as one column."
    warnings.warn(text, DataConversionWarning, stacklevel=4)
