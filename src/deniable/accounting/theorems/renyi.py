"""Rényi divergences of the mechanisms, in closed form, and their composition.

| step | D_α | source |
|---|---|---|
| Gaussian, μ = Δ/σ | αμ²/2 | Mironov 2017, Prop. 7 |
| Laplace, ε = Δ/b | ln{α e^{(α−1)ε}/(2α−1) + (α−1)e^{−αε}/(2α−1)}/(α−1) | Mironov 2017, Prop. 6 |
| randomized response, k categories | `conversions.formulas.response_divergence` | direct |
| any ε-DP step | that of binary randomized response | Kairouz–Oh–Viswanath 2015 |
| Poisson-sampled Gaussian | `sampled` | Mironov–Talwar–Zhang 2019 |

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

from deniable import _checks
from deniable._checks import Number
from deniable.conversions.formulas import response_divergence
from deniable.conversions.renyi import rdp_curve, rdp_to_approx, rdp_to_approx_classic
from deniable.errors import InvalidArgument
from deniable.guarantees import RDP, ApproxDP
from deniable.numerics.rounding import above, float_above, fraction_above
from deniable.units import AnyRelation, Relation

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
