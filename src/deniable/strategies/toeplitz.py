"""Lower-triangular Toeplitz strategies: every step's noise is corrected in the same way.

`Toeplitz.square_root(T)` has C·C = A for prefix sums: coefficients C(2k, k)/4^k = 1, 1/2, 3/8, …
(Fichtenberger–Henzinger– Upadhyay 2023). Its largest error is at most 1 + (γ + ln T)/π, and no Toeplitz strategy does
better (Dvijotham et al. 2024), but its stream keeps every past vector. With `bands=b` the series is cut after b terms
and the stream keeps b − 1 (Kalinin–Lampert 2024). `optimal_toeplitz` finds the best b coefficients for a participation;
`Buffered` streams nearly the whole series with a handful of vectors.

>>> Toeplitz.square_root(4).coefficients
array([1.    , 0.5   , 0.375 , 0.3125])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.strategies import sensitivity as bounds
from deniable.strategies import series
from deniable.strategies.banded import BandedStream
from deniable.strategies.base import Strategy, finite, pack, unpack
from deniable.strategies.sensitivity import Participation, Sensitivity
from deniable.strategies.series import Array
from deniable.strategies.streams import Stream
from deniable.strategies.workloads import PREFIX, Workload


class Toeplitz(Strategy):
    """C[t, t − k] = coefficients[k], for every t.

    Args:
        coefficients: at most `steps` numbers, the first of them positive; the rest are 0.
        steps: the steps of the run.
    """

    def __init__(self, coefficients: Any, steps: int) -> None:
        self.steps = _checks.count("steps", steps)
        self.coefficients = finite("coefficients", coefficients)
        if self.coefficients.ndim != 1 or len(self.coefficients) > self.steps or self.coefficients[0] <= 0:
            raise InvalidArgument("coefficients", "…", f"at most {steps} numbers, the first of them positive")

    @classmethod
    def square_root(cls, steps: int, *, bands: int | None = None) -> Toeplitz:
        """The square root of the matrix of prefix sums.

        Args:
            steps: the steps of the run.
            bands: keep only so many diagonals; all if left out.
        """
        whole = _checks.count("steps", steps)
        width = whole if bands is None else min(_checks.count("bands", bands), whole)
        return Toeplitz(series.square_root(width), whole)

    @property
    def bands(self) -> int:
        return len(self.coefficients)

    @property
    def memory(self) -> int:
        return self.bands - 1

    @property
    def positive(self) -> bool:
        return bool(np.all(self.coefficients >= 0))

    @property
    def falls(self) -> bool:
        """Whether the coefficients are at least 0 and never rise after the first."""
        return bounds.is_falling(self.coefficients)

    def lengths(self) -> Array:
        squares = np.zeros(self.steps)
        squares[: self.bands] = self.coefficients**2
        return np.asarray(np.sqrt(np.cumsum(squares))[::-1])

    def columns(self, indices: Any) -> Array:
        matrix = np.zeros((self.steps, len(indices)))
        for column, first in enumerate(indices):
            tail = self.coefficients[: self.steps - first]
            matrix[first : first + len(tail), column] = tail
        return matrix

    def _bound(self, participation: Participation) -> Sensitivity:
        if participation.times > 1 and self.bands > participation.separation and self.falls:
            return bounds.earliest(self.coefficients, participation)
        return super()._bound(participation)

    def stream(self) -> Stream:
        return BandedStream(self.coefficients[None, :], self.steps)

    def variances(self, workload: Workload = PREFIX) -> Array:
        noise = series.inverse(np.convolve(self.coefficients, workload.inverse), self.steps)
        return np.asarray(np.cumsum(noise**2))

    def plain(self) -> dict[str, Any]:
        return {"kind": "Toeplitz", "steps": self.steps, "coefficients": pack(self.coefficients)}

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Strategy:
        return Toeplitz(unpack(plain["coefficients"]), plain["steps"])

    def __repr__(self) -> str:
        return f"Toeplitz(steps={self.steps}, bands={self.bands})"
