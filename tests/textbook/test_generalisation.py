"""Generalisation by privacy: the transfer theorem against brute force, sizes, and an ERM that learns nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from deniable.guarantees import ApproxDP, PureDP
from deniable.textbook import adaptive_size, generalisation_gap, splitting_size, transfer_bound, zero_column_chance


def test_the_transfer_theorem() -> None:
    """The best c and t, by search; and without failures the bound is α + e^ε − 1."""
    promise, error, failure, confidence = ApproxDP(0.02, 1e-9), 0.05, 1e-6, 0.95
    found = transfer_bound(promise, error=error, failure=failure, confidence=confidence)
    searched = min(
        error + math.expm1(0.02) + c + 2 * t
        for c in np.geomspace(1e-6, 1, 2000).tolist()
        for t in [1e-9 / (0.05 - failure / c) if failure / c < 0.05 else math.inf]
    )
    assert found == pytest.approx(searched, rel=1e-3)
    assert found <= searched
    assert transfer_bound(PureDP(0.1), error=0.05, failure=0, confidence=0.9) == pytest.approx(0.05 + math.expm1(0.1))


def test_the_gap_holds_for_a_mechanism_that_overfits_as_much_as_it_may() -> None:
    """Choosing between the two halves of {0, 1} by randomized response on each record's majority, by enumeration."""
    n, epsilon = 3, 0.5
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    gap = 0.0
    for sample in itertools.product((0, 1), repeat=n):
        majority = int(sum(sample) * 2 > n)
        for answer, chance in ((majority, truth), (1 - majority, 1 - truth)):
            gap += 0.5**n * chance * (sum(x == answer for x in sample) / n - 0.5)
    assert 0 < gap <= generalisation_gap(PureDP(epsilon))


def test_many_adaptive_queries() -> None:
    assert splitting_size(queries=100, error=0.1) == 41_500
    sizes = [adaptive_size(queries=k, error=0.1) for k in (100, 1000, 10_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] > splitting_size(queries=100, error=0.1)  # few queries: a fresh part for each is better
    assert sizes[1] < splitting_size(queries=1000, error=0.1) / 2
    assert 500_000 < sizes[2] < 711_000
    # Sample splitting, by the exact tail of one query: all k are right with 95 %.
    assert 2 * 100 * math.exp(-2 * 415 * 0.1**2) <= 0.05


def test_erm_may_not_generalise() -> None:
    generator, n, d = np.random.default_rng(0), 5, 64
    chance = zero_column_chance(size=n, columns=d)
    hits = sum(bool((generator.integers(0, 2, (n, d)).sum(axis=0) == 0).any()) for _ in range(2000))
    assert abs(hits / 2000 - chance) < 5 * math.sqrt(chance * (1 - chance) / 2000)
    assert zero_column_chance(size=10, columns=8192) == pytest.approx(0.99967, abs=1e-5)
