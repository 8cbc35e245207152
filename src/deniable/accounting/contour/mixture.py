"""Poisson-sampled Gaussian noise on a line Re z = λ, and the proof that its transform does not revive further up.

Shifting the integral of `mixture_pair.py` to y + ic with ω > 0 turns e^{iω(ℓ₊ − ℓ₋)} into e^{−ω(α₊ + α₋)} with α± ≥ 0
the arguments of the two densities: |M(λ + iω)| ≤ B_c(ω), an integral of positive terms each of which falls in ω. One
evaluation at ω bounds all larger ones; no revival can hide further out. The trapezoid rule for B_c is off by a bound of
the same kind as that for M (`_decay_error`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.cloud import Points, TiltedPoints, moments_of
from deniable.accounting.contour.mixture_pair import MixturePair
from deniable.accounting.contour.transform import Moments
from deniable.numerics.arrays import CALL, UNIT, Reals

_MOST_POINTS = 1 << 14


@dataclass(frozen=True)
class Mixture(MixturePair):
    """One direction of a Poisson-sampled Gaussian step."""

    lattice: None = None

    @property
    def largest(self) -> float:
        """At the far end the loss is −log(1 − q) when only Q is shifted, and unbounded otherwise."""
        if self.above.rate > 0:
            return math.inf
        return -(math.log1p(-self.below.rate) if self.below.rate < 0.5 else math.log(self.below.rest)) * (1 + 2 * CALL)

    @cached_property
    def _survey(self) -> Points:
        """A coarse cloud for `moments`, wide enough for the tilts that can matter."""
        a, p = self.above.shift, self.above.rate
        most = 0.0
        if p > 0:
            # Beyond this κ one sampled step alone has log M of thousands.
            cost = math.log(1 / p) / a
            most = cost + math.sqrt(cost * cost + 6000.0)
        width = min(0.35, 1.2 / max(a if p > 0 else 0.0, self.below.shift if self.below.rate > 0 else 0.0))
        high, low = min(most, 4000 * width) + 8.0, -8.0 - (self.below.shift if self.below.rate > 0 else 0.0)
        if high - low > _MOST_POINTS * width:
            raise NotCertified("the quadrature would need too many points")
        return self.points(
            np.arange(math.floor(low / width), math.ceil(high / width) + 1, dtype=np.float64) * width, width
        )

    def moments(self, lambdas: Reals) -> Moments:
        """Estimates from a coarse cloud."""
        return moments_of(self._survey, lambdas)

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedMixture:
        """A grid whose method error, relative to M(λ), is below e^{−digits} for |ω| ≤ reach."""
        width, missed = self.step(tilt, reach, digits)
        low, high = self.bounds(tilt, digits + 3.0)
        first, last = math.floor(low / width), math.ceil(high / width)
        if last - first > _MOST_POINTS:
            raise NotCertified("the quadrature would need too many points")
        y = np.arange(first, last + 1, dtype=np.float64) * width
        points = self.points(y, width)
        method = missed + self.range_error(tilt, width, y[0] - width, y[-1] + width)
        if tilt < 0:
            # The bounds above are relative to M(λ) ≥ 1. Below 0 it is smaller, and known up to a factor of 2.
            size = math.exp(TiltedPoints(points, tilt, 0.0).logarithm)
            method = math.inf if method > size / 4 else 2 * method / min(size, 1.0)
        return TiltedMixture(points, tilt, method, self, width, float(y[0]), float(y[-1]))


@dataclass(frozen=True)
class TiltedMixture(TiltedPoints):
    """A mixture on Re z = tilt."""

    step: MixturePair
    width: float
    low: float
    high: float

    @property
    def atomic(self) -> bool:
        """A density."""
        return False

    def decay(self, omegas: Reals, last: float) -> Reals:
        """min over c of log B_c(ω)/M(λ), at most 0."""
        step, tilt, p = self.step, self.tilt, self.probabilities
        y = self.low + self.width * np.arange(len(p), dtype=np.float64)
        shares = [
            (side.shift if side.rate > 0 else 0.0, side.log_density(sign * y)[1])
            for side, sign in ((step.above, 1), (step.below, -1))
        ]
        pull = sum(shift * float(p @ share) for shift, share in shares)
        most = 0.9 * step.limit
        c = np.geomspace(min(0.4 * float(omegas[0]) * pull, 0.5 * most), min(12 * float(omegas[-1]) * pull, most), 12)
        grown, turn = 0.5 * c[:, None] * c[:, None], np.zeros((len(c), len(y)))
        for (shift, share), power in zip(shares, (1 + tilt, -tilt), strict=True):
            if shift:
                half = np.sin(0.5 * shift * c)[:, None] ** 2
                grown = grown + 0.5 * power * np.log1p(-4 * share * (1 - share) * half)
                turn += np.arctan2(share * np.sin(shift * c)[:, None], 1 - 2 * share * half)
        fall = omegas[:, None, None] * turn[None, :, :]
        change = np.expm1(np.minimum(grown[None, :, :] - fall, 600.0))
        # the exponent's own roundings, times e^{exponent}
        slack = (1.0 + change) * (np.abs(grown) + 0.5 * c[:, None] * c[:, None] + fall)
        # a share is off by a few units and by the error of its exponent (`Side.log_density`)
        units = (64 + 16 * step.speed * (abs(self.low) + abs(self.high) + step.speed)) * UNIT
        relative = self._weight_error + (len(p) + 32) * UNIT + self.error
        total = change @ p + np.abs(change) @ (relative * p) + units * (slack @ p)
        total += self._decay_error(omegas, c)
        return np.asarray(np.minimum(np.log1p(np.maximum(total, -1 + 1e-300)).min(axis=1), 0.0))

    def _decay_error(self, omegas: Reals, c: Reals) -> Reals:
        """What the trapezoid rule may miss of B_c(ω), relative to M(λ): step, at the best second shift c′, and range.

        The integrand of B_c continues to exp of ((1+λ)/2)(ℓ₊(y+ic) + ℓ₊(y−ic)) and so on. On the line y + ic′ it is
        at most e^{(c² + c′²)/2} cos(b(c + c′)/2)^{−λ} e^{ω(a+b)(c′−c)₊/2} times the tilted density, as long as c + c′
        stays inside.
        """
        step, tilt = self.step, self.tilt
        inner = np.linspace(0.05, 1.0, 24)[None, :] * np.minimum(step.limit - c, 40.0)[:, None]
        waves = 2 * math.pi * inner / self.width
        # 2/(e^w − 1) is below 2.1 e^{−w} from w = 4 on; smaller w are no candidates
        away = 0.5 * (c[:, None] ** 2 + inner**2) - np.where(waves >= 4, waves, -np.inf)
        power = 0.5 * c * c
        if step.below.rate > 0 and tilt > 0:
            away = away - tilt * np.log(np.cos(0.5 * step.below.shift * (c[:, None] + inner)))
            power = power - tilt * np.log(np.cos(0.5 * step.below.shift * c))
        push = 0.5 * step.speed * np.maximum(inner - c[:, None], 0.0)
        least = (away[None] + omegas[:, None, None] * push[None]).min(axis=2)
        missed = step.range_error(tilt, self.width, self.low - self.width, self.high + self.width)
        with np.errstate(over="ignore"):
            return np.asarray(2.1 * np.exp(least) + np.exp(power)[None, :] * missed)
