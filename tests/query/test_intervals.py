"""Margins against the exact law, ranges of ratios against all corners and a fine grid."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.query.estimates import IntervalEnds, outward, ratio_range

small = st.integers(-12, 12)


@given(s=small, c=small, a=st.integers(0, 8), b=st.integers(0, 8))
def test_the_range_of_a_ratio(s: int, c: int, a: int, b: int) -> None:
    """Every s'/c' within the margins, c' ≥ 1, cut to the bounds, is inside the range; its ends are reached."""
    low, high = -5, 4
    sums, counts = (IntervalEnds(np.array([x - margin]), np.array([x + margin])) for x, margin in ((s, a), (c, b)))
    lower, upper = ratio_range(sums, counts, low=low, high=high)
    ratios = [
        min(max(Fraction(s2, c2), low), high)
        for s2, c2 in product(range(s - a, s + a + 1), range(max(1, c - b), c + b + 1))
    ]
    if not ratios:
        assert (lower[0], upper[0]) == (low, high)
    else:
        assert lower[0] == pytest.approx(float(min(ratios)))
        assert upper[0] == pytest.approx(float(max(ratios)))


bounds = st.sampled_from([(0.0, 5000.0), (0.0, 1.0), (-3.5, 7.25), (1e9, 1e9 + 1), (0.0, 1e-7), (-1e15, 1e15)])


@given(bounds, st.floats(0, 1), st.floats(0, 1))
def test_ends_are_rounded_outward_and_can_be_read(ends: tuple[float, float], a: float, b: float) -> None:
    """They cover, by at most 3 in 1,000 of the half width more (or 2 parts in 10¹² of the bounds), with few digits."""
    least, most = ends
    low, high = (min(max(least + share * (most - least), least), most) for share in sorted((a, b)))
    (lower,), (upper,) = outward(np.array([low]), np.array([high]), least=least, most=most)
    assert least <= lower <= low <= high <= upper <= most
    room = 0.003 * (high - low) / 2 + 3e-11 * max(abs(least), abs(most))
    assert low - lower <= room
    assert upper - high <= room
    for end in (lower, upper):
        assert end in ends or len(Decimal(repr(float(end))).normalize().as_tuple().digits) <= 13


def test_dust_is_not_shown() -> None:
    low, high = outward(np.array([199.9999999999999, 0.0]), np.array([230.1, 5000.0]), least=0.0, most=5000.0)
    assert low.tolist() == [199.99, 0.0]
    assert high.tolist() == [230.11, 5000.0]
