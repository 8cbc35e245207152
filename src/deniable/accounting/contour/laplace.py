"""Laplace noise and the exponential mechanism, in closed form, and Laplace noise on a Poisson sample.

**Poisson-sampled Laplace noise** is two atoms and a smooth piece between, by Gauss–Legendre panels. With ε₀ =
sensitivity/scale the unsampled loss v is ε₀ with probability e^{−ε₀}/2 under N = "absent", −ε₀ with probability 1/2,
and has density e^{−(v + ε₀)/2}/4 between. Sampling at rate q turns the density ratio e^v into 1 − q + q e^v. The pair
is ((1 − q)N + q·present, N) or its reverse (Zhu–Dong–Wang 2022, Thm 11).

**Quadrature.** A rule of n = 64 points is exact for polynomials of degree 2n − 1, so on a panel of half width w it is
off by at most 2w·2 times the error of the best such polynomial, which is at most 2Mρ^{−(2n−1)}/(ρ − 1) for an
integrand bounded by M on the Bernstein ellipse of parameter ρ (Trefethen 2013, Thm 8.2). On the ellipse around c, Re
v moves by at most w(ρ + 1/ρ)/2 and Im v by w(ρ − 1/ρ)/2 =: t < π, and |1 − q + q e^v| lies between cos(t/2) and 1
times its value at a real point. Its argument, which e^{iωL} turns into size, is at most t, and at most arcsin g where
g = q e^{Re v}/(1 − q) is below 1: 1 + g e^{iθ} lies in a disc around 1.

**Decay.** The atoms alone, as for Laplace noise; beyond, the smooth piece is at most 2(G(−ε₀) + G(ε₀) − min G)/ω by
integration by parts, with G the density of the loss, whose logarithm is convex in v.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.mixture import log_sampled
from deniable.accounting.contour.transform import LogMoments, Points, Ratios, TiltedPoints, moments_of
from deniable.numerics.arrays import CALL, UNIT, Complexes, Reals, complex_excess, complex_third, log_of_one_plus


@dataclass(frozen=True)
class TiltedClosed(ABC):
    """A loss in [−ε₀, ε₀] on Re z = tilt > −1/2, by M(z) − 1 and a bound on its error."""

    epsilon: float
    tilt: float

    @abstractmethod
    def minus_one(self, z: Complexes) -> tuple[Complexes, Reals]:
        """M(z) − 1, without cancellation where M is near 1, and a bound on its absolute error."""

    @cached_property
    def _base(self) -> tuple[float, float]:
        """M(λ) − 1 and a bound on its error."""
        value, error = self.minus_one(np.array([complex(self.tilt)]))
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

    @property
    @abstractmethod
    def mean(self) -> float:
        """The tilted mean."""

    @property
    def size(self) -> int:
        """A closed form."""
        return 1

    def ratios(self, omegas: Reals) -> Ratios:
        """M(z)/M(λ) − 1 = (N(z) − N(λ))/M(λ) with N = M − 1; the centre is taken off the phase afterwards."""
        z = self.tilt + 1j * omegas
        minus, error = self.minus_one(z.astype(np.complex128))
        base, base_error = self._base
        change = (minus - base) / (1 + base)
        centre = omegas * self.mean
        logarithm = log_of_one_plus(change.real, change.imag) - 1j * centre
        size = np.exp(logarithm.real)
        slip = (error + base_error * (1 + np.abs(change))) / (1 + base) + 16 * UNIT * np.abs(change) / np.minimum(
            size, 1.0
        )
        return Ratios(logarithm, 1.01 * slip / size + 8 * UNIT * (np.abs(centre) + np.abs(logarithm.imag)))


def ends_decay(low: float, high: float, apart: float, omegas: Reals, far: Reals, *, slack: float) -> Reals:
    """An upper bound on log |φ| from ω on: the ends up to their turn, and `far`, a bound beyond it, everywhere.

    `far` must be taken at max(ω, π/apart); the larger of the two bounds holds for all larger ω.

    Two atoms at the ends of a loss: how far they alone pull the characteristic function below 1.

    Atoms of tilted mass p and p′, d apart, leave |φ(ω)| ≤ 1 − (p + p′) + |p + p′e^{iωd}|, and the last term is
    √((p + p′)² − 4pp′ sin²(ωd/2)), which falls until ω = π/d, where the phases are opposite.
    """
    both, turn = low + high, math.pi / apart
    sine = np.sin(0.5 * apart * np.minimum(omegas, turn)) ** 2
    # 1 − (p + p′) + √(…) as 1 − gap, so that nothing is lost when the gap is tiny
    gap = 4 * low * high * sine / (both + np.sqrt(np.maximum(both * both - 4 * low * high * sine, 0.0)))
    near = np.where(omegas < turn, np.log1p(-np.minimum(gap * (1 - slack), 1 - 1e-16)), -np.inf)
    return np.asarray(np.minimum(np.maximum(near, far), 0.0))


@dataclass(frozen=True)
class Laplacian:
    """A Laplace step of ε₀ = `epsilon`, as the nearest double.

    Laplace noise: a closed form with two atoms.

    With ε₀ = sensitivity/scale the loss is ε₀ with probability 1/2, −ε₀ with probability e^{−ε₀}/2, and has density
    e^{(v − ε₀)/2}/4 between, both ways round. Hence

        M(z) = ((z + 1) e^{zε₀} + z e^{−(z+1)ε₀}) / (2z + 1),
        M(z) − 1 = ((z + 1) x(zε₀) + z x(−(z+1)ε₀)) / (2z + 1),   x(t) = e^t − 1 − t,

    the second form without cancellation, which matters when the step is repeated a billion times.
    """

    epsilon: float
    lattice: None = None

    @property
    def largest(self) -> float:
        """The loss never exceeds ε₀."""
        return self.epsilon

    def moments(self, lambdas: Reals) -> LogMoments:
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
        minus = ((1 + lambdas) * _about(lambdas * e) + lambdas * _about(-(1 + lambdas) * e)) / (2 * k)
        return LogMoments(np.log1p(minus), mean, np.maximum(square - mean**2, 1e-300))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedLaplacian:
        """No quadrature: every line is as good as any other."""
        if tilt * self.epsilon > 500 or tilt <= -0.5:
            raise NotCertified("the Laplace transform is out of range on this line")
        return TiltedLaplacian(self.epsilon, tilt)


def _about(t: Reals) -> Reals:
    """e^t − 1 − t to nine digits: enough to choose by, at a tenth of the price of `excess`."""
    return np.where(np.abs(t) < 1e-3, t * t * (0.5 + t * (1 / 6 + t / 24)), np.expm1(t) - t)


@dataclass(frozen=True)
class TiltedLaplacian(TiltedClosed):
    """The Laplace loss on Re z = tilt > −1/2."""

    def minus_one(self, z: Complexes) -> tuple[Complexes, Reals]:
        """M(z) − 1 for Re z > −1/2, and a bound on its absolute error."""
        first, first_error = complex_excess(z * self.epsilon)
        second, second_error = complex_excess(-(z + 1) * self.epsilon)
        half = np.abs(2 * z + 1)
        value = ((z + 1) * first + z * second) / (2 * z + 1)
        sizes = np.abs(z + 1) * np.abs(first) + np.abs(z) * np.abs(second)
        error = (np.abs(z + 1) * first_error + np.abs(z) * second_error + 16 * UNIT * sizes) / half
        return value, error * (1 + 32 * UNIT)

    @cached_property
    def mean(self) -> float:
        """The tilted mean."""
        return float(Laplacian(self.epsilon).moments(np.array([self.tilt])).slope[0])

    @property
    def atomic(self) -> bool:
        """Two atoms."""
        return True

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


_FAR = 500.0


@dataclass(frozen=True)
class Spread:
    """A loss of range ε₀ = `epsilon`, as the nearest double.

    The exponential mechanism: the worst pair of a loss of range at most ε₀ (`pairs.laplace`), which has a density.

    P[L > l] = (e^{ε₀} − e^{(ε₀+l)/2})/(e^{ε₀} − 1) on [−ε₀, ε₀], both ways round: a piece of an exponential. Hence,
    with k = λ + 1/2 and y(t) = e^t − 1 − t − t²/2,

        M(z) = (e^{(z+1)ε₀} − e^{−zε₀}) / ((2z + 1)(e^{ε₀} − 1)),
        M(z) − 1 = (y((z+1)ε₀) − y(−zε₀) − (2z + 1) y(ε₀)) / ((2z + 1)(e^{ε₀} − 1)),
        |M(λ + iv)/M(λ)|² = (1 + sin²(vε₀)/sinh²(kε₀)) / (1 + v²/k²),

    the second form with all terms of third order, as M − 1 is of second.

    **Decay.** The last formula falls up to vε₀ = π/2: its logarithmic derivative has the sign of sin x cos x (κ² + x²)
    − x(sinh²κ + sin²x) with x = vε₀ and κ = kε₀ ≤ sinh κ, which is at most −κ²(x − sin x cos x) − x sin x (sin x − x
    cos x) ≤ 0. Beyond, (1 + 1/sinh²κ)/(1 + v²/k²) bounds it and falls for ever.
    """

    epsilon: float
    lattice: None = None

    @property
    def largest(self) -> float:
        """The loss never exceeds ε₀, but for its rounding."""
        return self.epsilon * (1 + 2 * UNIT)

    def moments(self, lambdas: Reals) -> LogMoments:
        """Those of e^{kl} on [−ε₀, ε₀]: mean ε₀ coth κ − 1/k, variance 1/k² − ε₀²/sinh²κ, by series for small κ."""
        e, k = self.epsilon, lambdas + 0.5
        kappa = np.maximum(k * e, 1e-2)
        near = k * e < 1e-2
        mean = np.where(near, k * e * e / 3, e / np.tanh(kappa) - e / kappa)
        spread = np.where(near, e * e / 3, (e / kappa) ** 2 - (e / np.sinh(np.minimum(kappa, 300.0))) ** 2)
        minus = _minus_one(lambdas.astype(np.complex128), e)[0].real
        return LogMoments(np.log1p(minus), mean, np.maximum(spread, 1e-300))

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


_ORDER = 64
_RULE_ERROR = 2.0**-51
"""How far a node, or a weight relative to itself, may be off: rounded once from 30 digits. A test checks all 64."""

_MOST_PANELS = 64


@cache
def _rule() -> tuple[Reals, Reals]:
    """Nodes and weights by Newton's method on the Legendre polynomial, in decimals; `leggauss` is not exact enough."""
    nodes, weights = [], []
    with localcontext(prec=32):
        for k in range(_ORDER):
            x = Decimal(math.cos(math.pi * (k + 0.75) / (_ORDER + 0.5)))
            for _ in range(5):
                value, before = x, Decimal(1)
                for n in range(2, _ORDER + 1):
                    value, before = ((2 * n - 1) * x * value - (n - 1) * before) / n, value
                slope = _ORDER * (before - x * value) / (1 - x * x)
                x -= value / slope
            nodes.append(float(x))
            weights.append(float(2 / ((1 - x * x) * slope * slope)))
    return np.array(nodes), np.array(weights)


@dataclass(frozen=True)
class SampledLaplacian:
    """One direction of a Poisson-sampled Laplace step; `forward` when P holds the unit."""

    epsilon: float
    rate: float
    rest: float
    forward: bool
    lattice: None = None

    @property
    def largest(self) -> float:
        """The loss where v = ε₀, or where v = −ε₀ the other way round."""
        end = self.epsilon if self.forward else -self.epsilon
        value, _, error = log_sampled(np.array([end]), np.array([UNIT * self.epsilon]), rate=self.rate, rest=self.rest)
        return abs(float(value[0])) + float(error[0])

    def _power(self, tilt: float) -> float:
        """The exponent of 1 − q + q e^v in the tilted density."""
        return 1 + tilt if self.forward else -tilt

    def points(self, panels: int) -> Points:
        """Two atoms, then the panels."""
        e = self.epsilon
        nodes, weights = _rule()
        half = e / panels
        centres = -e + half * (2 * np.arange(panels) + 1)
        v = np.concatenate([[-e, e], (centres[:, None] + half * nodes).ravel()])
        smooth = np.log(half / 4 * np.tile(weights, panels)) - 0.5 * (v[2:] + e)
        base = np.concatenate([[math.log(0.5), math.log(0.5) - e], smooth])
        slip = (_RULE_ERROR + 4 * UNIT) * e
        density, _, error = log_sampled(v, np.full_like(v, slip), rate=self.rate, rest=self.rest)
        none = np.zeros_like(v)
        base_error = _RULE_ERROR + 4 * CALL + slip + CALL * (np.abs(base) + 2)
        if self.forward:
            return Points(base + density, density, base_error, error, none)
        return Points(base, -density, base_error, none, error)

    @cached_property
    def _survey(self) -> Points:
        panels = max(1, math.ceil(self.epsilon / 8))
        if panels > _MOST_PANELS:
            raise NotCertified("the loss is too large for the panels")
        return self.points(panels)

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates from one panel, or a few."""
        return moments_of(self._survey, lambdas)

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedSampledLaplacian:
        """As many panels as the method error asks for."""
        panels = 1
        while (error := self._method(tilt, reach, panels)) > math.exp(-digits):
            panels *= 2
            if panels > _MOST_PANELS:
                raise NotCertified("the quadrature would need too many panels")
        points = self.points(panels)
        if tilt < 0:
            size = math.exp(TiltedPoints(points, tilt, 0.0).logarithm)
            error = math.inf if error > size / 4 else 2 * error / min(size, 1.0)
        return TiltedSampledLaplacian(points, tilt, error, self)

    def _method(self, tilt: float, reach: float, panels: int) -> float:
        """8w M ρ^{−(2n−1)}/(ρ − 1), summed over the panels, at the best ρ; M covers the subtracted terms as well."""
        e = self.epsilon
        half = e / panels
        rho = np.linspace(1.05, 8.0, 60)
        wide, tall = half * (rho + 1 / rho) / 2, half * (rho - 1 / rho) / 2
        fits = tall < 3.0
        rho, wide, tall = rho[fits], wide[fits], tall[fits]
        if not len(rho):
            return math.inf
        centres = (-e + half * (2 * np.arange(panels) + 1))[:, None]
        none = np.zeros((panels, len(rho)))
        low, _, _ = log_sampled(centres - wide, none, rate=self.rate, rest=self.rest)
        high, _, _ = log_sampled(centres + wide, none, rate=self.rate, rest=self.rest)
        size = np.zeros((panels, len(rho)))
        for power in (self._power(tilt), 1.0):
            grown = power * high if power >= 0 else power * (low + np.log(np.cos(tall / 2)))
            size = np.maximum(size, grown)
        ratio = self.rate / self.rest * np.exp(np.minimum(centres + wide, 700.0)) * (1 + 1e-12)
        turn = np.where(ratio < 1, np.minimum(tall, np.arcsin(np.minimum(ratio, 1.0)) * (1 + 1e-12)), tall)
        size = size + reach * turn - 0.5 * (centres - wide + e) - math.log(4)
        total = np.log(8 * half * (2 + 2 * abs(tilt)) / (rho - 1)) - (2 * _ORDER - 1) * np.log(rho) + size.max(axis=0)
        return panels * math.exp(min(float(total.min()), 700.0)) * (1 + 1e-9)


@dataclass(frozen=True)
class TiltedSampledLaplacian(TiltedPoints):
    """A sampled Laplace step on Re z = tilt."""

    step: SampledLaplacian

    @cached_property
    def _variation(self) -> float:
        """2(G(−ε₀) + G(ε₀) − min G)/M(λ), with log G = −log 4q − ε₀/2 − 3v/2 + (κ + 1) log(1 − q + q e^v)."""
        step, e = self.step, self.step.epsilon
        power = step._power(self.tilt) + 1
        ends = [-e, e]
        least = e
        if power > 1.5:
            # the slope of log G vanishes where the share of the step is 1.5/(κ + 1)
            share = 1.5 / power
            least = min(max(math.log(share / (1 - share) * step.rest / step.rate), -e), e)
        v = np.array([*ends, least])
        density, _, _ = log_sampled(v, np.zeros(3), rate=step.rate, rest=step.rest)
        size = np.exp(power * density - 1.5 * v - 0.5 * e - math.log(4 * step.rate) - self.logarithm)
        return float(2 * (size[0] + size[1] - size[2] * (1 - 1e-9))) * (1 + 1e-9)

    def decay(self, omegas: Reals, last: float) -> Reals:
        """The atoms until their phases are opposite, integration by parts beyond."""
        low, high = (float(p) for p in self.probabilities[:2])
        apart = abs(float(self.points.loss[1] - self.points.loss[0]))
        slack = 1e-9 + 4 * self.error
        far = np.log(low + high + self._variation / np.maximum(omegas, math.pi / apart)) + slack
        return ends_decay(low, high, apart, omegas, far, slack=slack)
