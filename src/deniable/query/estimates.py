"""What an aggregate is: the measures it needs, and how it reads its answer off their noisy values; and intervals.

An interval covers the privacy noise; where `Noisy.share` is known it covers the limits too. How far the noise of one
number reaches is a matter of its law (`noises.IntegerNoise`).

**What limits leave out.** Let O be the units beyond a limit or with a clamped value, and at most m of them. All others
count in full. So an exact measure M of the bounded table is the measure of the table without O, plus what O still adds
to it: m units add between m·R·min(low, 0) and m·R·max(high, 0) to one group (`measures`). The number of different
values is no sum, but rows of O bring between 0 and m·R new ones, which is the same range. If M lies within the noise
margin r of its noisy value x, the measure of the table without O lies in [x − r − most, x + r − least].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.query.measures import Measure
from deniable.query.noises import IntegerNoise


class IntervalEnds(NamedTuple):
    """The lower and the upper ends of intervals."""

    low: NDArray[Any]
    high: NDArray[Any]


class Noisy(NamedTuple):
    """A measure with its noise: integers per group, and the law of the noise in them."""

    values: NDArray[Any]
    law: IntegerNoise
    share: tuple[int, int] | None = None
    """The least and the most that units beyond the limits add to one group; None where an interval is for the noise
    alone."""

    def margin(self, failure: Fraction) -> int:
        """How far each value may be off, but for a probability of `failure` per value."""
        return self.law.radius(failure)

    def ends(self, failure: Fraction) -> IntervalEnds:
        """The ends of an interval around each value that fails with at most this probability."""
        far, (least, most) = self.margin(failure), self.share or (0, 0)
        values = roomy(self.values, far + max(most, -least))
        return IntervalEnds(values - far - most, values + far - least)


def possible(ends: IntervalEnds, *, low: int, high: int) -> IntervalEnds:
    """The ends of the interval of a sum, cut at 0 where every row adds between `low` and `high`, both on one side."""
    if low >= 0:
        return IntervalEnds(*(np.maximum(end, 0) for end in ends))
    return IntervalEnds(*(np.minimum(end, 0) for end in ends)) if high <= 0 else ends


class EstimateColumn(NamedTuple):
    """A released column: one value per group, with the ends of its interval."""

    value: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]

    @property
    def endings(self) -> tuple[str, ...]:
        """What the names of the three columns end in."""
        return "", "_low", "_high"


class Choice(NamedTuple):
    """A released column of choices: one category per group, and those that it may be in truth."""

    value: NDArray[Any]
    among: NDArray[Any]

    @property
    def endings(self) -> tuple[str, ...]:
        """What the names of the two columns end in."""
        return "", "_among"


class ExpectedError(ABC):
    """What the noise does to one aggregate, known before any data are read."""

    confidence: Fraction

    @abstractmethod
    def __call__(self, rows: int | None = None) -> float:
        """The error that is not exceeded with the stated confidence, in a group that keeps this many rows."""

    @property
    def size_of_noise(self) -> float:
        """A number that grows with the noise alone, by which two noises for one question are compared."""
        return self(_MANY)

    @abstractmethod
    def __str__(self) -> str: ...


_MANY = 10**12
"""Rows of a group so large that the error of a ratio is in proportion to its noise."""


@dataclass(frozen=True)
class Aggregate(ABC):
    """One aggregate of one query. Its fields are public; the data arrive as arguments of `estimate`."""

    name: str

    @property
    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """What must be measured for it; equal measures of several aggregates are measured once."""

    def with_keys(self, keys: Mapping[Any, list[Any]]) -> Aggregate:
        """The aggregate, told the keys of every group: those that compute with keys need them."""
        return self

    def part(self, places: NDArray[np.int64]) -> Aggregate:
        """The aggregate of some groups."""
        return self

    @abstractmethod
    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn | Choice:
        """The released column. Each interval fails with at most this probability."""

    @abstractmethod
    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        """The expected error with this noise."""


@dataclass(frozen=True)
class PlainError(ExpectedError):
    """An error that is the same in every group."""

    size: Fraction
    confidence: Fraction

    def __call__(self, rows: int | None = None) -> float:
        return float(self.size)

    def __str__(self) -> str:
        return f"± {rounded(float(self.size))}"


def rounded(value: float) -> str:
    """A size to three significant digits, in plain digits where they are short.

    >>> rounded(1234567), rounded(0.01234), rounded(24)
    ('1,230,000', '0.0123', '24')
    """
    if value == 0:
        return "0"
    short = float(f"{value:.3g}")
    return f"{short:,.0f}" if abs(short) >= 100 or short == int(short) else f"{short:g}"


def roomy(values: NDArray[Any], margin: int) -> NDArray[Any]:
    """Integers to which a margin can be added without overflow: Python's own where 64 bits would not do."""
    return values if margin < 1 << 61 else values.astype(object)


def ratio_range(sums: IntervalEnds, counts: IntervalEnds, *, low: int, high: int) -> IntervalEnds:
    """The range of s/c over all s and c ≥ 1 within their intervals, cut to [low, high].

    s/c grows with s, and is monotone in c for a fixed s, so its extremes are at corners: the largest s over the
    smallest c when that s is positive, over the largest c when it is negative; the other way round below. Where not
    even c = 1 is within its interval there may be no value at all, and the range is [low, high].
    """
    bottom, top = sums
    known = counts.high >= 1
    fewest, most = (np.maximum(end, 1) for end in counts)
    upper = divided(top, np.where(top >= 0, fewest, most))
    lower = divided(bottom, np.where(bottom >= 0, most, fewest))
    cut_low, cut_high = float(low), float(high)
    upper = np.where(known, np.clip(upper, cut_low, cut_high), cut_high)
    lower = np.where(known, np.clip(lower, cut_low, cut_high), cut_low)
    return IntervalEnds(lower, upper)


def divided(tops: NDArray[Any], bottoms: NDArray[Any]) -> NDArray[np.float64]:
    """Integers over positive integers, as floats; exact integers beyond 64 bits are allowed."""
    return np.asarray(np.asarray(tops / bottoms), dtype=np.float64)


def outward(
    low: NDArray[np.float64], high: NDArray[np.float64], *, least: float, most: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends of intervals within [least, most], rounded outward to four digits of half their width, so that they can
    be read and still cover what they covered.

    They are whole multiples of a power of ten, less than 10¹² of them, so that the few roundings of floats which the
    ends have been through are below a thousandth of it: an end that near to a multiple goes on to the next.
    """
    half = np.maximum((high - low) / 2, np.finfo(np.float64).tiny)
    furthest = max(abs(least), abs(most), np.finfo(np.float64).tiny)
    digits = np.minimum(3 - np.floor(np.log10(half)), 11 - math.floor(math.log10(furthest))).astype(np.int64)
    up, down = (_TENS[np.clip(sign * digits, 0, len(_TENS) - 1)] for sign in (1, -1))
    lower = np.floor(low * up / down - 1e-3) * down / up
    upper = np.ceil(high * up / down + 1e-3) * down / up
    return np.maximum(lower, least), np.minimum(upper, most)


_TENS = np.array([float(10**power) for power in range(23)])
"""The powers of ten that are floats."""
