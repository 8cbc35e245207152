"""What a loss must say of itself. A loss of the user's own subclasses one of the two and declares its constants."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import NotSupported

Array = NDArray[Any]


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss with declared constants."""

    everywhere: ClassVar[bool] = True
    """Whether the constants hold for every θ; False where they need a bound on θ."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """L: no subgradient in θ is longer, for rows of norm at most 1."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """β: no eigenvalue of the Hessian in θ is larger, for rows of norm at most 1; inf where there is no Hessian."""

    @property
    def strong_convexity(self) -> float:
        """No eigenvalue of the Hessian is smaller; 0 for a linear model, whatever the loss."""
        return 0.0

    @property
    def smooth(self) -> bool:
        """Whether gradients are Lipschitz."""
        return math.isfinite(self.smoothness)


@dataclass(frozen=True)
class LinearLoss(Loss):
    """A loss φ(m, y) of the margins m = ⟨row, θ⟩."""

    twice_differentiable: ClassVar[bool] = True
    """Whether φ has a continuous second derivative in m; objective perturbation needs it."""

    regression: ClassVar[bool] = False
    """Whether labels are numbers in [−1, 1] that margins estimate, so that a fit may start at least squares."""

    lopsided: ClassVar[bool] = False
    """Whether the sizes of residuals of the two signs balance at the minimum, so that cutting the larger ones to one
    length would move it."""

    @property
    def outputs(self) -> int:
        """How many margins a record has."""
        return 1

    def smoothed(self, width: float) -> LinearLoss:
        """The loss with its corners rounded off within `width`, if it can be; itself where it has none."""
        return self

    @abstractmethod
    def values(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        """φ for every record."""

    @abstractmethod
    def residuals(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        """∂φ/∂m for every record (and every margin): the gradient in θ is row ⊗ residual."""

    def whole_value(self, margins: Sequence[int], unit: int, label: float, bits: int) -> int:
        """φ of one record at the margins margins[j]/2^unit, in whole multiples of 2^−bits, off by at most two.

        The exponential mechanism needs it where float64 does not suffice.
        """
        raise NotSupported(f"{type(self).__name__} gives its values in float64 only.")

    def whole_residuals(self, margins: Sequence[int], unit: int, label: float, bits: int) -> list[int]:
        """∂φ/∂m of one record at the margins margins[j]/2^unit, in whole multiples of 2^−bits, each off by at most one.

        Methods that minimise exactly need it: float64 does not tell a minimum where records are very many.
        """
        raise NotSupported(f"{type(self).__name__} gives its derivatives in float64 only.")

    def curvatures(self, margins: Array, labels: Array) -> NDArray[np.float64]:
        """∂²φ/∂m² for every record: (n,), or (n, k, k) for k margins. Only used to find minima faster."""
        return np.full(np.shape(margins), self.smoothness)

    def curvatures_times(self, margins: Array, labels: Array, moves: Array) -> NDArray[np.float64]:
        """∂²φ/∂m² times a vector for every record; both have the shape of the margins."""
        if self.outputs == 1:
            return np.asarray(self.curvatures(margins, labels) * moves)
        return np.asarray(np.einsum("iab,ib->ia", self.curvatures(margins, labels), moves))


@dataclass(frozen=True)
class PointLoss(Loss):
    """A loss of θ against a record that is a point x of the same space, |x| ≤ 1 and |θ| ≤ 1."""

    @abstractmethod
    def values(self, theta: Array, points: Array) -> NDArray[np.float64]:
        """The loss for every point."""

    @abstractmethod
    def gradients(self, theta: Array, points: Array) -> NDArray[np.float64]:
        """A subgradient for every point."""

    def whole_value(self, away: Sequence[int], unit: int, bits: int) -> int:
        """The loss of one point at θ − x = away/2^unit, in whole multiples of 2^−bits, off by at most two.

        The exponential mechanism needs it where float64 does not suffice.
        """
        raise NotSupported(f"{type(self).__name__} gives its values in float64 only.")
