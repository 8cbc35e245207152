"""The printed form never falls below the number."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from deniable.guarantees.printing import rounded_up, small

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
