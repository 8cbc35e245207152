"""How data are read: one record at a time, and never with an exception that depends on a value.

Every rule here looks at one record only. A rule that looked at the whole column (parse it as numbers if that works
for all of them) would let one record change how every other is read, and no sensitivity would bound that. What may
raise is the kind of container: its type, its dtype, its number of dimensions.

| a record that is | as a number | as a flag | as a key |
|---|---|---|---|
| None, NaN, NA, not a number at all | missing (NaN) | not counted | a record without key: None and NaN; text is a key |
| ±inf, an integer beyond a float | ±inf, clamped to the bounds later | counted | a key like any other |
| True, False | 1, 0 | counted, not counted | a key; equal to 1 and 0 where keys are declared, as in Python |
| unhashable | missing | not counted | a record without key |

>>> numbers([1, None, float("nan"), "7", 10**400, True]).tolist()
[1.0, nan, nan, nan, inf, 1.0]
>>> keys(["a", None, 3.0, float("nan"), []])
['a', None, 3.0, None, None]
"""

from __future__ import annotations

import numbers as kinds
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import DataError


def numbers(values: object) -> NDArray[np.float64]:
    """A column of numbers, missing ones as NaN."""
    array = _array(values)
    if array is not None and array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # a wider float that is too large becomes ±inf
            return np.asarray(array, dtype=np.float64)
    if array is not None and array.dtype.kind != "O":
        raise DataError(f"expected a column of numbers; got an array of {array.dtype}: convert it to float64 first")
    return np.array([_number(value) for value in _items(values, array)], dtype=np.float64)


def table(values: object, *, columns: int) -> NDArray[np.float64]:
    """Rows of `columns` numbers each: an array of two dimensions, or a sequence of columns' worth of rows."""
    array = values if isinstance(values, np.ndarray) else np.asarray(values) if hasattr(values, "__array__") else None
    if array is not None and array.ndim == 2:
        if array.shape[1] != columns:
            raise DataError(f"expected rows of {columns} numbers; got an array with {array.shape[1]} columns")
        return np.column_stack([numbers(array[:, c]) for c in range(columns)])
    rows = [_row(row, columns) for row in _items(values, None)]
    return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


def flags(values: object) -> NDArray[np.bool_]:
    """Which records count: True, or any number but 0. A missing one does not."""
    found = numbers(values)
    return np.asarray((found != 0) & ~np.isnan(found))


def keys(values: object) -> list[Hashable]:
    """The key of each record; None for a record without one."""
    array = _array(values)
    return [_key(value) for value in (_items(values, None) if array is None else _listed(values, array))]


def printed(key: Hashable) -> tuple[str, str]:
    """A name and an order of keys that depend on each key alone."""
    return type(key).__name__, repr(key)


def tally(found: Iterable[Hashable]) -> list[tuple[Hashable, int]]:
    """How often each key occurs, in the order of the printed forms.

    Keys that are equal and print differently (1 and True, 0.0 and −0.0, one instant in two time zones) are different
    keys here. Counted together, they would all bear the name of whichever came first, which is one record's choice.
    """
    counts: Counter[tuple[str, str]] = Counter()
    names: dict[tuple[str, str], Hashable] = {}
    for key in found:
        mark = printed(key)
        counts[mark] += 1
        names.setdefault(mark, key)
    return [(names[mark], counts[mark]) for mark in sorted(counts)]


def columns(values: object, names: Iterable[str]) -> list[list[Hashable]]:
    """The keys of several columns of one table, given by name."""
    if not isinstance(values, Mapping) and not hasattr(values, "columns"):
        raise DataError("expected a table: a mapping from column name to values, or a data frame")
    found = []
    for name in names:
        try:
            found.append(keys(values[name]))  # type: ignore[index]
        except KeyError:
            raise DataError(f"the table has no column {name!r}") from None
    if len({len(column) for column in found}) > 1:
        raise DataError("the columns of a table have the same length; these do not")
    return found


def _array(values: object) -> NDArray[Any] | None:
    """The values as an array of one dimension, if they come as something like an array."""
    if isinstance(values, np.ma.MaskedArray):
        hidden, values = np.ma.getmaskarray(values), values.data.astype(object)
        values[hidden] = None
    if not isinstance(values, np.ndarray):
        if not hasattr(values, "__array__"):
            return None
        values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"expected one value per record; got an array of {values.ndim} dimensions")
    return values


def _listed(values: object, array: NDArray[Any]) -> Iterable[Any]:
    """The records of something like an array, as it lists them itself.

    NumPy has one type for all: a missing integer in a column of pandas, Polars or Arrow makes floats of the others.
    """
    if isinstance(values, np.ndarray):
        return list(array.tolist())
    ways = (getattr(values, name, None) for name in ("to_pylist", "to_list", "tolist"))
    return list(next((way for way in ways if callable(way)), array.tolist)())


def _items(values: object, array: NDArray[Any] | None) -> Iterable[Any]:
    if array is not None:
        return list(array.tolist())
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise DataError(f"expected one value per record; got a {type(values).__name__}: give a list or an array")
    return values


def _row(row: object, width: int) -> list[float]:
    """One record; one that is not a row of the right width is missing altogether."""
    if isinstance(row, str | bytes | Mapping) or not isinstance(row, Iterable):
        return [np.nan] * width
    found = [_number(value) for value in row]
    return found if len(found) == width else [np.nan] * width


def _number(value: object) -> float:
    if isinstance(value, np.bool_):
        return float(value)
    if not isinstance(value, kinds.Real | Decimal):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf  # type: ignore[operator]
    except ValueError:  # a signalling NaN
        return np.nan


def _key(value: Any) -> Hashable:
    if isinstance(value, np.generic):
        value = value.item()
    try:
        hash(value)
        # NaN and NA are not equal to themselves; asking NA for a truth value is a TypeError.
        return value if bool(value == value) else None
    except Exception:  # noqa: BLE001  a record's own methods may raise anything, and whether they do is private
        return None
