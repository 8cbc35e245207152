"""Discrete Gaussian: exact acceptance, words independent of values. 3 seconds. Fit: tests/statistical."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import log, sqrt

import mpmath
import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.noise import InsecureSource, RecordingSource, ReplaySource, discrete_gaussian
from deniable.noise.discrete import FITS, DiscreteGaussianSampler


@pytest.mark.parametrize("variance", [Fraction(10**6), Fraction(10**12, 7), Fraction(10**24)])
def test_sure_bounds_accept_only_what_every_place_on_the_rung_accepts(variance: Fraction) -> None:
    sampler = DiscreteGaussianSampler(variance)
    far = (1 << sampler.low_bits) - 1
    for rung in [0, 1, 2, 3, 100, 101, 700, 1501]:
        foot = sampler._law.foot(rung)
        exponent = Fraction((foot + far) ** 2 - foot**2) / (2 * variance)
        with mpmath.workdps(60):
            least = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**64
            assert sampler._sure_list[rung] <= least
            assert least - sampler._sure_list[rung] < 2


@pytest.mark.parametrize("word_bits", [8, 64])
def test_acceptance_is_the_exponential(word_bits: int) -> None:
    """Words on both sides of the exact threshold decide without further bits, as the definition says."""
    sampler = DiscreteGaussianSampler(Fraction(10**8), word_bits=word_bits)
    for rung, place in [(0, 1), (1, sampler._length - 1), (40, 3), (333, 5), (700, sampler._length // 2)]:
        x = sampler._law.foot(rung)
        with mpmath.workdps(60):
            exponent = mpmath.mpf((x + place) ** 2 - x**2) / (2 * 10**8)
            threshold = int(mpmath.floor(mpmath.exp(-exponent) * 2**word_bits))
        nothing = InsecureSource(0).words(0)
        source = RecordingSource(InsecureSource(0)).replay()
        assert len(nothing) == source.count == 0
        if threshold:
            assert sampler._accepts(rung, place, threshold - 1, source)
        if threshold + 1 < 2**word_bits:
            assert not sampler._accepts(rung, place, threshold + 1, source)


def test_a_word_on_the_threshold_is_decided_by_the_next_ones() -> None:
    sampler = DiscreteGaussianSampler(Fraction(10**8), word_bits=8)
    rung, place = 40, sampler._length - 1
    threshold = sampler._sure_list[rung]  # the 8-bit word in which exp(-exponent) lies
    x = sampler._law.foot(rung)
    with mpmath.workdps(60):
        scaled = mpmath.exp(-mpmath.mpf((x + place) ** 2 - x**2) / (2 * 10**8)) * 256 - threshold
    assert 0 < scaled < 1
    # 20000 tosses of a coin with this bias: Hoeffding puts a deviation of 0.0191 at 2 exp(-2 n t**2) < 1e-6.
    source = InsecureSource(4)
    heads = sum(sampler._accepts(rung, place, threshold, source) for _ in range(20_000))
    assert abs(heads / 20_000 - float(scaled)) < sqrt(log(2e6) / 40_000)


@pytest.mark.parametrize("scale", [1e-3, 1, 100])
def test_small_scales_read_one_word_per_draw(scale: float) -> None:
    tape = RecordingSource(InsecureSource(3))
    discrete_gaussian(scale, 20_000, source=tape)
    assert tape.count == 20_000


@pytest.mark.parametrize("scale", [1e6, 1e12])
def test_large_scales_read_three_words_per_proposal(scale: float) -> None:
    tape = RecordingSource(InsecureSource(3))
    assert discrete_gaussian(scale, 20_000, source=tape).shape == (20_000,)
    assert tape.count % 3 == 0
    assert 60_000 <= tape.count < 1.03 * 60_000


def test_the_number_of_words_is_independent_of_the_value() -> None:
    """With few rungs many proposals are rejected; how many must not depend on what is finally returned.

    Two groups of at least 5000 draws: inner and outer values. The shares that needed a second proposal differ by more
    than the sum of their Hoeffding margins, each at 2.5e-7, with probability below 1e-6.
    """
    sampler = DiscreteGaussianSampler(Fraction(10**6), rungs=8)
    needed: dict[bool, list[int]] = defaultdict(list)
    tape = RecordingSource(InsecureSource(11))
    for _ in range(20_000):
        before = tape.count
        x = sampler.draw_one(tape)
        words = tape.count - before
        assert words % 3 == 0
        needed[abs(x) > 700].append(words > 3)
    margins = [sqrt(log(2 / 2.5e-7) / (2 * len(group))) for group in needed.values()]
    shares = [sum(group) / len(group) for group in needed.values()]
    assert min(len(group) for group in needed.values()) > 5000
    assert min(shares) > 0.1  # otherwise the test would show nothing
    assert abs(shares[0] - shares[1]) < sum(margins)


def test_arrays_and_single_draws_agree_word_for_word() -> None:
    sampler = DiscreteGaussianSampler(Fraction(10**8))
    tape = RecordingSource(InsecureSource(8))
    many = sampler._propose(50, tape)
    words = tape.record.reshape(-1, 50).T.reshape(-1)
    source = type(tape.replay())(words)
    assert [sampler.draw_one(source) for _ in range(len(many))] == many.tolist()


def test_huge_scales_are_python_integers() -> None:
    found = discrete_gaussian(1e30, 200)
    assert found.dtype == object
    assert all(type(x) is int for x in found)
    # Pr[all 200 within sigma / 1000] < (1/1000)**200, Pr[any beyond 12 sigmas] < 1e-29.
    assert 10**27 < max(abs(x) for x in found) < 12 * 10**30


def test_a_rung_beyond_the_table_is_never_accepted_by_the_bound_of_a_nearer_one() -> None:
    sampler = DiscreteGaussianSampler(Fraction(10**8))
    rung, far = 20 * len(sampler._sure_list), np.uint64(2**64 - 1)
    word = np.uint64(sampler._sure_list[-1] - 1)  # accepted everywhere on the last rung tabulated; here far too large
    sampler._table.draw = lambda size, source: np.full(size, rung)  # type: ignore[method-assign]
    sampler._table.draw_one = lambda source: rung  # type: ignore[method-assign]
    assert sampler._propose(1, ReplaySource(np.array([far, word]))).size == 0
    with pytest.raises(InvalidArgument, match="left to replay"):  # rejected, so it asks for the next proposal
        sampler.draw_one(ReplaySource(np.array([far, word])))


def test_a_draw_beyond_64_bits_turns_the_array_into_python_integers() -> None:
    sampler = DiscreteGaussianSampler(Fraction(2**53) ** 2)
    assert not sampler.wide
    far = 2 * (FITS >> sampler.low_bits) + 1
    sampler._table.draw = lambda size, source: np.full(size, far)  # type: ignore[method-assign]
    sampler._accepts = lambda *_: True  # type: ignore[method-assign]
    found = sampler.draw(3, InsecureSource(1))
    assert found.dtype == object
    assert max(found) < -FITS


def test_scale_and_variance_say_the_same() -> None:
    by_scale = discrete_gaussian(2.5, 1000, source=InsecureSource(1))
    by_variance = discrete_gaussian(variance=Fraction(25, 4), size=1000, source=InsecureSource(1))
    assert (by_scale == by_variance).all()
    assert type(discrete_gaussian(variance=2)) is int
    assert discrete_gaussian(3, (2, 5)).shape == (2, 5)


@pytest.mark.parametrize(
    "given", [{}, {"scale": 1, "variance": 1}, {"scale": 0}, {"variance": -1}, {"scale": [1]}, {"variance": [1]}]
)
def test_one_positive_scale_is_asked_for(given: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=r"(scale|variance) must be (a positive number|given, or variance)"):
        discrete_gaussian(**given)  # type: ignore[call-overload]
