"""Exact fractions on a stated side of the true value: short decimals, roots, exponentials and logarithms.

Python's decimal module rounds `exp`, `ln` and `sqrt` correctly (its documentation promises half-even rounding of the
true value), so one step of the last digit outward is a proven bound. Arguments are fractions; they are rounded outward
first, which is sound because each of these functions is increasing.

>>> log_up(Fraction(2)) - log_down(Fraction(2)) == Fraction(2, 10**60)
True
>>> short_above(Fraction(2, 3), figures=3), short_below(0.0123456, figures=3)
(Fraction(667, 1000), Fraction(123, 10000))
>>> root_above(Fraction(9, 4)), root_above(Fraction(2)) ** 2 >= 2
(Fraction(3, 2), True)
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

DIGITS = 60
LARGEST = 4096
"""The largest power of ten that `exp_up` and `exp_down` reach; beyond it they raise decimal.Overflow."""
_WIDEST = 10**9
"""Powers of ten that no typed number reaches, nor what is computed from some of them: their digits would not fit into
memory."""
FIGURES = 15
"""Significant digits that every float prints and reads back unchanged."""
GRID = 10**30
"""Costs that are not rational are rounded up to a multiple of 1/GRID, so that sums of many stay short."""

_EXPONENTIAL = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=-LARGEST, Emax=LARGEST)
_NEAREST = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=-_WIDEST, Emax=_WIDEST)
UPWARD = Context(prec=DIGITS, rounding=ROUND_CEILING, Emin=-_WIDEST, Emax=_WIDEST)
DOWNWARD = Context(prec=DIGITS, rounding=ROUND_FLOOR, Emin=-_WIDEST, Emax=_WIDEST)


def decimal_above(x: Fraction) -> Decimal:
    """A decimal of 60 digits that is not below x."""
    return UPWARD.divide(Decimal(x.numerator), Decimal(x.denominator))


def decimal_below(x: Fraction) -> Decimal:
    """A decimal of 60 digits that is not above x."""
    return DOWNWARD.divide(Decimal(x.numerator), Decimal(x.denominator))


def exp_up(x: Fraction) -> Fraction:
    """At least e^x."""
    return Fraction(_EXPONENTIAL.next_plus(_EXPONENTIAL.exp(decimal_above(x))))


def exp_down(x: Fraction) -> Fraction:
    """At most e^x."""
    return Fraction(_EXPONENTIAL.next_minus(_EXPONENTIAL.exp(decimal_below(x))))


def log_up(x: Fraction) -> Fraction:
    """At least ln x, for x > 0."""
    return _up(_NEAREST.ln(decimal_above(x)))


def log_down(x: Fraction) -> Fraction:
    """At most ln x, for x > 0."""
    return _down(_NEAREST.ln(decimal_below(x)))


def sqrt_up(x: Fraction) -> Fraction:
    """At least √x, for x ≥ 0."""
    return _up(_NEAREST.sqrt(decimal_above(x)))


def sqrt_down(x: Fraction) -> Fraction:
    """At most √x, and at least 0."""
    return max(Fraction(0), _down(_NEAREST.sqrt(decimal_below(x))))


def _up(value: Decimal) -> Fraction:
    """At least the true value behind a rounded one. 0 stands for itself: √0 and ln 1 are exact, and the number next to
    0 has as many digits as `_WIDEST` says."""
    return Fraction(_NEAREST.next_plus(value)) if value else Fraction(0)


def _down(value: Decimal) -> Fraction:
    """At most the true value behind a rounded one."""
    return Fraction(_NEAREST.next_minus(value)) if value else Fraction(0)


def rational_root(x: Fraction) -> Fraction | None:
    """√x if x ≥ 0 is the square of a fraction; None otherwise."""
    top, bottom = math.isqrt(x.numerator), math.isqrt(x.denominator)
    return Fraction(top, bottom) if top * top == x.numerator and bottom * bottom == x.denominator else None


def root_above(x: Fraction) -> Fraction:
    """√x for x ≥ 0 of any size: itself if it is a fraction, else rounded up to fifteen digits."""
    root = rational_root(x)
    if root is not None:
        return root
    # √(n/d) = √(n·d·4^s)/(d·2^s), with 2^s large enough for 80 significant bits.
    shift = max(0, 80 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    whole = math.isqrt(x.numerator * x.denominator * 4**shift) + 1
    return short_above(Fraction(whole, x.denominator * 2**shift))


def root_below(x: Fraction, *, decimals: int) -> Fraction:
    """√x for x ≥ 0, rounded down to so many decimals.

    >>> root_below(Fraction(9, 16), decimals=6)
    Fraction(3, 4)
    """
    return Fraction(math.isqrt(x.numerator * 100**decimals // x.denominator), 10**decimals)


def whole_root_above(x: int) -> int:
    """The least whole number whose square is at least x ≥ 0."""
    return math.isqrt(x - 1) + 1 if x > 0 else 0


def ceiling(x: Fraction, *, grid: int = GRID) -> Fraction:
    """The least multiple of 1/grid that is not below x."""
    return Fraction(-((-x.numerator * grid) // x.denominator), grid)


def floor(x: Fraction, *, grid: int = GRID) -> Fraction:
    """The greatest multiple of 1/grid that is not above x."""
    return Fraction((x.numerator * grid) // x.denominator, grid)


def short_above(x: Fraction | float, *, figures: int = FIGURES) -> Fraction:
    """The least decimal of so many significant digits that is not below x ≥ 0."""
    unit = _last_place(Fraction(x), figures)
    return math.ceil(Fraction(x) / unit) * unit


def short_below(x: Fraction | float, *, figures: int = FIGURES) -> Fraction:
    """The greatest decimal of so many significant digits that is not above x ≥ 0."""
    unit = _last_place(Fraction(x), figures)
    return math.floor(Fraction(x) / unit) * unit


def bits_above(x: Fraction, *, bits: int) -> Fraction:
    """A fraction of about so many significant binary digits that is not below x ≥ 0."""
    scale = _binary_scale(x, bits)
    return math.ceil(x * scale) / scale


def bits_below(x: Fraction, *, bits: int) -> Fraction:
    """A fraction of about so many significant binary digits that is not above x ≥ 0."""
    scale = _binary_scale(x, bits)
    return math.floor(x * scale) / scale


def _last_place(x: Fraction, figures: int) -> Fraction:
    """The power of ten that is one unit of the last of so many digits of x; 1 for 0."""
    if x <= 0:
        return Fraction(1)
    # 30103/10⁵ is log₁₀ 2 to seven digits: the guess is off by one at most for numbers of ordinary size.
    power = (x.numerator.bit_length() - x.denominator.bit_length()) * 30103 // 10**5
    while x >= Fraction(10) ** (power + 1):
        power += 1
    while x < Fraction(10) ** power:
        power -= 1
    return Fraction(10) ** (power + 1 - figures)


def _binary_scale(x: Fraction, bits: int) -> Fraction:
    return Fraction(2) ** (bits + x.denominator.bit_length() - x.numerator.bit_length()) if x else Fraction(1)
