"""Errors of every strategy against the matrices themselves, and the gradient against differences. 1 s."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from deniable.errors import InvalidArgument
from deniable.strategies import EACH, PREFIX, Buffered, Toeplitz, Tree, Workload, once
from deniable.strategies.banded import by_columns
from deniable.strategies.workloads import Recursion
from tests.strategies.examples import mixed_signs, noising, strategies

WORKLOADS = [PREFIX, EACH, Workload(momentum=0.9), Workload(decay=0.8), Workload(momentum=0.5, decay=0.99)]


def models(workload: Workload, steps: int) -> np.ndarray:
    """A, by running the optimizer on unit gradients."""
    found = np.zeros((steps, steps))
    for column in range(steps):
        speed = model = 0.0
        for t in range(steps):
            speed = workload.momentum * speed + (t == column)
            model = workload.decay * model + speed
            found[t, column] = model
    return found


@pytest.mark.parametrize("workload", WORKLOADS, ids=repr)
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_variances(workload: Workload, steps: int) -> None:
    np.testing.assert_allclose(toeplitz(workload.coefficients(steps), np.zeros(steps)), models(workload, steps))
    for strategy in strategies(steps):
        expected = ((models(workload, steps) @ noising(strategy)) ** 2).sum(axis=1)
        np.testing.assert_allclose(strategy.variances(workload), expected, rtol=1e-9, err_msg=repr(strategy))


def test_honaker_halves_the_variance_of_a_node() -> None:
    whole = Tree(1024).variances()
    assert whole[1023] == pytest.approx(1 / (2 - 2**-10))
    assert whole[1022] == pytest.approx(sum(1 / (2 - 2.0**-h) for h in range(10)))


def test_the_square_root_reaches_its_published_error() -> None:
    # Σ (C(2k, k)/4^k)² = (ln T + γ + 4 ln 2)/π + O(1/T) for both factors; at most 1 + (γ + ln T)/π.
    for steps in (100, 1000, 10_000):
        found = Toeplitz.square_root(steps).worst(once(steps))
        gamma = 0.5772156649015329
        assert found == pytest.approx((math.log(steps) + gamma + 4 * math.log(2)) / math.pi, abs=1 / steps)
        assert found <= 1 + (gamma + math.log(steps)) / math.pi


def test_error_per_unit_of_sensitivity() -> None:
    plain = Toeplitz([2.0], 10)  # independent noise, whatever the scale
    assert plain.rmse(once(10)) == pytest.approx(math.sqrt(5.5), rel=1e-8)
    assert plain.worst(once(10)) == pytest.approx(math.sqrt(10), rel=1e-8)


def test_growth() -> None:
    for strategy in strategies(9):
        true = np.linalg.norm(noising(strategy), axis=1).max() * strategy.lengths().max()
        if isinstance(strategy, Tree):
            assert true <= strategy.growth() <= 3 * true
        else:
            assert strategy.growth() == pytest.approx(true, rel=1e-7)
    assert Toeplitz([1e-6], 9).growth() == pytest.approx(1, rel=1e-7)  # whatever the scale
    assert Toeplitz([1.0, 2.0], 40).growth() > 2**40
    assert not Toeplitz([1.0, 2.0], 4000).growth() < math.inf


@pytest.mark.parametrize("workload", WORKLOADS, ids=repr)
@pytest.mark.parametrize("bands", [1, 2, 5])
def test_gradient_of_the_variances(workload: Workload, bands: int) -> None:
    strategy = mixed_signs(8, bands, seed=bands)
    weights = np.random.default_rng(0).random(8)
    recursion = Recursion(workload)
    recursion.forward(strategy.by_rows())
    found = by_columns(recursion.backward(weights))
    for place in zip(*np.nonzero(strategy.entries), strict=True):
        step = np.zeros_like(strategy.entries)
        step[place] = 1e-6
        up, down = (type(strategy)(strategy.entries + sign * step).variances(workload) for sign in (1, -1))
        assert found[place] == pytest.approx((up - down) @ weights / 2e-6, rel=1e-5, abs=1e-5)


def test_the_inverse_of_buffers_is_buffered() -> None:
    strategy = Buffered(decays=[0.95, 0.5, 0.1], weights=[0.1, 0.2, 0.3], steps=12)
    decays, weights = strategy.inverse()
    series = np.concatenate([[1.0], [(weights * decays**k).sum() for k in range(11)]])
    np.testing.assert_allclose(np.convolve(series, strategy.coefficients)[:12], np.eye(12)[0], atol=1e-12)


def test_refusals() -> None:
    for wrong in ({"momentum": 1.0}, {"decay": -0.1}, {"decay": 1.1}, {"momentum": -0.1}):
        with pytest.raises(InvalidArgument):
            Workload(**wrong)
