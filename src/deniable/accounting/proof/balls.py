"""Between exact numbers, balls and doubles. This is the only file that imports python-flint."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from deniable.errors import MissingExtra
from deniable.numerics.rounding import float_above, float_below

try:
    import flint
except ImportError:
    raise MissingExtra("python-flint", "proof") from None

Ball = Any
"""A real ball (`flint.arb`)."""

Disc = Any
"""A complex ball (`flint.acb`)."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with this many bits."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def ball(value: Fraction | float | int) -> Ball:
    """The ball of an exact number."""
    exact = Fraction(value)
    return flint.arb(flint.fmpq(exact.numerator, exact.denominator))


def disc(real: Ball, imaginary: Ball) -> Disc:
    """A complex ball."""
    return flint.acb(real, imaginary)


def around(radius: Ball) -> Ball:
    """All reals of modulus at most `radius`."""
    return flint.arb(0, radius.upper())


def pi() -> Ball:
    """π."""
    return flint.arb.pi()


def integral(integrand: Any, low: Ball, high: Ball, *, goal: Ball) -> Disc:
    """∫ of an analytic integrand (x, analytic) → value, enclosed."""
    return flint.acb.integral(integrand, flint.acb(low), flint.acb(high), rel_tol=goal, abs_tol=goal)


def _exact(value: Ball) -> Fraction:
    """The exact dyadic value of a ball of radius 0."""
    mantissa, exponent = value.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def down(value: Ball) -> float:
    """A double that is at most every number in the ball."""
    if not value.is_finite():
        return -math.inf
    return float_below(_exact(value.lower()))


def up(value: Ball) -> float:
    """A double that is at least every number in the ball."""
    if not value.is_finite():
        return math.inf
    return float_above(_exact(value.upper()))
