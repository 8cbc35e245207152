"""The base of every event: its algebra and its JSON form.

The JSON form is versioned and means the same for ever: numbers are strings of exact decimals or fractions, a class is
named by its `kind`, and an unknown kind or version is refused. A new event class joins by subclassing `Event`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar

from deniable._checks import Number, member, read_fraction, shown
from deniable._checks import rate as check_rate
from deniable._notebook import Shown
from deniable.errors import InvalidArgument
from deniable.guarantees import Guarantee, TradeOff, kinds
from deniable.units import RECORD, Relation, Unit

FORMAT = 1
"""The version of the JSON form."""


@dataclass(frozen=True, init=False, repr=False)
class Event(Shown, ABC):
    """What touched the data. Immutable, comparable, hashable, printable as the code that makes it."""

    registry: ClassVar[dict[str, type[Event]]] = {}

    def __init_subclass__(cls, *, family: bool = False, **keywords: Any) -> None:
        """Register an event class; a `family` is the base of several and no event itself."""
        super().__init_subclass__(**keywords)
        if not family:
            Event.registry[cls.__name__] = cls

    def _store(self, **values: Any) -> None:
        """Set the fields of a frozen event, once, from its constructor."""
        if "relation" in values:
            member("relation", values["relation"], Relation, remedy="Use ADD_REMOVE, REPLACE or ZERO_OUT.")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def relation(self) -> Relation:
        """What may change between the neighbours that this event's sensitivity speaks of."""

    @property
    def unit(self) -> Unit:
        """Who the event speaks of: a named unit only where a claim names one."""
        return RECORD

    # algebra

    def __add__(self, other: Event) -> Event:
        """Both events, on the same data."""
        from deniable.events.algebra import Composed

        if not isinstance(other, Event):
            return NotImplemented
        return Composed((self, other))

    def __radd__(self, other: int) -> Event:
        """So that `sum(events)` works: it starts from 0."""
        return self if other == 0 else NotImplemented

    def __mul__(self, count: int) -> Event:
        """The same event, count times."""
        from deniable.events.algebra import Repeated

        return self if count == 1 and not isinstance(count, bool) else Repeated(self, count)

    __rmul__ = __mul__

    def sampled(self, *, rate: Number) -> Event:
        """This event on a Poisson sample: every unit is kept on its own with probability `rate`."""
        from deniable.events.sampling import Sampled

        return self if check_rate("rate", rate) == 1 else Sampled(self, rate=rate)

    def sampled_without_replacement(self, *, batch: int, population: int) -> Event:
        """This event on a uniformly drawn batch of fixed size. Exists under REPLACE only."""
        from deniable.events.sampling import SampledWithoutReplacement

        return SampledWithoutReplacement(self, batch=batch, population=population)

    def shuffled(self, *, population: int) -> Event:
        """One such local report from each of `population` people, in an order that hides who sent which."""
        from deniable.events.sampling import Shuffled

        return Shuffled(self, population=population)

    def for_group(self, size: int) -> Event:
        """The same step, for a promise about `size` units at once."""
        from deniable.events.algebra import ForGroup

        return self if size == 1 and not isinstance(size, bool) else ForGroup(self, size)

    def to_replace(self) -> Event:
        """An add/remove event as a replace event: remove one, add another (two steps)."""
        from deniable.events.algebra import ToReplace

        return self if self.relation is Relation.REPLACE else ToReplace(self)

    # JSON

    def to_json(self) -> str:
        """One line of JSON, the same for equal events."""
        return json.dumps({"deniable": FORMAT, **_plain(self)}, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Event:
        """The event that `to_json` wrote."""
        try:
            found = json.loads(text)
        except (TypeError, json.JSONDecodeError):
            raise InvalidArgument("text", "…", "an event's JSON, as event.to_json() writes it") from None
        if not isinstance(found, dict) or found.pop("deniable", None) != FORMAT:
            raise InvalidArgument("text", "…", f'an event\'s JSON of version {FORMAT} ("deniable": {FORMAT})')
        event = _built(found)
        if not isinstance(event, Event):
            raise InvalidArgument("text", "…", "an event's JSON, not a guarantee's")
        return event

    def __repr__(self) -> str:
        parts = []
        for f in fields(self):
            value, plain = getattr(self, f.name), f.default
            if value != plain:
                parts.append(f"{f.name}={said(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


def said(value: object) -> str:
    """A field as code."""
    return shown(value) if isinstance(value, Fraction) else repr(value)


def _plain(value: object) -> Any:
    """A value as JSON."""
    if isinstance(value, Event | Guarantee | TradeOff):
        inner = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **{name: v for name, v in inner.items() if v is not None}}
    if isinstance(value, Unit):
        return None if value == RECORD else value.plain
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return shown(value)
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


def _built(found: object) -> Any:
    """The value that JSON described. Every string that is not a name is an exact number."""
    if isinstance(found, list):
        return tuple(_built(v) for v in found)
    if isinstance(found, str):
        return _number(found)
    if not isinstance(found, dict):
        return found
    guarantees = {c.__name__: c for c in vars(kinds).values() if _is_guarantee(c)}
    known = {**Event.registry, **guarantees, "TradeOff": TradeOff}
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in known:
        raise InvalidArgument("kind", kind, "a known event", f"This version knows {', '.join(sorted(known))}.")
    made = known[kind]
    expected = {f.name for f in fields(made)}
    if unknown := sorted(found.keys() - expected - {"kind"}):
        raise InvalidArgument(unknown[0], found[unknown[0]], f"left out: {kind} has no such field")
    values = {name: _built(v) for name, v in found.items() if name not in ("kind", "relation", "unit")}
    if "relation" in found:
        if found["relation"] not in (known_relations := [relation.value for relation in Relation]):
            raise InvalidArgument("relation", found["relation"], f"one of {', '.join(known_relations)}")
        values["relation"] = Relation(found["relation"])
    try:
        if found.get("unit"):
            values["unit"] = Unit(**found["unit"])
        return made(**values)
    except TypeError:
        raise InvalidArgument("text", found, f"all fields of {kind}: {', '.join(sorted(expected))}") from None


def _number(text: str) -> Fraction:
    """An exact number from its string."""
    try:
        return read_fraction(text)
    except ValueError:
        raise InvalidArgument("text", text, "an exact decimal or fraction, as a string") from None


def _is_guarantee(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Guarantee) and value is not Guarantee
