"""The base of every event: its algebra and its JSON form.

The JSON form is versioned and means the same for ever: numbers are exact decimals or fractions, a class is named by its
`kind`, and an unknown kind or version is refused. A new event class joins by subclassing `Event`.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar

from deniable._checks import Number, shown
from deniable._checks import rate as check_rate
from deniable._forms import Plain, plain_number
from deniable._notebook import Shown
from deniable._signatures import public
from deniable.errors import InvalidArgument
from deniable.guarantees import Guarantee, TradeOff
from deniable.guarantees.reading import parse, read_form
from deniable.units import RECORD, Relation, Unit

FORMAT = 1
"""The version of the JSON form."""


@dataclass(frozen=True, init=False, repr=False)
class Event(Shown, Plain):
    """What touched the data. Immutable, comparable, hashable, printable as the code that makes it."""

    registry: ClassVar[dict[str, type[Event]]] = {}

    _written: ClassVar[dict[str, str]] = {}
    """Fields that JSON knows by an older name, which it keeps for ever."""

    def __init_subclass__(cls, *, family: bool = False, **keywords: Any) -> None:
        """Register an event class; a `family` is the base of several and no event itself."""
        super().__init_subclass__(**keywords)
        if not family:
            Event.registry[cls.__name__] = cls

    def _store(self, **values: Any) -> None:
        """Set the fields of a frozen event, once, from its constructor."""
        for name, value in values.items():
            object.__setattr__(self, name, Relation.of(value) if name == "relation" else value)

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

    @public
    def sampled(self, *, rate: Number) -> Event:
        """This event on a Poisson sample: every unit is kept on its own with probability `rate`."""
        from deniable.events.sampling import Sampled

        return self if check_rate("rate", rate) == 1 else Sampled(self, rate=rate)

    @public
    def sampled_without_replacement(self, *, batch: int, size: int) -> Event:
        """This event on a batch that is drawn uniformly out of `size` units. Exists under REPLACE only."""
        from deniable.events.sampling import SampledWithoutReplacement

        return SampledWithoutReplacement(self, batch=batch, size=size)

    @public
    def shuffled(self, *, size: int) -> Event:
        """One such local report from each of `size` people, in an order that hides who sent which."""
        from deniable.events.sampling import Shuffled

        return Shuffled(self, size=size)

    @public
    def allocated(self, *, steps: int, participations: int = 1) -> Event:
        """One epoch of `steps` such noisy sums; every unit is in `participations` of them, drawn in secret."""
        from deniable.events.sampling import RandomAllocation

        return RandomAllocation(self, steps=steps, participations=participations)

    @public
    def truncated(self, *, rate: Number, capacity: int, size: int) -> Event:
        """This event on a Poisson sample of at most `size` units that is cut to `capacity` of them."""
        from deniable.events.sampling import TruncatedSampled

        return TruncatedSampled(self, rate=rate, capacity=capacity, size=size)

    @public
    def for_group(self, members: int) -> Event:
        """The same step, for a promise about `members` units at once."""
        from deniable.events.algebra import ForGroup

        return self if members == 1 and not isinstance(members, bool) else ForGroup(self, members)

    def to_replace(self) -> Event:
        """An add/remove event as a replace event: remove one, add another (two steps)."""
        from deniable.events.algebra import ToReplace

        return self if self.relation is Relation.REPLACE else ToReplace(self)

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """The event as plain values, exact; equal events give equal dictionaries."""
        return {"deniable": FORMAT, **_plain(self, plain_number)}

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Event:
        """The event that `to_dict` described. A float means its shortest decimal."""
        if not isinstance(fields, dict) or fields.get("deniable") != FORMAT:
            raise InvalidArgument("text", "…", f'an event\'s JSON of version {FORMAT} ("deniable": {FORMAT})')
        known: dict[str, type] = {**Event.registry, **Guarantee.kinds(), "TradeOff": TradeOff}
        event = read_form({name: value for name, value in fields.items() if name != "deniable"}, known)
        if not isinstance(event, Event):
            raise InvalidArgument("text", "…", "an event's JSON, not a guarantee's")
        return event

    @staticmethod
    def from_json(text: str) -> Event:
        """The event that `to_json` wrote."""
        return Event.from_dict(parse(text, what="an event's JSON, as event.to_json() writes it"))

    def to_record(self) -> dict[str, Any]:
        """The event as ledgers keep it: the same fields, with every number as text. This spelling never changes."""
        record: dict[str, Any] = json.loads(json.dumps({"deniable": FORMAT, **_plain(self, shown)}, sort_keys=True))
        return record

    def __repr__(self) -> str:
        parts = []
        for f in fields(self):
            value, plain = getattr(self, f.name), f.default
            if value != plain:
                parts.append(f"{f.name}={field_code(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


def field_code(value: object) -> str:
    """A field as code."""
    return shown(value) if isinstance(value, Fraction) else repr(value)


def _plain(value: object, number: Callable[[Fraction], object]) -> Any:
    """A value as JSON; `number` writes its fractions."""
    if isinstance(value, Event | Guarantee | TradeOff):
        spellings = value._written if isinstance(value, Event) else {}
        inner = {spellings.get(f.name, f.name): _plain(getattr(value, f.name), number) for f in fields(value)}
        return {"kind": type(value).__name__, **{name: v for name, v in sorted(inner.items()) if v is not None}}
    if isinstance(value, Unit):
        return None if value == RECORD else value.plain
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return number(value)
    if isinstance(value, tuple):
        return [_plain(v, number) for v in value]
    return value
