"""Private selection against enumeration: a small trial, its scores, and the law of the best of K."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from deniable import account
from deniable.accounting.filters.costs import cost
from deniable.accounting.imports import from_dp_accounting
from deniable.accounting.rules.selection import mean_trials
from deniable.errors import NotSupported
from deniable.events import Claimed, Event, Gaussian, RandomizedResponse, Selected
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms import search
from deniable.mechanisms.trials import BestOf
from deniable.units import Relation

F = Fraction


def law_of_trials(gamma: float, eta: float) -> np.ndarray:
    """Pr[K = k], k = 0, 1, …, until nothing is left."""
    weights, k = [0.0, 1 - gamma], 1
    while weights[-1] > 1e-18 or k < 10:
        weights.append(weights[-1] * (1 - gamma) * (k + eta) / (k + 1))
        k += 1
    return np.array(weights) / sum(weights)


def best(masses: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """The law of the best-scored output; outputs are listed from the worst score to the best."""
    upto, k = np.cumsum(masses), np.arange(len(trials))
    with np.errstate(divide="ignore"):
        # F_i^k − F_{i−1}^k = F_i^k (1 − (1 − m_i/F_i)^k), without a difference of numbers near 1
        step = np.log1p(-np.minimum(masses / upto, 1.0))
        return np.array([trials @ (f**k * -np.expm1(k * s)) for f, s in zip(upto, np.maximum(step, -1e6), strict=True)])


@pytest.mark.parametrize("eta", [0, F(1, 2), 1])
@pytest.mark.parametrize("gamma", [F(1, 2), F(1, 20)])
def test_pure_trials(gamma: Fraction, eta: Fraction) -> None:
    """Randomized response over five outputs, every pair of true answers: the loss stays below (2 + η)ε."""
    trial = RandomizedResponse(0.4, 5)
    event = Selected(trial, gamma, eta)
    assert cost(event).epsilon == (2 + eta) * F(2, 5)
    bound = account(event)
    trials = law_of_trials(float(gamma), float(eta))
    assert float(trials @ np.arange(len(trials))) == pytest.approx(mean_trials(gamma, eta), rel=1e-9)
    truth = math.exp(0.4) / (math.exp(0.4) + 4)
    laws = []
    for answer in range(5):
        masses = np.full(5, (1 - truth) / 4)
        masses[answer] = truth
        laws.append(best(masses, trials))
    for p in laws:
        for q in laws:
            assert np.max(np.log(p / q)) <= float((2 + eta) * F(2, 5)) + 1e-9
            for epsilon in (0.1, 0.4, 0.8):
                assert float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) <= bound.delta(epsilon) + 1e-9


@pytest.mark.parametrize("eta", [0, 1])
@pytest.mark.parametrize("gamma", [F(1, 3), F(1, 30)])
def test_gaussian_trials(gamma: Fraction, eta: Fraction) -> None:
    """Noise on a line, scored by the output up or down: curve and Rényi divergences of the best of K."""
    scale, orders = 3.0, (F(2), F(5), F(20))
    event = Selected(Gaussian(scale), gamma, eta)
    profile, known = account(event), cost(event, orders)
    trials = law_of_trials(float(gamma), float(eta))
    y = np.arange(-8 * scale, 8 * scale + 1, 0.02)
    for sign in (1, -1):
        laws = []
        for mean in (0.0, 1.0):
            masses = np.exp(-((y - mean) ** 2) / (2 * scale**2))
            laws.append(best((masses / masses.sum())[::sign], trials))
        for p, q in (laws, laws[::-1]):
            for epsilon in (0.2, 0.6, 1.2, 2.0):
                assert float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) <= profile.delta(epsilon) + 1e-9
            held = (p > 1e-280) & (q > 1e-280)
            for order, value in zip(orders, known.renyi, strict=True):
                a = float(order)
                true = math.log(float(np.exp(a * np.log(p[held]) - (a - 1) * np.log(q[held])).sum())) / (a - 1)
                assert true <= float(value) + 1e-9
    assert profile.epsilon(1e-6) < account(Gaussian(scale) * round(mean_trials(gamma, eta) + 1)).epsilon(1e-6) * 3


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """H_{e^ε} in the worse order."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("seed", range(3))
def test_leaky_trials_alone_composed_and_in_groups(seed: int, relation: Relation) -> None:
    """The worst trial that (ε, δ) allows, scored in a random order; a path of three worlds for a group of two."""
    source = np.random.default_rng(seed)
    gamma, eta = (F(1, 30), F(1, 2)) if seed == 0 else (F(1, 5), F(seed - 1))
    epsilon, delta, order = 0.5, float(f"{10 ** source.uniform(-5, -1):.3g}"), source.permutation(6)
    high, low = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    # every neighbour gives δ away; the third world has one output less likely by e^ε once more
    rare = low * math.exp(-epsilon)
    worlds = [
        np.array([delta, 0, 0, 0, high, low]),
        np.array([0, delta / 2, delta / 2, 0, low, high]),
        np.array([0, 0, 0, delta, rare, 1 - delta - rare]),
    ]
    assert all(hockey(worlds[1], world, epsilon) <= delta * (1 + 1e-9) for world in worlds)
    trials = law_of_trials(float(gamma), float(eta))
    one, two, three = (best(world[order] + 1e-300, trials) for world in worlds)
    event = Selected(Claimed(ApproxDP(epsilon, delta, relation=relation)), gamma, eta)
    pairs = [
        (event, one, two),
        (event * 2, np.outer(one, one).ravel(), np.outer(two, two).ravel()),
        (event.for_group(2), one, three),
    ]
    for released, p, q in pairs:
        bound = account(released)
        for at in (0.0, 0.5, 1.0, 1.5, 2.5, 4.0):
            assert hockey(p, q, at) <= bound.delta(at) * (1 + 1e-9) + 1e-15


def test_the_curve_is_that_of_the_search_at_every_delta() -> None:
    found = search([Gaussian(4)] * 3, trials=10)
    event = found.selected
    for delta in (1e-3, 1e-6, 1e-9):
        assert account(event).epsilon(delta) == pytest.approx(float(found.guarantee(delta=delta).epsilon), rel=2e-2)
    both = account(event + Gaussian(4)).epsilon(1e-6)
    assert account(event).epsilon(1e-6) < both < account(event).epsilon(5e-7) + account(Gaussian(4)).epsilon(5e-7)
    assert Event.from_json(event.to_json()) == event


def test_groups_relations_and_edges() -> None:
    event = Selected(Gaussian(8), F(1, 4))
    assert account(event.for_group(2)).epsilon(1e-6) == account(Selected(Gaussian(4), F(1, 4))).epsilon(1e-6)
    assert event.to_replace().relation is Relation.REPLACE
    assert account(Selected(Gaussian(2), 1)).epsilon(1e-6) == account(Gaussian(2)).epsilon(1e-6)
    assert cost(Selected(Claimed(ApproxDP(1, 1e-6)), 0.5), (F(2),)).renyi == (None,)
    assert account(Selected(Claimed(PureDP(1)), 0.5)).epsilon(0) == 2
    for gamma in (F(1, 10**12), F(1, 100), F(9, 10), 1 - F(1, 10**12)):
        for eta in (F(0), F(1, 10**9), F(1, 2), F(1)):
            theirs = BestOf((), lambda _: 0.0, gamma, eta).trials
            assert theirs <= mean_trials(gamma, eta) * (1 + 1e-9)
            assert mean_trials(gamma, eta) == pytest.approx(theirs, rel=1e-6)


def test_the_selection_of_dp_accounting_is_read() -> None:
    @dataclass
    class GaussianDpEvent:
        noise_multiplier: float

    @dataclass
    class RepeatAndSelectDpEvent:
        event: GaussianDpEvent
        mean: float
        shape: float

    for mean, shape in ((10.0, 0.0), (3.5, 1.0), (1000.0, 0.5)):
        read = from_dp_accounting(RepeatAndSelectDpEvent(GaussianDpEvent(4.0), mean, shape))
        assert isinstance(read, Selected)
        assert mean <= mean_trials(read.gamma, read.eta) <= mean * (1 + 1e-6)
    assert from_dp_accounting(RepeatAndSelectDpEvent(GaussianDpEvent(4.0), 1.0, 0.0)) == Gaussian(4)
    for shape in (-0.5, math.inf):
        with pytest.raises(NotSupported):
            from_dp_accounting(RepeatAndSelectDpEvent(GaussianDpEvent(4.0), 2.0, shape))
