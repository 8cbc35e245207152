"""What the tests of the filters share: exact fractions as high-precision numbers, orders, and fractions to try."""

from __future__ import annotations

from fractions import Fraction

import mpmath
from hypothesis import strategies as st

from deniable.units import Relation

ORDERS = tuple(map(Fraction, (2, 3, 8, 45)))
REPLACE = Relation.REPLACE


def real(x: Fraction | int) -> mpmath.mpf:
    return mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator


positive = st.fractions(min_value=Fraction(1, 10**6), max_value=500)
small = st.fractions(min_value=Fraction(1, 10**4), max_value=8)
