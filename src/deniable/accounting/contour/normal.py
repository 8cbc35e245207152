"""All Gaussian steps together: M(z) = exp(μ² z(z + 1)/2), exactly.

The loss of N(μ, 1) against N(0, 1) is normal with mean μ²/2 and variance μ² (Dong–Roth–Su 2019), both ways round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.accounting.contour.transform import Moments, Ratios
from deniable.numerics.arrays import UNIT, Reals


@dataclass(frozen=True)
class Normal:
    """Gaussian steps of total squared parameter `square` = Σ (sensitivity/scale)², as the nearest double."""

    square: float
    lattice: None = None
    largest: float = math.inf

    def moments(self, lambdas: Reals) -> Moments:
        """Closed forms."""
        half = 0.5 * self.square
        return Moments(half * lambdas * (1 + lambdas), half * (1 + 2 * lambdas), np.full_like(lambdas, self.square))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedNormal:
        """No quadrature: every line is as good as any other."""
        return TiltedNormal(self.square, tilt)


@dataclass(frozen=True)
class TiltedNormal:
    """The normal law, tilted: the mean moves, the variance stays."""

    square: float
    tilt: float

    @property
    def logarithm(self) -> float:
        """μ² λ(1 + λ)/2."""
        return 0.5 * self.square * self.tilt * (1 + self.tilt)

    @property
    def error(self) -> float:
        """μ² is rounded once, and four operations follow; 1 + λ is off by a unit of 1 + |λ|."""
        return 8 * UNIT * 0.5 * self.square * abs(self.tilt) * (1 + abs(self.tilt))

    @property
    def mean(self) -> float:
        """μ²(1 + 2λ)/2, rounded."""
        return 0.5 * self.square * (1 + 2 * self.tilt)

    @property
    def size(self) -> int:
        """A closed form."""
        return 1

    @property
    def atomic(self) -> bool:
        """A density."""
        return False

    def ratios(self, omegas: Reals) -> Ratios:
        """exp(−μ²ω²/2), and a phase that is nothing but the rounding of `mean`."""
        exponent = -0.5 * self.square * omegas * omegas
        slip = 4 * UNIT * self.square * (1 + 2 * abs(self.tilt)) * np.abs(omegas)
        return Ratios(exponent.astype(np.complex128), np.expm1(16 * UNIT * np.abs(exponent) + slip))

    def decay(self, omegas: Reals, last: float) -> Reals:
        """Monotone, so its own bound."""
        return (1 - 8 * UNIT) * (-0.5 * self.square * omegas * omegas)
