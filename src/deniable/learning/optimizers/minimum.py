"""Minimisers with a certificate: a point where the gradient is provably short.

Methods that add noise to a minimiser are proved for the exact one. For a λ-strongly convex sum, a point with |∇J| ≤ τ
is within τ/λ of it, so what matters is a bound on the gradient that holds in real arithmetic. It is measured in
floating point, in blocks, and enlarged by a bound on the error of such sums in any order within a block (Higham 2002,
eq. 3.5).

Newton's method is used up to a few thousand parameters, L-BFGS beyond; which one does not matter for the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import NotSupported
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Data
from deniable.learning.table import ONE

Array = NDArray[Any]

_NEWTON = 1500
_ROUNDS = 100
_BLOCK = 1 << 8


def rounding(size: int, *, columns: int, outputs: int, length: float, smoothness: float) -> float:
    """What floating point may add to the norm of a gradient that sums `size` rows of norm at most 1 in blocks.

    Sums: (block + number of blocks) roundings of terms whose norms add up to at most 2·size (residuals are at most √2).
    Margins: |θ|·columns roundings each, which move a residual by β times that. Residuals: 64 roundings each.
    """
    terms = 2.0 * size * (_BLOCK + size // _BLOCK + 65)
    margins = size * min(smoothness, 1e6) * (columns + 2) * length
    return float((terms + margins) * outputs * 2.0**-52)


def placed_on(theta: Array, step: float) -> NDArray[np.int64]:
    """θ in whole steps; values beyond 2⁶⁰ steps are moved to there, which brings neighbours no further apart."""
    return np.rint(np.clip(theta / step, -(2.0**60), 2.0**60)).astype(np.int64)


def minimise(
    data: Data, loss: LinearLoss, *, strength: float, slope: Array, tolerance: float, start: Array | None = None
) -> Array:
    """θ with |∇(Σ loss + (strength/2)|θ|² + ⟨slope, θ⟩)| ≤ tolerance, certified; or an error and no output."""
    rows = data.table.rows * (1.0 / ONE)
    theta = np.zeros(slope.shape) if start is None else start

    def gradient(at: Array) -> Array:
        residuals = data.weighted(loss.residuals(rows @ at, data.labels))
        return np.asarray(rows.T @ residuals) + strength * at + slope

    def value(at: Array) -> float:
        values = data.weighted(loss.values(rows @ at, data.labels))
        return float(values.sum() + 0.5 * strength * np.sum(at * at) + np.sum(slope * at))

    def certified(at: Array) -> bool:
        residuals = data.weighted(loss.residuals(rows @ at, data.labels))
        total = strength * at + slope
        for first in range(0, data.table.count, _BLOCK):
            part = slice(first, first + _BLOCK)
            total = total + np.asarray(rows[part].T @ residuals[part])
        length = float(np.linalg.norm(at))
        error = rounding(
            data.table.count,
            columns=data.table.columns,
            outputs=loss.outputs,
            length=length,
            smoothness=loss.smoothness,
        )
        return float(np.linalg.norm(total)) * (1 + 1e-9) + error <= tolerance

    wanted = tolerance / 2
    if loss.outputs == 1 and loss.smooth and theta.size <= _NEWTON:
        theta = _newton(rows, data, loss, theta, strength, gradient, value, wanted)
    else:
        theta = _quasi_newton(theta, gradient, value, wanted)
    if not certified(theta):
        raise NotSupported(
            "the minimiser was not found to the tolerance on which the privacy proof rests, so nothing was released. "
            "Take a larger regularization, or solver='gradient_descent', which needs no minimiser."
        )
    return theta


def _newton(
    rows: Any, data: Data, loss: LinearLoss, theta: Array, strength: float,
    gradient: Callable[[Array], Array], value: Callable[[Array], float], wanted: float,
) -> Array:  # fmt: skip
    """Damped Newton steps; near the end the full step is taken whatever the value's rounding says."""
    best = gradient(theta)
    for _ in range(_ROUNDS):
        length = float(np.linalg.norm(best))
        if length <= wanted / 4:
            break
        bends = data.weighted(loss.curvatures(rows @ theta, data.labels))
        weighted = rows * bends[:, None] if isinstance(rows, np.ndarray) else rows.multiply(bends[:, None]).tocsr()
        hessian = rows.T @ weighted
        hessian = hessian if isinstance(hessian, np.ndarray) else hessian.toarray()
        step = np.linalg.solve(hessian + strength * np.eye(theta.size), best)
        scale, here, steep = 1.0, value(theta), float(best @ step)
        while scale > 1e-6 and value(theta - scale * step) > here - 1e-4 * scale * steep + 1e-12 * abs(here):
            scale /= 2
        moved = theta - scale * step
        found = gradient(moved)
        if float(np.linalg.norm(found)) >= length and length <= 1e3 * wanted:
            break
        theta, best = moved, found
    return theta


def _quasi_newton(
    theta: Array, gradient: Callable[[Array], Array], value: Callable[[Array], float], wanted: float
) -> Array:
    from scipy.optimize import minimize

    shape = theta.shape
    for _ in range(5):
        done = minimize(
            lambda flat: value(flat.reshape(shape)), theta.reshape(-1),
            jac=lambda flat: gradient(flat.reshape(shape)).reshape(-1), method="L-BFGS-B",
            options={"maxiter": 5000, "gtol": wanted / 10, "ftol": 0.0, "maxcor": 20, "maxls": 50},
        )  # fmt: skip
        theta = np.asarray(done.x).reshape(shape)
        if float(np.linalg.norm(gradient(theta))) <= wanted:
            break
    return theta
