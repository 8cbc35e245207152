"""δ(ε) as a contour integral, with a proven bound on every error.

For λ > 0 and the total loss L of the composition, K(z) = log E_P[e^{zL}],

    δ(ε) = E_P[(1 − e^{ε−L})₊] = (1/2πi) ∫_{Re z = λ} e^{K(z) − zε} / (z(z + 1)) dz.

The trapezoid rule with spacing h, Π = 2π/h, equals Σ_k e^{λkΠ} δ(ε + kΠ) exactly (Poisson summation): it can only
over-state. The sum over |n| ≤ N of it is computed. When all losses lie on a lattice of spacing g the integrand is
periodic up to its kernel; summing the kernel over the periods gives

    g (e^{−zd}/(1 − e^{−zg}) − e^{−(z+1)d}/(1 − e^{−(z+1)g}))   in place of   1/(z(z + 1)),

with d the distance from ε to the next lattice point above, and half a period of nodes is all there is.

Four errors, each bounded here: aliasing (`_alias`), truncation (`tail`), the method error of K, and rounding (`slip`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.transform import ContourLine, LossLattice
from deniable.numerics.arrays import CALL, UNIT, Complexes, Reals


class DeltaValue(NamedTuple):
    """δ(ε) = e^scale × a number between lower and upper; `slope` is −dδ/dε on the same scale, an estimate."""

    scale: float
    estimate: float
    lower: float
    upper: float
    slope: float


def lattice_rest(tilt: float, last: float, spacing: float) -> float:
    """A bound on 2 Σ (h/2π) |kernel| over the nodes from ω to half a period, for a lattice of spacing g.

    |kernel| ≤ g/|1 − e^{−zg}| + g/|1 − e^{−(z+1)g}|, and |1 − e^{−w}| is at least 1 − e^{−Re w} and at least
    2e^{−Re w/2} |sin(Im w/2)| ≥ (2/π) e^{−Re w/2} |Im w|. The first sums to 2/(1 − e^{−λg}) over half a period, the
    second to e^{(λ+1)g/2} log(π/(gω)).
    """
    plain = 2.0 / -math.expm1(-tilt * spacing)
    exponent = 0.5 * (tilt + 1) * spacing
    far = math.exp(min(exponent, 700.0)) * max(math.log(math.pi / (spacing * last)), 0.0) if last > 0 else math.inf
    return min(plain, far) * (1 + 1e-9) + 1e-300


def _one_minus_exp(w: Complexes) -> Complexes:
    """1 − e^{−w} for Re w > 0 and |Im w| ≤ π: no cancellation beyond a factor of 4, so 64 units in all."""
    x, y = w.real, w.imag
    return np.asarray(-np.expm1(-x) * np.cos(y) + 2 * np.sin(0.5 * y) ** 2 + 1j * np.exp(-x) * np.sin(y))


@dataclass(frozen=True)
class Contour:
    """The nodes of one trapezoid rule and everything needed to read δ off them, for any ε."""

    line: ContourLine
    spacing: float
    omegas: Reals
    logarithms: Complexes
    slips: Reals
    tail: float
    """An upper bound on log |total ratio| at every node left out."""
    beyond: tuple[float, float]
    """λ′ > λ and an upper bound on K(λ′)."""
    lattice: LossLattice | None
    many: int = 0
    """Nodes per period of the lattice; 0 without one."""
    leak: float = 0.0
    """What the steps leave out of δ, at most."""

    @property
    def tilt(self) -> float:
        """λ."""
        return self.line.tilt

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log δ(ε) and −d log δ/dε, unproven: for the search of an ε."""
        z = self._line
        kernel, _, rate = self._kernel(z, epsilon)
        waves = self._shares * np.exp(self.logarithms + 1j * self.omegas * (self.line.mean - epsilon))
        total, slope = float((waves @ kernel).real), float((waves @ rate).real)
        if not total > 0:
            raise NotCertified("rounding hides the curve on this line")
        return self.line.logarithm - self.line.tilt * epsilon + math.log(total), slope / total

    @cached_property
    def _line(self) -> Complexes:
        """The nodes."""
        return np.asarray(self.line.tilt + 1j * self.omegas, dtype=np.complex128)

    @cached_property
    def _shares(self) -> Reals:
        """h/2π for the node 0 and twice that for the others: the nodes −n are the conjugates of the nodes n."""
        return np.where(self.omegas == 0.0, 1.0, 2.0) * (self.spacing / (2 * math.pi))

    def delta(self, epsilon: float) -> DeltaValue:
        """Bounds on δ(ε)."""
        line, tilt = self.line, self.line.tilt
        scale = line.logarithm - tilt * epsilon
        scale_error = line.error + UNIT * (2 * abs(line.logarithm) + 3 * abs(tilt * epsilon)) + UNIT * abs(scale)
        z = self._line
        kernel, kernel_error, rate = self._kernel(z, epsilon)
        drift = self.omegas * (line.mean - epsilon)
        ratio = np.exp(self.logarithms + 1j * drift)
        share = self._shares
        total = float(share @ (ratio * kernel).real)
        slope = float(share @ (ratio * rate).real)
        phase = self.omegas * (line.mean_error + 2 * UNIT * (abs(line.mean) + abs(epsilon))) + 8 * UNIT * np.abs(drift)
        slips = self.slips + phase + 4 * CALL
        sizes = share * np.abs(ratio)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            # |ratio|·(e^slip − 1); together in the exponent where the slip is large, for the product may be no 0
            far = share * np.exp(np.minimum(self.logarithms.real + slips, 700.0))
            worst = np.where(slips < 1.0, sizes * np.expm1(np.minimum(slips, 1.0)), far)
        slip = float((worst * np.abs(kernel) + (sizes + worst) * kernel_error).sum())
        slip += (len(z) + 16) * UNIT * float(sizes @ np.abs(kernel))
        missed = self._missed()
        alias = self._alias(epsilon, scale - scale_error)
        grow = math.expm1(min(scale_error, 700.0))
        upper = (total + slip + missed) * (1 + grow)
        if self.leak:
            upper += math.exp(min(math.log(self.leak) - scale + UNIT * abs(scale), 700.0)) * (1 + 1e-9)
        lower = max(0.0, (total - slip - missed) * (1 - grow) - alias)
        return DeltaValue(scale, total, lower * (1 - 8 * UNIT), upper * (1 + 8 * UNIT), slope)

    def _kernel(self, z: Complexes, epsilon: float) -> tuple[Complexes, Reals, Complexes]:
        """The kernel, a bound on its absolute error, and the kernel of −dδ/dε."""
        if self.lattice is None:
            kernel = 1.0 / (z * (z + 1))
            return kernel, 16 * UNIT * np.abs(kernel), 1.0 / (z + 1)
        offset, exact = self.lattice
        steps = (Fraction(epsilon) - offset) / exact
        gap = float(exact * (math.floor(steps) + 1 - steps))
        g = float(exact)
        first = np.exp(-z * gap) / _one_minus_exp(z * g)
        second = np.exp(-(z + 1) * gap) / _one_minus_exp((z + 1) * g)
        # z·gap and zg are off by four units: that is 4|z|g units after exp, and |w/(e^w − 1)| < 4 for |Im w| ≤ π
        error = (160 * UNIT + 8 * UNIT * np.abs(z + 1) * g) * (np.abs(first) + np.abs(second))
        return g * (first - second), g * error, g * second

    def _missed(self) -> float:
        """Nodes left out, relative to e^{K(λ) − λε}: 2 Σ_{n>N} (h/2π) e^{tail}/(nh)² ≤ e^{tail}/(π N h)."""
        if self.tail == -math.inf:
            return 0.0
        last = float(self.omegas[-1])
        if self.lattice is None:
            return math.exp(min(self.tail, 700.0)) / (math.pi * last) * (1 + 1e-9)
        return math.exp(min(self.tail, 700.0)) * lattice_rest(self.line.tilt, last, float(self.lattice.spacing))

    def _alias(self, epsilon: float, scale: float) -> float:
        """The terms k ≠ 0 of Σ e^{λkΠ} δ(ε + kΠ), relative to e^scale.

        k < 0: δ ≤ 1, so they add up to at most 1/(e^{λΠ} − 1). k > 0: (1 − e^{−x})₊ ≤ c(λ′) e^{λ′x} with c(λ′) =
        λ′^{λ′}/(1 + λ′)^{1+λ′} gives δ(x) ≤ c(λ′) e^{K(λ′) − λ′x} (Canonne–Kamath–Steinke 2020, Prop. 12), a
        geometric series.
        """
        tilt, period = self.line.tilt, 2 * math.pi / self.spacing
        inside = tilt * period * (1 - 8 * UNIT)
        below = math.exp(min(-inside - math.log(-math.expm1(-inside)) - scale, 700.0))
        further, logarithm = self.beyond
        step = (further - tilt) * period * (1 - 8 * UNIT)
        constant = further * math.log(further) - (1 + further) * math.log1p(further)
        exponent = logarithm + constant - further * epsilon - scale - step
        exponent += 8 * UNIT * (abs(logarithm) + abs(further * epsilon) + abs(scale))
        above = math.exp(min(exponent, 700.0)) / -math.expm1(-step)
        return (below + above) * (1 + 1e-9)


WIDTH = 8e-6
"""The relative width of δ that smoothing is chosen for."""

_MOST = 0.25
"""s² at most."""


def smoothing_squares(tilt: float, width: float = WIDTH) -> tuple[float, float]:
    """s² and t² for a tilt."""
    small = min(_MOST, 2 * width / (3 * tilt * (tilt + 1)))
    return small, 4 * small * (1 + small) ** 2 * (1 + 1e-12)


@dataclass(frozen=True)
class SmoothedIntegral:
    """The rules of δ_s and of δ_t, on one line.

    Smoothing: a bracket where the losses have atoms and the integrand does not decay.

    A little Gaussian noise makes any integrand decay, and what it does to δ is known from both sides. Let δ be the
    curve of any pair and δ_s that of the same pair together with a Gaussian step of parameter s. For 0 < s ≤ 1/2 and t
    ≥ 2s(1 + s²),

        2δ_s(ε) − δ_t(ε) ≤ δ(ε) ≤ δ_s(ε).

    *Proof.* With x = e^ε and R = dP/dQ, δ is an average of (1 − x/R)₊ over R, plus P[R = ∞]. The Gaussian step
    multiplies x by an independent W, ln W ~ N(−s²/2, s²), which has mean 1. For one value of R, E(R − xW)₊ is the price
    of a put option (Black–Scholes): it exceeds (R − x)₊ by V(s) ≥ 0 (Jensen), with V′(v) = xφ(d(v)), d(v)² = m²/v² + m
    + v²/4 and m = ln(x/R). That is the upper end. For the lower end, V(t) ≥ 2V(s) is enough. With t = 2rs,

        V(t) = 2rx ∫₀^s φ(d(2rv)) dv,   d(2rv)² = m²/(4r²v²) + m + r²v² ≤ d(v)² + (r² − 1/4)v²,

    so V(t) ≥ 2r·e^{−(r² − 1/4)s²/2}·V(s), which is at least 2V(s) when ln r ≥ (r² − 1/4)s²/2. For r = 1 + s² that is s²
    − s⁴/2 ≥ s²(3/8 + s² + s⁴/2), true up to s = 1/2; V grows, so a larger t will do as well. ∎

    The bracket is about 3s²λ(λ + 1)/2 wide, relatively, λ the tilt; a line twice as long makes it four times narrower.
    """

    less: Contour
    more: Contour

    @property
    def tilt(self) -> float:
        """λ."""
        return self.less.tilt

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log δ_s(ε) and its rate of fall, unproven."""
        return self.less.estimate(epsilon)

    def delta(self, epsilon: float) -> DeltaValue:
        """Bounds on δ(ε)."""
        less, more = self.less.delta(epsilon), self.more.delta(epsilon)
        apart = more.scale - less.scale
        # both scales are exact doubles; their difference and its exponential are rounded
        grown = math.exp(apart) * (1 + CALL + UNIT * abs(apart) + 4 * UNIT)
        lower = max(0.0, 2 * less.lower - more.upper * grown)
        return DeltaValue(less.scale, less.estimate, lower * (1 - 8 * UNIT), less.upper, less.slope)
