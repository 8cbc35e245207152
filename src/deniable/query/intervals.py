"""How far discrete Laplace noise reaches, and what two noisy numbers say about their ratio.

For X with Pr[X = x] ∝ e^(−|x|/s) on the integers, Pr[|X| ≥ m] = 2 e^(−m/s) / (1 + e^(−1/s)) for m ≥ 1, exactly. An
interval here covers the privacy noise, and nothing else: not the sampling of people, not clamped values, not rows
left out.

>>> margin(Fraction(8), Fraction(1, 20))
24
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
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


@lru_cache(maxsize=4096)
def sum_margin(scale: Fraction, weights: tuple[tuple[float, int], ...], failure: Fraction) -> float:
    """A t with Pr[Σ wᵢXᵢ > t] ≤ failure, for independent discrete Laplace Xᵢ; `weights` are (weight, how many).

    Every term is rounded up to a lattice and the laws are convolved, so the sum can only come out larger. The lattice
    is wide enough that what wraps around it has a millionth of the failure probability, by Chernoff's bound.
    """
    used = [(abs(weight), many) for weight, many in weights if weight and many]
    if not used:
        return 0.0
    rare = float(failure) * 1e-6
    reach, rate = _chernoff(scale, used, rare), _rate(scale)
    step = max(weight for weight, _ in used) * max(float(scale), 1.0) / 64
    size = 1 << max(6, math.ceil(math.log2(2 * reach / step)) + 1)
    law = np.ones(size // 2 + 1, dtype=np.complex128)
    places = np.arange(-(size // 2), size // 2)
    for weight, many in used:
        below = _cumulative(np.floor(places * (step / weight)), rate)
        below[-1] = 1.0
        law *= np.fft.rfft(np.roll(np.diff(below, prepend=0.0), size // 2)) ** many
    masses = np.roll(np.fft.irfft(law, size), size // 2)
    beyond = np.cumsum(masses[::-1])[::-1] - masses + 2 * rare + 1e-12
    return float(places[np.argmax(beyond <= float(failure))] * step)


def _cumulative(k: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Pr[X ≤ k] for discrete Laplace noise of scale 1/rate, at whole numbers."""
    fall = math.exp(-rate)
    above = np.exp(-rate * (np.maximum(k, 0) + 1)) / (1 + fall)
    return np.where(k >= 0, 1 - above, np.exp(-rate * np.maximum(-k, 0)) / (1 + fall))


def _rate(scale: Fraction) -> float:
    return float(min(1 / scale, Fraction(700)))


def _chernoff(scale: Fraction, weights: Sequence[tuple[float, int]], failure: float) -> float:
    """Chernoff: Pr[S > t] ≤ exp(Σ ln M(λwᵢ) − λt) for every λ > 0 with λwᵢ below the rate 1/s, where M(λ) = (1 − r)² /
    ((1 − r e^λ)(1 − r e^(−λ))), r = e^(−1/s). Any λ gives a bound, so the best of a list is one."""
    rate = _rate(scale)
    tilts = np.linspace(0.01, 0.99, 99) * rate / max(weight for weight, _ in weights)
    nats = np.full_like(tilts, -math.log(failure))
    for weight, many in weights:
        x = tilts * weight
        nats += many * (2 * math.log(-math.expm1(-rate)) - np.log(-np.expm1(x - rate)) - np.log(-np.expm1(-x - rate)))
    return float(np.min(nats / tilts)) * (1 + 1e-9)
