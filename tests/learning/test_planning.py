"""Sizes of linear models: lines that fall, meet where they say, and hold on the instance of the lower bound."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import deniable as dn
from deniable.errors import InvalidArgument
from deniable.learning import LinearRegression, LogisticRegression
from deniable.learning.planning import RiskLines

LINES = RiskLines(1.0, 50, Fraction(1, 10**6))


def test_both_lines_fall_and_never_cross() -> None:
    for epsilon in (0.1, 1, 5):
        uppers = [LINES.upper(n, epsilon) for n in (1, 5, 30, 1000, 10**6)]
        lowers = [LINES.lower(n, epsilon) for n in (1, 5, 30, 1000, 10**6)]
        assert uppers == sorted(uppers, reverse=True)
        assert lowers == sorted(lowers, reverse=True)
        assert all(low <= high for low, high in zip(lowers, uppers, strict=True))
        assert max(lowers) <= 1
    assert LINES.lower(100, 0.1) >= LINES.lower(100, 1)


def test_the_lower_line_is_that_of_its_proof() -> None:
    """By hand at n = 1000, r = 50, ε = 0.1: √r/(6ns)·(1 − 2/(5r))², as the best part of the records is below 1."""
    s = math.sqrt(math.expm1(LINES.mu(0.1) ** 2))
    assert LINES.lower(1000, 0.1) == pytest.approx(math.sqrt(50) / (6000 * s) * (1 - 2 / 250) ** 2)
    noisy = math.sqrt(50) / (1000 * LINES.mu(0.1))  # the noise of the noisy mean, which minimises that instance
    assert LINES.lower(1000, 0.1) < noisy


@pytest.mark.parametrize("question", [{"epsilon": 1, "error": 0.05}, {"size": 5000, "error": 0.05}])
def test_the_answer_meets_the_question_and_a_little_less_does_not(question: dict[str, float]) -> None:
    plan = dn.size(LogisticRegression, columns=10, **question)
    assert plan.error <= 0.05
    lines = RiskLines(1.0, 10, Fraction(1, 10**6))
    if "size" in question:
        assert lines.upper(5000, plan.epsilon - Fraction(1, 1000)) > 0.05
    else:
        assert lines.upper(plan.size - 1, 1) > 0.05
    assert plan.least_size <= plan.size
    assert plan.costs_below <= plan.free_from


def test_settings_count() -> None:
    def need(model: type, **known: object) -> int:
        return int(dn.size(model, epsilon=1, error=0.05, **known).size)

    base = need(LogisticRegression, columns=100)
    assert need(LogisticRegression, columns=100, rank=5) < base
    assert need(LogisticRegression, columns=100, classes=3) > base
    assert need(LogisticRegression, columns=100, radius=2) > base
    assert need(LinearRegression, columns=100) > base
    for wrong in ({}, {"size": 5, "epsilon": 1, "error": 1}, {"epsilon": 1}):
        with pytest.raises(InvalidArgument, match="exactly one"):
            LogisticRegression.plan_size(columns=3, **wrong)
    with pytest.raises(InvalidArgument):
        dn.size(LogisticRegression, columns=10, size=5, error=1e-9)
    assert "nearly free" in str(dn.size(LogisticRegression, columns=10, size=100, epsilon=1))


def test_phased_sgd_is_below_its_line() -> None:
    """On the instance of the lower bound: linear losses, whose minimum over the ball is −|mean|."""
    generator = np.random.default_rng(1)
    rows = generator.choice([-1.0, 1.0], p=[0.4, 0.6], size=(4000, 10)) / math.sqrt(10)
    noisy = rows.mean(axis=0) + generator.normal(size=10) * 2 / (4000 * LINES.mu(1))
    direction = noisy / np.linalg.norm(noisy)
    mean = np.full(10, 0.2 / math.sqrt(10))
    excess = float(np.linalg.norm(mean) - mean @ direction)
    assert excess <= RiskLines(1.0, 10, Fraction(1, 10**6)).upper(4000, 1)
