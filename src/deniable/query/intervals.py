"""What two noisy numbers say about their ratio, and ends of intervals that can be read.

An interval here covers the privacy noise, and nothing else: not the sampling of people, not clamped values, not rows
left out. How far the noise of one number reaches is `numerics.discrete.laplace_radius`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def roomy(values: NDArray[Any], margin: int) -> NDArray[Any]:
    """Integers to which a margin can be added without overflow: Python's own where 64 bits would not do."""
    return values if margin < 1 << 61 else values.astype(object)


def ratio_range(
    sums: NDArray[Any], counts: NDArray[Any], *, sum_margin: int, count_margin: int, low: int, high: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The range of s/c over |s − sums| ≤ sum_margin, |c − counts| ≤ count_margin, c ≥ 1, cut to [low, high].

    s/c grows with s, and is monotone in c for a fixed s, so its extremes are at corners: the largest s over the
    smallest c when that s is positive, over the largest c when it is negative; the other way round below. Where not
    even c = 1 is within the margin there may be no value at all, and the range is [low, high].
    """
    sums, counts = roomy(sums, sum_margin), roomy(counts, count_margin)
    most = counts + count_margin
    fewest = np.maximum(counts - count_margin, 1)
    top, bottom = sums + sum_margin, sums - sum_margin
    known = most >= 1
    most = np.maximum(most, 1)
    upper = divided(top, np.where(top >= 0, fewest, most))
    lower = divided(bottom, np.where(bottom >= 0, most, fewest))
    cut_low, cut_high = float(low), float(high)
    upper = np.where(known, np.clip(upper, cut_low, cut_high), cut_high)
    lower = np.where(known, np.clip(lower, cut_low, cut_high), cut_low)
    return lower, upper


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
