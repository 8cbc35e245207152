"""M(z) = E_P[e^{zL}] of one step, in balls, and a bound on it further up a vertical line.

This is the only file that imports python-flint: it also goes between exact numbers, balls and doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol

from deniable.accounting.certificate import NotCertified
from deniable.errors import MissingExtra
from deniable.numerics.rounding import float_above, float_below


class BallTransform(Protocol):
    """One direction of a step."""

    def value(self, z: Disc) -> Disc:
        """An enclosure of M(z) for Re z > −1/2."""
        ...

    def decay(self, tilt: Ball, omega: Ball, last: Ball | None) -> Ball:
        """An upper bound on |M(tilt + iv)| for every v from omega on, up to `last` when there is one."""
        ...


@dataclass(frozen=True)
class NormalBall:
    """Gaussian steps of total squared parameter `square`: e^{μ² z(z+1)/2}."""

    square: Fraction

    def value(self, z: Disc) -> Disc:
        """Exactly that."""
        return (ball(self.square) / 2 * z * (z + 1)).exp()

    def decay(self, tilt: Ball, omega: Ball, last: Ball | None) -> Ball:
        """|M| falls with |v|."""
        return (ball(self.square) / 2 * (tilt * (tilt + 1) - omega * omega)).exp()


@dataclass(frozen=True)
class LaplaceBall:
    """((z + 1)e^{zε} + z e^{−(z+1)ε})/(2z + 1)."""

    epsilon: Fraction

    def value(self, z: Disc) -> Disc:
        """The closed form."""
        e = ball(self.epsilon)
        return ((z + 1) * (z * e).exp() + z * (-(z + 1) * e).exp()) / (2 * z + 1)

    def decay(self, tilt: Ball, omega: Ball, last: Ball | None) -> Ball:
        """The larger of the bound by the two atoms up to their turn, and the bound by parts from there on."""
        e = ball(self.epsilon)
        high, low = (tilt * e).exp() / 2, (-(tilt + 1) * e).exp() / 2
        whole = self.value(disc(tilt, ball(0))).real
        return _two_atoms(whole, high, low, 2 * e, high + low, omega)


def _two_atoms(whole: Ball, high: Ball, low: Ball, apart: Ball, variation: Ball, omega: Ball) -> Ball:
    """max of whole − (p + p′) + |p e^{iv·apart} + p′| up to v·apart = π, and p + p′ + variation/(2v) beyond."""
    turn = pi() / apart
    both = high + low
    beyond = both + variation / (2 * omega.max(turn))
    if omega >= turn:
        return beyond
    waves = both * both - 4 * high * low * (omega * apart / 2).sin() ** 2
    return (whole - both + waves.max(ball(0)).sqrt()).max(beyond)


@dataclass(frozen=True)
class AtomBalls:
    """Finitely many losses, `spacing` apart from `first` on; `masses()` are those under P, in the current precision."""

    masses: Callable[[], list[Ball]]
    first: Fraction
    spacing: Fraction
    geometric: bool = False
    """Whether the inner masses are a geometric series."""

    def value(self, z: Disc) -> Disc:
        """The finite sum, as a polynomial in e^{zg}."""
        step, total = (z * ball(self.spacing)).exp(), disc(ball(0), ball(0))
        for mass in reversed(self.masses()):
            total = total * step + mass
        return total * (z * ball(self.first)).exp()

    def decay(self, tilt: Ball, omega: Ball, last: Ball | None) -> Ball:
        """√(M(λ)² − 2 Σ p_j p_{j+1} (1 − cos vg)) up to half a period, or the bound of `_geometric`."""
        whole = self.value(disc(tilt, ball(0))).real
        g = ball(self.spacing)
        if last is None or not last * g <= pi() * (1 + ball(Fraction(1, 10**9))):
            return whole
        tilted = [m * (tilt * ball(self.first + k * self.spacing)).exp() for k, m in enumerate(self.masses())]
        pairs = sum((p * q for p, q in pairwise(tilted)), ball(0))
        bound = (whole * whole - 4 * pairs * (omega * g / 2).sin() ** 2).max(ball(0)).sqrt()
        return bound.min(_geometric(tilted, whole, g, omega)) if self.geometric else bound


def _geometric(tilted: list[Ball], whole: Ball, g: Ball, omega: Ball) -> Ball:
    """Two end atoms and a series between, at most its largest term times (1 + ρ^{−n})/|1 − ρ^{−1}e^{−ivg}|."""
    ratio, apart = tilted[-3] / tilted[-2], g * (len(tilted) - 1)
    from_turn = omega.max(pi() / apart)
    series = (tilted[-2] + tilted[1] * ratio) / ((1 - ratio) ** 2 + 4 * ratio * (g * from_turn / 2).sin() ** 2).sqrt()
    return _two_atoms(whole, tilted[-1], tilted[0], apart, 2 * from_turn * series, omega)


def response_balls(epsilon: Fraction, categories: int) -> AtomBalls:
    """k-ary randomized response."""

    def masses() -> list[Ball]:
        small = (-ball(epsilon)).exp()
        truth = 1 / (1 + (categories - 1) * small)
        between = [] if categories == 2 else [(categories - 2) * small * truth]
        return [truth * small, *between, truth]

    return AtomBalls(masses, -epsilon, 2 * epsilon if categories == 2 else epsilon)


def discrete_laplace_balls(scale: Fraction, shift: int) -> AtomBalls:
    """Discrete Laplace noise against itself moved by `shift`."""

    def masses() -> list[Ball]:
        x = (-1 / ball(scale)).exp()
        end = 1 / (1 + x)
        return [end * x**shift, *((1 - x) * end * x**k for k in range(shift - 1, 0, -1)), end]

    return AtomBalls(masses, -shift / scale, 2 / scale, geometric=shift >= 4)


@dataclass(frozen=True)
class DiscreteGaussianBall:
    """e^{−x²/2σ²} on the whole numbers against itself moved by `shift`: two sums, both cut with a bound."""

    scale: Fraction
    shift: int

    def _sum(self, z: Disc) -> Disc:
        """Σ_x exp((−x² + z(Δ² − 2Δx))/(2σ²)) by Poisson's formula, which converges fast for every scale of interest.

        = σ√(2π) e^{μ² z(z+1)/2} Σ_k e^{−2π²σ²k² − 2πikΔz}; the terms |k| > n are below a geometric series of ratio
        e^{−2π²σ²} as long as |Im z|Δ ≤ nπσ²; common factors cancel in M.
        """
        square = ball(self.scale) ** 2
        turn = 2 * pi() * ball(self.shift) * z.imag.abs_upper()
        fall = 2 * pi() * pi() * square
        many = 4 + math.ceil(60 / float(fall.mid())) + math.ceil(float((turn / fall).mid()))
        total = disc(ball(1), ball(0))
        for k in range(1, many + 1):
            total += 2 * (-fall * k * k).exp() * (2 * pi() * k * ball(self.shift) * z).cos()
        # the ratio of the bounds of terms k + 1 and k is e^{−fall(2k+1) + turn} ≤ e^{−fall}
        rest = 2 * (-fall * (many + 1) ** 2 + turn * (many + 1)).exp() / (1 - (-fall).exp())
        return total + disc(around(rest), around(rest))

    def value(self, z: Disc) -> Disc:
        """The quotient of the two sums."""
        square = ball(Fraction(self.shift**2) / self.scale**2)
        return (square / 2 * z * (z + 1)).exp() * self._sum(z) / self._sum(disc(ball(0), ball(0)))

    def decay(self, tilt: Ball, omega: Ball, last: Ball | None) -> Ball:
        """The better of two bounds up to half a period: the normal factor, and neighbouring atoms."""
        whole = self.value(disc(tilt, ball(0))).real
        g = ball(Fraction(self.shift) / self.scale**2)
        if last is None or not last * g <= pi() * (1 + ball(Fraction(1, 10**9))):
            return whole
        return self._normal_decay(tilt, omega, pi() / g).min(self._atom_decay(tilt, omega, g, whole))

    def _normal_decay(self, tilt: Ball, omega: Ball, half: Ball) -> Ball:
        """|M| ≤ e^{μ²(λ(λ+1) − v²)/2} (1 + 2 Σ_k e^{−2π²σ²k² + 2πkvΔ})/Θ(0), the sum tiny up to half/2."""
        square = ball(Fraction(self.shift**2) / self.scale**2)
        least_sum = self._sum(disc(ball(0), ball(0))).real

        def normal(v: Ball) -> Ball:
            return (square / 2 * (tilt * (tilt + 1) - v * v)).exp() / least_sum

        if self.scale < 1:
            return normal(ball(0)) * 1000  # of no use; the atoms are few
        late = normal(omega.max(half / 2)) * ball(Fraction(31, 10))
        if omega >= half / 2:
            return late
        early = normal(omega) * (1 + ball(Fraction(22, 10)) * (-pi() * pi() * ball(self.scale) ** 2).exp())
        return early.max(late)

    def _atom_decay(self, tilt: Ball, omega: Ball, g: Ball, whole: Ball) -> Ball:
        """√(M(λ)² − 2 Σ p_j p_{j+1} (1 − cos vg)) over the atoms where the tilted law is largest."""
        square = 2 * ball(self.scale) ** 2
        norm = self._sum(disc(ball(0), ball(0))).real * (pi() * square).sqrt()
        centre, reach = -round(float(tilt.mid()) * self.shift), math.ceil(6 * min(float(self.scale), 20.0)) + 2

        def mass(x: int) -> Ball:
            return ((ball(-x * x) + tilt * (self.shift**2 - 2 * self.shift * x)) / square).exp() / norm

        masses = [mass(x) for x in range(centre - reach, centre + reach + 1)]
        pairs = sum((p * q for p, q in pairwise(masses)), ball(0))
        return (whole * whole - 4 * pairs * (omega * g / 2).sin() ** 2).max(ball(0)).sqrt()


@dataclass(frozen=True)
class SampledLaplaceBall:
    """Two atoms and ∫ e^{−(v+ε)/2}/4 · (1 − q + q e^v)^κ dv, κ = 1 + z when P holds the unit and −z when Q does."""

    epsilon: Fraction
    rate: Fraction
    forward: bool
    goal_bits: int = 100

    def value(self, z: Disc) -> Disc:
        """Rigorous integration between the atoms."""
        e, q = ball(self.epsilon), ball(self.rate)
        power = z + 1 if self.forward else -z

        def density(v: Disc, analytic: bool) -> Disc:
            return (power * (1 - q + q * v.exp()).log(analytic=analytic) - (v + e) / 2).exp() / 4

        smooth = integral(density, -e, e, goal=ball(Fraction(1, 2**self.goal_bits)))
        low, high = ((1 - q + q * v.exp()).log() for v in (-e, e))
        return smooth + (power * low).exp() / 2 + (power * high - e).exp() / 2

    def decay(self, tilt: Ball, omega: Ball, last: Ball | None) -> Ball:
        """As in `contour/laplace.py`: atoms up to their turn, integration by parts beyond."""
        e, q = ball(self.epsilon), ball(self.rate)
        power = tilt + 1 if self.forward else -tilt
        low, high = ((1 - q + q * v.exp()).log() for v in (-e, e))
        first, second = (power * low).exp() / 2, (power * high - e).exp() / 2
        ends = self._size(power, -e) + self._size(power, e) - self._smallest(power)
        whole = self.value(disc(tilt, ball(0))).real
        return _two_atoms(whole, second, first, high - low, 4 * ends, omega)

    def _size(self, power: Ball, v: Ball) -> Ball:
        """G(v), the density of the loss in v, tilted."""
        e, q = ball(self.epsilon), ball(self.rate)
        return ((power + 1) * (1 - q + q * v.exp()).log() - 3 * v / 2 - e / 2).exp() / (4 * q)

    def _smallest(self, power: Ball) -> Ball:
        """A lower bound on G: log G lies above its tangent at any point when κ + 1 ≥ 0, and falls when κ + 1 ≤ 0."""
        e, q = ball(self.epsilon), ball(self.rate)
        if not power + 1 > 0:
            return self._size(power, e) if power + 1 <= 0 else ball(0)
        share = 1.5 / max(float((power + 1).mid()), 1.6)
        place = math.log(share / (1 - share) * float(1 - self.rate) / float(self.rate))
        v = ball(min(max(place, -float(self.epsilon)), float(self.epsilon)))
        slope = (power + 1) * q * v.exp() / (1 - q + q * v.exp()) - ball(Fraction(3, 2))
        least_growth = (slope * (-e - v)).min(slope * (e - v)).min(ball(0))
        return self._size(power, v) * least_growth.exp()


@dataclass(frozen=True)
class MixtureBall:
    """P = (1 − p)N(0) + p N(a), Q = (1 − q)N(0) + q N(−b), with a², b² rational: see `contour/mixture.py`."""

    above_rate: Fraction
    above_square: Fraction
    below_rate: Fraction
    below_square: Fraction
    goal_bits: int = 100

    def _logs(self, y: Disc, analytic: bool) -> tuple[Disc, Disc]:
        """ℓ₊ and ℓ₋."""
        found = []
        for rate, square, sign in ((self.above_rate, self.above_square, 1), (self.below_rate, self.below_square, -1)):
            if rate == 0:
                found.append(disc(ball(0), ball(0)))
                continue
            shift, q = sign * ball(square).sqrt(), ball(rate)
            found.append((1 - q + q * (shift * y - ball(square) / 2).exp()).log(analytic=analytic))
        return found[0], found[1]

    def _ends(self, tilt: Ball) -> tuple[Ball, Ball, Ball]:
        """A range, and a bound on the integral of φ e^{(1+λ)ℓ₊ − λℓ₋} outside it; λ > −1."""
        digits = self.goal_bits * math.log(2) + 3
        low = ball(-math.ceil(math.sqrt(2 * digits)) - math.ceil(math.sqrt(self.below_square)))
        a, b = ball(self.above_square).sqrt(), ball(self.below_square).sqrt()
        high = ball(math.ceil(math.sqrt(2 * digits)) + math.ceil(float(((1 + tilt) * a).mid())))
        for _ in range(10_000):
            upper, lower = self._logs(disc(high, ball(0)), False)
            share = 1 - (1 - ball(self.below_rate)) * (-lower.real).exp()
            slope = (1 + tilt) * a + tilt.max(ball(0)) * b * share
            end = ((1 + tilt) * upper.real - tilt * lower.real - high * high / 2).exp()
            if high > slope + 1 and end < ball(Fraction(1, 2**self.goal_bits)):
                break
            high += 1
        else:
            raise NotCertified("the range of integration is too wide")
        upper, lower = self._logs(disc(low, ball(0)), False)
        start = ((1 + tilt) * upper.real - tilt * lower.real - low * low / 2).exp()
        fall = -low - (-tilt).max(ball(0)) * b
        return low, high, (end / (high - slope) + start / fall) / (2 * pi()).sqrt()

    def value(self, z: Disc) -> Disc:
        """Rigorous integration on a range, plus a ball for the rest."""
        low, high, rest = self._ends(z.real)

        def integrand(y: Disc, analytic: bool) -> Disc:
            upper, lower = self._logs(y, analytic)
            return ((z + 1) * upper - z * lower - y * y / 2).exp()

        goal = ball(Fraction(1, 2**self.goal_bits))
        return integral(integrand, low, high, goal=goal) / (2 * pi()).sqrt() + disc(around(rest), around(rest))

    def decay(self, tilt: Ball, omega: Ball, last: Ball | None) -> Ball:
        """B_c(ω) at the best of a few shifts c, found with few bits."""
        speeds = [math.sqrt(s) for r, s in self._sides() if r]
        pull = sum(float(r) * math.sqrt(s) for r, s in self._sides())
        limit = 0.9 * math.pi / max(speeds)
        first = max(min(0.5 * float(omega.mid()) * pull, 0.3 * limit), 1e-6)
        shifts = [min(first * 1.6**k, limit) for k in range(12)]
        with precision(72):
            rough = replace(self, goal_bits=44)
            sizes = [(float(rough._shifted(tilt, omega, ball(c)).mid()), c) for c in sorted(set(shifts))]
        return self._shifted(tilt, omega, ball(min(sizes)[1]))

    def _sides(self) -> tuple[tuple[Fraction, Fraction], ...]:
        return (self.above_rate, self.above_square), (self.below_rate, self.below_square)

    def _shifted(self, tilt: Ball, omega: Ball, c: Ball) -> Ball:
        """B_c(ω) = ∫ |integrand(y + ic)| dy, an analytic function of y in the guise of a modulus."""
        low, high, rest = self._ends(tilt)
        up, side = disc(ball(0), c), disc(ball(0), omega)

        def integrand(y: Disc, analytic: bool) -> Disc:
            above, below = self._logs(y + up, analytic), self._logs(y - up, analytic)
            modulus = (1 + tilt) * (above[0] + below[0]) - tilt * (above[1] + below[1])
            phase = side * (above[0] - below[0] - above[1] + below[1])
            return ((modulus + phase) / 2 + (c * c - y * y) / 2).exp()

        inside = integral(integrand, low, high, goal=ball(Fraction(1, 2**self.goal_bits))).real / (2 * pi()).sqrt()
        # outside the range |1 − q + q e^{u + iθ}| is at least cos(θ/2) of its value at θ = 0
        turned = (ball(self.below_square).sqrt() * c / 2).cos() if self.below_rate else ball(1)
        return inside + rest * (c * c / 2 - tilt * turned.log()).exp()


try:
    import flint
except ImportError:
    raise MissingExtra("python-flint", "proof") from None

Ball = Any
"""A real ball (`flint.arb`)."""

Disc = Any
"""A complex ball (`flint.acb`)."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with this many bits."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def ball(value: Fraction | float | int) -> Ball:
    """The ball of an exact number."""
    exact = Fraction(value)
    return flint.arb(flint.fmpq(exact.numerator, exact.denominator))


def disc(real: Ball, imaginary: Ball) -> Disc:
    """A complex ball."""
    return flint.acb(real, imaginary)


def around(radius: Ball) -> Ball:
    """All reals of modulus at most `radius`."""
    return flint.arb(0, radius.upper())


def pi() -> Ball:
    """π."""
    return flint.arb.pi()


def integral(integrand: Any, low: Ball, high: Ball, *, goal: Ball) -> Disc:
    """∫ of an analytic integrand (x, analytic) → value, enclosed."""
    return flint.acb.integral(integrand, flint.acb(low), flint.acb(high), rel_tol=goal, abs_tol=goal)


def _exact(value: Ball) -> Fraction:
    """The exact dyadic value of a ball of radius 0."""
    mantissa, exponent = value.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def down(value: Ball) -> float:
    """A double that is at most every number in the ball."""
    if not value.is_finite():
        return -math.inf
    return float_below(_exact(value.lower()))


def up(value: Ball) -> float:
    """A double that is at least every number in the ball."""
    if not value.is_finite():
        return math.inf
    return float_above(_exact(value.upper()))
