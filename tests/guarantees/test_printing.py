"""The printed form never falls below the number."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable._checks import exact
from deniable.guarantees.printing import rounded_up, small
from deniable.guarantees.rounding import above, below, float_above, float_below, log_of, promised, typed_above

amounts = st.fractions(min_value=0, max_value=10**18) | st.floats(min_value=1e-300, max_value=1e300).map(Fraction)


@given(amounts)
def test_rounded_up_is_never_below(value: Fraction) -> None:
    assert Fraction(rounded_up(value)) >= value
    assert Fraction(small(value)) >= value
    assert value == 0 or Fraction(rounded_up(value)) <= value * Fraction(12, 10) + Fraction(1, 100)


def test_what_a_person_reads() -> None:
    assert [rounded_up(v) for v in (0, 0.5, 2.381, 0.0999, 0.01234, 800, 1e-9, float("inf"))] == [
        "0", "0.50", "2.39", "0.100", "0.013", "800.00", "1e-9", "∞",
    ]  # fmt: skip
    assert [small(v) for v in (1e-300, 9.8487e-6, 0.25, 1, 5e-324)] == ["1e-300", "9.9e-6", "0.25", "1", "5e-324"]


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_outward(value: float) -> None:
    assert below(value) < value < above(value)
    assert promised(value) >= Fraction(value)
    assert promised(value) <= Fraction(value) * (1 + Fraction(1, 2**50))


@given(st.fractions())
def test_directed_floats(value: Fraction) -> None:
    assert Fraction(float_below(value)) <= value <= Fraction(float_above(value))
    assert float_above(value) in (float(value), float_below(value)) or float_below(value) == float(value)


def test_zero_and_infinity_stay() -> None:
    assert above(0.0) == 0.0
    assert above(float("inf")) == float("inf")
    assert promised(0.0) == 0
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
