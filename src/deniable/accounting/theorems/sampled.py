"""Rényi divergence of the Gaussian on a Poisson sample, at any order (Mironov–Talwar–Zhang 2019).

With Q = N(0, s²), P = (1 − q)N(0, s²) + qN(1, s²), Y = e^{(2x−1)/(2s²)} and E_Q Y = 1,

    A_α = E_Q (1 − q + qY)^α,    D_α = ln(A_α)/(α − 1),

and D_α(P‖Q) is the larger of the two directions (their Theorem 5). A_α − 1 is computed without its leading 1, so that
tiny rates keep their digits:

* whole α: A − 1 = Σ_{k=2}^α C(α, k)(1 − q)^{α−k} q^k (e^{k(k−1)/(2s²)} − 1), positive terms;
* any α: A − 1 = E_Q b(w), b(w) = (1 + w)^α − 1 − αw ≥ 0, w = q(Y − 1), by the trapezoid rule with an error bound
  (`_edge_error`) and bounds on what lies outside its range (`_tails`).

>>> round(sampled_gaussian_rdp(2, rate=0.01, noise_multiplier=1), 12)
0.000171813422
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from deniable import _checks
from deniable._checks import Number
from deniable.numerics.rounding import above, float_above, float_below

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_DIGITS = 40.0
"""The error terms of the integral are smaller than the integral by about e to this power."""

_MOST_POINTS = 1_000_000
"""Beyond this many points, the divergence is interpolated between whole orders instead."""


def sampled_gaussian_rdp(order: Number, *, rate: Number, noise_multiplier: Number) -> float:
    """D_α of one step of DP-SGD under ADD_REMOVE or ZERO_OUT, rounded up; noise ÷ sensitivity is `noise_multiplier`.

    Exact at whole orders and, to about nine digits, at others. Where the integral would need too many points (noise
    multipliers below about 0.01) it is an upper bound by interpolation between whole orders.
    """
    alpha = _checks.order("order", order)
    kept = _checks.rate("rate", rate)
    scale = float_below(_checks.positive("noise_multiplier", noise_multiplier))
    plain = above(float_above(alpha) / (2 * scale * scale))
    if kept == 1:
        return plain
    q = min(float_above(kept), 1 - 2.0**-53)
    # ln A_α grows with α, which is rounded up; next to 1 that is much beside α − 1.
    log = _whole(int(alpha), q, scale) if alpha.denominator == 1 else _any(float_above(alpha), q, scale)
    # Sampling never costs: D_α ≤ αμ²/2, by joint convexity.
    return min(above(log / float_below(alpha - 1), ulps=256), plain)


def _whole(order: int, rate: float, scale: float) -> float:
    """ln A_α at a whole order, rounded up."""
    import numpy as np
    from scipy.special import gammaln, logsumexp

    k = np.arange(2, order + 1, dtype=float)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    exponent = k * (k - 1) / (2 * scale * scale)
    # ln(e^x − 1) = x + ln(1 − e^{−x})
    tilt = exponent + np.log(-np.expm1(-exponent))
    logs = choose + (order - k) * math.log1p(-rate) + k * math.log(rate) + tilt
    size = 3 * float(gammaln(order + 1)) + order * (order / (scale * scale) - math.log(rate) - math.log1p(-rate))
    return _log_one_more(float(logsumexp(logs)) + 2.0**-51 * (size + 64))


def _any(order: float, rate: float, scale: float) -> float:
    """ln A_α at any order, rounded up."""
    import numpy as np

    margin = _DIGITS + order * math.log(2) + 2 * math.log1p(scale)
    step = math.pi**2 * scale**2 / (margin + math.pi**2 * scale**2 / 8)
    reach = scale * math.sqrt(2 * margin) + step
    low, high = -reach, max(order, 2.0) + reach
    if (high - low) / step > _MOST_POINTS:
        return _between(order, rate, scale)
    x = low + step * np.arange(math.ceil((high - low) / step) + 1, dtype=np.float64)
    logs = _log_integrand(x, order, rate, scale)
    top = float(np.max(logs))
    total = top + math.log(float(np.sum(np.exp(logs - top))) * step / (scale * math.sqrt(2 * math.pi)))
    edges = _edge_error(order, rate, scale, step)
    tails = _tails(order, rate, scale, low + step, float(x[-1]) - step)
    rounding = 2.0**-48 * (high * high / (scale * scale) + order * (high / (scale * scale) - math.log(rate)) + 512)
    return _log_one_more(float(np.logaddexp(np.logaddexp(total, edges), tails)) + rounding)


def _log_integrand(x: Floats, order: float, rate: float, scale: float) -> Floats:
    """ln of e^{−x²/(2s²)}·b(w)."""
    import numpy as np

    tilt = (2 * x - 1) / (2 * scale * scale)
    far = tilt > 600  # there only the logarithm of Y is a float, and b(w) is (qY)^α to all digits
    w = rate * np.expm1(np.where(far, 0.0, tilt))
    log_power = order * np.where(far, math.log(rate) + tilt, np.log1p(w))
    large = far | (log_power > 300)
    # b(w) = (1 + w)((1 + w)^{α−1} − 1) − (α − 1)w, each term as small as α − 1; no float holds it where it is large.
    moved = np.where(large, 0.0, w)
    direct = (1 + moved) * np.expm1((order - 1) * np.log1p(moved)) - (order - 1) * moved
    # b(w) = Σ_{k≥2} C(α, k)w^k where the difference would cancel.
    small = np.abs(w) * (1 + order) < 0.01
    near = np.where(small, w, 0.0)
    coefficient, series = order, np.zeros_like(near)
    for k in range(2, 12):
        coefficient *= (order - k + 1) / k
        series += coefficient * near**k
    bracket = np.where(small, series, direct)
    found: Floats = np.where(large, log_power, np.log(np.maximum(bracket, 1e-320))) - x * x / (2 * scale * scale)
    return found


def _edge_error(order: float, rate: float, scale: float, step: float) -> float:
    """ln of the trapezoid rule's error bound.

    An integrand that is analytic in |Im x| < d is integrated with error at most 2M/(e^{2πd/h} − 1), M a bound on its
    absolute integral along every line of the strip (Trefethen–Weideman 2014, Theorem 5.1). Take d = πs²/2. On those
    lines |N(x + id)| ≤ N(x)e^{d²/(2s²)}, Re Y ≥ 0, so |1 + tw| ≥ 1 − q and ≤ 1 + q|Y| for 0 ≤ t ≤ 1, and |w| ≤
    q(1 + |Y|). Taylor's formula gives |b(w)| ≤ α(α−1)/2·|w|²·g with g = (1 − q)^{α−2} for α < 2 and (1 + q|Y|)^{α−2}
    else. With E Y^m = e^{m(m−1)/(2s²)}, E(1 + Y)² ≤ 4e^{1/s²}, and for α ≥ 2
    E(1 + Y)²(1 + qY)^{α−2} ≤ 2^α·(e^{1/s²} + q^{α−2}e^{α(α−1)/(2s²)}).
    """
    spread = 1 / (scale * scale)
    if order < 2:
        moments = math.log(4) + spread + (order - 2) * math.log1p(-rate)
    else:
        high = (order - 2) * math.log(rate) + order * (order - 1) * spread / 2
        moments = order * math.log(2) + max(spread, high) + math.log(2)
    width = math.pi * scale * scale / 2
    edge = width * width * spread / 2 + math.log(order * (order - 1) / 2) + 2 * math.log(rate) + moments
    fall = 2 * math.pi * width / step
    return math.log(2) + edge - fall - math.log1p(-math.exp(-fall))


def _tails(order: float, rate: float, scale: float, low: float, high: float) -> float:
    """ln of a bound on what lies outside [low, high] (moved in by one step: sums of a falling function are integrals).

    Left of 1/2, |w| ≤ q and b(w) ≤ α²/2·q²·max(1, (1 − q)^{α−2}). Right of it 0 ≤ w ≤ qY, and b(w) ≤ α²/2·w² for
    α < 2, ≤ α²/2·2^α·(w² + w^α) else; E Y^m 1{x > h} = e^{m(m−1)/(2s²)}·Φ(−(h − m)/s).
    """
    from scipy.special import log_ndtr

    factor = 2 * math.log(order) - math.log(2)
    left = factor + 2 * math.log(rate) + max(0.0, (order - 2) * math.log1p(-rate)) + float(log_ndtr(low / scale))
    square = 2 * math.log(rate) + 1 / (scale * scale) + float(log_ndtr(-(high - 2) / scale))
    if order < 2:
        right = factor + square
    else:
        power = order * (order - 1) / (2 * scale * scale) + float(log_ndtr(-(high - order) / scale))
        right = factor + order * math.log(2) + max(square, order * math.log(rate) + power) + math.log(2)
    return max(left, right) + math.log(2)


def _between(order: float, rate: float, scale: float) -> float:
    """ln A_α by the chord between whole orders: ln A is convex in α (it is (α − 1)D_α), and 0 at α = 1."""
    start = math.floor(order)
    share = order - start
    left = _whole(start, rate, scale) if start >= 2 else 0.0
    return above((1 - share) * left + share * _whole(start + 1, rate, scale))


def _log_one_more(log: float) -> float:
    """ln(1 + e^x), rounded up."""
    if log < -40:
        return max(above(math.exp(log)), 5e-324)
    return above(max(log, 0.0) + math.log1p(math.exp(-abs(log))), ulps=32)
