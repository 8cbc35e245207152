"""A lower-triangular C with b bands: each step's noise is corrected by the b − 1 before it.

n_t = (z_t − Σ_{0<k<b} C[t, t−k]·n_{t−k}) / C[t, t] is row t of C⁻¹z, by back-substitution, with b − 1 models in memory.
The columns of steps that are b or more apart are orthogonal, which makes the sensitivity of a separated pattern exact
and, with cyclic Poisson batches, lets sampling amplify (Choquette-Choo et al. 2023, "(Amplified) banded matrix
factorization").

>>> Banded([[1.0, 0.5], [1.0, 0.5], [1.0, 0.0]]).matrix()
array([[1. , 0. , 0. ],
       [0.5, 1. , 0. ],
       [0. , 0.5, 1. ]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deniable.errors import DataError, InvalidArgument
from deniable.strategies.base import Strategy, finite, pack, unpack
from deniable.strategies.series import Array
from deniable.strategies.streams import Stream, add
from deniable.strategies.workloads import PREFIX, Workload, variances


class Banded(Strategy):
    """A banded C, given by its columns.

    Args:
        entries: `entries[j, k]` is C[j + k, j]; entries that would lie below the last row must be 0.
    """

    def __init__(self, entries: Any) -> None:
        self.entries = finite("entries", entries)
        if self.entries.ndim != 2 or self.entries.shape[1] > self.entries.shape[0]:
            raise InvalidArgument(
                "entries", self.entries.shape, "a table with one row per step and one column per band"
            )
        self.steps = len(self.entries)
        below = np.add.outer(np.arange(self.steps), np.arange(self.bands)) >= self.steps
        if np.any(self.entries[:, 0] <= 0) or np.any(self.entries[below] != 0):
            raise InvalidArgument("entries", "…", "positive on the diagonal, and 0 below the last row")

    @property
    def bands(self) -> int:
        return int(self.entries.shape[1])

    @property
    def memory(self) -> int:
        return self.bands - 1

    @property
    def positive(self) -> bool:
        return bool(np.all(self.entries >= 0))

    def lengths(self) -> Array:
        return np.asarray(np.linalg.norm(self.entries, axis=1))

    def columns(self, indices: Any) -> Array:
        picks = np.asarray(indices)
        matrix = np.zeros((self.steps + self.bands, len(picks)))
        for k in range(self.bands):
            matrix[picks + k, np.arange(len(picks))] = self.entries[picks, k]
        return matrix[: self.steps]

    def by_rows(self) -> Array:
        """C by its rows: [t, k] is C[t, t − k]."""
        return by_rows(self.entries)

    def stream(self) -> BandedStream:
        return BandedStream(self.by_rows(), self.steps)

    def variances(self, workload: Workload = PREFIX) -> Array:
        return variances(self.by_rows(), workload)

    def plain(self) -> dict[str, Any]:
        return {"kind": "Banded", "steps": self.steps, "entries": pack(self.entries)}

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Strategy:
        return cls(unpack(plain["entries"]).reshape(plain["steps"], -1))

    def __repr__(self) -> str:
        return f"Banded(steps={self.steps}, bands={self.bands})"


def by_rows(entries: Array) -> Array:
    """Columns to rows: [t, k] = entries[t − k, k]. `by_columns` is its inverse and its adjoint."""
    rows = np.zeros_like(entries)
    for k in range(entries.shape[1]):
        rows[k:, k] = entries[: len(entries) - k, k]
    return rows


def by_columns(rows: Array) -> Array:
    """Rows to columns: [j, k] = rows[j + k, k]."""
    columns = np.zeros_like(rows)
    for k in range(rows.shape[1]):
        columns[: len(rows) - k, k] = rows[k:, k]
    return columns


class BandedStream(Stream):
    """Back-substitution with the last b − 1 vectors of noise. `rows` has one row per step, or one for all steps."""

    def __init__(self, rows: Array, steps: int) -> None:
        super().__init__(steps)
        self._rows = rows
        self._past: list[Any] = []  # the newest first

    def _next(self, fresh: Sequence[Any]) -> Any:
        row = self._rows[min(self.step, len(self._rows) - 1)]
        noise = fresh[0]
        for weight, past in zip(row[1:], self._past, strict=False):
            if weight:
                add(noise, -float(weight), past)
        if row[0] != 1.0:
            noise *= 1.0 / float(row[0])
        if len(self._past) < len(row) - 1:
            self._past.insert(0, noise + 0.0)
        elif self._past:
            # The oldest vector makes room for the new one: nothing is allocated after the first b steps.
            self._past.insert(0, self._past.pop())
            self._past[0][...] = noise
        return noise

    def _memory(self) -> list[Any]:
        return list(self._past)

    def _restore(self, memory: list[Any]) -> None:
        if len(memory) > min(self.step, self._rows.shape[1] - 1):
            raise DataError("the state of the noise has more vectors than this strategy keeps")
        self._past = memory

    def _forget(self, step: int) -> None:
        if step != self.step:
            self._past = []


class Dense(Strategy):
    """Any lower-triangular C, as a full matrix.

    It can reach the least error of all, but its stream keeps every past vector. It suits short runs and comparisons
    (Denisov et al. 2022; Choquette-Choo et al. 2023, "Multi-epoch matrix factorization").

    Args:
        entries: the square matrix C, with a positive diagonal.

    >>> Dense([[1.0, 0.0], [0.5, 2.0]]).variances()
    array([1.    , 0.8125])
    """

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

    def columns(self, indices: Any) -> Array:
        return np.asarray(self.entries[:, np.asarray(indices)])

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
        return {"kind": "Dense", "steps": self.steps, "entries": pack(self.entries[np.tril_indices(self.steps)])}

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Strategy:
        whole = np.zeros((plain["steps"], plain["steps"]))
        whole[np.tril_indices(plain["steps"])] = unpack(plain["entries"])
        return Dense(whole)

    def __repr__(self) -> str:
        return f"Dense(steps={self.steps})"
