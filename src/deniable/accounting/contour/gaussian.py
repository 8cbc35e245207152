"""Gaussian noise, continuous and discrete, as transforms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.atoms import LatticeAtoms
from deniable.accounting.contour.transform import LogMoments, LossLattice, Points, Ratios
from deniable.numerics.arrays import UNIT, Reals


@dataclass(frozen=True)
class Normal:
    """Gaussian steps of total squared parameter `square` = Σ (sensitivity/scale)², as the nearest double.

    All Gaussian steps together: M(z) = exp(μ² z(z + 1)/2), exactly.

    The loss of N(μ, 1) against N(0, 1) is normal with mean μ²/2 and variance μ² (Dong–Roth–Su 2019), both ways round.
    """

    square: float
    lattice: None = None
    largest: float = math.inf

    def moments(self, lambdas: Reals) -> LogMoments:
        """Closed forms."""
        half = 0.5 * self.square
        return LogMoments(half * lambdas * (1 + lambdas), half * (1 + 2 * lambdas), np.full_like(lambdas, self.square))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedNormal:
        """No quadrature: every line is as good as any other."""
        return TiltedNormal(self.square, tilt)


@dataclass(frozen=True)
class TiltedNormal:
    """The normal law, tilted: the mean moves, the variance stays."""

    square: float
    tilt: float

    @property
    def logarithm(self) -> float:
        """μ² λ(1 + λ)/2."""
        return 0.5 * self.square * self.tilt * (1 + self.tilt)

    @property
    def error(self) -> float:
        """μ² is rounded once, and four operations follow; 1 + λ is off by a unit of 1 + |λ|."""
        return 8 * UNIT * 0.5 * self.square * abs(self.tilt) * (1 + abs(self.tilt))

    @property
    def mean(self) -> float:
        """μ²(1 + 2λ)/2, rounded."""
        return 0.5 * self.square * (1 + 2 * self.tilt)

    @property
    def size(self) -> int:
        """A closed form."""
        return 1

    @property
    def atomic(self) -> bool:
        """A density."""
        return False

    def ratios(self, omegas: Reals) -> Ratios:
        """exp(−μ²ω²/2), and a phase that is nothing but the rounding of `mean`."""
        exponent = -0.5 * self.square * omegas * omegas
        slip = 4 * UNIT * self.square * (1 + 2 * abs(self.tilt)) * np.abs(omegas)
        return Ratios(exponent.astype(np.complex128), np.expm1(16 * UNIT * np.abs(exponent) + slip))

    def decay(self, omegas: Reals, last: float) -> Reals:
        """Monotone, so its own bound."""
        return (1 - 8 * UNIT) * (-0.5 * self.square * omegas * omegas)


_MOST_ATOMS = 4096
_SMOOTH = 3


def discrete_gaussian(scale: Fraction, shift: int) -> LatticeAtoms | LatticeNormal:
    """The form that fits the scale.

    Discrete Gaussian noise: atoms when the scale is small, a normal law on a lattice when it is not.

    P[X = x] ∝ e^{−x²/(2σ²)} against the same moved by a whole Δ; the loss is (Δ² − 2Δx)/(2σ²), alike in both
    directions. Completing the square and summing by Poisson's formula, with μ = Δ/σ,

        M(z) = e^{μ² z(z+1)/2} Θ(z)/Θ(0),   Θ(z) = Σ_k e^{−2π²σ²k²} cos(2πkΔz),

    and |Θ(λ + iω) − 1| ≤ 2.1 e^{−2π²σ² + 2π|ω|Δ} up to half a period, |ω|Δ ≤ πσ² (the terms |k| ≥ 2 are below
    e^{−4π²σ²}). From σ = 3 on this is nothing on the first quarter of a period, and at most a factor of 3.1 on the
    second, where the normal factor is below e^{−π²σ²/8}. Beyond half a period the transform comes back, up to a phase;
    beside steps that are on no lattice, those have to decay by themselves.
    """
    lattice = LossLattice(Fraction(shift * shift) / (2 * scale**2), Fraction(shift) / scale**2)
    if scale >= _SMOOTH:
        return LatticeNormal(float(Fraction(shift * shift) / scale**2), float(scale), float(shift), lattice)
    return _atoms(scale, shift, lattice)


def _atoms(scale: Fraction, shift: int, lattice: LossLattice) -> LatticeAtoms:
    """The whole numbers, cut where the tails are negligible."""
    square = float(scale * scale)
    most = math.ceil(48 * float(scale)) + 2 * shift + 8
    if most > _MOST_ATOMS:
        raise NotCertified("too many atoms")
    x = np.arange(most, -most - 1, -1).astype(np.float64)
    weight = -x * x / (2 * square)
    total = math.log(float(np.exp(weight).sum()))
    losses = (shift * shift - 2 * shift * x) / (2 * square)
    # e^{−x²/2σ²} beyond the cut falls by at least e^{−(2·most+1)/2σ²} a step; the normaliser lacks the same
    fall = -(2 * most + 3) / (2 * square)
    ends = -((most + 1) ** 2) / (2 * square) - total
    missing = 2 * math.exp(ends) / -math.expm1(fall)
    base = 8 * UNIT * (np.abs(weight) + 8) + missing + len(x) * UNIT
    off = 8 * UNIT * np.abs(losses)
    points = Points(weight - total, losses, base, np.zeros_like(x), off)
    return LatticeAtoms(points, lattice, math.inf, (ends, fall, ends, fall))


@dataclass(frozen=True)
class LatticeNormal:
    """Discrete Gaussian noise of scale at least 3."""

    square: float
    scale: float
    shift: float
    lattice: LossLattice
    largest: float = math.inf

    def moments(self, lambdas: Reals) -> LogMoments:
        """Those of the normal law."""
        half = 0.5 * self.square
        return LogMoments(half * lambdas * (1 + lambdas), half * (1 + 2 * lambdas), np.full_like(lambdas, self.square))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedLatticeNormal:
        """No quadrature."""
        return TiltedLatticeNormal(self, TiltedNormal(self.square, tilt))


@dataclass(frozen=True)
class TiltedLatticeNormal:
    """A normal law and the bound on what the lattice adds to it."""

    step: LatticeNormal
    smooth: TiltedNormal

    @property
    def logarithm(self) -> float:
        """log M(λ) of the normal law."""
        return self.smooth.logarithm

    @property
    def error(self) -> float:
        """Rounding; Θ(λ)/Θ(0) is 1 up to 5e^{−2π²σ²} ≤ 10^{−75}."""
        return self.smooth.error + 1e-75

    @property
    def mean(self) -> float:
        """The mean of the tilted normal law."""
        return self.smooth.mean

    @property
    def size(self) -> int:
        """A closed form."""
        return 1

    @property
    def atomic(self) -> bool:
        """Nothing but atoms."""
        return True

    def ratios(self, omegas: Reals) -> Ratios:
        """The normal ratio within half a period; beyond, where it was a whole number k of periods P = 2π/g before.

        All losses are o + gn, so φ(ω + kP) = e^{ikPo} φ(ω), and with the mean m taken off a phase kP(o − m) is left.
        """
        periods = np.rint(omegas / (2 * self._half_period))
        near = np.abs(omegas - periods * (2 * self._half_period))
        logarithm, error = self.smooth.ratios(near)
        exponent = 2 * math.pi * near * self.step.shift - 2 * (math.pi * self.step.scale) ** 2
        theta = 2.2 * np.exp(np.minimum(exponent * (1 - 1e-12), 1.0)) * (1 + error)
        offset = float(self.step.lattice.offset)
        turn = periods * (2 * self._half_period) * (offset - self.mean)
        # the period is rounded a few times: that moves the phase, and the place where the normal ratio is taken
        slip = 16 * UNIT * omegas * (abs(offset) + abs(self.mean) + self.step.square * near)
        return Ratios(logarithm + 1j * turn, error + theta + np.where(periods > 0, 1.1 * slip, 0.0))

    @property
    def _half_period(self) -> float:
        return math.pi * self.step.scale**2 / self.step.shift

    def decay(self, omegas: Reals, last: float) -> Reals:
        """The normal decay, with a factor of 3.1 from a quarter of a period on."""
        half = self._half_period
        if last > half * (1 + 1e-9):
            return np.zeros_like(omegas)
        early = self.smooth.decay(omegas, last) + 1e-35
        late = self.smooth.decay(np.maximum(omegas, 0.5 * half), last) + math.log(3.1)
        return np.minimum(np.where(omegas < 0.5 * half, np.maximum(early, late), late), 0.0)
