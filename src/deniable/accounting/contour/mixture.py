"""Poisson-sampled Gaussian noise: its pair in every relation and direction, and its transform on a line Re z = λ.

One unit gives a density of two parts, a group or a stated mixture one of many: `Side` and `components` are the same to
the quadrature, which knows a density by its logarithm, its slope and how it turns off the real axis (`Density`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.transform import LogMoments, Points, TiltedPoints, moments_of
from deniable.numerics.arrays import CALL, UNIT, Reals

if TYPE_CHECKING:
    from deniable.accounting.contour.cut import CutMixture

_FAR = 30.0


def log_sampled(u: Reals, u_error: Reals, *, rate: float, rest: float) -> tuple[Reals, Reals, Reals]:
    """The logarithm, the share of the step in the density, and a bound on the error of the logarithm.

    `rest` is 1 − rate, rounded from the exact number. Three forms meet: log1p of rate·expm1(u) where the density is
    near 1, the plain logarithm where it is small, and u + log(rate) + … where e^u would overflow. In the first, r =
    rate·expm1(u) has relative error CALL + 2 units, which moves the logarithm by |r|/(1 + r) ≤ 2(1 − e^{−|ℓ|}) times
    that. In the second the sum has relative error CALL + 3 units and 1 − e^{−|ℓ|} is at least 1/2. In the third every
    term is rounded on its own. An error in u counts with the share as its factor.
    """
    beyond = bool(u.max(initial=0.0) > _FAR)
    small = np.minimum(u, _FAR) if beyond else u
    r = rate * np.expm1(small)
    grown = rate * np.exp(small)
    share = grown / (rest + grown)
    value = np.log1p(np.maximum(r, -0.75))
    if rate > 0.5:
        value = np.where(r > -0.5, value, np.log(rest + grown))
    parts = -np.expm1(-np.abs(value))
    if beyond:
        far = u > _FAR
        log_rate = math.log(rate)
        value = np.where(far, u + (log_rate + np.log1p(rest / rate * np.exp(-np.maximum(u, _FAR)))), value)
        share = np.where(far, 1.0, share)
        parts = np.where(far, np.abs(u) + (2.0 + abs(log_rate)), parts)
    error = (share * u_error) * (1 + 1e-9) + 3 * (CALL + 4 * UNIT) * parts + 2 * CALL * np.abs(value)
    return value, share, error


def log_sampled_at(u: float, *, rate: float, rest: float) -> tuple[float, float]:
    """The logarithm and the share at one point."""
    if u > _FAR:
        return u + (math.log(rate) + math.log1p(rest / rate * math.exp(-u))), 1.0
    grown = rate * math.exp(u)
    r = rate * math.expm1(u)
    return (math.log1p(r) if r > -0.5 else math.log(rest + grown)), grown / (rest + grown)


_NORMALISER = 0.5 * math.log(2 * math.pi)


class Density(Protocol):
    """f(y) = Σ_j w_j e^{a_j y − a_j²/2}, relative to N(0, 1), all a_j ≥ 0: log f is convex and its slope at most a."""

    @property
    def span(self) -> float:
        """a, the largest a_j: 0 when f is 1."""
        ...

    @property
    def floor(self) -> float:
        """An upper bound on −log of the weight of a_j = 0, which log f exceeds everywhere; inf where there is none."""
        ...

    @property
    def rarity(self) -> float:
        """−log of the weight of the farthest part."""
        ...

    @property
    def units(self) -> float:
        """How much larger the error of a share is than that of its exponent."""
        ...

    def log_density(self, y: Reals) -> tuple[Reals, Reals, Reals]:
        """log f, its slope, and a bound on the error of log f."""
        ...

    def at(self, y: float) -> tuple[float, float]:
        """log f and its slope at one point."""
        ...

    def turned(self, y: Reals, c: Reals) -> tuple[Reals, Reals, Reals]:
        """log |f(y + ic)/f(y)|, the size of the terms it is a sum of, and the argument of f(y + ic) for c < π/a."""
        ...

    def tail(self, y: float, *, below: bool = False) -> float:
        """A bound on the mass of Σ_j w_j N(a_j) above y, or below it."""
        ...


@dataclass(frozen=True)
class Side:
    """One density 1 − rate + rate·e^{shift·y − shift²/2} relative to N(0, 1); `rest` is 1 − rate, rounded once."""

    rate: float
    rest: float
    shift: float

    @property
    def span(self) -> float:
        """The shift, if there is one."""
        return self.shift if self.rate > 0 else 0.0

    @property
    def floor(self) -> float:
        """−log(1 − rate)."""
        return -(math.log1p(-self.rate) if self.rate < 0.5 else math.log(self.rest)) * (1 + 2 * CALL)

    @property
    def rarity(self) -> float:
        """−log rate."""
        return -math.log(self.rate) if self.rate > 0 else math.inf

    @property
    def units(self) -> float:
        """A share of two is as good as its exponent."""
        return 1.0

    def log_density(self, y: Reals) -> tuple[Reals, Reals, Reals]:
        """ℓ(y), its slope, and a bound on the error of ℓ."""
        if self.rate == 0.0:
            zero = np.zeros_like(y)
            return zero, zero, zero
        value, share, error = self._shared(y)
        return value, self.shift * share, error

    def _shared(self, y: Reals) -> tuple[Reals, Reals, Reals]:
        """ℓ(y), the share π of the shifted part in it, and a bound on the error of ℓ."""
        u = self.shift * (y - 0.5 * self.shift)
        # shift carries one rounding (two for its square root), the difference one, the product one
        u_error = 6 * UNIT * abs(self.shift) * (np.abs(y) + abs(self.shift))
        return log_sampled(u, u_error, rate=self.rate, rest=self.rest)

    def at(self, y: float) -> tuple[float, float]:
        """ℓ and its slope at one point."""
        if self.rate == 0.0:
            return 0.0, 0.0
        value, share = log_sampled_at(self.shift * (y - 0.5 * self.shift), rate=self.rate, rest=self.rest)
        return value, self.shift * share

    def turned(self, y: Reals, c: Reals) -> tuple[Reals, Reals, Reals]:
        """|1 − π + π e^{iθ}|² = 1 − 4π(1 − π) sin²(θ/2) with θ = shift·c."""
        share = self._shared(y)[1]
        half = np.sin(0.5 * self.shift * c)[:, None] ** 2
        modulus = 0.5 * np.log1p(-4 * share * (1 - share) * half)
        return modulus, np.abs(modulus), np.arctan2(share * np.sin(self.shift * c)[:, None], 1 - 2 * share * half)

    def tail(self, y: float, *, below: bool = False) -> float:
        """Of both parts."""
        sign = -1 if below else 1
        return self.rest * normal_tail(sign * y) + self.rate * normal_tail(sign * (y - self.shift))


def normal_tail(y: float) -> float:
    """At least the mass of N(0, 1) above y."""
    return 0.5 * math.erfc(y / math.sqrt(2)) * (1 + 1e-9)


@dataclass(frozen=True)
class MixturePair:
    """P = (1 − p)N(0) + p N(a) and Q = (1 − q)N(0) + q N(−b), on the axis of y.

    The pair of a Poisson-sampled Gaussian step, in every relation and direction, and the quadrature of its transform.

    In units of the noise, P = (1 − p)N(0) + p N(a) and Q = (1 − q)N(0) + q N(−b), with

    | relation, direction | p | q | a, b |
    |---|---|---|---|
    | add/remove and zero-out, P holds the unit | rate | 0 | a = sensitivity/scale |
    | the same, Q holds the unit | 0 | rate | b = sensitivity/scale |
    | replace, reach = sensitivity/2 | rate | rate | a = b = reach/scale |

    (Zhu–Dong–Wang 2022, Thm 11, for the first two; docs/accounting-contour.md proves the third.) With the standard
    normal density φ and ℓ₊ = log(1 − p + p e^{ay − a²/2}), ℓ₋ = log(1 − q + q e^{−by − b²/2}) the loss is ℓ₊ − ℓ₋ and

        M(z) = ∫ φ(y) exp((1 + z) ℓ₊(y) − z ℓ₋(y)) dy.

    **Quadrature.** The trapezoid rule of step η over the whole line. Shift the line of integration to y + ic. There
    |φ(y + ic)| = e^{c²/2} φ(y); |1 − p + p e^{u + iθ}| lies between cos(θ/2) and 1 times its value at θ = 0, and its
    argument between 0 and θ. Hence, for λ = Re z > 0, ω = Im z and c < π/a, c < π/b,

        ∫ |integrand(y + ic)| dy ≤ e^{c²/2} e^{|ω|(a+b)c} cos(bc/2)^{−λ} M(λ) =: N,

    and the rule is off by at most 2N/(e^{2πc/η} − 1) (Trefethen–Weideman 2014, Thm 5.1). The step is the largest for
    which some c makes this small enough.

    **Range.** Beyond the last point above, log(integrand) falls at least as fast as its slope there says: ℓ₊ has slope
    at most a, −λℓ₋ at most λb π₋ with π₋ falling. So the terms left out are below a geometric series. Below the first
    point the slope is at least |y|.
    """

    above: Density
    below: Density
    """As a function of −y: its span is b."""

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
        return 0.98 * math.pi / max(self.above.span, self.below.span)

    @property
    def speed(self) -> float:
        """a + b: how fast the phase of the integrand can turn."""
        return self.above.span + self.below.span

    def _exponent(self, tilt: float, reach: float, c: Reals) -> Reals:
        """log(N/M(λ)) on the line shifted by c, a rising function of c."""
        grow = 0.5 * c * c + reach * self.speed * c
        if self.below.span > 0 and tilt > 0:
            grow = grow - tilt * np.log(np.cos(0.5 * self.below.span * c))
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

    def log_integrand(self, tilt: float, y: float) -> float:
        """(1 + λ)ℓ₊ − λℓ₋ − y²/2."""
        return (1 + tilt) * self.above.at(y)[0] - tilt * self.below.at(-y)[0] - 0.5 * y * y

    def _slopes(self, tilt: float, y: float) -> tuple[float, float]:
        """Upper bounds on the growth of (1 + λ)ℓ₊ − λℓ₋: upwards beyond y, and downwards below y."""
        up = max(0.0, 1 + tilt) * self.above.span
        down = 0.0
        if self.below.span > 0:
            up += max(0.0, tilt) * self.below.at(-y)[1]
            down = max(0.0, -tilt) * self.below.span
        return up * (1 + 1e-12), down * (1 + 1e-12)

    def bounds(self, tilt: float, digits: float) -> tuple[float, float]:
        """Where the integrand, and the two densities subtracted from it, become negligible."""
        far = math.sqrt(2 * digits)
        low, high = -far - self.below.span, far + self.above.span
        high = max(high, self._slopes(tilt, high)[0] + 0.5)
        while self.log_integrand(tilt, high) > -digits:
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
                end = self.log_integrand(t, y) - _NORMALISER
                total += weight * width * math.exp(min(end, 700.0)) / -math.expm1(-fall * width)
        return total * (1 + 1e-9)


_MOST_POINTS = 1 << 14


@dataclass(frozen=True)
class Mixture(MixturePair):
    """One direction of a Poisson-sampled Gaussian step."""

    lattice: None = None

    @property
    def largest(self) -> float:
        """At the far end the loss is −log(1 − q) when only Q is shifted, and unbounded otherwise."""
        return math.inf if self.above.span > 0 else self.below.floor

    @cached_property
    def _surveys(self) -> dict[int, Points]:
        """Coarse clouds for `moments`, by the power of two up to which they reach."""
        return {}

    def _survey(self, tilt: float) -> Points:
        """A coarse cloud that holds the tilted law of every tilt up to this one.

        Its mode is at most κa + λb·share, where the share of the lower density is that at 0 or less.
        """
        high = (1 + tilt) * self.above.span + tilt * self.below.at(0.0)[1]
        if self.above.span > 0:
            # Beyond this κ one sampled step alone has log M of thousands.
            cost = self.above.rarity / self.above.span
            high = min(high, cost + math.sqrt(cost * cost + 6000.0))
        size = math.ceil(math.log2(max(high, 1.0)))
        if size not in self._surveys:
            width = min(0.6, 1.2 / max(self.above.span, self.below.span))
            first, last = (
                math.floor((-8.0 - self.below.span) / width),
                math.ceil(min(2.0**size / width, 4000) + 8.0 / width),
            )
            if last - first > _MOST_POINTS:
                raise NotCertified("the quadrature would need too many points")
            self._surveys[size] = self.points(np.arange(first, last + 1, dtype=np.float64) * width, width)
        return self._surveys[size]

    def cut(self, log_mass: float, digits: float, tilt: float) -> CutMixture:
        """The same between two ends, beyond which P and Q have at most e^log_mass each (`cut`)."""
        from deniable.accounting.contour.cut import CutMixture

        return CutMixture.of(self, log_mass, digits, tilt)

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates from a coarse cloud."""
        return moments_of(self._survey(float(lambdas[-1])), lambdas)

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
    """A mixture on Re z = tilt.

    Poisson-sampled Gaussian noise on a line Re z = λ, and the proof that its transform does not revive further up.

    Shifting the integral of `MixturePair` to y + ic with ω > 0 turns e^{iω(ℓ₊ − ℓ₋)} into e^{−ω(α₊ + α₋)} with α± ≥
    0 the arguments of the two densities: |M(λ + iω)| ≤ B_c(ω), an integral of positive terms each of which falls in ω.
    One evaluation at ω bounds all larger ones; no revival can hide further out. The trapezoid rule for B_c is off by a
    bound of the same kind as that for M (`_decay_error`).
    """

    step: MixturePair
    width: float
    low: float
    high: float

    @property
    def atomic(self) -> bool:
        """A density."""
        return False

    def decay(self, omegas: Reals, last: float) -> Reals:
        """log B_c(ω)/M(λ) at a good c for each ω, at most 0."""
        step, tilt, p = self.step, self.tilt, self.probabilities
        y = self.low + self.width * np.arange(len(p), dtype=np.float64)
        sides = [
            (side, sign * y, power)
            for side, sign, power in ((step.above, 1, 1 + tilt), (step.below, -1, -tilt))
            if side.span > 0
        ]
        c = self._shifts(omegas, sides)
        grown, turn = 0.5 * (c * c)[:, None], np.zeros((len(c), len(y)))
        rounded = grown
        for side, at, power in sides:
            modulus, size, argument = side.turned(at, c)
            grown = grown + power * modulus
            rounded = rounded + abs(power) * size
            turn += argument
        fall = omegas[:, None] * turn
        change = np.expm1(np.minimum(grown - fall, 600.0))
        # the exponent's own roundings, times e^{exponent}
        slack = (1.0 + change) * (np.abs(grown) + rounded + fall)
        # a share is off by a few units and by the error of its exponent (`Side.log_density`)
        units = (64 + 16 * step.speed * (abs(self.low) + abs(self.high) + step.speed)) * UNIT
        units *= max(step.above.units, step.below.units)
        relative = self._weight_error + (len(p) + 32) * UNIT + self.error
        total = change @ p + np.abs(change) @ (relative * p) + units * (slack @ p)
        total += self._decay_error(omegas, c)
        return np.asarray(np.minimum(np.log1p(np.maximum(total, -1 + 1e-300)), 0.0))

    def _shifts(self, omegas: Reals, sides: list[tuple[Density, Reals, float]]) -> Reals:
        """For each ω, the best of twelve c, judged by a few of the points. Any c is valid."""
        some = slice(None, None, max(1, len(self.probabilities) // 32))
        p = self.probabilities[some]
        pull = sum(float(p @ side.log_density(at[some])[1]) for side, at, _ in sides) / float(p.sum())
        most = 0.9 * self.step.limit
        c = np.geomspace(min(0.4 * float(omegas[0]) * pull, 0.5 * most), min(12 * float(omegas[-1]) * pull, most), 12)
        grown, turn = 0.5 * (c * c)[:, None], np.zeros((len(c), len(p)))
        for side, at, power in sides:
            modulus, _, argument = side.turned(at[some], c)
            grown = grown + power * modulus
            turn += argument
        size = np.exp(np.minimum(grown - omegas[:, None, None] * turn, 600.0)) @ p
        return np.asarray(c[np.argmin(size + self._decay_error(omegas[:, None], c), axis=1)])

    def _decay_error(self, omegas: Reals, c: Reals) -> Reals:
        """What the trapezoid rule may miss of B_c(ω), relative to M(λ), for pairs of ω and c: step, at the best second
        shift c′, and range.

        The integrand of B_c continues to exp of ((1+λ)/2)(ℓ₊(y+ic) + ℓ₊(y−ic)) and so on. On the line y + ic′ it is
        at most e^{(c² + c′²)/2} cos(b(c + c′)/2)^{−λ} e^{ω(a+b)(c′−c)₊/2} times the tilted density, as long as c + c′
        stays inside.
        """
        step, tilt = self.step, self.tilt
        inner = np.linspace(0.05, 1.0, 24) * np.minimum(step.limit - c, 40.0)[..., None]
        waves = 2 * math.pi * inner / self.width
        # 2/(e^w − 1) is below 2.1 e^{−w} from w = 4 on; smaller w are no candidates
        away = 0.5 * (c[..., None] ** 2 + inner**2) - np.where(waves >= 4, waves, -np.inf)
        power = 0.5 * c * c
        if step.below.span > 0 and tilt > 0:
            away = away - tilt * np.log(np.cos(0.5 * step.below.span * (c[..., None] + inner)))
            power = power - tilt * np.log(np.cos(0.5 * step.below.span * c))
        push = 0.5 * step.speed * np.maximum(inner - c[..., None], 0.0)
        least = (away + omegas[..., None] * push).min(axis=-1)
        missed = step.range_error(tilt, self.width, self.low - self.width, self.high + self.width)
        with np.errstate(over="ignore"):
            return np.asarray(2.1 * np.exp(least) + np.exp(power) * missed)
