"""The curve between N(0, 1) and N(μ, 1), with both ends, for any legal numbers.

δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), Balle–Wang 2018, Theorem 8. With the Mills ratio R(x) = (1 − Φ(x))/φ(x) and
x = ε/μ − μ/2 it is δ = φ(x)·(R(x) − R(x + μ)), where nothing overflows. The difference cancels when μ is small; R is
completely monotone, so −R′(t) = 1 − t·R(t) is convex and

    μ·(−R′(x + μ/2))  ≤  R(x) − R(x + μ)  ≤  μ·(−R′(x) − R′(x + μ))/2        (midpoint and trapezoid rule).

Each end below is the better of the difference and the rule, after a margin for rounding.

>>> epsilon = epsilon_bracket(1.0, 1e-5)
>>> epsilon.lower <= 4.3771780956812246 <= epsilon.upper
True
"""

from __future__ import annotations

import math
from collections.abc import Callable

from deniable.guarantees import Bracket
from deniable.guarantees.rounding import above, below

_UNIT = 2.0**-52
_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)


def log_delta_bracket(mu: float, epsilon: float) -> Bracket:
    """Proven ends of ln δ(ε) between N(0, 1) and N(μ, 1); −inf for μ = 0."""
    if mu == 0:
        return Bracket(-math.inf, -math.inf)
    ratio = epsilon / mu
    low, high = ratio - mu / 2, ratio + mu / 2
    if low < -1:
        return _near_one(low, high)
    if low > 1e100:  # δ ≤ Φ(−x) ≤ e^{−x²/2}
        return Bracket(-math.inf, -1e199)
    differences = _mills_difference(low, high, mu)
    # x and x² are off by a few units of their largest term; δ is e to the power of that.
    margin = 8 * _UNIT * (1 + abs(low) * (ratio + mu) + low * low)
    density = -0.5 * low * low - _LOG_ROOT_TAU
    lower = density + math.log(differences.lower) - margin if differences.lower > 0 else -math.inf
    return Bracket(lower, min(density + math.log(differences.upper) + margin, 0.0))


def delta_bracket(mu: float, epsilon: float) -> Bracket:
    """Proven ends of δ(ε) between N(0, 1) and N(μ, 1)."""
    logs = log_delta_bracket(mu, epsilon)
    return Bracket(below(math.exp(logs.lower)), min(1.0, _exp_above(logs.upper)))


def epsilon_bracket(mu: float, delta: float) -> Bracket:
    """Proven ends of the smallest ε ≥ 0 with δ(ε) ≤ delta; infinite for delta = 0 unless μ = 0."""
    if mu == 0 or delta >= 1:
        return Bracket(0.0, 0.0)
    if delta == 0:
        return Bracket(math.inf, math.inf)
    if mu > 1e150:  # ε is about μ²/2, beyond the floats
        return Bracket(0.0, math.inf)
    wanted = math.log(delta)
    # μ²/2-zCDP reaches δ at this ε (Bun–Steinke 2016, Prop. 1.3).
    most = 1.001 * (mu * mu / 2 + mu * math.sqrt(-2 * wanted)) + 1e-300
    upper = _crossing(lambda epsilon: log_delta_bracket(mu, epsilon).upper <= below(wanted, ulps=1), most)[1]
    lower = _crossing(lambda epsilon: log_delta_bracket(mu, epsilon).lower <= above(wanted, ulps=1), most)[0]
    return Bracket(min(lower, upper), above(upper, ulps=2))


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose curve passes at or below (ε, δ): what a Gaussian mechanism with that promise may have."""
    if delta == 0:
        return 0.0
    if delta >= 1:
        return math.inf
    wanted = math.log(delta)
    most = 1.0
    while log_delta_bracket(most, epsilon).upper <= wanted:
        most *= 2
    return _crossing(lambda mu: log_delta_bracket(mu, epsilon).upper > wanted, most)[0]


def tradeoff(mu: float, alpha: float) -> float:
    """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ), rounded down."""
    from scipy.special import ndtr, ndtri

    if alpha <= 0 or alpha >= 1:
        return 0.0 if alpha >= 1 else 1.0
    at = -float(ndtri(alpha)) - mu
    # Φ changes by at most (1 + |t|)·Φ(t) for a unit of its argument when t < 0, and by less than Φ(t) when t > 0.
    return max(0.0, below(float(ndtr(at)), ulps=32 + 16 * (1 + abs(at)) * (1 + abs(at) + mu)))


def _near_one(low: float, high: float) -> Bracket:
    """ln δ where ε is well below μ²/2: δ = 1 − Φ(x) − φ(x)·R(x + μ), a small number away from 1."""
    from scipy.special import log_ndtr, ndtr

    # φ(x)R(y) = e^ε Φ(−y) with φ(x) = e^ε φ(y). For ε ≥ 0 it is y ≥ −x, so that term is at most Φ(x), as the first is.
    if low < -40:
        return Bracket(math.log1p(-_UNIT), 0.0)
    missing = float(ndtr(low)) + math.exp(0.5 * (high - low) * (high + low) + float(log_ndtr(-high)))
    margin = 16 * _UNIT * (1 + low * low + (high - low) * abs(high + low)) * missing
    return Bracket(
        math.log1p(-min(missing + margin + 1e-300, 1 - _UNIT)), min(math.log1p(-max(missing - margin, 0.0)), 0.0)
    )


def _mills_difference(low: float, high: float, mu: float) -> Bracket:
    """Ends of R(low) − R(high), high = low + μ."""
    first, last, middle = _mills(low), _mills(high), (low + high) / 2
    error = 8 * _UNIT * (first + last)
    # The arguments carry an error of a few units; R falls no faster than by −R′ ≤ 1 + |x|R.
    error += 8 * _UNIT * (abs(low) + abs(high) + mu) * (_slope(low, first)[1] + _slope(high, last)[1])
    rules = (mu * _slope(middle, _mills(middle))[0], mu * (_slope(low, first)[1] + _slope(high, last)[1]) / 2)
    return Bracket(max(first - last - error, below(rules[0])), min(first - last + error, above(rules[1])))


def _mills(at: float) -> float:
    """(1 − Φ(x))/φ(x)."""
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(at / math.sqrt(2)))


def _slope(at: float, mills: float) -> tuple[float, float]:
    """Ends of −R′(x) = 1 − x·R(x). For x > 0 it lies between 1/(3 + x²) and 1/(1 + x²) (Gordon 1941, Birnbaum 1942)."""
    error = 8 * _UNIT * (1 + abs(at) * mills)
    value = 1 - at * mills
    if at <= 0:
        return value - error, value + error
    return max(value - error, below(1 / (3 + at * at))), min(value + error, above(1 / (1 + at * at)))


def _exp_above(exponent: float) -> float:
    """e^x, rounded up; the smallest positive float rather than an underflow to 0."""
    if exponent == -math.inf:
        return 0.0
    return max(above(math.exp(exponent)), 5e-324)


def _crossing(holds: Callable[[float], bool], most: float) -> tuple[float, float]:
    """Neighbouring floats (or 0) between which a statement that holds at `most` starts to hold."""
    low, high = 0.0, most
    if holds(low):
        return 0.0, 0.0
    while not holds(high):
        high *= 2
    while True:
        middle = low + (high - low) / 2
        if low > 0 and high > 4 * low:
            middle = math.sqrt(low) * math.sqrt(high)
        elif low == 0 and high > 1e-12:
            middle = high / 16
        if not low < middle < high or high - low <= 2 * math.ulp(high):
            return low, high
        low, high = (low, middle) if holds(middle) else (middle, high)
