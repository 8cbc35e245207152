"""Between balls and doubles: rounding goes outwards. No time at all."""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.accounting.proof.transforms import around, ball, down, precision, up


def test_a_third_lies_between_its_two_doubles() -> None:
    with precision(200):
        third = ball(Fraction(1, 3))
        assert Fraction(down(third)) < Fraction(1, 3) < Fraction(up(third))
        assert math.nextafter(down(third), 1) == up(third)


def test_an_exact_double_is_its_own_bound() -> None:
    with precision(100):
        assert down(ball(0.1)) == up(ball(0.1)) == 0.1


def test_the_radius_counts() -> None:
    with precision(100):
        wide = ball(1) + around(ball(Fraction(1, 2)))
        assert down(wide) <= 0.5
        assert up(wide) >= 1.5


def test_what_overflows_is_infinite() -> None:
    with precision(100):
        assert up(ball(Fraction(10) ** 400)) == math.inf
        assert down(-ball(Fraction(10) ** 400)) == -math.inf


def test_precision_is_given_back() -> None:
    import flint

    before = flint.ctx.prec
    with precision(333):
        assert flint.ctx.prec == 333
    assert flint.ctx.prec == before
