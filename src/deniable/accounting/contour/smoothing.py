"""Smoothing: a bracket where the losses have atoms and the integrand does not decay.

A little Gaussian noise makes any integrand decay, and what it does to δ is known from both sides. Let δ be the curve of
any pair and δ_s that of the same pair together with a Gaussian step of parameter s. For 0 < s ≤ 1/2 and t ≥ 2s(1 + s²),

    2δ_s(ε) − δ_t(ε) ≤ δ(ε) ≤ δ_s(ε).

*Proof.* With x = e^ε and R = dP/dQ, δ is an average of (1 − x/R)₊ over R, plus P[R = ∞]. The Gaussian step multiplies
x by an independent W, ln W ~ N(−s²/2, s²), which has mean 1. For one value of R, E(R − xW)₊ is the price of a put
option (Black–Scholes): it exceeds (R − x)₊ by V(s) ≥ 0 (Jensen), with V′(v) = xφ(d(v)), d(v)² = m²/v² + m + v²/4 and
m = ln(x/R). That is the upper end. For the lower end, V(t) ≥ 2V(s) is enough. With t = 2rs,

    V(t) = 2rx ∫₀^s φ(d(2rv)) dv,   d(2rv)² = m²/(4r²v²) + m + r²v² ≤ d(v)² + (r² − 1/4)v²,

so V(t) ≥ 2r·e^{−(r² − 1/4)s²/2}·V(s), which is at least 2V(s) when ln r ≥ (r² − 1/4)s²/2. For r = 1 + s² that is s² −
s⁴/2 ≥ s²(3/8 + s² + s⁴/2), true up to s = 1/2; V grows, so a larger t will do as well. ∎

The bracket is about 3s²λ(λ + 1)/2 wide, relatively, λ the tilt; a line twice as long makes it four times narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deniable.accounting.contour.integral import Contour, Value
from deniable.numerics.arrays import CALL, UNIT

WIDTH = 8e-6
"""The relative width of δ that smoothing is chosen for."""

_MOST = 0.25
"""s² at most."""


def squares(tilt: float) -> tuple[float, float]:
    """s² and t² for a tilt."""
    small = min(_MOST, 2 * WIDTH / (3 * tilt * (tilt + 1)))
    return small, 4 * small * (1 + small) ** 2 * (1 + 1e-12)


@dataclass(frozen=True)
class Smoothed:
    """The rules of δ_s and of δ_t, on one line."""

    less: Contour
    more: Contour

    @property
    def tilt(self) -> float:
        """λ."""
        return self.less.tilt

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log δ_s(ε) and its rate of fall, unproven."""
        return self.less.estimate(epsilon)

    def delta(self, epsilon: float) -> Value:
        """Bounds on δ(ε)."""
        less, more = self.less.delta(epsilon), self.more.delta(epsilon)
        apart = more.scale - less.scale
        # both scales are exact doubles; their difference and its exponential are rounded
        grown = math.exp(apart) * (1 + CALL + UNIT * abs(apart) + 4 * UNIT)
        lower = max(0.0, 2 * less.lower - more.upper * grown)
        return Value(less.scale, less.estimate, lower * (1 - 8 * UNIT), less.upper, less.slope)
