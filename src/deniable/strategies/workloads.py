"""Workloads: the linear map A from noisy gradients to models, whose error a strategy keeps small.

A model after t steps is a linear map of the gradients so far, so its noise is a row of A·(C⁻¹z).

| workload | the optimizer | A is Toeplitz with series |
|---|---|---|
| `Workload()` | SGD: prefix sums | 1/(1 − z) |
| `Workload(momentum=β)` | SGD with momentum | 1/((1 − z)(1 − βz)) |
| `Workload(decay=α)` | SGD with weights multiplied by α each step | 1/(1 − αz) |
| `Workload(decay=0)` | none: single steps | 1 |

All have an inverse with two or three coefficients, which is what makes their errors cheap (`variances`).

>>> Workload(momentum=0.5).coefficients(4)
array([1.   , 1.5  , 1.75 , 1.875])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from deniable import _checks
from deniable.strategies import series
from deniable.strategies.series import Array


@dataclass(frozen=True)
class Workload:
    """SGD with momentum and decay, as the map from gradients to models.

    Args:
        momentum: at least 0 and below 1.
        decay: the weights are multiplied by it in each step; 1 for plain SGD.
    """

    momentum: float = 0.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        _checks.between("momentum", self.momentum, low=0, high=1, open_high=True, expected="at least 0 and below 1")
        _checks.between("decay", self.decay, low=0, high=1, expected="at least 0 and at most 1")

    @property
    def inverse(self) -> Array:
        """The series of A⁻¹: (1 − αz)(1 − βz)."""
        steady = np.array([1.0, -float(self.decay)])
        return np.convolve(steady, [1.0, -float(self.momentum)]) if self.momentum else steady

    def coefficients(self, steps: int) -> Array:
        """The first column of A."""
        return series.inverse(self.inverse, steps)


PREFIX = Workload()
"""Prefix sums: every model counts, and all count the same."""

EACH = Workload(decay=0)
"""Single steps: each released sum is used by itself, with the noise of its own step."""


def variances(rows: Array, workload: Workload) -> Array:
    """The variances of all models; `rows[t, k]` is C[t, t − k]."""
    return Recursion(workload).forward(rows)


class Recursion:
    """The error of a banded strategy (`forward`) and its gradient (`backward`), in O(T·b²) time and O(T·b) memory.

    The noise of the models is ν = A·C⁻¹z = R⁻¹z with R = C·A⁻¹. A workload's A⁻¹ has two or three diagonals, so R has w
    = b + 1 (or b + 2) of them, and ν follows a recursion of that order:

        ν_t = Σ_{0<m<w} f_m ν_{t−m} + z_t/R[t, t],   f_m = −R[t, t−m]/R[t, t].

    Its covariances K[i, j] for |i − j| < w follow from each other in the same way, row by row; the variances of all
    models are the diagonal of K, and the gradient runs the recursion backwards. K is kept as a band in which every
    square window K[t−w+1 … t−1, t−w+1 … t−1] is a strided view, so each step is one matrix-vector product. Dense
    matrices of size T never appear (they do in the published optimisers, which take O(T²·b) or O(T³)).

    >>> variances(np.ones((4, 1)), PREFIX)  # independent noise: the variance of a prefix sum is its length
    array([1., 2., 3., 4.])
    """

    def __init__(self, workload: Workload) -> None:
        self._lag = workload.inverse

    def forward(self, rows: Array) -> Array:
        """The variances of all models."""
        steps = len(rows)
        past = rows.shape[1] + len(self._lag) - 2  # w − 1
        mixed = self._mix(rows, past)
        self._scale = 1.0 / mixed[:, 0]
        # Newest first in time is last in memory: f is stored oldest first, to match the windows.
        self._weights = np.ascontiguousarray((-mixed[:, 1:] * self._scale[:, None])[:, ::-1])
        self._past, self._steps = past, steps
        self._band = np.zeros((past + steps, 2 * past + 1))
        model_variances = np.empty(steps)
        for t in range(steps):
            here = past + t
            f = self._weights[t]
            covariances = self._window(self._band, t) @ f
            model_variances[t] = f @ covariances + self._scale[t] ** 2
            self._set_row(self._band, here, covariances, model_variances[t])
        return model_variances

    def backward(self, weights: Array) -> Array:
        """The gradient of Σ weights_t·variance_t with respect to `rows`."""
        past, steps = self._past, self._steps
        width = 2 * past
        # dK[t, ·] is a sum over the `past` steps after t of back·fᵀ + f·backᵀ. Both are kept, padded by zeros on the
        # left and below, so that the parts of row t are again a strided view.
        f_after, back_after = np.zeros((2, steps + past + 1, width))
        f_after[:steps, past:] = self._weights
        slopes = np.empty((steps, past + 1))
        for t in range(steps - 1, -1, -1):
            f = self._weights[t]
            from_f, from_back = self._diagonal(f_after, t), self._diagonal(back_after, t)
            own = weights[t] + from_f @ from_back
            back = from_back @ self._earlier(f_after, t) + from_f @ self._earlier(back_after, t) + own * f
            back_after[t, past:] = back
            slopes[t, 0] = own
            slopes[t, :0:-1] = own * self._band[past + t, :past] + self._window(self._band, t) @ back
        # From (f, 1/R²) back to R, then through the convolution with A⁻¹ to C.
        scale = self._scale
        mixed = np.empty_like(slopes)
        mixed[:, 1:] = -slopes[:, 1:] * scale[:, None]
        forward = self._weights[:, ::-1]
        mixed[:, 0] = -2.0 * slopes[:, 0] * scale**3 - (slopes[:, 1:] * forward).sum(axis=1) * scale
        mixed[self._outside] = 0.0
        bands = past + 2 - len(self._lag)
        gradient = np.zeros((steps, bands))
        for i, lag in enumerate(self._lag):
            gradient += lag * mixed[:, i : i + bands]
        return gradient

    def _mix(self, rows: Array, past: int) -> Array:
        """R by its rows: [t, m] is R[t, t − m] = Σ_i (A⁻¹)_i·C[t, t − m + i]."""
        product = np.zeros((len(rows), past + 1))
        for i, lag in enumerate(self._lag):
            product[:, i : i + rows.shape[1]] += lag * rows
        self._outside = np.arange(past + 1) > np.arange(len(rows))[:, None]
        product[self._outside] = 0.0
        return product

    def _window(self, band: Array, t: int) -> Array:
        """K among the `past` models before step t, oldest first, as a view of the band."""
        past = self._past
        size = band.itemsize
        # Entry (i, j) of the matrix lies at band[i, j − i + past].
        return as_strided(band[t:, past:], shape=(past, past), strides=(2 * past * size, size))

    def _diagonal(self, after: Array, t: int) -> Array:
        """The entries of the steps t + 1, t + 2, … that concern model t, as a view."""
        past, size = self._past, after.itemsize
        return as_strided(after[t + 1 :, 2 * past - 1 :], shape=(past,), strides=((2 * past - 1) * size,))

    def _earlier(self, after: Array, t: int) -> Array:
        """The entries of the steps t + 1, t + 2, … that concern the models before t, oldest first, as a view."""
        past, size = self._past, after.itemsize
        return as_strided(after[t + 1 :, past - 1 :], shape=(past, past), strides=((2 * past - 1) * size, size))

    def _set_row(self, band: Array, here: int, covariances: Array, own: float) -> None:
        """Write row and column `here` of the symmetric matrix."""
        past = self._past
        band[here, :past] = covariances
        band[here, past] = own
        if past:
            # K[here − past + i, here] lies at band[here − past + i, 2·past − i].
            start = here - past
            size = band.itemsize
            column = as_strided(band[start:, 2 * past :], shape=(past,), strides=(2 * past * size,))
            column[:] = covariances
