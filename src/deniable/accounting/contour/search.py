"""Where to integrate: the line, the spacing and the last node. Nothing here needs to be right; it needs to be good.

The integrand e^{K(z) − zε}/(z(z+1)) on the positive axis is smallest where K′(λ) − ε − 1/λ − 1/(λ+1) = 0; there its
modulus is about δ, nothing cancels, and rounding is relative to δ even at δ = 10^{−100}. What follows from a bad
choice is a wide bracket, never a wrong one: `integral.py` bounds every error for whatever was chosen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.gaussian import TiltedNormal
from deniable.accounting.contour.integral import WIDTH, Contour, SmoothedIntegral, lattice_rest, smoothing_squares
from deniable.accounting.contour.transform import SPARE, ContourLine, Direction
from deniable.numerics.arrays import Reals

_MOST_NODES = 1 << 17
_MOST_WORK = 1 << 25
"""Nodes times terms per node: about a second."""

_LOST = -14.0
"""A line may be left of the saddle point by e^{−9} or so (`_line`); frequencies far below that are not followed."""

_WIDE, _FINE = np.geomspace(1e-6, 1.0, 24), np.linspace(0.0, 1.0, 9)
# dense around the saddle point, where K may explode within a few per cent
_NEAR = np.concatenate([np.geomspace(0.15, 0.9, 10), np.linspace(0.915, 1.12, 26), np.geomspace(1.2, 12.0, 12)])
_SPAN = np.geomspace(0.25, 1.0, 7)


class NoDecay(NotCertified):
    """No line of this tilt is long enough, whatever the ε."""


class Saddle(NamedTuple):
    """A line and the saddle-point estimates that belong to it."""

    tilt: float
    epsilon: float
    log_delta: float


def _saddles(direction: Direction, lambdas: Reals) -> tuple[Reals, Reals]:
    """For each λ: the ε for which it is the saddle point, and the estimate of log δ there."""
    with np.errstate(all="ignore"):
        value, slope, curvature = direction.moments(lambdas)
        epsilon = slope - 1 / lambdas - 1 / (1 + lambdas)
        spread = curvature + 1 / lambdas**2 + 1 / (1 + lambdas) ** 2
        log_delta = value - lambdas * epsilon - np.log(lambdas * (1 + lambdas)) - 0.5 * np.log(2 * math.pi * spread)
    return epsilon, log_delta


def _crossing(direction: Direction, *, epsilon: float | None, log_delta: float | None) -> Saddle:
    """The λ at which the estimate of ε, or of log δ, takes a value. Both are monotone in λ."""
    at_zero = direction.moments(np.array([1e-12]))
    spread = float(at_zero.curvature[0])
    if not math.isfinite(spread) or spread <= 0:
        raise NotCertified("the loss has no spread")
    if log_delta is not None:
        high = math.sqrt(2 * (50.0 - log_delta) / spread)
    else:
        high = 4 * (max(float(epsilon or 0.0) - float(at_zero.slope[0]), 0.0) / spread + 10 / math.sqrt(spread))
    for _ in range(40):
        grid = high * _WIDE
        place, goal = _measure(direction, grid, epsilon, log_delta)
        if place[-1] >= goal or high > 1e9:
            break
        high *= 6.0
    # K′ can jump within a part in a thousand of λ: refine until the goal is met, or λ is known to ten digits
    near = 0.3 if log_delta is not None else 0.02 * max(abs(goal), 1e-3)
    for _ in range(10):
        index = min(max(int(np.searchsorted(place, goal)), 1), len(grid) - 1)
        grid = grid[index - 1] * (grid[index] / grid[index - 1]) ** _FINE
        place, goal = _measure(direction, grid, epsilon, log_delta)
        index = min(max(int(np.searchsorted(place, goal)), 1), len(grid) - 1)
        below, above = float(place[index - 1]), float(place[index])
        if above - below <= 10 * near:
            break
    if not math.isfinite(below):
        raise NotCertified("no saddle point was found")
    share = min(max((goal - below) / (above - below), 0.0), 1.0) if math.isfinite(above) and above > below else 0.0
    tilt = float(grid[index - 1] * (grid[index] / grid[index - 1]) ** share)
    at_epsilon, at_delta = _saddles(direction, np.array([tilt]))
    return Saddle(tilt, float(at_epsilon[0]), float(at_delta[0]))


def _measure(direction: Direction, grid: Reals, epsilon: float | None, log_delta: float | None) -> tuple[Reals, float]:
    """A rising function of λ and the value to look for; what overflowed counts as beyond."""
    at_epsilon, at_delta = _saddles(direction, grid)
    place = -at_delta if log_delta is not None else at_epsilon
    place = np.where(np.isfinite(place), place, np.inf)
    return np.maximum.accumulate(place), (-log_delta if log_delta is not None else float(epsilon or 0.0))


def saddle_at_delta(direction: Direction, log_delta: float) -> Saddle:
    """The saddle point of the ε at which log δ is about this."""
    return _crossing(direction, epsilon=None, log_delta=log_delta)


def saddle_at_epsilon(direction: Direction, epsilon: float) -> Saddle:
    """The saddle point of this ε."""
    found = _crossing(direction, epsilon=epsilon, log_delta=None)
    # the estimate of log δ at this ε, not at the grid's
    return Saddle(found.tilt, epsilon, found.log_delta - found.tilt * (epsilon - found.epsilon))


def quadrature(direction: Direction, saddle: Saddle) -> Contour | SmoothedIntegral:
    """The rule that a direction asks for."""
    return smoothed(direction, saddle) if direction.smooth else contour(direction, saddle, spare=direction.spare)


def smoothed(direction: Direction, saddle: Saddle, *, spare: float = SPARE) -> SmoothedIntegral:
    """Two trapezoid rules on one line, for δ with two sizes of Gaussian noise (`smoothing`)."""
    log_delta = min(saddle.log_delta, 0.0)
    tilt, period, further = _line(direction, saddle, log_delta, spare)
    spacing = _few_bits(2 * math.pi / period)
    # rare samples are smoothed more than others, until the line is short enough
    for width in [WIDTH * 3.0**k for k in range(6)] if direction.leak else [WIDTH]:
        sizes = smoothing_squares(saddle.tilt, width)
        # K(λ) − λε − log δ is a few units at most; what is missing costs width, not truth
        reach = math.sqrt(2 * (spare + 4.0) / sizes[0])
        nodes = math.ceil(reach / spacing)
        if nodes > _MOST_NODES:
            continue
        line = direction.tilted(tilt, reach=nodes * spacing, digits=spare)
        if nodes * line.first_size(spacing) <= _MOST_WORK:
            break
    else:
        raise NotCertified("the smoothed integral would take too long")
    omegas = np.arange(nodes + 1, dtype=np.float64) * spacing
    logarithms, slips = line.ratios(omegas, least=_LOST - spare - math.log(nodes), most=8 * _MOST_WORK)
    falls = float(line.decay(omegas[-1:], math.inf)[0])
    bound = direction.tilted(further, reach=0.0, digits=spare)
    rules = []
    for square in sizes:
        noise, above = TiltedNormal(square, tilt), TiltedNormal(square, further)
        alone = ContourLine(tilt, [(noise, 1.0)])
        turned, off = alone.ratios(omegas)
        tail = falls + float(alone.decay(omegas[-1:], math.inf)[0])
        beyond = (further, math.fsum([bound.logarithm, bound.error, above.logarithm, above.error]))
        both = ContourLine(tilt, [*line.parts, (noise, 1.0)])
        total, slip = logarithms + turned, slips + off
        rules.append(Contour(both, spacing, omegas, total, slip, tail, beyond, None, leak=direction.leak))
    return SmoothedIntegral(*rules)


def contour(direction: Direction, saddle: Saddle, *, spare: float = SPARE) -> Contour:
    """A trapezoid rule near the saddle's line whose aliasing and truncation are below e^{−spare} of δ at its ε."""
    log_delta = min(saddle.log_delta, 0.0)
    tilt, period, further = _line(direction, saddle, log_delta, spare)
    lattice = direction.lattice
    many, last = 0, math.inf
    if lattice is None:
        spacing = _few_bits(2 * math.pi / period)
    else:
        # an odd number of nodes per period, so that they come in pairs around 0
        many = 2 * (math.ceil(period / lattice.spacing) // 2) + 3
        spacing, last = 2 * math.pi / float(many * lattice.spacing), (many - 1) // 2
    digits = spare
    if direction.leak:
        # rare large losses decide: the integrand is larger than δ, and so are its errors
        height = float(direction.moments(np.array([tilt])).value[0]) - tilt * saddle.epsilon - log_delta
        digits += max(height - math.log(tilt * (1 + tilt)), 0.0)
    line, reach, tail = _reach(direction, tilt, saddle.epsilon, log_delta, spacing, last, spare, digits)
    nodes = int(min(math.ceil(reach / spacing), last))
    omegas = np.arange(nodes + 1, dtype=np.float64) * spacing
    if nodes * line.size > _MOST_WORK:
        raise NotCertified("the integral would take too long")
    logarithms, slips = line.ratios(omegas, least=_LOST - spare - math.log(nodes + 1))
    if nodes == last:
        tail = -math.inf
    bound = direction.tilted(further, reach=0.0, digits=spare)
    beyond = (further, bound.logarithm + bound.error)
    return Contour(line, spacing, omegas, logarithms, slips, tail, beyond, lattice, many, direction.leak)


def _few_bits(value: float) -> float:
    """A double just below a value whose multiples by whole numbers up to 2^22 are exact."""
    unit = 2.0 ** math.floor(math.log2(value) - 29)
    return math.floor(value / unit) * unit


def _line(direction: Direction, saddle: Saddle, log_delta: float, spare: float) -> tuple[float, float, float]:
    """λ, the period Π, and the λ′ that bounds the alias terms above.

    The saddle point is the line of least cancellation. Where rare large losses decide, K explodes just above it, and
    a line further left has a much shorter period for a few lost digits.
    """
    epsilon = saddle.epsilon
    lambdas = saddle.tilt * _NEAR
    with np.errstate(all="ignore"):
        value = direction.moments(lambdas).value
        height = value - lambdas * epsilon - log_delta
        height = np.where(np.isfinite(height) & (height < 1e5), height, np.inf)
        # Π(λ): the alias terms below ask for `below`, those above for the least over λ′ > λ
        apart = lambdas[None, :] - lambdas[:, None]
        above = np.where(apart > 0, (height[None, :] + spare) / apart, np.inf).min(axis=1)
        period = np.maximum((spare - log_delta) / lambdas, above) * 1.02
        lost = height - np.log1p(lambdas)
        # a digit costs as much as a quarter of the nodes; the ninth digit and all after it cost far more
        cost = np.log(period) + 0.1 * np.maximum(lost, 0.0) + np.maximum(lost - 9.0, 0.0)
    cost = np.where(np.isfinite(cost) & (lambdas <= 1.0001 * saddle.tilt), cost, np.inf)
    best = int(np.argmin(cost))
    if not math.isfinite(cost[best]):
        raise NotCertified("the loss has too heavy a tail for this line")
    further = np.where(lambdas > lambdas[best], height - (lambdas - lambdas[best]) * period[best], np.inf)
    return float(lambdas[best]), float(period[best]), float(lambdas[int(np.argmin(further))])


def _reach(
    direction: Direction,
    tilt: float,
    epsilon: float,
    log_delta: float,
    spacing: float,
    last: float,
    spare: float,
    digits: float,
) -> tuple[ContourLine, float, float]:
    """A line good up to the last node, that node, and the bound on what lies beyond."""
    curvature = float(direction.moments(np.array([tilt])).curvature[0])
    end = last * spacing
    reach = min(math.sqrt(2 * spare / curvature) * 2.0, end)
    g = float(direction.lattice.spacing) if direction.lattice is not None else 0.0

    def rest(omegas: Reals) -> Reals:
        """log of what multiplies e^decay in the bound on the nodes left out."""
        if not g:
            return -np.log(np.pi * omegas)
        return np.log([lattice_rest(tilt, float(omega), g) for omega in omegas])

    def followed(reach: float) -> tuple[ContourLine, float]:
        """The line, good up to there, and the log of the size that must fall below 1."""
        if reach / spacing > _MOST_NODES:
            raise NotCertified("the integrand does not decay: too many nodes")
        line = direction.tilted(tilt, reach=reach, digits=digits)
        return line, line.logarithm - tilt * epsilon - log_delta + spare

    line, need = followed(reach)
    far = np.array([min(_MOST_NODES, _MOST_WORK / line.size) * spacing])
    if line.atomic and far[0] < end and (need + line.decay(far, end) + rest(far))[0] > 0:
        raise NoDecay("atoms keep the integrand from decaying")
    while True:
        omegas = reach * _SPAN
        falls = line.decay(omegas, end)
        enough = np.flatnonzero(need + falls + rest(omegas) <= 0)
        if len(enough):
            index = int(enough[0])
            if omegas[index] < 0.6 * reach:
                line = direction.tilted(tilt, reach=float(omegas[index]) + spacing, digits=digits)
            return line, float(omegas[index]), float(falls[index])
        if reach >= end:
            return line, end, -math.inf
        reach = min(reach * 2.5, end)
        line, need = followed(reach)
