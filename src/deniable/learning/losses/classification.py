"""Losses for a label: y = ±1 for two classes, y = 0 … k−1 for several in one joint model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from deniable._checks import count, positive
from deniable.learning.losses.base import Array, LinearLoss


@dataclass(frozen=True)
class Logistic(LinearLoss):
    """ln(1 + e^{−ym}). φ′ = −y·s(−ym) lies in [−1, 1]; φ″ = s(1 − s) is at most 1/4, with s the logistic function.

    >>> Logistic().residuals(np.array([0.0]), np.array([1.0])).tolist()
    [-0.5]
    """

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 0.25

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.asarray(np.logaddexp(0.0, -labels * margins))

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        from scipy.special import expit

        return np.asarray(-labels * expit(-labels * margins))

    def curvatures(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        from scipy.special import expit

        chance = expit(margins)
        return np.asarray(chance * (1 - chance))

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        wrong = -margins[0] if label > 0 else margins[0]  # −ym; the loss is its positive part and ln(1 + e^{−|m|})
        context = _digits(bits)
        rest = context.ln(context.add(_ONE, _exp(-abs(wrong), unit, bits, context)))
        return ((max(wrong, 0) << bits) >> unit) + _whole(rest, bits, context)

    def whole_residuals(self, margins: Sequence[int], unit: int, label: float, bits: int) -> list[int]:
        wrong = -margins[0] if label > 0 else margins[0]  # −ym
        context = _digits(bits)
        small = _exp(-abs(wrong), unit, bits, context)
        chance = context.divide(_ONE if wrong >= 0 else small, context.add(_ONE, small))
        return [_whole(chance, bits, context) * (-1 if label > 0 else 1)]


@dataclass(frozen=True)
class Multinomial(LinearLoss):
    """ln Σ_j e^{m_j} − m_y for k classes: one model, one ε.

    The residual is p − e_y, with |p − e_y|² ≤ (1 − p_y)² + (1 − p_y)² ≤ 2. The Hessian in m is diag(p) − pp', whose
    largest eigenvalue is at most 1/2: z'(diag(p) − pp')z is the variance of z_J, at most (max z − min z)²/4 ≤ |z|²/2
    (Popoviciu).

    >>> Multinomial(3).residuals(np.zeros((1, 3)), np.array([0])).round(3).tolist()
    [[-0.667, 0.333, 0.333]]
    """

    twice_differentiable = True
    classes: int = 2

    def __post_init__(self) -> None:
        count("classes", self.classes, least=2)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def lipschitz(self) -> float:
        return math.sqrt(2)

    @property
    def smoothness(self) -> float:
        return 0.5

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        top = margins.max(axis=1)
        total = np.log(_column_sums(np.exp(margins - top[:, None]))) + top
        return np.asarray(total - margins[np.arange(len(labels)), labels.astype(np.intp)])

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        chances = self.chances(margins)
        chances[np.arange(len(labels)), labels.astype(np.intp)] -= 1
        return chances

    def log_chances(self, margins: Array) -> NDArray[np.float64]:
        """The logarithm of the probability of every class."""
        away = margins - margins.max(axis=1)[:, None]
        return np.asarray(away - np.log(_column_sums(np.exp(away)))[:, None])

    def chances(self, margins: Array) -> NDArray[np.float64]:
        """The probability of every class."""
        raised = np.exp(margins - margins.max(axis=1)[:, None])
        return np.asarray(raised / _column_sums(raised)[:, None])

    def whole_residuals(self, margins: Sequence[int], unit: int, label: float, bits: int) -> list[int]:
        context = _digits(bits)
        top = max(margins)
        raised = [_exp(margin - top, unit, bits, context) for margin in margins]
        total = _ZERO
        for one in raised:
            total = context.add(total, one)
        found = [_whole(context.divide(one, total), bits, context) for one in raised]
        found[int(label)] -= 1 << bits
        return found

    def curvatures(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        p = self.chances(margins)
        return np.asarray(p[:, :, None] * (np.eye(self.classes) - p[:, None, :]))

    def curvatures_times(self, margins: Array, labels: Array, moves: Array) -> NDArray[np.float64]:
        p = self.chances(margins)
        return np.asarray(p * (moves - np.sum(p * moves, axis=1)[:, None]))


def _column_sums(values: Array) -> NDArray[np.float64]:
    """Sums over the classes, one after the other: a row gives the same bits wherever it stands."""
    total = np.zeros(len(values))
    for column in values.T:
        total += column
    return total


@dataclass(frozen=True)
class Hinge(LinearLoss):
    """max(0, 1 − ym): φ′ = −y or 0, so L = 1; it has a corner, so no β."""

    twice_differentiable = False

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return math.inf

    def smoothed(self, width: float) -> LinearLoss:
        """`SmoothedHinge`: at most width/4 above, whatever the dimension, with the same L."""
        return SmoothedHinge(width)

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.asarray(np.maximum(0.0, 1 - labels * margins))

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.where(labels * margins < 1, -labels, 0.0)

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        short = (1 << unit) - (margins[0] if label > 0 else -margins[0])
        return (max(short, 0) << bits) >> unit


@dataclass(frozen=True)
class SmoothedHinge(LinearLoss):
    """Hinge, rounded by (1 + h − ym)²/(4h) where |1 − ym| ≤ h (Chaudhuri–Monteleoni–Sarwate 2011).

    φ′ runs from −1 to 0 linearly, with slope 1/(2h): L = 1, β = 1/(2h).

    >>> SmoothedHinge(0.5).values(np.array([1.0]), np.array([1.0])).tolist()
    [0.125]
    """

    twice_differentiable = False  # φ″ jumps at the two ends of the rounded part
    width: float = 0.5

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 1 / (2 * self.width)

    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        short = 1 - labels * margins
        inside = np.square(np.clip(short + self.width, 0, 2 * self.width)) / (4 * self.width)
        return np.asarray(inside + np.maximum(0.0, short - self.width))

    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        slope = np.clip((1 - labels * margins + self.width) / (2 * self.width), 0.0, 1.0)
        return np.asarray(-labels * slope)

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        width = Fraction(self.width)
        short = 1 - Fraction(margins[0] if label > 0 else -margins[0], 1 << unit)
        inside = min(max(short + width, Fraction(0)), 2 * width) ** 2 / (4 * width)
        return int((inside + max(short - width, Fraction(0))) * 2**bits)

    def whole_residuals(self, margins: Sequence[int], unit: int, label: float, bits: int) -> list[int]:
        sign, width = (1 if label > 0 else -1), Fraction(self.width)
        short = 1 - Fraction(sign * margins[0], 1 << unit) + width
        slope = min(max(short / (2 * width), Fraction(0)), Fraction(1))
        return [-sign * int(slope * 2**bits)]

    def curvatures(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        return np.where(np.abs(1 - labels * margins) <= self.width, self.smoothness, 0.0)


# Decimals of as many digits as are wanted; the standard library's exp and quotient are rounded correctly.

_ZERO, _ONE = Decimal(0), Decimal(1)


@cache
def _digits(bits: int) -> Context:
    """Digits for numbers up to 1 in multiples of 2^−bits, and eight more for the few roundings on the way to them."""
    return Context(prec=math.ceil(bits * math.log10(2)) + 8, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def _exp(power: int, unit: int, bits: int, context: Context) -> Decimal:
    """e^(power/2^unit) for power ≤ 0; 0 where it is below 2^−(bits + 4)."""
    if -power > (bits + 4) << unit:
        return _ZERO
    return context.exp(context.divide(Decimal(power), Decimal(1 << unit)))


def _whole(value: Decimal, bits: int, context: Context) -> int:
    """A number in [0, 1] in multiples of 2^−bits."""
    return int(context.to_integral_value(context.multiply(value, Decimal(1 << bits))))
