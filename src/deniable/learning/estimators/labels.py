"""Declared classes: the labels that may occur are part of the mechanism and never read from the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import DataError, InvalidArgument

Array = NDArray[Any]


def declared(classes: Any) -> Array:
    """The declared classes, sorted; two or more, all different."""
    if classes is None or isinstance(classes, str):
        remedy = "List every label that may occur, for example classes=[0, 1]; the set found in the data would leak."
        raise InvalidArgument("classes", classes, "a list of labels", remedy)
    found = np.unique(np.asarray(list(classes)))
    if len(found) != len(list(classes)) or len(found) < 2:
        raise InvalidArgument("classes", classes, "two or more different labels")
    return found


def encoded(y: Any, classes: Array) -> NDArray[np.int64]:
    """The index of every label; a label that was not declared is refused without being named."""
    from sklearn.utils.multiclass import check_classification_targets

    check_classification_targets(y)
    given = np.asarray(y)
    try:
        index = np.clip(np.searchsorted(classes, given), 0, len(classes) - 1)
        known = classes[index] == given
    except TypeError:
        known = np.zeros(given.shape, dtype=bool)
    if not np.all(known):
        raise DataError(
            "y holds a label that is not in `classes`; declare every label that may occur, or drop such rows"
        )
    return np.asarray(index, dtype=np.int64)
