"""Every published number that could be found in readable form, with its source. About 5 s.

"jax_privacy" is google-deepmind/jax_privacy, tests/matrix_factorization, by the authors of the papers; "federated" is
google-research/federated, the code of Denisov et al. 2022 and Choquette-Choo et al. 2023. Values are copied, no code.
The two-buffer optimum for 100 000 steps is in `test_optima.py`, the error of the square root in `test_errors.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from deniable import ZERO_OUT, account
from deniable.events import Gaussian
from deniable.strategies import (
    PREFIX,
    Banded,
    Buffered,
    Dense,
    Toeplitz,
    Tree,
    lower_bound,
    once,
    optimal_banded,
    optimal_buffered,
    optimal_dense,
    optimal_toeplitz,
    ordered,
    separated,
)
from deniable.strategies.optima.dense import _fixed_point, _square

# errors


def test_multipliers_of_the_dense_optimum() -> None:
    """federated, fixed_point_library_test: three steps, 50 rounds in single precision. They add up to 3·rmse²."""
    published = [2.651861, 1.257355, 0.698646]
    weights, _ = _fixed_point(_square(3, PREFIX))
    np.testing.assert_allclose(weights * 3 * lower_bound(3) ** 2, published, rtol=5e-6)
    assert 3 * optimal_dense(once(3)).rmse(once(3)) ** 2 == pytest.approx(sum(published), rel=2e-6)
    assert 3 * optimal_banded(once(3), bands=3).rmse(once(3)) ** 2 == pytest.approx(sum(published), rel=2e-6)


def test_errors_of_given_factors() -> None:
    """jax_privacy, dense_test and banded_test."""
    assert Dense([[1, 0], [0.5, 1]]).variances() == pytest.approx([1, 1.25])
    assert Tree(2).variances()[1] == pytest.approx(2 / 3)  # Honaker's estimate of the whole
    assert optimal_banded(once(9), bands=1).rmse(once(9)) ** 2 == pytest.approx(5.0)


@pytest.mark.parametrize("steps", [16, 40])
def test_the_least_largest_error_lies_between_the_published_bounds(steps: int) -> None:
    """(2 + ln((2n + 1)/3))/π (Matoušek, Nikolov, Talwar 2020) ≤ the optimum ≤ 1 + ln(n)/π (Mathias 1993)."""
    run = once(steps)
    below, above = (2 + math.log((2 * steps + 1) / 3)) / math.pi, 1 + math.log(steps) / math.pi
    assert below <= optimal_banded(run, bands=steps, error="max").worst(run) <= above
    for strategy in (Tree(steps), Toeplitz.square_root(steps), optimal_toeplitz(run, error="max")):
        assert strategy.worst(run) >= below


@pytest.mark.parametrize("steps", [64, 256])
def test_the_least_mean_error_lies_between_the_published_bounds(steps: int) -> None:
    """0.701 + ln(n)/π + o(1) ≤ the optimum ≤ the square root with columns of length 1 (Henzinger, Kalinin, Upadhyay
    2025, "Normalized square root"), whose constants tend to 0.748 for the mean and 0.846 for the largest error."""
    run, root = once(steps), Toeplitz.square_root(steps)
    normalized = Dense(root.matrix() / root.lengths())
    logarithm = math.log(steps) / math.pi
    assert 0.701 < lower_bound(steps) - logarithm < normalized.rmse(run) - logarithm < root.rmse(run) - logarithm
    assert 0.748 < normalized.rmse(run) - logarithm < 0.748 + 0.06
    assert 0.846 < normalized.worst(run) - logarithm < 0.846 + 0.06


@pytest.mark.parametrize("separation", [5, 40, 100])
@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize(
    ("decays", "weights"),
    [
        ([0.9877027559462715], [0.10595704738115597]),
        ([0.993433070819512, 0.6342644427247973], [0.07538320617916519, 0.5144060910151949]),
    ],
)
def test_buffers_are_no_worse_than_those_of_another_run(
    decays: list[float], weights: list[float], times: int, separation: int
) -> None:
    """jax_privacy, buffered_toeplitz_test: 500 steps, buffers found for two participations of 1000."""
    run = separated(500, times=times, separation=separation)
    other = Buffered(decays=decays, weights=weights, steps=500)
    assert optimal_buffered(run, buffers=len(decays), error="max").worst(run) < other.worst(run)


def test_two_buffers_for_many_steps() -> None:
    """jax_privacy: within 1.16 of 1 + ln(n)/π for 100 000 steps, which is more than two buffers can do."""
    published = Buffered(decays=[0.9999528892, 0.9857068667], weights=[0.0122853238, 0.1878393665], steps=100_000)
    assert published.worst(once(100_000)) <= 1.16 * (1 + math.log(100_000) / math.pi)


# sensitivities

ENTRIES = np.array([[1.0, 0, 0, 0], [2, 1, 0, 0], [0, 1, 1, 0], [0, 0, -1, 6]])
"""jax_privacy, sensitivity_test; its last row has the other sign, which leaves CᵀC as it is."""


def test_sensitivities_of_a_given_matrix() -> None:
    whole = Dense(ENTRIES)
    banded = Banded([[1, 2], [1, 1], [1, -1], [6, 0]])
    np.testing.assert_array_equal(banded.matrix(), ENTRIES)
    for strategy in (whole, banded):
        assert float(strategy.sensitivity(once(4)).value) == pytest.approx(6.0)
        for separation in (2, 3):
            found = strategy.sensitivity(separated(4, separation=separation))
            assert float(found.value) == pytest.approx(math.sqrt(5 + 36))
    assert banded.sensitivity(separated(4, separation=2)).exact
    assert float(Dense(ENTRIES[:3, :3]).sensitivity(once(3)).value) == pytest.approx(math.sqrt(5))


def test_the_bound_of_a_dense_matrix() -> None:
    entries = ENTRIES.copy()
    entries[2:, 0] = 0.5, -0.4
    gram = entries.T @ entries
    found = Dense(entries).sensitivity(separated(4, separation=1))
    assert float(found.value) == pytest.approx(math.sqrt(np.abs(gram).sum()))


@pytest.mark.parametrize(
    ("steps", "counts"), [(5, [5, 3, 2, 2, 1, 1]), (4, [4, 2, 2, 1]), (1, [1, 1, 1])], ids=["5", "4", "1"]
)
def test_how_often_a_unit_takes_part(steps: int, counts: list[int]) -> None:
    """jax_privacy: minsep_true_max_participations."""
    assert [separated(steps, separation=b).times for b in range(1, len(counts) + 1)] == counts


def test_banded_columns_of_length_one() -> None:
    """jax_privacy: 32 steps, 4 bands, 4 apart: sensitivity² is 8, and 6 for six participations."""
    best = optimal_banded(separated(32, separation=4), bands=4)
    assert float(best.sensitivity(separated(32, separation=4)).value) ** 2 == pytest.approx(8.0)
    assert float(best.sensitivity(separated(32, separation=4, times=6)).value) ** 2 == pytest.approx(6.0)


@pytest.mark.parametrize("times", [1, 4, 11])
def test_sensitivity_of_prefix_sums(times: int) -> None:
    """jax_privacy, toeplitz_test: C = A, the first columns."""
    run = separated(11, separation=1, times=times)
    expected = np.linalg.norm(np.tri(11)[:, :times].sum(axis=1))
    assert float(Toeplitz(np.ones(11), 11).sensitivity(run).value) == pytest.approx(expected)


@pytest.mark.parametrize("epochs", [1, 2, 4, 8, 16])
def test_independent_noise_in_a_fixed_order(epochs: int) -> None:
    run = ordered(16, period=16 // epochs)
    assert float(Toeplitz([1.0], 16).sensitivity(run).value) == pytest.approx(math.sqrt(epochs))


def test_the_tree_is_the_published_matrix() -> None:
    """federated, matrix_constructors_test: eight leaves, nodes in the order in which they end."""
    covered = ["1", "2", "12", "3", "4", "34", "1234", "5", "6", "56", "7", "8", "78", "5678", "12345678"]
    expected = [[float(str(leaf) in node) for leaf in range(1, 9)] for node in covered]
    np.testing.assert_array_equal(Tree(8).matrix(), expected)


# bands and sampling


@pytest.mark.parametrize(("epsilon", "best"), [(0.1, 1), (20.0, 10)])
def test_the_best_number_of_bands(epsilon: float, best: int) -> None:
    """jax_privacy, toeplitz_test: 1000 units, batches of 100, 100 steps, δ = 1e-6. At ε = 0.1 sampling alone is best,
    at ε = 20 as many bands as there are batches."""
    run, errors = once(100), {}
    for bands in (1, 2, 5, 10):
        found = optimal_toeplitz(run, bands=bands)
        errors[bands] = _scale(epsilon, bands) * found.rmse(run)
    assert min(errors, key=errors.__getitem__) == best


def _scale(epsilon: float, bands: int) -> float:
    """The noise, in column lengths, of 100 steps with cyclic Poisson batches, to 0.1 %."""
    low, high = 0.05, 500.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        run = Gaussian(middle, 1, ZERO_OUT).sampled(rate=bands / 10) * (100 // bands)
        low, high = (low, middle) if account(run).epsilon(delta=1e-6) <= epsilon else (middle, high)
    return high
