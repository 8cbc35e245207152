"""No privacy at all: the minimiser itself, for epsilon = inf. It has no event, so no ledger takes it."""

from __future__ import annotations

import numpy as np

from deniable.learning.losses.base import LinearLoss, PointLoss
from deniable.learning.optimizers.base import Array, Data
from deniable.learning.table import ONE

_LEAST = 1e-6


def minimiser(data: Data, loss: LinearLoss | PointLoss, *, strength: float) -> Array:
    """The minimiser of Σ loss + (strength/2)|θ|², as well as floating point finds it."""
    from scipy.optimize import minimize

    held = max(strength, _LEAST)
    outputs = loss.outputs if isinstance(loss, LinearLoss) else 1
    shape = (data.table.columns,) if outputs == 1 else (data.table.columns, outputs)
    rows = data.table.rows * (1.0 / ONE) if isinstance(loss, LinearLoss) else data.table.points()

    def both(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(shape)
        if isinstance(loss, LinearLoss):
            margins = rows @ theta
            values, residuals = loss.values(margins, data.labels), loss.residuals(margins, data.labels)
            slope = np.asarray(rows.T @ data.weighted(residuals))
        else:
            values = loss.values(theta, rows)
            slope = data.weighted(loss.gradients(theta, rows)).sum(axis=0)
        value = float(np.sum(data.weighted(values))) + held * float(flat @ flat) / 2
        return value, (slope + held * theta).reshape(-1)

    found = minimize(both, np.zeros(int(np.prod(shape))), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    return np.asarray(found.x).reshape(shape)
