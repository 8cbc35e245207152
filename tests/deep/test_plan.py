"""A plan owns its event: what is typed in, what is calibrated, what is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

import deniable as dn
from deniable.deep import BallsAndBins, FixedBatches, GridNoise, LaplaceNoise, Plan, Poisson, WithoutReplacement
from deniable.errors import InvalidArgument, NotSupported, UnitMismatch

RUN: dict[str, Any] = {"size": 1000, "batch": 50, "steps": 40, "clip": 1}


def test_a_target_is_met_by_the_plans_own_event_and_barely() -> None:
    plan = Plan(**RUN, target=dn.ApproxDP(2, 1e-5))
    assert dn.account(plan.event).epsilon(1e-5) <= 2
    less = dn.dpsgd(noise_multiplier=plan.noise_multiplier * Fraction(999, 1000), rate=0.05, steps=40)
    assert dn.account(less).epsilon(1e-5) > 2


def test_the_event_is_the_one_of_dpsgd() -> None:
    plan = Plan(size=60_000, batch=256, epochs=60, clip=1, noise_multiplier=1.1)
    assert plan.event == dn.dpsgd(noise_multiplier=1.1, batch=256, size=60_000, steps=14_063)


@pytest.mark.parametrize(
    ("sampling", "relation", "event"),
    [
        (Poisson(), dn.ADD_REMOVE, dn.Gaussian(2).sampled(rate=0.05) * 40),
        (Poisson(), dn.ZERO_OUT, dn.Gaussian(2, 1, dn.ZERO_OUT).sampled(rate=0.05) * 40),
        (Poisson(), dn.REPLACE, dn.Gaussian(2, 2, dn.REPLACE, reach=1).sampled(rate=0.05) * 40),
        (
            WithoutReplacement(),
            dn.REPLACE,
            dn.Gaussian(2, 2, dn.REPLACE, reach=1).sampled_without_replacement(batch=50, size=1000) * 40,
        ),
        (BallsAndBins(), dn.ZERO_OUT, dn.Gaussian(2, 1, dn.ZERO_OUT).allocated(steps=20) * 2),
        (FixedBatches(), dn.ZERO_OUT, dn.Gaussian(2, 1, dn.ZERO_OUT) * 2),
        (FixedBatches(), dn.REPLACE, dn.Gaussian(2, 2, dn.REPLACE, reach=1) * 2),
    ],
)
def test_each_sampling_has_its_event(sampling: Any, relation: dn.Relation, event: Any) -> None:
    assert Plan(**RUN, noise_multiplier=2, sampling=sampling, relation=relation).event == event


@pytest.mark.parametrize(
    ("sampling", "relation"),
    [
        (WithoutReplacement(), dn.ADD_REMOVE),
        (WithoutReplacement(), dn.ZERO_OUT),
        (FixedBatches(), dn.ADD_REMOVE),
        (BallsAndBins(), dn.REPLACE),
    ],
)
def test_a_sampling_outside_its_theorem_is_refused(sampling: Any, relation: dn.Relation) -> None:
    with pytest.raises(UnitMismatch, match="is analysed under"):
        Plan(**RUN, noise_multiplier=2, sampling=sampling, relation=relation)


def test_a_begun_epoch_of_fixed_batches_counts() -> None:
    """41 steps of 20 to an epoch: some unit is in three of them."""
    plan = Plan(**RUN | {"steps": 41}, noise_multiplier=2, sampling=FixedBatches())
    assert plan.event == dn.Gaussian(2, 1, dn.ZERO_OUT) * 3


def test_balls_and_bins_know_gaussian_noise_only_and_count_a_begun_epoch() -> None:
    plan = Plan(**RUN | {"steps": 41}, noise_multiplier=2, sampling=BallsAndBins())
    assert plan.event == dn.Gaussian(2, 1, dn.ZERO_OUT).allocated(steps=20) * 3
    assert Plan.from_json(plan.to_json()) == plan
    with pytest.raises(NotSupported, match="Gaussian noise only"):
        Plan(**RUN, noise_multiplier=2, sampling=BallsAndBins(), noise=LaplaceNoise())


def test_laplace_noise_is_clipped_in_l1_and_can_be_pure() -> None:
    plan = Plan(**RUN | {"batch": 1000, "steps": 10}, noise=LaplaceNoise(), target=dn.PureDP(5))
    assert plan.noise.norm == "l1"
    assert 2 <= plan.noise_multiplier <= Fraction(200001, 100000)
    assert plan.event == dn.Laplace(plan.noise_multiplier) * 10


def test_grid_noise_states_its_leak() -> None:
    plan = Plan(**RUN, noise=GridNoise(), target=dn.ApproxDP(2, 1e-5))
    plain = Plan(**RUN, target=dn.ApproxDP(2, 1e-5))
    assert plan.event != plain.event
    assert plan.noise_multiplier == pytest.approx(float(plain.noise_multiplier), rel=1e-6)
    assert dn.account(plan.event).epsilon(1e-5) <= 2


def test_noise_that_misses_the_target_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="noise_multiplier must be enough"):
        Plan(**RUN, noise_multiplier=0.5, target=dn.ApproxDP(1, 1e-5))
    assert Plan(**RUN, noise_multiplier=5, target=dn.ApproxDP(1, 1e-5)).noise_multiplier == 5


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"batch": 1001}, "batch"),
        ({"batch": 0}, "batch"),
        ({"clip": 0}, "clip"),
        ({"clip": float("nan")}, "clip"),
        ({"steps": 0}, "steps"),
        ({"steps": None}, "steps"),
        ({"epochs": 3}, "steps"),
        ({"noise_multiplier": None}, "noise_multiplier"),
        ({"rows_per_unit": 4}, "rows_per_unit"),
        ({"sampling": "poisson"}, "sampling"),
        ({"noise": "gaussian"}, "noise"),
        ({"relation": "swap"}, "relation"),
        ({"noise_multiplier": None, "target": dn.PureDP(1)}, "target"),
        ({"batch": 2.5, "sampling": WithoutReplacement()}, "batch"),
    ],
)
def test_what_cannot_be_meant_is_refused(changed: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} must be"):
        Plan(**{**RUN, "noise_multiplier": 1, **changed})


def test_target_and_plan_speak_of_the_same_neighbours() -> None:
    with pytest.raises(UnitMismatch):
        Plan(**RUN, target=dn.ApproxDP(1, 1e-5), relation=dn.REPLACE)
    with pytest.raises(UnitMismatch, match="is analysed under REPLACE"):
        Plan(**RUN, target=dn.ApproxDP(1, 1e-5), sampling=WithoutReplacement())
    with pytest.raises(UnitMismatch):
        Plan(**RUN, target=dn.ApproxDP(1, 1e-5, unit="user_id"), unit="patient_id")


def test_the_unit_of_the_target_is_the_plans() -> None:
    plan = Plan(**RUN, target=dn.ApproxDP(1, 1e-5, unit="user_id"), rows_per_unit=4)
    assert plan.unit == dn.Unit.of("user_id")
    assert "one user added or removed" in str(plan)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(**RUN, noise_multiplier=1.1),
        Plan(**RUN, target=dn.ApproxDP(1, 1e-5, unit="user_id"), rows_per_unit=4),
        Plan(**RUN, target=dn.GDP(1, relation=dn.REPLACE), sampling=FixedBatches()),
        Plan(**RUN, noise_multiplier=1, noise=GridNoise(bits=12)),
        Plan(**RUN | {"batch": Fraction(100, 3)}, noise_multiplier=2, noise=LaplaceNoise(), relation=dn.REPLACE),
    ],
)
def test_json_brings_back_the_same_plan(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.event == plan.event
    names = {name: getattr(dn.deep, name) for name in dn.deep.__all__} | {"Fraction": Fraction}
    assert eval(repr(plan).replace("100/3", "Fraction(100, 3)"), vars(dn) | names) == plan


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": "0.1"},
        {"steps": 4000},
        {"batch": "500"},
        {"deniable_plan": 2},
        {"sampling": "Hopeful"},
        {"more": 1},
        {"clip": "1e999999999"},
    ],
)
def test_edited_json_is_refused(change: dict[str, Any]) -> None:
    written = json.loads(Plan(**RUN, target=dn.ApproxDP(2, 1e-5)).to_json())
    with pytest.raises(InvalidArgument):
        Plan.from_json(json.dumps(written | change))


def test_a_plan_is_frozen_and_hashable() -> None:
    plan = Plan(**RUN, noise_multiplier=1.1)
    with pytest.raises(AttributeError):
        plan.steps = 3  # type: ignore[misc]
    assert hash(plan) == hash(Plan.from_json(plan.to_json()))


def test_without_a_target_the_promise_is_read_off_the_curve() -> None:
    plan = Plan(**RUN, noise_multiplier=2)
    promise = plan.guarantee
    assert isinstance(promise, dn.ApproxDP)
    assert promise.delta == Fraction(1, 10**4)
    assert dn.account(plan.event).epsilon(1e-4) <= promise.epsilon


def test_a_risk_is_a_target_too() -> None:
    plan = Plan(**RUN, target=dn.Risk.advantage(0.2))
    assert dn.account(plan.event).advantage <= 0.2
