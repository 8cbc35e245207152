"""Rényi divergences of the mechanisms, in closed form, and their composition.

| step | D_α | source |
|---|---|---|
| Gaussian, μ = Δ/σ | αμ²/2 | Mironov 2017, Prop. 7 |
| Laplace, ε = Δ/b | ln{α e^{(α−1)ε}/(2α−1) + (α−1)e^{−αε}/(2α−1)}/(α−1) | Mironov 2017, Prop. 6 |
| randomized response, k categories | `conversions.formulas.response_divergence` | direct |
| any ε-DP step | that of binary randomized response | Kairouz–Oh–Viswanath 2015 |
| Poisson-sampled Gaussian | `sampled_gaussian_rdp` | Mironov–Talwar–Zhang 2019 |

Divergences of adaptive steps add at every order (Mironov 2017, Prop. 1), and the best order is chosen after adding. The
moments accountant (Abadi et al. 2016) is this with the classic conversion: its log moment at λ is λ·D_{λ+1}.

>>> curve = rdp_curve_of(lambda order: gaussian_rdp(order, mu=0.5), orders=[2, 4, 8, 16, 32])
>>> print(best_order(repeat_rdp(curve, count=10), delta=1e-5)[1])
ε ≤ 8.09, δ = 1e-5, one record added or removed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from deniable import _checks
from deniable._checks import Number
from deniable.conversions.formulas import response_divergence
from deniable.conversions.renyi import rdp_curve, rdp_to_approx, rdp_to_approx_classic
from deniable.errors import InvalidArgument
from deniable.guarantees import RDP, ApproxDP
from deniable.numerics.rounding import above, float_above, float_below, fraction_above
from deniable.units import AnyRelation, Relation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ORDERS: tuple[Fraction, ...] = (
    *(1 + Fraction(i, 20) for i in range(1, 40)),
    *(Fraction(i, 4) for i in range(12, 64)),
    *(Fraction(i) for i in range(16, 64)),
    *(Fraction(64 * 2**i) for i in range(15)),
    *(Fraction(96 * 2**i) for i in range(14)),
)
"""Orders for general use: dense and not whole below 16, whole to 64, then 1.5-fold to two million.

The best order for (ε, δ) is about 1 + 2 ln(1/δ)/ε; a grid can only cost tightness.
"""


def gaussian_rdp(order: Number, *, mu: Number) -> float:
    """αμ²/2, rounded up. Exact."""
    alpha, ratio = _checks.order("order", order), _checks.nonnegative("mu", mu)
    return float_above(alpha * ratio**2 / 2)


def laplace_rdp(order: Number, *, epsilon: Number) -> float:
    """The divergence of Laplace noise at ε = Δ/b, rounded up. Exact for one number; a vector is at most as bad."""
    import numpy as np

    from deniable.numerics.arrays import excess

    alpha = float(_checks.order("order", order))
    cost = float_above(_checks.nonnegative("epsilon", epsilon))
    if cost == 0:
        return 0.0
    stay, leave = alpha / (2 * alpha - 1), (alpha - 1) / (2 * alpha - 1)
    if (alpha - 1) * cost > 30:
        rest = leave / stay * math.exp(-(2 * alpha - 1) * cost)
        total = (alpha - 1) * cost + math.log(stay) + math.log1p(rest)
    else:
        # The linear terms α(α−1)ε/(2α−1) of both cancel; what is left is of second order and positive.
        near, far = map(float, excess(np.array([(alpha - 1) * cost, -alpha * cost])))
        total = math.log1p(stay * near + leave * far)
    return min(above(total / (alpha - 1), ulps=128), cost)


def randomized_response_rdp(order: Number, *, epsilon: Number, categories: int = 2) -> float:
    """The divergence of k-ary randomized response, rounded up. Exact."""
    alpha, cost = _checks.order("order", order), _checks.nonnegative("epsilon", epsilon)
    kinds = _checks.count("categories", categories, least=2)
    return float_above(response_divergence(cost, alpha, categories=kinds))


def pure_rdp(order: Number, *, epsilon: Number) -> float:
    """The largest divergence of any ε-DP step: that of binary randomized response. Exact."""
    return randomized_response_rdp(order, epsilon=epsilon)


def rdp_curve_of(
    divergence: Callable[[Fraction], float],
    *,
    orders: Iterable[Number] = ORDERS,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> list[RDP]:
    """A curve: the divergence at every order, each promised on its own."""
    relation = Relation.of(relation)
    exact = [_checks.order("order", order) for order in orders]
    return [RDP(order, fraction_above(divergence(order)), relation=relation) for order in exact]


def compose_rdp(curves: Sequence[Iterable[RDP]]) -> list[RDP]:
    """Several steps: divergences add at every order that all of them have."""
    if not curves:
        raise InvalidArgument("curves", curves, "one curve or more")
    known = [{r.order: r for r in rdp_curve(curve)} for curve in curves]
    shared = sorted(set(known[0]).intersection(*known[1:]))
    if not shared:
        raise InvalidArgument("curves", f"{len(curves)} curves", "at least one order in common")
    total = []
    for order in shared:
        parts = [curve[order] for curve in known]
        rdp_curve(parts)  # one unit, one relation
        cost = sum((part.epsilon for part in parts), Fraction(0))
        total.append(RDP(order, cost, relation=parts[0].relation, unit=parts[0].unit))
    return total


def repeat_rdp(curve: Iterable[RDP], *, count: int) -> list[RDP]:
    """The same step k times."""
    times = _checks.count("count", count)
    return [RDP(r.order, times * r.epsilon, relation=r.relation, unit=r.unit) for r in rdp_curve(curve)]


def best_order(curve: Iterable[RDP], *, delta: Number) -> tuple[Fraction, ApproxDP]:
    """The order whose conversion gives the least ε at a δ, and that promise."""
    promises = [(rdp_to_approx(r, delta=delta), r.order) for r in rdp_curve(curve)]
    best = min(promises, key=lambda found: (found[0].epsilon, found[1]))
    return best[1], best[0]


def moments_accountant(curve: Iterable[RDP], *, delta: Number) -> ApproxDP:
    """ε = min over whole λ of (α(λ) + ln 1/δ)/λ, α(λ) = λ·D_{λ+1}: Abadi et al. 2016, Theorem 2. Upper bound."""
    whole = [r for r in rdp_curve(curve) if r.order.denominator == 1]
    if not whole:
        raise InvalidArgument("curve", "no whole order", "divergences at whole orders", "Moments are λ = order − 1.")
    return rdp_to_approx_classic(whole, delta=delta)


def log_moment(step: RDP) -> Fraction:
    """α(λ) = ln E e^{λL} = λ·D_{λ+1}, λ = order − 1: the moments accountant's number."""
    return (step.order - 1) * step.epsilon


_DIGITS = 40.0
"""The error terms of the integral are smaller than the integral by about e to this power."""

_MOST_POINTS = 1_000_000
"""Beyond this many points, the divergence is interpolated between whole orders instead."""


def sampled_gaussian_rdp(order: Number, *, rate: Number, noise_multiplier: Number) -> float:
    """D_α of one step of DP-SGD under ADD_REMOVE or ZERO_OUT, rounded up; noise ÷ sensitivity is `noise_multiplier`.

    With Q = N(0, s²), P = (1 − q)N(0, s²) + qN(1, s²), Y = e^{(2x−1)/(2s²)} and E_Q Y = 1,

        A_α = E_Q (1 − q + qY)^α,    D_α = ln(A_α)/(α − 1),

    and D_α(P‖Q) is the larger of the two directions (their Theorem 5). A_α − 1 is computed without its leading 1, so
    that tiny rates keep their digits:

    * whole α: A − 1 = Σ_{k=2}^α C(α, k)(1 − q)^{α−k} q^k (e^{k(k−1)/(2s²)} − 1), positive terms;
    * any α: A − 1 = E_Q b(w), b(w) = (1 + w)^α − 1 − αw ≥ 0, w = q(Y − 1), by the trapezoid rule with an error bound
      (`_edge_error`) and bounds on what lies outside its range (`_tails`).

    Exact at whole orders and, to about nine digits, at others. Where the integral would need too many points (noise
    multipliers below about 0.01) it is an upper bound by interpolation between whole orders.

    >>> round(sampled_gaussian_rdp(2, rate=0.01, noise_multiplier=1), 12)
    0.000171813422
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
