"""Advanced composition: k adaptive steps cost about √k, for a little δ′ of slack.

Losses of ε-DP steps lie in [−ε, ε] with mean at most ε·tanh(ε/2); Azuma's inequality bounds their sum. An (ε, δ)-DP
step is an ε-DP step that fails with probability δ (Kairouz–Oh–Viswanath 2015), so k steps and slack δ′ give
δ_total = 1 − (1 − δ)^k(1 − δ′) ≤ kδ + δ′, and any of these for ε:

| form | ε_total | source |
|---|---|---|
| `advanced_tanh` | ε√(2k ln 1/δ′) + kε·tanh(ε/2) | Kairouz–Oh–Viswanath 2015, Theorem 3.4 |
| `advanced_half` | ε√(2k ln 1/δ′) + kε²/2 | notes 001; Bun–Steinke 2016; tanh(x) ≤ x |
| `advanced_square` | ε√(2k ln 1/δ′) + kε², ε < 1 | notes 003 |
| `advanced_exponential` | ε√(2k ln 1/δ′) + kε(e^ε − 1) | Dwork–Rothblum–Vadhan 2010; notes 004 |

A fifth form is in print, with k(e^ε − 1)/(e^ε + 1) as its second term (notes 002). It lacks a factor ε and is unsound
for ε > 1, so it is not here; docs/calculus.md has the counter-example.

>>> from deniable.guarantees import PureDP
>>> print(advanced_tanh(PureDP(0.1), count=100, slack=1e-6))
ε ≤ 5.76, δ = 1e-6, one record added or removed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.theorems.basic import compose_basic, delta_of, repeat_basic, together
from deniable.conversions.formulas import classic_rho_limit, pure_rho
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, PureDP
from deniable.numerics.exact import sqrt_down
from deniable.numerics.rounding import above, float_above, float_below, fraction_above


def repeat_advanced(guarantee: PureDP | ApproxDP, *, count: int, slack: Number) -> ApproxDP:
    """The better of `advanced_tanh` and basic composition. Upper bound."""
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
