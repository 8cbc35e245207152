"""Runs that were accounted elsewhere, without the other library."""

from __future__ import annotations

import math
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

from deniable.accounting import account, from_dp_accounting, from_opacus, known_faults
from deniable.errors import InvalidArgument, NotSupported, UnitMismatch
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    RandomizedResponse,
    TreeGaussian,
)
from deniable.guarantees import ZCDP, ApproxDP, PureDP
from deniable.units import Relation

REPLACE, ZERO_OUT = Relation.REPLACE, Relation.ZERO_OUT


def their(name: str, **fields: Any) -> Any:
    """An object that looks like one of theirs."""
    return make_dataclass(name, fields.keys())(**fields)


def test_opacus_histories() -> None:
    assert from_opacus([(1.1, 0.01, 500)]) == Gaussian(1.1).sampled(rate=0.01) * 500
    two = from_opacus([(1.1, 0.01, 500), (0.9, 0.02, 100)])
    assert two == Gaussian(1.1).sampled(rate=0.01) * 500 + Gaussian(0.9).sampled(rate=0.02) * 100
    assert from_opacus({"history": [(1, 0.5, 2)], "mechanism": "rdp"}) == Gaussian(1).sampled(rate=0.5) * 2

    @dataclass
    class Accountant:
        history: list[tuple[float, float, int]]

    assert from_opacus(Accountant([(1, 2.0, 3)])) == Gaussian(1) * 3, "accumulated beyond the whole data set"


def test_batches_that_are_no_poisson_samples_get_no_amplification() -> None:
    event = from_opacus([(1.0, 0.01, 250)], poisson=False)
    assert event == Gaussian(1, 1, ZERO_OUT) * 3
    assert account(event).epsilon(1e-5) > 5 * account(from_opacus([(1.0, 0.01, 250)])).epsilon(1e-5)


def test_noise_that_changes_within_an_epoch() -> None:
    """Ten batches from the middle of an epoch on reach into the next one: a unit may be in two of them."""
    event = from_opacus([(2.0, 0.1, 5), (1.0, 0.1, 10)], poisson=False)
    assert event == Gaussian(2, 1, ZERO_OUT) + Gaussian(1, 1, ZERO_OUT) * 2
    for start, steps in ((3, 1), (9, 2), (1, 9), (1, 10), (7, 13), (5, 21)):
        met = len({step // 10 for step in range(start, start + steps)})  # one batch of every epoch that is touched
        assert account(from_opacus([(2.0, 0.1, start), (1.0, 0.1, steps)], poisson=False)).epsilon(1e-5) >= (
            account(Gaussian(1, 1, ZERO_OUT) * met).epsilon(1e-5)
        )


@pytest.mark.parametrize("history", [[], [(1.1, 0.01)], 3, {"steps": 3}])
def test_what_is_no_history(history: object) -> None:
    with pytest.raises(InvalidArgument, match="noise multiplier"):
        from_opacus(history)


SAME = [
    (their("GaussianDpEvent", noise_multiplier=2.0), Gaussian(2)),
    (their("LaplaceDpEvent", noise_multiplier=2.0), Laplace(2)),
    (their("DiscreteLaplaceDpEvent", noise_parameter=0.5, sensitivity=3), DiscreteLaplace(2, 3)),
    (their("DiscreteGaussianDpEvent", sigma=2.0, sensitivity=1.0, dimension=1), DiscreteGaussian(2)),
    (
        their("DiscreteGaussianDpEvent", sigma=2.0, sensitivity=2.0, dimension=None),
        DiscreteGaussian(2, 2, coordinates=2),
    ),
    (their("EpsilonDeltaDpEvent", epsilon=1.0, delta=0.0), Claimed(PureDP(1))),
    (their("EpsilonDeltaDpEvent", epsilon=1.0, delta=1e-6), Claimed(ApproxDP(1, 1e-6))),
    (their("ZCDpEvent", rho=0.1, xi=0.2), Claimed(ZCDP(0.3))),
    (their("ExponentialMechanismDpEvent", epsilon=0.5), ExponentialMechanism(0.5)),
    (their("PermuteAndFlipDpEvent", epsilon=0.5), Claimed(PureDP(0.5))),
    (their("NoOpDpEvent"), Claimed(PureDP(0))),
    (their("NonPrivateDpEvent"), Claimed(ApproxDP(0, 1))),
    (their("GaussianDpEvent", noise_multiplier=0.0), Claimed(ApproxDP(0, 1))),
    (their("SingleEpochTreeAggregationDpEvent", noise_multiplier=2.0, step_counts=[5, 9]), TreeGaussian(2, 9)),
    (their("SingleEpochTreeAggregationDpEvent", noise_multiplier=2.0, step_counts=7), TreeGaussian(2, 7)),
]


@pytest.mark.parametrize(("event", "ours"), SAME, ids=[type(e).__name__ for e, _ in SAME])
def test_dp_accounting_events(event: Any, ours: object) -> None:
    assert from_dp_accounting(event) == ours


def test_nested_events() -> None:
    step = their(
        "PoissonSampledDpEvent", sampling_probability=0.01, event=their("GaussianDpEvent", noise_multiplier=1.1)
    )
    run = their("SelfComposedDpEvent", event=step, count=100)
    whole = their("ComposedDpEvent", events=[run, their("LaplaceDpEvent", noise_multiplier=3.0)])
    assert from_dp_accounting(whole) == Gaussian(1.1).sampled(rate=0.01) * 100 + Laplace(3)
    assert from_dp_accounting(their("ComposedDpEvent", events=[])) == Claimed(PureDP(0))


def test_replacing_doubles_the_sensitivity() -> None:
    """The fault of their RDP accountant: it reports the add/remove number."""
    event = their("GaussianDpEvent", noise_multiplier=1.0)
    assert from_dp_accounting(event, relation=REPLACE) == Gaussian(1, 2, REPLACE, reach=1)
    ours = account(from_dp_accounting(event, relation=REPLACE)).epsilon(1e-5)
    assert ours == pytest.approx(9.997, abs=0.01)
    assert any("doubles" in line for line in known_faults(from_dp_accounting(event, relation=REPLACE)))


def test_batches_without_replacement() -> None:
    inner = their("GaussianDpEvent", noise_multiplier=1.0)
    event = their("SampledWithoutReplacementDpEvent", source_dataset_size=100, sample_size=10, event=inner)
    found = from_dp_accounting(event, relation=REPLACE)
    assert found == Gaussian(1, 2, REPLACE, reach=1).sampled_without_replacement(batch=10, size=100)
    with pytest.raises(UnitMismatch):
        from_dp_accounting(event)


def test_randomized_response_keeps_its_count() -> None:
    """The fault of their PLD accountant: ten copies cost the same as one."""
    one = their("RandomizedResponseDpEvent", noise_parameter=0.5, num_buckets=4)
    event = from_dp_accounting(their("SelfComposedDpEvent", event=one, count=10), relation=REPLACE)
    single = from_dp_accounting(one, relation=REPLACE)
    assert isinstance(single, RandomizedResponse)
    # Truth with probability ½ + ⅛ against ⅛: e^ε = 5.
    assert math.log(5) <= float(single.epsilon) <= math.log(5) * (1 + 1e-13)
    assert account(event).epsilon(1e-6) > 5 * account(single).epsilon(1e-6)
    assert any("count" in line for line in known_faults(event))
    assert any("count" in line for line in known_faults(ExponentialMechanism(epsilon=0.1) * 154))
    with pytest.raises(UnitMismatch, match="REPLACE"):
        from_dp_accounting(one)
    assert from_dp_accounting(
        their("RandomizedResponseDpEvent", noise_parameter=1.0, num_buckets=4), relation=REPLACE
    ) == Claimed(PureDP(0, relation=REPLACE))


@pytest.mark.parametrize("name", ["SampledWithReplacementDpEvent", "UnsupportedDpEvent"])
def test_what_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotSupported, match=name):
        from_dp_accounting(their(name))


def test_truncated_batches() -> None:
    fields = {"dataset_size": 300, "sampling_probability": 0.01, "truncated_batch_size": 7, "noise_multiplier": 1.5}
    one = their("TruncatedSubsampledGaussianDpEvent", **fields)
    assert from_dp_accounting(one) == Gaussian(1.5).truncated(rate=0.01, capacity=7, size=300)
    with pytest.raises(UnitMismatch, match="ADD_REMOVE"):
        from_dp_accounting(one, relation=REPLACE)
    empty = their("TruncatedSubsampledGaussianDpEvent", **{**fields, "truncated_batch_size": 0})
    assert from_dp_accounting(empty) == Claimed(PureDP(0))
    bare = their("TruncatedSubsampledGaussianDpEvent", **{**fields, "noise_multiplier": 0.0})
    assert from_dp_accounting(bare) == Claimed(ApproxDP(0, 1))


def test_strangers() -> None:
    with pytest.raises(NotSupported, match="int is no event"):
        from_dp_accounting(3)


def test_an_innocent_event_has_no_faults() -> None:
    assert known_faults(Laplace(1)) == ()
