"""How far a banded strategy is from the best one, proved.

Let X = CᵀC, banded with ones on its diagonal, M = AᵀA, and L(X) = tr(M·X⁻¹), which is T times the mean error. Its
gradient is −H, H = X⁻¹·M·X⁻¹. Let E be the band of H without its diagonal, D ≥ 0 diagonal, and F = D − E. Then V = H +
F is 0 on the band off the diagonal. If V ⪰ 0, every other banded Y with ones on its diagonal has, by Cauchy–Schwarz,

    L(Y)·tr V = tr(M·Y⁻¹)·tr(V·Y) ≥ N²,   N = ‖A·V^½‖_*.

So no strategy with as many bands and columns of length 1 has a root mean error below N/√(L(X)·tr V) times this one's.
At the optimum E = 0, N = tr V = L(X), and nothing is left. Two bounds of N:

* D_ii = Σ_j |E_ij|: F is diagonally dominant, V ⪰ H, and roots are monotone: N ≥ ‖A·H^½‖_* = tr(A·X⁻¹·Aᵀ) = L(X).
* D a share of that. With P = A·X⁻¹·Aᵀ, S = X·A⁻¹ and R = Sᵀ·F·S, A·V·Aᵀ = P·(I + R)·P. So V ⪰ 0 if R ⪰ −I, and N =
  ‖P·(I + R)^½‖_* ≥ tr P·(I + R)^½. If R ⪰ −ρI, √(1 + r) ≥ 1 + r/2 − κr² with κ = (1 − ρ/2 − √(1 − ρ))/ρ², and

      N ≥ L(X) + tr(F·X)/2 − κ·‖Sᵀ·F·Cᵀ‖²:

  second order in E. S and R are banded, as C is, and a Cholesky factor of R + ρI shows R ⪰ −ρI.

H on the band: `variance` gives C·H there, and its rows follow from each other. All of it takes O(T·b²).

>>> from deniable.strategies import once, optimal_banded
>>> proven_gap(optimal_banded(once(64), bands=4)) < 1e-6
True
"""

from __future__ import annotations

import math

import numpy as np

from deniable.errors import InvalidArgument
from deniable.strategies.banded import Banded
from deniable.strategies.series import Array
from deniable.strategies.variance import Recursion
from deniable.strategies.workloads import PREFIX, Workload

_SHARES = (0.0, 0.02, 0.1, 0.5)
"""Of Σ_j |E_ij|, tried as D_ii."""

_DEPTHS = (0.25, 0.5, 0.75, 1.0)
"""Tried as ρ."""

_SLACK = 1e-6
"""Below ρ: what a Cholesky factor in floating point may overlook is far smaller."""

_BLOCK = 1024


def proven_gap(strategy: Banded, *, workload: Workload = PREFIX) -> float:
    """By what share at most the root mean error can be smaller with as many bands and columns of length 1."""
    if not np.allclose(strategy.lengths(), 1, rtol=0, atol=1e-9):
        raise InvalidArgument("strategy", strategy, "one with columns of length 1, as optimal_banded gives")
    total, dual = dual_band(strategy, workload)
    off = dual.copy()
    off[:, 0] = 0.0
    shift = np.zeros_like(off)
    shift[:, 0] = _row_sums(np.abs(off))
    trace, most = float(dual[:, 0].sum()), float(shift.sum())
    gram = gram_band(strategy)
    # tr(F·X), R and ‖Sᵀ·F·Cᵀ‖² are those of −E, of D = Σ|E|, and what is between them.
    slope = -2.0 * float((off * gram).sum())
    without, with_, squares = _curvature(strategy, gram, -off, shift, workload)
    found = math.sqrt((trace + most) / total) - 1
    for share in _SHARES:
        depth = _depth(without + share * with_)
        if depth is not None:
            loss = (1 - depth / 2 - math.sqrt(1 - depth)) / depth**2 * float([1, 2 * share, share**2] @ squares)
            nuclear = total + (slope + share * most) / 2 - loss
            if nuclear > 0:
                found = min(found, math.sqrt(total * (trace + share * most)) / nuclear - 1)
    return found


def dual_band(strategy: Banded, workload: Workload = PREFIX) -> tuple[float, Array]:
    """L(X), and H on the band: [t, k] is H[t, t − k]."""
    rows = strategy.by_rows()
    steps, bands = rows.shape
    recursion = Recursion(workload)
    total = float(recursion.forward(rows).sum())
    product = -0.5 * recursion.backward(np.ones(steps))  # C·H, as dL = −tr(H·dX) = −2·tr((C·H)ᵀ·dC)
    found = np.zeros((steps, bands))
    window = np.zeros((bands - 1, bands - 1))  # H among the steps before, oldest first
    for t in range(steps):
        weights = rows[t, :0:-1]
        row = (product[t, :0:-1] - weights @ window) / rows[t, 0]
        row[: max(0, bands - 1 - t)] = 0.0
        own = (product[t, 0] - weights @ row) / rows[t, 0]
        found[t, 0], found[t, 1:] = own, row[::-1]
        if bands > 1:
            window[:-1, :-1] = window[1:, 1:]
            window[-1, :-1] = window[:-1, -1] = row[1:]
            window[-1, -1] = own
    return total, found


def gram_band(strategy: Banded) -> Array:
    """X on the band: [t, k] is X[t, t − k]."""
    entries, (steps, bands) = strategy.entries, strategy.entries.shape
    found = np.zeros((steps, bands))
    for k in range(bands):
        found[k:, k] = (entries[k:, : bands - k] * entries[: steps - k, k:]).sum(axis=1)
    return found


def _row_sums(band: Array) -> Array:
    """The sums of the rows of a symmetric matrix, given on its band, without its diagonal."""
    found = band[:, 1:].sum(axis=1)
    for k in range(1, band.shape[1]):
        found[:-k] += band[k:, k]
    return np.asarray(found)


def _curvature(
    strategy: Banded, gram: Array, left: Array, right: Array, workload: Workload
) -> tuple[Array, Array, Array]:
    """R for F = `left` and for F = `right`, as bands of LAPACK, and the inner products of their Sᵀ·F·Cᵀ.

    Block by block, with dense windows that hold all a block's columns of S can reach.
    """
    rows, lag = strategy.by_rows(), workload.inverse
    steps, bands = rows.shape
    wide = 3 * (bands - 1) + len(lag) - 1
    curves, squares = np.zeros((2, wide + 1, steps)), np.zeros(3)
    for start in range(0, steps, _BLOCK):
        stop = min(steps, start + _BLOCK)
        low, high = max(0, start - 2 * bands), min(steps, stop + wide + bands + len(lag))
        first, last = start - low, min(stop + wide, steps) - low
        inner = _window(gram, low, high, symmetric=True)
        mixed = np.zeros((high - low, last - first))  # columns of S = X·A⁻¹
        for i, weight in enumerate(lag):
            kept = inner[:, first + i : last + i]
            mixed[:, : kept.shape[1]] += weight * kept
        own, factor = mixed[:, : stop - start], _window(rows, low, high, symmetric=False)
        ends = []
        for curve, each in zip(curves, (left, right), strict=True):
            reached = own.T @ _window(each, low, high, symmetric=True)
            product = reached @ mixed
            for i in range(stop - start):
                some = product[i, i : i + wide + 1]
                curve[: len(some), start + i] = some
            ends.append(reached @ factor.T)
        squares += [(ends[0] ** 2).sum(), (ends[0] * ends[1]).sum(), (ends[1] ** 2).sum()]
    return curves[0], curves[1], squares


def _window(band: Array, low: int, high: int, *, symmetric: bool) -> Array:
    """Rows and columns `low` … `high` of a matrix, given by [t, k] = its entry [t, t − k]."""
    size = high - low
    found = np.zeros((size, size))
    places = np.arange(size)
    for k in range(min(band.shape[1], size)):
        values = band[low + k : high, k]
        found[places[k:], places[: size - k]] = values
        if symmetric:
            found[places[: size - k], places[k:]] = values
    return found


def _depth(curve: Array) -> float | None:
    """The least ρ of those tried with R ⪰ −ρI."""
    from scipy.linalg import cholesky_banded

    for depth in _DEPTHS:
        raised = curve.copy()
        raised[0] += depth - _SLACK
        try:
            cholesky_banded(raised, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
        return depth
    return None
