"""A step on a random part of the data. Which relation a sampling scheme is analysed under is part of its theorem.

| scheme | relation |
|---|---|
| Poisson (`sampled`) | ADD_REMOVE and ZERO_OUT; REPLACE when the inner noise states its `reach` |
| fixed size, uniform (`sampled_without_replacement`) | REPLACE only |
| shuffled local reports (`shuffled`) | REPLACE only |

Batches cut from a shuffled epoch are none of these, and no event here describes them as if they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument, NotSupported, UnitMismatch
from deniable.events.algebra import Around, Composed, ForGroup, Repeated, ToReplace, _wrapped
from deniable.events.base import Event
from deniable.events.leaves import Claimed, Noise, RandomizedResponse
from deniable.guarantees import PureDP
from deniable.units import Relation


@dataclass(frozen=True, init=False, repr=False)
class Sampled(Around):
    """A step on a Poisson sample: every unit is kept on its own with probability `rate`, and who was kept is secret.

    Under ZERO_OUT a unit that is not kept counts as blanked out: the step must not show how many were kept.
    """

    rate: Fraction

    def __init__(self, event: Event, rate: Number) -> None:
        _checks.member("event", event, Event)
        kept = _checks.rate("rate", rate)
        if isinstance(event, Sampled):
            # Sampling a sample keeps each unit with the product of the rates.
            kept *= event.rate
            event = event.event
        for inner in _of_fixed_size(event):
            raise NotSupported(f"a Poisson sample of {type(inner).__name__} has no analysis here; sample one way only")
        _refuse_moved(event)
        if event.relation is Relation.REPLACE:
            for leaf in leaves(event):
                if isinstance(leaf, Noise) and leaf.reach is None:
                    raise InvalidArgument(
                        "reach", None, "stated for Poisson sampling under REPLACE",
                        "Clipped vectors have reach=sensitivity/2, a sum on [0, b] has reach=sensitivity.",
                    )  # fmt: skip
        self._store(event=event, rate=kept)

    def __repr__(self) -> str:
        return f"{_wrapped(self.event)}.sampled(rate={_checks.shown(self.rate)})"


@dataclass(frozen=True, init=False, repr=False)
class SampledWithoutReplacement(Around):
    """A step on a uniformly drawn batch of fixed size from a population of public size."""

    batch: int
    population: int

    def __init__(self, event: Event, batch: int, population: int) -> None:
        _checks.member("event", event, Event)
        _refuse_moved(event)
        people = _checks.count("population", population)
        drawn = _checks.count("batch", batch)
        if drawn > people:
            raise InvalidArgument("batch", batch, f"at most the population of {people}")
        for inner in _of_fixed_size(event):
            if inner.population > drawn:
                raise InvalidArgument(
                    "population",
                    inner.population,
                    f"at most the batch of {drawn}",
                    "What is inside sees the batch only.",
                )
        if event.relation is not Relation.REPLACE:
            raise UnitMismatch(
                "sampling without replacement is analysed under REPLACE only (the batch size is fixed, so a unit is"
                f" exchanged, not removed); this event is stated under {event.relation.name}."
                " State its sensitivity under REPLACE, or use .sampled(rate=...)."
            )
        self._store(event=event, batch=drawn, population=people)

    def __repr__(self) -> str:
        inner = _wrapped(self.event)
        return f"{inner}.sampled_without_replacement(batch={self.batch}, population={self.population})"


@dataclass(frozen=True, init=False, repr=False)
class Shuffled(Around):
    """One local report from each of `population` people, in an order that hides who sent which."""

    population: int

    def __init__(self, event: Event, population: int) -> None:
        local = isinstance(event, RandomizedResponse) or (
            isinstance(event, Claimed) and isinstance(event.guarantee, PureDP)
        )
        if not local:
            raise InvalidArgument(
                "event", event, "one person's local report with a pure guarantee",
                "Use RandomizedResponse(...) or Claimed(PureDP(..., relation=REPLACE)).",
            )  # fmt: skip
        if event.relation is not Relation.REPLACE:
            raise UnitMismatch("shuffling is analysed under REPLACE only; state the local report under REPLACE.")
        _refuse_moved(event)
        self._store(event=event, population=_checks.count("population", population))

    def __repr__(self) -> str:
        return f"{_wrapped(self.event)}.shuffled(population={self.population})"


def _refuse_moved(event: Event) -> None:
    """Groups and moves between relations go outside a sampling: its theorem is about single units."""
    if any(isinstance(leaf, ForGroup | ToReplace) or leaf.unit.size > 1 for leaf in leaves(event)):
        raise NotSupported("sample first, then speak of groups or of REPLACE: event.sampled(rate=...).for_group(k)")


def _of_fixed_size(event: Event) -> Iterator[SampledWithoutReplacement | Shuffled]:
    """The steps inside sums and repetitions that say how many units they see."""
    if isinstance(event, SampledWithoutReplacement | Shuffled):
        yield event
    elif isinstance(event, Composed):
        for part in event.parts:
            yield from _of_fixed_size(part)
    elif isinstance(event, Repeated):
        yield from _of_fixed_size(event.event)


def leaves(event: Event) -> tuple[Event, ...]:
    """The steps inside sums, repetitions and samplings."""
    if isinstance(event, Composed):
        return tuple(leaf for part in event.parts for leaf in leaves(part))
    if isinstance(event, Repeated | Sampled | SampledWithoutReplacement | Shuffled):
        return leaves(event.event)
    return (event,)
