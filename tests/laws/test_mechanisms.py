"""Laws that every mechanism obeys: it costs what was asked, its stated error holds, it is a value.

The noise it draws is checked in test_mechanism_noise.py, bad data in test_mechanism_data.py, bad arguments in
test_mechanism_arguments.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import stats

from deniable.accounting.accountant import account
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees import ApproxDP
from deniable.mechanisms import Mechanism
from deniable.units import Relation
from tests.laws.mechanism_examples import ABSTRACT, CASES, EXAMPLES, PAIRS


def test_every_mechanism_has_an_example() -> None:
    assert set(Mechanism.registry) - ABSTRACT == set(EXAMPLES)


def test_every_public_function_makes_one_of_them() -> None:
    made = {type(EXAMPLES[name][i].make(r)).__name__ for name, i, r in PAIRS}
    assert made == set(EXAMPLES)


@pytest.mark.parametrize(("name", "i", "relation"), PAIRS)
def test_the_event_is_stated_under_the_relation_and_costs_what_was_asked(name: str, i: int, relation: Relation) -> None:
    example = EXAMPLES[name][i]
    m = example.make(relation)
    promise = example.promise(relation)
    delta = promise.delta if isinstance(promise, ApproxDP) else Fraction(0)
    assert m.event.relation is relation is m.relation
    if name == "ShuffledResponse":
        delta = Fraction(1, 10**6)  # costs less than its local reports, which cost 1
    assert account(m.event).epsilon(delta) <= float(promise.epsilon) * (1 + 1e-9)
    assert Event.from_json(m.event.to_json()) == m.event


@pytest.mark.parametrize(("name", "i"), CASES)
def test_the_stated_error_holds(name: str, i: int) -> None:
    """At 80 % confidence, failures are at most binomial(runs, 0.2): alarm with probability 1e-6."""
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    runs = 120
    bound = m.error(0.8, **example.assumptions)
    failures = sum(example.wrong(m(example.data), m) > bound for _ in range(runs))
    assert failures <= stats.binom.isf(1e-6, runs, 0.2)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_more_confidence_costs_accuracy_and_it_is_said(name: str, i: int) -> None:
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    bounds = [m.error(c, **example.assumptions) for c in (0.5, 0.9, 0.95, 0.999)]
    assert bounds == sorted(bounds)
    assert all(math.isfinite(bound) for bound in bounds)
    assert m.statement(0.95, **example.assumptions).startswith("with probability 95 % the error is at most ")
    for bad in (0, 1, float("nan"), -1, 2):
        with pytest.raises(InvalidArgument, match="confidence"):
            m.error(bad, **example.assumptions)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_a_mechanism_is_a_frozen_value_without_data(name: str, i: int) -> None:
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    before = repr(m)
    m(example.data)
    assert repr(m) == before
    if name not in {"BestOf", "ProposeTestRelease"}:
        assert m == example.make(example.relations[0])
        assert hash(m) == hash(example.make(example.relations[0]))
    with pytest.raises(AttributeError):
        m.epsilon = 5  # type: ignore[attr-defined]
