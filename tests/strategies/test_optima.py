"""Optimal factors against independent optima for short runs, proven bounds, and published values. About 20 s."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.optimize import minimize

from deniable.errors import InvalidArgument, NotSupported
from deniable.strategies import (
    PREFIX,
    Banded,
    Buffered,
    Participation,
    Toeplitz,
    Workload,
    lower_bound,
    once,
    optimal_banded,
    optimal_buffered,
    optimal_dense,
    optimal_toeplitz,
    ordered,
    proven_gap,
    separated,
)
from deniable.strategies.optima import banded
from deniable.strategies.optima.banded import _by_steps_left, _cut, _descend, _fix_signs, _start
from deniable.strategies.optima.toeplitz import SeriesLoss
from tests.strategies.examples import mixed_signs


def brute_force(steps: int, bands: int, *, norm: float, starts: int = 3) -> float:
    """The least ‖row errors‖ of A·C⁻¹ over banded C with columns of length 1: BFGS with numerical gradients."""
    prefix, mask = np.tri(steps), np.tri(steps) - np.tri(steps, k=-bands)
    free = mask.astype(bool)

    def error(values: np.ndarray) -> float:
        matrix = np.zeros((steps, steps))
        matrix[free] = values
        matrix /= np.linalg.norm(matrix, axis=0)
        rows = (np.linalg.solve(matrix.T, prefix.T) ** 2).sum(axis=0)
        return float(np.mean(rows) if norm == 1 else np.mean(rows**norm) ** (1 / norm))

    random = np.random.default_rng(7)
    found = []
    for _ in range(starts):
        start = (np.eye(steps) + 0.2 * random.random((steps, steps)))[free]
        found.append(minimize(error, start, method="BFGS", options={"maxiter": 500}).fun)
    return math.sqrt(min(found))


@pytest.mark.parametrize(("steps", "bands"), [(1, 1), (6, 1), (6, 2), (7, 7), (10, 3), (16, 3)])
def test_banded_is_the_optimum(steps: int, bands: int) -> None:
    best = optimal_banded(once(steps), bands=bands)
    assert best.rmse(once(steps)) == pytest.approx(brute_force(steps, bands, norm=1, starts=2), rel=2e-4)
    assert np.allclose(best.lengths(), 1)


@pytest.mark.parametrize("workload", [PREFIX, Workload(momentum=0.9)], ids=repr)
@pytest.mark.parametrize("bands", [1, 2, 5, 9])
def test_the_gap_is_that_of_dense_matrices(monkeypatch: pytest.MonkeyPatch, bands: int, workload: Workload) -> None:
    """Everything in the proof against its definition, in blocks of four steps, for a strategy far from the optimum."""
    monkeypatch.setattr(banded, "_BLOCK", 4)
    steps = 19
    strategy = Banded(_cut(np.random.default_rng(bands).random((steps, bands)) + 0.1))
    matrix, map_ = strategy.matrix(), toeplitz(workload.coefficients(steps), np.zeros(steps))
    gram = matrix.T @ matrix
    dual = np.linalg.inv(gram) @ map_.T @ map_ @ np.linalg.inv(gram)
    total, band = banded.dual_band(strategy, workload)
    assert total == pytest.approx(np.trace(map_ @ np.linalg.inv(gram) @ map_.T))
    for k in range(bands):
        np.testing.assert_allclose(band[k:, k], np.diag(dual, -k), rtol=1e-6)
        np.testing.assert_allclose(banded.gram_band(strategy)[k:, k], np.diag(gram, -k), atol=1e-12)
    near = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    off = np.where((near > 0) & (near < bands), dual, 0.0)
    shift = np.diag(np.abs(off).sum(axis=1))
    np.testing.assert_allclose(banded._row_sums(np.abs(band)), np.diag(shift), rtol=1e-6, atol=1e-9)

    tables = [np.zeros((steps, bands)), np.zeros((steps, bands))]
    for table, whole in zip(tables, (-off, shift), strict=True):
        for k in range(bands):
            table[k:, k] = np.diag(whole, -k)
    *curves, squares = banded._curvature(strategy, banded.gram_band(strategy), tables[0], tables[1], workload)
    mixed = gram @ np.linalg.inv(map_)
    for found, whole in zip(curves, (-off, shift), strict=True):
        expected = mixed.T @ whole @ mixed
        assert not np.any(np.abs(np.tril(expected, -len(found))) > 1e-6 * np.abs(expected).max())
        for k, row in enumerate(found[:steps]):
            np.testing.assert_allclose(row[: steps - k], np.diag(expected, -k), atol=1e-6 * np.abs(expected).max())
    ends = [mixed.T @ whole @ matrix.T for whole in (-off, shift)]
    products = [np.sum(ends[i] * ends[j]) for i, j in ((0, 0), (0, 1), (1, 1))]
    np.testing.assert_allclose(squares, products, rtol=1e-6, atol=1e-6 * products[2])


@pytest.mark.parametrize("by", [1e-4, 1e-2])
def test_the_nuclear_norm_is_not_overstated(by: float) -> None:
    """Near an optimum the bound is of second order, and not above what V itself proves."""
    strategy = optimal_banded(once(24), bands=4, iterations=200)
    moved = Banded(_cut(strategy.entries * (1 + by * np.random.default_rng(0).normal(size=strategy.entries.shape))))
    matrix, prefix = moved.matrix(), np.tri(24)
    inner = np.linalg.inv(matrix.T @ matrix)
    dual = inner @ prefix.T @ prefix @ inner
    near = np.abs(np.subtract.outer(np.arange(24), np.arange(24)))
    off = np.where((near > 0) & (near < 4), dual, 0.0)
    proved = []
    for share in (*banded._SHARES, 1.0):
        tried = dual - off + share * np.diag(np.abs(off).sum(axis=1))
        if np.linalg.eigvalsh(tried)[0] >= 0:
            norm = np.sqrt(np.maximum(np.linalg.eigvalsh(prefix @ tried @ prefix.T), 0)).sum()
            proved.append(math.sqrt(np.trace(dual @ matrix.T @ matrix) * np.trace(tried)) / norm - 1)
    assert min(proved) - 1e-9 <= proven_gap(moved) < 20 * by**2 + 1e-7


@pytest.mark.parametrize(("steps", "bands"), [(6, 1), (6, 2), (10, 3), (16, 3)])
def test_the_gap_holds_and_closes(steps: int, bands: int) -> None:
    """Whatever is given, the optimum is not below what is proved; at the optimum nothing is left."""
    run, random = once(steps), np.random.default_rng(steps)
    best = optimal_banded(run, bands=bands)
    assert 0 <= proven_gap(best) + 1e-9 < 1e-3
    for _ in range(20):
        other = Banded(_cut(random.random((steps, bands)) + 0.05))
        assert other.rmse(run) / (1 + proven_gap(other)) <= best.rmse(run) * (1 + 1e-6)
    with pytest.raises(InvalidArgument, match="columns of length 1"):
        proven_gap(Banded(2 * best.entries))


def test_the_column_of_a_step_depends_on_the_steps_left() -> None:
    """Away from the first steps the optimum is that of a shorter run, and near the best Toeplitz strategy for it."""
    short, long = (optimal_banded(once(steps), bands=4, iterations=300).entries for steps in (128, 192))
    np.testing.assert_allclose(short[-32:], long[-32:], atol=2e-4)
    np.testing.assert_allclose(long[-64:-32], _by_steps_left(192, 4, PREFIX)[-64:-32], atol=0.005)


def test_the_first_steps_of_a_long_run_are_a_short_run() -> None:
    """Its last model counts for all that are left out: the same (AᵀA)_ij = T − max(i, j)."""
    counts = np.ones(96)
    counts[-1] = 256 - 96 + 1
    short = _descend(_by_steps_left(256, 4, PREFIX)[:96], 1.0, PREFIX, 500, counts)
    long = optimal_banded(once(256), bands=4, iterations=500).entries
    np.testing.assert_allclose(_fix_signs(short)[:24], long[:24], atol=0.01)
    assert np.abs(_fix_signs(short)[72:] - long[72:96]).max() > 0.05  # its own end is another


def test_a_long_run_starts_near_its_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made of its ends, 2400 steps start within 1e-6 of the optimum (proved to 4e-6 after 60 iterations)."""
    monkeypatch.setattr(banded, "_FIRST", 40)
    monkeypatch.setattr(banded, "_LAST", 20)
    run, least = once(2400), 24.580018
    start, plain = (Banded(_fix_signs(_start(2400, 2, PREFIX, long=long))).rmse(run) for long in (True, False))
    assert least <= start < least * (1 + 1e-6)
    assert plain > least * (1 + 2e-5)


def test_a_negative_diagonal_changes_rows_and_no_error() -> None:
    entries = mixed_signs(9, 3).entries.copy()
    entries[::2, 0] *= -1
    matrix = np.zeros((9, 9))
    for j, k in zip(*np.nonzero(entries), strict=True):
        matrix[j + k, j] = entries[j, k]
    found = Banded(_fix_signs(entries)).matrix()
    np.testing.assert_allclose(found.T @ found, matrix.T @ matrix, atol=1e-12)


def test_banded_largest_error() -> None:
    best = optimal_banded(once(8), bands=3, error="max", iterations=200)
    # The 128-norm of eight rows is within 8^(1/128) of the largest.
    assert best.worst(once(8)) == pytest.approx(brute_force(8, 3, norm=128), rel=0.01)
    assert best.worst(once(8)) < optimal_banded(once(8), bands=3).worst(once(8))


def test_banded_sensitivity_is_the_number_of_participations() -> None:
    run = separated(24, separation=6)
    assert float(optimal_banded(run, bands=6).sensitivity(run).value) == pytest.approx(2.0, rel=1e-8)
    with pytest.raises(InvalidArgument, match="at most the separation"):
        optimal_banded(run, bands=7)


def test_dense_meets_its_bound() -> None:
    for steps in (1, 2, 16, 60):
        bound, found = lower_bound(steps), optimal_dense(once(steps)).rmse(once(steps))
        assert bound <= found <= bound * 1.0001
    assert optimal_dense(once(6)).rmse(once(6)) == pytest.approx(brute_force(6, 6, norm=1), rel=1e-4)


def test_no_strategy_beats_the_bound() -> None:
    run = once(48)
    bound = lower_bound(48)
    for strategy in (optimal_banded(run, bands=48), optimal_toeplitz(run), optimal_buffered(run)):
        assert bound <= strategy.rmse(run) < bound * 1.05


def test_dense_in_a_fixed_order() -> None:
    run = ordered(12, period=4)
    best = optimal_dense(run)
    assert best.sensitivity(run).value == pytest.approx(math.sqrt(3), rel=1e-6)
    # Columns of one phase are orthogonal: so the optimum over banded strategies of 4 bands cannot be better.
    assert best.rmse(run) <= optimal_banded(run, bands=4).rmse(run) * (1 + 1e-6)
    with pytest.raises(NotSupported):
        optimal_dense(separated(12, separation=4))


@pytest.mark.parametrize("error", ["mean", "max"])
@pytest.mark.parametrize("run", [once(12), separated(12, separation=4), separated(12, separation=2, times=3)], ids=repr)
def test_toeplitz_is_the_optimum(run: Participation, error: str) -> None:
    def loss(tail: np.ndarray) -> float:
        column = np.concatenate([[1.0], tail, np.zeros(12 - 1 - len(tail))])
        if run.separation < 4 and np.any(np.diff(column[1:]) > 0):
            return math.inf  # the earliest pattern is the worst for falling coefficients only
        matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(12)] for i in range(12)])
        rows = (np.linalg.solve(matrix.T, np.tri(12).T) ** 2).sum(axis=0)
        reached = matrix[:, [m * run.separation for m in range(run.times)]].sum(axis=1)
        return float((np.mean(rows) if error == "mean" else np.max(rows)) * (reached @ reached))

    best = optimal_toeplitz(run, bands=4, error=error)
    expected = minimize(loss, [0.5, 0.3, 0.2], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
    found = best.rmse(run) if error == "mean" else best.worst(run)
    assert found == pytest.approx(math.sqrt(expected), rel=1e-4)


@pytest.mark.parametrize("error", ["mean", "max"])
@pytest.mark.parametrize("bands", [2, 3, 8])
def test_toeplitz_for_every_length(bands: int, error: str) -> None:
    """What is found for one length is better there than what is found for its neighbours. (From a whole unit as its
    first step the search ended where it began for some lengths, 400 with two bands, 800 and 2400 with three.)"""

    def measured(steps: int, coefficients: np.ndarray) -> float:
        strategy = Toeplitz(coefficients, steps)
        return strategy.rmse(once(steps)) if error == "mean" else strategy.worst(once(steps))

    lengths = [50, 200, 400, 800, 1600, 2400, 10_000]
    found = {steps: optimal_toeplitz(once(steps), bands=bands, error=error).coefficients for steps in lengths}
    for steps, other in itertools.permutations(lengths, 2):
        assert measured(steps, found[steps]) < measured(steps, found[other])


def test_the_square_root_is_the_best_toeplitz_for_the_largest_error() -> None:
    # Dvijotham et al. 2024.
    run = once(200)
    assert optimal_toeplitz(run, error="max").worst(run) == pytest.approx(
        Toeplitz.square_root(200).worst(run), rel=1e-6
    )


PUBLISHED = Buffered(decays=[0.9999528892, 0.9857068667], weights=[0.0122853238, 0.1878393665], steps=100_000)
"""The optimum for the largest error with two buffers in jax_privacy's golden test (Dvijotham et al. 2024)."""


def test_published_buffers_are_optimal_here_too() -> None:
    """No change of a published parameter by 1 % lowers our loss, and the slope at them is 0."""
    loss = SeriesLoss(once(100_000), error="max", workload=PREFIX)
    value, slope = loss(PUBLISHED.coefficients)
    powers = np.arange(99_999)[:, None]
    assert np.abs(slope[1:] @ PUBLISHED.decays**powers * PUBLISHED.weights).max() < 1e-5
    for name in ("decays", "weights"):
        for place in (0, 1):
            for by in (0.99, 1.01):
                moved = {"decays": PUBLISHED.decays.copy(), "weights": PUBLISHED.weights.copy()}
                moved[name][place] = 1 - (1 - moved[name][place]) * by if name == "decays" else moved[name][place] * by
                assert loss(Buffered(**moved, steps=100_000).coefficients)[0] > value


@pytest.mark.soak
def test_published_buffers() -> None:
    run, published = once(100_000), PUBLISHED
    best = optimal_buffered(run, buffers=2, error="max")
    np.testing.assert_allclose(best.decays, published.decays, rtol=1e-6)
    np.testing.assert_allclose(best.weights, published.weights, rtol=1e-4)
    assert best.worst(run) == pytest.approx(published.worst(run), rel=1e-8)


@pytest.mark.parametrize(
    ("steps", "buffers", "ratio"),
    [
        (10, 1, 1.04),
        (100, 2, 1.03),
        (100, 3, 1.03),
        (1000, 2, 1.04),
        (1000, 3, 1.03),
        (10_000, 1, 1.45),
        (10_000, 3, 1.03),
    ],
)
def test_buffers_are_as_near_the_optimum_as_published(steps: int, buffers: int, ratio: float) -> None:
    # The ratios to 1 + ln(n)/π (Mathias 1993) that jax_privacy's tests require of its optimiser.
    run = once(steps)
    assert optimal_buffered(run, buffers=buffers, error="max").worst(run) <= ratio * (1 + math.log(steps) / math.pi)


def test_more_freedom_never_hurts() -> None:
    run = separated(60, separation=12)
    most, few, more = (optimal_banded(run, bands=b).rmse(run) for b in (12, 3, 6))
    assert most <= more <= few
    assert most <= optimal_toeplitz(run, bands=12).rmse(run) * (1 + 1e-9)


def test_other_workloads() -> None:
    run, workload = once(40), Workload(momentum=0.9)
    for find in (optimal_banded, optimal_toeplitz):
        own, other = find(run, bands=8, workload=workload), find(run, bands=8)
        assert own.rmse(run, workload) < other.rmse(run, workload)


def test_refusals() -> None:
    for find in (optimal_toeplitz, optimal_banded):
        with pytest.raises(InvalidArgument, match="'mean' or 'max'"):
            find(once(8), bands=2, error="median")
    with pytest.raises(NotSupported):
        optimal_dense(once(5000))
