"""Minimisers with a certificate: a point where the gradient is provably short.

Methods that add noise to a minimiser are proved for the exact one. For a λ-strongly convex sum, a point with |∇J| ≤ τ
is within τ/λ of it, so what matters is a bound on the gradient that holds in real arithmetic. It is measured in
floating point, in blocks, and enlarged by a bound on the error of such sums in any order within a block (Higham 2002,
eq. 3.5). The loss must be smooth.

Newton's method is used up to a few thousand parameters, L-BFGS beyond; which one does not matter for the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import NotSupported
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Data, Task
from deniable.learning.table import ONE

Array = NDArray[Any]

_NEWTON = 1500
_ROUNDS = 100
_BLOCK = 1 << 8


def rounding(
    size: int, loss: LinearLoss, *, columns: int, length: float, pull: float
) -> float:  # fmt: skip
    """What floating point may add to the norm of a gradient that sums `size` rows of norm at most 1 in blocks.

    Terms: |row|·|residual| ≤ L each, added up within a block, then block by block. Residuals: 64 roundings each, and
    one for every output. Margins: columns + 2 roundings of |θ|, which move a residual by β times that. `pull` is the
    length of what is added besides, λθ and the slope. Twice all of that.
    """
    blocks = size // _BLOCK + 1
    terms = loss.lipschitz * size * (_BLOCK + blocks + 64 + loss.outputs)
    margins = loss.smoothness * size * (columns + 2) * length
    return float((terms + margins + pull * (blocks + 4)) * 2.0**-52)


def reachable(task: Task, *, slope: float = 0.0) -> float:
    """A tolerance that rounding does not keep out of reach: for twice as many records as are publicly known.

    Were it fixed once for all, whether a minimiser is certified would hang on the exact number of records. At the
    minimum |λθ| ≤ nL + |slope|.
    """
    size, loss = 2 * task.size + 1000, task.linear
    pull = 2 * (size * loss.lipschitz + slope)
    return 8 * rounding(size, loss, columns=task.columns, length=10 * max(1.0, task.reach), pull=pull)


_FURTHEST = 2.0**52


def placed_on(theta: Array, step: float) -> NDArray[np.int64]:
    """θ in whole steps; values beyond 2⁵² steps are moved to there, which brings neighbours no further apart.

    The quotient is off by at most half a step and the rounding by another half: two points come to lie at most 2√d
    steps further apart than they were (`placing`).
    """
    return np.rint(np.clip(theta / step, -_FURTHEST, _FURTHEST)).astype(np.int64)


def placing(parameters: int) -> int:
    """How many steps `placed_on` may add to a distance: 2√d, rounded up."""
    return math.isqrt(4 * parameters - 1) + 1


def minimise(
    data: Data,
    loss: LinearLoss,
    *,
    strength: float,
    tolerance: float,
    slope: Array | None = None,
    origin: Array | None = None,
) -> Array:
    """z with |∇(Σ loss(origin + z) + (strength/2)|z|² + ⟨slope, z⟩)| ≤ tolerance, certified; or an error and no output.

    The slope is meant as it was before it was rounded to float64 once.
    """
    rows = data.table.rows * (1.0 / ONE)
    shape = (data.table.columns,) if loss.outputs == 1 else (data.table.columns, loss.outputs)
    start = np.zeros(shape)
    fixed = start if slope is None else slope
    base = start if origin is None else origin

    def gradient(at: Array) -> Array:
        residuals = data.weighted(loss.residuals(rows @ (base + at), data.labels))
        return np.asarray(rows.T @ residuals) + strength * at + fixed

    def value(at: Array) -> float:
        values = data.weighted(loss.values(rows @ (base + at), data.labels))
        return float(values.sum() + 0.5 * strength * np.sum(at * at) + np.sum(fixed * at))

    def certified(at: Array) -> bool:
        residuals = data.weighted(loss.residuals(rows @ (base + at), data.labels))
        total = strength * at + fixed
        for first in range(0, data.table.count, _BLOCK):
            part = slice(first, first + _BLOCK)
            total = total + np.asarray(rows[part].T @ residuals[part])
        error = rounding(
            data.table.count,
            loss,
            columns=data.table.columns,
            length=float(np.linalg.norm(base) + np.linalg.norm(at)),
            pull=strength * float(np.linalg.norm(at)) + float(np.linalg.norm(fixed)),
        )
        return float(np.linalg.norm(total)) * (1 + 1e-9) + error <= tolerance

    wanted = tolerance / 2
    if loss.outputs == 1 and start.size <= _NEWTON:
        found = _newton(rows, data, loss, base, strength, gradient, value, wanted)
    else:
        found = _quasi_newton(start, gradient, value, wanted)
    if not certified(found):
        raise NotSupported(
            "the minimiser was not found to the tolerance on which the privacy proof rests, so nothing was released. "
            "Take a larger regularization, or solver='gradient_descent', which needs no minimiser."
        )
    return found


def _newton(
    rows: Any, data: Data, loss: LinearLoss, base: Array, strength: float,
    gradient: Callable[[Array], Array], value: Callable[[Array], float], wanted: float,
) -> Array:  # fmt: skip
    """Damped Newton steps; near the end the full step is taken whatever the value's rounding says."""
    theta = np.zeros(base.shape)
    best = gradient(theta)
    for _ in range(_ROUNDS):
        length = float(np.linalg.norm(best))
        if length <= wanted / 4:
            break
        bends = data.weighted(loss.curvatures(rows @ (base + theta), data.labels))
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
