"""A linear model is a formula of its records: whoever knows all but one label can solve for it.

Least squares gives w with XᵀXw = Xᵀy. The attacker knows the rows and all labels but one, and reads the last off.

>>> import numpy as np
>>> X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
>>> y = np.array([1.0, 3.0, 2.0, 7.5])
>>> w = np.linalg.lstsq(X, y, rcond=None)[0]
>>> round(recover_label(w, X, y[:3]), 6)
7.5
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deniable.errors import InvalidArgument


def recover_label(weights: Any, rows: Any, known_labels: Any, *, ridge: float = 0.0) -> float:
    """The label of the last row, from the weights of least squares (with `ridge`) and all the other labels."""
    X, w, known = (np.asarray(given, dtype=np.float64) for given in (rows, weights, known_labels))
    if known.size != len(X) - 1:
        raise InvalidArgument("known_labels", known.size, f"one fewer than the {len(X)} rows")
    moved = X.T @ (X @ w) + ridge * w - X[:-1].T @ known
    last = X[-1]
    return float(last @ moved / (last @ last))
