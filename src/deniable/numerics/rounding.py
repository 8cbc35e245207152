"""Floats that err toward caution.

A promise computed in floating point is moved outward by a stated number of units in the last place (ulps) before it
is made. The standard library's exp, log and sqrt and the special functions of SciPy used here are within a few ulps
where they are called; `ULPS` covers them and the handful of operations around them. Formulas that cancel carry a larger
margin of their own, stated beside them.

>>> above(1.0) > 1.0 > below(1.0)
True
>>> fraction_above(0.1) > 0.1
True
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from deniable._checks import exact

MACHINE_EPSILON = 2.0**-52
"""The distance from 1 to the next float."""

ULPS = 16
"""The margin of a formula without cancellation."""


class Bracket(NamedTuple):
    """Two proven ends around a true value."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """How far apart the ends are."""
        return self.upper - self.lower


def above(value: float, *, ulps: float = ULPS) -> float:
    """A float that is larger by some ulps; infinity and an exact zero stay."""
    if value == 0 or math.isinf(value):
        return value
    return value + ulps * math.ulp(value)


def below(value: float, *, ulps: float = ULPS) -> float:
    """A float that is smaller by some ulps; infinity and an exact zero stay."""
    return -above(-value, ulps=ulps)


def float_above(value: Fraction) -> float:
    """The smallest float that is not below an exact number."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.nextafter(math.inf, 0)
    return near if near >= value else math.nextafter(near, math.inf)


def float_below(value: Fraction) -> float:
    """The largest float that is not above an exact number."""
    return -float_above(-value)


def typed_above(value: Fraction) -> float:
    """The smallest float that, read as its shortest decimal, is not below an exact number.

    >>> typed_above(Fraction(3, 10)), typed_above(Fraction(1, 3))
    (0.3, 0.33333333333333337)
    """
    near = float_above(value)
    if math.isinf(near):
        return near
    # The shortest decimal of a float lies on either side of it, by less than half of the way to the next.
    under, over = math.nextafter(near, -math.inf), math.nextafter(near, math.inf)
    return next((each for each in (under, near) if math.isfinite(each) and exact(each) >= value), over)


def typed_below(value: Fraction) -> float:
    """The largest float that, read as its shortest decimal, is not above an exact number.

    >>> typed_below(Fraction(3, 10)), typed_below(Fraction(0)), typed_below(Fraction(10) ** 400)
    (0.3, 0.0, 1.7976931348623157e+308)
    """
    return -typed_above(-value) + 0.0  # no −0


def fraction_above(value: float) -> Fraction:
    """The exact number that a guarantee may state for a computed cost: a short decimal, not below the float.

    A guarantee reads a float as its shortest decimal, which may lie half an ulp below it; the next float's does not.
    """
    return exact(math.nextafter(value, math.inf)) if value else Fraction(0)


def exp_above(exponent: float) -> float:
    """e^x, rounded up; the smallest positive float rather than an underflow to 0, which only −∞ gives."""
    if exponent == -math.inf:
        return 0.0
    return max(above(math.exp(exponent)), 5e-324)


def log_of(value: Fraction) -> float:
    """The logarithm of a positive number of any size, to a few ulps, on neither side."""
    if Fraction(1, 2) < value < 2:
        return math.log1p(float(value - 1))
    if 2.0**-1000 < value < 2.0**1000:
        return math.log(value)
    doublings = value.numerator.bit_length() - value.denominator.bit_length()
    return doublings * math.log(2) + math.log(value / Fraction(2) ** doublings)


def root_of(square: Fraction) -> float:
    """The square root of a positive fraction of any size, to a unit in the last place or two, on neither side."""
    top, bottom = square.as_integer_ratio()
    shift = (top.bit_length() - bottom.bit_length()) // 2 * 2
    scaled = square / Fraction(2) ** shift if shift else square
    return math.ldexp(math.sqrt(float(scaled)), shift // 2)
