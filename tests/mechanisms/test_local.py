"""Local reports: their laws, unbiased estimates, variances and intervals. About 5 seconds; false alarms at most 1e-6
per test."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import mechanisms as dm
from deniable.accounting.accountant import account
from deniable.errors import DataError, InvalidArgument

KEYS = ["a", "b", "c", "d"]


def within(count: int, trials: int, p: float) -> bool:
    """A count of successes that is not absurd: two-sided binomial, false alarm 1e-7."""
    return stats.binom.ppf(5e-8, trials, p) <= count <= stats.binom.isf(5e-8, trials, p)


def test_binary_response_tells_the_truth_as_often_as_it_says() -> None:
    m = dm.binary_response(epsilon=1)
    keep = math.exp(1) / (1 + math.exp(1))
    assert m.bias == pytest.approx(keep - 0.5, rel=1e-12)
    assert within(int(m([True] * 20_000).sum()), 20_000, keep)
    assert within(int(m([False] * 20_000).sum()), 20_000, 1 - keep)


@pytest.mark.parametrize("g", [0.01, 0.25, 0.4999])
def test_bias_and_epsilon(g: float) -> None:
    """ε = ln((1/2 + g)/(1/2 − g)) = 2 artanh(2g), rounded up."""
    m = dm.binary_response(bias=g)
    assert 0 <= float(m.epsilon) - 2 * math.atanh(2 * g) < 2e-9
    assert m.bias == pytest.approx(g, abs=1e-9)


@pytest.mark.parametrize("bad", [0, 0.5, -0.1, 1, math.nan])
def test_a_bias_lies_between_a_coin_and_the_truth(bad: float) -> None:
    with pytest.raises(InvalidArgument, match="bias"):
        dm.binary_response(bias=bad)
    with pytest.raises(InvalidArgument, match="epsilon"):
        dm.binary_response()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_binary_estimate_is_unbiased_and_has_the_stated_variance(share: float) -> None:
    """Exactly, by the two moments of a report; then the erratum: the plain mean of reports is biased, whatever n."""
    m = dm.binary_response(epsilon=1)
    g = m.bias
    mean = share * (0.5 + g) + (1 - share) * (0.5 - g)
    assert (mean - (0.5 - g)) / (2 * g) == pytest.approx(share, abs=1e-12)
    spread = (0.25 - g * g) / (4 * g * g * 100)
    assert m.variance(size=100) == pytest.approx(spread, rel=1e-12)
    if share != 0.5:
        assert abs(mean - share) > 0.1


def test_the_binary_interval() -> None:
    """Coverage at 80 %, 300 surveys of 400 people."""
    m = dm.binary_response(epsilon=1)
    truth = [True] * 120 + [False] * 280
    found = [m.estimate(m(truth), confidence=0.8) for _ in range(300)]
    assert sum(not e.lower <= 0.3 <= e.upper for e in found) <= stats.binom.isf(4e-7, 300, 0.2)
    assert stats.ttest_1samp([e.value for e in found], 0.3).pvalue > 4e-7
    with pytest.raises(DataError):
        m.estimate([])


def test_the_notes_bounds_of_randomised_response() -> None:
    """Chebyshev at 3/4: 1/(2g√n) (the printed 1/(g√n) holds with 15/16); ours by Hoeffding is close to it."""
    m = dm.binary_response(epsilon=0.5)
    n = 10_000
    assert math.sqrt(m.variance(size=n) / 0.25) <= 1 / (2 * m.bias * math.sqrt(n))
    assert math.sqrt(m.variance(size=n) * 16) <= 1 / (m.bias * math.sqrt(n))
    assert m.error(0.95, size=n) == pytest.approx(math.sqrt(math.log(2 / 0.05) / (8 * m.bias**2 * n)), rel=1e-9)


def test_category_response_law() -> None:
    m = dm.category_response(keys=KEYS, epsilon=1.5)
    p, q = m.chances
    assert p == pytest.approx(math.exp(1.5) / (math.exp(1.5) + 3), rel=1e-12)
    assert p / q == pytest.approx(math.exp(1.5), rel=1e-12)
    assert p + 3 * q == pytest.approx(1, rel=1e-12)
    for truth in KEYS:
        said = m([truth] * 4000)
        observed = [said.count(key) for key in KEYS]
        expected = [4000 * (p if key == truth else q) for key in KEYS]
        assert stats.chisquare(observed, expected).pvalue > 1e-7


def test_category_response_estimates() -> None:
    """Unbiased with the stated variance: 400 surveys of 300 people."""
    m = dm.category_response(keys=KEYS, epsilon=1)
    truth = ["a"] * 150 + ["b"] * 90 + ["c"] * 60
    found = [m.estimate(m(truth), confidence=0.8) for _ in range(400)]
    held = {"a": 0.5, "b": 0.3, "c": 0.2, "d": 0.0}
    for key, share in held.items():
        values = [f[key].value for f in found]
        assert stats.ttest_1samp(values, share).pvalue > 1e-8
        ratio = np.var(values) / m.variance(size=300, share=share)
        assert stats.chi2.ppf(1e-8, 399) < 400 * ratio < stats.chi2.isf(1e-8, 399)
    missed = sum(any(not f[k].lower <= s <= f[k].upper for k, s in held.items()) for f in found)
    assert missed <= stats.binom.isf(5e-7, 400, 0.2)


def test_unary_response_law_and_privacy() -> None:
    m = dm.unary_response(keys=KEYS, epsilon=1)
    rows = m(["b"] * 8000)
    assert within(int(rows[:, 1].sum()), 8000, 0.5)
    for other in (0, 2, 3):
        assert within(int(rows[:, other].sum()), 8000, 1 / (math.e + 1))
    # Two categories differ in two bits: (1/2)/Q · (1 − Q)/(1/2) = e^ε is the worst ratio.
    assert (0.5 / m.false) * ((1 - m.false) / 0.5) == pytest.approx(math.e, rel=1e-12)
    assert (0.5 / m.false) < math.e  # a person without any category
    assert within(int(m(["unknown"] * 8000)[:, 0].sum()), 8000, m.false)


def test_unary_response_estimates() -> None:
    m = dm.unary_response(keys=KEYS, epsilon=1)
    truth = ["a"] * 150 + ["b"] * 90 + ["c"] * 60
    found = [m.estimate(m(truth), confidence=0.8) for _ in range(300)]
    for key, share in {"a": 0.5, "b": 0.3, "c": 0.2, "d": 0.0}.items():
        values = [f[key].value for f in found]
        assert stats.ttest_1samp(values, share).pvalue > 1e-8
        ratio = np.var(values) / m.variance(size=300, share=share)
        assert stats.chi2.ppf(1e-8, 299) < 300 * ratio < stats.chi2.isf(1e-8, 299)
    rare = 4 * math.e / (300 * (math.e - 1) ** 2)
    assert m.variance(size=300, share=0) == pytest.approx(rare, rel=1e-12)


def test_many_categories_at_a_small_epsilon_prefer_unary() -> None:
    keys = list(range(200))
    assert dm.unary_response(keys=keys, epsilon=1).error(size=1000) < dm.category_response(keys=keys, epsilon=1).error(
        size=1000
    )
    assert dm.category_response(keys=[0, 1], epsilon=5).error(size=1000) < dm.unary_response(
        keys=[0, 1], epsilon=5
    ).error(size=1000)


LOCALS: list[Any] = [
    dm.binary_response(epsilon=1), dm.category_response(keys=KEYS, epsilon=1), dm.unary_response(keys=KEYS, epsilon=1)
]  # fmt: skip


@pytest.mark.parametrize("local", LOCALS)
def test_shuffling_keeps_the_reports_and_loses_the_order(local: Any) -> None:
    m = dm.shuffled(local, size=200)
    values = [True] * 200 if isinstance(local, dm.BinaryResponse) else ["a"] * 100 + ["b"] * 100
    reports = m(values)
    assert len(reports) == 200
    assert m.estimate(reports) == local.estimate(reports)
    with pytest.raises(DataError, match="size=200"):
        m(values[:-1])


def test_shuffling_is_a_uniform_order() -> None:
    """The place of the one true report among three, at ε so large that reports are true: χ², false alarm 1e-6."""
    m = dm.shuffled(dm.category_response(keys=["x", "a"], epsilon=60), size=3)
    places = [m(["x", "a", "a"]).index("x") for _ in range(1500)]
    assert stats.chisquare(np.bincount(places, minlength=3)).pvalue > 1e-6


def test_shuffling_amplifies() -> None:
    """ε₀ = 1, n = 1000, δ = 1e-5: 0.125 for binary reports."""
    m = dm.shuffled(dm.binary_response(epsilon=1), size=1000)
    assert account(m.event).epsilon(1e-5) == pytest.approx(0.12504, rel=1e-3)


def test_only_local_mechanisms_are_shuffled() -> None:
    with pytest.raises(InvalidArgument, match="local"):
        dm.shuffled(dm.count(epsilon=1), size=5)  # type: ignore[arg-type]


def test_estimates_keep_their_intervals_inside() -> None:
    m = dm.binary_response(epsilon=Fraction(1, 10))
    for reports in ([True] * 5, [False] * 5):
        value, lower, upper = m.estimate(reports)
        assert 0 <= lower <= upper <= 1
        assert not 0 <= value <= 1  # unbiased, hence free to leave the range
