"""How far discrete Laplace noise reaches, and what two noisy numbers say about their ratio.

For X with Pr[X = x] ∝ e^(−|x|/s) on the integers, Pr[|X| ≥ m] = 2 e^(−m/s) / (1 + e^(−1/s)) for m ≥ 1, exactly. An
interval here covers the privacy noise, and nothing else: not the sampling of people, not clamped values, not rows
left out.

>>> margin(Fraction(8), Fraction(1, 20))
24
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


def margin(scale: Fraction, failure: Fraction) -> int:
    """The smallest t with Pr[|X| > t] ≤ failure; rounding can only make it larger."""
    fall = math.exp(-float(min(1 / scale, Fraction(700))))
    ratio = 2.0 / (float(failure) * (1.0 + fall))
    if ratio <= 1.0:
        return 0
    # Relative errors of exp, log and the products stay far below 1e-12.
    reach = scale * Fraction(math.log(ratio)) * (1 + Fraction(1, 10**12))
    return max(0, math.ceil(reach) - 1)


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
