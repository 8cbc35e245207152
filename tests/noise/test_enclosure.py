"""Certified bounds of exp and log, against mpmath at far higher precision. 1 second."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.noise.enclosure import ceil_div, ceil_shift, exp_neg, log, product

arguments = st.one_of(
    st.fractions(min_value=0, max_value=200),
    st.fractions(min_value=0, max_value=Fraction(1, 1000)),
    st.integers(0, 300).map(Fraction),
    st.builds(lambda n, e: Fraction(n, 1 << e), st.integers(0, 1 << 80), st.integers(75, 200)),
)
ratios = st.builds(Fraction, st.integers(1, 1 << 200), st.integers(1, 1 << 200))


@given(x=arguments, bits=st.integers(1, 400))
def test_exp_neg_encloses(x: Fraction, bits: int) -> None:
    low, high = exp_neg(x.numerator, x.denominator, bits=bits)
    with mpmath.workprec(bits + 500):
        true = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= true <= high
    assert low >= 0
    assert high - low <= 2


@given(x=ratios, bits=st.integers(1, 400))
def test_log_encloses(x: Fraction, bits: int) -> None:
    low, high = log(x.numerator, x.denominator, bits=bits)
    with mpmath.workprec(bits + 700):
        true = mpmath.log(mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= true <= high
    assert high - low <= 4


def test_log_close_to_one() -> None:
    one = 1 << 64
    low, high = log(one, one - 1, bits=200)
    with mpmath.workprec(900):
        true = -mpmath.log(1 - mpmath.mpf(2) ** -64) * mpmath.mpf(2) ** 200
        assert low <= true <= high
    assert low > 0


def test_exact_ends() -> None:
    assert exp_neg(0, 1, bits=30) == (1 << 30, 1 << 30)
    assert exp_neg(10**9, 1, bits=30) == (0, 1)
    assert log(1, 1, bits=30)[0] == 0


@pytest.mark.parametrize(("value", "bits", "expected"), [(8, 3, 1), (9, 3, 2), (0, 3, 0), (-9, 3, -1)])
def test_ceil_shift(value: int, bits: int, expected: int) -> None:
    assert ceil_shift(value, bits) == expected == ceil_div(value, 1 << bits)


@given(st.tuples(st.integers(0, 255), st.integers(0, 3)), st.tuples(st.integers(0, 255), st.integers(0, 3)))
def test_product_encloses(one: tuple[int, int], other: tuple[int, int]) -> None:
    (a, wide), (b, broad) = one, other
    low, high = product((a, a + wide), (b, b + broad), 8)
    assert low <= Fraction(a * b, 256)
    assert Fraction((a + wide) * (b + broad), 256) <= high
