"""What may be done to a release for free: anything that looks at no data. These make releases tidy, and usually more
accurate.

>>> nonnegative([3, -2, 5]).tolist()
[3, 0, 5]
>>> simplex([0.7, 0.5, -0.1]).round(3).tolist()
[0.6, 0.4, 0.0]
>>> consistent([10.0, 4.0, 3.0], queries=[[1, 1], [1, 0], [0, 1]]).round(3).tolist()     # a total and its two parts
[9.0, 5.0, 4.0]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument


def nonnegative(values: ArrayLike) -> NDArray[Any]:
    """Negative values as 0. Never further from nonnegative truths; but sums of many are pushed up, so sum first."""
    found = np.asarray(values)
    return np.asarray(np.maximum(found, np.zeros((), dtype=found.dtype)))


def simplex(values: ArrayLike, *, total: Number = 1) -> NDArray[np.float64]:
    """The nearest values that are nonnegative and add up to `total`: the Euclidean projection."""
    given = np.asarray(values, dtype=np.float64)
    wanted = float(_checks.positive("total", total))
    if given.ndim != 1 or not given.size or not np.isfinite(given).all():
        raise InvalidArgument("values", f"an array of shape {given.shape}", "a vector of finite numbers")
    ordered = np.sort(given)[::-1]
    excess = np.cumsum(ordered) - wanted
    kept = np.flatnonzero(ordered * np.arange(1, given.size + 1) > excess)[-1]
    return np.asarray(np.maximum(given - excess[kept] / (kept + 1), 0.0))


def consistent(answers: ArrayLike, *, queries: ArrayLike, variances: ArrayLike | None = None) -> NDArray[np.float64]:
    """The nearest answers that some data could have: least squares over the cells, A·argmin ‖A·x − answers‖.

    `queries` is the matrix A from cells to answers, `variances` that of each answer's noise (equal if left out).
    Marginals, totals with their parts and trees of sums become consistent this way (Hay et al. 2010).
    """
    noisy = np.asarray(answers, dtype=np.float64)
    matrix = np.asarray(queries, dtype=np.float64)
    if noisy.ndim != 1 or matrix.ndim != 2 or len(matrix) != len(noisy):
        raise InvalidArgument(
            "queries", f"a matrix of shape {matrix.shape}", f"a matrix with {noisy.size} rows, one per answer"
        )
    spread = np.ones_like(noisy) if variances is None else np.asarray(variances, dtype=np.float64)
    if spread.shape != noisy.shape or not (spread > 0).all():
        raise InvalidArgument("variances", f"an array of shape {spread.shape}", "one positive number per answer")
    root = 1 / np.sqrt(spread)
    cells = np.linalg.lstsq(matrix * root[:, None], noisy * root, rcond=None)[0]
    return np.asarray(matrix @ cells)
