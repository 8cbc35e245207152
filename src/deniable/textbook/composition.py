"""Composition theorems for each kind of promise: basic, advanced, concentrated, Gaussian, and of trade-off functions.

>>> from deniable.guarantees import GDP
>>> compose_gdp([GDP(3), GDP(4)])
GDP(mu=5)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from deniable import _checks
from deniable._checks import Number
from deniable.conversions.formulas import classic_rho_limit, exponential_rho, pure_rho
from deniable.errors import InvalidArgument
from deniable.guarantees import FDP, GDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.numerics.exact import root_above, sqrt_down
from deniable.numerics.rounding import above, float_above, float_below, fraction_above
from deniable.units import AnyRelation, Relation, one_relation, one_unit

Kind = TypeVar("Kind", bound=Guarantee)


def compose_basic(parts: Sequence[PureDP | ApproxDP]) -> PureDP | ApproxDP:
    """(Σε_i, Σδ_i). Exact for pure DP, an upper bound otherwise.

    Basic composition: costs add up.

    Mechanisms that are (ε_i, δ_i)-DP, chosen adaptively, are together (Σε_i, Σδ_i)-DP (Dwork–McSherry–Nissim–Smith
    2006; Dwork–Roth 2014, Theorem 3.16). Sums are exact: three charges of 0.1 are 0.3.

    >>> from deniable.guarantees import PureDP
    >>> compose_basic([PureDP(0.1)] * 3)
    PureDP(epsilon=0.3)
    """
    first = together(parts)
    epsilon = sum((part.epsilon for part in parts), Fraction(0))
    if all(isinstance(part, PureDP) for part in parts):
        return PureDP(epsilon, relation=first.relation, unit=first.unit)
    delta = sum((delta_of(part) for part in parts), Fraction(0))
    return ApproxDP(epsilon, min(delta, Fraction(1)), relation=first.relation, unit=first.unit)


def repeat_basic(guarantee: PureDP | ApproxDP, *, count: int) -> PureDP | ApproxDP:
    """(kε, kδ)."""
    times = _checks.count("count", count)
    if isinstance(guarantee, PureDP):
        return PureDP(times * guarantee.epsilon, relation=guarantee.relation, unit=guarantee.unit)
    delta = min(times * guarantee.delta, Fraction(1))
    return ApproxDP(times * guarantee.epsilon, delta, relation=guarantee.relation, unit=guarantee.unit)


def together(parts: Sequence[Kind]) -> Kind:
    """The first of several promises that speak of one unit under one relation."""
    if not parts:
        raise InvalidArgument("parts", parts, "one promise or more")
    for part in parts:
        if not isinstance(part, Guarantee):
            raise InvalidArgument("parts", part, "a guarantee")
        one_relation(parts[0].relation, part.relation, doing="compose")
        one_unit(parts[0].unit, part.unit, doing="compose")
    return parts[0]


def delta_of(guarantee: PureDP | ApproxDP) -> Fraction:
    """δ, which a pure promise has as 0."""
    return guarantee.delta if isinstance(guarantee, ApproxDP) else Fraction(0)


def repeat_advanced(guarantee: PureDP | ApproxDP, *, count: int, slack: Number) -> ApproxDP:
    """The better of `advanced_tanh` and basic composition. Upper bound.

    Advanced composition: k adaptive steps cost about √k, for a little δ′ of slack.

    Losses of ε-DP steps lie in [−ε, ε] with mean at most ε·tanh(ε/2); Azuma's inequality bounds their sum. An (ε, δ)-DP
    step is an ε-DP step that fails with probability δ (Kairouz–Oh–Viswanath 2015), so k steps and slack δ′ give
    δ_total = 1 − (1 − δ)^k(1 − δ′) ≤ kδ + δ′, and any of these for ε:

    | form | ε_total | source |
    |---|---|---|
    | `advanced_tanh` | ε√(2k ln 1/δ′) + kε·tanh(ε/2) | Kairouz–Oh–Viswanath 2015, Theorem 3.4 |
    | `advanced_half` | ε√(2k ln 1/δ′) + kε²/2 | notes 001; Bun–Steinke 2016; tanh(x) ≤ x |
    | `advanced_square` | ε√(2k ln 1/δ′) + kε², ε < 1 | notes 003 |
    | `advanced_exponential` | ε√(2k ln 1/δ′) + kε(e^ε − 1) | Dwork–Rothblum–Vadhan 2010; notes 004 |

    A fifth form is in print, with k(e^ε − 1)/(e^ε + 1) as its second term (notes 002). It lacks a factor ε and is
    unsound for ε > 1, so it is not here; docs/calculus.md has the counter-example.

    >>> from deniable.guarantees import PureDP
    >>> print(advanced_tanh(PureDP(0.1), count=100, slack=1e-6))
    ε ≤ 5.76, δ = 1e-6, one record added or removed
    """
    best = advanced_tanh(guarantee, count=count, slack=slack)
    plain = repeat_basic(guarantee, count=count)
    return ApproxDP(min(best.epsilon, plain.epsilon), best.delta, relation=best.relation, unit=best.unit)


def advanced_tanh(guarantee: PureDP | ApproxDP, *, count: int, slack: Number) -> ApproxDP:
    """ε√(2k ln 1/δ′) + kε·tanh(ε/2). Upper bound, the best of the simple ones."""
    return _form(guarantee, count, slack, lambda epsilon: float_above(pure_rho(Fraction(epsilon))))


def advanced_half(guarantee: PureDP | ApproxDP, *, count: int, slack: Number) -> ApproxDP:
    """ε√(2k ln 1/δ′) + kε²/2. Upper bound."""
    return _form(guarantee, count, slack, lambda epsilon: epsilon * epsilon / 2)


def advanced_square(guarantee: PureDP | ApproxDP, *, count: int, slack: Number) -> ApproxDP:
    """ε√(2k ln 1/δ′) + kε², printed for ε < 1. Upper bound, twice as loose in its second term as `advanced_half`."""
    if guarantee.epsilon >= 1:
        raise InvalidArgument("epsilon", guarantee.epsilon, "below 1 for this form", "Use advanced_tanh.")
    return _form(guarantee, count, slack, lambda epsilon: epsilon * epsilon)


def advanced_exponential(guarantee: PureDP | ApproxDP, *, count: int, slack: Number) -> ApproxDP:
    """ε√(2k ln 1/δ′) + kε(e^ε − 1). Upper bound, the loosest."""
    if guarantee.epsilon > 700:
        raise InvalidArgument("epsilon", guarantee.epsilon, "at most 700 for this form", "Use advanced_tanh.")
    return _form(guarantee, count, slack, lambda epsilon: epsilon * math.expm1(epsilon))


def compose_advanced(parts: Sequence[PureDP | ApproxDP], *, slack: Number) -> ApproxDP:
    """Steps with different (ε_i, δ_i), fixed in advance. Upper bound: Kairouz–Oh–Viswanath 2015, Theorem 3.5.

    With S = Σε_i·tanh(ε_i/2) and V = Σε_i², ε is the least of Σε_i, S + √(2V ln 1/δ′) and S + √(2V ln(e + √V/δ′)), and
    δ = 1 − (1 − δ′)Π(1 − δ_i). Steps whose ε_i is chosen from earlier answers need a filter instead.
    """
    first = together(parts)
    allowed = _checks.inner_probability("slack", slack)
    epsilons = [float_above(part.epsilon) for part in parts]
    drift = above(math.fsum(float_above(pure_rho(part.epsilon)) for part in parts))
    spread = above(math.fsum(e * e for e in epsilons))
    small = float_below(allowed)
    tails = (-math.log(small), _log_sum(spread, small))
    found = min(above(drift + above(math.sqrt(2 * spread * tail))) for tail in tails)
    failed = failure([(allowed, 1), *((delta_of(part), 1) for part in parts)])
    plain = compose_basic(parts).epsilon
    return ApproxDP(min(fraction_above(found), plain), failed, relation=first.relation, unit=first.unit)


def per_query_budget(target: ApproxDP, *, count: int) -> PureDP:
    """The ε₀ that each of k pure queries may spend: ε₀ = √(2/k)·(√(ln 1/δ + ε) − √(ln 1/δ)), or ε/k if that is more.

    It solves ε₀√(2k ln 1/δ) + kε₀²/2 = ε, so k queries at ε₀ are (ε, δ)-DP by `advanced_half`; rounded down. Dropping
    the second term, as notes 001 do, overspends.
    """
    times = _checks.count("count", count)
    if not 0 < target.delta < 1:
        raise InvalidArgument("delta", target.delta, "strictly between 0 and 1", "Without δ each query gets ε/k.")
    # kε₀²/2 is the ρ of k steps of ε₀.
    share = sqrt_down(2 * classic_rho_limit(target.epsilon, target.delta) / times)
    best = max(Fraction(float_below(share)), target.epsilon / times)
    return PureDP(best, relation=target.relation, unit=target.unit)


def _form(guarantee: PureDP | ApproxDP, count: int, slack: Number, drift: Callable[[float], float]) -> ApproxDP:
    times = _checks.count("count", count)
    allowed = _checks.inner_probability("slack", slack)
    epsilon = float_above(guarantee.epsilon)
    spread = epsilon * math.sqrt(2 * times * -math.log(float_below(allowed)))
    total = fraction_above(above(spread + times * drift(epsilon), ulps=64))
    failed = failure([(delta_of(guarantee), times), (allowed, 1)])
    return ApproxDP(total, failed, relation=guarantee.relation, unit=guarantee.unit)


def failure(parts: Sequence[tuple[Fraction, int]]) -> Fraction:
    """1 − Π(1 − δ_i)^{k_i}, rounded up; the sum Σk_iδ_i where that is smaller after rounding, as for a single δ."""
    total = sum((delta * times for delta, times in parts), Fraction(0))
    if any(float_above(delta) >= 1 for delta, _ in parts):
        return min(total, Fraction(1))
    kept = math.fsum(times * math.log1p(-float_above(delta)) for delta, times in parts)
    return min(fraction_above(above(-math.expm1(kept), ulps=64)), total, Fraction(1))


def _log_sum(spread: float, slack: float) -> float:
    """ln(e + √V/δ′), rounded up."""
    ratio = 0.5 * math.log(spread) - math.log(slack) if spread else -math.inf
    return above(max(1.0, ratio) + math.log1p(math.exp(-abs(ratio - 1))) if ratio > -math.inf else 1.0)


def compose_zcdp(parts: Sequence[ZCDP]) -> ZCDP:
    """Σρ_i. Exact for Gaussians.

    Composition of concentrated differential privacy: ρ adds up.

    Rényi divergences of adaptive compositions add at every order (Bun–Steinke 2016, Lemma 2.2; the chain rule), so
    Σρ_i-zCDP; truncated CDP keeps the orders that all parts have; approximate zCDP adds its failures. Sums are exact.

    >>> from deniable.guarantees import ZCDP
    >>> compose_zcdp([ZCDP(0.1), ZCDP(0.2)])
    ZCDP(rho=0.3)
    """
    first = together(parts)
    return ZCDP(sum((part.rho for part in parts), Fraction(0)), relation=first.relation, unit=first.unit)


def compose_tcdp(parts: Sequence[TCDP]) -> TCDP:
    """Σρ_i, the smallest ω_i (Bun–Dwork–Rothblum–Steinke 2018, composition of tCDP)."""
    first = together(parts)
    rho = sum((part.rho for part in parts), Fraction(0))
    return TCDP(rho, min(part.omega for part in parts), relation=first.relation, unit=first.unit)


def compose_approx_zcdp(parts: Sequence[ApproxZCDP]) -> ApproxZCDP:
    """Σρ_i, and 1 − Π(1 − δ_i) (Bun–Steinke 2016, section 8): condition on the good events of all parts."""
    first = together(parts)
    rho = sum((part.rho for part in parts), Fraction(0))
    failed = failure([(part.delta, 1) for part in parts])
    return ApproxZCDP(rho, failed, relation=first.relation, unit=first.unit)


def gaussian_zcdp(*, scale: Number, sensitivity: Number = 1, relation: AnyRelation = Relation.ADD_REMOVE) -> ZCDP:
    """ρ = Δ²/(2σ²). Exact; for the discrete Gaussian an upper bound, equal at integer orders (Canonne et al. 2020)."""
    relation = Relation.of(relation)
    ratio = _checks.positive("sensitivity", sensitivity) / _checks.positive("scale", scale)
    return ZCDP(ratio**2 / 2, relation=relation)


def exponential_mechanism_zcdp(*, epsilon: Number, relation: AnyRelation = Relation.ADD_REMOVE) -> ZCDP:
    """ρ = ε²/8: the loss of the exponential mechanism has range ε, not 2ε. Upper bound; `formulas` has the proof."""
    relation = Relation.of(relation)
    return ZCDP(exponential_rho(_checks.positive("epsilon", epsilon)), relation=relation)


def compose_gdp(parts: Sequence[GDP]) -> GDP:
    """√Σμ_i², rounded up unless it is rational. Exact for Gaussians.

    Composition of Gaussian differential privacy: μ² adds up.

    N(μ₁, 1) × N(μ₂, 1) against N(0, 1)² is one Gaussian pair at distance √(μ₁² + μ₂²), so GDP composes exactly
    (Dong–Roth– Su 2019, Cor. 3.3), adaptively when the μ_i are fixed in advance. With Gaussian steps do not split (ε,
    δ): compose μ.

    >>> from deniable.guarantees import GDP
    >>> compose_gdp([GDP(3), GDP(4)])
    GDP(mu=5)
    """
    first = together(parts)
    squares = sum((part.mu**2 for part in parts), Fraction(0))
    return GDP(root_above(squares), relation=first.relation, unit=first.unit)


def compose_gdp_repeated(guarantee: GDP, *, count: int) -> GDP:
    """√k·μ. Exact for Gaussians."""
    times = _checks.count("count", count)
    return GDP(root_above(times * guarantee.mu**2), relation=guarantee.relation, unit=guarantee.unit)


def scale_per_query(total: GDP, *, count: int, sensitivity: Number = 1) -> Fraction:
    """The σ = √k·Δ/μ of each of k Gaussian queries that are together μ-GDP, rounded up."""
    times = _checks.count("count", count)
    moved = _checks.positive("sensitivity", sensitivity)
    if not total.mu:
        raise InvalidArgument("mu", total.mu, "a positive number", "No finite noise gives μ = 0.")
    return root_above(times * (moved / total.mu) ** 2)


def compose_fdp(parts: Sequence[FDP], *, lines: int = 256) -> FDP:
    """f₁ ⊗ … ⊗ f_k, symmetrised first. Exact up to `lines` lines; beyond, lowered to that many (an upper bound).

    Composition of trade-off functions: f ⊗ g = T(P × P′, Q × Q′) when f = T(P, Q), g = T(P′, Q′).

    It does not depend on the pairs chosen, and bounds the adaptive composition of an f-DP and a g-DP step (Dong–Roth–Su
    2019, Def. 3.1 and Theorem 3.2). Piecewise linear functions come from finite pairs (`TradeOff.atoms`), so the
    product is finite and computed exactly; it has up to as many lines as the product of the two numbers, and may be
    lowered.

    >>> from deniable.guarantees import FDP, TradeOff
    >>> half = FDP(TradeOff.of_lines([(2, 0)]))
    >>> len(compose_fdp([half, half]).tradeoff.corners)
    4
    """
    first = together(parts)
    most = _checks.count("lines", lines, least=3)
    total = TradeOff.perfect()
    for part in parts:
        total = product(total, part.tradeoff.symmetrized()).simplify(most)
    return FDP(total, relation=first.relation, unit=first.unit)


def product(first: TradeOff, second: TradeOff) -> TradeOff:
    """f ⊗ g, exactly: all products of atoms, the most telling ones first."""
    masses: dict[Fraction | None, tuple[Fraction, Fraction]] = {}
    for p, q in first.atoms:
        for r, s in second.atoms:
            false, caught = p * r, q * s
            if not false and not caught:
                continue
            # The likelihood ratio P/Q: small means telling; None (nothing caught) comes last.
            key = false / caught if caught else None
            before = masses.get(key, (Fraction(0), Fraction(0)))
            masses[key] = (before[0] + false, before[1] + caught)
    alpha, missed = Fraction(0), Fraction(1)
    corners: list[tuple[Fraction, Fraction]] = []
    ordered = sorted((key for key in masses if key is not None), key=lambda ratio: ratio)
    if not ordered or ordered[0] > 0:
        corners.append((alpha, missed))
    for key in [*ordered, *([None] if None in masses else [])]:
        false, caught = masses[key]
        alpha, missed = alpha + false, missed - caught
        corners.append((alpha, missed))
    return TradeOff(corners)
