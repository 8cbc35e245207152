"""Discrete laws: masses of the binomial; tails, radii and sums of discrete Laplace and discrete Gaussian noise.

*Binomial.* The mass of Bin(n, q) at j is √(n/(2πj(n−j)))·exp(s(n) − s(j) − s(n−j) − d(j, nq) − d(n−j, n(1−q))), where s
is the error of Stirling's formula and d(x, m) = x ln(x/m) + m − x the deviance (Loader 2000). Nothing of size n ln n is
subtracted, so n = 10¹² keeps its digits.

*Discrete Laplace* of scale t, with r = e^{−1/t}: Pr[X ≥ m] = r^m/(1 + r) for m ≥ 1, and Pr[|X| ≥ m] is twice that.

*Discrete Gaussian* of scale σ: summed where the scale is small; otherwise Pr[X ≥ m] ≤ Pr[N(0, σ²) ≥ m − 1] (Canonne,
Kamath and Steinke 2020, their tail bound).

Radii and thresholds are whole numbers, never too small; masses and cumulative probabilities are floats or arrays with
the error that is stated.

>>> round(float(log_masses(10, 0.5, [5])[0]), 12) == round(math.log(252 / 1024), 12)
True
>>> laplace_radius(Fraction(2), 0.05)   # 2 ln 20 = 5.99
6
>>> laplace_threshold(Fraction(1), 1e-6)
14
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.numerics.rounding import MACHINE_EPSILON

Floats: TypeAlias = NDArray[np.float64]

_DIGITS = Context(prec=60)
_SUMMED = 2048
"""Scales up to which the discrete Gaussian's tail is summed term by term."""
_EXACT_CUMULATIVE = 20_000
"""Scales up to which its cumulative probabilities are."""


def log_masses(trials: Any, success: float, at: Any, *, failure: float | None = None) -> Floats:
    """ln Pr[Bin(n, q) = j] at arrays of j in 0..n (and n); `failure` is 1 − q where it is known to more digits."""
    j = np.asarray(at, dtype=float)
    n = np.asarray(trials, dtype=float)
    other = n - j
    fail = 1 - success if failure is None else failure
    log = _stirling(n) - _stirling(j) - _stirling(other) - _deviance(j, n * success) - _deviance(other, n * fail)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 0.5 * (np.log(n / (2 * math.pi)) - np.log(j) - np.log(other))
    inner = (j > 0) & (other > 0)
    ends = np.where(j == 0, n * _log_other(success, fail), n * _log_other(fail, success))
    return np.where(inner, log + np.where(inner, scale, 0.0), ends)


def mass_error(trials: int, success: float, at: float) -> float:
    """A bound on the relative error of exp(log_masses): q is known to an ulp, which counts |j − nq| times."""
    return MACHINE_EPSILON * (64 + 8 * abs(at - trials * success) + 128 * _deviance_scalar(at, trials * success))


def laplace_radius(scale: Fraction, tail: float | Fraction) -> int:
    """The smallest m with Pr[|X| > m] ≤ tail, for discrete Laplace noise; rounding can only make it larger."""
    return max(laplace_threshold(scale, tail / 2) - 1, 0)


def laplace_threshold(scale: Fraction, tail: float | Fraction) -> int:
    """The smallest m ≥ 1 with Pr[X ≥ m] ≤ tail, for discrete Laplace noise: m ≥ t·ln(1/(tail·(1 + r)))."""
    t = _decimal(scale)
    r = _DIGITS.exp(_DIGITS.divide(Decimal(-1), t))
    reached = _DIGITS.multiply(_decimal(Fraction(tail)), _DIGITS.add(Decimal(1), r))
    if reached >= 1:
        return 1
    # 60 digits leave an error far below this push, which can only move the answer up.
    exact = _DIGITS.multiply(t, -_DIGITS.ln(reached))
    return max(math.ceil(_DIGITS.multiply(exact, Decimal("1") + Decimal("1e-50"))), 1)


def gaussian_radius(scale: Fraction, tail: float) -> int:
    """An m with Pr[|X| > m] ≤ tail for discrete Gaussian noise, the smallest for scales up to 2048."""
    sigma = float(scale)
    if sigma <= _SUMMED:
        # Masses far below the tail are left to the bound: 40 σ is far beyond e^−700.
        x = np.arange(math.ceil(40 * sigma) + 3)
        mass = np.exp(-0.5 * (x / sigma) ** 2)
        mass[1:] *= 2
        beyond = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0) / mass.sum()  # Pr[|X| > m] at m
        return int(np.argmax(beyond * (1 + 1e-9) <= tail))
    # Pr[|X| ≥ m] ≤ 2 Pr[N ≥ m − 1] ≤ tail for m − 1 ≥ σz; |X| > m − 1 is |X| ≥ m.
    return math.ceil(-NormalDist().inv_cdf(tail / 2) * sigma * (1 + 1e-9))


def each_of(failure: float, count: int) -> float:
    """The failure that each of `count` independent statements may have, rounded down: 1 − (1 − failure)^(1/count)."""
    # A failure that rounding made certain is taken for the largest float below 1: less failure is a wider statement.
    return -math.expm1(math.log1p(-min(failure, 1 - 2**-53)) / count) * (1 - 1e-12)


def gaussian_threshold(scale: Fraction, tail: float) -> int:
    """An m ≥ 1 with Pr[X ≥ m] ≤ tail for discrete Gaussian noise, the smallest for scales up to 2048."""
    if float(scale) <= _SUMMED:
        # X is symmetric, so Pr[X ≥ m] = Pr[|X| > m − 1]/2 for m ≥ 1.
        return max(gaussian_radius(scale, min(2 * tail, 1.0)) + 1, 1)
    # Pr[X ≥ m] ≤ Pr[N ≥ m − 1] ≤ tail for m − 1 ≥ σz.
    return 1 + max(math.ceil(-NormalDist().inv_cdf(min(tail, 0.5)) * float(scale) * (1 + 1e-9)), 0)


@lru_cache(maxsize=4096)
def laplace_sum_radius(scale: Fraction, weights: tuple[tuple[float, int], ...], failure: Fraction) -> float:
    """A t with Pr[Σ wᵢXᵢ > t] ≤ failure, for independent discrete Laplace Xᵢ; `weights` are (weight, how many)."""
    used = [(abs(weight), many) for weight, many in weights if weight and many]
    if not used:
        return 0.0
    rate = _rate(scale)
    reach = _chernoff(scale, used, float(failure) * 1e-6)
    summed = _sum_radius(lambda k: laplace_cumulative(k, rate), float(scale), used, float(failure), reach, error=1e-12)
    return _chernoff(scale, used, float(failure)) if summed is None else summed


@lru_cache(maxsize=4096)
def gaussian_sum_radius(scale: Fraction, weights: tuple[tuple[float, int], ...], failure: Fraction) -> float:
    """A t with Pr[Σ wᵢXᵢ > t] ≤ failure, for independent discrete Gaussian Xᵢ; `weights` are (weight, how many).

    The sum is subgaussian, E[e^(λX)] ≤ e^(λ²σ²/2): completing the square leaves e^(λ²σ²/2) times a sum of
    e^(−(x − λσ²)²/(2σ²)) over the integers, which is largest where the shift is whole (Poisson summation). That bounds
    how far the sum reaches, and is the answer where the failure is too small for a sum of floats.
    """
    used = [(abs(weight), many) for weight, many in weights if weight and many]
    if not used:
        return 0.0
    deviation = float(scale) * math.sqrt(sum(weight * weight * many for weight, many in used))
    reach, sure = (deviation * math.sqrt(-2 * math.log(float(failure) * rare)) * (1 + 1e-9) for rare in (1e-6, 1.0))
    error = 1e-12 if float(scale) <= _EXACT_CUMULATIVE else 3e-11 * sum(many for _, many in used) + 1e-12
    summed = _sum_radius(
        lambda k: gaussian_cumulative(k, float(scale)), float(scale), used, float(failure), reach, error=error
    )
    return sure if summed is None else summed


def _sum_radius(
    cumulative: Callable[[Floats], Floats],
    scale: float,
    used: Sequence[tuple[float, int]],
    failure: float,
    reach: float,
    *,
    error: float,
) -> float | None:
    """A t with Pr[Σ wᵢXᵢ > t] ≤ failure; None where the failure is within the `error` of the floats.

    Every term is rounded up to a lattice and the laws are convolved, so the sum can only come out larger. The lattice
    is wide enough that what wraps around it has a millionth of the failure probability, as `reach` says.
    """
    rare = failure * 1e-6
    step = max(weight for weight, _ in used) * max(scale, 1.0) / 64
    size = 1 << max(6, math.ceil(math.log2(2 * reach / step)) + 1)
    law = np.ones(size // 2 + 1, dtype=np.complex128)
    grid = np.arange(-(size // 2), size // 2)
    for weight, many in used:
        below = cumulative(np.floor(grid * (step / weight)))
        below[-1] = 1.0
        law *= np.fft.rfft(np.roll(np.diff(below, prepend=0.0), size // 2)) ** many
    masses = np.roll(np.fft.irfft(law, size), size // 2)
    beyond = np.cumsum(masses[::-1])[::-1] - masses + 2 * rare + error
    within = beyond <= failure
    return float(grid[np.argmax(within)] * step) if within.any() else None


def laplace_cumulative(k: Floats, rate: float) -> Floats:
    """Pr[X ≤ k] for discrete Laplace noise of scale 1/rate at whole numbers k, to a few units in the last place."""
    fall = math.exp(-rate)
    above = np.exp(-rate * (np.maximum(k, 0) + 1)) / (1 + fall)
    return np.where(k >= 0, 1 - above, np.exp(-rate * np.maximum(-k, 0)) / (1 + fall))


def gaussian_cumulative(k: Floats, scale: float) -> Floats:
    """Pr[X ≤ k] for discrete Gaussian noise; beyond scale 20 000 of the normal law half a step on (within 3e-11)."""
    if scale > _EXACT_CUMULATIVE:
        from scipy.special import ndtr

        return np.asarray(ndtr((k + 0.5) / scale))
    far = int(45 * scale) + 2
    lattice = np.arange(-far, far + 1)
    upto = np.cumsum(np.exp(-(lattice**2) / (2 * scale * scale)))
    return np.asarray(upto[np.clip(k + far, 0, 2 * far).astype(int)] / upto[-1])


def _log_other(share: float, other: float) -> float:
    """ln(1 − share), from whichever of the two has more digits."""
    return math.log1p(-share) if share < 0.5 else math.log(other)


def _deviance_scalar(x: float, mean: float) -> float:
    return x * math.log(x / mean) + mean - x if x > 0 else mean


def _stirling(n: Floats) -> Floats:
    """ln n! − ln(√(2πn)(n/e)^n): the series beyond 15, exact differences below."""
    from scipy.special import gammaln

    safe = np.maximum(n, 1.0)
    direct = gammaln(safe + 1) - (safe + 0.5) * np.log(safe) + safe - 0.5 * math.log(2 * math.pi)
    inverse = 1 / safe
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    return np.where(n == 0, 0.0, np.where(n < 16, direct, series))


def _deviance(x: Floats, mean: Floats) -> Floats:
    """x ln(x/m) + m − x ≥ 0; by its series where x is close to m, where the direct form cancels."""
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.where(x > 0, x * np.log(np.maximum(x, 1e-300) / mean), 0.0) + mean - x
    ratio = (x - mean) / np.maximum(x + mean, 1e-300)
    near = np.abs(ratio) < 0.1
    small = np.where(near, ratio, 0.0)
    # Loader: d = (x − m)v + 2x·Σ_{k≥1} v^{2k+1}/(2k+1), v = (x − m)/(x + m).
    square = small * small
    power, total = small, np.zeros_like(small)
    for k in range(1, 16):
        power = power * square
        total = total + power / (2 * k + 1)
    series = (x - mean) * small + 2 * x * total
    return np.maximum(np.where(near, series, direct), 0.0)


def _rate(scale: Fraction) -> float:
    return float(min(1 / scale, Fraction(700)))


def _chernoff(scale: Fraction, weights: Sequence[tuple[float, int]], failure: float) -> float:
    """Chernoff: Pr[S > t] ≤ exp(Σ ln M(λwᵢ) − λt) for every λ > 0 with λwᵢ below the rate 1/s, where M(λ) = (1 − r)² /
    ((1 − r e^λ)(1 − r e^(−λ))), r = e^(−1/s). Any λ gives a bound, so the best of a list is one."""
    rate = _rate(scale)
    tilts = np.linspace(0.01, 0.99, 99) * rate / max(weight for weight, _ in weights)
    nats = np.full_like(tilts, -math.log(failure))
    for weight, many in weights:
        x = tilts * weight
        nats += many * (2 * math.log(-math.expm1(-rate)) - np.log(-np.expm1(x - rate)) - np.log(-np.expm1(-x - rate)))
    return float(np.min(nats / tilts)) * (1 + 1e-9)


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
