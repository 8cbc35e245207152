"""The best banded strategy with columns of length 1.

With at most `separation` bands and columns of length 1, the columns of a pattern are orthogonal and sensitivity² is the
number of participations, whatever the entries: only the error is left to minimise. As a function of X = CᵀC (banded,
with ones on its diagonal) the mean error tr(AᵀA·X⁻¹)/T is convex, so there is one optimum (Choquette-Choo et al. 2023,
section 4; `lower_bound` certifies how near it is). L-BFGS over the entries, from the best Toeplitz strategy, with the
O(T·b²) gradient of `variance`. The largest error is minimised as a p-norm of the variances, in two stages.

>>> from deniable.strategies import once
>>> optimal_banded(once(32), bands=4)
Banded(steps=32, bands=4)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.strategies.banded import Banded, by_columns, by_rows
from deniable.strategies.optima.toeplitz import OUTSIDE, optimal_toeplitz
from deniable.strategies.participation import Participation
from deniable.strategies.series import Array
from deniable.strategies.variance import Recursion
from deniable.strategies.workloads import PREFIX, Workload

ITERATIONS = 60
"""Each costs two evaluations at most; the error is then within 0.1 % of the optimum in every case tried."""

_POWERS = {"mean": (1.0,), "max": (1.0, 16.0, 128.0)}


def optimal_banded(
    participation: Participation,
    *,
    bands: int,
    error: str = "mean",
    workload: Workload = PREFIX,
    iterations: int = ITERATIONS,
) -> Banded:
    """The banded strategy with columns of length 1 and the least mean or largest error."""
    if error not in _POWERS:
        raise InvalidArgument("error", error, "'mean' or 'max'")
    steps, kept = participation.steps, min(_checks.count("bands", bands), participation.steps)
    if participation.times > 1 and kept > participation.separation:
        raise InvalidArgument(
            "bands", bands, f"at most the separation of {participation.separation} steps",
            "Then the columns of one unit are orthogonal. optimal_toeplitz has no such limit.",
        )  # fmt: skip
    first = optimal_toeplitz(participation, bands=kept, error=error, workload=workload)
    outside = np.add.outer(np.arange(steps), np.arange(kept)) >= steps
    entries = np.tile(first.coefficients, (steps, 1))
    entries[outside] = 0.0
    if kept > 1:
        for power in _POWERS[error]:
            entries = _descended(entries, outside, power, workload, iterations)
    return Banded(_signed(_normal(entries)[0]))


def _descended(entries: Array, outside: NDArray[np.bool_], power: float, workload: Workload, iterations: int) -> Array:
    """Entries after some iterations on ln ‖variances‖_power."""
    from scipy.optimize import minimize

    recursion = Recursion(workload)
    best = (math.inf, entries)  # a line search that gives up may end on a point worse than one before

    def measured(values: Array) -> tuple[float, Array]:
        table = values.reshape(entries.shape)
        columns, lengths = _normal(table)
        found = recursion.forward(by_rows(columns))
        if not np.all(np.isfinite(found)):
            return OUTSIDE, np.zeros(values.size)
        top = float(found.max())
        shares = (found / top) ** power
        weights = shares / found / shares.sum()  # the gradient of ln ‖·‖_p
        slope = by_columns(recursion.backward(weights))
        slope[outside] = 0.0
        along = (slope * columns).sum(axis=1, keepdims=True)
        slope = (slope - along * columns) / lengths
        value = math.log(top) + math.log(float(shares.sum())) / power
        nonlocal best
        if value < best[0]:
            best = value, columns
        return value, slope.ravel()

    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-9}
    minimize(measured, entries.ravel(), jac=True, method="L-BFGS-B", options=options)
    return best[1]


def _normal(entries: Array) -> tuple[Array, Array]:
    """Columns of length 1, and the lengths they had."""
    lengths = np.linalg.norm(entries, axis=1, keepdims=True)
    return entries / lengths, lengths


def _signed(entries: Array) -> Array:
    """The same CᵀC with a positive diagonal: whole rows of C change their sign."""
    return by_columns(by_rows(entries) * np.sign(entries[:, :1]))
