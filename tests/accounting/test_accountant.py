"""Which engine answers, that it answers for everything, and that the answers fit each other."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting import account
from deniable.accounting.closed import LeakyCurve, ResponseCurve, inverted
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    RandomizedResponse,
    TreeGaussian,
    dpsgd,
)
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Bracket, PureDP, TradeOff
from deniable.units import Relation

REPLACE = Relation.REPLACE

ANSWERED_BY: list[tuple[Event, str]] = [
    (Gaussian(1) * 1000, "closed form (Gaussian)"),
    (TreeGaussian(4, 100), "closed form (Gaussian)"),
    (Claimed(GDP(1)), "closed form (Gaussian) of the bound"),
    (RandomizedResponse(0.1) * 100, "closed form (binomial sum)"),
    (Claimed(PureDP(0.1)) * 100, "closed form (binomial sum) of the bound"),
    (Claimed(PureDP(0)), "nothing to account for"),
    (Laplace(1), "closed form (one step)"),
    (Gaussian(1).sampled(rate=0.1), "closed form (one step)"),
    (Claimed(ZCDP(0.5)), "upper bound (Rényi conversion of Canonne–Kamath–Steinke)"),
    (Gaussian(1).sampled(rate=0.1) * 10, "contour integral, else grid"),
    (DiscreteGaussian(4) * 5 + Gaussian(2), "contour integral, else grid"),
    (Claimed(PureDP(0.1)).sampled(rate=0.1) * 10, "grid of the bound"),
    (
        ExponentialMechanism(0.1) * 10,
        "least of contour integral of the bound, else grid"
        " and upper bound (Rényi conversion of Canonne–Kamath–Steinke)",
    ),
    (Claimed(ApproxDP(0.1, 1e-6)) * 3, "closed form (binomial sum) of the bound, with leaks"),
]


@pytest.mark.parametrize(("event", "method"), ANSWERED_BY, ids=[m for _, m in ANSWERED_BY])
def test_the_method_names_the_engine(event: Event, method: str) -> None:
    assert account(event).method == method


EVERYTHING: dict[str, Event] = {
    "exponential": ExponentialMechanism(0.2) * 30,
    "discrete": DiscreteGaussian(2, 2) * 5 + DiscreteLaplace(4, 3) * 5,
    "vectors": DiscreteGaussian(3, sensitivity=2, coordinates=4) * 3 + Laplace(9, sensitivity=3, coordinates=3),
    "claims": Claimed(PureDP(0.1)) * 3 + Claimed(ApproxDP(0.2, 1e-9)) + Claimed(ZCDP(0.01)) + Claimed(GDP(0.1)),
    "Rényi": Claimed(RDP(8, 0.1)) * 2 + Claimed(TCDP(0.02, 30)) + Claimed(ApproxZCDP(0.01, 1e-9)),
    "trade-off": Claimed(FDP(TradeOff.of_lines([(1.5, 1e-8)]))) * 4 + Gaussian(5),
    "tree": TreeGaussian(4, 100) + Laplace(5, relation=Relation.ZERO_OUT).sampled(rate=0.2) * 3,
    "replace": Gaussian(2, 1, REPLACE, reach=1).sampled(rate=0.1) * 20 + RandomizedResponse(0.1, 3) * 4,
    "reach": Laplace(3, 1, REPLACE, reach=0.6).sampled(rate=0.1) * 5
    + DiscreteLaplace(5, 2, REPLACE, reach=1).sampled(rate=0.3),
    "batches": Gaussian(2, 2, REPLACE).sampled_without_replacement(batch=10, size=1000) * 50,
    "shuffled": RandomizedResponse(1, 3).shuffled(size=500) * 2
    + Claimed(PureDP(1, relation=REPLACE)).shuffled(size=500),
    "group": (dpsgd(noise_multiplier=2, rate=0.01, steps=20) + Laplace(20)).for_group(2),
    "moved": (Gaussian(4).sampled(rate=0.05) * 10 + Claimed(PureDP(0.1)).sampled(rate=0.5)).to_replace(),
    "one sample": (Gaussian(3) + Laplace(8) * 2).sampled(rate=0.05) * 10,
    "sampled claim": Claimed(ApproxDP(0.5, 1e-8)).sampled(rate=0.1) * 5 + Claimed(ZCDP(0.1)).sampled(rate=0.1) * 2,
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_everything_has_a_consistent_curve(name: str) -> None:
    profile = account(EVERYTHING[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = profile.epsilon_bracket(1e-5)
        assert 0 <= found.lower <= found.upper < math.inf or name == "Rényi"
        # The lower end of a sampled claim may say nothing: the grid is coarse there.
        assert found.lower > 0 or name in ("Rényi", "sampled claim")
        # δ falls, and ε(δ) is its inverse, both up to the brackets.
        near, far = profile.delta_bracket(found.upper * 0.7), profile.delta_bracket(found.upper)
        assert near.upper >= far.lower
        assert far.lower <= 1e-5
        assert near.upper >= 1e-5
        assert far.upper <= 1.05e-5
        assert profile.epsilon(1e-7) >= found.lower
        assert profile.epsilon(1.0) == 0


@pytest.mark.parametrize("name", EVERYTHING)
def test_more_steps_cost_more(name: str) -> None:
    event = EVERYTHING[name]
    assert account(event + event).epsilon_bracket(1e-5).upper > account(event).epsilon_bracket(1e-5).lower


@settings(max_examples=30, deadline=None)
@given(epsilon=st.floats(0.01, 2), count=st.integers(1, 60), share=st.floats(0, 0.99))
def test_binomial_sums_against_mpmath(epsilon: float, count: int, share: float) -> None:
    epsilon = round(epsilon, 6)
    at = share * epsilon * count
    with mp.workdps(50):
        e, x = mp.mpf(str(epsilon)), mp.mpf(at)
        p = mp.exp(e) / (1 + mp.exp(e))
        exact = sum(
            mp.binomial(count, j) * max(p ** (count - j) * (1 - p) ** j - mp.exp(x) * p**j * (1 - p) ** (count - j), 0)
            for j in range(count + 1)
        )
        found = ResponseCurve(Fraction(str(epsilon)), count).delta_bracket(at)
        assert mp.mpf(found.lower) <= exact <= mp.mpf(found.upper)
        assert found.width <= 1e-11 * float(exact) + 1e-14


@settings(max_examples=25, deadline=None)
@given(
    scale=st.floats(0.4, 6).map(lambda x: round(x, 4)),
    rate=st.floats(1e-4, 0.9).map(lambda x: round(x, 6)),
    epsilon=st.floats(0.001, 4),
)
def test_one_sampled_step_against_mpmath(scale: float, rate: float, epsilon: float) -> None:
    """H of (1 − q)N(0, s²) + qN(1, s²) against N(0, s²), and of the reverse, by closed form at 40 digits."""
    with mp.workdps(40):
        s, q, e = mp.mpf(str(scale)), mp.mpf(str(rate)), mp.mpf(epsilon)

        def tail(x: mp.mpf, centre: int) -> mp.mpf:
            return mp.erfc((x - centre) / (s * mp.sqrt(2))) / 2

        cut = s * s * mp.log((mp.exp(e) - 1 + q) / q) + mp.mpf(1) / 2
        remove = (1 - q) * tail(cut, 0) + q * tail(cut, 1) - mp.exp(e) * tail(cut, 0)
        add = mp.mpf(0)
        if mp.exp(-e) > 1 - q:
            low = s * s * mp.log((mp.exp(-e) - 1 + q) / q) + mp.mpf(1) / 2
            add = (1 - tail(low, 0)) - mp.exp(e) * ((1 - q) * (1 - tail(low, 0)) + q * (1 - tail(low, 1)))
        exact = max(remove, add)
        found = account(Gaussian(scale).sampled(rate=rate)).curve.delta_bracket(epsilon)
        assert mp.mpf(found.lower) <= exact <= mp.mpf(found.upper)
        assert found.width <= 1e-7 * float(exact) + 1e-13


@pytest.mark.parametrize("count", [1, 3, 64, 65, 10_000])
def test_leaks_compose_exactly(count: int) -> None:
    delta = Fraction(1, 10**7)
    profile = account(Claimed(ApproxDP(0, delta)) * count)
    exact = 1 - (1 - delta) ** count
    found = profile.delta_bracket(0)
    assert Fraction(found.lower) <= exact <= Fraction(found.upper)
    assert found.width <= 1e-14 * float(exact)
    assert profile.epsilon(0.9) == 0
    assert profile.epsilon(float(exact) * 0.999) == math.inf


def test_a_promise_meets_itself() -> None:
    """ε at exactly the δ that was promised, where one float less would be infinite."""
    assert account(Claimed(ApproxDP(1, 1e-6))).epsilon(1e-6) == pytest.approx(1, rel=1e-12)
    assert account(Claimed(ApproxDP(1, 1e-6))).epsilon(9.99e-7) == math.inf
    assert account(Claimed(PureDP(Fraction(1, 3)))).epsilon(0) == pytest.approx(1 / 3)


def test_a_certain_leak() -> None:
    profile = account(Claimed(ApproxDP(0, 1)) + Gaussian(1))
    assert profile.delta_bracket(5) == Bracket(1.0, 1.0)
    assert profile.epsilon(0.5) == math.inf
    assert isinstance(profile.curve, LeakyCurve)


def test_curves_are_cached_but_events_are_not_confused() -> None:
    assert account(Laplace(1) * 5).curve is account(Laplace(1) * 5).curve
    assert account(Laplace(1) * 5).curve is not account(Laplace(1) * 6).curve


def test_the_unit_travels() -> None:
    profile = account(Gaussian(1), unit="patient_id")
    assert profile.cost(1e-5) == "ε ≤ 4.38, δ = 1e-5, one patient added or removed"
    claim = Claimed(PureDP(1, unit="patient_id"))
    assert account(claim + Gaussian(1)).unit == account(claim).unit == account(claim, unit="patient_id").unit
    assert account(claim).cost(0) == "ε ≤ 1.00, δ = 0, one patient added or removed"
    with pytest.raises(UnitMismatch, match="patient"):
        account(claim, unit="hospital_id")


def test_only_events_are_accounted_for() -> None:
    with pytest.raises(InvalidArgument, match="Event"):
        account(1.0)  # type: ignore[arg-type]


def test_the_room_loads_no_scipy() -> None:
    code = "import sys, deniable.accounting; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_inversion_uses_proven_ends_only() -> None:
    """A curve with a fat bracket: the ends of ε are where the ends of δ cross."""

    def fat(epsilon: float) -> Bracket:
        exact = math.exp(-epsilon)
        return Bracket(exact * 0.5, min(1.0, exact * 2))

    found = inverted(fat, 1e-3)
    assert found.lower == pytest.approx(math.log(500), rel=1e-12)
    assert found.upper == pytest.approx(math.log(2000), rel=1e-12)
    assert fat(found.upper).upper <= 1e-3
    assert fat(found.lower).lower >= 1e-3
    assert inverted(lambda _: Bracket(0.2, 0.2), 0.1, largest=7.0).upper == 7.0


EXTREMES: dict[str, Event] = {
    "loud": Gaussian(1e-3) * 10**12,
    "quiet": Gaussian(1e12),
    "pure": RandomizedResponse(800) * 10,
    "large lattice": DiscreteLaplace(1e6, 10**6) * 3,
    "steep lattice": DiscreteGaussian(1e-3),
    "tiny rate": Gaussian(1e-3).sampled(rate=1e-9),
    "nearly all": Gaussian(1).sampled(rate=0.999999) * 100,
    "many answers": RandomizedResponse(1e-6) * 10**12,
    "tiny leaks": Claimed(ApproxDP(1e-6, 1e-30)) * 10**12,
    "large zCDP": Claimed(ZCDP(1e6)),
    "small zCDP": Claimed(ZCDP(1e-12)),
    "one person shuffled": RandomizedResponse(1).shuffled(size=1),
    "loud shuffled": RandomizedResponse(30).shuffled(size=1000),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name: str) -> None:
    profile = account(EXTREMES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for delta in (1e-300, 1e-9, 0.3, 0):
            found = profile.epsilon_bracket(delta)
            assert 0 <= found.lower <= found.upper
        for epsilon in (0, 1e-3, 30, 800):
            there = profile.delta_bracket(epsilon)
            assert 0 <= there.lower <= there.upper <= 1


def test_extremes_are_right() -> None:
    assert account(EXTREMES["pure"]).epsilon(0.3) == pytest.approx(8000 - 0.357, abs=0.01)
    assert account(EXTREMES["loud shuffled"]).epsilon(1e-9) == pytest.approx(30, rel=1e-6)
    assert account(EXTREMES["steep lattice"]).epsilon(1e-9) == pytest.approx(5e5, rel=1e-6)
    # k tiny responses are nearly Gaussian with μ = ε₀√k = 1.
    assert account(EXTREMES["many answers"]).epsilon(1e-5) == pytest.approx(4.377178, rel=1e-4)
