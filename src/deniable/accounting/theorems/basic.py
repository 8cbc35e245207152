"""Basic composition: costs add up.

Mechanisms that are (ε_i, δ_i)-DP, chosen adaptively, are together (Σε_i, Σδ_i)-DP (Dwork–McSherry–Nissim–Smith 2006;
Dwork–Roth 2014, Theorem 3.16). Sums are exact: three charges of 0.1 are 0.3.

>>> from deniable.guarantees import PureDP
>>> compose_basic([PureDP(0.1)] * 3)
PureDP(epsilon=0.3)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.units import one_relation, one_unit

Kind = TypeVar("Kind", bound=Guarantee)


def compose_basic(parts: Sequence[PureDP | ApproxDP]) -> PureDP | ApproxDP:
    """(Σε_i, Σδ_i). Exact for pure DP, an upper bound otherwise."""
    first = together(parts)
    epsilon = sum((part.epsilon for part in parts), Fraction(0))
    if all(isinstance(part, PureDP) for part in parts):
        return PureDP(epsilon, relation=first.relation, unit=first.unit)
    delta = sum((delta_of(part) for part in parts), Fraction(0))
    return ApproxDP(epsilon, min(delta, Fraction(1)), relation=first.relation, unit=first.unit)


def repeat_basic(guarantee: PureDP | ApproxDP, *, count: int) -> PureDP | ApproxDP:
    """(kε, kδ)."""
    times = _checks.count("count", count)
    if isinstance(guarantee, PureDP):
        return PureDP(times * guarantee.epsilon, relation=guarantee.relation, unit=guarantee.unit)
    delta = min(times * guarantee.delta, Fraction(1))
    return ApproxDP(times * guarantee.epsilon, delta, relation=guarantee.relation, unit=guarantee.unit)


def together(parts: Sequence[Kind]) -> Kind:
    """The first of several promises that speak of one unit under one relation."""
    if not parts:
        raise InvalidArgument("parts", parts, "one promise or more")
    for part in parts:
        if not isinstance(part, Guarantee):
            raise InvalidArgument("parts", part, "a guarantee")
        one_relation(parts[0].relation, part.relation, doing="compose")
        one_unit(parts[0].unit, part.unit, doing="compose")
    return parts[0]


def delta_of(guarantee: PureDP | ApproxDP) -> Fraction:
    """δ, which a pure promise has as 0."""
    return guarantee.delta if isinstance(guarantee, ApproxDP) else Fraction(0)
