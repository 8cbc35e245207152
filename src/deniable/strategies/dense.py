"""Any lower-triangular C. The best there is, and its stream keeps every past vector: for short runs and as a yardstick.

(Denisov et al. 2022; Choquette-Choo et al. 2023, "Multi-epoch matrix factorization".)

>>> Dense([[1.0, 0.0], [0.5, 2.0]]).variances()
array([1.    , 0.8125])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deniable.errors import InvalidArgument
from deniable.strategies.banded import BandedStream
from deniable.strategies.base import Strategy, finite, packed, unpacked
from deniable.strategies.series import Array
from deniable.strategies.streams import Stream
from deniable.strategies.workloads import PREFIX, Workload


class Dense(Strategy):
    """C, written out."""

    def __init__(self, entries: Any) -> None:
        self.entries = finite("entries", entries)
        square = self.entries.ndim == 2 and self.entries.shape[0] == self.entries.shape[1]
        if not square or np.any(np.triu(self.entries, 1)) or np.any(np.diag(self.entries) <= 0):
            raise InvalidArgument("entries", "…", "a square, lower-triangular matrix with a positive diagonal")
        self.steps = len(self.entries)

    @property
    def bands(self) -> int:
        return self.steps

    @property
    def memory(self) -> int:
        return self.steps - 1

    @property
    def positive(self) -> bool:
        return bool(np.all(self.entries >= 0))

    def columns(self, places: Any) -> Array:
        return np.asarray(self.entries[:, np.asarray(places)])

    def stream(self) -> Stream:
        rows = np.zeros_like(self.entries)
        for t in range(self.steps):
            rows[t, : t + 1] = self.entries[t, t::-1]
        return BandedStream(rows, self.steps)

    def variances(self, workload: Workload = PREFIX) -> Array:
        from scipy.linalg import solve_triangular, toeplitz

        map_ = toeplitz(workload.coefficients(self.steps), np.zeros(self.steps))
        # Rows of A·C⁻¹ are columns of C⁻ᵀ·Aᵀ.
        noise = solve_triangular(self.entries, map_.T, lower=True, trans="T")
        return np.asarray((noise**2).sum(axis=0))

    def plain(self) -> dict[str, Any]:
        return {"kind": "Dense", "steps": self.steps, "entries": packed(self.entries[np.tril_indices(self.steps)])}

    @classmethod
    def _built(cls, found: dict[str, Any]) -> Strategy:
        whole = np.zeros((found["steps"], found["steps"]))
        whole[np.tril_indices(found["steps"])] = unpacked(found["entries"])
        return Dense(whole)

    def __repr__(self) -> str:
        return f"Dense(steps={self.steps})"
