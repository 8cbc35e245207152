"""Mixtures with their ends cut off, for small rates: against quadrature in 30 digits."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from deniable.accounting import account
from deniable.accounting.components import Components
from deniable.accounting.contour.curve import _epsilon, contour_curve
from deniable.accounting.contour.cut import CutMixture
from deniable.accounting.contour.mixture import Density, Side
from deniable.accounting.contour.transform import Direction
from deniable.accounting.fold import fold
from deniable.events import Event, Gaussian, dpsgd
from deniable.units import Relation


def directions(event: Event) -> tuple[Direction, ...]:
    found = contour_curve(fold(event))
    assert found is not None
    return found.directions


def rare(rate: float, scale: float, members: int = 1) -> Event:
    step = Gaussian(scale).sampled(rate=rate)
    return step.for_group(members) if members > 1 else step


STEPS = [
    (rare(1e-6, 1.0), 0),
    (rare(1e-6, 1.0), 1),
    (rare(3e-8, 0.5), 0),
    (rare(1e-4, 1.3, members=3), 0),
    (rare(1e-4, 1.3, members=3), 1),
    (dpsgd(noise_multiplier=1.2, rate=1e-5, steps=1, relation=Relation.REPLACE), 0),
]


def cut_part(event: Event, side: int, log_delta: float = -14.0) -> CutMixture:
    ((part, _count),) = directions(event * 100)[side].cut(log_delta).parts
    assert isinstance(part, CutMixture)
    return part


def integrals(part: CutMixture, tilt: float, omega: float) -> tuple[complex, complex]:
    """log M′(λ), and M′(λ + iω)/M′(λ): midpoints so many that every wave is resolved, in 64 bits."""
    wide, points = np.longdouble, 1 << (18 if tilt == 2.0 else 16)
    width = (wide(part.high) - wide(part.low)) / points
    y = wide(part.low) + (np.arange(points).astype(wide) + wide(0.5)) * width
    upper, lower = (
        np.log1p(sum(w * np.expm1(a * (at - a / 2)) for w, a in shifted(side)) + 0 * at)
        for side, at in ((part.above, y), (part.below, -y))
    )
    loss = upper - lower
    weights = np.exp((1 + wide(tilt)) * upper - wide(tilt) * lower - y * y / 2) * width / np.sqrt(2 * wide(np.pi))
    total = weights.sum()
    mean = (weights * loss).sum() / total
    phase = wide(omega) * (loss - mean)
    ratio = ((weights * np.cos(phase)).sum() + 1j * (weights * np.sin(phase)).sum()) / total
    return np.log(total), ratio * np.exp(1j * wide(omega) * mean)


def shifted(side: Density) -> list[tuple[np.longdouble, np.longdouble]]:
    """Weights and shifts of the shifted parts. What is given as a float is exact, and all weights add up to 1."""
    if isinstance(side, Side):
        return [(np.longdouble(side.rate), np.longdouble(side.shift))]
    assert isinstance(side, Components)
    return [(np.longdouble(w), np.longdouble(a)) for w, a in zip(side.weights[1:], side.shifts[1:], strict=True)]


@pytest.mark.parametrize(("event", "side"), STEPS)
def test_ratios_are_within_their_errors(event: Event, side: int) -> None:
    """On the real axis and on the line above it, at frequencies with many waves; and decay bounds them."""
    part = cut_part(event, side)
    spread = math.sqrt(float(part.moments(np.array([1e-9])).curvature[0]))
    tilt = 0.05 / spread
    if not math.isfinite(float(part.moments(np.array([tilt])).value[0])):
        tilt = 2.0
    line = part.tilted(tilt, reach=3 / spread, digits=25.0)
    for omega, real in ((0.3 / spread, True), (0.3 / spread, False), (3 / spread, False)):
        if real and omega > line.near:
            continue
        at_zero, truth = integrals(part, tilt, omega)
        rule = replace(line, near=line.near if real else 0.0)
        (logarithm,), (error,) = rule.ratios(np.array([omega]))
        truth *= np.exp(-1j * np.longdouble(omega) * np.longdouble(line.mean))
        assert abs(np.exp(np.clongdouble(logarithm)) - truth) <= error * abs(truth) + 1e-16
        assert error < 1e-8
        assert abs(at_zero - line.logarithm) <= line.error + 1e-18
        assert np.log(abs(truth)) <= float(line.decay(np.array([omega]), math.inf)[0]) + 1e-12


def test_the_ends_leave_out_less_than_they_say() -> None:
    part = cut_part(rare(1e-6, 1.0), 0)
    tail = [mpmath.ncdf(-part.high), mpmath.ncdf(-part.high + 1), mpmath.ncdf(part.low)]
    assert (1 - 1e-6) * tail[0] + 1e-6 * tail[1] + tail[2] <= part.missing[0] <= 3 * (tail[0] + tail[2])
    assert tail[0] + tail[2] <= part.missing[1]


def two_steps(rate: float, scale: float, epsilon: float, *, adding: bool) -> float:
    """δ(ε) of two sampled steps by quadrature over the first step's output."""
    with mpmath.workdps(22):
        q, a = mpmath.mpf(rate), 1 / mpmath.mpf(scale)
        lowest = mpmath.log1p(-q)

        def point(level: mpmath.mpf) -> mpmath.mpf:
            return (mpmath.log1p(mpmath.expm1(level) / q) + a * a / 2) / a

        def remaining(level: mpmath.mpf) -> mpmath.mpf:
            """δ of one step where the unit is in P."""
            if level <= lowest:
                return -mpmath.expm1(level)
            plain, moved = mpmath.ncdf(-point(level)), mpmath.ncdf(a - point(level))
            return q * moved - (mpmath.expm1(level) + q) * plain

        def absent(level: mpmath.mpf) -> mpmath.mpf:
            """δ of one step where the unit is in Q."""
            if -level <= lowest:
                return mpmath.mpf(0)
            plain, moved = mpmath.ncdf(point(-level)), mpmath.ncdf(point(-level) - a)
            return plain - mpmath.exp(level) * ((1 - q) * plain + q * moved)

        def integrand(y: mpmath.mpf) -> mpmath.mpf:
            ratio = 1 + q * mpmath.expm1(a * y - a * a / 2)
            if adding:
                return mpmath.npdf(y) * absent(epsilon + mpmath.log(ratio))
            return mpmath.npdf(y) * ratio * remaining(epsilon - mpmath.log(ratio))

        kink = point((-epsilon if adding else epsilon) - (-lowest if adding else lowest)) if not adding else None
        ends = sorted([mpmath.mpf(k) for k in range(-10, 13, 2)] + ([kink] if kink is not None and kink < 12 else []))
        return float(mpmath.quad(integrand, ends, method="gauss-legendre", maxdegree=4))


@pytest.mark.parametrize("adding", [False, True])
def test_two_rare_steps(adding: bool) -> None:
    rate, scale, delta = 1.24e-7, 7.94, 5.11e-9
    epsilon, _ = _epsilon(directions(rare(rate, scale) * 2)[int(adding)], delta)
    assert epsilon.upper - epsilon.lower <= 1e-7 * epsilon.upper
    assert two_steps(rate, scale, epsilon.lower, adding=adding) >= delta * (1 - 1e-9)
    assert two_steps(rate, scale, epsilon.upper, adding=adding) <= delta * (1 + 1e-9)


def test_two_rare_steps_under_little_noise() -> None:
    """Rare large losses decide: the plain integrand does not decay, a smoothed one with distant ends does."""
    rate, scale, delta = 0.01, 0.6, 1e-4
    found = contour_curve(fold(rare(rate, scale) * 2))
    assert found is not None
    epsilon, _ = _epsilon(found.smoothed.directions[0], delta)
    assert epsilon.upper - epsilon.lower <= 1e-5 * epsilon.upper
    assert two_steps(rate, scale, epsilon.lower, adding=False) >= delta * (1 - 1e-9)
    assert two_steps(rate, scale, epsilon.upper, adding=False) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("event", "delta", "epsilon"),
    [
        (rare(1.57e-9, 1.28) * 556_026, 1.35e-10, None),
        (rare(4.23e-7, 0.534) * 68_639_850, 1.09e-6, 0.07274222),
        (rare(2.08e-6, 1.1) * 140_741, 6.89e-6, None),
        (rare(5.57e-8, 1.42, members=8) * 67_240_758, 2.56e-10, 0.01437643),
    ],
)
def test_small_rates_have_narrow_brackets(event: Event, delta: float, epsilon: float | None) -> None:
    """The grid's brackets were 1e-4 to 1 wide here."""
    found = account(event).epsilon_bracket(delta)
    assert found.width <= 1e-6 * found.upper
    if epsilon is not None:
        assert found.upper == pytest.approx(epsilon, rel=1e-6)
