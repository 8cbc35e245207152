"""The privacy curve read off contour integrals: both directions, inverted, always a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from deniable.accounting.certificate import NotCertified, proven
from deniable.accounting.contour.gaussian import Normal
from deniable.accounting.contour.integral import Contour, DeltaValue, SmoothedIntegral
from deniable.accounting.contour.search import NoDecay, Saddle, quadrature, saddle_at_delta, saddle_at_epsilon
from deniable.accounting.contour.transform import Direction
from deniable.accounting.fold import Folded
from deniable.accounting.rules import rule_of
from deniable.guarantees.profile import LossOdds, odds_of_curve
from deniable.numerics.arrays import UNIT
from deniable.numerics.roots import crossing, enlarge, walk
from deniable.numerics.rounding import Bracket

Rule: TypeAlias = Contour | SmoothedIntegral

_TINY = -700.0
"""e^{−700} is 10^{−304}."""

_ENOUGH = 12.0
"""Aliasing and truncation below e^{−12} of δ tell which of two directions costs more, nearly always."""

_WIDEST = 1e-4
"""Relative to the answer: a wider bracket is left to another engine."""


def contour_curve(folded: Folded) -> ContourCurve | None:
    """The curve of a composition, or None where a part has no transform here (leaks and Rényi promises included)."""
    if folded.leaks or folded.renyi or not (folded.steps or folded.mu_squared):
        return None
    try:
        pairs = [(rule_of(step).transforms(step), count) for step, count in folded.steps]
    except NotCertified:
        return None
    if folded.mu_squared:
        normal = Normal(float(folded.mu_squared))
        pairs.append(((normal, normal), 1))
    known = [(pair, count) for pair, count in pairs if pair is not None]
    if len(known) < len(pairs):
        return None
    forward = Direction(tuple((pair[0], count) for pair, count in known))
    if all(pair[0] is pair[1] for pair, _ in known):
        return ContourCurve((forward,))
    return ContourCurve((forward, Direction(tuple((pair[1], count) for pair, count in known))))


@dataclass(frozen=True)
class ContourCurve:
    """The larger of the two directions; one is enough when they are alike."""

    directions: tuple[Direction, ...]

    @property
    def method(self) -> str:
        """The engine."""
        return "contour integral"

    @cached_property
    def smoothed(self) -> ContourCurve:
        """The same for losses with atoms, by a little Gaussian noise that is added and taken off again
        (`integral.SmoothedIntegral`).
        """
        return ContourCurve(tuple(replace(direction, smooth=True) for direction in self.directions))

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        return proven(lambda: self._delta(epsilon))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around the smallest ε ≥ 0 with δ(ε) ≤ delta."""
        if delta >= 1.0:
            return Bracket(0.0, 0.0)
        if delta <= 0.0:
            largest = max(direction.largest for direction in self.directions)
            return Bracket(largest * (1 - 1e-12) if math.isfinite(largest) else largest, largest)
        return proven(lambda: self._epsilon(delta))

    def odds(self) -> tuple[LossOdds, ...]:
        """P[L > 0] and Q[L > 0], from the slopes of the curves of both directions at ε = 0."""
        sides = [_side(direction) for direction in self.directions]
        return tuple(odds_of_curve(own, other) for own, other in zip(sides, sides[::-1], strict=True))

    def _delta(self, epsilon: float) -> Bracket:
        found = Bracket(0.0, 0.0)
        for direction in self.directions:
            if found.lower > 0.0 and stays_below(direction, epsilon, found.lower):
                continue
            other = _delta(direction, epsilon)
            found = Bracket(max(found.lower, other.lower), max(found.upper, other.upper))
        return found

    def _epsilon(self, delta: float) -> Bracket:
        lower, upper, tilt = 0.0, 0.0, 0.0
        for direction in self.directions:
            if lower > 0.0 and stays_below(direction, lower, delta, tilt):
                continue
            found, tilt = _epsilon(direction, delta)
            lower, upper = max(lower, found.lower), max(upper, found.upper)
        return Bracket(lower, upper)


def _side(direction: Direction) -> Callable[[float], Bracket]:
    """δ(ε) in one direction, or `NotCertified`."""
    return lambda epsilon: proven(lambda: _delta(direction, epsilon))


def _delta(direction: Direction, epsilon: float) -> Bracket:
    """δ(ε) in one direction."""
    if epsilon >= direction.largest:
        return Bracket(0.0, 0.0)
    close = _nearly_one(direction, epsilon)
    if close is not None:
        return close
    saddle = saddle_at_epsilon(direction, epsilon)
    if saddle.log_delta < _TINY:
        nothing = _nearly_zero(direction, saddle)
        if nothing is not None:
            return nothing
    try:
        return delta_on(direction, saddle)
    except NoDecay:
        raise
    except NotCertified:
        pass
    rough = saddle_at_epsilon(direction.cut(min(saddle.log_delta, -30.0)), epsilon)
    cut = direction.cut(min(rough.log_delta - 2.0, 0.0))
    return delta_on(cut, saddle_at_epsilon(cut, epsilon))


def delta_on(direction: Direction, saddle: Saddle) -> Bracket:
    """δ(ε) on the line of a saddle point."""
    epsilon = saddle.epsilon
    value = quadrature(direction, saddle).delta(epsilon)
    if value.scale + math.log(max(value.estimate, 1e-300)) < saddle.log_delta - 4.0:
        # the estimate was too high to make aliasing and truncation negligible
        found = value.scale + math.log(max(value.estimate, 1e-12 * value.upper))
        value = quadrature(direction, saddle._replace(log_delta=found)).delta(epsilon)
    lower, upper = _down(value), _up(value)
    widest = 100 * _WIDEST if direction.smooth and direction.leak else _WIDEST
    if not (upper - lower <= widest * upper or upper <= 1e-300):
        raise NotCertified(f"the bracket [{lower}, {upper}] around δ is too wide")
    return Bracket(lower, min(upper, 1.0))


def _nearly_one(direction: Direction, epsilon: float) -> Bracket | None:
    """When ε is far below the mean: 1 − δ = E_P[min(1, e^{ε−L})] ≤ e^{K(−s) + sε} for 0 ≤ s ≤ 1 (Markov)."""
    mean, variance = (float(m[0]) for m in direction.moments(np.array([1e-9]))[1:])
    if not mean - epsilon > 7.5 * math.sqrt(variance):
        return None
    best = 0.0
    for s in (0.45, 0.2, 0.08, 0.03):
        line = direction.tilted(-s, reach=0.0, digits=20.0)
        exponent = line.logarithm + s * epsilon
        best = min(best, exponent + line.error + 4 * UNIT * (abs(line.logarithm) + s * epsilon))
    return Bracket(math.nextafter(-math.expm1(best), 0.0), 1.0) if best < -27.0 else None


def _nearly_zero(direction: Direction, saddle: Saddle) -> Bracket | None:
    """When δ is below every normal double: δ ≤ e^{K(λ) − λε} for any λ > 0."""
    for tilt in (saddle.tilt, 0.25 * saddle.tilt, 20.0, 5.0, 1.0):
        try:
            line = direction.tilted(tilt, reach=0.0, digits=20.0)
        except NotCertified:
            continue
        exponent = line.logarithm + line.error - tilt * saddle.epsilon
        exponent += 8 * UNIT * (abs(line.logarithm) + tilt * saddle.epsilon)
        if exponent < _TINY:
            return Bracket(0.0, math.nextafter(math.exp(exponent), math.inf))
    return None


def stays_below(direction: Direction, epsilon: float, delta: float, tilt: float = 0.0) -> bool:
    """Whether δ(ε) in this direction is provably at most delta: then it, and its ε at that delta, need not be known.

    The line that suited the other direction, if it is given, suits this one too.
    """
    if epsilon >= direction.largest:
        return True
    goal = math.log(delta)
    try:
        if not tilt:
            saddle = saddle_at_delta(direction, goal)
            if saddle.epsilon > epsilon:
                return False
            tilt = saddle.tilt
        line = direction.tilted(tilt, reach=0.0, digits=20.0)
        # (1 − e^{−x})₊ ≤ c e^{λx}, as in `Contour._alias`
        exponent = line.logarithm + line.error - tilt * epsilon + tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)
        slip = 8 * UNIT * (abs(line.logarithm) + tilt * (epsilon + 1 + abs(math.log(tilt))))
        if exponent + slip < goal - 1e-9 and not direction.leak:
            return True
        rough = replace(direction, spare=min(direction.spare, _ENOUGH))
        return _up(quadrature(rough, Saddle(tilt, epsilon, goal)).delta(epsilon)) <= delta
    except NotCertified:
        return False


def epsilon_of(direction: Direction, delta: float) -> Bracket:
    """The smallest ε ≥ 0 with δ(ε) ≤ delta, in one direction."""
    return _epsilon(direction, delta)[0]


def _epsilon(direction: Direction, delta: float) -> tuple[Bracket, float]:
    """The smallest ε ≥ 0 with δ(ε) ≤ delta, in one direction, and the λ of the line that proved it; 0 without one."""
    if _costs_nothing(direction, delta):
        return Bracket(0.0, 0.0), 0.0
    try:
        return _epsilon_on(direction, delta)
    except NoDecay:
        raise
    except NotCertified:
        pass
    tilt = saddle_at_delta(direction, math.log(delta)).tilt if direction.smooth else 0.0
    return _epsilon_on(direction.cut(math.log(delta), tilt), delta)


def _epsilon_on(direction: Direction, delta: float) -> tuple[Bracket, float]:
    """The same where it is not plainly 0."""
    rule, centre = _start(direction, delta)
    if centre <= 0.0:
        rule = quadrature(direction, saddle_at_epsilon(direction, 0.0)._replace(log_delta=math.log(delta)))
        if _up(rule.delta(0.0)) <= delta:
            return Bracket(0.0, 0.0), rule.tilt
        centre = max(_newton(rule, delta, 0.0), 0.0)
    value = rule.delta(centre)
    if not value.slope > 0:
        raise NotCertified("the curve is flat here")
    least = max(8 * UNIT * centre, 1e-300)
    up, down = (1.25 * off / value.slope for off in (value.upper - value.estimate, value.estimate - value.lower))
    upper = walk(lambda e: _up(rule.delta(e)) <= delta, centre, max(up, least))
    lower = walk(lambda e: _down(rule.delta(e)) >= delta, centre, -max(down, least))
    if upper is None or lower is None:
        raise NotCertified("no proof was found on this line")
    widest = _WIDEST * (max(upper, 1e-3) if not direction.leak else 100 * upper if direction.smooth else upper)
    if not upper - lower <= widest:
        raise NotCertified(f"the bracket [{lower}, {upper}] around ε is too wide")
    return Bracket(lower, upper), rule.tilt


def _costs_nothing(direction: Direction, delta: float) -> bool:
    """Whether losses are so small that δ(0) ≤ √(D₂/2) ≤ delta: Pinsker's inequality, and D₁ ≤ D₂ = K(1)."""
    divergence = float(direction.moments(np.array([1e-9])).slope[0])
    if direction.leak or not divergence < delta * delta:
        return False
    line = direction.tilted(1.0, reach=0.0, digits=20.0)
    return math.sqrt(max(line.logarithm + line.error, 0.0) / 2) * (1 + 8 * UNIT) <= delta


def _start(direction: Direction, delta: float) -> tuple[Rule, float]:
    """A rule and the ε at which its estimate of δ is delta."""
    goal = math.log(delta)
    saddle = saddle_at_delta(direction, goal)
    if abs(saddle.log_delta - goal) < 1.0:
        try:
            rule = quadrature(direction, saddle._replace(log_delta=goal))
            centre = _newton(rule, delta, saddle.epsilon)
            if abs(centre - saddle.epsilon) * saddle.tilt < 1.0:
                return rule, centre
        except NoDecay:
            raise
        except NotCertified:
            centre = _bisection(direction, saddle, goal)
    else:
        centre = _bisection(direction, saddle, goal)
    # the first line was chosen for another ε; this one is chosen for the ε that it found
    rule = quadrature(direction, saddle_at_epsilon(direction, max(centre, 0.0))._replace(log_delta=goal))
    return rule, _newton(rule, delta, centre)


def _bisection(direction: Direction, saddle: Saddle, goal: float) -> float:
    """ε to four digits. Where rare large losses decide, K′ jumps, and the saddle point knows the line but not ε.

    A rule made for ε = 0 is good for every larger ε, only longer.
    """
    rule = quadrature(direction, saddle._replace(epsilon=0.0, log_delta=goal))

    def reached(epsilon: float) -> bool:
        value = rule.delta(epsilon)
        return value.estimate <= 0 or value.scale + math.log(value.estimate) <= goal

    start = max(saddle.epsilon, 1e-6)
    high = enlarge(reached, start, most=1e12)
    if high is None:
        raise NotCertified("rounding hides the curve on this line")
    return crossing(reached, high / 2 if high > start else 0.0, high, relative=1e-4)[1]


def _newton(rule: Rule, delta: float, start: float) -> float:
    """Where the estimate of log δ(ε) takes a value. An estimate itself: the caller checks."""
    epsilon, goal = start, math.log(delta)
    low, high, most = -math.inf, math.inf, 2.0 / rule.tilt
    for _ in range(200):
        log_delta, rate = rule.estimate(epsilon)
        gap = log_delta - goal
        low, high = (epsilon, high) if gap > 0 else (low, epsilon)
        # on a lattice the curve is a staircase and its slope a poor guide: steps are capped, or halve a bracket
        move = min(max(gap / rate, -most), most) if rate > 0 else math.copysign(most, gap)
        following = epsilon + move
        if not low < following < high and math.isfinite(low) and math.isfinite(high):
            following = 0.5 * (low + high)
        if abs(gap) <= 1e-14 or abs(following - epsilon) <= 2 * UNIT * abs(epsilon):
            break
        epsilon = following
    return epsilon


def _up(value: DeltaValue) -> float:
    """The upper end as a double, rounded up."""
    if value.upper <= 0.0:
        return math.ulp(0.0)
    exponent = value.scale + math.log(value.upper)
    if exponent > 1.0:
        return math.e
    return math.nextafter(math.exp(exponent) * (1 + (16 + 4 * abs(exponent)) * UNIT), math.inf)


def _down(value: DeltaValue) -> float:
    """The lower end as a double, rounded down."""
    if value.lower <= 0.0:
        return 0.0
    exponent = value.scale + math.log(value.lower)
    return max(0.0, math.nextafter(math.exp(exponent) * (1 - (16 + 4 * abs(exponent)) * UNIT), -math.inf))
