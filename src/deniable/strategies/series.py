"""Power series: the algebra of lower-triangular Toeplitz matrices, whose products are products of series.

>>> inverse(np.array([1.0, -0.5]), 4)
array([1.   , 0.5  , 0.25 , 0.125])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FEW, _SHORT = 64, 256


def square_root(steps: int) -> Array:
    """The coefficients C(2k, k)/4^k of (1 − z)^(−1/2): the square root of the matrix of prefix sums."""
    ratios = np.ones(steps)
    k = np.arange(1, steps)
    ratios[1:] = 1 - 1 / (2 * k)
    return np.asarray(np.cumprod(ratios))


def inverse(series: Array, terms: int) -> Array:
    """1/series: by back-substitution for few coefficients, by doubling (Newton) for many."""
    if len(series) <= _FEW or terms <= _SHORT:
        return _substitute(series[:terms], terms)
    quotient = _substitute(series[:_SHORT], _SHORT)
    while len(quotient) < terms:
        size = min(2 * len(quotient), terms)
        error = -product(series, quotient, size)
        error[0] += 2.0
        quotient = product(quotient, error, size)
    return quotient


def product(left: Array, right: Array, terms: int) -> Array:
    """The first terms of a product of two series."""
    return _convolve(left[:terms], right[:terms], 0, terms)


def correlation(left: Array, right: Array, terms: int) -> Array:
    """Σ_t left_{t+k}·right_t for k below `terms`: the adjoint of `product`."""
    return _convolve(left, right[::-1], len(right) - 1, terms)


def _substitute(series: Array, terms: int) -> Array:
    """The first column of the inverse of a banded Toeplitz matrix."""
    from scipy.linalg.lapack import dtbtrs

    impulse = np.zeros((terms, 1))
    impulse[0] = 1.0
    band = np.repeat(series[:, None], terms, axis=1)
    return np.asarray(dtbtrs(band, impulse, uplo="L")[0][:, 0])


def _convolve(left: Array, right: Array, start: int, terms: int) -> Array:
    """A stretch of the full convolution, with zeros behind its end."""
    size = 1 << (len(left) + len(right) - 2).bit_length() if len(left) + len(right) > 2 else 1
    whole = np.fft.irfft(np.fft.rfft(left, size) * np.fft.rfft(right, size), size) if size > 1 else left * right
    stretch = whole[: len(left) + len(right) - 1][start : start + terms]
    return np.asarray(np.pad(stretch, (0, terms - len(stretch))))
