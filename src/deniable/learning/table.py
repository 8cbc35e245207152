"""Rows of bounded norm as integers, so that sums over them are exact.

A privacy proof is about sums of clipped gradients. In floating point a sum depends on the order of its terms, and a
row that is removed changes that order for everybody else. Here nothing is rounded after the first step:

* every row is scaled to norm at most 1, multiplied by 2¹⁶ and cut to whole numbers, by a rule for that row alone (its
  norm is measured on a grid of its own, exactly);
* parameters are cut to whole multiples of a power of two, so that the margins ⟨row, θ⟩ are whole numbers below 2⁵³;
* residuals are cut to whole numbers, and their length is limited in integers so that |row|·|residual| ≤ `bound`.

Products and sums of whole numbers below 2⁵³ are exact in float64 whatever the order, so fast matrix products (dense, or
sparse where most entries are 0) give the exact integer sums to which integer noise is added.

>>> table = IntegerTable.place(np.array([[3.0, 4.0], [0.0, 20.0]]), norm=10)
>>> table.rows.tolist(), table.lengths.tolist()
([[19660.0, 26214.0], [0.0, 65535.0]], [32768, 65535])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ONE = 1 << 16
"""The integer length of a row of norm 1."""

BOUND = 1 << 34
"""About the integer length of a clipped gradient; `Table.sums` is exact for blocks of 2¹⁸ rows."""

_BLOCK = 1 << 17
_CARRY = 1 << 9
_MOST = 1 << 62
_FURTHEST = 2.0**200
_EXACT = 1 << 53
_SPARSE = 0.25


@dataclass(frozen=True, eq=False)
class IntegerTable:
    """Integer rows with |row| ≤ 2¹⁶, and their lengths rounded up."""

    rows: Any
    lengths: NDArray[np.int64]
    columns: int

    @classmethod
    def place(cls, rows: Any, *, norm: float, intercept: float = 0.0) -> IntegerTable:
        """Rows as integers. A row longer than `norm` is shortened; with `intercept` > 0 a constant column is appended.

        The constant counts `intercept` × norm, and the whole row is scaled by its greatest possible length. What is no
        finite number counts as 0.
        """
        from scipy import sparse

        scale = ONE / math.sqrt(1 + intercept * intercept)
        constant = math.floor(intercept * scale)
        if not sparse.issparse(rows):
            dense = np.nan_to_num(np.asarray(rows, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
            rows = sparse.csr_array(dense) if np.count_nonzero(dense) < _SPARSE * dense.size else dense
        if sparse.issparse(rows):
            found = sparse.csr_array(rows, dtype=np.float64, copy=True)
            found.sum_duplicates()
            found.data = np.nan_to_num(found.data, nan=0.0, posinf=0.0, neginf=0.0)
            largest = np.zeros(found.shape[0])
            spread = np.diff(found.indptr)
            np.maximum.at(largest, np.repeat(np.arange(len(largest)), spread), np.abs(found.data))
            fine = _fine(found.shape[1])
            found.data = np.rint(found.data / np.repeat(np.maximum(largest, norm), spread) * fine)
            found.data = np.trunc(
                found.data * np.repeat(_shrink(found.multiply(found).sum(axis=1), fine), spread) * scale
            )
            if constant:
                ones = sparse.csr_array(np.full((found.shape[0], 1), constant, dtype=np.float64))
                found = sparse.csr_array(sparse.hstack([found, ones]))
            found.eliminate_zeros()
            squares = np.asarray(found.multiply(found).sum(axis=1)).reshape(-1)
        else:
            largest = np.max(np.abs(dense), axis=1, initial=0.0)
            fine = _fine(dense.shape[1])
            whole = np.rint(dense / np.maximum(largest, norm)[:, None] * fine)
            found = np.trunc(whole * _shrink(np.einsum("ij,ij->i", whole, whole), fine)[:, None] * scale)
            if constant:
                found = np.hstack([found, np.full((len(found), 1), constant, dtype=np.float64)])
            squares = np.einsum("ij,ij->i", found, found)
        lengths = _root_above(squares)
        # The clipping rule leaves no row longer than 1. Were there one, it would not count.
        short = lengths <= ONE
        if not short.all():
            found = found * short[:, None] if isinstance(found, np.ndarray) else sparse.diags_array(1.0 * short) @ found
        return cls(found, np.where(short, lengths, 0), int(found.shape[1]))

    @property
    def count(self) -> int:
        """How many rows; private under ADD_REMOVE."""
        return int(self.lengths.size)

    def take(self, kept: Array) -> IntegerTable:
        """Some of the rows, by index or mask."""
        return IntegerTable(self.rows[kept], self.lengths[kept], self.columns)

    def points(self) -> NDArray[np.float64]:
        """The rows as vectors of norm at most 1."""
        return np.asarray(self.rows if isinstance(self.rows, np.ndarray) else self.rows.toarray()) * (1.0 / ONE)

    def margins(self, theta: Array) -> NDArray[np.float64]:
        """⟨row, θ⟩ for every row and every column of θ, exactly, for θ cut to whole multiples of a power of two.

        Entries of θ beyond 2²⁰⁰ count as 2²⁰⁰: its square is a float.
        """
        theta = np.clip(np.nan_to_num(theta, nan=0.0), -_FURTHEST, _FURTHEST)
        size = float(np.sqrt(np.max(np.sum(np.square(theta), axis=0), initial=0.0)))
        step = 2.0 ** (math.frexp(max(size, 1.0))[1] - 36)
        return np.asarray((self.rows @ np.rint(theta / step)) * (step / ONE))

    def sums(self, residuals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Σ row ⊗ residual, exactly. Each |row|·|residual| must be at most 2³⁵."""
        return exact_sum(
            np.asarray(self.rows[part].T @ residuals[part].astype(np.float64)).astype(np.int64)
            for part in parts(self.count, _BLOCK)
        )

    def clipped(self, residuals: NDArray[np.float64], *, unit: float, bound: int) -> NDArray[np.int64]:
        """Residuals in whole multiples of 1/unit, each shortened so that |row|·|residual| ≤ bound. NaN counts as 0."""
        real = np.nan_to_num(residuals * unit, nan=0.0, posinf=_EXACT, neginf=-_EXACT)
        most = np.minimum(bound // np.maximum(self.lengths, 1), bound).astype(np.float64)
        if real.ndim == 1:
            return np.clip(np.trunc(real), -most, most).astype(np.int64)
        squares = np.zeros(len(real))
        for column in real.T:  # one after the other: the same bits for a row wherever it stands
            squares += column * column
        # The cut only shortens; the margin covers the rounding of the norm and of the quotient.
        shorter = np.minimum(1.0, most * margin(real.shape[1]) / np.maximum(np.sqrt(squares), 1.0))
        return np.asarray(np.trunc(real * shorter[:, None]).astype(np.int64))


def parts(count: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover `count` records; one, empty, where there are none."""
    for start in range(0, max(count, 1), size):
        yield slice(start, start + size)


def exact_sum(terms: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The sum of integer arrays below 2⁵³, one after the other; a total beyond ±2⁶² counts as ±2⁶².

    Nobody knows how many records there are, so no number of them may wrap around. Cutting the exact total off moves
    two totals no further apart.
    """
    total: Any = None
    size = 0
    for term in terms:
        total = term if total is None else total + term
        size += 1
        if size == _CARRY:  # 2⁹ terms of 2⁵³ are below 2⁶²: from here on in Python's integers
            total = total.astype(object)
    if size < _CARRY:
        return np.asarray(total)
    return np.asarray(np.clip(total, -_MOST, _MOST).astype(np.int64))


def margin(terms: int) -> float:
    """A factor below 1 that covers the rounding of a norm of so many terms, summed in any order, and of a quotient."""
    return 1 - (terms + 16) * 2.0**-51


def unit_of(clip: float) -> tuple[float, int]:
    """The residual's grid (a power of two) and the integer bound that stand for a clipping norm."""
    unit = 2.0 ** round(math.log2(BOUND / (ONE * clip)))
    return unit, math.floor(clip * unit * ONE)


def _fine(columns: int) -> int:
    """The grid on which a row's norm is measured: squares of entries up to this add up exactly."""
    return 1 << (20 if columns <= 1 << 12 else 15)


def _shrink(squares: Array, fine: int) -> NDArray[np.float64]:
    """Factors from the fine grid to rows of norm at most 1, with a margin for their own rounding."""
    return np.asarray(margin(0) / np.maximum(np.sqrt(np.asarray(squares).reshape(-1)), fine))


def _root_above(squares: Array) -> NDArray[np.int64]:
    """Square roots of whole numbers below 2⁵³, rounded up."""
    roots = np.ceil(np.sqrt(squares)).astype(np.int64)
    return np.asarray(roots + (roots * roots < np.asarray(squares).astype(np.int64)))
