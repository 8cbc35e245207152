"""Scores as exact multiples of one unit, counted down from the best: what selection compares.

>>> gaps([3, Fraction(5, 2), 0], rate=2)
Gaps(below=[0, 1, 6], unit=Fraction(1, 1))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from deniable import _values
from deniable._checks import Number, exact, positive
from deniable.errors import InvalidArgument


@dataclass(frozen=True)
class Gaps:
    """Score i lies ``below[i] * unit`` below the best, times the rate."""

    below: list[int]
    unit: Fraction


def gaps(scores: Iterable[int | Fraction], *, rate: Number = 1, eligible: list[bool] | None = None) -> Gaps:
    """How far each score lies below the best eligible one; 0 for those that are not eligible."""
    found = list(scores)
    unit = positive("rate", rate)
    common = lcm(*{score.denominator for score in found})
    heights = [score.numerator * (common // score.denominator) for score in found]
    if eligible is None:
        best = max(heights, default=0)
        return Gaps([best - height for height in heights], unit / common)
    best = max((height for height, may in zip(heights, eligible, strict=True) if may), default=0)
    below = [best - height if may else 0 for height, may in zip(heights, eligible, strict=True)]
    return Gaps(below, unit / common)


def privately(scores: object) -> list[int | Fraction]:
    """Scores that may be private, one by one: a float is its shortest decimal, what is no finite number is 0."""
    array = _values.array_of(scores)
    if array is not None and array.ndim != 1:
        raise InvalidArgument("scores", f"an array of {array.ndim} dimensions", "a list of numbers")
    return [_score(score) for score in (_values.items(scores) if array is None else array.tolist())]


def _score(score: object) -> int | Fraction:
    if isinstance(score, float | np.float32 | np.float16):
        return exact(score) if np.isfinite(score) else 0
    return _values.exact(score)


def exactly(name: str, values: Iterable[Number]) -> list[Fraction | int]:
    """Finite numbers that are parameters of a law: a refusal names the type of the one at fault, not its value."""
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
