"""How large a sum may grow for (ε, δ): the conversions, solved for the sum and rounded down.

Where the best order or the best μ has no closed form it is searched for in floats, and then the answer is proved in
exact fractions: a poor search could only cost tightness.

>>> round(float(rho_limit(Fraction("1.91424"), Fraction(1, 10**5))), 4)
0.1
"""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.numerics.exact import floor, log_down, log_up, sqrt_up
from deniable.numerics.normal import delta_up


def renyi_limit(epsilon: Fraction, delta: Fraction, order: Fraction) -> Fraction:
    """The largest D_α for which (α, D_α)-RDP gives (ε, δ)-DP; not positive when there is none.

    δ = e^((α−1)(D−ε)) (1 − 1/α)^α / (α − 1) (Canonne, Kamath and Steinke 2020, Proposition 12), which solved for D is
    ε + (ln δ + ln α)/(α − 1) − ln(1 − 1/α).
    """
    return floor(epsilon + (log_down(delta) + log_down(order)) / (order - 1) - log_up(1 - 1 / order))


def rho_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ for which ρ-zCDP gives (ε, δ)-DP: D_α ≤ ρα at every order, so any order's limit over α is sound."""
    return _rho_limit_at(epsilon, delta, _best_order(epsilon, delta))


def rho_keeps(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether an order is found at which ρ-zCDP gives (ε, δ)-DP.

    Another machine's floats may have found a slightly better order than `rho_limit` finds here: its neighbours are
    tried as well. What is accepted is proved in exact fractions.
    """
    best = float(_best_order(epsilon, delta))
    return any(_rho_limit_at(epsilon, delta, best * 10 ** (k / 10_000)) >= rho for k in range(-40, 41))


def gaussian_keeps(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether μ-GDP gives (ε, δ)-DP."""
    root = Fraction(math.isqrt(mu_squared.numerator), math.isqrt(mu_squared.denominator))
    mu = root if root * root == mu_squared else sqrt_up(mu_squared)
    return mu == 0 or delta_up(mu, epsilon) <= delta


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


def gaussian_limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest μ² for which μ-GDP gives (ε, δ)-DP; δ(ε) increases in μ."""
    e, d = float(epsilon), float(delta)

    def curve(mu: float) -> float:
        near, far = (e / mu - mu / 2) / math.sqrt(2), (e / mu + mu / 2) / math.sqrt(2)
        # e^ε·erfc(far) by logarithms, for e^ε may be large where erfc is small.
        behind = math.erfc(far)
        return (math.erfc(near) - (math.exp(e + math.log(behind)) if behind else 0.0)) / 2

    low, high = 1e-9, 1e4
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if curve(middle) <= d else (low, middle)
    # Floats lose digits where the two terms are close: step back until the exact curve agrees.
    mu, back = Fraction(low).limit_denominator(10**15), Fraction(1, 10**12)
    while mu > 0 and delta_up(mu, epsilon) > delta:
        mu = (mu * (1 - back)).limit_denominator(10**15)
        back = min(2 * back, Fraction(1, 2))
    return mu * mu
