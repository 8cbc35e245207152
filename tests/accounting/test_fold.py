"""Canonical forms: nothing is lost, nothing is counted twice, equal things merge."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting.fold import Folded, fold, gaussian_squares
from deniable.events import (
    Claimed,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Gaussian,
    Laplace,
    RandomizedResponse,
    Sampled,
    SampledWithoutReplacement,
    ToReplace,
    TreeGaussian,
)
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff
from deniable.units import Relation

REPLACE, ZERO_OUT = Relation.REPLACE, Relation.ZERO_OUT


def steps(event: Event) -> dict[Event, int]:
    return dict(fold(event).steps)


def test_gaussians_merge_exactly() -> None:
    event = Gaussian(2) * 8 + Gaussian(3, sensitivity=0.5) * 2 + Claimed(GDP(0.1))
    found = fold(event)
    assert found.mu_squared == Fraction(8, 4) + 2 * Fraction(1, 36) + Fraction(1, 100)
    assert found.steps == ()
    assert not found.tight
    assert fold(Gaussian(2) * 8).tight


def test_counts_multiply_through_nesting() -> None:
    inner = Laplace(2) * 3 + Gaussian(1)
    found = fold((inner * 5 + Laplace(4, sensitivity=2)) * 2)
    assert dict(found.steps) == {Laplace(2): 32}
    assert found.mu_squared == 10


def test_steps_in_units_of_their_sensitivity_are_equal() -> None:
    assert steps(Laplace(3, sensitivity=6, coordinates=4) + Laplace(0.5)) == {Laplace(0.5): 2}
    sampled = Gaussian(4, sensitivity=2).sampled(rate=0.1) + Gaussian(2).sampled(rate=0.1)
    assert steps(sampled) == {Gaussian(2).sampled(rate=0.1): 2}


def test_order_of_the_parts_does_not_matter() -> None:
    parts = [Laplace(1), Gaussian(1).sampled(rate=0.5), DiscreteLaplace(3), Claimed(PureDP(1)), ExponentialMechanism(1)]
    assert fold(Composed(parts)) == fold(Composed(parts[::-1]))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Laplace(6).for_group(3), {Laplace(2): 1}),
        (DiscreteLaplace(6, 2).for_group(3), {DiscreteLaplace(6, 6): 1}),
        (ExponentialMechanism(0.1).for_group(3), {ExponentialMechanism(0.3): 1}),
        (RandomizedResponse(1, 4).for_group(3), {RandomizedResponse(1, 4): 3}),
        (Claimed(PureDP(0.1)).for_group(3), {Claimed(PureDP(0.3)): 1}),
        ((Laplace(6) * 5).for_group(3), {Laplace(2): 5}),
        (Laplace(2).to_replace(), {Laplace(1, relation=REPLACE): 1}),
        (Laplace(4).to_replace().for_group(2), {Laplace(1, relation=REPLACE): 1}),
        (ExponentialMechanism(1).to_replace(), {ExponentialMechanism(2, REPLACE): 1}),
    ],
)
def test_groups_go_inside_where_that_is_exact(event: Event, expected: dict[Event, int]) -> None:
    assert steps(event) == expected


def test_a_group_of_gaussians_scales_mu() -> None:
    assert fold((Gaussian(2) * 4).for_group(3)).mu_squared == 9
    assert fold(Gaussian(2).to_replace()).mu_squared == 1
    assert fold(Claimed(GDP(0.5)).for_group(4)).mu_squared == 4
    assert fold(Claimed(ZCDP(0.5)).for_group(4)).renyi == ((ZCDP(8), 1),)


def test_a_group_of_an_approximate_promise_is_rounded_up() -> None:
    found = fold(Claimed(ApproxDP(0.5, 1e-6)).for_group(4))
    assert dict(found.steps) == {Claimed(PureDP(2)): 1}
    exact = 1e-6 * math.fsum(math.exp(0.5 * j) for j in range(4))
    ((delta, count),) = found.leaks
    assert count == 1
    assert exact <= float(delta) <= exact * (1 + 2e-9)
    assert fold(Claimed(ApproxDP(300, 1e-300)).for_group(9)).leaks == ((Fraction(1), 1),)


def test_groups_stay_outside_a_sample() -> None:
    step = Gaussian(1).sampled(rate=0.1)
    assert steps((step * 5).for_group(2)) == {ForGroup(step, 2): 5}
    assert fold(step.for_group(2)).tight
    assert not fold(Laplace(1).sampled(rate=0.1).for_group(2)).tight


def test_replacing_in_a_sample_uses_the_reach() -> None:
    found = steps((Gaussian(2).sampled(rate=0.1) * 5).to_replace())
    assert found == {Sampled(Gaussian(1, 1, REPLACE, reach=0.5), rate=0.1): 5}
    claimed = Claimed(PureDP(1)).sampled(rate=0.1)
    assert steps(claimed.to_replace()) == {ToReplace(claimed): 1}


def test_promises_split_into_a_pure_part_and_a_leak() -> None:
    found = fold(Claimed(ApproxDP(1, 1e-6)) * 3 + Claimed(ApproxZCDP(0.1, 1e-5)) + Claimed(ApproxDP(0, 1e-6)))
    assert dict(found.steps) == {Claimed(PureDP(1)): 3}
    assert found.leaks == ((Fraction(1, 10**6), 4), (Fraction(1, 10**5), 1))
    assert found.renyi == ((ZCDP(0.1), 1),)


def test_a_trade_off_function_splits_off_its_leak() -> None:
    found = fold(Claimed(FDP(TradeOff.of_lines([(2, 0.01)]))) * 2)
    assert found.leaks == ((Fraction(1, 100), 2),)
    ((step, count),) = found.steps
    assert count == 2
    assert isinstance(step, Claimed)
    assert isinstance(step.guarantee, FDP)
    assert step.guarantee.tradeoff == TradeOff.of_lines([(2, 0)])


def test_renyi_promises_add_up() -> None:
    found = fold(Claimed(ZCDP(0.1)) * 3 + Claimed(ZCDP(0.2)) + Claimed(RDP(8, 0.5)) * 2 + Claimed(TCDP(0.1, 9)))
    assert dict(found.renyi) == {ZCDP(0.5): 1, RDP(8, 0.5): 2, TCDP(0.1, 9): 1}


def test_what_costs_nothing_disappears() -> None:
    event = Claimed(PureDP(0)) + Claimed(ZCDP(0)) + Claimed(GDP(0)) + Claimed(ApproxDP(0, 0))
    assert fold(event) == Folded(Relation.ADD_REMOVE)
    assert steps(DiscreteGaussian(3, sensitivity=0.5)) == {}, "an integer that moves by less than 1 does not move"


def test_samples_of_everybody_are_no_samples() -> None:
    assert fold(Sampled(Laplace(1), rate=1)) == fold(Laplace(1))
    whole = Laplace(1, relation=REPLACE)
    assert fold(SampledWithoutReplacement(whole, batch=5, size=5)) == fold(whole)


@pytest.mark.parametrize(("steps_", "nodes"), [(1, 1), (2, 2), (3, 2), (4, 3), (1000, 10), (1024, 11)])
def test_trees(steps_: int, nodes: int) -> None:
    assert fold(TreeGaussian(2, steps_, participations=3)).mu_squared == Fraction(3 * nodes, 4)
    assert fold(TreeGaussian(2, steps_, relation=REPLACE)).mu_squared == nodes
    assert fold(TreeGaussian(2, steps_).for_group(2)).mu_squared == nodes


@pytest.mark.parametrize(
    ("event", "whole"),
    [
        (DiscreteGaussian(2, sensitivity=2.9), {DiscreteGaussian(2, 2): 1}),
        (DiscreteGaussian(2, sensitivity=1.4, coordinates=5), {DiscreteGaussian(2, 1): 1}),
    ],
)
def test_discrete_gaussians_move_by_whole_steps(event: Event, whole: dict[Event, int]) -> None:
    assert steps(event) == whole


def test_discrete_gaussian_vectors_have_a_zcdp_bound_only() -> None:
    assert fold(DiscreteGaussian(2, sensitivity=1.5, coordinates=2) * 4).renyi == ((ZCDP(Fraction(9, 8)), 1),)
    assert fold(DiscreteGaussian(2).for_group(2)).renyi == ((ZCDP(Fraction(1, 2)), 1),)


@pytest.mark.parametrize(("coordinates", "group"), [(1, 2), (2, 1), (2, 2), (3, 3)])
def test_discrete_gaussians_that_may_move_in_several_places(coordinates: int, group: int) -> None:
    """As many numbers as coordinates times units: never the exact curve of one number, however the two are related."""
    found = fold(DiscreteGaussian(5, 2, coordinates=coordinates).for_group(group))
    assert found.steps == ()
    assert found.renyi == ((ZCDP(Fraction((2 * group) ** 2, 50)), 1),)


@pytest.mark.parametrize("promise", [FDP(TradeOff.of_lines([(2, 0)])), RDP(2, 1)], ids=["FDP", "RDP"])
def test_promises_without_a_rule_for_groups_keep_their_wrapping(promise: FDP | RDP) -> None:
    claimed = Claimed(promise)
    for event in (claimed.for_group(3), claimed.to_replace(), claimed.to_replace().for_group(3)):
        assert steps(event) == {event: 1}


def test_squares_of_what_is_not_gaussian() -> None:
    assert gaussian_squares(Gaussian(1) + Laplace(1)) is None
    assert gaussian_squares((Gaussian(1, 2, REPLACE, reach=1) + Gaussian(2, 2, REPLACE, reach=2)) * 2) == (10, 4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["g", "l", "s", "c"]), st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=6
    )
)
def test_repeating_the_whole_is_repeating_each(parts: list[tuple[str, int, int]]) -> None:
    makers = {
        "g": lambda scale: Gaussian(scale),
        "l": lambda scale: Laplace(scale),
        "s": lambda scale: Gaussian(scale).sampled(rate=0.5),
        "c": lambda scale: Claimed(ApproxDP(scale, 1e-3)),
    }
    event = Composed([makers[kind](scale) * count for kind, scale, count in parts])
    once, thrice = fold(event), fold(event * 3)
    assert thrice.mu_squared == 3 * once.mu_squared
    assert dict(thrice.steps) == {step: 3 * count for step, count in once.steps}
    assert dict(thrice.leaks) == {delta: 3 * count for delta, count in once.leaks}
