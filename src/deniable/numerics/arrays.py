"""Functions of arrays with a stated error: the unit, the assumptions, e^t − 1 − t without cancellation, normal tails.

Everything the engines say about rounding rests on three assumptions, all of them true of IEEE double
precision with any current NumPy: `+ − × ÷ √` are correctly rounded; `exp`, `expm1`, `log`, `log1p`, `sin`, `cos` and
`arctan2` are within four units in the last place; a dot product of m terms is off by at most m units of the sum of
magnitudes (Higham 2002, §3.1, whatever the order of summation).

>>> float(excess(np.array([1e-9]))[0]) == 1e-18 / 2 * (1 + 1e-9 / 3)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]

UNIT = 2.0**-53
"""The relative error of one correctly rounded operation."""

CALL = 8 * UNIT
"""The relative error of one elementary function: four units in the last place."""

EXCESS = 64 * UNIT
"""The relative error of `excess`, and of `complex_excess` for an argument of real part at most 1; see there."""

_SERIES = [1.0 / k for k in range(18, 2, -1)]
_NEAR = 0.5

_ROOT_HALF = math.sqrt(0.5)
_SPLITTER = 2.0**21
"""Arguments are cut to a multiple of 2⁻²¹, so that squares up to 64² are exact."""


def _series(t: NDArray[np.inexact]) -> NDArray[np.inexact]:
    """t²/2 · (1 + t/3 (1 + t/4 (1 + …))): for |t| ≤ 1/2 the terms left out are below 2^−70 of the whole."""
    total = np.ones_like(t)
    for reciprocal in _SERIES:
        total = 1.0 + t * reciprocal * total
    return np.asarray(0.5 * t * t * total)


def excess(t: Reals) -> Reals:
    """e^t − 1 − t, never negative, with relative error at most `EXCESS`.

    Near 0 the series loses nothing: every bracket lies in [0.8, 1.25]. Elsewhere |expm1(t)| ≤ 4.4·excess(t) and
    |t| ≤ 4.7·excess(t), so that the two roundings cost 4.4·8 + 4.7 + 1 units at most.
    """
    near = np.abs(t) <= _NEAR
    value = np.asarray(np.expm1(t) - t)
    value[near] = _series(t[near])
    return value


def weighted_excess(weight: Reals, t: Reals) -> Reals:
    """e^weight (e^t − 1 − t) when e^t alone may overflow; 7 times the relative error of exp(weight + t) is added."""
    size = np.exp(weight)
    return np.where(t > 1.0, np.exp(weight + np.maximum(t, 1.0)) - size * (1.0 + t), size * excess(np.minimum(t, 1.0)))


def weighted_expm1(weight: Reals, t: Reals) -> Reals:
    """An upper bound on e^weight |e^t − 1|, up to rounding."""
    return np.where(t > 1.0, np.exp(weight + np.maximum(t, 1.0)), np.exp(weight) * np.abs(np.expm1(np.minimum(t, 1.0))))


def complex_excess(t: Complexes) -> tuple[Complexes, Reals]:
    """e^t − 1 − t at complex t, and a bound on its absolute error."""
    size = np.abs(t)
    near = size <= _NEAR
    value = np.exp(t) - 1.0 - t
    value[near] = _series(t[near])
    error = np.where(near, EXCESS * 0.6 * size * size, 2 * CALL * (np.exp(t.real) * (1 + size) + 1.0 + size))
    return value, error


def complex_third(t: Complexes) -> tuple[Complexes, Reals]:
    """e^t − 1 − t − t²/2 at complex t, and a bound on its absolute error."""
    size = np.abs(t)
    near = size <= _NEAR
    value = np.exp(t) - 1.0 - t - 0.5 * t * t
    total = np.ones_like(t[near])
    for reciprocal in _SERIES[:-1]:
        total = 1.0 + t[near] * reciprocal * total
    value[near] = t[near] ** 3 / 6 * total
    error = np.where(near, EXCESS * 0.25 * size**3, 2 * CALL * (np.exp(t.real) * (1 + size) + 1.0 + size + size * size))
    return value, error


def log_of_one_plus(real: Reals, imaginary: Reals) -> Complexes:
    """log(1 + a + ib). A modulus that rounding cannot tell from 0 becomes √UNIT: less than the callers' error bound."""
    square = np.maximum(real * (2.0 + real) + imaginary * imaginary, -1.0 + UNIT)
    return 0.5 * np.log1p(square) + 1j * np.arctan2(imaginary, 1.0 + real)


def bisect_all(
    holds: Callable[[Reals], NDArray[np.bool_]], fails: Reals, holding: Reals, *, turns: int
) -> tuple[Reals, Reals]:
    """`roots.bisect` for many borders at once: both sides of each after `turns` halvings."""
    for _ in range(turns):
        middle = (fails + holding) / 2
        over = holds(middle)
        fails, holding = np.where(over, fails, middle), np.where(over, middle, holding)
    return fails, holding


def exact_difference(z: Reals, by: float) -> tuple[Reals, Reals]:
    """z − by and what rounding took from it, exactly (Knuth 1969, two-sum).

    A tail far out is steep: a unit of its argument is many units of the tail, and the tails of two worlds must be those
    of one and the same point.
    """
    y = z - by
    back = y - z
    return y, (z - (y - back)) - (by + back)


def tail_at(point: tuple[Reals, Reals]) -> Reals:
    """P[Z > y + r] for a point that is an `exact_difference`."""
    y, rest = point
    steep = math.sqrt(2 / math.pi) / special.erfcx(np.clip(y, -8.0, 64.0) * _ROOT_HALF)
    return np.asarray(normal_above(y) * (1 - rest * steep))


def normal_above(x: Reals) -> Reals:
    """P[Z > x] for a standard normal Z, to a few units in the last place of the result, down to underflow."""
    at = np.minimum(np.abs(x), 64.0)
    tail = 0.5 * special.erfcx(at * _ROOT_HALF) * bell(at)
    return np.asarray(np.where(x > 0, tail, 1 - tail))


def bell(x: Reals) -> Reals:
    """e^{−x²/2}, the argument split so that its square is not rounded."""
    at = np.clip(x, -64.0, 64.0)
    coarse = np.round(at * _SPLITTER) / _SPLITTER
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(-coarse * coarse / 2) * np.exp(-(at - coarse) * (at + coarse) / 2))


def normal_above_scaled(x: Reals, other: tuple[Reals, Reals]) -> Reals:
    """P[Z > x]·e^{(x² − y²)/2}: a tail in units of the bell at another point, an `exact_difference`."""
    y, rest = other
    tail = 0.5 * special.erfcx(np.maximum(x, 0.0) * _ROOT_HALF) * bell(y) * (1 - rest * np.clip(y, -64.0, 64.0))
    # Left of 0 the tail is at least ½ and nothing underflows.
    with np.errstate(over="ignore", under="ignore"):
        near = normal_above(np.minimum(x, 0.0)) * np.exp(np.minimum((x - y) * (x + y) / 2, 700.0))
    return np.where(x > 0, tail, near)
