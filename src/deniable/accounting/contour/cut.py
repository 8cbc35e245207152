"""Rare samples: a mixture whose far ends are cut off, so that the line of integration may pass its saddle point.

At a small rate q nearly all losses are of size q, and M(λ) explodes at λ of about 2 ln(1/q)/a², because of outputs that
never occur. The line that suits the losses that do occur is at λ of the size 1/q. So the pair is restricted to outputs
y between two ends, beyond which lies a negligible probability p under P. With P′ = P and Q′ = Q on [low, high], for T
steps and every ε

    δ′(ε) ≤ δ(ε) ≤ δ′(ε) + T·p,    δ′(ε) = E_{P′}(1 − e^{ε−L})₊,

for δ is such an expectation over all T outputs, of a function between 0 and 1, and some output is beyond the ends with
probability at most T·p. The contour integral and its errors (`integral`) need no more than the transform of P′:

    M′(z) = ∫_low^high φ(y) exp((1 + z)ℓ₊(y) − zℓ₋(y)) dy.

P′ and Q′ lack p and q of their masses, so M′(λ) − 1 = E_{P′}[x(λL)] + λE_{P′}[x(−L)] − p + λ(q − p) (see `transform`);
the last terms count as errors.

**Monotone.** Let f = Σ w_j e^{a_j y − a_j²/2} and 0 ≤ c ≤ π/(2a), a the largest a_j. With shares s_j, θ_j = a_j c,

    d arg f(y + ic)/dy  = Σ_{j<k} s_j s_k (a_k − a_j) sin(θ_k − θ_j)/|Σ s_j e^{iθ_j}|² ≥ 0,
    d log|f(y + ic)|/dy = Σ_{j,k} s_j s_k a_j cos(θ_j − θ_k)/|Σ s_j e^{iθ_j}|² ≥ 0,

and by the Cauchy–Riemann equations the argument grows, and the modulus falls, with c. So the integrals of moduli over
shifted lines are bounded cell by cell, each factor at its larger end (`CutMixture.log_integral`).

**Quadrature.** The midpoints of n cells of width η. Close the lines Im y = ±c by the sides Re y = low and Re y = high.
With π cot(πy/η) as the kernel, and because the ends are halfway between two points, the sum is off by at most

    2N/(e^{2πc/η} − 1) + 2 Σ_ends ∫₀^c |g(end + it)| e^{−2πt/η} dt,

where g is the integrand and N the larger integral of |g| over the two lines.

**Decay.** Shifting ∫ g to Im y = c as in `TiltedMixture` adds the two sides. The midpoint rule for B_c meets, on a line
c′ with c + c′ ≤ π/(2a), at most φ f₊^{1+λ} |f₋(y + i(c + c′))|^{−λ} e^{(c² + c′²)/2}: the arguments of f at c′ + c and
at c′ − c are in that order, so the factor in ω is at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.mixture import MixturePair, TiltedMixture
from deniable.accounting.contour.transform import RUN, LogMoments, Points, Ratios, moments_of
from deniable.numerics.arrays import CALL, UNIT, Reals, log_of_one_plus

_NORMALISER = 0.5 * math.log(2 * math.pi)
_UNIT = 105 / 512
"""The length of [low, high] is a multiple of this: it can be cut into 3, 5, 7, 15, 21, 35 or 105 times 2^k cells whose
midpoints are exact doubles."""
_MANY_CELLS, _MOST_CELLS = 1 << 10, 1 << 12
_ENTRIES, _BLOCK = 1 << 15, 32
_FARTHEST = 4.0
"""Lines are not shifted further: e^{c²/2} counts."""
_PIECES = 64
"""Of the integrals along the sides."""
_SLACK = 1e-6
"""Relative, on bounds that are far from tight."""


@dataclass(frozen=True)
class CutMixture(MixturePair):
    """One direction of a Poisson-sampled Gaussian step on [low, high]. At the ends the tilted density must be below
    e^{−digits} of M(λ); lines for which it is not count as beyond the reach of the transform.
    """

    low: float
    units: int
    digits: float
    lattice: None = None
    largest: float = math.inf

    @classmethod
    def of(cls, pair: MixturePair, log_mass: float, digits: float, tilt: float) -> CutMixture:
        """Ends beyond which P and Q have at most e^log_mass each; at `tilt`, too, the upper end is far enough."""
        low, high = -1.0, 1.0
        if log_mass < -600:
            raise NotCertified("the ends of the range are too far")
        while max(_tails(pair, low, high)) > log_mass:
            below, above = max(_tails(pair, low, math.inf)), max(_tails(pair, -math.inf, high))
            low, high = (low - 0.25, high) if below > above else (low, high + 0.25)
            if high - low > 200:
                raise NotCertified("the ends of the range are too far")
        while tilt and high < 60 and pair.log_integrand(tilt, high) > -digits - 8.0:
            high += 0.25
        return cls(pair.above, pair.below, low, math.ceil((high - low) / _UNIT), digits)

    @property
    def high(self) -> float:
        """The upper end."""
        return self.low + self.units * _UNIT

    @cached_property
    def missing(self) -> tuple[float, float]:
        """Bounds on the masses of P and of Q beyond the ends."""
        first, second = _tails(self, self.low, self.high)
        return math.exp(first) * (1 + _SLACK), math.exp(second) * (1 + _SLACK)

    @property
    def limit(self) -> float:
        """How far the line may be shifted."""
        return min(0.49 * math.pi / max(self.above.span, self.below.span), _FARTHEST)

    def _midpoints(self, cells: int) -> tuple[Reals, float]:
        width = self.units * _UNIT / cells
        return self.low + (np.arange(cells, dtype=np.float64) + 0.5) * width, width

    def _cells(self, width: float) -> int:
        """The least number of cells that are not wider."""
        length = self.units * _UNIT
        return min(m << max(0, math.ceil(math.log2(length / width / m))) for m in (1, 3, 5, 7, 15, 21, 35, 105))

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates from a coarse cloud; infinite where an end is in the way."""
        value, slope, curvature = moments_of(self._survey, lambdas)
        for end in (self.low, self.high):
            upper, loss = self.above.at(end)[0], self.above.at(end)[0] - self.below.at(-end)[0]
            value = np.where(upper + lambdas * loss - 0.5 * end * end - value > -self.digits, np.inf, value)
        return LogMoments(value, slope, curvature)

    @cached_property
    def _survey(self) -> Points:
        return self.points(*self._midpoints(self._cells(0.1)))

    def log_integral(self, tilt: float, omega: float, c: Reals, *, real: bool = False) -> Reals:
        """At least log ∫ |φ f₊^{1+λ} f₋^{−λ}| e^{ωα} over [low, high] on the line shifted by c, but for e^{c²/2}.

        Every factor is monotone in y, so its larger end bounds it on a cell. With `real`, f₊ stays on the real axis.
        """
        edges = np.linspace(self.low, self.high, 1 + 8 * math.ceil(self.high - self.low))
        total = np.zeros((len(c), len(edges) - 1))
        for side, at, power in ((self.above, edges, 1 + tilt), (self.below, -edges, -tilt)):
            if not side.span:
                continue
            modulus, _, argument = side.turned(at, c)
            if real and side is self.above:
                modulus = np.zeros_like(modulus)
            for factor in (power * (side.log_density(at)[0] + modulus), omega * argument):
                total += np.maximum(factor[:, 1:], factor[:, :-1])
        nearest = np.where(edges[:-1] * edges[1:] <= 0, 0.0, np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])))
        total = total + _SLACK * (1 + np.abs(total)) - 0.5 * nearest**2 + math.log(edges[1] - edges[0]) - _NORMALISER
        top = total.max(axis=1)
        return np.asarray(top + np.log(np.exp(total - top[:, None]).sum(axis=1)) + _SLACK)

    def edges(self, tilt: float, omega: float, c: float, width: float) -> float:
        """2 Σ_ends ∫₀^c |g(end + it)| e^{−2πt/η} dt, and the same for the two densities that are subtracted.

        The modulus of φ and the argument of f grow with t and |f| falls: each piece of the integral is bounded by them
        at its end, and by e^{−2πt/η} at its start.
        """
        t = np.linspace(0.0, c, 1 + _PIECES)
        total = 0.0
        for end in (self.low, self.high):
            grown = 0.5 * t[1:] * t[1:] - 2 * math.pi / width * t[:-1]
            for side, at in ((self.above, end), (self.below, -end)):
                if side.span:
                    modulus, _, argument = side.turned(np.array([at]), t[1:])
                    grown = grown + omega * argument[:, 0] - (tilt * modulus[:, 0] if side is self.below else 0.0)
            own = float(np.exp(np.minimum(self.log_integrand(tilt, end) + grown, 600.0)).mean())
            rest = math.exp(self.log_integrand(0.0, end)) + math.exp(self.log_integrand(-1.0, end))
            total += 2 * c * (own + (1 + tilt) * rest)
        return total * (1 + _SLACK)

    def sides(self, tilt: float) -> float:
        """Σ_ends 2c·max |g(end + it)| over t ≤ c, for c = `limit` and ω ≥ 0 above the axis, where e^{−ωα} ≤ 1."""
        c, total = self.limit, 0.0
        for end in (self.low, self.high):
            shrunk = 0.0
            if self.below.span:
                shrunk = float(self.below.turned(np.array([-end]), np.array([c]))[0][0, 0])
            total += math.exp(min(self.log_integrand(tilt, end) - tilt * shrunk, 700.0))
        return 2 * c * math.exp(0.5 * c * c) * total * (1 + _SLACK)

    def _rule(self, tilt: float, reach: float, digits: float, most: int) -> tuple[int, float, float] | None:
        """How many midpoints on the real axis are good up to a frequency, the shift that proves it, and its integral;
        None when there are too many.
        """
        c = np.geomspace(0.04, 1.0, 20) * self.limit
        whole = 0.5 * c * c + np.logaddexp(self.log_integral(tilt, reach, c), math.log(1 + 2 * tilt))
        best = int(np.argmax(c / (digits + 3.0 + whole)))
        far, exponent = float(c[best]), float(whole[best])
        width, ends = 2 * math.pi * far / (digits + 3.0 + exponent), math.inf
        while (cells := self._cells(width)) <= most:
            # the points must also resolve the waves at the ends, as far as the density there asks for it
            width = self.units * _UNIT / cells
            ends, before = self.edges(tilt, reach, far, width), ends
            if ends <= math.exp(-digits) or ends > 0.5 * before:
                return cells, far, exponent
            width *= 0.7
        return None

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedCut:
        """Midpoints whose method error, relative to M(λ) ≥ 1, is about e^{−digits} for |ω| ≤ reach."""
        if tilt <= 0:
            raise NotCertified("a law with ends is followed on the right only")
        near, most, rule = reach, _MANY_CELLS, self._rule(tilt, reach, digits, _MANY_CELLS)
        if rule is None and self._rule(tilt, 0.0, digits, most) is None:
            most = _MOST_CELLS
            if self._rule(tilt, 0.0, digits, most) is None:
                raise NotCertified("the quadrature would need too many points")
        while rule is None:
            near *= 0.5
            rule = self._rule(tilt, near, digits, most)
        cells, far, exponent = rule
        y, width = self._midpoints(cells)
        waves = 2 * math.pi * far / width
        off = 2 * math.exp(min(exponent - waves, 700.0)) / -math.expm1(-waves)
        lacking = (1 + tilt) * self.missing[0] + tilt * self.missing[1]
        method = (off + self.edges(tilt, near, far, width) + lacking) * (1 + _SLACK)
        points = self.points(y, width)
        return TiltedCut(points, tilt, method, self, width, float(y[0]), float(y[-1]), near, digits)


@dataclass(frozen=True)
class TiltedCut(TiltedMixture):
    """A mixture with ends on Re z = tilt. Up to the frequency `near` the ratios are sums over the real axis, beyond it
    sums over a line above it (`_shifted`).
    """

    step: CutMixture
    near: float
    digits: float

    def ratios(self, omegas: Reals) -> Ratios:
        """The characteristic function of the tilted loss, centred."""
        few = len(omegas) if omegas[-1] <= self.near else int(np.searchsorted(omegas, self.near, side="right"))
        few -= few % RUN if few < len(omegas) else 0
        first = super().ratios(omegas[:few]) if few else Ratios(np.zeros(0, dtype=np.complex128), np.zeros(0))
        if few == len(omegas):
            return first
        rest = self._shifted(omegas[few:])
        return Ratios(np.concatenate([first.logarithm, rest.logarithm]), np.concatenate([first.error, rest.error]))

    def _shifted(self, omegas: Reals) -> Ratios:
        """The midpoint rule on the line Im y = c, on which e^{iωL} falls as e^{−ωα}: it needs no finer points however
        fast the waves are on the real axis.

        Between the lines 0 and 2c the modulus of the integrand is at most e^{2c²} times what `log_integral` bounds, so
        the rule is off by 2 e^{2c²} N/(e^{2πc/η} − 1) and by the sides. With W the weights on this line at ω = 0, which
        add up to M(λ), the ratio less 1 is ΣW(e^{iω(L−m)} − 1)/M(λ): nothing cancels when it is small.
        """
        step, tilt = self.step, self.tilt
        c = 0.5 * step.limit
        whole = 2 * c * c + float(step.log_integral(tilt, 0.0, np.array([2 * c]), real=True)[0])
        y, width = step._midpoints(step._cells(2 * math.pi * c / (self.digits + 3.0 + max(whole, 0.0))))
        waves = 2 * math.pi * c / width
        # for e^{zL} and for e^{λL}, whose sum is taken to be M(λ)
        method = 4 * math.exp(min(whole - waves, 700.0)) / -math.expm1(-waves) + 2 * step.sides(tilt)
        level = math.log(width) - _NORMALISER - 0.5 * (y * y - c * c) - self.logarithm
        turn, along, phase = np.zeros_like(y), np.zeros_like(y), -y * c
        off, sizes = np.zeros_like(y), np.zeros_like(y)
        for side, at, sign, power in ((step.above, y, 1.0, 1 + tilt), (step.below, -y, -1.0, tilt)):
            if side.span:
                value, _, error = side.log_density(at)
                modulus, size, argument = (each[0] for each in side.turned(at, np.array([c])))
                level = level + sign * power * (value + modulus)
                along = along + sign * (value + modulus)
                phase, turn = phase + power * argument, turn + argument
                off = off + error
                sizes = sizes + np.abs(value) + size + argument
        along = along - self.mean
        # a share is off by a few units and by the error of its exponent (`Side.log_density`), as in `decay`
        units = (64 + 16 * step.speed * (abs(self.low) + abs(self.high) + step.speed)) * UNIT
        units *= max(step.above.units, step.below.units)
        each = min(_BLOCK, len(y))
        still = (1 + 2 * tilt) * (off + units * sizes) + 8 * UNIT * (np.abs(level) + np.abs(phase)) + 16 * CALL
        still += (_BLOCK + len(y) / _BLOCK + 16) * UNIT + self.error
        moving = off + units * sizes + 8 * UNIT * (np.abs(along) + abs(self.mean))
        weights = np.exp(level + 1j * phase)
        logarithms, errors = np.empty(len(omegas), dtype=np.complex128), np.empty(len(omegas))
        rows = max(1, _ENTRIES // len(y))
        for start in range(0, len(omegas), rows):
            part = omegas[start : start + rows]
            fall, wave = np.multiply.outer(part, -turn), np.multiply.outer(part, along)
            # e^w − 1 for w = fall + i·wave; its two real terms are at most six times as large as itself together
            grown, half = np.exp(fall), np.sin(0.5 * wave)
            change = np.expm1(fall) * np.cos(wave) - 2 * half * half + 1j * (grown * np.sin(wave))
            terms = change * weights
            blocks = np.zeros((len(part), -(-len(y) // each) * each), dtype=np.complex128)
            blocks[:, : len(y)] = terms
            total = blocks.reshape(len(part), -1, each).sum(axis=2).sum(axis=1)
            logarithm = log_of_one_plus(total.real, total.imag)
            size = np.exp(logarithm.real)
            absolute = np.abs(terms) @ still + part * (grown @ (np.abs(weights) * moving)) + 1.01 * method
            absolute += 16 * UNIT * np.abs(total) / np.minimum(size, 1.0)
            logarithms[start : start + rows] = logarithm
            errors[start : start + rows] = 1.01 * absolute / size
        return Ratios(logarithms, errors + 8 * UNIT * np.abs(logarithms.imag))

    def _decay_error(self, omegas: Reals, c: Reals) -> Reals:
        """What the midpoint rule may miss of B_c(ω), relative to M(λ): step, at the best second shift c′, and sides."""
        step, tilt = self.step, self.tilt
        inner = np.linspace(0.05, 1.0, 12)[None, :] * (step.limit - c)[:, None]
        sums = (c[:, None] + inner).ravel()
        whole = step.log_integral(tilt, 0.0, sums if step.below.span else sums[:1], real=True)
        waves = 2 * math.pi * inner / self.width
        exponent = 0.5 * (c[:, None] ** 2 + inner**2) + (whole.reshape(inner.shape) if step.below.span else whole)
        least = (exponent - np.where(waves >= 4, waves, -np.inf)).min(axis=1)
        # the shift itself has sides of length c, the rule has them twice of length c′
        with np.errstate(over="ignore"):
            return np.asarray(2.1 * np.exp(least) + np.exp(0.5 * c * c) * step.sides(tilt))


def _tails(pair: MixturePair, low: float, high: float) -> tuple[float, float]:
    """log of bounds on the masses of P and of Q outside [low, high]."""
    first = pair.above.tail(high) + pair.above.tail(low, below=True)
    second = pair.below.tail(-low) + pair.below.tail(-high, below=True)
    return math.log(first + 1e-300), math.log(second + 1e-300)
