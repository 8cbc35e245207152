"""The best banded strategy with columns of length 1.

With at most `separation` bands and columns of length 1, the columns of a pattern are orthogonal and sensitivity² is the
number of participations, whatever the entries: only the error is left to minimise. As a function of X = CᵀC (banded,
with ones on its diagonal) the mean error tr(AᵀA·X⁻¹)/T is convex, so there is one optimum (Choquette-Choo et al. 2023,
section 4); `proven_gap` bounds how far a strategy is from it. L-BFGS over the entries, with the O(T·b²) gradient of
`variance`. The largest error is minimised as a p-norm of the variances, in two stages.

*Where it starts.* (AᵀA)_ij = T − max(i, j) for prefix sums: counted from the last step, the problem does not depend on
T. Away from both ends the column with r steps left is that of the best Toeplitz strategy for the largest error of r
steps, up to O(1/r). So the start is made of these (`_by_steps_left`).

*Long runs* (prefix sums, mean error). What remains to be found lies near the ends, a few √T steps deep, and each end is
a short run of its own. The last P steps are a run of P steps. The first P are a run of P steps whose last model counts
T − P + 1 times, since that has the same (AᵀA)_ij. Both are solved, put together and improved as a whole: the iterations
that cost O(T·b²) are few.

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
from deniable.strategies.participation import Participation, once
from deniable.strategies.series import Array
from deniable.strategies.variance import Recursion
from deniable.strategies.workloads import PREFIX, Workload

ITERATIONS = 60
"""Each costs two evaluations at most; the error is then within 0.1 % of the optimum in every case tried."""

_LAST, _FIRST = 80, 320
"""Iterations for the two ends of a long run; the first is harder, as one of its models counts for thousands."""

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
    entries = _start(steps, kept, workload, long=error == "mean" and workload == PREFIX)
    if kept > 1:
        for power in _POWERS[error]:
            entries = _descended(entries, power, workload, iterations)
    return Banded(_signed(_normal(entries)[0]))


def _start(steps: int, bands: int, workload: Workload, *, long: bool) -> Array:
    """Entries to begin with: column by column, or for a long run from its two ends."""
    found = _by_steps_left(steps, bands, workload)
    end = 24 * math.isqrt(steps) + 2 * bands
    if not long or bands == 1 or steps < 2 * end:
        return found
    last = _signed(_descended(_by_steps_left(end, bands, workload), 1.0, workload, _LAST))
    counts = np.ones(end)
    counts[-1] = steps - end + 1
    first = _signed(_descended(_cut(found[:end]), 1.0, workload, _FIRST, counts))
    half = end // 2
    # Half of each part is near a cut of its own and is left out. The rest is O(1/r) from its optimum, as the last says.
    left = np.arange(steps, half, -1)[:, None]
    found[: steps - half] += (last[end - half] - found[steps - half]) * half / left
    found[steps - half :] = last[end - half :]
    found[:half] = first[:half]
    return _cut(found)


def _by_steps_left(steps: int, bands: int, workload: Workload) -> Array:
    """For each step the best Toeplitz coefficients for the largest error of the steps left, as columns of length 1."""
    from scipy.interpolate import CubicSpline

    if steps < 8:
        return _cut(np.ones((steps, bands)))
    left = np.unique(np.geomspace(1, steps, 2 * steps.bit_length()).round().astype(int))
    best = np.zeros((len(left), bands))
    for row, each in zip(best, left.tolist(), strict=True):
        found = optimal_toeplitz(once(each), bands=min(bands, each), error="max", workload=workload).coefficients
        row[: len(found)] = found / np.linalg.norm(found)
    return _cut(CubicSpline(np.log(left), best)(np.log(np.arange(steps, 0, -1))))


def _cut(entries: Array) -> Array:
    """Nothing below the last row, columns of length 1."""
    return _normal(np.where(_outside(entries.shape), 0.0, entries))[0]


def _outside(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """What would lie below the last row."""
    return np.add.outer(np.arange(shape[0]), np.arange(shape[1])) >= shape[0]


def _descended(entries: Array, power: float, workload: Workload, iterations: int, counts: Array | float = 1.0) -> Array:
    """Columns of length 1 after some iterations on ln ‖variances‖_power, each variance counted so many times."""
    from scipy.optimize import minimize

    recursion, outside = Recursion(workload), _outside(entries.shape)
    best = (math.inf, entries)  # a line search that gives up may end on a point worse than one before

    def measured(values: Array) -> tuple[float, Array]:
        table = values.reshape(entries.shape)
        columns, lengths = _normal(table)
        found = recursion.forward(by_rows(columns))
        if not np.all(np.isfinite(found)):
            return OUTSIDE, np.zeros(values.size)
        top = float(found.max())
        shares = counts * (found / top) ** power
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

    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-12}
    minimize(measured, entries.ravel(), jac=True, method="L-BFGS-B", options=options)
    return best[1]


def _normal(entries: Array) -> tuple[Array, Array]:
    """Columns of length 1, and the lengths they had."""
    lengths = np.linalg.norm(entries, axis=1, keepdims=True)
    return entries / lengths, lengths


def _signed(entries: Array) -> Array:
    """The same CᵀC with a positive diagonal: whole rows of C change their sign."""
    return by_columns(by_rows(entries) * np.sign(entries[:, :1]))
