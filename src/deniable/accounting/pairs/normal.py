"""Gaussian noise: the pair N(μ, 1) against N(0, 1), and its placements under Poisson sampling.

* **All of the data.** L ~ N(μ²/2, μ²) under P; the pair is attained and the same in both orders.
* **Poisson, a unit present or absent** (ADD_REMOVE, ZERO_OUT). ((1 − q)N(0) + qN(μ), N(0)), by `Mixed` of the above.
* **Poisson, a unit replaced.** A unit moves the mean by a vector x, its replacement by x′, with |x|, |x′| ≤ r (the
  reach) and |x − x′| ≤ Δ. For ε ≥ 0,

      H_{e^ε}(P‖Q) = q · E_{N(x)} (1 − a·W₁ − b·W₂)₊,  W₁ = dN(0)/dN(x), W₂ = dN(x′)/dN(x), a = (1−q)(e^ε−1)/q, b = e^ε.

  W₁ and W₂ are log-normal with mean 1, and a convex function of a positive combination of those has an expectation
  that grows with each entry of the covariance of their logarithms (Kahane 1986). The entries are |x|² ≤ r²,
  |x − x′|² ≤ Δ² and ⟨x, x − x′⟩ ≤ rΔ, and all three are reached at once on a line, at x = r and x′ = r − Δ. So this
  placement is the worst for every ε ≥ 0, in any dimension and in either order; `Symmetric` of it dominates. For
  Δ = 2r (clipped vectors) it is the symmetric pair; for Δ = r (a sum over [0, b]) it is the pair against N(0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.accounting.pairs.law import Array, Law, Masses
from deniable.numerics.arrays import UNIT, exact_difference, normal_above, normal_above_scaled, tail_at


@dataclass(frozen=True, eq=False)
class NormalLaw(Law):
    """N(μ, 1) against N(0, 1)."""

    mu: float
    low: float = -math.inf
    high: float = math.inf

    def location(self, top: float) -> float:
        # z = (l + μ²/2)/μ is rounded: |dl| = μ|dz| ≤ 8u(|l| + μ²).
        return 8 * UNIT * (top + self.mu**2)

    def _point(self, loss: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.clip(loss / self.mu + self.mu / 2, -1e100, 1e100)

    def above(self, loss: Array) -> Masses:
        z = self._point(loss)
        with np.errstate(over="ignore", under="ignore"):
            near = normal_above(z) * np.exp(np.clip(loss, -700.0, 300.0))
        # Far out Q underflows; e^l = e^{μz − μ²/2} = e^{(z² − (z − μ)²)/2} keeps the product a float.
        far, here = (loss > 300) | (z > 30), exact_difference(z, self.mu)
        return tail_at(here), np.where(far, normal_above_scaled(z, here), near)

    def below(self, loss: Array) -> Masses:
        z = self._point(loss)
        return tail_at(exact_difference(-z, -self.mu)), normal_above(-z)


@dataclass(frozen=True, eq=False)
class PlacedNormalLaw(Law):
    """(1 − q)N(0) + qN(r) against (1 − q)N(0) + qN(r − Δ), for losses above 0 only: the inside of a `Symmetric`."""

    rate: float
    reach: float
    shift: float
    low: float = 0.0
    high: float = math.inf

    def location(self, top: float) -> float:
        # The last Newton step leaves a residual of a few units in ln(a·W₁ + b·W₂), whose slope in l is at least 1.
        size = top - math.log(self.rate) + self.reach**2 + self.shift**2
        return 64 * UNIT * (1 + size)

    def _point(self, loss: Array) -> Array:
        """Where a·W₁ + b·W₂ = 1: the loss exceeds l exactly above this point."""
        l = np.maximum(loss, 0.0)
        r, d = self.reach, self.shift
        other = r - d
        with np.errstate(divide="ignore", over="ignore"):
            log_a = (
                np.where(l > 30, l, np.log(np.expm1(np.minimum(l, 30.0))))
                + math.log1p(-self.rate)
                - math.log(self.rate)
            )
        # ln W₁ = r²/2 − r·z, ln W₂ = (r² − other²)/2 − d·z; F = logaddexp is convex and falls, so Newton from the left
        # of the root never leaves it and converges.
        lift = (r * r - other * other) / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            z = np.maximum((log_a + r * r / 2) / r, (l + lift) / d)
            for _ in range(60):
                one, two = log_a + r * r / 2 - r * z, l + lift - d * z
                value = np.logaddexp(one, two)
                slope = r * np.exp(one - value) + d * np.exp(two - value)
                step = value / slope
                z = z + step
                if np.all(np.abs(step) * (r + d) <= 4 * UNIT * (1 + np.abs(l) + (r + d) * np.abs(z))):
                    break
        return z

    def above(self, loss: Array) -> Masses:
        z = self._point(loss)
        none, q, other = normal_above(z), self.rate, self.reach - self.shift
        here, there = exact_difference(z, self.reach), exact_difference(z, other)
        p, away = (1 - q) * none + q * tail_at(here), (1 - q) * none + q * tail_at(there)
        l = np.maximum(loss, 0.0)
        with np.errstate(over="ignore", under="ignore"):
            near = away * np.exp(np.minimum(l, 700.0))
            # Far out: each of the two tails in units of the bell about r, with the rest of the exponent added up first.
            one = l - self.reach * z + self.reach**2 / 2
            two = l - self.shift * z + (self.reach**2 - other**2) / 2
            far = (1 - q) * normal_above_scaled(z, here) * np.exp(np.minimum(one, 700.0))
            far += q * normal_above_scaled(there[0], here) * np.exp(np.minimum(two, 700.0))
        return p, np.where((l > 300) | (z > 30), far, near)

    def below(self, loss: Array) -> Masses:
        z = self._point(loss)
        none, q = normal_above(-z), self.rate
        p = (1 - q) * none + q * tail_at(exact_difference(-z, -self.reach))
        return p, (1 - q) * none + q * tail_at(exact_difference(-z, self.shift - self.reach))
