"""Floats lie on the side they say, and are as near as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable._checks import exact
from deniable.numerics.rounding import (
    above,
    below,
    exp_above,
    float_above,
    float_below,
    fraction_above,
    log_of,
    root_of,
    typed_above,
    typed_below,
)


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_outward(value: float) -> None:
    assert below(value) < value < above(value)
    assert fraction_above(value) >= Fraction(value)
    assert fraction_above(value) <= Fraction(value) * (1 + Fraction(1, 2**50))


@given(st.fractions())
def test_directed_floats(value: Fraction) -> None:
    assert Fraction(float_below(value)) <= value <= Fraction(float_above(value))
    assert float_above(value) in (float(value), float_below(value)) or float_below(value) == float(value)


def test_zero_and_infinity_stay() -> None:
    assert above(0.0) == 0.0
    assert above(float("inf")) == float("inf")
    assert fraction_above(0.0) == 0
    assert float_above(Fraction(10) ** 400) == float("inf")
    assert float_below(Fraction(10) ** 400) < float("inf")


@pytest.mark.parametrize(
    "value",
    [
        Fraction(3, 10),
        Fraction(1, 3),
        Fraction(1),
        Fraction(1, 7),
        Fraction(2, 10**9),
        # The next float above it is written as a decimal below it.
        Fraction(232473659302541539, 143631978308035188000),
    ],
)
def test_a_typed_float_is_the_smallest_that_reads_high_enough(value: Fraction) -> None:
    found = typed_above(value)
    assert exact(found) >= value > exact(math.nextafter(found, 0))


@pytest.mark.parametrize(
    "value",
    [
        Fraction(3),
        1 + Fraction(1, 10**20),
        1 - Fraction(1, 10**9),
        Fraction(7, 10**400),
        Fraction(3) ** 5000,
        Fraction(2, 3),
    ],
)
def test_logarithms_of_any_size(value: Fraction) -> None:
    with mp.workdps(60):
        true = mp.log(value.numerator) - mp.log(value.denominator)
        assert abs(log_of(value) - true) <= 4 * math.ulp(log_of(value))


@pytest.mark.parametrize("square", [Fraction(2), Fraction(10) ** 600, Fraction(1, 10**580), Fraction(1, 3)])
def test_roots_of_any_size(square: Fraction) -> None:
    assert abs(Fraction(root_of(square)) ** 2 / square - 1) < 1e-15


@given(st.fractions(min_value=0, max_value=10**30))
def test_typed_floats_are_the_nearest_on_their_side(value: Fraction) -> None:
    low, high = typed_below(value), typed_above(value)
    assert exact(low) <= value <= exact(high)
    assert exact(math.nextafter(low, math.inf)) > value
    assert high == 0 or exact(math.nextafter(high, -math.inf)) < value


@given(st.floats(-1000, 700))
def test_exponentials_are_rounded_up(x: float) -> None:
    truth = mp.exp(mp.mpf(x))
    assert truth <= exp_above(x) <= truth * (1 + mp.mpf(10) ** -13) + 17 * mp.mpf(5e-324)
    assert exp_above(-math.inf) == 0
