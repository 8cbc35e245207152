"""The theorems behind the arrows, in exact fractions: each is written here once, and proved or cited.

Costs are rounded up and limits down. The arrows of this room, the classical theorems and the filters of a ledger read
them; where a float is wanted, `float_above` of the fraction is one, and `short_above` is a number that people can read.

Limits are arrows solved for what is spent: how much may be added up for (ε, δ). Where the best order or the best μ has
no closed form it is searched for in floats, and then the answer is proved in exact fractions: a poor search could only
cost tightness.

>>> round(float(response_divergence(Fraction(1), Fraction(2))), 12)
0.735325664056
>>> round(float(rho_limit(Fraction("1.91424"), Fraction(1, 10**5))), 4)
0.1
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from deniable.numerics.exact import (
    LARGEST,
    UPWARD,
    decimal_above,
    exp_down,
    exp_up,
    floor,
    log_down,
    log_up,
    rational_root,
    sqrt_up,
)
from deniable.numerics.normal import delta_up
from deniable.numerics.roots import crossing

_FAR = Fraction(2 * LARGEST)
"""Exponents are not evaluated beyond this; a bound without the exponential takes over."""

_GONE = Fraction(400)
"""e^−x beyond this is below 10^−170, and changes no digit of 1 + e^−x; the bound at 400 stands for it."""

_NEAR = Fraction(1, 10**20)
"""An ε below this is so small that sixty digits of e^ε − 1 are few; its bound by ε·e^ε is closer."""


def pure_rho(epsilon: Fraction) -> Fraction:
    """At least the smallest ρ for which every ε-DP step is ρ-zCDP: ε·tanh(ε/2), which is at most ε²/2 and at most ε.

    Every ε-DP pair is a post-processing of randomized response (`pure` cites the proof), for which
    (α − 1) D_α = ln cosh((α − ½)ε) − ln cosh(ε/2). With u = (α − ½)², ln cosh(ε√u) is concave in u, because tanh(x)/x
    decreases; its tangent at u = ¼ gives (α − 1) D_α ≤ (u − ¼) ε tanh(ε/2) = α(α − 1) ε tanh(ε/2). At α → 1 it is met.
    """
    if epsilon > 100:
        return epsilon
    tanh = 1 - 2 / (exp_up(epsilon) + 1)
    return min(epsilon * epsilon / 2, epsilon * tanh)


def response_divergence(epsilon: Fraction, order: Fraction, *, categories: int = 2) -> Fraction:
    """At least D_α of randomized response among k categories; for k = 2 no ε-DP step has a larger one.

    The truth has probability e^ε·q and every lie q, so with r = e^−ε

        (α − 1) D_α = (α − 1)ε + ln(1 + r^(2α−1) + (k − 2)r^α) − ln(1 + (k − 1)r),

    each term rounded on its own side. It is at most ε and at most α·`pure_rho`.
    """
    others = categories - 2
    rare = exp_up(-min((2 * order - 1) * epsilon, _GONE))
    if others:
        rare += others * exp_up(-min(order * epsilon, _GONE))
    lies = (1 + others) * exp_down(-epsilon) if epsilon <= _GONE else Fraction(0)
    tail = log_up(1 + rare) - log_down(1 + lies)
    simple = min(epsilon, order * pure_rho(epsilon))
    return min(simple, max(Fraction(0), epsilon + tail / (order - 1)))


def exponential_rho(epsilon: Fraction) -> Fraction:
    """ε²/8: the ρ of an exponential mechanism that is ε-DP, because its loss has range ε, not 2ε. Exact arithmetic.

    A loss L with E_P e^−L = 1 and range ε has ln E_P e^(λL) ≤ λ(λ + 1)ε²/8: Hoeffding's lemma around the mean m bounds
    ln E e^(tL) by tm + t²ε²/8 for every real t; at t = −1 the left side is 0, so m ≤ ε²/8. Durfee and Rogers 2019 show
    the range, Cesar and Rogers 2021 this bound.
    """
    return epsilon**2 / 8


def log_mixture(exponent: Fraction, share: Fraction) -> Fraction:
    """At least ln(1 − q + q·e^x) for x ≥ 0: what is left of an exponent when only a share q of a mixture has it."""
    if exponent > _FAR:
        return exponent + log_up(share + (1 - share) * exp_up(-_FAR))
    # ln(1 + y) ≤ y, and e^x − 1 ≤ x·e^x: closer where y or x is so small that sixty digits of 1 + y are few.
    growth = exp_up(exponent) - 1 if exponent > _NEAR else exponent * exp_up(exponent)
    return min(log_up(1 + share * growth), share * growth)


def amplified_epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """At least ln(1 + q(e^ε − 1)), and at most ε: an ε-DP step on a sample (Balle, Barthe and Gaboardi 2018)."""
    return min(epsilon, log_mixture(epsilon, rate))


def group_delta(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """At least δ(1 + e^ε + … + e^((k−1)ε)), and at most 1: the δ of an (ε, δ)-DP step for k units.

    One unit after the other: P(S) ≤ e^ε R(S) + δ and R(S) ≤ e^ε Q(S) + δ (as in the proof of group privacy of Vadhan
    2017, "The complexity of differential privacy", section 2).
    """
    if not delta or size * epsilon > _FAR:
        return Fraction(1 if delta else 0)
    last = (size - 1) * epsilon
    terms = size * exp_up(last) if last else Fraction(size)
    if epsilon > _NEAR:
        terms = min(terms, (exp_up(size * epsilon) - 1) / (exp_down(epsilon) - 1))
    return min(Fraction(1), delta * terms)


def sampled_gaussian_divergence(ratio: Fraction, rate: Fraction, order: Fraction) -> Fraction:
    """At least D_α of Gaussian noise on a Poisson sample; `ratio` is (sensitivity/scale)².

    At whole orders (α − 1) D_α = ln Σ_k C(α, k) (1 − q)^(α−k) q^k e^(k(k−1)·ratio/2) (Mironov, Talwar and Zhang 2019,
    section 3.3). A fractional order is bounded by the next whole one, for D_α does not decrease; without sampling it is
    α·ratio/2.
    """
    whole = math.ceil(order)
    plain = order * ratio / 2
    if whole * (whole - 1) * ratio / 2 > _FAR:
        return plain
    powers, missed = [Decimal(1)], [Decimal(1)]
    for _ in range(whole):
        powers.append(UPWARD.multiply(powers[-1], decimal_above(rate)))
        missed.append(UPWARD.multiply(missed[-1], decimal_above(1 - rate)))
    total = Decimal(0)
    for k in range(whole + 1):
        grown = decimal_above(exp_up(Fraction(k * (k - 1)) * ratio / 2))
        weight = UPWARD.multiply(powers[k], missed[whole - k])
        chosen = UPWARD.multiply(decimal_above(Fraction(math.comb(whole, k))), weight)
        total = UPWARD.add(total, UPWARD.multiply(chosen, grown))
    return min(plain, max(Fraction(0), log_up(Fraction(total)) / (whole - 1)))


def renyi_limit(epsilon: Fraction, delta: Fraction, order: Fraction) -> Fraction:
    """At most the largest D_α for which (α, D_α)-RDP gives (ε, δ)-DP; not positive when there is none.

    δ = e^((α−1)(D−ε)) (1 − 1/α)^α / (α − 1) (Canonne, Kamath and Steinke 2020, Proposition 12), which solved for D is
    ε + (ln δ + ln α)/(α − 1) − ln(1 − 1/α).
    """
    return floor(epsilon + (log_down(delta) + log_down(order)) / (order - 1) - log_up(1 - 1 / order))


def rho_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """At most the largest ρ for which ρ-zCDP gives (ε, δ)-DP: D_α ≤ ρα, so any order's limit over α is sound."""
    return _rho_limit_at(epsilon, delta, _best_order(epsilon, delta))


def classic_rho_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """At most the largest ρ with ρ + 2√(ρ ln(1/δ)) ≤ ε (Bun and Steinke 2016, Proposition 1.3), for 0 < δ < 1.

    √ρ = √(l + ε) − √l = ε/(√(l + ε) + √l) with l = ln(1/δ): no cancellation. It grows as l falls.
    """
    most = -log_down(delta)
    return (epsilon / (sqrt_up(most + epsilon) + sqrt_up(most))) ** 2


def rho_keeps(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether an order is found at which ρ-zCDP gives (ε, δ)-DP.

    Another machine's floats may have found a slightly better order than `rho_limit` finds here: its neighbours are
    tried as well. What is accepted is proved in exact fractions.
    """
    best = float(_best_order(epsilon, delta))
    return any(_rho_limit_at(epsilon, delta, best * 10 ** (k / 10_000)) >= rho for k in range(-40, 41))


def gaussian_keeps(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether μ-GDP gives (ε, δ)-DP."""
    root = rational_root(mu_squared)
    mu = sqrt_up(mu_squared) if root is None else root
    return mu == 0 or delta_up(mu, epsilon) <= delta


def gaussian_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """At most the largest μ² for which μ-GDP gives (ε, δ)-DP; δ(ε) increases in μ."""
    e, d = float(epsilon), float(delta)

    def curve(mu: float) -> float:
        near, far = (e / mu - mu / 2) / math.sqrt(2), (e / mu + mu / 2) / math.sqrt(2)
        # e^ε·erfc(far) by logarithms, for e^ε may be large where erfc is small.
        behind = math.erfc(far)
        return (math.erfc(near) - (math.exp(e + math.log(behind)) if behind else 0.0)) / 2

    low = crossing(lambda mu: curve(mu) > d, 1e-9, 1e4)[0]
    # Floats lose digits where the two terms are close: step back until the exact curve agrees.
    mu, back = Fraction(low).limit_denominator(10**15), Fraction(1, 10**12)
    while mu > 0 and delta_up(mu, epsilon) > delta:
        mu = (mu * (1 - back)).limit_denominator(10**15)
        back = min(2 * back, Fraction(1, 2))
    return mu * mu


def _rho_limit_at(epsilon: Fraction, delta: Fraction, beyond: float) -> Fraction:
    """The limit on ρ by way of the order 1 + beyond."""
    order = 1 + Fraction(beyond).limit_denominator(10**9)
    return floor(renyi_limit(epsilon, delta, order) / order)


def _best_order(epsilon: Fraction, delta: Fraction) -> float:
    """About the order, less 1, at which zCDP converts best."""
    e, log_delta = float(epsilon), float(log_down(delta))

    def limit(beyond: float) -> float:
        order = 1 + beyond
        return (e + (log_delta + math.log(order)) / beyond - math.log(beyond / order)) / order

    # α − 1 from 1e-3 to 1e9: first in steps of a tenth of a decade, then finer around the best.
    best = max((10 ** (k / 10) for k in range(-30, 91)), key=limit)
    for step in (50, 500):
        best = max((best * 10 ** (k / step) for k in range(-10, 11)), key=limit)
    return best
