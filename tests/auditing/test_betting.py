"""The wealth is fair under the claim, exactly; it grows when the claim is false. About 2 seconds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.auditing.betting import GameRounds, Stakes, Wealth, lower_epsilon, lower_mu
from deniable.auditing.claims import Claim, Line
from deniable.guarantees import FDP, GDP, ZCDP, PureDP, TradeOff


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """δ(ε) of a pair of finite laws, the larger of both orders."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def expected_factors(lines: list[Line], p: np.ndarray, q: np.ndarray, beliefs: np.ndarray) -> np.ndarray:
    """E[factor] of every stake: q is the law on D, p on D′, and `beliefs` what a detector says of each output."""
    stakes = Stakes(lines)
    in_second = np.exp(stakes.log_factors(beliefs, np.ones(len(p), dtype=bool)))
    in_first = np.exp(stakes.log_factors(beliefs, np.zeros(len(p), dtype=bool)))
    return (in_second * p + in_first * q).sum(axis=1) / 2


shares = st.lists(st.floats(0.001, 1), min_size=4, max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    one=shares,
    two=shares,
    beliefs=st.lists(st.floats(0.001, 0.999), min_size=4, max_size=4),
    epsilons=st.lists(st.floats(0, 3), min_size=1, max_size=3),
)
def test_no_detector_gains_while_the_claim_is_true(
    one: list[float], two: list[float], beliefs: list[float], epsilons: list[float]
) -> None:
    """Any pair of laws, tested against its own curve: the expected factor of every stake is at most 1."""
    p, q = np.array(one) / sum(one), np.array(two) / sum(two)
    lines = [Line(epsilon, hockey_stick(p, q, epsilon)) for epsilon in epsilons]
    assert expected_factors(lines, p, q, np.array(beliefs)).max() <= 1 + 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 1e-3), (0.2, 0.3), (3.0, 0.01)])
def test_the_fair_bet_is_fair_at_the_boundary(epsilon: float, delta: float) -> None:
    """Leaky randomized response meets the claim with equality; a sure detector then neither gains nor loses.

    The stakes that test one order pay half the toll and use half the evidence: equality for them too.
    """
    keep = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([delta, keep, 1 - delta - keep, 0.0])
    q = p[::-1]
    sure = np.array([0.999999, 0.999, 0.001, 0.000001])  # told: D′, D′, D, D
    # Beliefs that far from ½ saturate every stake, so that φ = 1 on the outputs told.
    factors = expected_factors([Line(epsilon, delta)], p, q, sure)
    assert factors == pytest.approx(1, abs=2e-3)
    worse = expected_factors([Line(epsilon * 0.9, delta)], p, q, sure)
    assert worse.max() > 1


@pytest.mark.parametrize("belief", [0.75, 0.9, 0.99])
def test_the_bet_is_the_ratio_of_the_odds(belief: float) -> None:
    """Without a toll and unclipped, the factors are p/p₀ and (1 − p)/(1 − p₀); below p₀ nothing is bet."""
    stakes = Stakes([Line(1.0, 0.0)], fractions=(1.0,))
    even = math.e / (1 + math.e)
    won = stakes.log_factors(np.array([belief]), np.array([True]))
    lost = stakes.log_factors(np.array([belief]), np.array([False]))
    assert np.exp([won.item(), lost.item()]) == pytest.approx([belief / even, (1 - belief) / (1 - even)])
    assert not stakes.log_factors(np.array([0.72, 0.3]), np.array([True, False])).any()


def test_a_factor_is_never_negative() -> None:
    stakes = Stakes([Line(0.0, 0.9), Line(2.0, 0.0), Line(30.0, 0.0)])
    with np.errstate(all="raise"):
        for belief in (1e-12, 0.5, 1 - 1e-12):
            for world in (True, False):
                assert np.isfinite(stakes.log_factors(np.array([belief]), np.array([world]))).all()


def test_the_average_starts_at_one_and_is_read_at_its_highest() -> None:
    wealth = Wealth([Line(1, 0.0), Line(0, 0.5)], detectors=3)
    assert np.exp(wealth._logs).sum() == pytest.approx(1)
    generator = np.random.default_rng(5)
    worlds = generator.random(500) < 0.5
    beliefs = np.clip(np.where(worlds, 0.9, 0.1) + generator.normal(0, 0.2, (3, 500)), 0.01, 0.99)
    wealth.update(beliefs[:, :200], worlds[:200])
    wealth.update(beliefs[:, 200:], worlds[200:])
    once = Wealth([Line(1, 0.0), Line(0, 0.5)], detectors=3)
    once.update(beliefs, worlds)
    assert wealth.path == pytest.approx(once.path)
    assert wealth.evidence == pytest.approx(max(0, once.path.max()) / math.log(10))
    reached = wealth.rounds_to(1e-3)
    assert reached is not None
    assert once.path[reached - 1] >= math.log(1000) > once.path[: reached - 1].max()


def test_wealth_rarely_reaches_what_it_must_not() -> None:
    """600 games at the boundary of PureDP(1), each watched for 300 rounds by an oracle.

    Ville: each ever reaches 20 with probability at most 0.05. Alarm with probability at most 1e-6: P[Bin(600, 0.05) >
    59] is below that.
    """
    generator = np.random.default_rng()
    alarms = 0
    chance = math.e / (1 + math.e)
    for _ in range(600):
        worlds = generator.random(300) < 0.5
        told = np.where(generator.random(300) < chance, worlds, ~worlds)
        wealth = Wealth([Line(1.0, 0.0)], detectors=1)
        wealth.update(np.where(told, 0.85, 0.15)[None, :], worlds)
        alarms += wealth.refuted(0.05)
    assert 0 < alarms <= 59  # the rate is about 0.033: none at all has probability 1e-9


def test_lower_bounds_are_below_the_truth_and_near_it() -> None:
    """Randomized response at ε = 2 and an oracle; the bound is wrong with probability at most 1e-6."""
    generator = np.random.default_rng()
    chance = math.exp(2) / (1 + math.exp(2))
    worlds = generator.random(6000) < 0.5
    told = np.where(generator.random(6000) < chance, worlds, ~worlds)
    played = GameRounds(np.where(told, chance, 1 - chance)[None, :], worlds)
    assert 1.5 < lower_epsilon(played, delta=0, level=1e-6) < 2
    assert lower_epsilon(played, delta=0.1, level=1e-6) < 2
    total = (math.exp(2) - 1) / (math.exp(2) + 1)
    assert lower_epsilon(played, delta=total, level=1e-6) == 0
    mu = 2 * 1.1824  # 2Φ⁻¹(e²/(1 + e²)): the smallest μ of which this is an instance
    assert 0.7 * mu < lower_mu(played, level=1e-6) < mu


def test_a_game_without_rounds_bounds_nothing() -> None:
    nothing = GameRounds(np.zeros((2, 0)), np.zeros(0, dtype=bool))
    assert lower_epsilon(nothing, delta=0, level=0.01) == 0


@pytest.mark.parametrize(
    "claim", [PureDP(1), GDP(0.7), ZCDP(0.3), FDP(TradeOff([(0, 1), (0.2, 0.5), (0.5, 0.2), (1, 0)]))], ids=repr
)
def test_lines_of_a_claim_lie_on_its_curve(claim: object) -> None:
    found = Claim.of(claim)  # type: ignore[arg-type]
    for line in found.lines:
        assert line.delta == pytest.approx(found.profile.delta(line.epsilon), abs=1e-12)
    assert (found.mu is not None) == isinstance(claim, GDP)
