"""The functions under the filters are rounded to the side they say, against mpmath."""

from __future__ import annotations

from fractions import Fraction

import mpmath
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting.filters import normal, rounding
from tests.accounting.filters.exact import positive, real


@given(positive)
def test_functions_are_rounded_to_the_side_they_say(x: Fraction) -> None:
    for down, up, true in (
        (rounding.exp_down, rounding.exp_up, mpmath.exp),
        (rounding.log_down, rounding.log_up, mpmath.log),
        (rounding.sqrt_down, rounding.sqrt_up, mpmath.sqrt),
    ):
        low, middle, high = real(down(x)), true(real(x)), real(up(x))
        assert low < middle < high
        assert high - low <= mpmath.mpf(10) ** -56 * max(1, abs(middle))
    assert real(rounding.exp_down(-x)) < mpmath.exp(-real(x)) < real(rounding.exp_up(-x))


@given(st.fractions(), st.integers(1, 10**9))
def test_grids_are_the_nearest_on_their_side(x: Fraction, grid: int) -> None:
    assert 0 <= rounding.ceiling(x, grid=grid) - x < Fraction(1, grid)
    assert 0 <= x - rounding.floor(x, grid=grid) < Fraction(1, grid)
    assert (rounding.ceiling(x, grid=grid) * grid).denominator == 1


@given(st.fractions(min_value=-30, max_value=38))
def test_normal_tails_enclose_the_truth(x: Fraction) -> None:
    digits = int(x * x / 4) + 30
    low, high = normal.tail(x, digits=digits)
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
        found = real(normal.gaussian_delta_up(mu, epsilon))
        assert found >= true
        if far < 40:
            assert found <= true * (1 + mpmath.mpf(10) ** -12) + mpmath.mpf(10) ** -300
