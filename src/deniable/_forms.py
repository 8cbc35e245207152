"""One form of data: `to_dict()` gives plain values with numbers as numbers, `to_json()` is its text.

Everything that can be planned, released or recorded is `Plain`. A fraction with a short decimal becomes that number.
One without, such as 8/1875, becomes the text "8/1875", so that reading it back gives the same fraction. This is a
module of its own because every room imports it and it imports none.

>>> plain_number(Fraction(1, 10)), plain_number(Fraction(3)), plain_number(Fraction(8, 1875))
(0.1, 3, '8/1875')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

from deniable._checks import shown
from deniable._escapes import dump_json

LARGEST_WHOLE = 2**53
"""Whole numbers up to this one mean the same to every reader of JSON."""


class Plain(ABC):
    """An object with a form for machines: plain data, and its JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values: text, numbers, lists and dictionaries. Epsilon and delta are numbers, events are objects."""

    def to_json(self) -> str:
        """`to_dict()` as one line of JSON."""
        return dump_json(self.to_dict())


def plain_number(value: Fraction) -> int | float | str:
    """An exact number for JSON: a number where its decimal is exact, else the text of the fraction."""
    if value.denominator == 1:
        return value.numerator if abs(value.numerator) <= LARGEST_WHOLE else shown(value)
    text = shown(value)
    return text if "/" in text else float(text)
