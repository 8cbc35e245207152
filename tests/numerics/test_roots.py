"""Searches end on the right side of the border, whatever its size, and look at few places."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.numerics import roots


@given(st.floats(5e-324, 1e300))
def test_a_crossing_is_found_to_the_last_place(border: float) -> None:
    looks = []

    def holds(x: float) -> bool:
        looks.append(x)
        return x >= border

    low, high = roots.crossing(holds, 0.0, max(1.0, border))
    assert low < border <= high <= low + 2 * math.ulp(high)
    assert len(looks) < 90


def test_a_crossing_may_stop_early_and_start_late() -> None:
    low, high = roots.crossing(lambda x: x >= math.pi, 3.0, 4.0, relative=1e-3)
    assert low < math.pi <= high <= low * 1.0011
    assert roots.crossing(lambda x: True, 0.0, 1.0) == (0.0, 5e-324)
    assert roots.crossing(lambda x: False, 0.0, 1.0)[1] == 1.0


@given(st.fractions(min_value=0, max_value=1))
def test_bisection_keeps_fractions_exact(border: Fraction) -> None:
    low, high = roots.bisect(lambda x: x > border, Fraction(0), Fraction(2), turns=20)
    assert low <= border < high == low + Fraction(2, 2**20)


@given(st.floats(0, 1, exclude_min=True))
def test_bisection_of_floats_ends_between_neighbours(border: float) -> None:
    low, high = roots.bisect(lambda x: x >= border, 0.0, 1.0, turns=2000)
    assert low < border <= high
    assert math.nextafter(low, math.inf) == high


@given(st.integers(-50, 50), st.integers(0, 100), st.integers(1, 150))
def test_the_first_whole_number(low: int, above: int, span: int) -> None:
    high = low + span
    first = roots.first_whole(lambda n: n > low + above, low, high)
    assert first == min(low + above + 1, high)


def test_enlarging_stops() -> None:
    assert roots.enlarge(lambda x: x >= 100, 1.0, most=math.inf) == 128
    assert roots.enlarge(lambda x: x >= 100, 1.0, most=100, factor=4) == 256
    assert roots.enlarge(lambda x: x >= 1000, 1.0, most=100) is None
    assert roots.enlarge(lambda x: x >= 3, Fraction(1), most=10) == Fraction(4)


def test_a_walk_doubles_its_steps_and_ends_at_zero() -> None:
    assert roots.walk(lambda x: x >= 10.5, 10.0, 0.125) == 10.5
    assert roots.walk(lambda x: x <= -1, 1.0, -0.5) == 0.0
    assert roots.walk(lambda x: False, 1.0, 2.0**-55) is None


@pytest.mark.parametrize("at", [1e-4, 0.3, 5.0, 900.0])
def test_the_least_value_and_the_largest(at: float) -> None:
    place, value = roots.lowest(lambda x: (math.log(x) - math.log(at)) ** 2 + 1, 1e-5, 1e4)
    assert place == pytest.approx(at, rel=1e-6)
    assert value == pytest.approx(1)
    if at < 700:
        peak = roots.highest(lambda x: 2 - (x - at) ** 2 / at**2, 700.0, most=lambda x: 3.0)
        assert peak == pytest.approx(2, abs=1e-9)
