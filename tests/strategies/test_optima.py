"""Optimal factors against independent optima for short runs, proven bounds, and published values. About 20 s."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from deniable.errors import InvalidArgument, NotSupported
from deniable.strategies import (
    PREFIX,
    Banded,
    Buffered,
    Toeplitz,
    Workload,
    lower_bound,
    once,
    optimal_banded,
    optimal_buffered,
    optimal_dense,
    optimal_toeplitz,
    ordered,
    separated,
)
from deniable.strategies.optima.banded import _signed
from deniable.strategies.optima.toeplitz import Loss
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
def test_banded_is_the_optimum(steps, bands):
    best = optimal_banded(once(steps), bands=bands)
    assert best.rmse(once(steps)) == pytest.approx(brute_force(steps, bands, norm=1, starts=2), rel=2e-4)
    assert np.allclose(best.lengths(), 1)


def test_a_negative_diagonal_changes_rows_and_no_error():
    entries = mixed_signs(9, 3).entries.copy()
    entries[::2, 0] *= -1
    matrix = np.zeros((9, 9))
    for j, k in zip(*np.nonzero(entries), strict=True):
        matrix[j + k, j] = entries[j, k]
    found = Banded(_signed(entries)).matrix()
    np.testing.assert_allclose(found.T @ found, matrix.T @ matrix, atol=1e-12)


def test_banded_largest_error():
    best = optimal_banded(once(8), bands=3, error="max", iterations=200)
    # The 128-norm of eight rows is within 8^(1/128) of the largest.
    assert best.worst(once(8)) == pytest.approx(brute_force(8, 3, norm=128), rel=0.01)
    assert best.worst(once(8)) < optimal_banded(once(8), bands=3).worst(once(8))


def test_banded_sensitivity_is_the_number_of_participations():
    run = separated(24, separation=6)
    assert float(optimal_banded(run, bands=6).sensitivity(run).value) == pytest.approx(2.0, rel=1e-8)
    with pytest.raises(InvalidArgument, match="at most the separation"):
        optimal_banded(run, bands=7)


def test_dense_meets_its_bound():
    for steps in (1, 2, 16, 60):
        bound, found = lower_bound(steps), optimal_dense(once(steps)).rmse(once(steps))
        assert bound <= found <= bound * 1.0001
    assert optimal_dense(once(6)).rmse(once(6)) == pytest.approx(brute_force(6, 6, norm=1), rel=1e-4)


def test_no_strategy_beats_the_bound():
    run = once(48)
    bound = lower_bound(48)
    for strategy in (optimal_banded(run, bands=48), optimal_toeplitz(run), optimal_buffered(run)):
        assert bound <= strategy.rmse(run) < bound * 1.05


def test_dense_in_a_fixed_order():
    run = ordered(12, period=4)
    best = optimal_dense(run)
    assert best.sensitivity(run).value == pytest.approx(math.sqrt(3), rel=1e-6)
    # Columns of one phase are orthogonal: so the optimum over banded strategies of 4 bands cannot be better.
    assert best.rmse(run) <= optimal_banded(run, bands=4).rmse(run) * (1 + 1e-6)
    with pytest.raises(NotSupported):
        optimal_dense(separated(12, separation=4))


@pytest.mark.parametrize("error", ["mean", "max"])
@pytest.mark.parametrize("run", [once(12), separated(12, separation=4), separated(12, separation=2, times=3)], ids=repr)
def test_toeplitz_is_the_optimum(run, error):
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


def test_the_square_root_is_the_best_toeplitz_for_the_largest_error():
    # Dvijotham et al. 2024.
    run = once(200)
    assert optimal_toeplitz(run, error="max").worst(run) == pytest.approx(
        Toeplitz.square_root(200).worst(run), rel=1e-6
    )


PUBLISHED = Buffered(decays=[0.9999528892, 0.9857068667], weights=[0.0122853238, 0.1878393665], steps=100_000)
"""The optimum for the largest error with two buffers in jax_privacy's golden test (Dvijotham et al. 2024)."""


def test_published_buffers_are_optimal_here_too():
    """No change of a published parameter by 1 % lowers our loss, and the slope at them is 0."""
    loss = Loss(once(100_000), error="max", workload=PREFIX)
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
def test_published_buffers():
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
def test_buffers_are_as_near_the_optimum_as_published(steps, buffers, ratio):
    # The ratios to 1 + ln(n)/π (Mathias 1993) that jax_privacy's tests require of its optimiser.
    run = once(steps)
    assert optimal_buffered(run, buffers=buffers, error="max").worst(run) <= ratio * (1 + math.log(steps) / math.pi)


def test_more_freedom_never_hurts():
    run = separated(60, separation=12)
    banded, few, more = (optimal_banded(run, bands=b).rmse(run) for b in (12, 3, 6))
    assert banded <= more <= few
    assert banded <= optimal_toeplitz(run, bands=12).rmse(run) * (1 + 1e-9)


def test_other_workloads():
    run, workload = once(40), Workload(momentum=0.9)
    for find in (optimal_banded, optimal_toeplitz):
        own, other = find(run, bands=8, workload=workload), find(run, bands=8)
        assert own.rmse(run, workload) < other.rmse(run, workload)


def test_refusals():
    for find in (optimal_toeplitz, optimal_banded):
        with pytest.raises(InvalidArgument, match="'mean' or 'max'"):
            find(once(8), bands=2, error="median")
    with pytest.raises(NotSupported):
        optimal_dense(once(5000))
