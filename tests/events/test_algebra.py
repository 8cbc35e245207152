"""Sums, repetitions, groups, samplings: what they flatten, what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from deniable.accounting import account
from deniable.conversions import for_group
from deniable.errors import DeniableError, InvalidArgument, NotSupported, UnitMismatch
from deniable.events import (
    Claimed,
    Composed,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Gaussian,
    Laplace,
    Noise,
    RandomizedResponse,
    Repeated,
    Sampled,
    TreeGaussian,
    dpsgd,
)
from deniable.guarantees import ApproxDP, PureDP
from deniable.units import RECORD, Relation

G, L = Gaussian(scale=2), Laplace(scale=3)


def test_sums_are_flat_and_repetitions_multiply() -> None:
    assert (G + L) + G == G + (L + G) == Composed([G, L, G])
    assert G * 2 * 3 == 6 * G == Repeated(G, 6)
    assert G.for_group(2).for_group(3) == ForGroup(G, 6)
    assert G.sampled(rate=0.5).sampled(rate=0.5) == Sampled(G, 0.25)


def test_python_sums_a_list_of_events() -> None:
    assert sum([G, L, G], start=0) == G + L + G
    with pytest.raises(TypeError):
        1 + G


def test_doing_nothing_changes_nothing() -> None:
    assert G.for_group(1) is G
    assert G.sampled(rate=1) is G
    assert G.sampled(rate=Fraction(1)) is G
    swapped = Laplace(scale=1, relation=Relation.REPLACE)
    assert swapped.to_replace() is swapped


def test_the_relation_travels() -> None:
    assert (G * 3).relation is Relation.ADD_REMOVE
    assert G.to_replace().relation is Relation.REPLACE
    assert (G.sampled(rate=0.1) * 4).for_group(2).relation is Relation.ADD_REMOVE
    assert RandomizedResponse(1).shuffled(size=10).relation is Relation.REPLACE
    assert TreeGaussian(scale=1, steps=8).relation is Relation.ZERO_OUT


def test_the_unit_travels_and_units_do_not_mix() -> None:
    patient, visit = Claimed(PureDP(1, unit="patient_id")), Claimed(PureDP(1, unit="visit_id"))
    assert (G + patient * 2).unit.noun == "patient"
    assert (patient.sampled(rate=0.1) * 3).for_group(2).unit.noun == "patient"
    assert patient.to_replace().unit.noun == "patient"
    assert (G + L).unit == RECORD
    with pytest.raises(UnitMismatch, match="one patient"):
        _ = patient + visit


def test_groups_are_units_of_their_own() -> None:
    """A sum speaks of the smallest group that all of its parts cover; samples and shuffles are about single units."""
    assert G.for_group(3).unit.members == 3
    assert (G.for_group(3) + L.for_group(2) * 4).unit.one == "a group of 2 records"
    assert (G.for_group(3) + L).unit == RECORD
    claimed = Claimed(for_group(PureDP(1, unit="patient_id"), 3))
    assert claimed.for_group(2).unit.one == "a group of 6 patients"
    assert Event.from_json(claimed.to_json()).unit.members == 3
    assert account(G.for_group(3), unit="patient_id").cost(1e-5).endswith("a group of 3 patients added or removed")
    swapped = Claimed(for_group(PureDP(1, relation=Relation.REPLACE), 3))
    for refused in (
        lambda: claimed.sampled(rate=0.1),
        lambda: swapped.sampled_without_replacement(batch=1, size=10),
        lambda: swapped.shuffled(size=10),
    ):
        with pytest.raises(NotSupported, match="sample first"):
            refused()


def test_events_print_as_the_code_that_makes_them() -> None:
    assert repr((G + L) * 3) == "(Gaussian(scale=2) + Laplace(scale=3)) * 3"
    assert repr((G * 3).for_group(2)) == "(Gaussian(scale=2) * 3).for_group(2)"
    assert repr((G + L).sampled(rate=0.1).to_replace()) == f"({G + L!r}).sampled(rate=0.1).to_replace()"
    assert repr(Claimed(ApproxDP(1, 1e-6))) == "Claimed(ApproxDP(epsilon=1, delta=1e-06))"


def test_epochs_become_whole_steps_exactly() -> None:
    """0.1 is a tenth, so 0.1 × 30 examples are three batches of one, not four."""
    one = {"noise_multiplier": 1, "batch": 1, "size": 30}
    assert dpsgd(**one, epochs=0.1) == dpsgd(**one, steps=3)
    assert dpsgd(**one, epochs=0.11) == dpsgd(**one, steps=4)
    assert dpsgd(noise_multiplier=1, rate=0.01, epochs=3) == dpsgd(noise_multiplier=1, rate=0.01, steps=300)


def test_dpsgd_doubles_the_sensitivity_under_replace() -> None:
    assert dpsgd(noise_multiplier=1.1, rate=0.01, steps=10) == Gaussian(scale=1.1).sampled(rate=0.01) * 10
    swapped = Gaussian(scale=1.1, sensitivity=2, relation=Relation.REPLACE, reach=1)
    assert dpsgd(noise_multiplier=1.1, rate=0.01, steps=9, relation=Relation.REPLACE) == swapped.sampled(rate=0.01) * 9
    assert (
        dpsgd(noise_multiplier=1, batch=256, size=60_000, steps=1)
        == Gaussian(scale=1).sampled(rate=Fraction(256, 60_000)) * 1
    )


def test_a_tree_touches_one_node_a_level() -> None:
    # 1 step: the leaf is the root. 8 leaves: 8, 4, 2, 1 nodes, four levels. 9 steps touch a complete tree of 8 at most.
    assert [TreeGaussian(scale=1, steps=n).nodes for n in (1, 2, 3, 4, 7, 8, 9)] == [1, 2, 2, 3, 3, 4, 4]


REPLACE = Relation.REPLACE
BAD: dict[str, tuple[Callable[[], object], type[DeniableError], str]] = {
    "scale 0": (lambda: Gaussian(scale=0), InvalidArgument, "scale must be a positive number; got scale=0"),
    "scale nan": (lambda: Laplace(scale=math.nan), InvalidArgument, "scale"),
    "sensitivity inf": (lambda: Laplace(1, math.inf), InvalidArgument, "sensitivity"),
    "count 0": (lambda: G * 0, InvalidArgument, "count must be a whole number, 1 or more; got count=0"),
    "count -1": (lambda: G * -1, InvalidArgument, "count"),
    "count 1.5": (lambda: G * 1.5, InvalidArgument, "count"),  # type: ignore[operator]
    "count True": (lambda: G * True, InvalidArgument, "count"),
    "rate 0": (lambda: G.sampled(rate=0), InvalidArgument, "rate must be a rate above 0 and at most 1"),
    "rate above 1": (lambda: G.sampled(rate=1.5), InvalidArgument, "rate"),
    "rate True": (lambda: G.sampled(rate=True), InvalidArgument, "rate"),
    "rate nan": (lambda: G.sampled(rate=math.nan), InvalidArgument, "rate"),
    "group 0": (lambda: G.for_group(0), InvalidArgument, "members"),
    "group 1.5": (lambda: G.for_group(1.5), InvalidArgument, "members"),  # type: ignore[arg-type]
    "mixed relations": (lambda: G + Laplace(1, 1, REPLACE), UnitMismatch, "to_replace"),
    "zero-out and add/remove": (lambda: G + TreeGaussian(scale=1, steps=2), UnitMismatch, "State both under one"),
    "fixed batch, add/remove": (
        lambda: G.sampled_without_replacement(batch=1, size=2), UnitMismatch, "under REPLACE only",
    ),
    "batch above size": (
        lambda: Laplace(1, 1, REPLACE).sampled_without_replacement(batch=3, size=2), InvalidArgument, "batch",
    ),
    "shuffled noise": (lambda: G.shuffled(size=10), InvalidArgument, "local report"),
    "shuffled, add/remove": (lambda: Claimed(PureDP(1)).shuffled(size=9), UnitMismatch, "REPLACE"),
    "Poisson, replace, no reach": (lambda: Gaussian(1, 2, REPLACE).sampled(rate=0.1), InvalidArgument, "reach"),
    "reach under add/remove": (lambda: Gaussian(1, 1, reach=1), InvalidArgument, "reach"),
    "reach below half": (lambda: Gaussian(1, 2, REPLACE, reach=0.9), InvalidArgument, "at least half"),
    "Poisson sample of shuffled reports": (
        lambda: (RandomizedResponse(1).shuffled(size=9) + Laplace(1, 1, REPLACE, reach=1)).sampled(rate=0.1),
        NotSupported, "Shuffled",
    ),
    "Poisson sample of fixed batches": (
        lambda: (Gaussian(1, 1, REPLACE).sampled_without_replacement(batch=1, size=9) * 2).sampled(rate=0.1),
        NotSupported, "SampledWithoutReplacement",
    ),
    "more people shuffled than drawn": (
        lambda: (RandomizedResponse(1).shuffled(size=9) * 2).sampled_without_replacement(batch=8, size=99),
        InvalidArgument, "size must be at most the batch of 8",
    ),
    "drawn from more than were drawn": (
        lambda: (
            (Gaussian(1, 1, REPLACE) + Gaussian(1, 1, REPLACE).sampled_without_replacement(batch=1, size=9))
            .sampled_without_replacement(batch=8, size=99)
        ),
        InvalidArgument, "size must be at most the batch of 8",
    ),
    "sampled group": (lambda: G.for_group(2).sampled(rate=0.1), NotSupported, "sample first"),
    "sampled move": (
        lambda: Composed([G, L]).to_replace().sampled_without_replacement(batch=1, size=2), NotSupported, "first",
    ),
    "move from zero-out": (lambda: TreeGaussian(scale=1, steps=2).to_replace(), InvalidArgument, "ADD_REMOVE"),
    "tree, add/remove": (lambda: TreeGaussian(1, 2, relation=Relation.ADD_REMOVE), InvalidArgument, "ZERO_OUT"),
    "half a person": (lambda: DiscreteLaplace(1, 1.5), InvalidArgument, "whole number"),
    "one category": (lambda: RandomizedResponse(1, 1), InvalidArgument, "categories"),
    "local, add/remove": (lambda: RandomizedResponse(1, 2, Relation.ADD_REMOVE), InvalidArgument, "REPLACE"),
    "epsilon 0": (lambda: ExponentialMechanism(0), InvalidArgument, "epsilon"),
    "claim of nothing": (lambda: Claimed(1), InvalidArgument, "guarantee must be a Guarantee"),  # type: ignore[arg-type]
    "empty sum": (lambda: Composed([]), InvalidArgument, "parts"),
    "batch beyond size": (
        lambda: dpsgd(noise_multiplier=1, batch=9, size=8, steps=1), InvalidArgument, "at most size=8"
    ),
    "steps and epochs": (
        lambda: dpsgd(noise_multiplier=1, rate=0.1, steps=1, epochs=1), InvalidArgument, "epochs instead, and not both"
    ),
    "no noise": (lambda: dpsgd(noise_multiplier=0, rate=0.1, steps=1), InvalidArgument, "noise_multiplier must be"),
    "rate and batch": (lambda: dpsgd(noise_multiplier=1, rate=0.1, batch=2, steps=1), InvalidArgument, "rate"),
}  # fmt: skip


def test_a_batch_may_be_shuffled_or_drawn_from() -> None:
    for inner in (
        RandomizedResponse(1).shuffled(size=8),
        Gaussian(1, 1, REPLACE).sampled_without_replacement(batch=2, size=8),
        Gaussian(1, 1, REPLACE, reach=1).sampled(rate=0.1) + Laplace(1, 1, REPLACE),
    ):
        assert inner.sampled_without_replacement(batch=8, size=99).relation is REPLACE


@pytest.mark.parametrize(("make", "kind", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input_says_what_fits(make: Callable[[], object], kind: type[DeniableError], said: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert said in str(caught.value)


def test_a_family_is_no_event() -> None:
    with pytest.raises(TypeError, match="Gaussian, Laplace"):
        Noise(1)
    with pytest.raises(TypeError):
        _ = G + 1  # type: ignore[operator]


def test_events_are_values() -> None:
    assert Gaussian(0.1) == Gaussian(Fraction(1, 10))
    assert Gaussian(1) != Laplace(1)
    assert len({Gaussian(1), Gaussian(1.0), Laplace(1)}) == 2
    with pytest.raises(AttributeError):
        G.scale = Fraction(1)  # type: ignore[misc]
