"""The curve in balls: the contour engine chooses where to integrate, ball arithmetic integrates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from deniable.accounting.certificate import NotCertified, proven
from deniable.accounting.contour.curve import ContourCurve, contour_curve
from deniable.accounting.contour.integral import Contour
from deniable.accounting.contour.search import contour, saddle_at_delta, saddle_at_epsilon
from deniable.accounting.contour.transform import Direction, LossLattice
from deniable.accounting.fold import Folded
from deniable.accounting.proof.transforms import (
    Ball,
    BallTransform,
    Disc,
    NormalBall,
    around,
    ball,
    disc,
    down,
    pi,
    precision,
    up,
)
from deniable.accounting.rules import rule_of
from deniable.numerics.roots import walk
from deniable.numerics.rounding import Bracket

_SPARE = 38.0
"""Aliasing and truncation below e^{−38} of δ: less than a rounding of a double."""

Parts = tuple[tuple[BallTransform, int], ...]


def proof_curve(folded: Folded) -> ProofCurve | None:
    """The curve in ball arithmetic, or None where the contour engine has no transform for some step."""
    fast = contour_curve(folded)
    if fast is None:
        return None
    both = [(rule_of(step).balls(step), count) for step, count in folded.steps]
    if folded.mu_squared:
        normal = NormalBall(folded.mu_squared)
        both.append(((normal, normal), 1))
    directions = tuple(
        (direction, tuple((pair[index], count) for pair, count in both))
        for index, direction in enumerate(fast.directions)
    )
    return ProofCurve(fast, directions)


@dataclass(frozen=True)
class ProofCurve:
    """Both directions, each known twice: as floating-point transforms that guide, and as balls that prove."""

    fast: ContourCurve
    directions: tuple[tuple[Direction, Parts], ...]

    @property
    def method(self) -> str:
        """The engine."""
        return "contour integral in ball arithmetic"

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        return proven(lambda: self._both(epsilon))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around the smallest ε ≥ 0 with δ(ε) ≤ delta: two doubles, each tried until it is proven."""
        if not 0.0 < delta < 1.0:
            return self.fast.epsilon_bracket(delta)
        return proven(lambda: self._epsilon(delta))

    def _both(self, epsilon: float) -> Bracket:
        found = [self._delta(direction, parts, epsilon) for direction, parts in self.directions]
        return Bracket(max(b.lower for b in found), max(b.upper for b in found))

    def _epsilon(self, delta: float) -> Bracket:
        guess = self.fast.epsilon_bracket(delta)
        middle = 0.5 * (guess.lower + guess.upper)
        sums = [self._sum(direction, parts, middle, delta) for direction, parts in self.directions]
        if guess.upper == 0.0:
            if all(s.bracket(0.0).upper <= delta for s in sums):
                return guess
            raise NotCertified("δ(0) could not be proven to be at most delta")
        step = 2.0**-50 * max(middle, 1e-3)
        upper = walk(lambda e: all(s.bracket(e).upper <= delta for s in sums), middle, step)
        lower = walk(lambda e: any(s.bracket(e).lower >= delta for s in sums), middle, -step)
        if upper is None or lower is None:
            raise NotCertified("no proof was found on this line")
        return Bracket(lower, upper)

    def _delta(self, direction: Direction, parts: Parts, epsilon: float) -> Bracket:
        if epsilon >= direction.largest:
            return Bracket(0.0, 0.0)
        close = _nearly_one(parts, epsilon) if self.fast.delta_bracket(epsilon).lower > 1 - 1e-10 else None
        return close or self._sum(direction, parts, epsilon, None).bracket(epsilon)

    def _sum(self, direction: Direction, parts: Parts, epsilon: float, delta: float | None) -> BallSum | BallBound:
        goal = self.fast.delta_bracket(epsilon).upper if delta is None else delta
        own = saddle_at_delta(direction, math.log(goal)) if goal < 1 else None
        if own is not None and own.epsilon < epsilon:
            bound = BallBound(own.tilt, parts)
            if bound.bracket(epsilon).upper < 0.5 * goal:
                return bound
        saddle = saddle_at_epsilon(direction, epsilon)
        # the smaller direction need not be known to more digits than the larger
        rule = contour(direction, saddle._replace(log_delta=min(0.0, math.log(goal))), spare=_SPARE)
        bits = 128 + 2 * max(count for _, count in parts).bit_length() + math.ceil(1.5 * abs(rule.line.logarithm))
        return BallSum(rule, parts, min(bits, 1024))


def _nearly_one(parts: Parts, epsilon: float) -> Bracket | None:
    """1 − δ ≤ e^{K(−s) + sε} for 0 ≤ s ≤ 1 (Markov), when that is tiny."""
    with precision(128):
        for s in (Fraction(9, 20), Fraction(1, 5), Fraction(2, 25), Fraction(3, 100)):
            total = ball(s * Fraction(epsilon))
            for part, count in parts:
                total += part.value(disc(ball(-s), ball(0))).real.log() * count
            if total < -27:
                return Bracket(down(1 - total.exp()), 1.0)
    return None


def _power(parts: Parts, z: Disc) -> Disc:
    """K(z) up to a multiple of 2πi."""
    total = disc(ball(0), ball(0))
    for part, count in parts:
        total += part.value(z).log() * count
    return total


@dataclass(frozen=True)
class BallBound:
    """δ(ε) ≤ e^{K(λ) − λε}: enough for a direction that is far below the other."""

    tilt: float
    parts: Parts

    def bracket(self, epsilon: float) -> Bracket:
        """0, and the bound."""
        with precision(128):
            tilt = ball(self.tilt)
            return Bracket(
                0.0, min(1.0, up((_power(self.parts, disc(tilt, ball(0))).real - tilt * ball(epsilon)).exp()))
            )


@dataclass(frozen=True)
class BallSum:
    """The trapezoid sum of a rule in balls of `bits` bits; its nodes do not depend on ε."""

    rule: Contour
    parts: Parts
    bits: int

    @cached_property
    def _tilt(self) -> Ball:
        return ball(self.rule.line.tilt)

    def _omega(self, n: int) -> Ball:
        """The n-th node: an exact multiple of the spacing, or of a period's exact fraction."""
        lattice = self.rule.lattice
        if lattice is None:
            return ball(Fraction(self.rule.spacing) * n)
        return 2 * pi() * n / ball(lattice.spacing * self.rule.many)

    @property
    def _last(self) -> int:
        return len(self.rule.omegas) - 1

    @cached_property
    def _nodes(self) -> list[tuple[Disc, Disc]]:
        """z and K(z) at the nodes 0 … N."""
        points = [disc(self._tilt, self._omega(n)) for n in range(self._last + 1)]
        return [(z, _power(self.parts, z)) for z in points]

    @cached_property
    def _left_out(self) -> Ball:
        """An upper bound on |e^{K}| at every node beyond the last, times the sum of the kernel's moduli there."""
        lattice, omega = self.rule.lattice, self._omega(self._last)
        last = None
        if lattice is not None:
            if 2 * self._last + 1 == self.rule.many:
                return ball(0)
            last = pi() / ball(lattice.spacing)
        total = ball(0)
        for part, count in self.parts:
            # no bound on the line needs to exceed M(λ)
            whole = part.value(disc(self._tilt, ball(0))).real
            total += part.decay(self._tilt, omega, last).min(whole).log() * count
        size = total.exp()
        if lattice is None:
            return size / (pi() * omega)
        g = ball(lattice.spacing)
        plain = 2 / (1 - (-self._tilt * g).exp())
        far = ((self._tilt + 1) * g / 2).exp() * (pi() / (g * omega)).log()
        return size * plain.min(far)

    @cached_property
    def _further(self) -> tuple[Ball, Ball]:
        """λ′ and K(λ′)."""
        further = ball(self.rule.beyond[0])
        return further, _power(self.parts, disc(further, ball(0))).real

    def bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        with precision(self.bits):
            e = ball(epsilon)
            total = ball(0)
            for n, (z, power) in enumerate(self._nodes):
                term = ((power - z * e).exp() * self._kernel(z, epsilon)).real
                total += term if n == 0 else 2 * term
            if self.rule.lattice is None:
                total *= ball(self.rule.spacing) / (2 * pi())
            else:
                total /= self.rule.many
            total += around(self._left_out * (-self._tilt * e).exp())
            return Bracket(max(0.0, down(total - self._alias(e))), min(1.0, up(total)))

    def _kernel(self, z: Disc, epsilon: float) -> Disc:
        """1/(z(z+1)), or its sum over the periods of a lattice divided by the spacing."""
        lattice: LossLattice | None = self.rule.lattice
        if lattice is None:
            return 1 / (z * (z + 1))
        steps = (Fraction(epsilon) - lattice.offset) / lattice.spacing
        gap, g = ball(lattice.spacing * (math.floor(steps) + 1 - steps)), ball(lattice.spacing)
        first, second = ((-w * gap).exp() / (1 - (-w * g).exp()) for w in (z, z + 1))
        return first - second

    def _alias(self, e: Ball) -> Ball:
        """The terms k ≠ 0 of Σ e^{λkΠ} δ(ε + kΠ): at most 1/(e^{λΠ} − 1), and a Chernoff series."""
        lattice = self.rule.lattice
        period = 2 * pi() / ball(self.rule.spacing) if lattice is None else ball(lattice.spacing * self.rule.many)
        further, power = self._further
        constant = further * further.log() - (1 + further) * (1 + further).log()
        step = (-(further - self._tilt) * period).exp()
        above = (power + constant - further * e).exp() * step / (1 - step)
        return (1 / ((self._tilt * period).exp() - 1) + above).upper().max(ball(0))
