"""Losses with finitely many values on a lattice: randomized response, discrete Laplace, pure promises.

| step | losses under P | lattice |
|---|---|---|
| binary randomized response, any ε-DP promise (`conversions.pure`) | ε, −ε | ε + 2εℤ |
| k-ary randomized response | ε, 0, −ε | εℤ |
| discrete Laplace, shift Δ, a = 1/scale | aΔ, a(Δ − 2x) for 0 < x < Δ, −aΔ | aΔ + 2aℤ |
| discrete Gaussian (`gaussian.py`), shift Δ, scale σ | (Δ² − 2Δx)/(2σ²), x whole | Δ²/(2σ²) + (Δ/σ²)ℤ |

All are the same in both directions. Nothing is left out, or what is left out is bounded; there is no quadrature.

**Decay.** With tilted weights p_j and two losses one lattice spacing g apart for each neighbouring pair,
|φ(ω)|² = Σ_{j,k} p_j p_k cos ω(l_j − l_k) ≤ 1 − 2 Σ_j p_j p_{j+1} (1 − cos ωg), which falls up to ωg = π, half a
period: all there is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.laplace import ends_decay
from deniable.accounting.contour.mixture import log_sampled, log_sampled_at
from deniable.accounting.contour.transform import LogMoments, LossLattice, Points, TiltedPoints, moments_of
from deniable.numerics.arrays import CALL, UNIT, Reals

_MOST_ATOMS, _MOST_SAMPLED = 4096, 1 << 14


@dataclass(frozen=True)
class LatticeAtoms:
    """Weighted losses in rising order, one lattice spacing apart; what is left out has method error `missed(tilt)`."""

    points: Points
    lattice: LossLattice
    largest: float
    left_out: tuple[float, float, float, float] | None = None
    """For a law cut at both ends: log weight and log of the factor per step, at the low end and at the high end."""
    geometric: bool = False
    """Whether the inner atoms are a geometric series (discrete Laplace noise)."""

    def moments(self, lambdas: Reals) -> LogMoments:
        """From the atoms."""
        return moments_of(self.points, lambdas)

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedAtoms:
        """The atoms, tilted."""
        missed = self._missed(tilt)
        if tilt < 0 and missed:
            # M(λ) ≥ 1 for λ ≥ 0 only; below 0 it is smaller, and known up to a factor of 2
            size = math.exp(TiltedPoints(self.points, tilt, 0.0).logarithm)
            missed = math.inf if missed > size / 4 else 2 * missed / min(size, 1.0)
        return TiltedAtoms(self.points, tilt, missed, float(self.lattice.spacing), self.geometric)

    def _missed(self, tilt: float) -> float:
        """Geometric series at both ends for e^{λL}, 1 and e^{−L} under P."""
        if self.left_out is None:
            return 0.0
        g = float(self.lattice.spacing)
        low_weight, low_fall, high_weight, high_fall = self.left_out
        low, high = float(self.points.loss[0]) - g, float(self.points.loss[-1]) + g
        total = 0.0
        for factor, t in ((1.0, tilt), (1 + abs(tilt), 0.0), (abs(tilt), -1.0)):
            for weight, fall, loss, sign in ((low_weight, low_fall, low, -1), (high_weight, high_fall, high, 1)):
                ratio = fall + sign * t * g
                if ratio >= -1e-3:
                    raise NotCertified("the cut law is tilted beyond its atoms")
                total += factor * math.exp(min(weight + t * loss, 700.0)) / -math.expm1(ratio)
        return total * (1 + 1e-9)


@dataclass(frozen=True)
class TiltedAtoms(TiltedPoints):
    """Atoms on Re z = tilt."""

    spacing: float
    geometric: bool

    @cached_property
    def _neighbours(self) -> float:
        p = self.probabilities
        return float(p[1:] @ p[:-1])

    def decay(self, omegas: Reals, last: float) -> Reals:
        """½ log(1 − 2 Σ p_j p_{j+1} (1 − cos ωg)) up to half a period of this step; nothing is claimed beyond."""
        if last * self.spacing > math.pi * (1 + 1e-9):
            return np.zeros_like(omegas)
        gap = 4 * self._neighbours * np.sin(0.5 * omegas * self.spacing) ** 2
        bound = 0.5 * np.log1p(-np.minimum(gap * (1 - self._slack), 1 - 1e-16))
        return np.minimum(bound, self._geometric_decay(omegas)) if self.geometric else bound

    @property
    def _slack(self) -> float:
        return 1e-9 + 4 * self.error

    def _geometric_decay(self, omegas: Reals) -> Reals:
        """For discrete Laplace noise: two end atoms p, p′, N spacings apart, and a geometric series between.

        As for Laplace noise, the ends alone until their phases are opposite, and for all v the ends plus the series,
        which is at most its largest term times (1 + ρ^{−n})/|1 − ρ^{−1}e^{−ivg}| and falls up to half a period.
        """
        p, g = self.probabilities, self.spacing
        low, high, apart = float(p[0]), float(p[-1]), g * (len(p) - 1)
        ratio = float(p[-3] / p[-2])
        wave = np.sin(0.5 * g * np.maximum(omegas, math.pi / apart)) ** 2
        series = float(p[-2] + p[1] * ratio) / np.sqrt((1 - ratio) ** 2 + 4 * ratio * wave)
        far = np.log(low + high + series * (1 + 1e-9)) + self._slack
        return ends_decay(low, high, apart, omegas, far, slack=self._slack)


def _exact_points(masses: Reals, losses: Reals) -> Points:
    """Atoms whose masses and losses carry a few roundings each; P itself is the base measure."""
    if not np.all(masses > 0):
        raise NotCertified("an atom is too small for a float")
    weight = np.log(masses)
    base = 4 * CALL + 4 * UNIT * np.abs(losses).max() + CALL * np.abs(weight)
    return Points(weight, losses, base, np.zeros_like(masses), 4 * UNIT * np.abs(losses))


def randomized_response(epsilon: Fraction, categories: int = 2) -> LatticeAtoms:
    """Truth with probability e^ε/(e^ε + k − 1); k = 2 is also the worst ε-DP mechanism."""
    e = float(epsilon)
    whole = 1 + (categories - 1) * math.exp(-e)
    truth, other = 1 / whole, math.exp(-e) / whole
    if categories == 2:
        points = _exact_points(np.array([other, truth]), np.array([-e, e]))
        return LatticeAtoms(points, LossLattice(epsilon, 2 * epsilon), e)
    points = _exact_points(np.array([other, (categories - 2) * other, truth]), np.array([-e, 0.0, e]))
    return LatticeAtoms(points, LossLattice(Fraction(0), epsilon), e)


def discrete_laplace(scale: Fraction, shift: int) -> LatticeAtoms:
    """P[X = x] ∝ e^{−|x|/scale} against the same moved by `shift`: finitely many losses."""
    if shift > _MOST_ATOMS:
        raise NotCertified("too many atoms")
    a = float(1 / scale)
    inside = np.arange(shift - 1, 0, -1)
    ends = 1 / (1 + math.exp(-a))
    masses = np.concatenate([[math.exp(-a * shift) * ends], -math.expm1(-a) * ends * np.exp(-a * inside), [ends]])
    losses = np.concatenate([[-a * shift], a * (shift - 2 * inside), [a * shift]])
    lattice = LossLattice(Fraction(shift) / scale, 2 / scale)
    return LatticeAtoms(_exact_points(masses, losses), lattice, a * shift, geometric=shift >= 4)


@dataclass(frozen=True)
class FiniteAtoms:
    """Finitely many losses, all of them kept."""

    inner: LatticeAtoms

    @property
    def largest(self) -> float:
        """Of the step inside: sampling makes no loss larger."""
        return self.inner.largest * (1 + 4 * UNIT)

    @property
    def stride(self) -> int:
        """All."""
        return 1

    def masses(self, low: float, high: float, *, stride: int = 1) -> tuple[Reals, Reals, Reals, Reals]:
        """log Q, its error, v and its error. The inner points are weighted with P; Q is P·e^{−v}."""
        p = self.inner.points
        off = p.upper_error + p.lower_error + 2 * UNIT * np.abs(p.loss)
        return p.weight - p.loss, p.base_error + off + 2 * UNIT * (np.abs(p.weight) + np.abs(p.loss)), p.loss, off

    def ends(self, step: ThinnedAtoms, tilt: float, digits: float) -> tuple[float, float]:
        """All."""
        return -math.inf, math.inf

    def missed(self, step: ThinnedAtoms, tilt: float, low: float, high: float) -> float:
        """Nothing."""
        return 0.0


@dataclass(frozen=True)
class GaussianAtoms:
    """P[X = k] ∝ e^{−k²/2σ²} and the same moved by `shift` ≥ 1: v = shift·(2k − shift)/2σ²."""

    scale: float
    shift: int
    largest: float = math.inf

    @cached_property
    def _log_total(self) -> float:
        far = math.ceil(13 * self.scale) + 13
        return math.log(math.fsum(math.exp(-k * k / (2 * self.scale * self.scale)) for k in range(-far, far + 1)))

    @property
    def slope(self) -> float:
        """How fast v grows from one output to the next."""
        return self.shift / (self.scale * self.scale)

    def log_mass(self, k: float) -> float:
        """log Q at one output."""
        return -k * k / (2 * self.scale * self.scale) - self._log_total

    def loss(self, k: float) -> float:
        """v at one output."""
        return self.slope * (k - 0.5 * self.shift)

    @property
    def stride(self) -> int:
        """Every how many outputs are enough for an estimate: sums over a Gaussian hardly depend on their spacing."""
        return max(1, math.floor(min(self.scale / 8, 1 / (4 * self.slope))))

    def masses(self, low: float, high: float, *, stride: int = 1) -> tuple[Reals, Reals, Reals, Reals]:
        """Exponents carry the roundings of σ², the square and the quotient; the total those of its sum."""
        k = np.arange(low, high + 1, stride)
        square = k * k / (2 * self.scale * self.scale)
        error = 8 * UNIT * square + 4 * CALL * (2 + abs(self._log_total))
        v = self.slope * (k - 0.5 * self.shift)
        return math.log(stride) - square - self._log_total, error, v, 8 * UNIT * self.slope * (np.abs(k) + self.shift)

    def ends(self, step: ThinnedAtoms, tilt: float, digits: float) -> tuple[float, float]:
        """The mode is where k = power·shift·share, and the share grows with k."""
        wide = self.scale * math.sqrt(2 * digits) + 2
        power = step.power(tilt)
        if power >= 0:
            # a larger shift than this has log M of thousands for one step alone
            a = self.shift / self.scale
            cost = -math.log(step.rate) / a
            top = min(power * self.shift, self.scale * (cost + math.sqrt(cost * cost + 6000.0)))
            return math.floor(-wide), math.ceil(wide + max(top, self.shift))
        share = log_sampled_at(self.loss(0.0), rate=step.rate, rest=step.rest)[1]
        return math.floor(-wide + power * self.shift * share), math.ceil(wide + self.shift)

    def missed(self, step: ThinnedAtoms, tilt: float, low: float, high: float) -> float:
        """Geometric series: beyond an end Q falls by (2|k| + 1)/2σ² per output and more, ℓ moves by `slope` times the
        share at most.
        """
        total = 0.0
        for power in (step.power(tilt), 1.0, 0.0):
            for first, growth in ((high + 1, max(power, 0.0)), (low - 1, max(-power, 0.0))):
                level, share = log_sampled_at(self.loss(first), rate=step.rate, rest=step.rest)
                # the share grows with the output: beyond the lower end it is at most what it is there
                moves = growth * self.slope * (1.0 if first > 0 else share * (1 + 1e-9))
                fall = (2 * abs(first) + 1) / (2 * self.scale * self.scale) - moves
                if fall <= 1e-6 * moves or fall <= 0:
                    return math.inf
                exponent = self.log_mass(first) + power * level
                total += math.exp(min(exponent, 700.0)) / -math.expm1(-fall * (1 - 1e-9))
        return 2 * (1 + abs(tilt)) * total * (1 + 1e-6)


@dataclass(frozen=True)
class ThinnedAtoms:
    """One direction of a Poisson sample of discrete noise; `forward` when P holds the unit.

    Let the step inside have laws P and Q on integers, with loss v = log P/Q. The sample has the laws (1 − q)Q + qP and
    Q, with loss ℓ = log(1 − q + q e^v), and the reverse: points with Q as the base measure, on no lattice. Nothing is
    claimed about decay, so such a step needs the smoothed integral, or others beside it that decay.
    """

    noise: FiniteAtoms | GaussianAtoms
    rate: float
    rest: float
    forward: bool
    lattice: None = None

    @property
    def largest(self) -> float:
        """That of the step inside, or −log(1 − q) the other way round."""
        return self.noise.largest if self.forward else -math.log1p(-self.rate) * (1 + 2 * CALL)

    def power(self, tilt: float) -> float:
        """The exponent of 1 − q + q e^v beside Q in the tilted law."""
        return 1 + tilt if self.forward else -tilt

    def points(self, low: float, high: float, *, stride: int = 1) -> Points:
        """The outputs between two ends; every so many of them, heavier, for an estimate."""
        if high - low > stride * _MOST_SAMPLED and math.isfinite(high):
            raise NotCertified("too many atoms")
        base, base_error, v, v_error = self.noise.masses(low, high, stride=stride)
        density, _, error = log_sampled(v, v_error, rate=self.rate, rest=self.rest)
        none = np.zeros_like(v)
        if self.forward:
            return Points(base + density, density, base_error, error, none)
        return Points(base, -density, base_error, none, error)

    @cached_property
    def _surveys(self) -> dict[int, Points]:
        return {}

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates from the outputs that matter to the largest λ, by powers of two."""
        size = math.ceil(math.log2(max(float(lambdas[-1]), 1.0)))
        if size not in self._surveys:
            self._surveys[size] = self.points(*self.noise.ends(self, 2.0**size, 40.0), stride=self.noise.stride)
        return moments_of(self._surveys[size], lambdas)

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedThinned:
        """The outputs that matter on Re z = tilt."""
        low, high = self.noise.ends(self, tilt, digits + 6.0 + math.log1p(abs(tilt)))
        points, method = self.points(low, high), self.noise.missed(self, tilt, low, high)
        if tilt < 0 and method:
            size = math.exp(TiltedPoints(points, tilt, 0.0).logarithm)
            method = math.inf if method > size / 4 else 2 * method / min(size, 1.0)
        if not method < math.inf:
            raise NotCertified("the cut law is tilted beyond its atoms")
        return TiltedThinned(points, tilt, method)


class TiltedThinned(TiltedPoints):
    """The sample on Re z = tilt."""

    def decay(self, omegas: Reals, last: float) -> Reals:
        """No factor exceeds 1."""
        return np.zeros_like(omegas)
