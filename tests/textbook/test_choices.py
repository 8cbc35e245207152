"""Choices: δ′, L1 or L2, one record per step."""

from __future__ import annotations

import math

import pytest

from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP
from deniable.mechanisms import analytic_scale
from deniable.textbook import best_slack, l1_wins_below, sampled_descent_error, split_variance

TARGET = ApproxDP(1, 1e-6)


def test_the_slack_of_the_notes_and_the_best() -> None:
    """δ′ = δ/2 beats δ′ = δ/(k + 1), as the notes say; the best lies above δ/2 and is hardly better."""
    best = best_slack(TARGET, count=100)
    half, equal, least = (split_variance(TARGET, count=100, slack=slack) for slack in (5e-7, 1e-6 / 101, best))
    assert least <= half < equal
    assert 5e-7 < best < 7e-7
    assert half == pytest.approx(400 * math.log(1.25 * 200 / 1e-6) * math.log(2e6))
    assert all(split_variance(TARGET, count=100, slack=best * off) >= least for off in (0.9, 1.1))
    for wrong in (0, 1e-6, 1e-5):
        with pytest.raises(InvalidArgument, match="slack"):
            split_variance(TARGET, count=100, slack=wrong)


def test_l1_or_l2_by_their_noise() -> None:
    """One release: Laplace noise √2‖g‖₁/ε against the exact Gaussian's; after ten releases L2 always wins."""
    gaussian = analytic_scale(sensitivity=1, epsilon=1, delta=1e-6)
    assert l1_wins_below(TARGET) == pytest.approx(gaussian**2 / 2, rel=1e-2)
    assert l1_wins_below(ApproxDP(4, 1e-6)) == pytest.approx(11.4, abs=0.1)
    assert l1_wins_below(TARGET, steps=10) < 1


def test_sampling_alone_is_not_one_pass() -> None:
    """One record per step: after one pass the bound is far above its limit √d/(nμ), after ten passes still twice."""
    limit = math.sqrt(10) / 1000 * analytic_scale(sensitivity=1, epsilon=1, delta=1e-6)
    one, ten = (sampled_descent_error(TARGET, size=1000, dimension=10, steps=steps) for steps in (1000, 10_000))
    assert one > 5 * limit
    assert 2 * limit < ten < one
