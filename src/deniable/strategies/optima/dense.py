"""The best strategy of all, and a lower bound that no strategy beats, for runs of up to a few thousand steps.

With M = AᵀA, the mean error of C depends on X = CᵀC alone: tr(M·X⁻¹)/T, convex in X (Denisov et al. 2022, section 3).

*One participation*: X has ones on its diagonal. For v > 0 with Σv = 1 and D = diag(v), Cauchy–Schwarz gives

    tr(M·X⁻¹)·1 = tr(M·X⁻¹)·tr(D·X) ≥ ‖A·D^½‖_*²   (the nuclear norm, squared),

a lower bound for every X, which `lower_bound` evaluates. Equality holds at X = D^−½(D^½·M·D^½)^½D^−½; the fixed point
v ∝ diag((D^½·M·D^½)^½) makes that diagonal 1 and both sides meet.

*A fixed order*: one unit's columns are p, p + b, …; X is 0 between them, so that they are orthogonal and sensitivity² =
times (Choquette-Choo et al. 2023, "Multi-epoch matrix factorization", section 4). L-BFGS over the other entries.

>>> from deniable.strategies import once
>>> best = optimal_dense(once(16))
>>> bound = lower_bound(16)
>>> bool(bound <= best.rmse(once(16)) <= bound * 1.0001)
True
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable._checks import count
from deniable.errors import NotSupported
from deniable.strategies.banded import Dense
from deniable.strategies.optima.toeplitz import OUTSIDE
from deniable.strategies.sensitivity import Participation
from deniable.strategies.series import Array
from deniable.strategies.workloads import PREFIX, Workload

LARGEST = 4096
_ROUNDS = 60
_ITERATIONS = 300


def optimal_dense(participation: Participation, *, workload: Workload = PREFIX) -> Dense:
    """The strategy with the least mean error.

    Args:
        participation: `once` or `ordered`.
        workload: what the noisy sums are used for; prefix sums if left out.
    """
    from scipy.linalg import cholesky

    steps = participation.steps
    if steps > LARGEST:
        raise NotSupported(f"dense factors are found for at most {LARGEST} steps; use optimal_toeplitz or buffers.")
    if participation.times > 1 and not participation.ordered:
        raise NotSupported("dense factors are found for one participation or a fixed order; use optimal_banded.")
    square = _square(steps, workload)
    _, gram = _fixed_point(square)
    if participation.times > 1:
        phase = np.arange(steps) % participation.separation
        gram = _descend(gram, square, (phase[:, None] == phase) & ~np.eye(steps, dtype=bool))
    # X = CᵀC with C lower-triangular: Cholesky of X turned upside down.
    return Dense(np.tril(cholesky(gram[::-1, ::-1], lower=True).T[::-1, ::-1]))


def lower_bound(steps: int, *, workload: Workload = PREFIX) -> float:
    """A number that no strategy's `rmse` under `once(steps)` is below.

    Args:
        steps: the steps of the run.
        workload: what the noisy sums are used for; prefix sums if left out.
    """
    from scipy.linalg import toeplitz

    size = count("steps", steps)
    weights, _ = _fixed_point(_square(size, workload))
    map_ = toeplitz(workload.coefficients(size), np.zeros(size))
    nuclear = float(np.linalg.svd(map_ * np.sqrt(weights / weights.sum()), compute_uv=False).sum())
    return nuclear / math.sqrt(size) * (1 - 1e-10)


def _square(steps: int, workload: Workload) -> Array:
    from scipy.linalg import toeplitz

    map_ = toeplitz(workload.coefficients(steps), np.zeros(steps))
    return np.asarray(map_.T @ map_)


def _fixed_point(square: Array) -> tuple[Array, Array]:
    """v and X at the fixed point, X scaled to ones on its diagonal."""
    from scipy.linalg import eigh

    weights = np.ones(len(square)) / len(square)
    root = square
    for _ in range(_ROUNDS):
        half = np.sqrt(weights)
        values, vectors = eigh(half[:, None] * square * half)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        updated_weights = np.diag(root) / np.trace(root)
        done = float(np.max(np.abs(updated_weights / weights - 1))) < 1e-9
        weights = updated_weights
        if done:
            break
    outer = 1 / np.sqrt(np.diag(root))
    return weights, outer[:, None] * root * outer


def _descend(start: Array, square: Array, empty: NDArray[np.bool_]) -> Array:
    """Minimise the error by L-BFGS over the entries below the diagonal that `empty` does not force to 0."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import minimize

    free = np.tril(~empty, -1)
    initial = np.where(empty, 0.0, start)
    while np.linalg.eigvalsh(initial)[0] <= 1e-6:
        initial = 0.5 * (initial + np.eye(len(initial)))

    def objective(values: Array) -> tuple[float, Array]:
        whole = np.eye(len(square))
        whole[free] = values
        whole.T[free] = values
        try:
            factor = cholesky(whole, lower=True)
        except np.linalg.LinAlgError:
            return OUTSIDE, np.zeros(values.size)
        inner = solve_triangular(factor, np.eye(len(square)), lower=True)
        inverse = inner.T @ inner
        product = inverse @ square
        value = float(np.trace(product))
        return math.log(value), -2 * (product @ inverse)[free] / value

    options = {"maxiter": _ITERATIONS, "maxcor": 20, "ftol": 1e-12}
    values = minimize(objective, initial[free], jac=True, method="L-BFGS-B", options=options).x
    whole = np.eye(len(square))
    whole[free] = values
    whole.T[free] = values
    return whole
