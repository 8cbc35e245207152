"""Laplace noise: a closed form with two atoms.

With ε₀ = sensitivity/scale the loss is ε₀ with probability 1/2, −ε₀ with probability e^{−ε₀}/2, and has density
e^{(v − ε₀)/2}/4 between, both ways round. Hence

    M(z) = ((z + 1) e^{zε₀} + z e^{−(z+1)ε₀}) / (2z + 1),
    M(z) − 1 = ((z + 1) x(zε₀) + z x(−(z+1)ε₀)) / (2z + 1),   x(t) = e^t − 1 − t,

the second form without cancellation, which matters when the step is repeated a billion times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.closed import TiltedClosed
from deniable.accounting.contour.ends import ends_decay
from deniable.accounting.contour.transform import Moments
from deniable.numerics.arrays import UNIT, Complexes, Reals, complex_excess


@dataclass(frozen=True)
class Laplacian:
    """A Laplace step of ε₀ = `epsilon`, as the nearest double."""

    epsilon: float
    lattice: None = None

    @property
    def largest(self) -> float:
        """The loss never exceeds ε₀."""
        return self.epsilon

    def moments(self, lambdas: Reals) -> Moments:
        """From the four pieces of the tilted law: two atoms and one exponential piece between."""
        e, k = self.epsilon, lambdas + 0.5
        high, low = 0.5 * np.exp(lambdas * e), 0.5 * np.exp(-(lambdas + 1) * e)
        # ∫ v^j e^{kv} dv e^{−ε/2}/4 over [−ε, ε], scaled by cosh-free forms: e^{kε}(…) − e^{−kε}(…)
        top, end = 0.25 * np.exp(lambdas * e), 0.25 * np.exp(-(lambdas + 1) * e)
        zeroth = (top - end) / k
        first = (top * (e - 1 / k) + end * (e + 1 / k)) / k
        second = (top * (e * e - 2 * e / k + 2 / k**2) - end * (e * e + 2 * e / k + 2 / k**2)) / k
        total = high + low + zeroth
        mean = (e * (high - low) + first) / total
        square = (e * e * (high + low) + second) / total
        minus = ((1 + lambdas) * _about(lambdas * e) + lambdas * _about(-(1 + lambdas) * e)) / (2 * k)
        return Moments(np.log1p(minus), mean, np.maximum(square - mean**2, 1e-300))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedLaplacian:
        """No quadrature: every line is as good as any other."""
        if tilt * self.epsilon > 500 or tilt <= -0.5:
            raise NotCertified("the Laplace transform is out of range on this line")
        return TiltedLaplacian(self.epsilon, tilt)


def _about(t: Reals) -> Reals:
    """e^t − 1 − t to nine digits: enough to choose by, at a tenth of the price of `excess`."""
    return np.where(np.abs(t) < 1e-3, t * t * (0.5 + t * (1 / 6 + t / 24)), np.expm1(t) - t)


@dataclass(frozen=True)
class TiltedLaplacian(TiltedClosed):
    """The Laplace loss on Re z = tilt > −1/2."""

    def minus_one(self, z: Complexes) -> tuple[Complexes, Reals]:
        """M(z) − 1 for Re z > −1/2, and a bound on its absolute error."""
        first, first_error = complex_excess(z * self.epsilon)
        second, second_error = complex_excess(-(z + 1) * self.epsilon)
        half = np.abs(2 * z + 1)
        value = ((z + 1) * first + z * second) / (2 * z + 1)
        sizes = np.abs(z + 1) * np.abs(first) + np.abs(z) * np.abs(second)
        error = (np.abs(z + 1) * first_error + np.abs(z) * second_error + 16 * UNIT * sizes) / half
        return value, error * (1 + 32 * UNIT)

    @cached_property
    def mean(self) -> float:
        """The tilted mean."""
        return float(Laplacian(self.epsilon).moments(np.array([self.tilt])).slope[0])

    @property
    def atomic(self) -> bool:
        """Two atoms."""
        return True

    def decay(self, omegas: Reals, last: float) -> Reals:
        """The atoms ±ε₀ until their phases are opposite (`ends`). For all ω, the piece between them is

        (e^{zε₀} − e^{−(z+1)ε₀})/(2(2z + 1)), so |φ| ≤ p + p′ + (p + p′)/|2z + 1|, which falls for ever.
        """
        e, tilt = self.epsilon, self.tilt
        scale = math.exp(-self.logarithm)
        high, low = 0.5 * math.exp(tilt * e) * scale, 0.5 * math.exp(-(tilt + 1) * e) * scale
        both, slack = high + low, 64 * UNIT + 2 * self.error
        beyond = np.maximum(omegas, math.pi / (2 * e))
        far = np.log(both + both / np.hypot(2 * tilt + 1, 2 * beyond)) + slack
        return ends_decay(low, high, 2 * e, omegas, far, slack=1e-12 + 2 * slack)
