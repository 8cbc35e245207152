"""The normal law: tails and curves enclose the truth, in floats and in fractions, against mpmath."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.numerics import normal
from tests.accounting.filters.exact import real


def gaussian_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """Balle–Wang, with enough digits for the cancellation."""
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    root = mpmath.sqrt(2)
    return mpmath.erfc((e / m - m / 2) / root) / 2 - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root) / 2


@settings(max_examples=40)
@given(st.floats(-6, 1), st.floats(-300, -0.01))
def test_gaussian_epsilon_between_its_ends(log_mu: float, log_delta: float) -> None:
    mu, delta = 10**log_mu, 10**log_delta
    bracket = normal.epsilon_bracket(mu, delta)
    assert gaussian_delta(mu, bracket.upper) <= delta
    assert bracket.lower == 0 or gaussian_delta(mu, bracket.lower) >= delta
    assert bracket.width <= 1e-9 * bracket.upper


def test_gaussians_beyond_the_floats() -> None:
    assert normal.epsilon_bracket(1e200, 1e-5).upper == math.inf
    assert normal.epsilon_bracket(1e140, 1e-5).upper == pytest.approx(5e279, rel=1e-6)
    assert normal.delta_bracket(1e140, 800).upper == 1
    assert normal.delta_bracket(1e-300, 1e-10).upper == 5e-324
    assert normal.delta_bracket(1e-300, 0).upper == pytest.approx(1e-300 / math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-5), (0.01, 1e-9), (20, 1e-300), (0, 0.1), (1e-9, 0.999)])
def test_the_largest_mu_is_rounded_down(epsilon: float, delta: float) -> None:
    mu = normal.largest_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta < gaussian_delta(mu * (1 + 1e-9), epsilon)


@settings(max_examples=30)
@given(st.fractions(min_value=Fraction(1, 100), max_value=8), st.fractions(min_value=0, max_value=20))
def test_fractions_and_brackets_are_one_curve(mu: Fraction, epsilon: Fraction) -> None:
    """Both contracts of one theorem: the exact upper end lies in the bracket of the floats around it, but for 1e-12."""
    found = normal.delta_up(mu, epsilon)
    lower = normal.delta_bracket(float(mu) * (1 - 1e-15), float(epsilon) * (1 + 1e-15)).lower
    upper = normal.delta_bracket(float(mu) * (1 + 1e-15), float(epsilon) * (1 - 1e-15)).upper
    assert lower <= float(found) * (1 + 1e-12)
    assert float(found) <= upper * (1 + 1e-12)


@given(st.fractions(min_value=-30, max_value=38))
def test_normal_tails_enclose_the_truth(x: Fraction) -> None:
    digits = int(x * x / 4) + 30
    low, high = normal.tail_bounds(x, digits=digits)
    with mpmath.workdps(500):
        true = mpmath.erfc(real(x) / mpmath.sqrt(2)) / 2
        assert real(low) < true < real(high)
    assert high - low == Fraction(2, 10**digits)


@settings(max_examples=40)
@given(st.fractions(min_value=Fraction(1, 100), max_value=20), st.fractions(min_value=0, max_value=60))
def test_the_gaussian_curve_is_an_upper_end(mu: Fraction, epsilon: Fraction) -> None:
    with mpmath.workdps(700):
        near, far = real(epsilon / mu - mu / 2), real(epsilon / mu + mu / 2)
        true = (mpmath.erfc(near / mpmath.sqrt(2)) - mpmath.exp(real(epsilon)) * mpmath.erfc(far / mpmath.sqrt(2))) / 2
        found = real(normal.delta_up(mu, epsilon))
        assert found >= true
        if far < 40:
            assert found <= true * (1 + mpmath.mpf(10) ** -12) + mpmath.mpf(10) ** -300
