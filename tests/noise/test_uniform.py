"""Uniform numbers and orders. 1 second."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import factorial

import numpy as np
import pytest
from scipy import stats

from deniable.errors import InvalidArgument
from deniable.noise import InsecureSource, RecordingSource, ReplaySource, permutation, uniform


def test_words_of_the_incomplete_run_are_rejected() -> None:
    n = 10
    usable = 2**64 - 2**64 % n
    words = np.array([usable, 2**64 - 1, usable - 1, 7, 23, 1], dtype=np.uint64)
    assert uniform(n, source=ReplaySource(words)) == 9  # the third word is the first usable one
    # An array reads one word each, then one more for each rejected place.
    assert uniform(n, 4, source=ReplaySource(words)).tolist() == [3, 1, 9, 7]


def test_powers_of_two_reject_nothing() -> None:
    tape = RecordingSource(InsecureSource(1))
    assert uniform(2**62, 5000, source=tape).max() < 2**62
    assert tape.count == 5000


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 2**61 + 1, 2**62, 2**62 + 1, 2**64 - 1, 2**64, 2**64 + 1, 10**40])
def test_range_and_spread(n: int) -> None:
    """All in range; and the lower half gets its share: exact binomial, false alarm below 1e-6."""
    found = [int(x) for x in uniform(n, 4000)]
    assert all(0 <= x < n for x in found)
    half = n // 2
    if half:
        assert stats.binomtest(sum(x < half for x in found), 4000, half / n).pvalue > 1e-6
    assert 0 <= uniform(n) < n


def test_small_ranges_are_even() -> None:
    """Each of 6 counts against its exact binomial law; union bound, false alarm below 1e-6."""
    counts = np.bincount(uniform(6, 600_000), minlength=6)
    assert min(stats.binomtest(int(c), 600_000, 1 / 6).pvalue for c in counts) > 1e-6 / 6


def test_orders_are_even() -> None:
    """Each of the 24 orders of 4, counted; union bound, false alarm below 1e-6."""
    counts = Counter(tuple(permutation(4).tolist()) for _ in range(24_000))
    assert set(counts) == set(permutations(range(4)))
    assert min(stats.binomtest(c, 24_000, 1 / factorial(4)).pvalue for c in counts.values()) > 1e-6 / 24


def test_tied_words_are_drawn_again() -> None:
    words = np.array([5, 9, 5, 3, 2, 1], dtype=np.uint64)
    assert permutation(3, source=ReplaySource(words)).tolist() == [2, 1, 0]
    assert permutation(0).tolist() == []


@pytest.mark.parametrize("n", [0, -1, 1.5, "6", True])
def test_n_is_a_count(n: object) -> None:
    with pytest.raises(InvalidArgument, match="n must be a whole number, 1 or more"):
        uniform(n)  # type: ignore[call-overload]
