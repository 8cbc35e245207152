"""The pair of a Poisson-sampled Gaussian step, in every relation and direction, and the quadrature of its transform.

In units of the noise, P = (1 − p)N(0) + p N(a) and Q = (1 − q)N(0) + q N(−b), with

| relation, direction | p | q | a, b |
|---|---|---|---|
| add/remove and zero-out, P holds the unit | rate | 0 | a = sensitivity/scale |
| the same, Q holds the unit | 0 | rate | b = sensitivity/scale |
| replace, reach = sensitivity/2 | rate | rate | a = b = reach/scale |

(Zhu–Dong–Wang 2022, Thm 11, for the first two; docs/accounting-contour.md proves the third.) With the standard normal
density φ and ℓ₊ = log(1 − p + p e^{ay − a²/2}), ℓ₋ = log(1 − q + q e^{−by − b²/2}) the loss is ℓ₊ − ℓ₋ and

    M(z) = ∫ φ(y) exp((1 + z) ℓ₊(y) − z ℓ₋(y)) dy.

**Quadrature.** The trapezoid rule of step η over the whole line. Shift the line of integration to y + ic. There
|φ(y + ic)| = e^{c²/2} φ(y); |1 − p + p e^{u + iθ}| lies between cos(θ/2) and 1 times its value at θ = 0, and its
argument between 0 and θ. Hence, for λ = Re z > 0, ω = Im z and c < π/a, c < π/b,

    ∫ |integrand(y + ic)| dy ≤ e^{c²/2} e^{|ω|(a+b)c} cos(bc/2)^{−λ} M(λ) =: N,

and the rule is off by at most 2N/(e^{2πc/η} − 1) (Trefethen–Weideman 2014, Thm 5.1). The step is the largest for which
some c makes this small enough.

**Range.** Beyond the last point above, log(integrand) falls at least as fast as its slope there says: ℓ₊ has slope at
most a, −λℓ₋ at most λb π₋ with π₋ falling. So the terms left out are below a geometric series. Below the first point
the slope is at least |y|.

"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.cloud import Points
from deniable.accounting.contour.density import log_sampled, log_sampled_at
from deniable.numerics.arrays import CALL, UNIT, Reals

_NORMALISER = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Side:
    """One density 1 − rate + rate·e^{shift·y − shift²/2} relative to N(0, 1); `rest` is 1 − rate, rounded once."""

    rate: float
    rest: float
    shift: float

    def log_density(self, y: Reals) -> tuple[Reals, Reals, Reals]:
        """ℓ(y), the share π of the shifted part in it, and a bound on the error of ℓ."""
        if self.rate == 0.0:
            zero = np.zeros_like(y)
            return zero, zero, zero
        u = self.shift * (y - 0.5 * self.shift)
        # shift carries one rounding (two for its square root), the difference one, the product one
        u_error = 6 * UNIT * abs(self.shift) * (np.abs(y) + abs(self.shift))
        return log_sampled(u, u_error, rate=self.rate, rest=self.rest)

    def at(self, y: float) -> tuple[float, float]:
        """ℓ and the share at one point."""
        if self.rate == 0.0:
            return 0.0, 0.0
        return log_sampled_at(self.shift * (y - 0.5 * self.shift), rate=self.rate, rest=self.rest)


@dataclass(frozen=True)
class MixturePair:
    """P = (1 − p)N(0) + p N(a) and Q = (1 − q)N(0) + q N(−b), on the axis of y."""

    above: Side
    below: Side
    """As a function of −y: its shift is b."""

    def points(self, y: Reals, width: float) -> Points:
        """The trapezoid rule at the points y, which are exact doubles."""
        upper, _, upper_error = self.above.log_density(y)
        lower, _, lower_error = self.below.log_density(-y)
        square = 0.5 * y * y
        constant = math.log(width) - _NORMALISER
        weight = upper - square + constant
        return Points(weight, upper - lower, 2 * UNIT * square + CALL * (abs(constant) + 2), upper_error, lower_error)

    @property
    def limit(self) -> float:
        """How far the line may be shifted."""
        shifts = [s.shift for s in (self.above, self.below) if s.rate > 0]
        return 0.98 * math.pi / max(shifts)

    @property
    def speed(self) -> float:
        """a + b: how fast the phase of the integrand can turn."""
        return sum(s.shift for s in (self.above, self.below) if s.rate > 0)

    def _exponent(self, tilt: float, reach: float, c: Reals) -> Reals:
        """log(N/M(λ)) on the line shifted by c, a rising function of c."""
        grow = 0.5 * c * c + reach * self.speed * c
        if self.below.rate > 0 and tilt > 0:
            grow = grow - tilt * np.log(np.cos(0.5 * self.below.shift * c))
        return np.asarray(grow)

    def _candidates(self) -> Reals:
        return np.geomspace(0.02, 1.0, 48) * min(self.limit, 40.0)

    def step(self, tilt: float, reach: float, digits: float) -> tuple[float, float]:
        """The largest step, with few bits so that every point is an exact double, and its error relative to M(λ).

        2N/(e^{2πc/η} − 1) at the best c, for the integrand and for the terms subtracted from it (e^{ℓ±}, 1 + 2|λ| of
        them).
        """
        c = self._candidates()
        exponent = self._exponent(tilt, reach, c)
        best = float((2 * math.pi * c / (digits + 3.0 + math.log(2 + 2 * abs(tilt)) + exponent)).max())
        unit = 2.0 ** math.floor(math.log2(best) - 6)
        width = math.floor(best / unit) * unit
        waves = 2 * math.pi * c / width
        bound = exponent - waves - np.log(-np.expm1(-waves))
        return width, 2 * (2 + 2 * abs(tilt)) * math.exp(min(float(bound.min()), 700.0)) * (1 + 1e-9)

    def _log_integrand(self, tilt: float, y: float) -> float:
        return (1 + tilt) * self.above.at(y)[0] - tilt * self.below.at(-y)[0] - 0.5 * y * y

    def _slopes(self, tilt: float, y: float) -> tuple[float, float]:
        """Upper bounds on the growth of (1 + λ)ℓ₊ − λℓ₋: upwards beyond y, and downwards below y."""
        up = max(0.0, 1 + tilt) * (self.above.shift if self.above.rate > 0 else 0.0)
        down = 0.0
        if self.below.rate > 0:
            up += max(0.0, tilt) * self.below.shift * self.below.at(-y)[1]
            down = max(0.0, -tilt) * self.below.shift
        return up * (1 + 1e-12), down * (1 + 1e-12)

    def bounds(self, tilt: float, digits: float) -> tuple[float, float]:
        """Where the integrand, and the two densities subtracted from it, become negligible."""
        far = math.sqrt(2 * digits)
        low = -far - (self.below.shift if self.below.rate > 0 else 0.0)
        high = far + (self.above.shift if self.above.rate > 0 else 0.0)
        high = max(high, self._slopes(tilt, high)[0] + 0.5)
        while self._log_integrand(tilt, high) > -digits:
            high += 0.5
            if high > 1e4:
                raise NotCertified("the quadrature would need too wide a range")
        return low, high

    def range_error(self, tilt: float, width: float, low: float, high: float) -> float:
        """The terms from `high` up and from `low` down, by geometric series: e^{(1+λ)ℓ₊ − λℓ₋}, e^{ℓ₊} and e^{ℓ₋}."""
        total = 0.0
        for weight, t in ((1.0, tilt), (1 + abs(tilt), 0.0), (abs(tilt), -1.0)):
            up = high - self._slopes(t, high)[0]
            down = -low - self._slopes(t, low)[1]
            if up <= 0 or down <= 0:
                return math.inf
            for fall, y in ((up, high), (down, low)):
                end = self._log_integrand(t, y) - _NORMALISER
                total += weight * width * math.exp(min(end, 700.0)) / -math.expm1(-fall * width)
        return total * (1 + 1e-9)
