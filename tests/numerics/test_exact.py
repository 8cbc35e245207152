"""Exact fractions lie on the side they say, against mpmath and against themselves."""

from __future__ import annotations

from fractions import Fraction

import mpmath
from hypothesis import given
from hypothesis import strategies as st

from deniable.numerics import exact
from tests.accounting.filters.exact import positive, real


@given(positive)
def test_functions_are_rounded_to_the_side_they_say(x: Fraction) -> None:
    for down, up, true in (
        (exact.exp_down, exact.exp_up, mpmath.exp),
        (exact.log_down, exact.log_up, mpmath.log),
        (exact.sqrt_down, exact.sqrt_up, mpmath.sqrt),
    ):
        low, middle, high = real(down(x)), true(real(x)), real(up(x))
        assert low < middle < high
        assert high - low <= mpmath.mpf(10) ** -56 * max(1, abs(middle))
    assert real(exact.exp_down(-x)) < mpmath.exp(-real(x)) < real(exact.exp_up(-x))


@given(st.fractions(), st.integers(1, 10**9))
def test_grids_are_the_nearest_on_their_side(x: Fraction, grid: int) -> None:
    assert 0 <= exact.ceiling(x, grid=grid) - x < Fraction(1, grid)
    assert 0 <= x - exact.floor(x, grid=grid) < Fraction(1, grid)
    assert (exact.ceiling(x, grid=grid) * grid).denominator == 1


sizes = st.fractions(min_value=Fraction(1, 10**40), max_value=10**40) | st.floats(1e-300, 1e300).map(Fraction)


@given(sizes, st.integers(1, 20))
def test_short_decimals_are_the_nearest_on_their_side(x: Fraction, figures: int) -> None:
    low, high = exact.short_below(x, figures=figures), exact.short_above(x, figures=figures)
    assert low <= x <= high
    assert high - low <= x / 10 ** (figures - 1)
    for short in (low, high):
        digits = str(short.numerator * 10**400 // short.denominator).rstrip("0")
        assert len(digits) <= figures
        assert exact.short_below(short, figures=figures) == short == exact.short_above(short, figures=figures)
    assert low == high or (low < x < high)


def test_short_decimals_of_a_float_next_to_a_power_of_ten() -> None:
    """Its logarithm rounds to a whole number; the digits must not."""
    below = 9.999999999999999e-6
    assert exact.short_below(below, figures=4) == Fraction(9999, 10**9)
    assert exact.short_above(below, figures=4) == Fraction(1, 10**5)
    assert exact.short_above(0, figures=3) == exact.short_below(0.0, figures=3) == 0


@given(sizes, st.integers(1, 200))
def test_short_binary_fractions(x: Fraction, bits: int) -> None:
    low, high = exact.bits_below(x, bits=bits), exact.bits_above(x, bits=bits)
    assert low <= x <= high
    assert high - low <= x / 2 ** (bits - 1)
    odd = high.numerator // (high.numerator & -high.numerator)
    assert odd.bit_length() <= bits + 1


@given(sizes)
def test_roots_are_above_and_below(x: Fraction) -> None:
    root = exact.root_above(x)
    assert x <= root**2 <= x * (1 + Fraction(3, 10**14))
    assert exact.root_above(x**2) == x
    assert exact.rational_root(x**2) == x
    low = exact.root_below(x, decimals=9)
    assert low**2 <= x < (low + Fraction(1, 10**9)) ** 2


def test_the_root_of_hardly_more_than_a_square_is_above_its_root() -> None:
    """A fraction as close above the square of a fifteen-digit decimal as its denominator allows: n·D² − p²·d = 1."""
    p, scale = 10**14 + 1, 10**14
    d = -pow(p, -2, scale**2) % scale**2
    x = Fraction(p * p * d + 1, scale * scale * d)
    assert x - Fraction(p, scale) ** 2 == Fraction(1, d * scale**2)
    assert exact.root_above(x) == Fraction(p + 1, scale)


@given(st.integers(0, 10**40))
def test_whole_roots_are_rounded_up(x: int) -> None:
    root = exact.whole_root_above(x)
    assert (root - 1) ** 2 < x <= root**2 or root == x == 0
