"""Values that were declared: classes of labels, categories of columns. They are never read from the data.

A record's value is matched by its meaning. Numbers are matched as numbers however they are written: `1`, `1.0`, `True`
and the text "1" or "01" are one value, because one word in a file's column makes text of everybody's numbers. Where two
declared values would then be the same ("1" and "01"), they are matched as text. What matches nothing, missing values
and values of any other type among it, is undeclared.

>>> cities = Declared("categories", ["Oslo", "Rome"])
>>> cities.codes(np.array(["Rome", None, "Bern", "Oslo"], dtype=object)).tolist()
[1, -1, -1, 0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable._checks import type_of
from deniable._values import exact, number
from deniable.errors import InvalidArgument

UNDECLARED = -1

_NOT_FINITE = frozenset(f"{sign}{word}" for sign in ("", "+", "-") for word in ("nan", "inf", "infinity"))


class Declared:
    """Declared values in their order, and which of them a record's value is.

    Args:
        name: the argument that declares them, for messages.
        values: numbers, booleans or text; all different.
    """

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        for value in values:
            if _meaning(value) is None:
                raise InvalidArgument(name, value, "finite numbers or text", "Missing values need no declaration.")
        self._key: Callable[[Any], Hashable | None] = _meaning
        if len({_meaning(value) for value in values}) < len(values):
            self._key = _spelling
        self._places = {self._key(value): place for place, value in enumerate(values)}
        if len(self._places) < len(values):
            raise InvalidArgument(name, list(values), "different values")

    def codes(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """The place of every value among the declared ones, `UNDECLARED` where it is none. It never raises."""
        if column.dtype.kind in "biufUS":
            distinct, inverse = np.unique(column, return_inverse=True)
            return self.codes(distinct.astype(object))[inverse.reshape(-1)]
        if column.dtype.kind not in "OcT":
            return np.full(len(column), UNDECLARED, dtype=np.int64)
        return np.fromiter(map(self._code, column.tolist()), np.int64, len(column))

    def _code(self, value: Any) -> int:
        key = self._key(value)
        return UNDECLARED if key is None else self._places.get(key, UNDECLARED)


def _meaning(value: Any) -> Hashable | None:
    """An exact number for what reads as one, else text; None for what is neither, or not finite."""
    try:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if isinstance(text, str) and text.strip().lstrip("+-").isdecimal():
            return int(text)  # a float would lose the last digits of a long code
        if math.isfinite(number(value)):
            return exact(value)
        return text if isinstance(text, str) and text.strip().lower() not in _NOT_FINITE else None
    except Exception:  # noqa: BLE001  a value's own code may raise anything, and no value may decide anything
        return None


def _spelling(value: Any) -> Hashable | None:
    """Text as it is written; a number as Python writes it."""
    meaning = _meaning(value)
    return None if meaning is None else str(value) if isinstance(value, str) else str(meaning)


def declared_classes(classes: Any) -> tuple[NDArray[Any], Declared]:
    """The declared classes, sorted, and how labels are matched to them: two or more, all different."""
    if classes is None or isinstance(classes, str | bytes | dict) or not hasattr(classes, "__iter__"):
        remedy = "List every label that may occur, for example classes=[0, 1]; the set found in the data would leak."
        raise InvalidArgument("classes", classes, "a list of labels", remedy)
    values = list(classes)
    if any(isinstance(value, list | tuple | dict | set | np.ndarray) for value in values):
        raise InvalidArgument("classes", classes, "a list of labels, each a number or text")
    Declared("classes", values)
    if len(values) < 2:
        raise InvalidArgument("classes", classes, "two or more different labels")
    if len({isinstance(value, str) for value in values}) == 1:
        ordered = np.unique(np.asarray(values))
    else:
        ordered = np.empty(len(values), dtype=object)
        ordered[:] = sorted(values, key=lambda v: (True, str(v)) if isinstance(v, str | bytes) else (False, v))
    return ordered, Declared("classes", ordered.tolist())


def declared_categories(categories: Any, columns: int) -> list[Declared]:
    """The declared categories of every column."""
    remedy = "The set of values found in the data would leak; take them from the code book."
    wanted = f"a list of {columns} lists, one per column"
    if not isinstance(categories, list | tuple | np.ndarray) or len(categories) != columns:
        shown = categories if isinstance(categories, list | tuple | str | None) else type_of(categories)
        raise InvalidArgument("categories", shown, wanted, remedy)
    if any(isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__") for values in categories):
        raise InvalidArgument("categories", categories, wanted, remedy)
    if any(not list(values) for values in categories):
        raise InvalidArgument("categories", categories, "different values in every column, one or more")
    return [Declared("categories", list(values)) for values in categories]
