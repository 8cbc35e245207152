"""Smoothing: its lemma, its bracket against brute force, and the frequencies that are not followed to the end. 5 s."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from deniable.accounting.accountant import account, grid_curve
from deniable.accounting.contour import contour_curve
from deniable.accounting.contour.atoms import randomized_response
from deniable.accounting.contour.integral import smoothing_squares
from deniable.accounting.contour.laplace import Laplacian
from deniable.accounting.contour.transform import Direction
from deniable.accounting.fold import fold
from deniable.events import DiscreteGaussian, DiscreteLaplace, Event, Laplace, RandomizedResponse


def put(log_strike: mpmath.mpf, s: mpmath.mpf) -> mpmath.mpf:
    """E(R − W)₊ for ln W ~ N(−s²/2, s²), by quadrature."""
    strike = mpmath.exp(log_strike)
    end = (log_strike + s * s / 2) / s
    start = min(end, mpmath.mpf(0)) - 20
    return mpmath.quad(
        lambda z: (strike - mpmath.exp(s * z - s * s / 2)) * mpmath.npdf(z), mpmath.linspace(start, end, 4)
    )


@pytest.mark.parametrize("s", ["0.5", "0.2", "0.01"])
def test_the_lemma(s: str) -> None:
    """2·put(s) − put(t) ≤ payoff ≤ put(s), at the money and away from it; t = 2s would not do."""
    with mpmath.workdps(20):
        less = mpmath.mpf(s)
        more = 2 * less * (1 + less**2)
        for away in ("-3", "-1", "-0.1", "0", "0.05", "0.5", "2"):
            m = mpmath.mpf(away) * less
            payoff = max(mpmath.exp(m) - 1, mpmath.mpf(0))
            assert 2 * put(m, less) - put(m, more) <= payoff <= put(m, less)
        at_the_money = mpmath.mpf(0)
        assert 2 * put(at_the_money, less) > put(at_the_money, 2 * less)


def test_the_sizes_are_those_of_the_lemma() -> None:
    for tilt in (1e-3, 0.7, 30.0, 1e5):
        less, more = map(Fraction, smoothing_squares(tilt))
        assert less <= Fraction(1, 4)
        assert more >= 4 * less * (1 + less) ** 2


def responses(count: int) -> list[Fraction]:
    return [Fraction(100 + 7 * i, 1000) for i in range(count)]


@pytest.mark.parametrize("epsilon", [0.0, 0.31, 0.9, 1.55])
def test_against_all_outcomes_of_distinct_responses(epsilon: float) -> None:
    """2¹² products of probabilities, in 30 digits: a curve with thousands of kinks."""
    local = responses(12)
    curve = contour_curve(fold(sum(RandomizedResponse(e) for e in local))).smoothed
    assert curve is not None
    found = curve.delta_bracket(epsilon)
    with mpmath.workdps(30):
        chances = [1 / (1 + mpmath.exp(-mpmath.mpf(e.numerator) / e.denominator)) for e in local]
        true = mpmath.mpf(0)
        for told in itertools.product((True, False), repeat=len(local)):
            p = mpmath.fprod(c if truth else 1 - c for c, truth in zip(chances, told, strict=True))
            q = mpmath.fprod(1 - c if truth else c for c, truth in zip(chances, told, strict=True))
            true += max(p - mpmath.exp(mpmath.mpf(epsilon)) * q, mpmath.mpf(0))
        assert found.lower <= true <= found.upper
    assert 0 < found.width < 3e-5 * found.upper


def laplace_on_a_grid(local: list[float], step: float, *, up: bool) -> tuple[np.ndarray, np.ndarray]:
    """Losses rounded up (or down) to a grid, convolved directly: δ from above (or below)."""
    total, start = np.ones(1), 0
    for e in local:
        first, last = math.floor(-e / step) - 1, math.ceil(e / step) + 1
        edges = np.arange(first, last + 1) * step
        below = np.where(edges >= e, 1.0, np.where(edges < -e, 0.0, 0.5 * np.exp((edges - e) / 2)))
        total = np.convolve(total, np.diff(below))
        start += first + (1 if up else 0)
    return (start + np.arange(len(total))) * step, total


@pytest.mark.parametrize("count", [3, 10])
def test_against_a_plain_convolution_of_distinct_laplace_steps(count: int) -> None:
    local = [0.1 + 0.013 * i for i in range(count)]
    event = sum(Laplace(1, Fraction(str(round(e, 3)))) for e in local)
    curve = contour_curve(fold(event)).smoothed
    assert curve is not None
    for epsilon in (0.0, 0.2 * sum(local), 0.6 * sum(local)):
        ends = []
        for up in (False, True):
            losses, mass = laplace_on_a_grid(local, 1e-4, up=up)
            ends.append(float(mass @ np.maximum(-np.expm1(epsilon - losses), 0.0)))
        found = curve.delta_bracket(epsilon)
        assert ends[0] <= found.upper * (1 + 1e-9)
        assert found.lower <= ends[1] * (1 + 1e-9)
        assert found.width < 1e-4 * found.upper


MANY = [
    sum(Laplace(Fraction(100 + i, 10)) for i in range(20)),
    sum(DiscreteLaplace(Fraction(100 + i, 10)) for i in range(20)),
    sum(DiscreteGaussian(Fraction(100 + i, 10)) for i in range(20)),
    sum(DiscreteGaussian(Fraction(100 + i, 10)) for i in range(3)),
]


@pytest.mark.parametrize("event", MANY, ids=lambda event: f"{len(event.parts)} {type(event.parts[0]).__name__}")
def test_many_different_steps_have_a_narrow_bracket_inside_the_grids(event: Event) -> None:
    profile, grid = account(event), grid_curve(fold(event))
    for delta in (1e-6,):
        found, wide = profile.epsilon_bracket(delta), grid.epsilon_bracket(delta)
        assert wide.lower <= found.lower
        assert found.upper <= wide.upper * (1 + 3e-7)
        assert found.width < 5e-6 * found.upper
        narrow = profile.delta_bracket(found.upper)
        assert narrow.lower <= delta
        assert narrow.upper >= delta * (1 - 1e-4)
        assert narrow.width < 3e-5 * narrow.upper


def test_frequencies_that_do_not_matter_are_bounded() -> None:
    """Those given up have a modulus below what is said of them; all others are as before."""
    parts: list[tuple[Any, int]] = [(Laplacian(0.05 + 0.003 * i), 1) for i in range(40)]
    parts += [(randomized_response(Fraction(50 + i, 1000)), 2) for i in range(40)]
    line = Direction(tuple(parts)).tilted(3.0, reach=2000.0, digits=30.0)
    omegas = np.arange(2003) * 0.75
    whole, errors = line.ratios(omegas)
    some, bounds = line.ratios(omegas, least=-20.0)
    same = (some == whole) & (bounds == errors)
    assert 10 < same.sum() < 500
    assert (whole.real[~same] - np.minimum(errors[~same], 0.1) <= some.real[~same]).all()
    assert (some.real[~same] < -20).all()
    assert (np.exp(bounds[~same]) >= 3).all()
