"""Losses for a real label y with |y| ≤ 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable._checks import positive
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
