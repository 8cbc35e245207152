"""Scores as exact multiples of one unit, counted down from the best: what selection compares.

>>> gaps("scores", [3, 2.5, 0], rate=2)
Gaps(below=[0, 1, 6], unit=Fraction(1, 1))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from deniable._checks import Number, exact, positive
from deniable.errors import InvalidArgument


@dataclass(frozen=True)
class Gaps:
    """Score i lies ``below[i] * unit`` below the best, times the rate."""

    below: list[int]
    unit: Fraction


def gaps(name: str, scores: Iterable[Number], *, rate: Number = 1, eligible: list[bool] | None = None) -> Gaps:
    """How far each score lies below the best eligible one; 0 for those that are not eligible."""
    found = exactly(name, scores)
    unit = positive("rate", rate)
    common = lcm(*{score.denominator for score in found})
    heights = [score.numerator * (common // score.denominator) for score in found]
    if eligible is None:
        best = max(heights, default=0)
        return Gaps([best - height for height in heights], unit / common)
    best = max((height for height, may in zip(heights, eligible, strict=True) if may), default=0)
    below = [best - height if may else 0 for height, may in zip(heights, eligible, strict=True)]
    return Gaps(below, unit / common)


def exactly(name: str, values: Iterable[Number]) -> list[Fraction | int]:
    """Finite numbers that may be private: a refusal names the type of the one at fault, not its value."""
    found: list[Fraction | int] = []
    for value in values.tolist() if isinstance(values, np.ndarray) else values:
        if type(value) is int:
            found.append(value)
            continue
        try:
            found.append(exact(value))
        except (TypeError, ValueError):
            kind = "a float that is not finite" if isinstance(value, float) else type(value).__name__
            raise InvalidArgument(name, kind, "finite numbers") from None
    return found
