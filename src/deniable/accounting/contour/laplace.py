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
from deniable.accounting.contour.ends import ends_decay
from deniable.accounting.contour.rounding import CALL, UNIT, Complexes, Reals, complex_excess, excess, log_of_one_plus
from deniable.accounting.contour.transform import Moments, Ratios


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
        minus = ((1 + lambdas) * excess(lambdas * e) + lambdas * excess(-(1 + lambdas) * e)) / (2 * k)
        return Moments(np.log1p(minus), mean, np.maximum(square - mean**2, 1e-300))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedLaplacian:
        """No quadrature: every line is as good as any other."""
        if tilt * self.epsilon > 500 or tilt <= -0.5:
            raise NotCertified("the Laplace transform is out of range on this line")
        return TiltedLaplacian(self.epsilon, tilt)


def _minus_one(z: Complexes, epsilon: float) -> tuple[Complexes, Reals]:
    """M(z) − 1 for Re z > −1/2, and a bound on its absolute error."""
    first, first_error = complex_excess(z * epsilon)
    second, second_error = complex_excess(-(z + 1) * epsilon)
    half = np.abs(2 * z + 1)
    value = ((z + 1) * first + z * second) / (2 * z + 1)
    sizes = np.abs(z + 1) * np.abs(first) + np.abs(z) * np.abs(second)
    error = (np.abs(z + 1) * first_error + np.abs(z) * second_error + 16 * UNIT * sizes) / half
    return value, error * (1 + 32 * UNIT)


@dataclass(frozen=True)
class TiltedLaplacian:
    """The Laplace loss on Re z = tilt > −1/2."""

    epsilon: float
    tilt: float

    @cached_property
    def _base(self) -> tuple[float, float]:
        """M(λ) − 1 and a bound on its error."""
        value, error = _minus_one(np.array([complex(self.tilt)]), self.epsilon)
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

    @cached_property
    def mean(self) -> float:
        """The tilted mean."""
        return float(Laplacian(self.epsilon).moments(np.array([self.tilt])).slope[0])

    @property
    def size(self) -> int:
        """A closed form."""
        return 1

    def ratios(self, omegas: Reals) -> Ratios:
        """M(z)/M(λ) − 1 = (N(z) − N(λ))/M(λ) with N = M − 1; the centre is taken off the phase afterwards."""
        z = self.tilt + 1j * omegas
        minus, error = _minus_one(z.astype(np.complex128), self.epsilon)
        base, base_error = self._base
        change = (minus - base) / (1 + base)
        centre = omegas * self.mean
        logarithm = log_of_one_plus(change.real, change.imag) - 1j * centre
        size = np.exp(logarithm.real)
        slip = (error + base_error * (1 + np.abs(change))) / (1 + base) + 16 * UNIT * np.abs(change) / np.minimum(
            size, 1.0
        )
        return Ratios(logarithm, 1.01 * slip / size + 8 * UNIT * (np.abs(centre) + np.abs(logarithm.imag)))

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
