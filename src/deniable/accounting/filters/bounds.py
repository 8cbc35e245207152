"""The formulas behind `costs`, rounded up, as exact fractions.

>>> round(float(pure_to_renyi(Fraction(1), Fraction(2))), 12)
0.735325664056
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from deniable.numerics.exact import LARGEST, UPWARD, decimal_above, exp_down, exp_up, log_down, log_up

_FAR = 2 * LARGEST
"""Exponents beyond this are not evaluated; a bound without the exponential takes over."""


def pure_to_rho(epsilon: Fraction) -> Fraction:
    """ε-DP is ε·tanh(ε/2)-zCDP, at most ε²/2 and at most ε.

    Every ε-DP pair is a post-processing of randomized response (`conversions.pure` cites the proof), for which
    (α − 1) D_α = ln cosh((α − ½)ε) − ln cosh(ε/2). With u = (α − ½)², ln cosh(ε√u) is concave in u, because tanh(x)/x
    decreases; its tangent at u = ¼ gives (α − 1) D_α ≤ (u − ¼) ε tanh(ε/2) = α(α − 1) ε tanh(ε/2).
    """
    if epsilon > 100:
        return epsilon
    tanh = 1 - 2 / (exp_up(epsilon) + 1)
    return min(epsilon * epsilon / 2, epsilon * tanh)


def pure_to_renyi(epsilon: Fraction, order: Fraction) -> Fraction:
    """D_α of an ε-DP step: randomized response is the worst (same theorem), at most ε and at most αρ."""
    simple = min(epsilon, order * pure_to_rho(epsilon))
    if (2 * order - 1) * epsilon > _FAR:
        return simple
    # ln cosh x = x − ln 2 + ln(1 + e^(−2x)); the terms are grouped so that each is rounded on its own side.
    tail = log_up(1 + exp_up(-(2 * order - 1) * epsilon)) - log_down(1 + exp_down(-epsilon))
    return min(simple, max(Fraction(0), epsilon + tail / (order - 1)))


def amplified(epsilon: Fraction, rate: Fraction) -> Fraction:
    """ln(1 + q(e^ε − 1)), at most ε."""
    if epsilon > _FAR:
        return epsilon
    return min(epsilon, log_up(1 + rate * (exp_up(epsilon) - 1)))


def group_delta(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """δ(1 + e^ε + … + e^((k−1)ε)): the δ of an (ε, δ)-DP step for k units, at most 1.

    One unit after the other: P(S) ≤ e^ε R(S) + δ and R(S) ≤ e^ε Q(S) + δ (as in the proof of group privacy of Vadhan
    2017, "The complexity of differential privacy", section 2).
    """
    if size * epsilon > _FAR:
        return Fraction(1)
    crude = delta * size * exp_up((size - 1) * epsilon)
    if epsilon > Fraction(1, 1000):
        crude = min(crude, delta * (exp_up(size * epsilon) - 1) / (exp_down(epsilon) - 1))
    return min(Fraction(1), crude)


def sampled_gaussian_renyi(ratio: Fraction, rate: Fraction, order: Fraction) -> Fraction:
    """D_α of Gaussian noise on a Poisson sample; `ratio` is (sensitivity/scale)².

    At whole orders (α − 1) D_α = ln Σ_k C(α, k) (1 − q)^(α−k) q^k e^(k(k−1)·ratio/2) (Mironov, Talwar and Zhang 2019,
    section 3.3). A fractional order is bounded by the next whole one, for D_α does not decrease; without sampling it is
    α·ratio/2.
    """
    whole = math.ceil(order)
    plain = order * ratio / 2
    if whole * (whole - 1) * ratio / 2 > _FAR:
        return plain
    kept, missed = [Decimal(1)], [Decimal(1)]
    for _ in range(whole):
        kept.append(UPWARD.multiply(kept[-1], decimal_above(rate)))
        missed.append(UPWARD.multiply(missed[-1], decimal_above(1 - rate)))
    total = Decimal(0)
    for k in range(whole + 1):
        grown = decimal_above(exp_up(Fraction(k * (k - 1)) * ratio / 2))
        weight = UPWARD.multiply(kept[k], missed[whole - k])
        chosen = UPWARD.multiply(decimal_above(Fraction(math.comb(whole, k))), weight)
        total = UPWARD.add(total, UPWARD.multiply(chosen, grown))
    return min(plain, max(Fraction(0), log_up(Fraction(total)) / (whole - 1)))
