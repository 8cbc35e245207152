"""What floating point costs: the unit, the assumptions, and e^t − 1 − t without cancellation.

Everything the contour engine says about rounding rests on three assumptions, all of them true of IEEE double
precision with any current NumPy: `+ − × ÷ √` are correctly rounded; `exp`, `expm1`, `log`, `log1p`, `sin`, `cos` and
`arctan2` are within four units in the last place; a dot product of m terms is off by at most m units of the sum of
magnitudes (Higham 2002, §3.1, whatever the order of summation).

>>> float(excess(np.array([1e-9]))[0]) == 1e-18 / 2 * (1 + 1e-9 / 3)
True
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    found = np.asarray(np.expm1(t) - t)
    found[near] = _series(t[near])
    return found


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
