"""Races: the winner's law, exact comparison, and the filter that may not drop a winner. 6 seconds."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import combinations, pairwise
from math import exp

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from deniable.errors import InvalidArgument
from deniable.noise import EXPONENTIAL, GUMBEL, LAPLACE, ContinuousNoise, InsecureSource, RecordingSource, race, ranking
from deniable.noise.choices import Gaps, _possible_winners

NOISES = [GUMBEL, EXPONENTIAL, LAPLACE]
SCORES = [Fraction(0), Fraction(1, 2), Fraction(2), Fraction(3, 2), Fraction(-4)]


def exponential_mechanism(scores: list[float]) -> list[float]:
    weights = [exp(s) for s in scores]
    return [w / sum(weights) for w in weights]


def permute_and_flip(scores: list[float]) -> list[float]:
    """By the subsets of others that come earlier and decline (McKenna and Sheldon 2020)."""
    keep = [exp(s - max(scores)) for s in scores]
    found = []
    for i, p in enumerate(keep):
        others = [q for j, q in enumerate(keep) if j != i]
        total = 0.0
        for k in range(len(others) + 1):
            total += sum((-1) ** k / (k + 1) * float(np.prod(subset)) for subset in combinations(others, k))
        found.append(p * total)
    return found


def laplace_max(scores: list[float]) -> list[float]:
    def density(x: float, i: int) -> float:
        others = [stats.laplace.cdf(x - s) for j, s in enumerate(scores) if j != i]
        return float(stats.laplace.pdf(x - scores[i]) * np.prod(others))

    knots = [-60.0, *sorted(scores), 60.0]
    return [sum(integrate.quad(density, a, b, args=(i,))[0] for a, b in pairwise(knots)) for i in range(len(scores))]


LAWS = {GUMBEL: exponential_mechanism, EXPONENTIAL: permute_and_flip, LAPLACE: laplace_max}


@pytest.mark.parametrize(("word_bits", "n"), [(64, 4000), (3, 2000)])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_winner_has_the_stated_law(noise: ContinuousNoise, word_bits: int, n: int) -> None:
    """Each count against its exact binomial law; union bound over 5, false alarm below 1e-6."""
    source = InsecureSource(12)
    rate = Fraction(3, 4)
    expected = LAWS[noise]([float(rate * s) for s in SCORES])
    assert sum(expected) == pytest.approx(1, abs=1e-9)
    winners = [ranking(SCORES, 1, rate=rate, noise=noise, source=source, word_bits=word_bits)[0] for _ in range(n)]
    counts = np.bincount(winners, minlength=len(SCORES))
    assert min(stats.binomtest(int(c), n, p).pvalue for c, p in zip(counts, expected, strict=True)) > 2e-7


def test_gumbel_rankings_are_draws_without_replacement() -> None:
    """The first two of four, in order: Plackett-Luce. Union bound over 12 pairs, false alarm below 1e-6."""
    weights = [exp(s) for s in (0, 1, 2, 0)]
    n, source = 4000, InsecureSource(5)
    pairs = [tuple(ranking([0, 1, 2, 0], 2, source=source)) for _ in range(n)]
    for i in range(4):
        for j in range(4):
            if i != j:
                p = weights[i] / sum(weights) * weights[j] / (sum(weights) - weights[i])
                assert stats.binomtest(pairs.count((i, j)), n, p).pvalue > 1e-6 / 12


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@settings(max_examples=60)
@given(place=st.integers(1, 2**64 - 1), bits=st.integers(20, 120))
def test_quantiles_are_enclosed(noise: ContinuousNoise, place: int, bits: int) -> None:
    low, high = noise.quantile(place, 64, bits=bits)
    assert low is not None
    assert high is not None
    with mpmath.workdps(120):
        u = mpmath.mpf(place) / 2**64
        true = {
            GUMBEL: lambda: -mpmath.log(-mpmath.log(u)),
            EXPONENTIAL: lambda: -mpmath.log(1 - u),
            LAPLACE: lambda: mpmath.log(2 * u) if u < 0.5 else -mpmath.log(2 * (1 - u)),
        }[noise]() * mpmath.mpf(2) ** bits
        assert low <= true <= high
    assert high - low <= 16


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_ends_are_unbounded(noise: ContinuousNoise) -> None:
    assert noise.quantile(1 << 64, 64, bits=20) == (None, None)
    assert noise.quantile(0, 64, bits=20) == ((0, 0) if noise is EXPONENTIAL else (None, None))


def true_order(scores: list[Fraction], words: list[int], noise: ContinuousNoise) -> list[int]:
    """By mpmath, at the middle of each word's cell."""
    with mpmath.workdps(60):
        points = []
        for score, word in zip(scores, words, strict=True):
            u = (mpmath.mpf(word) + 0.5) / 2**64
            n = (
                -mpmath.log(-mpmath.log(u))
                if noise is GUMBEL
                else -mpmath.log(1 - u)
                if noise is EXPONENTIAL
                else mpmath.log(2 * u)
                if u < 0.5
                else -mpmath.log(2 * (1 - u))
            )
            points.append(mpmath.mpf(score.numerator) / score.denominator + n)
    return sorted(range(len(points)), key=lambda i: points[i], reverse=True)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_filter_and_the_comparison_agree_with_arithmetic_at_60_digits(noise: ContinuousNoise) -> None:
    rng = np.random.default_rng(3)
    for trial in range(40):
        scores = [Fraction(int(s), 8) for s in rng.integers(-20, 20, 30)]
        tape = RecordingSource(InsecureSource(trial))
        found = ranking(scores, 4, noise=noise, source=tape)
        assert tape.count == 30  # one word each
        assert found == true_order(scores, tape.record.tolist(), noise)[:4]


def test_the_filter_keeps_unbounded_words_and_distant_starts() -> None:
    """The largest word may win from any distance; the smallest bounds nobody from below."""
    top, zero = 2**64 - 1, 0
    starts = Gaps([0, 10**30, 10**30], Fraction(1))
    kept = _possible_winners(starts, np.array([2**63, top, 2**63], dtype=np.uint64), 1, GUMBEL, 64)
    assert kept.tolist() == [0, 1]
    starts = Gaps(
        [0, 10**30, 2 * 10**30], Fraction(1)
    )  # the last is cut to the start of the one before: that bounds no one
    kept = _possible_winners(starts, np.array([zero, 2**60, 2**63], dtype=np.uint64), 1, GUMBEL, 64)
    assert kept.tolist() == [0, 1, 2]


def test_equal_words_are_continued_until_they_differ() -> None:
    """With 1-bit words and equal scores the race is decided by refinement alone, and is fair: exact binomial, 1e-6."""
    source = RecordingSource(InsecureSource(2))
    wins = sum(ranking([0, 0], 1, source=source, word_bits=2)[0] for _ in range(2000))
    assert source.count > 4000
    assert stats.binomtest(wins, 2000, 0.5).pvalue > 1e-6


def test_a_noise_is_one_of_three_and_stays_itself() -> None:
    for noise in NOISES:
        assert pickle.loads(pickle.dumps(noise)) is noise
    with pytest.raises(InvalidArgument, match=r"noise must be a ContinuousNoise; .* Pass noise.GUMBEL"):
        race([1, 2], noise="gumbel")  # type: ignore[arg-type]


def test_many_contestants() -> None:
    scores = [0] * 50_000
    scores[777] = 60
    assert race(scores) == 777  # all others together: 50000 exp(-60)
    assert ranking(scores, 3)[0] == 777


@pytest.mark.parametrize(
    ("scores", "places", "rate", "message"),
    [
        ([], 1, 1, "at most the number of scores, 0"),
        ([1, 2], 3, 1, "at most the number of scores, 2"),
        ([1, 2], 0, 1, "places must be"),
        ([1, 2], 1, 0, "rate must be a positive number"),
        (np.zeros((2, 2)), 1, 1, "scores must be a list of numbers"),
    ],
)
def test_what_is_refused(scores: list[float], places: int, rate: float, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ranking(scores, places, rate=rate)
