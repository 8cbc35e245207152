"""Places where a curve once came out too low, or is likely to: each against a value known by other means."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from deniable.accounting.accountant import account
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from deniable.guarantees import ZCDP, ApproxDP, PureDP
from deniable.units import Relation

TENTH = Fraction(1, 10)

# The unit is in the sample with probability q, and then the loss is ε₀: δ(1) is about q, and ε(1e-5) about ε₀ − ln 1/q.
SAMPLED_LOUD: dict[str, tuple[Event, float]] = {
    "pure claim": (Claimed(PureDP(10**5)).sampled(rate=TENTH), 1e5),
    "discrete Laplace": (DiscreteLaplace(Fraction(1, 1000)).sampled(rate=TENTH), 1000),
    "discrete Gaussian": (DiscreteGaussian(Fraction(1, 40)).sampled(rate=TENTH), 800),
    "without replacement": (
        Claimed(PureDP(700, relation=Relation.REPLACE)).sampled_without_replacement(batch=1, population=10),
        700,
    ),
}


@pytest.mark.parametrize("case", SAMPLED_LOUD)
def test_a_loud_step_on_a_sample_stays_loud(case: str) -> None:
    event, loss = SAMPLED_LOUD[case]
    profile = account(event)
    assert profile.delta(1) >= 0.1 * (1 - 1e-9)
    assert profile.epsilon(1e-5) == pytest.approx(loss - math.log(10), abs=0.01)


GROUPS_OF_LOUD: dict[str, Event] = {
    "many": Claimed(PureDP(8)).sampled(rate=0.5).for_group(100),
    "five": Claimed(PureDP(150)).sampled(rate=TENTH).for_group(5),
    "replaced": Claimed(PureDP(360)).sampled(rate=0.5).to_replace(),
    "Laplace": Laplace(Fraction(1, 400)).sampled(rate=TENTH).for_group(2),
    "randomized response": RandomizedResponse(800).sampled(rate=TENTH),
}


@pytest.mark.parametrize("case", GROUPS_OF_LOUD)
def test_a_wide_gap_between_corners_loses_no_mass(case: str) -> None:
    profile = account(GROUPS_OF_LOUD[case])
    assert profile.delta(1) >= 0.09
    assert profile.epsilon(1e-5) >= 300


# Exact: products of the leaky randomized response, ((1 − q)Q + qP, Q) and its reverse, added up at high precision.
LEAKY = [
    (Claimed(ApproxDP(1, 0.001)).sampled(rate=TENTH) * 3, 0.05, 0.0531527512784142),
    (Claimed(ApproxDP(5, 0.001)).sampled(rate=Fraction(999, 1000)) * 2, 0.05, 0.98662178651494),
]


@pytest.mark.parametrize(("event", "epsilon", "exact"), LEAKY)
def test_what_the_other_world_never_shows_is_counted(event: Event, epsilon: float, exact: float) -> None:
    found = account(event).delta_bracket(epsilon)
    assert found.upper >= exact * (1 - 1e-9)
    assert found.upper == pytest.approx(exact, rel=1e-5)


UNBOUNDED = {
    "sampled Gaussian": Gaussian(1).sampled(rate=0.01),
    "zCDP claim": Claimed(ZCDP(1)),
    "sampled zCDP claim": Claimed(ZCDP(1)).sampled(rate=TENTH) * 3,
    "zCDP claim beside Laplace": Claimed(ZCDP(1)) + Laplace(1),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_an_unbounded_loss_has_no_pure_epsilon(case: str) -> None:
    profile = account(UNBOUNDED[case])
    assert profile.epsilon(0) == math.inf
    assert profile.delta(800) > 0, "too small for a float is not nothing"


def test_a_smaller_epsilon_than_the_largest_loss_has_a_delta() -> None:
    profile = account(RandomizedResponse(1) * 4096)
    assert profile.delta(4000) > 0
    assert profile.delta(4096) == 0
