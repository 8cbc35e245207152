"""The normal tail, and the privacy curve of the Gaussian, as proven bounds in exact fractions.

Φ is summed by its Taylor series in decimals with digits to spare. The series alternates and its terms fall once
k > x²/2, so what is left out is smaller than the last term that was added.

>>> 0.1269367375066439 < float(gaussian_delta_up(Fraction(1), Fraction(1))) < 0.126936737506644
True
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from deniable.accounting.filters.rounding import exp_down, exp_up

_FARTHEST = 40


def tail(x: Fraction, *, digits: int) -> tuple[Fraction, Fraction]:
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
    found = Fraction(context.subtract(Decimal("0.5"), context.divide(total, scale)))
    slack = Fraction(1, 10**digits)
    return found - slack, found + slack


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


def gaussian_delta_up(mu: Fraction, epsilon: Fraction) -> Fraction:
    """At least δ(ε) of N(0, 1) against N(μ, 1): Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Balle and Wang 2018, Theorem 8)."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > _FARTHEST:
        # 1 − Φ(x) ≤ e^(−x²/2)/2 for x ≥ 0; the term that is subtracted is left out.
        return exp_up(-near * near / 2) / 2
    if near < -_FARTHEST:
        return Fraction(1)
    # 1 − Φ(x) > e^(−x²/2)/(2x + 2) for x ≥ 0, which is above 10^(−0.22 x² − 2): twenty figures of each are right.
    over = tail(near, digits=int(near * near * Fraction(22, 100)) + 22)[1]
    if far > _FARTHEST:
        return over
    under = tail(far, digits=int(far * far * Fraction(22, 100)) + 22)[0]
    return over - exp_down(epsilon) * max(under, Fraction(0))
