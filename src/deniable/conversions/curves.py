"""Curves that are formulas: the results of the `a_to_profile` arrows.

An exact formula returns both ends. An upper bound has 0 as its lower end, because the mechanism may be better than its
guarantee. Five modules of arrows share this one, so it stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from deniable.guarantees import Bracket, Guarantee, Profile, TradeOff
from deniable.numerics.rounding import above


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


def support_lines(delta: Callable[[float], float], epsilons: Iterable[float]) -> TradeOff:
    """The trade-off function of finitely many points (ε, δ(ε)) of a curve: a lower bound, with one line per point."""
    lines = []
    for epsilon in epsilons:
        odds = Fraction(above(math.exp(epsilon))) if epsilon else Fraction(1)
        lines.append((odds, Fraction(min(delta(epsilon), 1.0))))
    return TradeOff.of_lines(lines)


def grid(last: float, *, points: int = 48) -> list[float]:
    """Evenly spaced ε from 0 to `last`: the default points for the supporting lines of a curve."""
    stop = min(last, 700.0)
    return [stop * i / (points - 1) for i in range(points)]
