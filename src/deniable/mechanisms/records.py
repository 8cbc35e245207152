"""Reading private data: one record at a time, never with an exception that depends on a value.

`deniable._values` says what a number is. What may raise is the kind of container: its type, its number of dimensions,
and a length that differs from a public one.

| a record that is | as a number | as a flag | as a key |
|---|---|---|---|
| None, NaN, NA, not a number at all | missing (NaN) | not counted | a record without key: None and NaN; text is a key |
| ±inf, an integer beyond a float | ±inf, clamped to the bounds later | counted | a key like any other |
| True, False | 1, 0 | counted, not counted | a key; equal to 1 and 0 where keys are declared, as in Python |
| text that reads as a number | that number | counted unless it is 0 | a key: "7" is not 7 |
| unhashable, or raising when it is compared or printed | missing | not counted | a record without key |

>>> read_numbers([1, None, float("nan"), "7", 10**400, True]).tolist()
[1.0, nan, nan, 7.0, inf, 1.0]
>>> read_keys(["a", None, 3.0, float("nan"), []])
['a', None, 3.0, None, None]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, _values
from deniable.errors import DataError, InvalidArgument
from deniable.units import Relation


def read_numbers(values: object) -> NDArray[np.float64]:
    """A column of numbers, missing ones as NaN."""
    array = _column(values)
    if array is not None:
        return _values.floats(array)
    return np.array([_values.number(value) for value in _values.items(values)], dtype=np.float64)


def read_table(values: object, *, columns: int) -> NDArray[np.float64]:
    """Rows of `columns` numbers each: an array of two dimensions, a data frame, or a sequence of rows."""
    array = _values.array_of(values)
    if array is not None and array.ndim not in (1, 2):
        raise DataError(f"expected rows of {columns} numbers; got an array of {array.ndim} dimensions")
    if array is not None and array.ndim == 2:
        if array.shape[1] != columns:
            raise DataError(f"expected rows of {columns} numbers; got an array with {array.shape[1]} columns")
        return _values.floats(array)
    rows = [_row(row, columns) for row in (_values.items(values) if array is None else array.tolist())]
    return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


def read_flags(values: object) -> NDArray[np.bool_]:
    """Which records count: True, or any number but 0. A missing one does not."""
    column = read_numbers(values)
    return np.asarray((column != 0) & ~np.isnan(column))


def read_keys(values: object) -> list[Hashable]:
    """The key of each record; None for a record without one."""
    array = _column(values)
    return [_key(value) for value in (_values.items(values) if array is None else _list_records(values, array))]


def find_positions(values: object, declared: Sequence[Hashable]) -> NDArray[np.int64]:
    """The position of each record's key in a public list; −1 for a key that is not in it."""
    return find_key_positions(read_keys(values), declared)


def find_key_positions(keys: Iterable[Hashable], declared: Sequence[Hashable]) -> NDArray[np.int64]:
    """Like `find_positions`, for keys that were read already."""
    position_of = {key: position for position, key in enumerate(declared)}

    def find(key: Hashable) -> int:
        try:
            return position_of.get(key, -1)
        except Exception:  # noqa: BLE001  a key's own comparison may raise anything, and whether it does is private
            return -1

    return np.array([find(key) for key in keys], dtype=np.int64)


def count_keys(values: object, declared: Sequence[Hashable]) -> list[int]:
    """How many records have each key of a public list."""
    positions = find_positions(values, declared)
    return [int(count) for count in np.bincount(positions[positions >= 0], minlength=len(declared))]


def printed_form(key: Hashable) -> tuple[str, str]:
    """The type and repr of a key: a name and an order that no other record can change."""
    return type(key).__name__, repr(key)


def tally(keys: Iterable[Hashable]) -> list[tuple[Hashable, int]]:
    """How often each key occurs, in the order of the printed forms; a record without a key is left out.

    Keys that are equal and print differently (1 and True, 0.0 and −0.0, one instant in two time zones) are different
    keys here. Counted together, they would all bear the name of whichever came first, which is one record's choice.
    """
    numbers_of: Counter[tuple[str, str]] = Counter()
    names: dict[tuple[str, str], Hashable] = {}
    for key in keys:
        if key is None:
            continue
        try:
            mark = printed_form(key)
        except Exception:  # noqa: BLE001  a key's own repr may raise anything, and whether it does is private
            continue
        numbers_of[mark] += 1
        names.setdefault(mark, key)
    return [(names[mark], numbers_of[mark]) for mark in sorted(numbers_of)]


def read_columns(values: object, names: Iterable[str]) -> list[list[Hashable]]:
    """The keys of several columns of one table, given by name."""
    if not isinstance(values, Mapping) and not hasattr(values, "columns"):
        raise DataError("expected a table: a mapping from column name to values, or a data frame")
    names_present = values if isinstance(values, Mapping) else getattr(values, "column_names", values.columns)
    key_columns = []
    for name in names:
        if name not in names_present:
            raise DataError(f"the table has no column {name!r}")
        key_columns.append(read_keys(values[name]))  # type: ignore[index]
    if len({len(column) for column in key_columns}) > 1:
        raise DataError("the columns of a table have the same length; these do not")
    return key_columns


def keep_generator(data: Any) -> Any:
    """Lists the records of a generator, so that they can be read more than once; returns other data as they are."""
    return list(data) if isinstance(data, Iterator) else data


def _column(values: object) -> NDArray[Any] | None:
    """The values as an array of one dimension, if they come as something like an array."""
    array = _values.array_of(values)
    if array is not None and array.ndim != 1:
        raise DataError(f"expected one value per record; got an array of {array.ndim} dimensions")
    return array


def _list_records(values: Any, array: NDArray[Any]) -> list[Any]:
    """The records of something like an array, as it lists them itself.

    NumPy has one type for all: a missing integer in a column of pandas, Polars or Arrow makes floats of the others.
    """
    if isinstance(values, np.ndarray):
        return array.tolist()  # type: ignore[no-any-return]
    methods = (getattr(values, name, None) for name in ("to_pylist", "to_list", "tolist"))
    try:
        return list(next((method for method in methods if callable(method)), array.tolist)())
    except Exception:  # noqa: BLE001  one value that Python cannot hold, such as a far date, fails the whole list
        return [_item(values, position) for position in range(len(values))]


def _item(values: Any, position: int) -> Any:
    try:
        item = values[position]
        return item.as_py() if hasattr(item, "as_py") else item
    except Exception:  # noqa: BLE001  the one value that Python cannot hold
        return None


def _row(row: Any, width: int) -> list[float]:
    """One record; one that is not a row of the right width is missing altogether."""
    try:
        if not isinstance(row, str | bytes | bytearray | Mapping) and isinstance(row, Iterable):
            cells = [_values.number(value) for value in islice(row, width + 1)]
            if len(cells) == width:
                return cells
    except Exception:  # noqa: BLE001  a record's own methods may raise anything, and whether they do is private
        pass
    return [np.nan] * width


def _key(value: Any) -> Hashable:
    try:
        if isinstance(value, np.generic):
            value = value.item()
        hash(value)
        # NaN and NA are not equal to themselves; asking NA for a truth value is a TypeError.
        return value if bool(value == value) else None
    except Exception:  # noqa: BLE001  a record's own methods may raise anything, and whether they do is private
        return None


def check_size(size: int | None, relation: Relation, *, least: int = 1) -> int | None:
    """The number of records where it is public and must be stated (REPLACE, ZERO_OUT), or None (ADD_REMOVE).

    >>> check_size(1000, Relation.REPLACE), check_size(None, Relation.ADD_REMOVE)
    (1000, None)
    """
    if relation is Relation.ADD_REMOVE:
        if size is not None:
            raise InvalidArgument(
                "size", size, "left out under ADD_REMOVE", "There it is private; with relation=REPLACE it is public."
            )
        return None
    if size is None:
        raise InvalidArgument(
            "size", size, "the public number of records", f"Under {relation.name} it is public; say it."
        )
    return _checks.count("size", size, least=least)


def check_length(values: Sized, size: int, *, what: str) -> None:
    """Refuses data whose length is not the public one."""
    if len(values) != size:
        raise DataError(f"this {what} is over size={size} records, which is public; the values have another length")


def check_planned_size(size: int | None, *, what: str) -> int:
    """The number of values to state an accuracy for, where the real one is private."""
    if size is None:
        raise InvalidArgument(
            "size", size, "the number of values to plan for", f"The accuracy of this {what} depends on it."
        )
    return _checks.count("size", size)
