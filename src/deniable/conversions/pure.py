"""From ε-differential privacy.

Every ε-DP pair of neighbours is a post-processing of binary randomized response, which tells the truth with probability
e^ε/(1 + e^ε) (Kairouz–Oh–Viswanath 2015, in the proof of Theorem 3.3; Wasserman–Zhou 2010). So the arrows that are
marked exact are the properties of that one mechanism, and no smaller number holds for all ε-DP mechanisms.

>>> from deniable.guarantees import PureDP
>>> print(pure_to_zcdp(PureDP(1)))
ρ ≤ 0.47, one record added or removed
>>> print(pure_to_gdp(PureDP(1)))
μ ≤ 1.24, one record added or removed
"""

from __future__ import annotations

import math
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.conversions import formulas
from deniable.conversions.curves import exact_profile
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, Bracket, Profile, PureDP, TradeOff
from deniable.numerics.exact import exp_up, short_above
from deniable.numerics.normal import diagonal_mu
from deniable.numerics.rounding import MACHINE_EPSILON, above, below, float_above, float_below, fraction_above


def pure_to_approx(guarantee: PureDP, *, epsilon: Number | None = None) -> ApproxDP:
    """ε-DP is (ε, 0)-DP; at a smaller ε′ it is (ε′, (e^ε − e^ε′)/(1 + e^ε))-DP. Exact."""
    if epsilon is None:
        return ApproxDP(guarantee.epsilon, 0, relation=guarantee.relation, unit=guarantee.unit)
    at = _checks.nonnegative("epsilon", epsilon)
    delta = response_delta(guarantee.epsilon, at)
    return ApproxDP(at, min(fraction_above(delta), Fraction(1)), relation=guarantee.relation, unit=guarantee.unit)


def pure_to_profile(guarantee: PureDP) -> Profile:
    """δ(ε′) = max(0, (e^ε − e^ε′)/(1 + e^ε)). Exact."""
    from deniable.conversions.approx import approx_to_profile

    return approx_to_profile(pure_to_approx(guarantee))


def pure_to_fdp(guarantee: PureDP) -> FDP:
    """f(α) = max(0, 1 − e^ε α, e^{−ε}(1 − α)). Exact up to rounding e^ε up."""
    return FDP(
        TradeOff.of_lines([(odds_above(guarantee.epsilon), 0)]), relation=guarantee.relation, unit=guarantee.unit
    )


def pure_to_rdp(guarantee: PureDP, *, order: Number) -> RDP:
    """D_α = ln[(sinh(αε) − sinh((α − 1)ε))/sinh ε]/(α − 1). Exact: the divergence of randomized response."""
    alpha = _checks.order("order", order)
    cost = short_above(formulas.response_divergence(guarantee.epsilon, alpha))
    simple = pure_to_rdp_simple(guarantee, order=alpha).epsilon
    return RDP(alpha, min(cost, simple), relation=guarantee.relation, unit=guarantee.unit)


def pure_to_rdp_simple(guarantee: PureDP, *, order: Number) -> RDP:
    """D_α ≤ min(ε, αε²/2). Upper bound: D_α ≤ D_∞, and Bun–Steinke 2016, Prop. 3.3."""
    alpha = _checks.order("order", order)
    cost = min(guarantee.epsilon, alpha * guarantee.epsilon**2 / 2)
    return RDP(alpha, cost, relation=guarantee.relation, unit=guarantee.unit)


def pure_to_zcdp(guarantee: PureDP) -> ZCDP:
    """ρ = ε·tanh(ε/2). Exact: the smallest ρ that holds for every ε-DP mechanism.

    The loss of randomized response is ±ε with mean m = ε·tanh(ε/2). The Kearns–Saul inequality for two points (1998,
    Lemma 1) bounds its centred moment generating function by exp(λ²·ε·tanh(ε/2)), so ln E e^{λL} ≤ λ(λ + 1)m, which is
    the definition of m-zCDP. At α → 1, D_α/α → m: no smaller ρ holds.
    """
    rho = short_above(formulas.pure_rho(guarantee.epsilon))
    return ZCDP(min(rho, guarantee.epsilon**2 / 2), relation=guarantee.relation, unit=guarantee.unit)


def pure_to_zcdp_classic(guarantee: PureDP) -> ZCDP:
    """ρ = ε²/2. Upper bound, in exact arithmetic: Bun–Steinke 2016, Prop. 3.3."""
    return ZCDP(guarantee.epsilon**2 / 2, relation=guarantee.relation, unit=guarantee.unit)


def pure_to_tcdp(guarantee: PureDP, *, omega: Number) -> TCDP:
    """zCDP, kept for orders below ω. Exact, because the worst order is α → 1."""
    return TCDP(pure_to_zcdp(guarantee).rho, omega, relation=guarantee.relation, unit=guarantee.unit)


def pure_to_gdp(guarantee: PureDP) -> GDP:
    """μ = 2Φ⁻¹(e^ε/(1 + e^ε)). Exact: the smallest μ whose trade-off function stays below that of randomized response.

    Both functions are convex and the second has one corner, at α = β = 1/(1 + e^ε): comparing there is enough.
    """
    epsilon = float_above(guarantee.epsilon)
    mu = diagonal_mu(math.tanh(epsilon / 2), -epsilon - math.log1p(math.exp(-epsilon)))
    return GDP(fraction_above(mu), relation=guarantee.relation, unit=guarantee.unit)


def pure_to_total_variation(guarantee: PureDP) -> float:
    """(e^ε − 1)/(e^ε + 1) = tanh(ε/2), rounded up. Exact."""
    return min(above(math.tanh(float_above(guarantee.epsilon) / 2)), 1.0)


def odds_above(epsilon: Fraction) -> Fraction:
    """e^ε, rounded up, as a fraction that may be far beyond the floats."""
    if epsilon == 0:
        return Fraction(1)
    whole, rest = divmod(epsilon, 512)
    return Fraction(float_above(exp_up(Fraction(512)))) ** int(whole) * Fraction(float_above(exp_up(rest)))


def response_delta(epsilon: Fraction, at: Fraction) -> float:
    """max(0, (e^ε − e^ε′)/(1 + e^ε)) without overflow, rounded up: (1 − e^{ε′−ε})/(1 + e^{−ε})."""
    if at >= epsilon:
        return 0.0
    return min(above(-math.expm1(float_below(at - epsilon)) / (1 + math.exp(float_below(-epsilon)))), 1.0)


def response_profile(guarantee: ApproxDP, method: str) -> Profile:
    """The curve of randomized response that fails outright with probability δ."""
    # Here, too, a float means its shortest decimal, so that a claim with δ = 0.1 has its own ε at δ = 0.1.
    epsilon, fail = guarantee.epsilon, guarantee.delta

    def delta(at: float) -> Bracket:
        upper = float_above(fail + (1 - fail) * Fraction(response_delta(epsilon, _checks.exact(at))))
        return Bracket(max(below(upper, ulps=64), float_below(fail)), min(upper, 1.0))

    def smallest(allowed: float) -> Bracket:
        exact_delta = _checks.exact(allowed)
        if exact_delta < fail:
            return Bracket(math.inf, math.inf)
        if exact_delta == fail or fail == 1:
            end = 0.0 if fail == 1 else float_above(epsilon)
            return Bracket(below(end, ulps=1), end)
        return _response_epsilon(epsilon, float_below((exact_delta - fail) / (1 - fail)))

    return exact_profile(guarantee, method, delta, smallest)


def _response_epsilon(epsilon: Fraction, share: float) -> Bracket:
    """Ends of the ε′ ≥ 0 with (e^ε − e^ε′)/(1 + e^ε) = t: e^ε′ = e^ε(1 − t) − t."""
    near, most = float(epsilon), float_above(epsilon)
    if near < 30:
        gain, loss = math.expm1(near), share * (math.exp(near) + 1)
        if gain <= loss:
            return Bracket(0.0, above(gain) - below(loss) if above(gain) > below(loss) else 0.0)
        value = math.log1p(gain - loss)
        error = 16 * MACHINE_EPSILON * ((gain + loss) / (1 + gain - loss) + value)
    else:
        # e^ε′ = e^ε·((1 − t) − t e^{−ε}), and e^{−ε} is nothing next to 1 − t until t is almost 1.
        rest = 1 - share - share * math.exp(-near)
        value = near + math.log(rest) if rest > 0 else 0.0
        error = 16 * MACHINE_EPSILON * (near + (1 / rest if rest > 0 else math.inf))
    return Bracket(max(value - error, 0.0), min(max(value + error, 0.0), most))
