"""Scores on one unit, exactly. Under a second."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import InvalidArgument
from deniable.noise.choices import check_exact_numbers, gaps, read_scores


@given(st.lists(st.one_of(st.integers(), st.fractions()), min_size=1), st.fractions(min_value=Fraction(1, 1000)))
def test_differences_are_kept_exactly(scores: list[Fraction | int], rate: Fraction) -> None:
    found = gaps(scores, rate=rate)
    assert min(found.below) == 0
    for score, below in zip(scores, found.below, strict=True):
        assert below * found.unit == rate * (max(scores) - score)


def test_only_the_eligible_count() -> None:
    assert gaps([9, 1, 5], eligible=[False, True, True]).below == [0, 4, 0]
    assert gaps([]).below == []


def test_floats_are_decimals_and_arrays_are_lists() -> None:
    assert check_exact_numbers("scores", [0.1, 2, np.float64(0.3)]) == [Fraction(1, 10), 2, Fraction(3, 10)]
    assert check_exact_numbers("scores", np.array([3, 4])) == [3, 4]
    assert check_exact_numbers("scores", np.array([0.1])) == [Fraction(1, 10)]


def test_private_scores_are_never_refused() -> None:
    scores = [0.1, np.float32(0.5), 2, float("nan"), float("inf"), "77", None, [1], 10**400]
    assert read_scores(scores) == [Fraction(1, 10), Fraction(1, 2), 2, 0, 0, 77, 0, 0, 10**400]
    assert read_scores(np.array([0.1, np.inf])) == [Fraction(1, 10), 0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "77", None, np.float64("nan")])
def test_a_refusal_shows_no_value(value: object) -> None:
    with pytest.raises(InvalidArgument, match="scores must be finite numbers") as refusal:
        check_exact_numbers("scores", [1, value])  # type: ignore[list-item]
    assert "77" not in str(refusal.value)
