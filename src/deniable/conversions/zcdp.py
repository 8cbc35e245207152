"""From concentrated differential privacy: zCDP, approximate zCDP, truncated CDP.

All of these are promises about Rényi divergences. The conversion to (ε, δ) is that of `renyi` at the best order.

>>> from deniable.guarantees import ZCDP
>>> print(zcdp_to_approx(ZCDP(0.5), delta=1e-6))
ε ≤ 5.23, δ = 1e-6, one record added or removed
>>> print(zcdp_to_approx_classic(ZCDP(0.5), delta=1e-6))
ε ≤ 5.76, δ = 1e-6, one record added or removed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NoReturn

from deniable import _checks
from deniable._checks import Number
from deniable.conversions import renyi
from deniable.conversions.curves import bound_profile, grid, support_lines
from deniable.errors import NoConversion
from deniable.guarantees import FDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Profile
from deniable.numerics.roots import lowest
from deniable.numerics.rounding import above, exp_above, float_above, float_below, fraction_above


def zcdp_to_approx(guarantee: ZCDP, *, delta: Number) -> ApproxDP:
    """ε = min over α > 1 of αρ + ln(1 − 1/α) − ln(αδ)/(α − 1). Upper bound: Canonne–Kamath–Steinke 2020, Prop. 12."""
    allowed = _checks.inner_probability("delta", delta)
    epsilon = concentrated_epsilon(float_above(guarantee.rho), float_below(allowed))
    return ApproxDP(fraction_above(epsilon), allowed, relation=guarantee.relation, unit=guarantee.unit)


def zcdp_to_approx_classic(guarantee: ZCDP, *, delta: Number) -> ApproxDP:
    """ε = ρ + 2√(ρ ln(1/δ)). Upper bound: Bun–Steinke 2016, Prop. 1.3."""
    allowed = _checks.inner_probability("delta", delta)
    rho = float_above(guarantee.rho)
    epsilon = above(rho + 2 * math.sqrt(rho * -math.log(float_below(allowed))))
    return ApproxDP(fraction_above(epsilon), allowed, relation=guarantee.relation, unit=guarantee.unit)


def zcdp_to_profile(guarantee: ZCDP) -> Profile:
    """δ(ε) = min over α > 1 of exp((α − 1)(αρ − ε))(1 − 1/α)^α/(α − 1). Upper bound: the same proposition."""
    rho = float_above(guarantee.rho)
    return bound_profile(
        guarantee,
        "zCDP at the best Rényi order",
        lambda epsilon: concentrated_delta(rho, epsilon),
        lambda delta: concentrated_epsilon(rho, delta),
    )


def zcdp_to_fdp(guarantee: ZCDP, *, epsilons: Iterable[Number] | None = None) -> FDP:
    """Supporting lines of the curve. Upper bound."""
    rho = float_above(guarantee.rho)
    grid_points = grid(concentrated_epsilon(rho, 1e-12)) if epsilons is None else list(map(float, epsilons))
    function = support_lines(lambda epsilon: concentrated_delta(rho, epsilon), grid_points)
    return FDP(function, relation=guarantee.relation, unit=guarantee.unit)


def zcdp_to_rdp(guarantee: ZCDP, *, order: Number) -> RDP:
    """D_α ≤ αρ. Exact: the definition."""
    alpha = _checks.order("order", order)
    return RDP(alpha, alpha * guarantee.rho, relation=guarantee.relation, unit=guarantee.unit)


def zcdp_to_tcdp(guarantee: ZCDP, *, omega: Number) -> TCDP:
    """The same for orders below ω. Exact: the definition."""
    return TCDP(guarantee.rho, omega, relation=guarantee.relation, unit=guarantee.unit)


def zcdp_to_pure(guarantee: ZCDP) -> NoReturn:
    """Does not exist."""
    raise NoConversion(
        f"{guarantee!r} implies no PureDP: its loss may be unbounded, like that of a Gaussian. Use zcdp_to_approx."
    )


def zcdp_to_gdp(guarantee: ZCDP) -> NoReturn:
    """Does not exist."""
    raise NoConversion(
        f"{guarantee!r} implies no GDP: no finite μ fits below every trade-off function that zCDP allows."
        " Use zcdp_to_profile or zcdp_to_fdp."
    )


def approx_zcdp_to_approx(guarantee: ApproxZCDP, *, delta: Number) -> ApproxDP:
    """(ε, δ₀ + (1 − δ₀)δ′) with (ε, δ′) from ρ-zCDP. Upper bound: Bun–Steinke 2016, section 8.

    The good events may be thinned, independently of the output, to probability exactly 1 − δ₀; on them the ρ-zCDP
    bound holds, and off them the probability is at most δ₀.
    """
    allowed = _checks.inner_probability("delta", delta)
    fail = guarantee.delta
    if allowed <= fail:
        raise NoConversion(
            f"{guarantee!r} fails with probability {_checks.shown(fail)}, so it reaches no δ at or below that;"
            f" got delta={_checks.shown(allowed)}. Ask for a larger delta."
        )
    share = float_below((allowed - fail) / (1 - fail))
    epsilon = concentrated_epsilon(float_above(guarantee.rho), share)
    return ApproxDP(fraction_above(epsilon), allowed, relation=guarantee.relation, unit=guarantee.unit)


def tcdp_to_rdp(guarantee: TCDP, *, order: Number) -> RDP:
    """D_α ≤ αρ for α < ω. Exact: the definition."""
    alpha = _checks.order("order", order)
    if alpha >= guarantee.omega:
        raise NoConversion(f"{guarantee!r} says nothing about order {_checks.shown(alpha)}. Choose one below omega.")
    return RDP(alpha, alpha * guarantee.rho, relation=guarantee.relation, unit=guarantee.unit)


def tcdp_to_approx(guarantee: TCDP, *, delta: Number) -> ApproxDP:
    """The zCDP formula over orders α < ω. Upper bound."""
    allowed = _checks.inner_probability("delta", delta)
    epsilon = concentrated_epsilon(float_above(guarantee.rho), float_below(allowed), omega=float_below(guarantee.omega))
    return ApproxDP(fraction_above(epsilon), allowed, relation=guarantee.relation, unit=guarantee.unit)


def tcdp_to_profile(guarantee: TCDP) -> Profile:
    """The zCDP curve over orders α < ω. Upper bound."""
    rho, omega = float_above(guarantee.rho), float_below(guarantee.omega)
    return bound_profile(
        guarantee,
        "truncated CDP at the best Rényi order",
        lambda epsilon: concentrated_delta(rho, epsilon, omega=omega),
        lambda delta: concentrated_epsilon(rho, delta, omega=omega),
    )


def tcdp_to_zcdp(guarantee: TCDP) -> NoReturn:
    """Does not exist."""
    raise NoConversion(
        f"{guarantee!r} implies no ZCDP: nothing is promised about orders from omega on, where the divergence may be"
        " infinite. Use tcdp_to_approx or tcdp_to_rdp."
    )


def concentrated_epsilon(rho: float, delta: float, *, omega: float = math.inf) -> float:
    """The smallest ε found for ρ-zCDP (orders below ω) at a δ, rounded up; 0 for ρ = 0."""
    if rho == 0 or delta >= 1:
        return 0.0
    if delta == 0:
        return math.inf
    log_delta = math.log(delta)

    def cost(beyond: float) -> float:
        return renyi.renyi_epsilon(1 + beyond, rho * (1 + beyond), log_delta)

    return _best(cost, math.sqrt(-log_delta / rho), omega)


def concentrated_delta(rho: float, epsilon: float, *, omega: float = math.inf) -> float:
    """The smallest δ found for ρ-zCDP (orders below ω) at an ε, rounded up; 0 for ρ = 0."""
    if rho == 0:
        return 0.0

    def cost(beyond: float) -> float:
        return renyi.renyi_log_delta(1 + beyond, rho * (1 + beyond), epsilon)

    middle = max((epsilon - rho) / (2 * rho), 0.5 / (1 + rho), 1e-3)
    if epsilon > 1:  # at such an order δ is too small for a float already
        middle = min(middle, max(1e6 / epsilon, 1e-3))
    return min(exp_above(_best(cost, middle, omega)), 1.0)


def _best(cost: Callable[[float], float], middle: float, omega: float) -> float:
    """The lowest cost over orders 1 + b, b around a guess, below ω."""
    most = (omega - 1) * (1 - 2.0**-40) if omega < math.inf else math.inf
    high = min(middle * 100, most)
    return lowest(cost, min(middle / 100, high / 2), high)[1]
