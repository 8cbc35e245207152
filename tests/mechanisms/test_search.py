"""Private search: the theorem against the exact law of the best of K trials, for every subset of outputs. 3 s."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

import deniable as dn
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.events import Claimed, Gaussian, Laplace
from deniable.guarantees import PureDP
from deniable.mechanisms import Best, search
from deniable.mechanisms.trials import BestOf, selection_excess, solve_gamma
from deniable.noise import InsecureSource
from deniable.units import ZERO_OUT

SCORES = np.array([0, 1, 1, 2, 3, 3])
"""Of six outputs; some are equal."""


def released(chances: np.ndarray, law: BestOf) -> np.ndarray:
    """The exact law of the release: of the best score, the earliest trial's output."""
    found = np.zeros(len(chances))
    for score in np.unique(SCORES):
        level = score == SCORES
        below = chances[score > SCORES].sum()
        total = law.generating(below + chances[level].sum()) - law.generating(below)
        if chances[level].sum():
            found[level] = total * chances[level] / chances[level].sum()
    return found


def delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The hockey-stick divergence, the larger of both ways."""
    return max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())


@pytest.mark.parametrize("eta", [0, 0.5, 1])
@pytest.mark.parametrize("trials", [1, 2, 20])
def test_the_theorem_holds_for_every_law(eta: float, trials: int) -> None:
    shape = Fraction(eta)
    law = BestOf((), lambda _: 0.0, solve_gamma(Fraction(trials), shape), shape)
    random = np.random.default_rng(trials)
    tight = 0.0
    for _ in range(200):
        p = random.dirichlet(np.full(6, random.choice([0.3, 1.0, 5.0])))
        q = p * np.exp(random.choice([0.05, 0.3, 1.0]) * random.uniform(-1, 1, size=6))
        if random.random() < 0.5:
            q[random.integers(6)] = 0.0  # an output that only one of them has: no pure promise
        q /= q.sum()
        excess = selection_excess(lambda e, p=p, q=q: delta(p, q, e), gamma=float(law.gamma))  # type: ignore[misc]
        a, b = released(p, law), released(q, law)
        assert a.sum() == pytest.approx(1)
        for epsilon in (0.0, 0.1, 0.5, 1.5):
            promised = law.trials * delta(p, q, epsilon)
            true = delta(a, b, epsilon + (1 + eta) * excess)
            assert true <= promised * (1 + 1e-9) + 1e-12
            tight = max(tight, true / promised if promised > 1e-9 else 0.0)
    assert tight > 0.2


def test_without_the_excess_it_would_be_wrong() -> None:
    """Where better outputs are rarer, an output is picked more often: the best of many tells more than one trial."""
    law = BestOf((), lambda _: 0.0, Fraction(1, 100), Fraction(1))
    p = np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    q = np.array([0.5, 0.1, 0.1, 0.2, 0.05, 0.05])
    assert delta(p, q, math.log(2)) < 1e-12
    assert delta(released(p, law), released(q, law), math.log(2)) > 0.02


@pytest.mark.parametrize("eta", [0, 1])
def test_the_guarantee_is_the_theorems(eta: int) -> None:
    found, one = search([Gaussian(4)], trials=10, eta=eta), dn.account(Gaussian(4))
    assert found.trials == pytest.approx(10, rel=1e-5)
    excess = selection_excess(one.delta, gamma=float(found.gamma))
    assert one.delta(excess) <= math.expm1(excess) * float(found.gamma / (1 - found.gamma))
    expected = one.epsilon(delta=1e-6) + (1 + eta) * excess
    assert float(found.guarantee(delta=1e-5).epsilon) == pytest.approx(expected, rel=1e-5)


def test_pure_candidates_cost_what_best_of_says() -> None:
    found = search([Laplace(10)], trials=10, eta=1).guarantee(delta=1e-9)
    assert 0.2 < float(found.epsilon) <= 0.3 + 1e-6  # (2 + η)·0.1, or less: the curve knows more than the promise


def test_one_trial_costs_one_training() -> None:
    one = dn.account(Gaussian(4)).epsilon(delta=1e-5)
    assert float(search([Gaussian(4)], trials=1).guarantee(delta=1e-5).epsilon) == pytest.approx(one, rel=1e-6)


def test_more_trials_cost_more_and_far_less_than_composing() -> None:
    costs = [float(search([Gaussian(4)], trials=k).guarantee(delta=1e-5).epsilon) for k in (1, 3, 10, 100)]
    assert costs == sorted(costs)
    assert costs[2] < 1.6 * costs[0] < dn.account(Gaussian(4) * 10).epsilon(delta=1e-5)


def test_the_mean_curve_of_different_candidates() -> None:
    cheap, dear = Gaussian(8), Gaussian(2)
    both = search([cheap, dear], trials=5).guarantee(delta=1e-5).epsilon
    assert search([cheap], trials=5).guarantee(delta=1e-5).epsilon < both
    assert both < search([dear], trials=5).guarantee(delta=1e-5).epsilon


def test_scoring_on_private_data_is_part_of_a_trial() -> None:
    with_score = search([Gaussian(4)], trials=5, scoring=Gaussian(10)).guarantee(delta=1e-5).epsilon
    assert with_score > search([Gaussian(4)], trials=5).guarantee(delta=1e-5).epsilon


def test_calibrated_whole() -> None:
    target = dn.ApproxDP(1, 1e-5)
    found = dn.calibrate(lambda scale: search([Gaussian(scale)], trials=5).event(delta=1e-5), target)
    event = search([Gaussian(found.value)], trials=5).event(delta=1e-5)
    assert isinstance(event, Claimed)
    assert 0.999 < float(event.guarantee.epsilon) <= 1


def test_it_runs_the_candidates_and_keeps_the_best() -> None:
    found = search([Gaussian(4)] * 3, trials=8, eta=1)
    calls: list[int] = []
    best = found.run(lambda i: calls.append(i) or (i, len(calls)), score=lambda o: o[0], source=InsecureSource(2))
    assert best == Best(max(calls), (max(calls), calls.index(max(calls)) + 1), max(calls))
    # Three candidates, uniformly: 60 runs of about 8 trials give each its third, within 6 deviations.
    seen = Counter[int]()
    for seed in range(60):
        calls.clear()
        found.run(lambda i: calls.append(i), score=lambda _: 0.0, source=InsecureSource(seed))
        seen.update(calls)
    total = sum(seen.values())
    assert all(abs(seen[i] - total / 3) < 6 * math.sqrt(total * 2 / 9) for i in range(3))


def test_a_score_that_is_no_number_ranks_last() -> None:
    found = search([Gaussian(4)] * 2, trials=30, eta=1)
    values = [math.nan, 1.0]
    best = found.run(lambda i: i, score=lambda i: values[i], source=InsecureSource(5))
    assert best.score == 1.0


def test_refusals() -> None:
    for events, trials in product(([], ["no event"]), (3,)):
        with pytest.raises(InvalidArgument):
            search(events, trials=trials)  # type: ignore[arg-type]
    with pytest.raises(UnitMismatch):
        search([Gaussian(4), Gaussian(4, relation=ZERO_OUT)], trials=3)
    with pytest.raises(UnitMismatch):
        search([Claimed(dn.PureDP(1, unit="patient_id")), Claimed(dn.PureDP(1, unit="visit_id"))], trials=3)
    with pytest.raises(InvalidArgument):
        search([Gaussian(4)], trials=0.5)
    with pytest.raises(InvalidArgument, match="worth something"):
        search([Gaussian(0.001)], trials=5).guarantee(delta=1e-9)


@pytest.mark.parametrize("trials", [1.0000001, 1.00001, 2, 10, 1000])
@pytest.mark.parametrize("eta", [0, 1e-300, 1e-15, 1e-9, 1e-3, 0.3, 1])
def test_the_mean_number_of_trials_is_never_understated(trials: float, eta: float) -> None:
    """δ is charged E[K] times: 1 − γ^η must keep its digits where η is small or γ near 1."""
    found = search([Gaussian(4)], trials=trials, eta=eta)
    with mpmath.workdps(400):
        gamma, shape = (mpmath.mpf(each.numerator) / each.denominator for each in (found.gamma, found.eta))
        power = (1 - gamma**shape) / shape if shape else -mpmath.log(gamma)
        true = (1 - gamma) / gamma / power
        assert true <= found.trials <= true * (1 + 1e-11)


@pytest.mark.parametrize("places", [6, 7, 9])
def test_the_excess_keeps_its_digits_where_two_trials_are_rare(places: int) -> None:
    """γ = 1 − 10⁻⁹: the float of 1 − γ would make ε̂ too small by 3 parts in 10⁸."""
    gamma = 1 - Fraction(1, 10**places)
    with mpmath.workdps(40):
        least = mpmath.log1p(mpmath.mpf("0.5") / (10**places - 1))
        assert least <= selection_excess(lambda _: 0.5, gamma=gamma) <= least * (1 + 1e-8)


def test_the_unit_of_any_candidate_is_kept() -> None:
    """A nameless promise would be charged to anybody's ledger."""
    visit = Claimed(PureDP(Fraction(1, 10), unit="visit_id"))
    found = search([Laplace(10), visit], trials=5)
    assert found.guarantee(delta=1e-6).unit.noun == "visit"
    with pytest.raises(UnitMismatch, match="one visit"):
        search([visit, Claimed(PureDP(1, unit="patient_id"))], trials=5)
