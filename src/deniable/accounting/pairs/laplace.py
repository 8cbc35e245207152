"""Laplace noise and the exponential mechanism: laws with closed forms.

**Laplace**, ε₀ = sensitivity/scale: Lap(ε₀) against Lap(0) in units of the scale. The loss lies in [−ε₀, ε₀] with an
atom at either end and P[L ≤ l] = ½ e^{(l−ε₀)/2} between.

*Several numbers.* If the L1 distance ε₀ is spread over coordinates a₁ + … + a_k, the pair is dominated by the 1-D pair
with the whole shift. Let f_a be the trade-off function of a shift by a. Noise with a log-concave density has threshold
tests as its best tests, so f_{a+b} = f_b ∘ (1 − f_a) on the line. Moving one coordinate after the other, the triangle
inequality of trade-off functions (`conversions.group.chained`) gives T ≥ f_{a_k} ∘ (1 − f_{a_{k−1}}) ∘ … =
f_{a₁+…+a_k}. The discrete Laplace is log-concave on the integers and the same argument holds with whole shifts.

*Poisson sampling under REPLACE.* With x = r and x′ = r − Δ on the line, W₁ and W₂ (see `normal`) are both falling
functions of the same number. They have the largest spread that reach and sensitivity allow (each alone is a shift,
dominated as above), and for a convex function of a positive combination falling together is the worst coupling. So the
placement x = r, x′ = r − Δ is the worst for every ε ≥ 0 in either order, for every symmetric log-concave noise.

**Exponential mechanism** with range ε (Dong–Durfee–Rogers 2020): a step whose loss has range at most ε has, for losses
in {t, t − ε}, the curve (e^ε − e^t)(1 − e^{s−t})/(e^ε − 1) at s; the largest over t is h(s) = (e^{ε/2} −
e^{s/2})²/(e^ε − 1) on [−ε, ε]. A pair has this curve: P[L > l] = (e^ε − e^{(ε+l)/2})/(e^ε − 1), with no atoms. It
dominates the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.accounting.pairs.law import Array, Law, Masses
from deniable.numerics.arrays import UNIT, bisect_all


def laplace_above(x: Array) -> Array:
    """P[X > x] for the Laplace law of scale 1."""
    with np.errstate(under="ignore"):
        tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x > 0, tail, 1 - tail)


@dataclass(frozen=True, eq=False)
class LaplaceLaw(Law):
    """Lap(ε₀) against Lap(0)."""

    epsilon: float

    def __post_init__(self) -> None:
        e = self.epsilon
        # Exponents are rounded: a mass is off by a few units of its exponent, which is at most ε₀.
        for name, value in (("low", -e), ("high", e), ("jumps", (-e, e)), ("relative", (6 + 4 * e) * UNIT)):
            object.__setattr__(self, name, value)

    def above(self, loss: Array) -> Masses:
        e = self.epsilon
        with np.errstate(under="ignore"):
            # P[L ≤ l] = ½ e^{(l − ε₀)/2} and e^l·Q[L > l] are the same inside.
            inside = 0.5 * np.exp((np.clip(loss, -e, e) - e) / 2)
            all_of_q = np.exp(np.minimum(loss, 0.0))
        low, high = loss < -e, loss >= e
        return np.where(low, 1.0, np.where(high, 0.0, 1 - inside)), np.where(low, all_of_q, np.where(high, 0.0, inside))

    def below(self, loss: Array) -> Masses:
        e = self.epsilon
        at = np.clip(loss, -e, e)
        with np.errstate(under="ignore"):
            p, q = 0.5 * np.exp((at - e) / 2), 1 - 0.5 * np.exp(-(at + e) / 2)
        low, high = loss < -e, loss >= e
        return np.where(low, 0.0, np.where(high, 1.0, p)), np.where(low, 0.0, np.where(high, 1.0, q))


@dataclass(frozen=True, eq=False)
class PlacedLaplaceLaw(Law):
    """(1 − q)Lap(0) + qLap(r) against (1 − q)Lap(0) + qLap(r − Δ), for losses above 0: the inside of a `Symmetric`."""

    rate: float
    reach: float
    shift: float

    def __post_init__(self) -> None:
        top = float(self._loss(np.array([self.reach]))[0])
        relative = (16 + 8 * (self.reach + self.shift)) * UNIT
        for name, value in (("low", 0.0), ("high", top), ("jumps", (top,)), ("relative", relative)):
            object.__setattr__(self, name, value)

    def location(self, top: float) -> float:
        # The point is bisected to the last bit; the loss moves at most twice as fast as the point.
        return 32 * UNIT * (1 + top + self.reach + self.shift)

    def _loss(self, z: Array) -> Array:
        """ln of the ratio of the densities at a point."""
        q, r, d = self.rate, self.reach, self.shift
        here, absent, there = -np.abs(z - r), -np.abs(z), -np.abs(z - r + d)
        return np.logaddexp(math.log1p(-q) + absent, math.log(q) + here) - np.logaddexp(
            math.log1p(-q) + absent, math.log(q) + there
        )

    def _point(self, loss: Array) -> Array:
        """The smallest point above which the loss exceeds l; +inf when none does."""
        low, high = np.full(loss.shape, min(0.0, self.reach - self.shift)), np.full(loss.shape, self.reach)
        point = bisect_all(lambda z: self._loss(z) > loss, low, high, turns=64)[1]
        return np.where(loss >= self.high, math.inf, point)

    def above(self, loss: Array) -> Masses:
        z, q = self._point(loss), self.rate
        none = laplace_above(z)
        p = (1 - q) * none + q * laplace_above(z - self.reach)
        there = (1 - q) * none + q * laplace_above(z - self.reach + self.shift)
        with np.errstate(over="ignore", under="ignore"):
            return p, np.minimum(there * np.exp(np.minimum(loss, 700.0)), p)

    def below(self, loss: Array) -> Masses:
        z, q = -self._point(loss), self.rate
        none = laplace_above(z)
        p = (1 - q) * none + q * laplace_above(z + self.reach)
        return p, (1 - q) * none + q * laplace_above(z + self.reach - self.shift)


@dataclass(frozen=True, eq=False)
class RangeLaw(Law):
    """The worst pair of a step whose loss has range at most ε."""

    epsilon: float

    def __post_init__(self) -> None:
        e = self.epsilon
        for name, value in (("low", -e), ("high", e), ("relative", (16 + 8 * e) * UNIT)):
            object.__setattr__(self, name, value)

    def above(self, loss: Array) -> Masses:
        e = self.epsilon
        at = np.clip(loss, -e, e)
        # p = (1 − e^{(l−ε)/2})/(1 − e^{−ε}), q = e^{−(ε+l)/2}·(1 − e^{(l−ε)/2})/(1 − e^{−ε})
        with np.errstate(under="ignore"):
            p = np.expm1((at - e) / 2) / math.expm1(-e)
            return p, p * np.exp((at - e) / 2) * np.exp(np.minimum(loss - at, 0.0))

    def below(self, loss: Array) -> Masses:
        e = self.epsilon
        at = np.clip(loss, -e, e)
        with np.errstate(under="ignore"):
            # p = e^{(l−ε)/2}(1 − e^{−(l+ε)/2})/(1 − e^{−ε}); the pair is the same in both orders and has no atoms.
            p = np.exp((at - e) / 2) * np.expm1(-(at + e) / 2) / math.expm1(-e)
        return p, self.above(-loss)[0]
