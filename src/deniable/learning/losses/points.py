"""Losses of a point θ against points x of the same space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable._checks import positive
from deniable.learning.losses.base import Array, PointLoss


@dataclass(frozen=True)
class Distance(PointLoss):
    """|θ − x|, whose minimiser is the geometric median. Its gradient is a unit vector (0 at x itself): L = 1, no β."""

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return math.inf

    def values(self, theta: Array, points: Array) -> NDArray[np.float64]:
        return _lengths(theta - points)

    def gradients(self, theta: Array, points: Array) -> NDArray[np.float64]:
        away = theta - points
        lengths = _lengths(away)
        return np.asarray(away / np.where(lengths > 0, lengths, 1.0)[:, None])

    def whole_value(self, away: Sequence[int], unit: int, bits: int) -> int:
        return math.isqrt(sum(entry * entry for entry in away) << 2 * bits) >> unit


@dataclass(frozen=True)
class SmoothedDistance(PointLoss):
    """√(|θ − x|² + v²) − v: within v of the distance, L = 1, and Hessian (I − uu')/ρ + …, at most 1/v.

    >>> SmoothedDistance(0.1).smoothness
    10.0
    """

    width: float = 0.1

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 1 / self.width

    def values(self, theta: Array, points: Array) -> NDArray[np.float64]:
        return np.hypot(_lengths(theta - points), self.width) - self.width

    def gradients(self, theta: Array, points: Array) -> NDArray[np.float64]:
        away = theta - points
        return np.asarray(away / np.hypot(_lengths(away), self.width)[:, None])

    def whole_value(self, away: Sequence[int], unit: int, bits: int) -> int:
        width = Fraction(self.width) * 2**unit
        length = math.isqrt(int((sum(entry * entry for entry in away) + width**2) * 4**bits))
        return (length - int(width * 2**bits)) >> unit


@dataclass(frozen=True)
class HalfSquare(PointLoss):
    """|θ − x|²/2, whose minimiser is the mean. The gradient θ − x has length at most `reach` where |θ − x| ≤ reach."""

    everywhere = False
    reach: float = 2.0

    def __post_init__(self) -> None:
        positive("reach", self.reach)

    @property
    def lipschitz(self) -> float:
        return self.reach

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def strong_convexity(self) -> float:
        return 1.0

    def values(self, theta: Array, points: Array) -> NDArray[np.float64]:
        return np.asarray(0.5 * np.square(_lengths(theta - points)))

    def gradients(self, theta: Array, points: Array) -> NDArray[np.float64]:
        return np.asarray(theta - points)


def _lengths(vectors: Array) -> NDArray[np.float64]:
    """Row norms, coordinate after coordinate: a row gives the same bits wherever it stands."""
    total = np.zeros(len(vectors))
    for column in vectors.T:
        total += column * column
    return np.sqrt(total)
