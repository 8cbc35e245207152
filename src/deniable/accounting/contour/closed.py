"""A transform in closed form on one line: what Laplace noise and losses of bounded range have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.contour.transform import Ratios
from deniable.numerics.arrays import CALL, UNIT, Complexes, Reals, log_of_one_plus


@dataclass(frozen=True)
class TiltedClosed(ABC):
    """A loss in [−ε₀, ε₀] on Re z = tilt > −1/2, by M(z) − 1 and a bound on its error."""

    epsilon: float
    tilt: float

    @abstractmethod
    def minus_one(self, z: Complexes) -> tuple[Complexes, Reals]:
        """M(z) − 1, without cancellation where M is near 1, and a bound on its absolute error."""

    @cached_property
    def _base(self) -> tuple[float, float]:
        """M(λ) − 1 and a bound on its error."""
        value, error = self.minus_one(np.array([complex(self.tilt)]))
        return float(value[0].real), float(error[0])

    @property
    def logarithm(self) -> float:
        """log M(λ)."""
        return math.log1p(self._base[0])

    @property
    def error(self) -> float:
        """The error of M(λ) over M(λ), and the rounding of ε₀ and of the logarithm."""
        minus, error = self._base
        return 1.01 * error / (1 + minus) + CALL * abs(self.logarithm)

    @property
    @abstractmethod
    def mean(self) -> float:
        """The tilted mean."""

    @property
    def size(self) -> int:
        """A closed form."""
        return 1

    def ratios(self, omegas: Reals) -> Ratios:
        """M(z)/M(λ) − 1 = (N(z) − N(λ))/M(λ) with N = M − 1; the centre is taken off the phase afterwards."""
        z = self.tilt + 1j * omegas
        minus, error = self.minus_one(z.astype(np.complex128))
        base, base_error = self._base
        change = (minus - base) / (1 + base)
        centre = omegas * self.mean
        logarithm = log_of_one_plus(change.real, change.imag) - 1j * centre
        size = np.exp(logarithm.real)
        slip = (error + base_error * (1 + np.abs(change))) / (1 + base) + 16 * UNIT * np.abs(change) / np.minimum(
            size, 1.0
        )
        return Ratios(logarithm, 1.01 * slip / size + 8 * UNIT * (np.abs(centre) + np.abs(logarithm.imag)))
