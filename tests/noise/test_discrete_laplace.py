"""Discrete Laplace: exact parts, constant words, no overflow. 2 seconds. Goodness of fit is in tests/statistical."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.noise import InsecureSource, RecordingSource, discrete_laplace
from deniable.noise.discrete import FITS, DiscreteLaplaceSampler
from deniable.noise.laws import Ladder, Run

SCALES = [Fraction(1, 1000), Fraction(3, 10), Fraction(1), Fraction(100), Fraction(10**6), Fraction(10**12)]


@pytest.mark.parametrize("scale", [Fraction(1, 1000), Fraction(1), Fraction(7, 3) * 10**4, Fraction(10**12)])
def test_the_parts_multiply_to_the_law(scale: Fraction) -> None:
    """Sign, rung and digits have exponents that add up to |x| / scale, for every x: the factorisation, in fractions."""
    sampler = DiscreteLaplaceSampler(scale)
    top = sampler._top.law
    assert isinstance(top, Ladder)
    assert top.rate == 1 / scale
    assert top.length == 1 << sampler.low_bits
    assert sum(width for width, _ in sampler._low) == sampler.low_bits
    for x in [0, -1, 1, 5, -6, top.length - 1, -top.length, top.length, -top.length - 1, 987654321 % (9 * top.length)]:
        y = x if x >= 0 else ~x
        exponent = top.rate * top.foot(2 * (y >> sampler.low_bits) + (x < 0))
        left = sampler.low_bits
        for width, table in sampler._low:
            assert isinstance(table.law, Run)
            assert table.law.count == 1 << width
            left -= width
            exponent += table.law.step * (y >> left & (1 << width) - 1)
        assert exponent == abs(x) / scale


@pytest.mark.parametrize("scale", SCALES)
def test_every_draw_reads_the_same_number_of_words(scale: Fraction) -> None:
    tables = 1 + len(DiscreteLaplaceSampler(scale)._low)
    tape = RecordingSource(InsecureSource(3))
    discrete_laplace(scale, 20_000, source=tape)
    assert tape.count == 20_000 * tables
    for _ in range(500):
        before = tape.count
        discrete_laplace(scale, source=tape)
        assert tape.count - before == tables


def test_arrays_and_single_draws_agree_word_for_word() -> None:
    sampler = DiscreteLaplaceSampler(Fraction(100))
    tape = RecordingSource(InsecureSource(8))
    many = sampler.draw(50, tape)
    words = tape.record.reshape(-1, 50).T.reshape(-1)  # arrays read table by table, single draws draw by draw
    source = type(tape.replay())(words)
    assert [sampler.draw_one(source) for _ in range(50)] == many.tolist()


def test_negative_and_positive_mirror() -> None:
    sampler = DiscreteLaplaceSampler(Fraction(2))
    foots = [sampler._top.law.foot(k) for k in range(6)]  # type: ignore[attr-defined]
    assert foots == [0, 1, 1, 2, 2, 3]  # 0, -1, 1, -2, 2, -3


def test_a_tiny_scale_adds_nothing_to_be_seen() -> None:
    assert not discrete_laplace(1e-3, 100_000).any()  # Pr[any] < 1e5 * 2 exp(-1000)


@pytest.mark.parametrize("scale", [10**17, 1e30, Fraction(10**60, 7)])
def test_huge_scales_are_python_integers(scale: object) -> None:
    found = discrete_laplace(scale, 300)  # type: ignore[call-overload]
    assert found.dtype == object
    assert all(type(x) is int for x in found)
    # Pr[all 300 within scale / 1000] < (1/1000)**300, Pr[any beyond 60 scales] < 300 exp(-60).
    assert max(abs(x) for x in found) > Fraction(scale) / 1000
    assert max(abs(x) for x in found) < 60 * Fraction(scale)


def test_a_draw_beyond_64_bits_turns_the_array_into_python_integers() -> None:
    """At scale 2**53 such a draw never happens; a table told to return it shows that it is neither wrapped nor cut."""
    sampler = DiscreteLaplaceSampler(Fraction(2**53))
    assert not sampler.wide
    far = 2 * (FITS >> sampler.low_bits) + 1  # the first rung below -2**62
    plain = sampler._top.draw
    sampler._top.draw = lambda size, source: np.where(np.arange(size) == 1, far, plain(size, source))  # type: ignore[method-assign]
    found = sampler.draw(3, InsecureSource(1))
    assert found.dtype == object
    assert found[1] < -FITS
    assert abs(found[0]) < FITS
    sampler._top.draw = lambda size, source: np.where(np.arange(size) == 1, far - 2, plain(size, source))  # type: ignore[method-assign]
    assert sampler.draw(3, InsecureSource(1)).dtype == np.int64


def test_shapes_and_types() -> None:
    assert type(discrete_laplace(3)) is int
    assert discrete_laplace(3, 0).shape == (0,)
    assert discrete_laplace(3, (4, 5)).shape == (4, 5)
    assert discrete_laplace(np.float64(0.5), np.int64(7)).dtype == np.int64  # type: ignore[call-overload]
    assert discrete_laplace(3, 40_000).shape == (40_000,)


def test_a_float_is_its_shortest_decimal() -> None:
    one = discrete_laplace(0.1, 1000, source=InsecureSource(1))
    other = discrete_laplace(Fraction(1, 10), 1000, source=InsecureSource(1))
    assert (one == other).all()


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), "1", None, True, [1], np.ones(2)])
def test_a_scale_is_a_positive_number(scale: object) -> None:
    with pytest.raises(InvalidArgument, match="scale must be a positive number"):
        discrete_laplace(scale)  # type: ignore[call-overload]


@pytest.mark.parametrize("size", [-1, 1.5, "3", (2, -1), True])
def test_a_size_is_a_shape(size: object) -> None:
    with pytest.raises(InvalidArgument, match="size must be"):
        discrete_laplace(1, size)  # type: ignore[call-overload]
