"""The best banded strategy with columns of length 1, and a proof of how close to the best a strategy is.

**Search.** With at most `separation` bands and columns of length 1, the columns of a pattern are orthogonal and
sensitivity² is the number of participations, whatever the entries: only the error is left to minimise. As a function of
X = CᵀC (banded, with ones on its diagonal) the mean error tr(AᵀA·X⁻¹)/T is convex, so there is one optimum
(Choquette-Choo et al. 2023, section 4); `proven_gap` bounds how far a strategy is from it. L-BFGS over the entries,
with the O(T·b²) gradient of `variance`. The largest error is minimised as a p-norm of the variances, in two stages.

*Where it starts.* (AᵀA)_ij = T − max(i, j) for prefix sums: counted from the last step, the problem does not depend on
T. Away from both ends, the column with r steps left is, up to O(1/r), that of the best Toeplitz strategy for the
largest error of r steps. The search starts from these columns (`_by_steps_left`).

*Long runs* (prefix sums, mean error). The start is wrong only near the ends, a few √T steps deep, and each end is a
short run of its own. The last P steps are a run of P steps. The first P are a run of P steps whose last model counts T
− P + 1 times, because that has the same (AᵀA)_ij. Both are solved, joined, and improved as a whole, so that few
iterations cost O(T·b²).

>>> from deniable.strategies import once
>>> optimal_banded(once(32), bands=4)
Banded(steps=32, bands=4)

**Gap.** Let X = CᵀC, banded with ones on its diagonal, M = AᵀA, and L(X) = tr(M·X⁻¹), which is T times the mean error.
Its gradient is −H, H = X⁻¹·M·X⁻¹. Let E be the band of H without its diagonal, D ≥ 0 diagonal, and F = D − E. Then V =
H + F is 0 on the band off the diagonal. If V ⪰ 0, every other banded Y with ones on its diagonal has, by
Cauchy–Schwarz,

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
from numpy.typing import NDArray

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.strategies.banded import Banded, by_columns, by_rows
from deniable.strategies.optima.toeplitz import OUTSIDE, optimal_toeplitz
from deniable.strategies.sensitivity import Participation, once
from deniable.strategies.series import Array
from deniable.strategies.workloads import PREFIX, Recursion, Workload

ITERATIONS = 60
"""Each iteration costs at most two evaluations. The error was within 0.1 % of the optimum in every case tried."""

_LAST, _FIRST = 80, 320
"""Iterations for the two ends of a long run; the first is harder, as one of its models counts for thousands."""

_POWERS = {"mean": (1.0,), "max": (1.0, 16.0, 128.0)}


def optimal_banded(
    participation: Participation,
    *,
    bands: int,
    error: str = "mean",
    workload: Workload = PREFIX,
    iterations: int = ITERATIONS,
) -> Banded:
    """The banded strategy with columns of length 1 and the least error.

    Args:
        participation: in which of the steps one unit may take part.
        bands: the most diagonals of C; at most the separation of the participation.
        error: "mean" minimises the mean error of all models, "max" the largest.
        workload: what the noisy sums are used for; prefix sums if left out.
        iterations: the most steps of the optimiser.
    """
    if error not in _POWERS:
        raise InvalidArgument("error", error, "'mean' or 'max'")
    steps, width = participation.steps, min(_checks.count("bands", bands), participation.steps)
    if participation.times > 1 and width > participation.separation:
        raise InvalidArgument(
            "bands", bands, f"at most the separation of {participation.separation} steps",
            "Then the columns of one unit are orthogonal. optimal_toeplitz has no such limit.",
        )  # fmt: skip
    entries = _start(steps, width, workload, long=error == "mean" and workload == PREFIX)
    if width > 1:
        for power in _POWERS[error]:
            entries = _descend(entries, power, workload, iterations)
    return Banded(_fix_signs(_normalize(entries)[0]))


def _start(steps: int, bands: int, workload: Workload, *, long: bool) -> Array:
    """Entries to begin with: column by column, or for a long run from its two ends."""
    entries = _by_steps_left(steps, bands, workload)
    end = 24 * math.isqrt(steps) + 2 * bands
    if not long or bands == 1 or steps < 2 * end:
        return entries
    last = _fix_signs(_descend(_by_steps_left(end, bands, workload), 1.0, workload, _LAST))
    counts = np.ones(end)
    counts[-1] = steps - end + 1
    first = _fix_signs(_descend(_cut(entries[:end]), 1.0, workload, _FIRST, counts))
    half = end // 2
    # Half of each part lies near its own cut and is not used. The middle is corrected by its O(1/r) error at the join.
    remaining = np.arange(steps, half, -1)[:, None]
    entries[: steps - half] += (last[end - half] - entries[steps - half]) * half / remaining
    entries[steps - half :] = last[end - half :]
    entries[:half] = first[:half]
    return _cut(entries)


def _by_steps_left(steps: int, bands: int, workload: Workload) -> Array:
    """Columns of length 1: for each step, the best Toeplitz coefficients for the largest error of the steps left."""
    from scipy.interpolate import CubicSpline

    if steps < 8:
        return _cut(np.ones((steps, bands)))
    horizons = np.unique(np.geomspace(1, steps, 2 * steps.bit_length()).round().astype(int))
    best = np.zeros((len(horizons), bands))
    for row, horizon in zip(best, horizons.tolist(), strict=True):
        best_series = optimal_toeplitz(once(horizon), bands=min(bands, horizon), error="max", workload=workload)
        coefficients = best_series.coefficients
        row[: len(coefficients)] = coefficients / np.linalg.norm(coefficients)
    return _cut(CubicSpline(np.log(horizons), best)(np.log(np.arange(steps, 0, -1))))


def _cut(entries: Array) -> Array:
    """Set entries below the last row to 0, and scale the columns to length 1."""
    return _normalize(np.where(_outside(entries.shape), 0.0, entries))[0]


def _outside(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Marks the entries that would lie below the last row."""
    return np.add.outer(np.arange(shape[0]), np.arange(shape[1])) >= shape[0]


def _descend(entries: Array, power: float, workload: Workload, iterations: int, counts: Array | float = 1.0) -> Array:
    """Columns of length 1 after some iterations of L-BFGS on ln ‖variances‖_power, where `counts` weighs variances."""
    from scipy.optimize import minimize

    recursion, outside = Recursion(workload), _outside(entries.shape)
    best = (math.inf, entries)  # a line search that gives up may end on a point worse than one before

    def objective(values: Array) -> tuple[float, Array]:
        table = values.reshape(entries.shape)
        columns, lengths = _normalize(table)
        variances = recursion.forward(by_rows(columns))
        if not np.all(np.isfinite(variances)):
            return OUTSIDE, np.zeros(values.size)
        top = float(variances.max())
        shares = counts * (variances / top) ** power
        weights = shares / variances / shares.sum()  # the gradient of ln ‖·‖_p
        slope = by_columns(recursion.backward(weights))
        slope[outside] = 0.0
        along = (slope * columns).sum(axis=1, keepdims=True)
        slope = (slope - along * columns) / lengths
        value = math.log(top) + math.log(float(shares.sum())) / power
        nonlocal best
        if value < best[0]:
            best = value, columns
        return value, slope.ravel()

    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-12}
    minimize(objective, entries.ravel(), jac=True, method="L-BFGS-B", options=options)
    return best[1]


def _normalize(entries: Array) -> tuple[Array, Array]:
    """Columns of length 1, and the lengths they had."""
    lengths = np.linalg.norm(entries, axis=1, keepdims=True)
    return entries / lengths, lengths


def _fix_signs(entries: Array) -> Array:
    """The same CᵀC with a positive diagonal: whole rows of C change their sign."""
    return by_columns(by_rows(entries) * np.sign(entries[:, :1]))


_SHARES = (0.0, 0.02, 0.1, 0.5)
"""Of Σ_j |E_ij|, tried as D_ii."""

_DEPTHS = (0.25, 0.5, 0.75, 1.0)
"""Tried as ρ."""

_SLACK = 1e-6
"""Below ρ: what a Cholesky factor in floating point may overlook is far smaller."""

_BLOCK = 1024


def proven_gap(strategy: Banded, *, workload: Workload = PREFIX) -> float:
    """How much smaller the root mean error can be, as a share: an upper bound over all strategies of this kind.

    Args:
        strategy: one with columns of length 1; compared with all that have as many bands and columns of length 1.
        workload: what the noisy sums are used for; prefix sums if left out.
    """
    if not np.allclose(strategy.lengths(), 1, rtol=0, atol=1e-9):
        raise InvalidArgument("strategy", strategy, "one with columns of length 1, as optimal_banded gives")
    total, dual = dual_band(strategy, workload)
    off = dual.copy()
    off[:, 0] = 0.0
    shift = np.zeros_like(off)
    shift[:, 0] = _row_sums(np.abs(off))
    trace, most = float(dual[:, 0].sum()), float(shift.sum())
    gram = gram_band(strategy)
    # tr(F·X), R and ‖Sᵀ·F·Cᵀ‖² combine the parts for F = −E and for F = D, with D = Σ|E|.
    slope = -2.0 * float((off * gram).sum())
    without, with_, squares = _curvature(strategy, gram, -off, shift, workload)
    gap = math.sqrt((trace + most) / total) - 1
    for share in _SHARES:
        depth = _depth(without + share * with_)
        if depth is not None:
            loss = (1 - depth / 2 - math.sqrt(1 - depth)) / depth**2 * float([1, 2 * share, share**2] @ squares)
            nuclear = total + (slope + share * most) / 2 - loss
            if nuclear > 0:
                gap = min(gap, math.sqrt(total * (trace + share * most)) / nuclear - 1)
    return gap


def dual_band(strategy: Banded, workload: Workload = PREFIX) -> tuple[float, Array]:
    """L(X), and H on the band: [t, k] is H[t, t − k]."""
    rows = strategy.by_rows()
    steps, bands = rows.shape
    recursion = Recursion(workload)
    total = float(recursion.forward(rows).sum())
    product = -0.5 * recursion.backward(np.ones(steps))  # C·H, as dL = −tr(H·dX) = −2·tr((C·H)ᵀ·dC)
    band = np.zeros((steps, bands))
    window = np.zeros((bands - 1, bands - 1))  # H among the steps before, oldest first
    for t in range(steps):
        weights = rows[t, :0:-1]
        row = (product[t, :0:-1] - weights @ window) / rows[t, 0]
        row[: max(0, bands - 1 - t)] = 0.0
        own = (product[t, 0] - weights @ row) / rows[t, 0]
        band[t, 0], band[t, 1:] = own, row[::-1]
        if bands > 1:
            window[:-1, :-1] = window[1:, 1:]
            window[-1, :-1] = window[:-1, -1] = row[1:]
            window[-1, -1] = own
    return total, band


def gram_band(strategy: Banded) -> Array:
    """X on the band: [t, k] is X[t, t − k]."""
    entries, (steps, bands) = strategy.entries, strategy.entries.shape
    band = np.zeros((steps, bands))
    for k in range(bands):
        band[k:, k] = (entries[k:, : bands - k] * entries[: steps - k, k:]).sum(axis=1)
    return band


def _row_sums(band: Array) -> Array:
    """The sums of the rows of a symmetric matrix, given on its band, without its diagonal."""
    sums = band[:, 1:].sum(axis=1)
    for k in range(1, band.shape[1]):
        sums[:-k] += band[k:, k]
    return np.asarray(sums)


def _curvature(
    strategy: Banded, gram: Array, left: Array, right: Array, workload: Workload
) -> tuple[Array, Array, Array]:
    """R for F = `left` and for F = `right`, as bands of LAPACK, and the inner products of their Sᵀ·F·Cᵀ.

    Works block by block. A dense window holds all entries that the block's columns of S touch.
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
            part = inner[:, first + i : last + i]
            mixed[:, : part.shape[1]] += weight * part
        own, factor = mixed[:, : stop - start], _window(rows, low, high, symmetric=False)
        ends = []
        for curve, each in zip(curves, (left, right), strict=True):
            image = own.T @ _window(each, low, high, symmetric=True)
            product = image @ mixed
            for i in range(stop - start):
                some = product[i, i : i + wide + 1]
                curve[: len(some), start + i] = some
            ends.append(image @ factor.T)
        squares += [(ends[0] ** 2).sum(), (ends[0] * ends[1]).sum(), (ends[1] ** 2).sum()]
    return curves[0], curves[1], squares


def _window(band: Array, low: int, high: int, *, symmetric: bool) -> Array:
    """Rows and columns `low` … `high` of a matrix, given by [t, k] = its entry [t, t − k]."""
    size = high - low
    window = np.zeros((size, size))
    indices = np.arange(size)
    for k in range(min(band.shape[1], size)):
        values = band[low + k : high, k]
        window[indices[k:], indices[: size - k]] = values
        if symmetric:
            window[indices[: size - k], indices[k:]] = values
    return window


def _depth(curve: Array) -> float | None:
    """The least ρ in `_DEPTHS` with R ⪰ −ρI; None when there is none."""
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
