"""Laws that hold for every registered event. An event added later joins by being registered (and fails until it has an
example in `examples.py`)."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

import pytest

from deniable.accounting.accountant import account
from deniable.errors import DeniableError
from deniable.events import Event, ForGroup, Sampled
from deniable.units import Relation
from tests.laws.examples import EXAMPLES, NOISIER, every

DELTA = 1e-6
SLACK = 1e-6
"""Two routes to one number may differ by the width of their brackets."""

EVENTS = every()


@cache
def cost(event: Event, delta: float = DELTA) -> float:
    """The proven upper end of ε at δ, 1e-6 unless stated."""
    return account(event).epsilon(delta)


def test_every_registered_event_has_an_example() -> None:
    assert set(EXAMPLES) == set(Event.registry)
    for name, events in EXAMPLES.items():
        assert events
        assert all(type(event).__name__ == name for event in events)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_json_round_trip(event: Event) -> None:
    text = event.to_json()
    back = Event.from_json(text)
    assert back == event
    assert hash(back) == hash(event)
    assert back.to_json() == text
    assert back.relation is event.relation
    assert "\n" not in text


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_an_event_is_a_value(event: Event) -> None:
    assert event != event * 2
    assert event in {event}
    assert repr(event) == repr(Event.from_json(event.to_json()))
    assert isinstance(event.relation, Relation)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_a_group_of_one_is_itself(event: Event) -> None:
    assert event.for_group(1) is event
    if not isinstance(event, ForGroup):
        assert cost(ForGroup(event, 1)) == pytest.approx(cost(event), rel=SLACK)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_every_event_has_a_cost(event: Event) -> None:
    bracket = account(event).epsilon_bracket(DELTA)
    assert 0 <= bracket.lower <= bracket.upper < float("inf")
    assert account(event).relation is event.relation


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_repeating_is_copying(event: Event) -> None:
    copies = event + event + event
    assert cost(event * 3) == pytest.approx(cost(copies), rel=SLACK)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_fewer_steps_never_cost_more(event: Event) -> None:
    one, two, three = (cost(event * n) for n in (1, 2, 3))
    assert one <= two * (1 + SLACK)
    assert two <= three * (1 + SLACK)


HALF = DELTA / 2
"""What each of two events gets of δ under basic composition."""

SAME_RELATION = [
    (a, b)
    for (_, one), (_, two) in itertools.combinations(sorted(EXAMPLES.items()), 2)
    for a, b in [(one[0], two[0])]
    if a.relation is b.relation
]


@pytest.mark.parametrize(("a", "b"), SAME_RELATION, ids=lambda e: type(e).__name__)
def test_parts_cost_no_more_than_the_whole_and_the_whole_no_more_than_basic_composition(a: Event, b: Event) -> None:
    both = cost(a + b)
    assert both >= max(cost(a), cost(b)) * (1 - SLACK)
    assert both <= (cost(a, HALF) + cost(b, HALF)) * (1 + SLACK)


@pytest.mark.parametrize(("a", "b"), SAME_RELATION[::3], ids=lambda e: type(e).__name__)
def test_order_does_not_matter(a: Event, b: Event) -> None:
    assert cost(a + b) == pytest.approx(cost(b + a), rel=SLACK)


def _sampled(event: Event, rate: Fraction) -> Event | None:
    """The event on a Poisson sample, where the events room allows it."""
    try:
        return Sampled(event, rate)
    except DeniableError:
        return None


POISSON = [event for event in EVENTS if _sampled(event, Fraction(1, 2)) is not None]


@pytest.mark.parametrize("event", POISSON, ids=repr)
def test_rate_one_changes_nothing(event: Event) -> None:
    assert event.sampled(rate=1) is event
    whole = _sampled(event, Fraction(1))
    assert whole is not None
    assert cost(whole) == pytest.approx(cost(event), rel=SLACK)


@pytest.mark.parametrize("event", POISSON, ids=repr)
def test_a_lower_rate_never_costs_more(event: Event) -> None:
    costs = [cost(event.sampled(rate=rate)) for rate in (0.1, 0.5)]
    assert costs[0] <= costs[1] * (1 + SLACK)
    assert costs[1] <= cost(event) * (1 + SLACK)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_larger_groups_cost_more(event: Event) -> None:
    assert cost(event.for_group(2)) >= cost(event) * (1 - SLACK)


MOVABLE = [event for event in EVENTS if event.relation is Relation.ADD_REMOVE]


@pytest.mark.parametrize("event", MOVABLE, ids=repr)
def test_replacing_costs_no_less_than_removing(event: Event) -> None:
    moved = event.to_replace()
    assert moved.relation is Relation.REPLACE
    assert cost(moved) >= cost(event) * (1 - SLACK)


@pytest.mark.parametrize(("event", "noisier"), NOISIER.values(), ids=NOISIER.keys())
def test_more_noise_never_costs_more(event: Event, noisier: Event) -> None:
    for delta in (1e-12, 1e-6, 1e-2):
        assert account(noisier).epsilon(delta) <= account(event).epsilon(delta) * (1 + SLACK)
    for epsilon in (0.1, 0.5, 2):
        assert account(noisier * 5).delta(epsilon) <= account(event * 5).delta(epsilon) * (1 + SLACK) + 1e-15


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_the_curve_falls(event: Event) -> None:
    profile = account(event)
    deltas = [profile.delta(epsilon) for epsilon in (0, 0.1, 0.5, 1, 3, 10)]
    assert all(0 <= d <= 1 for d in deltas)
    assert all(after <= before * (1 + SLACK) for before, after in itertools.pairwise(deltas))
    tests = [profile.tradeoff(alpha) for alpha in (0.001, 0.05, 0.5)]
    assert all(0 <= beta <= 1 - alpha + 1e-9 for beta, alpha in zip(tests, (0.001, 0.05, 0.5), strict=True))
