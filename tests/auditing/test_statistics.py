"""Fixed-sample statistics: the case of the lecture notes, independent formulas, and how often they are wrong.

About 8 seconds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import betainc, mp
from scipy import stats

from deniable.auditing import statistics as st
from deniable.auditing.statistics import Counts
from deniable.errors import InvalidArgument

NOTES = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
"""Tramèr et al. 2022: a claim of (0.21, 1e-5), attacked by a canary's loss at threshold 2.64."""

P = 1 - 1e-10


def test_the_case_of_the_notes_is_refuted_by_clopper_and_pearson() -> None:
    false_positive, false_negative = st.error_rates(NOTES, level=1e-10)
    assert false_positive == pytest.approx(0.0027445, abs=5e-8)
    assert false_negative == pytest.approx(0.955082, abs=5e-7)
    bound = st.epsilon_lower(NOTES, delta=1e-5, confidence=P)
    assert bound.value == pytest.approx(2.79499955, abs=1e-8)
    assert bound.certifies
    assert bound.value > 0.21
    # What the claim allows, and the point estimate.
    allowed = (1 - 1e-5 - (1 - NOTES.true_positive_rate)) / math.exp(0.21)
    assert allowed == pytest.approx(0.0398889, abs=1e-7)
    point = st.implied_epsilon(NOTES.false_positive_rate, 1 - NOTES.true_positive_rate, delta=1e-5)
    assert point == pytest.approx(3.3422, abs=1e-4)


def test_the_three_improvements_of_the_notes() -> None:
    assert st.katz_epsilon(NOTES, confidence=P).value == pytest.approx(2.844, abs=5e-4)
    assert st.bayes_epsilon(NOTES, delta=1e-5, confidence=P).value == pytest.approx(2.886, abs=5e-4)
    mu = st.mu_lower(NOTES, confidence=P)
    assert mu.value == pytest.approx(1.08057187, abs=1e-8)
    assert st.claimed_mu(0.21, 1e-5) == pytest.approx(0.06414, abs=1e-5)
    assert st.gdp_epsilon(mu.value, delta=1e-5) == pytest.approx(4.79, abs=5e-3)
    assert [b.certifies for b in (st.katz_epsilon(NOTES), st.bayes_epsilon(NOTES), mu)] == [False, False, True]


def test_the_joint_test_shows_more_than_two_intervals() -> None:
    assert st.joint_test(NOTES, epsilon=0.21, delta=1e-5) <= 1e-10
    joint = st.joint_epsilon(NOTES, delta=1e-5, confidence=P)
    assert joint.certifies
    assert 2.795 < joint.value < 2.886
    small = Counts(300, 1000, 50, 1000)
    assert st.joint_epsilon(small).value > st.epsilon_lower(small).value


@pytest.mark.parametrize(("runs", "epsilon"), [(100, 3.28), (1000, 5.60), (100_000, 10.21)])
def test_a_perfect_attack_shows_about_the_logarithm_of_its_runs(runs: int, epsilon: float) -> None:
    counts = Counts(runs, runs, 0, runs)
    assert st.epsilon_lower(counts, delta=1e-5).value == pytest.approx(epsilon, abs=0.01)


@pytest.mark.parametrize(("k", "n", "level"), [(0, 10, 0.05), (3, 10, 1e-3), (174, 100_000, 5e-11), (10, 10, 0.05)])
def test_clopper_pearson_solves_the_binomial_equation(k: int, n: int, level: float) -> None:
    """With mpmath: at the upper end P[Bin(n, p) ≤ k] = level, at the lower end P[Bin(n, p) ≥ k] = level."""
    mp.dps = 30
    upper, lower = st.clopper_pearson_upper(k, n, level=level), st.clopper_pearson_lower(k, n, level=level)
    if k < n:
        assert float(betainc(n - k, k + 1, 0, 1 - mp.mpf(upper), regularized=True)) == pytest.approx(level, rel=1e-6)
    else:
        assert upper == 1
    if k:
        assert float(betainc(k, n - k + 1, 0, mp.mpf(lower), regularized=True)) == pytest.approx(level, rel=1e-6)
    else:
        assert lower == 0


def test_the_posterior_agrees_with_samples() -> None:
    """A million samples: alarm with probability below 1e-6 (five standard errors)."""
    counts, generator, size = Counts(40, 100, 10, 100), np.random.default_rng(), 1_000_000
    missed, said = generator.beta(60.5, 40.5, size), generator.beta(10.5, 90.5, size)
    both = np.maximum(np.log((0.99 - missed) / said), np.log((0.99 - said) / missed))
    for epsilon in (0.5, 1.0, 1.4):
        share = st.posterior_below(counts, epsilon, delta=0.01)
        assert abs((np.maximum(both, 0) <= epsilon).mean() - share) < 5 * math.sqrt(share * (1 - share) / size)


def test_normal_scores_bound_mu() -> None:
    """Its coverage; with many runs it is μ̂ − z·√(1/n₀ + 1/n₁ + μ̂²/(2n)); and SciPy's noncentral t at a mild level.

    400 bounds at 95 %: more than 47 above the truth have probability below 1e-6.
    """
    generator = np.random.default_rng()
    wrong = 0
    for _ in range(400):
        without, inside = generator.normal(0, 2, 40), generator.normal(2, 2, 60)
        wrong += st.shift_lower(without, inside).value > 1
    assert 0 < wrong <= 47  # none at all has probability 1e-9
    without, inside = generator.normal(0, 1, 20_000), generator.normal(0.5, 1, 20_000)
    apart = (inside.mean() - without.mean()) / math.sqrt((without.var() + inside.var()) / 2)
    about = apart - 1.6449 * math.sqrt(2 / 20_000 + apart**2 / 80_000)
    assert st.shift_lower(without, inside).value == pytest.approx(about, abs=2e-4)
    assert st.shift_lower(inside, without).value == 0
    few, more = np.arange(10.0), np.arange(12.0) + 3
    pooled = math.sqrt((few.var() * 10 + more.var() * 12) / 20)
    root = math.sqrt(120 / 22)
    observed = (more.mean() - few.mean()) / pooled * root
    found = st.shift_lower(few, more, confidence=0.9).value
    assert stats.nct.sf(observed, 20, found * root) == pytest.approx(0.1, rel=1e-6)
    for bad in ([1.0], [1.0, math.nan], [3.0, 3.0]):
        with pytest.raises(InvalidArgument, match="scores"):
            st.shift_lower(bad, bad)


@pytest.mark.parametrize(("epsilon", "delta", "rate"), [(0.0, 0.0, 0.3), (0.5, 0.0, 0.05), (1.0, 0.05, 0.2)])
def test_the_joint_test_is_exact(epsilon: float, delta: float, rate: float) -> None:
    """By enumeration of all counts: P[p ≤ u] ≤ u at the boundary, for 9 + 9 runs; and some p is small."""
    runs = 9
    hit = min(1.0, math.exp(epsilon) * rate + delta)
    table = {
        (k, m): st.joint_test(Counts(k, runs, m, runs), epsilon=epsilon, delta=delta, gamma=1e-3)
        for k in range(runs + 1)
        for m in range(runs + 1)
    }
    chances = {
        (k, m): stats.binom.pmf(k, runs, hit) * stats.binom.pmf(m, runs, rate)
        for k in range(runs + 1)
        for m in range(runs + 1)
    }
    for level in (0.5, 0.2, 0.05, 0.01):
        assert sum(chances[key] for key, p in table.items() if p <= level) <= level
    assert table[runs, 0] < 0.05


def test_a_threshold_is_chosen_on_other_runs() -> None:
    generator = np.random.default_rng(0)
    without, inside = generator.normal(0, 1, 2000), generator.normal(-2, 1, 2000)
    rule = st.choose_threshold(without[:1000], inside[:1000], delta=1e-5)
    assert not rule.above  # a canary's loss is smaller where it was trained on
    counts = st.count_at(rule, without[1000:], inside[1000:])
    assert 1 < st.epsilon_lower(counts, delta=1e-5).value < 5
    assert (counts.positives, counts.negatives) == (1000, 1000)


def test_in_sample_thresholds_alarm_and_validated_ones_do_not() -> None:
    """400 audits of pure noise at 5 %: Clopper–Pearson on fresh runs alarms rarely, on the same runs often.

    P[Bin(400, 0.05) > 47] < 1e-6, and the in-sample rule alarms in about half of the audits at the claim ε = 0.
    """
    generator = np.random.default_rng()
    fresh = same = 0
    for _ in range(400):
        without, inside = generator.normal(size=(2, 120))
        rule = st.choose_threshold(without[:60], inside[:60])
        fresh += st.epsilon_lower(st.count_at(rule, without[60:], inside[60:])).value > 0
        best = st.count_at(rule, without[:60], inside[:60])
        same += best.true_positive_rate - best.false_positive_rate > 1.645 * math.sqrt(2 * 0.25 / 60)
    assert fresh <= 47
    assert same > 47


@pytest.mark.parametrize(
    ("counts", "name"),
    [((5, 4, 0, 4), "true_positives"), ((-1, 4, 0, 4), "true_positives"), ((1, 0, 0, 4), "positives")],
)
def test_impossible_counts_are_refused(counts: tuple[int, int, int, int], name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        Counts(*counts)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, float("nan")])
def test_confidence_lies_between_0_and_1(confidence: float) -> None:
    for statistic in (st.epsilon_lower, st.katz_epsilon, st.bayes_epsilon, st.mu_lower, st.joint_epsilon):
        with pytest.raises(InvalidArgument, match="confidence"):
            statistic(NOTES, confidence=confidence)


def test_nothing_seen_bounds_nothing() -> None:
    even = Counts(50, 100, 50, 100)
    assert st.epsilon_lower(even).value == 0
    assert st.joint_epsilon(even).value == 0
    assert st.bayes_epsilon(even).value == 0
    assert st.mu_lower(even).value == 0
    assert st.katz_epsilon(even).value == 0
    assert st.katz_epsilon(Counts(10, 10, 0, 10)).value == 0  # a count of 0 breaks the approximation


def test_katz_takes_a_delta() -> None:
    """Less is shown where δ is excused; simulated, the estimate is above the truth about as often as it says."""
    at_zero, excused = st.katz_epsilon(NOTES, confidence=P), st.katz_epsilon(NOTES, delta=0.01, confidence=P)
    assert 0 < excused.value < at_zero.value
    assert st.katz_epsilon(NOTES, delta=0.05).value == 0  # TPR ≤ δ: nothing is left
    generator = np.random.default_rng(4)
    true = np.log((0.3 - 0.05) / 0.02)
    caught, raised = generator.binomial(20_000, 0.3, 2000), generator.binomial(20_000, 0.02, 2000)
    found = [
        st.katz_epsilon(Counts(int(a), 20_000, int(b), 20_000), delta=0.05).value
        for a, b in zip(caught, raised, strict=True)
    ]
    assert 0.01 < np.mean(np.array(found) > true) < 0.04  # one side of 5 %: 2.5 % within six deviations


def test_a_bound_on_mu_needs_far_fewer_runs() -> None:
    """The table of the notes: 292 times fewer at ε = 1, 25,000 times fewer at 6."""
    assert st.runs_needed(1).ratio == pytest.approx(292, rel=0.1)
    assert st.runs_needed(6).ratio == pytest.approx(25_000, rel=0.2)
