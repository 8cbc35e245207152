"""An estimate with an interval, as local reports give it."""

from __future__ import annotations

import math
from typing import NamedTuple

from deniable import _checks


class Estimate(NamedTuple):
    """A number and the interval that holds the truth with the stated probability."""

    value: float
    lower: float
    upper: float


def hoeffding(failure: float, n: int) -> float:
    """How far the mean of n independent numbers in [0, 1] strays from its expectation: √(ln(2/failure)/(2n))."""
    return math.sqrt(math.log(2 / failure) / (2 * n)) * (1 + 1e-12)


def people(name: str, n: int | None) -> int:
    """The number of people an accuracy is stated for."""
    return _checks.count(name, n)


def around(value: float, radius: float, *, low: float = 0.0, high: float = 1.0) -> Estimate:
    """An unbiased estimate, which may lie outside, and its interval cut to what is possible."""
    return Estimate(value, min(max(value - radius, low), high), max(min(value + radius, high), low))
