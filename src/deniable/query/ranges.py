"""What an expression's values lie between, from what its inputs lie between: interval arithmetic in exact fractions.

A range is a pair (low, high), or None where nothing is known. The engine computes in floating point, and inputs may be
out of their bounds; both are harmless, because a value that is aggregated is clamped to its range in whole numbers
(see `grids`). A range decides how much noise is added, so it must be known before any data are read; it is.

>>> times((Fraction(-1), Fraction(2)), (Fraction(3), Fraction(4)))
(Fraction(-4, 1), Fraction(8, 1))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

Range: TypeAlias = tuple[Fraction, Fraction] | None

_LARGEST = 10**300


def point(value: Fraction | int) -> Range:
    """One number."""
    return Fraction(value), Fraction(value)


def plus(one: Range, other: Range) -> Range:
    """The range of a sum."""
    return None if one is None or other is None else (one[0] + other[0], one[1] + other[1])


def negative(one: Range) -> Range:
    """The range of −x."""
    return None if one is None else (-one[1], -one[0])


def minus(one: Range, other: Range) -> Range:
    """The range of a difference."""
    return plus(one, negative(other))


def times(one: Range, other: Range) -> Range:
    """The range of a product: its extremes are at corners."""
    if one is None or other is None:
        return None
    corners = [a * b for a in one for b in other]
    return _kept(min(corners), max(corners))


def over(one: Range, other: Range) -> Range:
    """The range of a quotient; unknown when the divisor may be 0."""
    if one is None or other is None or other[0] <= 0 <= other[1]:
        return None
    return times(one, (1 / other[1], 1 / other[0]))


def remainder(one: Range, other: Range) -> Range:
    """The range of a remainder: nearer to 0 than the divisor, on the dividend's side."""
    if other is None:
        return None
    most = max(abs(other[0]), abs(other[1]))
    low = Fraction(0) if one is not None and one[0] >= 0 else -most
    return low, Fraction(0) if one is not None and one[1] <= 0 else most


def hull(*parts: Range) -> Range:
    """The range of a value that is one of several."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return min(part[0] for part in known), max(part[1] for part in known)


def magnitude(one: Range) -> Range:
    """The range of |x|."""
    if one is None:
        return None
    low, high = one
    far = max(abs(low), abs(high))
    return (Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))), far


def whole(one: Range, *, down: bool, up: bool) -> Range:
    """The range of x made whole: floor moves it down, ceil up, rounding either way."""
    if one is None:
        return None
    low = math.floor(one[0]) if down else math.ceil(one[0])
    high = math.ceil(one[1]) if up else math.floor(one[1])
    return Fraction(low), Fraction(high)


def power(one: Range, exponent: int) -> Range:
    """The range of x to a whole power, 0 or more."""
    if one is None or exponent > 64:
        return None
    base = magnitude(one) if exponent % 2 == 0 else one
    return None if base is None else _kept(base[0] ** exponent, base[1] ** exponent)


def rising(one: Range, function: Callable[[float], float], *, least: Fraction | None = None) -> Range:
    """The range of an increasing function of x, rounded outwards; arguments below `least` give no value."""
    if one is None:
        return None
    low, high = one
    if least is not None:
        low, high = max(low, least), max(high, least)
    try:
        ends = function(float(low)), function(float(high))
    except (OverflowError, ValueError):
        return None
    # Library functions are right to a few units in the last place.
    slack = [abs(end) * 1e-14 + 1e-300 for end in ends]
    return _kept(Fraction(ends[0] - slack[0]), Fraction(ends[1] + slack[1]))


def _kept(low: Fraction, high: Fraction) -> Range:
    return None if max(abs(low), abs(high)) > _LARGEST else (low, high)
