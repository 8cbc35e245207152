"""The exponential mechanism: the worst pair of a loss of range at most ε₀ (`pairs.laplace`), which has a density.

P[L > l] = (e^{ε₀} − e^{(ε₀+l)/2})/(e^{ε₀} − 1) on [−ε₀, ε₀], both ways round: a piece of an exponential. Hence, with
k = λ + 1/2 and y(t) = e^t − 1 − t − t²/2,

    M(z) = (e^{(z+1)ε₀} − e^{−zε₀}) / ((2z + 1)(e^{ε₀} − 1)),
    M(z) − 1 = (y((z+1)ε₀) − y(−zε₀) − (2z + 1) y(ε₀)) / ((2z + 1)(e^{ε₀} − 1)),
    |M(λ + iv)/M(λ)|² = (1 + sin²(vε₀)/sinh²(kε₀)) / (1 + v²/k²),

the second form with all terms of third order, as M − 1 is of second.

**Decay.** The last formula falls up to vε₀ = π/2: its logarithmic derivative has the sign of sin x cos x (κ² + x²) −
x(sinh²κ + sin²x) with x = vε₀ and κ = kε₀ ≤ sinh κ, which is at most −κ²(x − sin x cos x) − x sin x (sin x − x cos x)
≤ 0. Beyond, (1 + 1/sinh²κ)/(1 + v²/k²) bounds it and falls for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.closed import TiltedClosed
from deniable.accounting.contour.transform import Moments
from deniable.numerics.arrays import UNIT, Complexes, Reals, complex_third

_FAR = 500.0


@dataclass(frozen=True)
class Spread:
    """A loss of range ε₀ = `epsilon`, as the nearest double."""

    epsilon: float
    lattice: None = None

    @property
    def largest(self) -> float:
        """The loss never exceeds ε₀, but for its rounding."""
        return self.epsilon * (1 + 2 * UNIT)

    def moments(self, lambdas: Reals) -> Moments:
        """Those of e^{kl} on [−ε₀, ε₀]: mean ε₀ coth κ − 1/k, variance 1/k² − ε₀²/sinh²κ, by series for small κ."""
        e, k = self.epsilon, lambdas + 0.5
        kappa = np.maximum(k * e, 1e-2)
        near = k * e < 1e-2
        mean = np.where(near, k * e * e / 3, e / np.tanh(kappa) - e / kappa)
        spread = np.where(near, e * e / 3, (e / kappa) ** 2 - (e / np.sinh(np.minimum(kappa, 300.0))) ** 2)
        minus = _minus_one(lambdas.astype(np.complex128), e)[0].real
        return Moments(np.log1p(minus), mean, np.maximum(spread, 1e-300))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedSpread:
        """No quadrature: every line is as good as any other."""
        if (tilt + 1) * self.epsilon > _FAR or tilt <= -0.5:
            raise NotCertified("the transform is out of range on this line")
        return TiltedSpread(self.epsilon, tilt)


def _minus_one(z: Complexes, epsilon: float) -> tuple[Complexes, Reals]:
    """M(z) − 1 for Re z > −1/2, and a bound on its absolute error."""
    up, up_error = complex_third((z + 1) * epsilon)
    down, down_error = complex_third(-z * epsilon)
    whole, whole_error = complex_third(np.array([complex(epsilon)]))
    twice = np.abs(2 * z + 1)
    value = (up - down - (2 * z + 1) * whole) / ((2 * z + 1) * math.expm1(epsilon))
    sizes = np.abs(up) + np.abs(down) + twice * np.abs(whole)
    error = (up_error + down_error + twice * whole_error + 32 * UNIT * sizes) / (twice * math.expm1(epsilon))
    return value, error * (1 + 32 * UNIT)


@dataclass(frozen=True)
class TiltedSpread(TiltedClosed):
    """A loss of bounded range on Re z = tilt > −1/2."""

    def minus_one(self, z: Complexes) -> tuple[Complexes, Reals]:
        """The closed form."""
        return _minus_one(z, self.epsilon)

    @cached_property
    def mean(self) -> float:
        """The tilted mean."""
        return float(Spread(self.epsilon).moments(np.array([self.tilt])).slope[0])

    @property
    def atomic(self) -> bool:
        """A density."""
        return False

    def decay(self, omegas: Reals, last: float) -> Reals:
        """The modulus itself up to a quarter of its wave, its envelope beyond."""
        k = self.tilt + 0.5
        ripple = np.sin(np.minimum(omegas * self.epsilon, 0.5 * math.pi)) / math.sinh(k * self.epsilon)
        # log (1 + a)/(1 + b) as log1p of a negative number, so that a billion steps of tiny loss keep their digits
        ahead, behind = ripple * ripple, (omegas / k) ** 2
        gap = (behind - ahead) / (1 + behind)
        slack = 64 * UNIT * (ahead + behind) / (1 + behind)
        return np.asarray(0.5 * np.log1p(-np.maximum(gap - slack, 0.0)))
