"""Parameters that are no floats: nothing comes out free, nothing fails, and ordinary events are left alone."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import pytest

from deniable import _checks
from deniable.accounting.accountant import account
from deniable.accounting.filters import cost
from deniable.accounting.fold import fold, within_floats
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    MatrixGaussian,
    RandomizedResponse,
    TreeGaussian,
)
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff
from deniable.textbook import compose_optimal, repeat_advanced
from deniable.units import Relation
from tests.laws.examples import every

REPLACE, ZERO_OUT = Relation.REPLACE, Relation.ZERO_OUT
HUGE, TINY = 10**400, Fraction(1, 10**400)

QUIET: dict[str, Event] = {
    "Gaussian": Gaussian(HUGE),
    "Laplace": Laplace(HUGE),
    "discrete Laplace": DiscreteLaplace(HUGE),
    "discrete Gaussian": DiscreteGaussian(HUGE),
    "responses": RandomizedResponse(TINY, 3) * 3,
    "selection": ExponentialMechanism(TINY) * 3,
    "tree": TreeGaussian(HUGE, 8).sampled(rate=0.5),
    "matrix": MatrixGaussian(HUGE, 1, 8).sampled(rate=0.5) * 2,
    "pure": Claimed(PureDP(TINY)) * 3,
    "zCDP": Claimed(ZCDP(TINY)),
    "GDP": Claimed(GDP(TINY)),
    "Rényi": Claimed(RDP(2, TINY)),
    "leak": Claimed(ApproxDP(0, TINY)) * 10**9,
    "pure with a leak": Claimed(ApproxDP(1e-6, TINY)) * 10**9,
    "sample with a leak": Claimed(ApproxDP(1, TINY)).sampled(rate=0.1) * 2,
    "approximate zCDP": Claimed(ApproxZCDP(TINY, TINY)),
    "rate": Gaussian(1).sampled(rate=TINY) * 3,
    "rate of a claim": Claimed(PureDP(1)).sampled(rate=TINY),
    "batch": Gaussian(1, 1, REPLACE).sampled_without_replacement(batch=1, size=HUGE),
    "trade-off": Claimed(FDP(TradeOff([(0, 1 - TINY), (1, 0)]))) + Gaussian(1e9),
}


@pytest.mark.parametrize("case", QUIET)
def test_too_quiet_for_a_float_is_not_free(case: str) -> None:
    profile = account(QUIET[case])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert profile.delta(0) > 0
        assert profile.epsilon(0) > 0
        assert profile.delta(0) <= 1e-6 or "with" in case
        assert profile.epsilon(0.5) <= 1000


def test_a_leak_too_small_for_a_float_still_leaks() -> None:
    assert account(QUIET["pure with a leak"]).epsilon(0) == math.inf
    assert account(QUIET["leak"]).epsilon(0) == math.inf


LOUD: dict[str, Event] = {
    "Gaussian": Gaussian(TINY),
    "Laplace": Laplace(TINY),
    "discrete Laplace": DiscreteLaplace(TINY),
    "discrete Gaussian": DiscreteGaussian(TINY),
    "responses": RandomizedResponse(HUGE, 3) * 3,
    "selection": ExponentialMechanism(HUGE),
    "tree": TreeGaussian(TINY, 8).sampled(rate=0.5),
    "pure": Claimed(PureDP(HUGE)),
    "zCDP": Claimed(ZCDP(HUGE)),
    "group": Laplace(1).for_group(HUGE),
    "group of a sample": Laplace(1).sampled(rate=0.5).for_group(HUGE),
    "group of a leak": Claimed(ApproxDP(HUGE, 1e-9)).for_group(2),
    "repeated": Laplace(1) * HUGE,
    "repeated on a sample": (Laplace(1) * HUGE).sampled(rate=0.5),
}


@pytest.mark.parametrize("case", LOUD)
def test_too_loud_for_a_float_reveals_everything(case: str) -> None:
    profile = account(LOUD[case])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert profile.delta(100) >= 0.5 * (1 - 1e-9)
        assert profile.epsilon(0.1) >= 1e50


def test_a_reach_beyond_floats_leaves_what_the_sensitivity_promises() -> None:
    """Whether or not somebody is sampled, replacing them moves the answer by one scale at most."""
    profile = account(Laplace(1, 1, REPLACE, reach=HUGE).sampled(rate=0.5))
    assert profile.delta(0.999) >= 0.1
    assert profile.epsilon(0) == 1


@pytest.mark.parametrize(
    ("event", "epsilon"),
    [
        (Laplace(scale=2), 0.5),
        (Laplace(scale=2) * 2, 1),
        (Laplace(2, 1, REPLACE) + RandomizedResponse(1, 3), 1.5),
        (ExponentialMechanism(0.1) * 10, 1),
        (Laplace(scale=2).for_group(3), 1.5),
        (Laplace(scale=10) * 3, 0.3),
        (Claimed(PureDP(0.1)) * 3, 0.3),
    ],
)
def test_the_pure_epsilon_of_pure_steps_is_exact(event: Event, epsilon: float) -> None:
    profile = account(event)
    assert profile.epsilon(0) == epsilon
    assert profile.delta(epsilon) == 0
    assert profile.delta(epsilon * 0.99) > 0


@pytest.mark.parametrize("leak", [Fraction(0), Fraction(1, 10**40)])
@pytest.mark.parametrize(
    "event", [Claimed(PureDP(Fraction(1, 3))), Laplace(scale=3), Claimed(PureDP(Fraction(1, 7))) * 3]
)
def test_a_pure_epsilon_that_is_no_float_is_never_undercut(event: Event, leak: Fraction) -> None:
    """The float next to ε lies below it: there δ is not 0, and ε(0) is above."""
    exact = cost(event).epsilon
    assert exact is not None
    near = float(exact)
    under = near if near < exact else math.nextafter(near, 0)
    profile = account(event + Claimed(ApproxDP(0, leak)) if leak else event)
    true = (exact - Fraction(under)) / 10  # of randomized response: e^ε′·(ε − ε′)·p or so, and p is larger than that
    assert profile.delta(under) >= float(true) > 0
    assert _checks.exact(profile.epsilon(leak)) >= exact


@pytest.mark.parametrize(
    "event",
    [
        *every(),
        (Claimed(PureDP(0.9)) * 2 + Claimed(ApproxDP(0.6, 1e-7))).sampled(rate=0.05),
        Claimed(ApproxDP(0.16, 4e-7, relation=ZERO_OUT)).sampled(rate=0.17).for_group(3),
        (Claimed(ApproxDP(2, 1e-5, relation=REPLACE)) * 3).sampled(rate=0.15) * 2,
    ],
    ids=repr,
)
def test_a_curve_is_never_above_the_sums_that_a_ledger_adds_up(event: Event) -> None:
    own = cost(event)
    if own.epsilon is not None and own.delta < 1:
        assert Fraction(account(event).delta(own.epsilon + Fraction(1, 10**12))) <= own.delta * (
            1 + Fraction(1, 10**15)
        )
        assert Fraction(account(event).epsilon(own.delta + Fraction(1, 10**20))) <= own.epsilon + Fraction(1, 10**12)


@pytest.mark.parametrize("count", [1, 100])
def test_a_failure_that_no_float_tells_from_certain(count: int) -> None:
    promise = ApproxDP(1, 1 - Fraction(1, 10**20))
    assert account(Claimed(promise) * count).delta(3) > 0.999
    assert repeat_advanced(promise, count=count, slack=1e-6).delta > 0.999
    assert compose_optimal([promise] * count).delta(3) > 0.999


@pytest.mark.parametrize("event", every(), ids=repr)
def test_ordinary_events_are_left_alone(event: Event) -> None:
    found = fold(event)
    assert within_floats(found) is found


SAME: dict[str, tuple[Event, Event]] = {
    "a ratio": (Laplace(HUGE, HUGE // 2), Laplace(2)),
    "a ratio on a sample": (
        Laplace(HUGE, HUGE // 2).sampled(rate=0.1) * 3,
        Laplace(2).sampled(rate=0.1) * 3,
    ),
    "a Gaussian ratio": (Gaussian(TINY, TINY) * 5, Gaussian(1) * 5),
    "an order": (Claimed(RDP(HUGE, 1)), Claimed(RDP(10**60, 1))),
    "a last order": (Claimed(TCDP(1, HUGE)), Claimed(TCDP(1, 10**60))),
    "categories": (RandomizedResponse(1, HUGE) * 3, Claimed(PureDP(1, relation=REPLACE)) * 3),
    "people": (
        RandomizedResponse(1).shuffled(size=HUGE),
        RandomizedResponse(1).shuffled(size=10**14),
    ),
    "nearly all": (Gaussian(1).sampled(rate=1 - Fraction(1, 10**20)) * 3, Gaussian(1) * 3),
    "nearly all of a sum": (
        (Laplace(1) * 2 + Laplace(2)).sampled(rate=1 - TINY) * 3,
        Laplace(1) * 6 + Laplace(2) * 3,
    ),
    "nearly all, replaced": (
        Gaussian(1, 1, REPLACE, reach=1).sampled(rate=1 - TINY) * 3 + Gaussian(1, 1, REPLACE),
        Gaussian(1, 1, REPLACE) * 4,
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_only_what_no_float_tells_apart_is_changed(case: str) -> None:
    event, plain = SAME[case]
    assert account(event).epsilon(1e-9) == pytest.approx(account(plain).epsilon(1e-9), rel=1e-9)


def test_an_epsilon_or_a_delta_beyond_the_floats_may_be_asked_for() -> None:
    assert account(Gaussian(1)).delta(HUGE) == math.ulp(0.0)
    assert account(Laplace(1)).delta(HUGE) == 0
    assert account(Gaussian(1)).epsilon(TINY) == math.inf
