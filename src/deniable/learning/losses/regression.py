"""Losses for a real label y with |y| ≤ 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable._checks import inner_probability, positive
from deniable.learning.losses.base import Array, LinearLoss


@dataclass(frozen=True)
class Squared(LinearLoss):
    """(m − y)²/2. Lipschitz only while |m| ≤ `reach`: |m − y| ≤ 1 + reach, so θ must stay in a ball of that radius.

    >>> Squared(reach=2.0).lipschitz
    3.0
    """

    everywhere = False
    regression = True
    reach: float = 1.0

    def __post_init__(self) -> None:
        positive("reach", self.reach)

    @property
    def lipschitz(self) -> float:
        return 1.0 + self.reach

    @property
    def smoothness(self) -> float:
        return 1.0

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.asarray(0.5 * np.square(margins - labels))

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.asarray(margins - labels)

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        return int((Fraction(margins[0], 1 << unit) - Fraction(label)) ** 2 / 2 * 2**bits)


@dataclass(frozen=True)
class Huber(LinearLoss):
    """(m − y)²/2 for |m − y| ≤ width, width·|m − y| − width²/2 beyond. φ′ is m − y clipped to ±width: L = width, β = 1.

    >>> Huber(0.5).values(np.array([2.0]), np.array([0.0])).tolist()
    [0.875]
    """

    regression = True
    twice_differentiable = False  # φ″ jumps from 1 to 0
    width: float = 1.0

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def lipschitz(self) -> float:
        return self.width

    @property
    def smoothness(self) -> float:
        return 1.0

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        away = np.abs(margins - labels)
        return np.asarray(np.where(away <= self.width, 0.5 * away * away, self.width * (away - 0.5 * self.width)))

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.asarray(np.clip(margins - labels, -self.width, self.width))

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        away, width = abs(Fraction(margins[0], 1 << unit) - Fraction(label)), Fraction(self.width)
        return int((away**2 / 2 if away <= width else width * (away - width / 2)) * 2**bits)

    def whole_residuals(self, margins: Sequence[int], unit: int, label: float, bits: int) -> list[int]:
        width = Fraction(self.width)
        away = Fraction(margins[0], 1 << unit) - Fraction(label)
        return [int(min(max(away, -width), width) * 2**bits)]

    def curvatures(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.asarray(np.abs(margins - labels) <= self.width, dtype=np.float64)


@dataclass(frozen=True)
class Pinball(LinearLoss):
    """τ(y − m) where m is below y and (1 − τ)(m − y) above, whose minimiser is the τ-quantile of y given the row.

    φ′ is −τ or 1 − τ: L = max(τ, 1 − τ); it has a corner at y, so no β.

    >>> Pinball(0.9).values(np.array([0.0, 0.0]), np.array([1.0, -1.0])).round(6).tolist()
    [0.9, 0.1]
    """

    regression = True
    lopsided = True
    twice_differentiable = False
    level: float = 0.5

    def __post_init__(self) -> None:
        inner_probability("level", self.level)

    @property
    def lipschitz(self) -> float:
        return max(self.level, 1 - self.level)

    @property
    def smoothness(self) -> float:
        return math.inf

    def smoothed(self, width: float) -> LinearLoss:
        """`SmoothedPinball`: at most width/4 above, whatever the dimension, with the same L."""
        return SmoothedPinball(self.level, width)

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        over = margins - labels
        return np.asarray(np.maximum(over, 0.0) - self.level * over)

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.where(margins < labels, -self.level, np.where(margins > labels, 1 - self.level, 0.0))

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        over = Fraction(margins[0], 1 << unit) - Fraction(label)
        return int((max(over, Fraction(0)) - Fraction(self.level) * over) * 2**bits)


@dataclass(frozen=True)
class SmoothedPinball(LinearLoss):
    """`Pinball`, averaged over labels within h of y: φ′ runs from −τ to 1 − τ linearly where |m − y| ≤ h.

    L = max(τ, 1 − τ), β = 1/(2h); the level of the minimiser is that of labels blurred by h.

    >>> SmoothedPinball(0.5, 0.5).values(np.array([0.0]), np.array([0.0])).tolist()
    [0.125]
    """

    regression = True
    lopsided = True
    twice_differentiable = False  # φ″ jumps at the two ends of the rounded part
    level: float = 0.5
    width: float = 0.1

    def __post_init__(self) -> None:
        inner_probability("level", self.level)
        positive("width", self.width)

    @property
    def lipschitz(self) -> float:
        return max(self.level, 1 - self.level)

    @property
    def smoothness(self) -> float:
        return 1 / (2 * self.width)

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        over = margins - labels
        inside = np.square(np.clip(over + self.width, 0, 2 * self.width)) / (4 * self.width)
        return np.asarray(inside + np.maximum(over - self.width, 0.0) - self.level * over)

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.asarray(np.clip((margins - labels + self.width) / (2 * self.width), 0.0, 1.0) - self.level)

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        over, width = Fraction(margins[0], 1 << unit) - Fraction(label), Fraction(self.width)
        inside = min(max(over + width, Fraction(0)), 2 * width) ** 2 / (4 * width)
        return int((inside + max(over - width, Fraction(0)) - Fraction(self.level) * over) * 2**bits)

    def whole_residuals(self, margins: Sequence[int], unit: int, label: float, bits: int) -> list[int]:
        over, width = Fraction(margins[0], 1 << unit) - Fraction(label), Fraction(self.width)
        slope = min(max((over + width) / (2 * width), Fraction(0)), Fraction(1))
        return [int((slope - Fraction(self.level)) * 2**bits)]

    def curvatures(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.where(np.abs(margins - labels) <= self.width, self.smoothness, 0.0)
