"""Curves that are formulas: what `a_to_profile` returns.

An exact formula answers with both ends; an upper bound answers with 0 as its lower end, because the guarantee it comes
from may hold with room to spare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from deniable.guarantees import Bracket, Guarantee, Profile, TradeOff
from deniable.guarantees.rounding import above, float_above, promised


@dataclass(frozen=True)
class Formula:
    """A curve given by two functions that return proven ends."""

    method: str
    delta_bracket: Callable[[float], Bracket]
    epsilon_bracket: Callable[[float], Bracket]


def exact_profile(
    guarantee: Guarantee, method: str, delta: Callable[[float], Bracket], epsilon: Callable[[float], Bracket]
) -> Profile:
    """The profile of a guarantee whose worst mechanism has exactly this curve."""
    return Profile(Formula(method, delta, epsilon), guarantee.relation, guarantee.unit)


def bound_profile(
    guarantee: Guarantee, method: str, delta: Callable[[float], float], epsilon: Callable[[float], float]
) -> Profile:
    """The profile of a guarantee that implies this curve as an upper bound."""
    curve = Formula(method, lambda e: Bracket(0.0, delta(e)), lambda d: Bracket(0.0, epsilon(d)))
    return Profile(curve, guarantee.relation, guarantee.unit)


def supported(delta: Callable[[float], float], epsilons: Iterable[float]) -> TradeOff:
    """The trade-off function of finitely many points (ε, δ(ε)) of a curve: a lower bound, with one line per point."""
    lines = []
    for epsilon in epsilons:
        odds = Fraction(above(math.exp(epsilon))) if epsilon else Fraction(1)
        lines.append((odds, Fraction(min(delta(epsilon), 1.0))))
    return TradeOff.of_lines(lines)


def grid(last: float, *, points: int = 48) -> list[float]:
    """Evenly spaced ε from 0 to a last one: where a curve gets its supporting lines unless others are asked for."""
    stop = min(last, 700.0)
    return [stop * i / (points - 1) for i in range(points)]


def lowest(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """A place on [low, high], and the smallest value found there: a log-spaced look, then golden sections.

    For bounds that hold at every place, so that the search can cost tightness only.
    """
    count = 33
    places = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
    values = [function(place) for place in places]
    best = min(range(count), key=values.__getitem__)
    left, right = places[max(best - 1, 0)], places[min(best + 1, count - 1)]
    found = (values[best], places[best])
    ratio = (math.sqrt(5) - 1) / 2
    one, two = right - ratio * (right - left), left + ratio * (right - left)
    at_one, at_two = function(one), function(two)
    for _ in range(48):
        found = min(found, (at_one, one), (at_two, two))
        if at_one > at_two:
            left, one, at_one = one, two, at_two
            two = left + ratio * (right - left)
            at_two = function(two)
        else:
            right, two, at_two = two, one, at_one
            one = right - ratio * (right - left)
            at_one = function(one)
    return found[1], found[0]


def root_above(value: Fraction) -> Fraction:
    """√v, rounded up to a short decimal; exact when v is the square of a fraction."""
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    # √(n/d) = √(n·d·4^s)/(d·2^s), with 2^s large enough for 80 significant bits.
    shift = max(0, 80 - (value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    root = math.isqrt(value.numerator * value.denominator * 4**shift) + 1
    return promised(float_above(Fraction(root, value.denominator * 2**shift)))
