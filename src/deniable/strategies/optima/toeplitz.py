"""The best Toeplitz coefficients, and the best decays and weights of a few buffers.

**Coefficients.** The loss is sensitivity² × error, a smooth function of the coefficients. With series c of C and a/c of
A·C⁻¹ = B,

    error = Σ_j W_j b_j²,   W_j = 1 − j/T for the mean over all models, 1 for the last (which is the worst),
    sensitivity² = |Σ_m c shifted by m·separation|²   (the earliest pattern; exact for falling coefficients),

and d b = −(b/c)·dc. L-BFGS minimises the logarithm of the loss, from the coefficients of the square root.
`Strategy.sensitivity` then measures the result; its bound holds for any coefficients, so the optimiser can only cost
accuracy.

>>> from deniable.strategies import once
>>> optimal_toeplitz(once(64), bands=4)
Toeplitz(steps=64, bands=4)

**Buffers.** The loss is that of Toeplitz coefficients, which are functions of decays θ = exp(−e^r) and weights ω = e^s.
L-BFGS runs over (r, s). The start is a quadrature: c_k ≈ 1/√(πk) = (1/π)∫ e^{−kx} x^{−1/2} dx, on a geometric grid of x
from 1/T to 1. (The published optimiser descends through a differentiable inverse of the buffers instead; Dvijotham et
al. 2024.)

>>> from deniable.strategies import once
>>> optimal_buffered(once(1000), buffers=2, error="max")
Buffered(steps=1000, buffers=2)
"""

from __future__ import annotations

import math

import numpy as np

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.strategies import series
from deniable.strategies.buffered import Buffered, coefficients_of
from deniable.strategies.sensitivity import Participation, is_falling
from deniable.strategies.series import Array
from deniable.strategies.toeplitz import Toeplitz
from deniable.strategies.workloads import PREFIX, Workload

ITERATIONS = 500

_UNIT = 0.05
"""The unit of a coefficient. The first step of L-BFGS is one unit long. A step of 1 would leave the region where C⁻¹
does not grow, and the search would stop where it began."""

OUTSIDE = 1e3
"""Stands for ln(∞), where an error is too large for a double. A line search can interpolate away from it."""


def optimal_toeplitz(
    participation: Participation, *, bands: int | None = None, error: str = "mean", workload: Workload = PREFIX
) -> Toeplitz:
    """The Toeplitz strategy with the least error.

    Args:
        participation: in which of the steps one unit may take part.
        bands: the most diagonals of C; all if left out.
        error: "mean" minimises the mean error of all models, "max" the largest.
        workload: what the noisy sums are used for; prefix sums if left out.
    """
    from scipy.optimize import minimize

    steps = participation.steps
    width = steps if bands is None else min(_checks.count("bands", bands), steps)
    loss = SeriesLoss(participation, error=error, workload=workload)

    def tail(values: Array) -> tuple[float, Array]:
        value, slope = loss(np.concatenate([[1.0], values * _UNIT]))
        return value, slope[1:] * _UNIT

    def drops(values: Array) -> tuple[float, Array]:
        value, slope = tail(np.cumsum(values[::-1])[::-1])
        return value, np.cumsum(slope)

    coefficients = series.square_root(width)
    if width > 1:
        options = {"maxiter": ITERATIONS, "maxcor": 20}
        best = minimize(tail, coefficients[1:] / _UNIT, jac=True, method="L-BFGS-B", options=options).x
        if participation.times > 1 and width > participation.separation and not is_falling(np.append(1.0, best)):
            # The pattern is the worst one for falling coefficients only: stay among them, c_k = Σ_{j≥k} d_j with d ≥ 0.
            limits, start = [(0, None)] * (width - 1), -np.diff(coefficients[1:], append=0.0) / _UNIT
            best = minimize(drops, start, jac=True, method="L-BFGS-B", bounds=limits, options=options).x
            best = np.cumsum(best[::-1])[::-1]
        coefficients = np.append(1.0, best * _UNIT)
    return Toeplitz(coefficients, steps)


class SeriesLoss:
    """ln(sensitivity² × error) of a series, and its gradient."""

    def __init__(self, participation: Participation, *, error: str, workload: Workload) -> None:
        if error not in ("mean", "max"):
            raise InvalidArgument("error", error, "'mean' or 'max'")
        self._steps, self._lag = participation.steps, workload.inverse
        self._shifts = [m * participation.separation for m in range(participation.times)]
        indices = np.arange(self._steps)
        self._weights = 1.0 - indices / self._steps if error == "mean" else np.ones(self._steps)

    def __call__(self, coefficients: Array) -> tuple[float, Array]:
        with np.errstate(over="ignore", invalid="ignore"):  # a long step of a line search may overflow
            value, slope = self._evaluate(coefficients)
        return (value, slope) if np.all(np.isfinite(slope)) else (OUTSIDE, np.zeros(len(coefficients)))

    def _evaluate(self, coefficients: Array) -> tuple[float, Array]:
        steps, width = self._steps, len(coefficients)
        noise = series.inverse(np.convolve(coefficients, self._lag), steps)
        # b/c = a/c², with 1/c = b/a = b·A⁻¹.
        slope = series.product(noise, np.convolve(noise, self._lag)[:steps], steps)
        error = float(self._weights @ noise**2)
        falls = -2.0 * series.correlation(self._weights * noise, slope, width) / error
        total = np.zeros(steps)
        for shift in self._shifts:
            total[shift : shift + width] += coefficients[: steps - shift]
        square = float(total @ total)
        rises = np.zeros(width)
        for shift in self._shifts:
            part = total[shift : shift + width]
            rises[: len(part)] += part
        return float(np.log(error) + np.log(square)), falls + 2.0 * rises / square


_LONGEST = math.log(1e-9)
"""A buffer that forgets more slowly than this is the same as one that never does."""


def optimal_buffered(
    participation: Participation, *, buffers: int = 4, error: str = "mean", workload: Workload = PREFIX
) -> Buffered:
    """The buffered strategy with the least error, the best of a few starts.

    Args:
        participation: in which of the steps one unit may take part.
        buffers: how many buffers a stream keeps.
        error: "mean" minimises the mean error of all models, "max" the largest.
        workload: what the noisy sums are used for; prefix sums if left out.
    """
    from scipy.optimize import minimize

    count, steps = _checks.count("buffers", buffers), participation.steps
    loss = SeriesLoss(participation, error=error, workload=workload)
    powers = np.arange(steps - 1)[:, None]

    def objective(values: Array) -> tuple[float, Array]:
        decays, weights = _split(values)
        each = decays**powers
        value, slope = loss(coefficients_of(decays, weights, steps))
        by_weight = slope[1:] @ each
        by_decay = weights * ((slope[1:, None] * powers * each).sum(axis=0) / decays)
        return value, np.concatenate([by_decay * decays * np.log(decays), by_weight * weights])

    bounds = [(_LONGEST, 3.0)] * count + [(-30.0, 0.0)] * count
    best = min(
        (
            minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ITERATIONS})
            for start in _starts(count, steps)
        ),
        key=lambda result: float(result.fun),
    )
    decays, weights = _split(best.x)
    order = np.argsort(-decays)
    return Buffered(decays=decays[order], weights=weights[order], steps=steps)


def _split(values: Array) -> tuple[Array, Array]:
    rates, sizes = np.split(values, 2)
    return np.exp(-np.exp(rates)), np.exp(sizes)


def _starts(count: int, steps: int) -> list[Array]:
    """Geometric grids of rates, from a few lowest to a few highest ones."""
    starts = []
    for top in (0.3, 0.03):
        low = math.log(1.0 / max(steps, 2))
        rates = np.linspace(low, max(math.log(top), low + 1.0), count) if count > 1 else np.array([low + 1.0])
        step = (rates[-1] - rates[0]) / (count - 1) if count > 1 else 2.0
        starts.append(np.concatenate([rates, 0.5 * rates + math.log(min(step, 2.0) / math.pi)]))
    return starts
