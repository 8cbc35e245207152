"""Sums, repetitions, groups, and the one move between relations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from typing import ClassVar

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import public
from deniable.errors import InvalidArgument
from deniable.events.base import Event
from deniable.units import Relation, Unit, one_relation, one_unit


@dataclass(frozen=True, init=False, repr=False)
class Composed(Event):
    """Several events on the same data, in any order; nested sums are flattened."""

    parts: tuple[Event, ...]

    def __init__(self, parts: Iterable[Event]) -> None:
        flat: list[Event] = []
        for part in parts:
            _checks.member("parts", part, Event)
            flat.extend(part.parts if isinstance(part, Composed) else (part,))
        if not flat:
            raise InvalidArgument("parts", (), "one event or more")
        for part in flat[1:]:
            one_relation(flat[0].relation, part.relation, doing="add")
        self._store(parts=tuple(flat))
        _ = self.unit  # refuses claims about different units

    @property
    def relation(self) -> Relation:
        return self.parts[0].relation

    @property
    def unit(self) -> Unit:
        # Of groups of different sizes the smallest: all that the parts promise together.
        members = min(part.unit.members for part in self.parts)
        return reduce(partial(one_unit, doing="add"), (replace(part.unit, members=members) for part in self.parts))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@dataclass(frozen=True, init=False, repr=False)
class Around(Event, family=True):
    """An event made of one other: it speaks of the same unit and, if it does not say otherwise, the same relation."""

    event: Event

    @property
    def relation(self) -> Relation:
        return self.event.relation

    @property
    def unit(self) -> Unit:
        return self.event.unit


@dataclass(frozen=True, init=False, repr=False)
class Repeated(Around):
    """The same event `count` times; repetitions of repetitions multiply."""

    count: int

    def __init__(self, event: Event, count: int) -> None:
        _checks.member("event", event, Event)
        times = _checks.count("count", count)
        if isinstance(event, Repeated):
            times = _checks.count("count", times * event.count)
            event = event.event
        self._store(event=event, count=times)

    def __repr__(self) -> str:
        inner = repr(self.event)
        return f"({inner}) * {self.count}" if isinstance(self.event, Composed) else f"{inner} * {self.count}"


@dataclass(frozen=True, init=False, repr=False)
class ForGroup(Around):
    """A step, spoken of for `members` units at once; groups of groups multiply.

    The units of a group are added together, or removed together; under REPLACE they are all replaced.
    """

    members: int

    _written: ClassVar[dict[str, str]] = {"members": "size"}

    def __init__(self, event: Event, members: int) -> None:
        _checks.member("event", event, Event)
        units = _checks.count("members", members)
        if isinstance(event, ForGroup):
            units = _checks.count("members", units * event.members)
            event = event.event
        self._store(event=event, members=units)

    @property
    def unit(self) -> Unit:
        return self.event.unit.group(self.members)

    def __repr__(self) -> str:
        return f"{wrap_event(self.event)}.for_group({self.members})"


@dataclass(frozen=True, init=False, repr=False)
class ToReplace(Around):
    """An add/remove event under REPLACE: one unit leaves, another enters.

    Never the other way: releasing n exactly costs nothing under REPLACE and everything under ADD_REMOVE.
    """

    def __init__(self, event: Event) -> None:
        _checks.member("event", event, Event)
        if event.relation is not Relation.ADD_REMOVE:
            note = f"This one is stated under {event.relation.name}."
            raise InvalidArgument("event", event, "an ADD_REMOVE event", note)
        self._store(event=event)

    @property
    def relation(self) -> Relation:
        return Relation.REPLACE

    def __repr__(self) -> str:
        return f"{wrap_event(self.event)}.to_replace()"


@dataclass(frozen=True, init=False, repr=False)
class Selected(Around):
    """The best of a random number of trials of one event; which ones lost, and how many there were, is not released.

    The number K of trials is drawn from the truncated negative binomial law, Pr[K = k] ∝ (1 − γ)^k Π_{l<k} (l + η)/(l +
    1) (Papernot–Steinke 2022): η = 0 is the logarithmic law, η = 1 the geometric one. The score looks at a trial's
    output and at public data only.

    >>> from deniable.events import Gaussian
    >>> Selected(Gaussian(scale=4) * 10, gamma=0.1)
    Selected(event=Gaussian(scale=4) * 10, gamma=0.1)
    """

    gamma: Fraction
    eta: Fraction = Fraction(0)

    @public
    def __init__(self, event: Event, gamma: Number, eta: Number = 0) -> None:
        _checks.member("event", event, Event)
        self._store(event=event, gamma=_checks.rate("gamma", gamma), eta=_checks.nonnegative("eta", eta))


def wrap_event(event: Event) -> str:
    """An event's code, in brackets where a method call would bind wrongly."""
    return f"({event!r})" if isinstance(event, Composed | Repeated) else repr(event)
