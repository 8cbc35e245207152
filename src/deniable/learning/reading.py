"""scikit-learn's checks of a table, without the messages of it that repeat values.

>>> import numpy as np
>>> from deniable.learning import RangeScaler
>>> RangeScaler(bounds=(0, 1)).fit(np.array([0.25, 0.5]))
Traceback (most recent call last):
...
deniable.errors.InvalidArgument: X must be a table, with a row for each record; got X='a single column or row'. \
Reshape your data: X.reshape(-1, 1) is a table of one column.
"""

from __future__ import annotations

from typing import Any

from deniable.errors import DataError, InvalidArgument


def read(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """`validate_data`, where what is refused is not quoted."""
    from sklearn.utils.validation import validate_data

    try:
        return validate_data(estimator, X, y, **options)
    except ValueError as error:
        said = str(error)
        if "could not convert string" in said:
            raise DataError(
                "X holds text; encode it first, for example with deniable.learning.CategoryEncoder"
            ) from None
        if "Expected 2D array" in said:
            raise InvalidArgument(
                "X", "a single column or row", "a table, with a row for each record",
                "Reshape your data: X.reshape(-1, 1) is a table of one column.",
            ) from None  # fmt: skip
        raise
