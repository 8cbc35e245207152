"""The samplers have exactly the law that the event assumes. Statistical tests alarm falsely once in 10⁷ at most."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from deniable.deep.draws import fixed_batch, poisson, without_replacement
from deniable.deep.sampling import BallsAndBins, Schedule
from deniable.noise import InsecureSource, ReplaySource, secure

ALARM = 1e-7


@pytest.mark.parametrize("rate", [Fraction(8, 1875), Fraction(1, 64), Fraction(1, 3), Fraction(2, 3), Fraction(1, 2)])
def test_poisson_keeps_each_with_its_rate(rate: Fraction) -> None:
    size, turns = 1000, 300
    kept = np.zeros(size, dtype=np.int64)
    for _ in range(turns):
        drawn = poisson(size, rate=rate, source=secure())
        assert (np.diff(drawn) > 0).all()
        kept[drawn] += 1
    assert stats.binomtest(int(kept.sum()), size * turns, float(rate)).pvalue > ALARM
    # Each place alone: the largest and the smallest of 1000 counts, by a union bound.
    assert stats.binom.sf(kept.max() - 1, turns, float(rate)) * size > ALARM
    assert stats.binom.cdf(kept.min(), turns, float(rate)) * size > ALARM


def test_places_are_kept_independently() -> None:
    """All eight subsets of three places that share a word, against their product probabilities."""
    rate = Fraction(1, 5)
    seen = np.zeros(8)
    turns = 6_000
    for _ in range(turns):
        seen[sum(1 << int(place) for place in poisson(3, rate=rate, source=secure()))] += 1
    expected = [turns * 0.2 ** bin(s).count("1") * 0.8 ** (3 - bin(s).count("1")) for s in range(8)]
    assert stats.chisquare(seen, expected).pvalue > ALARM


def test_the_halved_rate_is_exact() -> None:
    """With every word all ones the first stage keeps all; the second decides at rate·2ᵏ, here 1: nobody is lost."""
    words = np.full(1 << 12, 2**64 - 1, dtype=np.uint64)
    assert poisson(100, rate=Fraction(1, 8), source=ReplaySource(words)).size == 100
    assert poisson(100, rate=Fraction(1, 10), source=ReplaySource(words)).size == 0
    zeros = ReplaySource(np.zeros(1 << 12, dtype=np.uint64))
    assert poisson(100, rate=Fraction(1, 8), source=zeros).size == 0


def test_edges_of_poisson() -> None:
    assert poisson(7, rate=Fraction(1), source=secure()).tolist() == list(range(7))
    assert poisson(0, rate=Fraction(1, 9), source=secure()).size == 0
    assert poisson(1, rate=Fraction(1, 10**30), source=secure()).size == 0


@pytest.mark.parametrize(("size", "batch"), [(6, 2), (5, 4), (4, 4)])
def test_every_set_is_equally_likely_without_replacement(size: int, batch: int) -> None:
    sets = dict.fromkeys(combinations(range(size), batch), 0)
    for _ in range(6000):
        sets[tuple(sorted(without_replacement(size, batch=batch, source=secure()).tolist()))] += 1
    if len(sets) > 1:
        assert stats.chisquare(list(sets.values())).pvalue > ALARM
    assert sum(sets.values()) == 6000


def test_balls_fall_into_bins_independently_and_uniformly() -> None:
    """The bins of two units in two epochs: all 81 combinations of three bins are equally likely."""
    schedule = Schedule(size=2, batch=Fraction(2, 3), steps=6)
    seen = np.zeros(81)
    for _ in range(8100):
        bins = BallsAndBins().begin(schedule, secure())
        assert bins.shape == (2, 2)
        seen[int(np.ravel_multi_index(tuple(bins.ravel()), (3, 3, 3, 3)))] += 1
    assert stats.chisquare(seen).pvalue > ALARM
    drawn = [
        BallsAndBins().draw(schedule, step=step, size=2, order=bins, source=secure()).tolist() for step in range(6)
    ]
    assert [sorted(drawn[start] + drawn[start + 1] + drawn[start + 2]) for start in (0, 3)] == [[0, 1], [0, 1]]


def test_fixed_batches_use_everybody_once_per_epoch() -> None:
    order = np.random.default_rng(0).permutation(103)
    epoch = [fixed_batch(order, batch=10, step=step) for step in range(11)]
    assert sorted(np.concatenate(epoch).tolist()) == list(range(103))
    assert [len(each) for each in epoch] == [10] * 10 + [3]
    assert fixed_batch(order, batch=10, step=11).tolist() == epoch[0].tolist()


def test_a_poisson_batch_costs_few_words() -> None:
    source = InsecureSource(1)
    counted = []

    class Counting:
        secure = False

        def words(self, count: int) -> np.ndarray:
            counted.append(count)
            return source.words(count)

        def word(self) -> int:
            return source.word()

    poisson(64_000, rate=Fraction(1, 256), source=Counting())
    assert sum(counted) < 8 * 1000 + 64_000 / 256 + 8 * math.sqrt(250)
