"""The notes' sample-size questions, in every direction, against their formulas. About 8 seconds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from deniable import mechanisms as dm
from deniable.errors import InvalidArgument
from deniable.mechanisms import central_and_local, size
from deniable.units import REPLACE

MEAN: dict[str, Any] = {"bounds": (0, 1), "relation": REPLACE}


@pytest.mark.parametrize(("epsilon", "error"), [(1, 0.01), (0.1, 0.05), (0.5, 0.001)])
def test_a_mean_needs_ln_one_over_beta_over_alpha_epsilon(epsilon: float, error: float) -> None:
    """Within a per cent of n = ln(1/β)/(αε), the grid included; half of what a sensitivity of 2/n would ask for."""
    found = size(dm.mean, **MEAN, epsilon=epsilon, error=error).size
    notes = math.log(20) / (error * epsilon)
    assert found == pytest.approx(notes, rel=0.01, abs=1)


@pytest.mark.parametrize(("epsilon", "error"), [(1, 0.01), (0.25, 0.05)])
def test_randomised_response_needs_its_formula(epsilon: float, error: float) -> None:
    """n = ln(2/β)/(2 tanh²(ε/2) α²)."""
    notes = math.log(2 / 0.05) / (2 * math.tanh(epsilon / 2) ** 2 * error**2)
    assert size(dm.binary_response, epsilon=epsilon, error=error).size == math.ceil(notes)


def test_means_of_many_columns() -> None:
    """Pure: d·ln(d/β)/(αε). Gaussian: √d·Φ⁻¹(1 − β/(2d))/(αμ), with μ from (ε, δ)."""
    from scipy.stats import norm

    columns: dict[str, Any] = {"bounds": [(0, 1)] * 50}
    pure = size(dm.column_means, **columns, epsilon=1, error=0.01).size
    assert pure == pytest.approx(50 * math.log(50 / 0.05) / 0.01, rel=0.02)
    normal = size(dm.column_means, **columns, epsilon=1, delta=1e-6, error=0.01).size
    mu = 1 / dm.analytic_scale(sensitivity=1, epsilon=1, delta=1e-6)
    best = math.sqrt(50) * norm.isf(0.05 / 100) / (0.01 * mu)
    assert best <= normal <= best * 1.1  # vectors are calibrated by the zCDP bound
    assert normal < pure


@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        (dm.mean, MEAN),
        (dm.mean, {"bounds": (0, 1)}),
        (dm.variance, MEAN),
        (dm.column_means, {"bounds": [(0, 1)] * 3}),
        (dm.binary_response, {}),
        (dm.category_response, {"keys": ["a", "b", "c"]}),
        (dm.unary_response, {"keys": ["a", "b", "c"]}),
        (dm.histogram, {"keys": ["a", "b"], "relative": True}),
        (dm.marginals, {"attributes": {"x": [0, 1], "y": [0, 1]}, "relative": True}),
    ],
)
def test_all_three_directions_agree(mechanism: Any, settings: dict[str, Any]) -> None:
    """n from ε and error, then ε from that n, then the error: each meets the request, and nothing smaller does."""
    epsilon, error = Fraction(1, 2), 0.02
    plan = size(mechanism, **settings, epsilon=epsilon, error=error)
    assert plan.error <= error
    fewer = size(mechanism, **settings, epsilon=epsilon, size=plan.size - 1)
    assert fewer.error > error
    back = size(mechanism, **settings, size=plan.size, error=error)
    assert back.error <= error
    assert back.epsilon <= epsilon
    assert size(mechanism, **settings, size=plan.size, epsilon=back.epsilon * Fraction(99, 100)).error > error
    assert size(mechanism, **settings, size=plan.size, epsilon=epsilon).error == plan.error


def test_where_n_does_not_matter() -> None:
    plan = size(dm.count, error=6)
    assert plan.size is None
    assert plan.epsilon <= Fraction(1, 2)
    assert size(dm.count, epsilon=plan.epsilon, error=None).error <= 6
    with pytest.raises(InvalidArgument, match="relative"):
        size(dm.count, epsilon=1, size=50)


def test_asking_for_too_little_or_too_much() -> None:
    for asked in ({}, {"size": 5}, {"size": 5, "epsilon": 1, "error": 0.1}):
        with pytest.raises(InvalidArgument, match="exactly one"):
            size(dm.mean, **MEAN, **asked)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="error"):
        size(dm.mean, **MEAN, epsilon=1, error=1e-12)  # finer than the grid of the records
    with pytest.raises(InvalidArgument, match="error"):
        size(dm.binary_response, size=10, error=0.001)
    for bad in (0, -1, math.nan):
        with pytest.raises(InvalidArgument, match="error"):
            size(dm.mean, **MEAN, epsilon=1, error=bad)


def test_a_plan_holds_the_mechanism_it_is_about() -> None:
    plan = size(dm.mean, **MEAN, epsilon=1, error=0.1)
    assert plan.mechanism.error(0.95) == plan.error
    assert str(plan).startswith(f"n = {plan.size}, ε = 1: with probability 95 % the error is at most 0.")


def test_central_against_local() -> None:
    """The price of trusting nobody: 1/(αε) against 1/(αε)²."""
    by_n = central_and_local(epsilon=0.5, error=0.01)
    assert by_n.local.size > 400 * by_n.central.size
    by_error = central_and_local(epsilon=0.5, size=10_000)
    assert by_error.local.error > 20 * by_error.central.error
    assert "times as large" in str(by_error)
    by_epsilon = central_and_local(size=10_000, error=0.05)
    assert by_epsilon.local.epsilon > 10 * by_epsilon.central.epsilon
    assert "times as much" in str(by_epsilon)
