"""The normal law: its tail, and the privacy curve between N(0, 1) and N(μ, 1), as floats with both ends and exactly.

δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), Balle–Wang 2018, Theorem 8. With the Mills ratio R(x) = (1 − Φ(x))/φ(x) and
x = ε/μ − μ/2 it is δ = φ(x)·(R(x) − R(x + μ)), where nothing overflows. The difference cancels when μ is small; R is
completely monotone, so −R′(t) = 1 − t·R(t) is convex and

    μ·(−R′(x + μ/2))  ≤  R(x) − R(x + μ)  ≤  μ·(−R′(x) − R′(x + μ))/2        (midpoint and trapezoid rule).

Each end of a bracket is the better of the difference and the rule, after a margin for rounding.

In exact fractions (`tail_bounds`, `delta_up`) Φ is summed by its Taylor series in decimals with digits to spare. The
series alternates and its terms fall once k > x²/2, so what is left out is smaller than the last term that was added.
The brackets are for speed, the fractions for what a ledger adds up. Tails of arrays are in `arrays`.

>>> epsilon = epsilon_bracket(1.0, 1e-5)
>>> epsilon.lower <= 4.3771780956812246 <= epsilon.upper
True
>>> 0.1269367375066439 < float(delta_up(Fraction(1), Fraction(1))) < 0.126936737506644
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from deniable.numerics.exact import exp_down, exp_up
from deniable.numerics.roots import border, enlarge
from deniable.numerics.rounding import MACHINE_EPSILON, Bracket, above, below, exp_above

_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)
_FARTHEST = 40
"""Where `delta_up` stops to sum tails, and bounds them."""


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
    margin = 8 * MACHINE_EPSILON * (1 + abs(low) * (ratio + mu) + low * low)
    density = -0.5 * low * low - _LOG_ROOT_TAU
    lower = density + math.log(differences.lower) - margin if differences.lower > 0 else -math.inf
    return Bracket(lower, min(density + math.log(differences.upper) + margin, 0.0))


def delta_bracket(mu: float, epsilon: float) -> Bracket:
    """Proven ends of δ(ε) between N(0, 1) and N(μ, 1)."""
    logs = log_delta_bracket(mu, epsilon)
    return Bracket(below(math.exp(logs.lower)), min(1.0, exp_above(logs.upper)))


def epsilon_bracket(mu: float, delta: float) -> Bracket:
    """Proven ends of the smallest ε ≥ 0 with δ(ε) ≤ delta; infinite for delta = 0 unless μ = 0."""
    if mu == 0 or delta >= 1:
        return Bracket(0.0, 0.0)
    if delta == 0:
        return Bracket(math.inf, math.inf)
    if mu > 1e150:  # ε is about μ²/2, beyond the floats
        return Bracket(0.0, math.inf)
    log_delta = math.log(delta)
    # μ²/2-zCDP reaches δ at this ε (Bun–Steinke 2016, Prop. 1.3).
    most = 1.001 * (mu * mu / 2 + mu * math.sqrt(-2 * log_delta)) + 1e-300
    upper = _border(lambda epsilon: log_delta_bracket(mu, epsilon).upper <= below(log_delta, ulps=1), most)[1]
    lower = _border(lambda epsilon: log_delta_bracket(mu, epsilon).lower <= above(log_delta, ulps=1), most)[0]
    return Bracket(min(lower, upper), above(upper, ulps=2))


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose curve passes at or below (ε, δ), rounded down: what a Gaussian mechanism may have."""
    if delta == 0:
        return 0.0
    if delta >= 1:
        return math.inf
    log_delta = below(math.log(delta), ulps=1)
    return _border(lambda mu: log_delta_bracket(mu, epsilon).upper > log_delta, 1.0)[0]


def tradeoff(mu: float, alpha: float) -> float:
    """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ), rounded down."""
    from scipy.special import ndtr, ndtri

    if alpha <= 0 or alpha >= 1:
        return 0.0 if alpha >= 1 else 1.0
    at = -float(ndtri(alpha)) - mu
    # Φ changes by at most (1 + |t|)·Φ(t) for a unit of its argument when t < 0, and by less than Φ(t) when t > 0.
    return max(0.0, below(float(ndtr(at)), ulps=32 + 16 * (1 + abs(at)) * (1 + abs(at) + mu)))


def diagonal_mu(advantage: float, log_alpha: float) -> float:
    """The μ with G_μ(α) = α, which is 2Φ⁻¹(1 − α), rounded up; given 1 − 2α and ln α, each to a few ulps."""
    from scipy.special import erfinv, ndtri_exp

    if advantage < 0.4:
        return above(2 * math.sqrt(2) * float(erfinv(advantage)), ulps=256)
    return above(-2 * float(ndtri_exp(log_alpha)), ulps=256)


def tail_bounds(x: Fraction, *, digits: int) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound on 1 − Φ(x), for |x| ≤ 40, apart by 2·10^−digits."""
    # The largest term is below e^(x²/2): its digits are carried as well, and sixty more absorb the steps' rounding.
    carried = digits + int(x * x * Fraction(22, 100)) + 60
    context = Context(prec=carried, rounding=ROUND_HALF_EVEN)
    value = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    half_square = context.divide(context.multiply(value, value), Decimal(2))
    power, total, k = value, value, 0
    small = Decimal(1).scaleb(-digits - 20)
    while k <= half_square + 2 or abs(power) > small:
        # The terms are (−1)^k x^(2k+1) / (2^k k! (2k+1)); `power` is without the last factor.
        k += 1
        power = context.minus(context.divide(context.multiply(power, half_square), Decimal(k)))
        total = context.add(total, context.divide(power, Decimal(2 * k + 1)))
    scale = context.sqrt(context.multiply(Decimal(2), _pi(carried)))
    middle = Fraction(context.subtract(Decimal("0.5"), context.divide(total, scale)))
    slack = Fraction(1, 10**digits)
    return middle - slack, middle + slack


def delta_up(mu: Fraction, epsilon: Fraction) -> Fraction:
    """At least δ(ε) of N(0, 1) against N(μ, 1): Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Balle and Wang 2018, Theorem 8)."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > _FARTHEST:
        # 1 − Φ(x) ≤ e^(−x²/2)/2 for x ≥ 0; the term that is subtracted is left out.
        return exp_up(-near * near / 2) / 2
    if near < -_FARTHEST:
        return Fraction(1)
    # 1 − Φ(x) > e^(−x²/2)/(2x + 2) for x ≥ 0, which is above 10^(−0.22 x² − 2): twenty figures of each are right.
    over = tail_bounds(near, digits=int(near * near * Fraction(22, 100)) + 22)[1]
    if far > _FARTHEST:
        return over
    under = tail_bounds(far, digits=int(far * far * Fraction(22, 100)) + 22)[0]
    return over - exp_down(epsilon) * max(under, Fraction(0))


def _border(holds: Callable[[float], bool], guess: float) -> tuple[float, float]:
    """Neighbouring floats, or 0 twice, between which a condition starts to hold; it holds for all large numbers."""
    high = enlarge(holds, guess, most=math.inf)
    return (math.inf, math.inf) if high is None else border(holds, high)


def _near_one(low: float, high: float) -> Bracket:
    """ln δ where ε is well below μ²/2: δ = 1 − Φ(x) − φ(x)·R(x + μ), a small number away from 1."""
    from scipy.special import log_ndtr, ndtr

    # φ(x)R(y) = e^ε Φ(−y) with φ(x) = e^ε φ(y). For ε ≥ 0 it is y ≥ −x, so that term is at most Φ(x), as the first is.
    if low < -40:
        return Bracket(math.log1p(-MACHINE_EPSILON), 0.0)
    missing = float(ndtr(low)) + math.exp(0.5 * (high - low) * (high + low) + float(log_ndtr(-high)))
    margin = 16 * MACHINE_EPSILON * (1 + low * low + (high - low) * abs(high + low)) * missing
    return Bracket(
        math.log1p(-min(missing + margin + 1e-300, 1 - MACHINE_EPSILON)),
        min(math.log1p(-max(missing - margin, 0.0)), 0.0),
    )


def _mills_difference(low: float, high: float, mu: float) -> Bracket:
    """Ends of R(low) − R(high), high = low + μ."""
    first, last, middle = _mills(low), _mills(high), (low + high) / 2
    error = 8 * MACHINE_EPSILON * (first + last)
    # The arguments carry an error of a few units; R falls no faster than by −R′ ≤ 1 + |x|R.
    error += 8 * MACHINE_EPSILON * (abs(low) + abs(high) + mu) * (_slope(low, first)[1] + _slope(high, last)[1])
    rules = (mu * _slope(middle, _mills(middle))[0], mu * (_slope(low, first)[1] + _slope(high, last)[1]) / 2)
    return Bracket(max(first - last - error, below(rules[0])), min(first - last + error, above(rules[1])))


def _mills(at: float) -> float:
    """(1 − Φ(x))/φ(x)."""
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(at / math.sqrt(2)))


def _slope(at: float, mills: float) -> tuple[float, float]:
    """Ends of −R′(x) = 1 − x·R(x). For x > 0 it lies between 1/(3 + x²) and 1/(1 + x²) (Gordon 1941, Birnbaum 1942)."""
    error = 8 * MACHINE_EPSILON * (1 + abs(at) * mills)
    value = 1 - at * mills
    if at <= 0:
        return value - error, value + error
    return max(value - error, below(1 / (3 + at * at))), min(value + error, above(1 / (1 + at * at)))


@lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    """π to more than the given digits, by Machin's 16 arctan(1/5) − 4 arctan(1/239) in whole numbers."""
    unit: int = 10 ** (digits + 20)

    def arctan_of_inverse(n: int) -> int:
        power = total = unit // n
        k = 1
        while power:
            power //= n * n
            total += (power if k % 2 == 0 else -power) // (2 * k + 1)
            k += 1
        return total

    context = Context(prec=digits + 10)
    return context.divide(Decimal(16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)), Decimal(unit))
