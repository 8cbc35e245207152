"""The error terms of the integral, each provoked on purpose: the bracket must widen and still hold. Two seconds.

The truth is the closed form of the Gaussian mechanism (Balle–Wang 2018) in 40 digits.
"""

from __future__ import annotations

import dataclasses
import math

import mpmath
import numpy as np
import pytest

from deniable.accounting.contour.atoms import randomized_response
from deniable.accounting.contour.gaussian import Normal
from deniable.accounting.contour.integral import Contour
from deniable.accounting.contour.search import contour, saddle_at_delta, saddle_at_epsilon
from deniable.accounting.contour.transform import Direction

SQUARE = 1.44


def gaussian_delta(square: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        mu = mpmath.sqrt(mpmath.mpf(square))
        e = mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


def ends(rule: Contour, epsilon: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    value = rule.delta(epsilon)
    with mpmath.workdps(40):
        scale = mpmath.exp(mpmath.mpf(value.scale))
        return scale * mpmath.mpf(value.lower), scale * mpmath.mpf(value.upper)


def respaced(rule: Contour, factor: float) -> Contour:
    """The same line with other nodes."""
    spacing = rule.spacing * factor
    omegas = np.arange(math.ceil(rule.omegas[-1] / spacing) + 1) * spacing
    logarithms, slips = rule.line.ratios(omegas)
    return dataclasses.replace(rule, spacing=spacing, omegas=omegas, logarithms=logarithms, slips=slips)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0, 9.0, 30.0])
def test_the_bracket_holds_the_closed_form(epsilon: float) -> None:
    direction = Direction(((Normal(SQUARE), 1),))
    lower, upper = ends(contour(direction, saddle_at_epsilon(direction, epsilon)), epsilon)
    true = gaussian_delta(SQUARE, epsilon)
    assert lower <= true <= upper
    assert upper - lower < 1e-10 * true


@pytest.mark.parametrize("factor", [1.0, 2.0, 3.5, 6.0])
def test_aliasing_is_one_sided_and_bounded(factor: float) -> None:
    """With too few nodes the sum over-states: the upper end moves up, and the lower end stays below the truth."""
    direction, epsilon = Direction(((Normal(SQUARE), 1),)), 3.0
    rule = respaced(contour(direction, saddle_at_epsilon(direction, epsilon)), factor)
    lower, upper = ends(rule, epsilon)
    true = gaussian_delta(SQUARE, epsilon)
    assert lower <= true <= upper
    if factor > 2:
        value = rule.delta(epsilon)
        overstated = value.estimate * (1 - float(true / upper))
        assert overstated > 1e-8 * value.estimate, "the alias terms are there"
        assert rule._alias(epsilon, value.scale) >= overstated * (1 - 1e-6)


@pytest.mark.parametrize("share", [0.8, 0.5, 0.25])
def test_truncation_is_bounded(share: float) -> None:
    direction, epsilon = Direction(((Normal(SQUARE), 1),)), 3.0
    rule = contour(direction, saddle_at_epsilon(direction, epsilon))
    kept = max(2, int(share * len(rule.omegas)))
    tail = float(rule.line.decay(rule.omegas[kept - 1 : kept], math.inf)[0])
    cut = dataclasses.replace(
        rule, omegas=rule.omegas[:kept], logarithms=rule.logarithms[:kept], slips=rule.slips[:kept], tail=tail
    )
    lower, upper = ends(cut, epsilon)
    true = gaussian_delta(SQUARE, epsilon)
    assert lower <= true <= upper
    assert upper - lower > ends(rule, epsilon)[1] - ends(rule, epsilon)[0]


def test_rounding_grows_with_the_cancellation() -> None:
    """A line far to the left of the saddle point: the integrand dwarfs δ, and the bracket says so."""
    direction, epsilon = Direction(((Normal(SQUARE), 1),)), 9.0
    saddle = saddle_at_epsilon(direction, epsilon)
    good = contour(direction, saddle)
    bad = contour(direction, saddle._replace(tilt=0.2 * saddle.tilt))
    true = gaussian_delta(SQUARE, epsilon)
    for rule in (good, bad):
        lower, upper = ends(rule, epsilon)
        assert lower <= true <= upper
    assert (ends(bad, epsilon)[1] - ends(bad, epsilon)[0]) > 100 * (ends(good, epsilon)[1] - ends(good, epsilon)[0])


def test_the_saddle_point_estimates_are_close() -> None:
    direction = Direction(((Normal(SQUARE), 1),))
    saddle = saddle_at_delta(direction, math.log(1e-6))
    assert float(gaussian_delta(SQUARE, saddle.epsilon)) == pytest.approx(1e-6, rel=0.3)
    rule = contour(direction, saddle)
    log_delta, rate = rule.estimate(saddle.epsilon)
    assert log_delta == pytest.approx(float(mpmath.log(gaussian_delta(SQUARE, saddle.epsilon))), rel=1e-12)
    h = 1e-4
    slope = math.log(gaussian_delta(SQUARE, saddle.epsilon + h) / gaussian_delta(SQUARE, saddle.epsilon - h)) / (2 * h)
    assert rate == pytest.approx(-slope, rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 7, 40])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.69, 1.41, 2.0, 3.45])
def test_a_lattice_needs_no_truncation(count: int, epsilon: float) -> None:
    """Binary randomized response against the binomial sum of Kairouz–Oh–Viswanath, kinks included."""
    from fractions import Fraction

    step = randomized_response(Fraction(7, 10))
    direction = Direction(((step, count),))
    if epsilon >= direction.largest:
        return
    rule = contour(direction, saddle_at_epsilon(direction, epsilon))
    lower, upper = ends(rule, epsilon)
    with mpmath.workdps(40):
        p = 1 / (1 + mpmath.exp(mpmath.mpf(-7) / 10))
        true = mpmath.fsum(
            mpmath.binomial(count, j)
            * max(
                mpmath.mpf(0),
                p ** (count - j) * (1 - p) ** j - mpmath.exp(mpmath.mpf(epsilon)) * p**j * (1 - p) ** (count - j),
            )
            for j in range(count + 1)
        )
        assert lower <= true <= upper
        assert upper - lower < 1e-9 * true
