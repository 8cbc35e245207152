"""Which clipping norms can be held.

Norms are roots of sums of squares in fp32, which has nothing below 2⁻¹⁴⁹. A gradient of 10⁸ numbers and norm 10⁻¹⁴ has
squares of 10⁻³⁶ on average, which are still there; those of a gradient of norm 10⁻²⁰ are gone, and it would not be
clipped.

>>> checked(0.5)
Fraction(1, 2)
"""

from __future__ import annotations

from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument

LEAST = Fraction(1, 10**14)


def checked(clip: Number) -> Fraction:
    """A clipping norm, if it can be held."""
    found = _checks.positive("clip", clip)
    if found < LEAST:
        raise InvalidArgument("clip", clip, "at least 1e-14", "Below it squares underflow; scale the loss up instead.")
    return found
