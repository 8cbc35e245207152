"""Poisson-sampled Laplace noise: two atoms and a smooth piece between, by Gauss–Legendre panels.

With ε₀ = sensitivity/scale the unsampled loss v is ε₀ with probability e^{−ε₀}/2 under N = "absent", −ε₀ with
probability 1/2, and has density e^{−(v + ε₀)/2}/4 between. Sampling at rate q turns the density ratio e^v into 1 − q
+ q e^v. The pair is ((1 − q)N + q·present, N) or its reverse (Zhu–Dong–Wang 2022, Thm 11).

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
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.cloud import Points, TiltedPoints, moments_of
from deniable.accounting.contour.laplace import ends_decay
from deniable.accounting.contour.mixture import log_sampled
from deniable.accounting.contour.transform import LogMoments
from deniable.numerics.arrays import CALL, UNIT, Reals

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
