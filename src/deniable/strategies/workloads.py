"""What the noisy gradients are used for: the linear map A whose error a strategy keeps small.

A model after t steps is a linear map of the gradients so far, so its noise is a row of A·(C⁻¹z).

| workload | the optimizer | A is Toeplitz with series |
|---|---|---|
| `Workload()` | SGD: prefix sums | 1/(1 − z) |
| `Workload(momentum=β)` | SGD with momentum | 1/((1 − z)(1 − βz)) |
| `Workload(decay=α)` | SGD with weights multiplied by α each step | 1/(1 − αz) |
| `Workload(decay=0)` | none: single steps | 1 |

All have an inverse with two or three coefficients, which is what makes their errors cheap (`optima.variances`).

>>> Workload(momentum=0.5).coefficients(4)
array([1.   , 1.5  , 1.75 , 1.875])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deniable import _checks
from deniable.strategies import series
from deniable.strategies.series import Array


@dataclass(frozen=True)
class Workload:
    """SGD with momentum and decay, as the map from gradients to models."""

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
"""Prefix sums: every model counts, each as much as any other."""

EACH = Workload(decay=0)
"""No model at all: every released sum by itself, with the noise of its own step."""
