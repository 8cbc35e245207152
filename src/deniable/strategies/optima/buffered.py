"""The best decays and weights of a few buffers.

The loss is that of Toeplitz coefficients; they are functions of decays θ = exp(−e^r) and weights ω = e^s, and L-BFGS
runs over (r, s). The start is a quadrature: c_k ≈ 1/√(πk) = (1/π)∫ e^{−kx} x^{−1/2} dx, on a geometric grid of x from
1/T to 1. (The published optimiser descends through a differentiable inverse of the buffers instead; Dvijotham et al.
2024.)

>>> from deniable.strategies import once
>>> optimal_buffered(once(1000), buffers=2, error="max")
Buffered(steps=1000, buffers=2)
"""

from __future__ import annotations

import math

import numpy as np

from deniable import _checks
from deniable.strategies.buffered import Buffered, coefficients_of
from deniable.strategies.optima.toeplitz import ITERATIONS, Loss
from deniable.strategies.participation import Participation
from deniable.strategies.series import Array
from deniable.strategies.workloads import PREFIX, Workload

_LONGEST = math.log(1e-9)
"""A buffer that forgets more slowly than this is the same as one that never does."""


def optimal_buffered(
    participation: Participation, *, buffers: int = 4, error: str = "mean", workload: Workload = PREFIX
) -> Buffered:
    """The buffered strategy with the least mean or largest error; the best of a few starts."""
    from scipy.optimize import minimize

    count, steps = _checks.count("buffers", buffers), participation.steps
    loss = Loss(participation, error=error, workload=workload)
    powers = np.arange(steps - 1)[:, None]

    def measured(values: Array) -> tuple[float, Array]:
        decays, weights = _unpacked(values)
        each = decays**powers
        value, slope = loss(coefficients_of(decays, weights, steps))
        by_weight = slope[1:] @ each
        by_decay = weights * ((slope[1:, None] * powers * each).sum(axis=0) / decays)
        return value, np.concatenate([by_decay * decays * np.log(decays), by_weight * weights])

    bounds = [(_LONGEST, 3.0)] * count + [(-30.0, 0.0)] * count
    best = min(
        (
            minimize(measured, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ITERATIONS})
            for start in _starts(count, steps)
        ),
        key=lambda result: float(result.fun),
    )
    decays, weights = _unpacked(best.x)
    order = np.argsort(-decays)
    return Buffered(decays=decays[order], weights=weights[order], steps=steps)


def _unpacked(values: Array) -> tuple[Array, Array]:
    rates, sizes = np.split(values, 2)
    return np.exp(-np.exp(rates)), np.exp(sizes)


def _starts(count: int, steps: int) -> list[Array]:
    """Geometric grids of rates, from a few lowest to a few highest ones."""
    found = []
    for top in (0.3, 0.03):
        low = math.log(1.0 / max(steps, 2))
        rates = np.linspace(low, max(math.log(top), low + 1.0), count) if count > 1 else np.array([low + 1.0])
        step = (rates[-1] - rates[0]) / (count - 1) if count > 1 else 2.0
        found.append(np.concatenate([rates, 0.5 * rates + math.log(min(step, 2.0) / math.pi)]))
    return found
