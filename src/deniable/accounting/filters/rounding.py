"""Exponentials, logarithms and roots as exact fractions on the stated side of the true value.

Python's decimal module rounds `exp`, `ln` and `sqrt` correctly (its documentation promises half-even rounding of the
true value), so one step of the last digit outward is a proven bound. Arguments are fractions; they are rounded outward
first, which is sound because each of these functions is increasing.

>>> log_up(Fraction(2)) - log_down(Fraction(2)) == Fraction(2, 10**60)
True
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

DIGITS = 60
LARGEST = 4096
"""The largest power of ten that these numbers reach; beyond it they raise decimal.Overflow rather than guess."""
GRID = 10**30
"""Costs that are not rational are rounded up to a multiple of 1/GRID, so that sums of many stay short."""

_NEAREST = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=-LARGEST, Emax=LARGEST)
up = Context(prec=DIGITS, rounding=ROUND_CEILING, Emin=-LARGEST, Emax=LARGEST)
down = Context(prec=DIGITS, rounding=ROUND_FLOOR, Emin=-LARGEST, Emax=LARGEST)


def above(x: Fraction) -> Decimal:
    """A decimal of 60 digits that is not below x."""
    return up.divide(Decimal(x.numerator), Decimal(x.denominator))


def below(x: Fraction) -> Decimal:
    """A decimal of 60 digits that is not above x."""
    return down.divide(Decimal(x.numerator), Decimal(x.denominator))


def exp_up(x: Fraction) -> Fraction:
    """At least e^x."""
    return Fraction(_NEAREST.next_plus(_NEAREST.exp(above(x))))


def exp_down(x: Fraction) -> Fraction:
    """At most e^x."""
    return Fraction(_NEAREST.next_minus(_NEAREST.exp(below(x))))


def log_up(x: Fraction) -> Fraction:
    """At least ln x, for x > 0."""
    return Fraction(_NEAREST.next_plus(_NEAREST.ln(above(x))))


def log_down(x: Fraction) -> Fraction:
    """At most ln x, for x > 0."""
    return Fraction(_NEAREST.next_minus(_NEAREST.ln(below(x))))


def sqrt_up(x: Fraction) -> Fraction:
    """At least √x, for x ≥ 0."""
    return Fraction(_NEAREST.next_plus(_NEAREST.sqrt(above(x))))


def sqrt_down(x: Fraction) -> Fraction:
    """At most √x, and at least 0."""
    return max(Fraction(0), Fraction(_NEAREST.next_minus(_NEAREST.sqrt(below(x)))))


def ceiling(x: Fraction, *, grid: int = GRID) -> Fraction:
    """The least multiple of 1/grid that is not below x."""
    return Fraction(-((-x.numerator * grid) // x.denominator), grid)


def floor(x: Fraction, *, grid: int = GRID) -> Fraction:
    """The greatest multiple of 1/grid that is not above x."""
    return Fraction((x.numerator * grid) // x.denominator, grid)
