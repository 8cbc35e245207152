"""No privacy at all: the minimiser itself, for epsilon = inf. It has no event, so no ledger takes it."""

from __future__ import annotations

import numpy as np

from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Array, Data

_LEAST = 1e-6


def minimiser(data: Data, loss: LinearLoss, *, shape: tuple[int, ...], strength: float) -> Array:
    """The minimiser of Σ loss + (strength/2)|θ|², as well as floating point finds it."""
    from scipy.optimize import minimize

    from deniable.learning.table import ONE

    rows = data.table.rows * (1.0 / ONE)
    held = max(strength, _LEAST)

    def both(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(shape)
        margins = rows @ theta
        residuals = data.weighted(loss.residuals(margins, data.labels))
        value = float(np.sum(data.weighted(loss.values(margins, data.labels)))) + held * float(flat @ flat) / 2
        return value, (np.asarray(rows.T @ residuals) + held * theta).reshape(-1)

    found = minimize(both, np.zeros(int(np.prod(shape))), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    return np.asarray(found.x).reshape(shape)
