"""The solver: on the safe side, near the border, whichever way the parameter works."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.special import ndtri

from deniable.accounting import account
from deniable.calibration import Risk, calibrate, margin
from deniable.conversions import for_group
from deniable.errors import InvalidArgument, NoConversion, UnitMismatch
from deniable.events import Claimed, DiscreteGaussian, Event, ExponentialMechanism, Gaussian, Laplace, dpsgd
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.units import Relation


def test_noise_for_training() -> None:
    """The published case: ε = 1, δ = 1e-5, q = .01, T = 1e4 has σ = 3.8128168."""
    found = calibrate(lambda s: dpsgd(noise_multiplier=s, rate=0.01, steps=10_000), ApproxDP(1, 1e-5))
    assert 3.8128168 <= found.value <= 3.8128168 * (1 + 1e-5)
    assert found.profile.epsilon(1e-5) <= 1
    assert found.event == dpsgd(noise_multiplier=found.value, rate=0.01, steps=10_000)


def test_a_target_for_groups_needs_an_event_for_groups() -> None:
    target = for_group(ApproxDP(1, 1e-5), 2)
    with pytest.raises(UnitMismatch, match="for_group"):
        calibrate(lambda s: Gaussian(s), target)
    found = calibrate(lambda s: Gaussian(s).for_group(2), target)
    assert found.profile.unit.members == 2
    assert found.profile.epsilon(target.delta) <= 2


def test_risks_read_as_code_and_as_words() -> None:
    risks = [
        Risk.advantage(0.1),
        Risk.true_positive_rate(Fraction(1, 3), alpha=0.001),
        Risk.accuracy(0.6, prior=0.5),
        Risk.posterior(0.2, prior=0.1),
        Risk.posterior(0.2, prior=0.1, failure=1e-6),
    ]
    assert list(map(repr, risks)) == [
        "Risk.advantage(0.1)",
        "Risk.true_positive_rate(1/3, alpha=0.001)",
        "Risk.accuracy(0.6, prior=0.5)",
        "Risk.posterior(0.2, prior=0.1)",
        "Risk.posterior(0.2, prior=0.1, failure=1e-06)",
    ]
    assert list(map(str, risks)) == [
        "advantage of any test ≤ 0.1",
        "true positives of any test ≤ 1/3 at false positives of 0.001",
        "right guesses ≤ 0.6 from a prior of 0.5",
        "belief ≤ 0.2 from a prior of 0.1",
        "belief ≤ 0.2 from a prior of 0.1, but for outputs of probability 1e-06",
    ]


def test_a_rate() -> None:
    found = calibrate(lambda q: dpsgd(noise_multiplier=1, rate=q, steps=100), ApproxDP(1, 1e-5))
    assert found.profile.epsilon(1e-5) <= 1
    assert account(dpsgd(noise_multiplier=1, rate=found.value * 1.0001, steps=100)).epsilon(1e-5) > 1


def test_steps_are_whole() -> None:
    found = calibrate(lambda n: Gaussian(20) * int(n), ApproxDP(1, 1e-6), within=(1, 10**6))
    assert isinstance(found.value, int)
    assert found.profile.epsilon(1e-6) <= 1
    assert account(Gaussian(20) * (found.value + 1)).epsilon(1e-6) > 1


def test_the_epsilon_of_a_query() -> None:
    found = calibrate(lambda e: Laplace(1 / e) * 10, PureDP(1))
    assert 0.1 * (1 - 1e-6) <= found.value <= 0.1
    assert found.profile.epsilon(0) <= 1


EXACT: list[tuple[str, object, Guarantee | Risk, float, int]] = [
    ("GDP", lambda s: Gaussian(s) * 9, GDP(2), 1.5, 1),
    ("zCDP", lambda s: Gaussian(s) * 9, ZCDP(0.5), 3.0, 1),
    ("approximate zCDP", lambda s: Gaussian(s) + Claimed(ApproxDP(0, 1e-9)), ApproxZCDP(0.5, 1e-9), 1.0, 1),
    ("RDP", lambda s: Gaussian(s), RDP(4, 2), 1.0, 1),
    ("tCDP", lambda s: Gaussian(s), TCDP(0.5, 10), 1.0, 1),
    ("pure", lambda e: ExponentialMechanism(e), PureDP(2), 2.0, -1),
    ("f-DP", lambda s: Laplace(s), FDP(TradeOff.of_lines([(2, 0)])), 1 / math.log(2), 1),
    ("advantage", lambda s: Gaussian(s), Risk.advantage(0.1), 1 / (2 * ndtri(0.55)), 1),
    ("accuracy", lambda s: Gaussian(s), Risk.accuracy(0.6, prior=0.5), 1 / (2 * ndtri(0.6)), 1),
    (
        "true positives",
        lambda s: Gaussian(s),
        Risk.true_positive_rate(0.05, alpha=0.01),
        1 / (ndtri(0.05) - ndtri(0.01)),
        1,
    ),
    ("posterior", lambda s: Laplace(s), Risk.posterior(0.2, prior=0.1), 1 / math.log(0.25 * 9), 1),
]


@pytest.mark.parametrize(("make", "target", "exact", "side"), [row[1:] for row in EXACT], ids=[row[0] for row in EXACT])
def test_targets_with_a_known_answer(make: object, target: Guarantee | Risk, exact: float, side: int) -> None:
    found = calibrate(make, target)  # type: ignore[arg-type]
    off = side * (found.value - exact) / exact
    assert -1e-12 <= off <= 2e-6
    assert margin(found.event, target) <= 0


def test_integer_noise_is_checked_at_its_own_value() -> None:
    """At fixed ε its δ is not monotone in the scale; what is returned holds all the same."""
    target = ApproxDP(4, 1e-5)
    found = calibrate(lambda s: DiscreteGaussian(s), target)
    assert account(DiscreteGaussian(found.value)).delta(4) <= 1e-5


def test_the_unit_of_the_target_is_that_of_the_profile() -> None:
    found = calibrate(lambda s: Gaussian(s), ApproxDP(1, 1e-5, unit="patient_id"))
    assert "patient" in found.profile.cost(1e-5)


def test_tolerance() -> None:
    coarse = calibrate(lambda s: Gaussian(s), ApproxDP(1, 1e-5), tolerance=0.01)
    fine = calibrate(lambda s: Gaussian(s), ApproxDP(1, 1e-5))
    assert fine.value <= coarse.value <= fine.value * 1.02


def test_zero_epsilon_is_a_target() -> None:
    found = calibrate(lambda s: Gaussian(s), ApproxDP(0, 1e-3))
    assert found.profile.delta(0) <= 1e-3


def test_what_cannot_be_met() -> None:
    with pytest.raises(InvalidArgument, match="No value there meets it"):
        calibrate(lambda s: Gaussian(s), ApproxDP(1e-3, 1e-9), within=(0.1, 10.0))
    with pytest.raises(InvalidArgument, match="Every value there meets it"):
        calibrate(lambda s: Gaussian(s), ApproxDP(10, 1e-2), within=(10.0, 20.0))
    with pytest.raises(InvalidArgument, match="needs a δ above 0"):
        calibrate(lambda s: Gaussian(s), PureDP(1))
    with pytest.raises(InvalidArgument, match="No value there meets it"):
        calibrate(lambda s: Gaussian(1), ApproxDP(0.1, 1e-5))  # what is searched for makes no difference
    with pytest.raises(InvalidArgument, match="Every value there meets it"):
        calibrate(lambda s: Gaussian(1), ApproxDP(10, 1e-5))


@pytest.mark.parametrize(
    "target",
    [
        PureDP(1),
        ApproxDP(1, 1e-6),
        GDP(Fraction(1, 10)),
        ZCDP(Fraction(1, 10)),
        ApproxZCDP(Fraction(1, 10), 1e-9),
        TCDP(Fraction(1, 10), 10),
        RDP(4, Fraction(1, 10)),
        Risk.advantage(0.1),
        Risk.accuracy(0.55, prior=0.5),
        Risk.posterior(0.2, prior=0.1, failure=1e-5),
        Risk.true_positive_rate(0.02, alpha=0.01),
    ],
    ids=repr,
)
def test_what_is_beside_the_value_may_cost_too_much(target: Guarantee | Risk) -> None:
    """However much noise: the other part alone is over the limit. The answer is a sentence, never a number's end."""
    noise = Laplace if isinstance(target, PureDP) else Gaussian
    with pytest.raises(InvalidArgument, match=r"No value there meets it.*Take less .*, or allow more") as refusal:
        calibrate(lambda s: noise(s) + noise(Fraction(1, 2)), target)
    assert ("The smallest ε there is about" in str(refusal.value)) is isinstance(target, PureDP | ApproxDP)


@pytest.mark.parametrize(("limit", "alpha"), [(0.05, 0.01), (1e-3, 1e-5), (0.6, 0.5)])
def test_true_positives_are_solved_for_by_few_points_of_the_curve(limit: float, alpha: float) -> None:
    """The value that one (ε, δ) line leads to is on the border of the whole curve."""
    target = Risk.true_positive_rate(limit, alpha=alpha)

    def run(noise: float) -> Event:
        return dpsgd(noise_multiplier=noise, rate=0.01, steps=1000)

    solved = calibrate(run, target)
    assert solved.profile.true_positive_rate(alpha) <= limit
    assert margin(run(solved.value * (1 - 1e-5)), target) > 0


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgument, match=r"make_event must be a function from .* lambda s: Gaussian"):
        calibrate(Gaussian(1), ApproxDP(1, 1e-5))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="make_event must be a function that returns an event"):
        calibrate(lambda s: s, ApproxDP(1, 1e-5))  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidArgument, match="within"):
        calibrate(lambda s: Gaussian(s), ApproxDP(1, 1e-5), within=(5.0, 1.0))
    with pytest.raises(InvalidArgument, match="target"):
        calibrate(lambda s: Gaussian(s), 1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="tolerance"):
        calibrate(lambda s: Gaussian(s), ApproxDP(1, 1e-5), tolerance=0)
    with pytest.raises(InvalidArgument, match="above the prior"):
        Risk.posterior(0.1, prior=0.2)


def test_a_refusal_of_every_value_is_raised_itself() -> None:
    """Nothing is wrong with the value, so the sentence is about what is: the rate that is missing, not a lambda."""
    with pytest.raises(InvalidArgument) as alone:
        dpsgd(noise_multiplier=1, steps=3)
    for within in (None, (0.5, 8.0), (1, 8)):
        with pytest.raises(InvalidArgument) as refusal:
            calibrate(lambda s: dpsgd(noise_multiplier=s, steps=3), ApproxDP(1, 1e-5), within=within)
        assert str(refusal.value) == str(alone.value)


def test_a_refusal_of_some_values_is_quoted() -> None:
    with pytest.raises(InvalidArgument, match=r"within must be .* It refuses 4: rate must be .* got rate=4") as one_end:
        calibrate(lambda q: dpsgd(noise_multiplier=1, rate=q, steps=3), ApproxDP(1, 1e-5), within=(0.5, 4.0))
    assert one_end.value.name == "within"
    with pytest.raises(InvalidArgument, match=r"within must be .* It refuses 1: rate must be .* got rate=1000000"):
        calibrate(lambda q: dpsgd(noise_multiplier=1, rate=q * 1e6, steps=3), ApproxDP(1, 1e-5))


def test_relations_must_agree() -> None:
    with pytest.raises(UnitMismatch):
        calibrate(lambda s: Gaussian(s), ApproxDP(1, 1e-5, relation=Relation.REPLACE))


def test_kinds_that_an_event_does_not_have() -> None:
    with pytest.raises(NoConversion, match="GDP"):
        calibrate(lambda s: Laplace(s) + Gaussian(s).sampled(rate=0.1), GDP(1))
    with pytest.raises(NoConversion, match="zCDP"):
        calibrate(lambda s: Gaussian(s) + Claimed(ApproxDP(0, 1e-9)), ZCDP(1))


def test_margins_are_decided_exactly() -> None:
    """ln of a ratio that rounds to 0 must not decide: one part in 10²⁰ too much is too much."""
    event: Event = Claimed(PureDP(Fraction(1)))
    assert margin(event, PureDP(1)) <= 0 or account(event).epsilon(0) > 1
    assert margin(Gaussian(1), GDP(1)) == 0
    assert margin(Gaussian(1), GDP(1 - Fraction(1, 10**20))) > 0
