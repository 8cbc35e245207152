"""What a data holder may want to know about their own records before a fit, and nobody else may be told.

A fit reads every value by a rule (`reading`, `declared`) and says nothing about it: whether some row is too long, some
label undeclared or some value missing is exact information about single records. Whoever holds the records may look.

>>> import numpy as np
>>> from deniable.learning import LogisticRegression
>>> model = LogisticRegression(epsilon=1, data_norm=1.0, classes=[0, 1])
>>> print(disclose_data_problems(model, np.array([[0.5], [7.0], [np.nan]]), [0, 1, 2]))
PRIVATE: exact counts of private records, without noise. Do not publish, log or pass on.
rows                                                3
values that are no numbers                          1
rows longer than data_norm, which are shortened     1
labels that do not count (undeclared or no number)  1
labels beyond label_bounds, which are moved         0
weights that are changed                            0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.learning.declared import declared_categories, declared_classes
from deniable.learning.reading import numbers, read_columns, read_labels, read_rows

_LOUD = "PRIVATE: exact counts of private records, without noise. Do not publish, log or pass on."


@dataclass(frozen=True, repr=False)
class DataProblems:
    """Exact counts of private records. This is private data itself: it has no noise and no cost covers it."""

    rows: int
    values_not_numbers: int
    rows_shortened: int
    labels_not_counted: int
    labels_moved: int
    weights_changed: int

    def __str__(self) -> str:
        lines = {
            "rows": self.rows,
            "values that are no numbers": self.values_not_numbers,
            "rows longer than data_norm, which are shortened": self.rows_shortened,
            "labels that do not count (undeclared or no number)": self.labels_not_counted,
            "labels beyond label_bounds, which are moved": self.labels_moved,
            "weights that are changed": self.weights_changed,
        }
        width = max(map(len, lines))
        return "\n".join([_LOUD, *(f"{words.ljust(width)}  {count}" for words, count in lines.items())])

    __repr__ = __str__


def disclose_data_problems(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> DataProblems:
    """Count the records that a fit would change or leave out. **The result is private data.**

    For the data holder's own eyes, on data that they may see anyway. The counts are exact, have no noise, and no ledger
    is charged for them: publishing them, logging them or passing them on breaks the promise of every fit on these
    records. An analyst who works through a ledger must not be able to call this.

    Args:
        model: an estimator of this room with its declared bounds, or an encoder; it need not be fitted.
        X: the private table.
        y: the private labels, where the model has some.
        sample_weight: the private weights, if any.
    """
    columns = _columns(X)
    missing = sum(int(np.isnan(numbers(column)).sum()) for column in columns)
    count = len(columns[0])
    if hasattr(model, "categories"):
        known = declared_categories(model.categories, len(columns))
        missing = sum(int((values.codes(column) < 0).sum()) for values, column in zip(known, columns, strict=True))
    return DataProblems(
        rows=count,
        values_not_numbers=missing,
        rows_shortened=_long_rows(model, X),
        labels_not_counted=0 if y is None else int((~_labels(model, y, count)[0]).sum()),
        labels_moved=0 if y is None else int(_labels(model, y, count)[1].sum()),
        weights_changed=_weights_changed(sample_weight, count),
    )


def _columns(X: Any) -> list[Any]:
    return list(X.toarray().T) if hasattr(X, "tocsr") else read_columns(X, exact=True)


def _long_rows(model: Any, X: Any) -> int:
    norm = getattr(model, "data_norm", None)
    if norm is None:
        return 0
    rows = read_rows(None, X, reset=False, sparse=True, missing=np.nan)
    dense = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
    center = getattr(model, "center", None)
    away = np.nan_to_num(dense - (0.0 if center is None else np.asarray(center, dtype=np.float64)), nan=0.0)
    largest = np.maximum(np.abs(away).max(axis=1, initial=0.0), float(norm))
    return int((largest / float(norm) * np.linalg.norm(away / largest[:, None], axis=1) > 1 + 1e-9).sum())


def _labels(model: Any, y: Any, count: int) -> tuple[Any, Any]:
    """Which labels count, and which are moved."""
    labels, nobody = read_labels(y, count), np.zeros(count, dtype=bool)
    if getattr(model, "classes", None) is not None:
        return declared_classes(model.classes)[1].codes(labels) >= 0, nobody
    if getattr(model, "label_bounds", None) is not None:
        given = numbers(labels)
        low, high = model.label_bounds
        with np.errstate(invalid="ignore"):
            return ~np.isnan(given), (given < low) | (given > high)
    return ~nobody, nobody


def _weights_changed(weights: Any, count: int) -> int:
    if weights is None:
        return 0
    given = numbers(np.atleast_1d(weights) if np.isscalar(weights) else read_labels(weights, count))
    with np.errstate(invalid="ignore"):
        return int((~((given >= 0) & (given <= 1))).sum())
