"""A step on a random part of the data. Which relation a sampling scheme is analysed under is part of its theorem.

| scheme | relation |
|---|---|
| Poisson (`sampled`) | ADD_REMOVE and ZERO_OUT; REPLACE when the inner noise states its `reach` |
| fixed size, uniform (`sampled_without_replacement`) | REPLACE only |
| shuffled local reports (`shuffled`) | REPLACE only |
| random allocation, balls in bins (`allocated`) | ADD_REMOVE and ZERO_OUT |
| Poisson, cut to a capacity (`truncated`) | ADD_REMOVE only |

Batches cut from a shuffled epoch are none of these, and no event here describes them as if they were.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from deniable import _checks
from deniable._checks import Number
from deniable._remedies import Option, Remedy, example
from deniable._signatures import public
from deniable.errors import InvalidArgument, NotSupported, UnitMismatch
from deniable.events.algebra import Around, Composed, ForGroup, Repeated, Selected, ToReplace, wrap_event
from deniable.events.base import Event
from deniable.events.leaves import Claimed, Gaussian, Noise, RandomizedResponse
from deniable.guarantees import PureDP
from deniable.units import AnyRelation, Relation


@dataclass(frozen=True, init=False, repr=False)
class Sampled(Around):
    """A step on a Poisson sample: every unit is kept on its own with probability `rate`, and who was kept is secret.

    Under ZERO_OUT a unit that is not kept counts as blanked out: the step must not show how many were kept.
    """

    rate: Fraction

    def __init__(self, event: Event, rate: Number) -> None:
        _checks.member("event", event, Event)
        total_rate = _checks.rate("rate", rate)
        if isinstance(event, Sampled):
            # Sampling a sample keeps each unit with the product of the rates.
            total_rate *= event.rate
            event = event.event
        for inner in _of_fixed_size(event):
            raise NotSupported(f"a Poisson sample of {type(inner).__name__} has no analysis here; sample one way only")
        _refuse_moved(event)
        if any(isinstance(leaf, Selected) for leaf in leaves(event)) and event.relation is Relation.REPLACE:
            raise NotSupported(
                "a Poisson sample of a selection has no analysis under REPLACE; sample inside the trials"
            )
        if event.relation is Relation.REPLACE:
            for leaf in leaves(event):
                if isinstance(leaf, Noise) and leaf.reach is None:
                    raise InvalidArgument(
                        "reach", None, "stated for Poisson sampling under REPLACE",
                        "Clipped vectors have reach=sensitivity/2, a sum on [0, b] has reach=sensitivity.",
                    )  # fmt: skip
        self._store(event=event, rate=total_rate)

    def __repr__(self) -> str:
        return f"{wrap_event(self.event)}.sampled(rate={_checks.shown(self.rate)})"


@dataclass(frozen=True, init=False, repr=False)
class SampledWithoutReplacement(Around):
    """A step on a uniformly drawn batch of fixed size out of `size` units; `size` is public."""

    batch: int
    size: int

    _written: ClassVar[dict[str, str]] = {"size": "population"}

    def __init__(self, event: Event, batch: int, size: int) -> None:
        _checks.member("event", event, Event)
        _refuse_moved(event)
        people = _checks.count("size", size)
        batch_size = _checks.count("batch", batch)
        if batch_size > people:
            raise InvalidArgument("batch", batch, f"at most size={people}")
        for inner in _of_fixed_size(event):
            if inner.size > batch_size:
                raise InvalidArgument(
                    "size",
                    inner.size,
                    f"at most the batch of {batch_size}",
                    "What is inside sees the batch only.",
                )
        if event.relation is not Relation.REPLACE:
            raise UnitMismatch(
                "sampling without replacement is analysed under REPLACE only (the batch size is fixed, so a unit is"
                f" exchanged, not removed); this event is stated under {event.relation.name}."
                " State its sensitivity under REPLACE, or use .sampled(rate=...)."
            )
        self._store(event=event, batch=batch_size, size=people)

    def __repr__(self) -> str:
        inner = wrap_event(self.event)
        return f"{inner}.sampled_without_replacement(batch={self.batch}, size={self.size})"


@dataclass(frozen=True, init=False, repr=False)
class Shuffled(Around):
    """One local report from each of `size` people, in an order that hides who sent which."""

    size: int

    _written: ClassVar[dict[str, str]] = {"size": "population"}

    def __init__(self, event: Event, size: int) -> None:
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
        self._store(event=event, size=_checks.count("size", size))

    def __repr__(self) -> str:
        return f"{wrap_event(self.event)}.shuffled(size={self.size})"


@dataclass(frozen=True, init=False, repr=False)
class RandomAllocation(Around):
    """One epoch of `steps` noisy sums in which every unit takes part in `participations` of them, drawn in secret.

    Each unit draws its steps uniformly, on its own and anew for every epoch (balls in bins); the sizes of the batches
    are random. Batches of fixed size, cut from a shuffled epoch, are something else and have no such theorem.

    >>> RandomAllocation(Gaussian(scale=1), steps=100) * 10
    Gaussian(scale=1).allocated(steps=100) * 10
    """

    steps: int
    participations: int = 1

    def __init__(self, event: Event, steps: int, participations: int = 1) -> None:
        if not isinstance(event, Gaussian):
            raise InvalidArgument("event", event, "one Gaussian step", "The theorem is about Gaussian noise.")
        if event.relation is Relation.REPLACE:
            raise UnitMismatch(
                "random allocation is analysed under ADD_REMOVE and ZERO_OUT only; state the step there, and use"
                " .to_replace() for a bound under REPLACE."
            )
        slots = _checks.count("steps", steps)
        times = _checks.count("participations", participations)
        if times > slots:
            raise InvalidArgument("participations", participations, f"at most steps={slots}")
        self._store(event=event, steps=slots, participations=times)

    def __repr__(self) -> str:
        often = f", participations={self.participations}" if self.participations > 1 else ""
        return f"{wrap_event(self.event)}.allocated(steps={self.steps}{often})"


@dataclass(frozen=True, init=False, repr=False)
class TruncatedSampled(Around):
    """A step on a Poisson sample that is cut to `capacity` units: of a larger sample, so many are kept, uniformly.

    `size` is the largest number of units that there may be. Analysed under ADD_REMOVE: a unit that joins a full batch
    takes the place of another, so that the sum moves by two contributions.

    >>> TruncatedSampled(Gaussian(scale=1), rate=0.01, capacity=150, size=10_000)
    Gaussian(scale=1).truncated(rate=0.01, capacity=150, size=10000)
    """

    rate: Fraction
    capacity: int
    size: int

    def __init__(self, event: Event, rate: Number, capacity: int, size: int) -> None:
        if not isinstance(event, Gaussian):
            raise InvalidArgument("event", event, "one Gaussian step", "The theorem is about one noisy sum.")
        if event.relation is not Relation.ADD_REMOVE:
            raise UnitMismatch("a Poisson sample that is cut to a capacity is analysed under ADD_REMOVE only.")
        self._store(
            event=event,
            rate=_checks.rate("rate", rate),
            capacity=_checks.count("capacity", capacity),
            size=_checks.count("size", size),
        )

    def __repr__(self) -> str:
        numbers = f"rate={_checks.shown(self.rate)}, capacity={self.capacity}, size={self.size}"
        return f"{wrap_event(self.event)}.truncated({numbers})"


def _refuse_moved(event: Event) -> None:
    """Groups and moves between relations go outside a sampling: its theorem is about single units."""
    if any(isinstance(leaf, ForGroup | ToReplace) or leaf.unit.members > 1 for leaf in leaves(event)):
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
    if isinstance(event, Around) and not isinstance(event, ForGroup | Selected | ToReplace):
        return leaves(event.event)
    return (event,)


@public
def dpsgd(
    *,
    noise_multiplier: Number,
    steps: int | None = None,
    epochs: Number | None = None,
    rate: Number | None = None,
    batch: Number | None = None,
    size: int | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> Event:
    """`steps` noisy sums of gradients clipped to norm C, over Poisson samples; noise is `noise_multiplier` × C.

    Give `rate`, or `batch` (the expected batch) and `size` (how many examples there are); `steps`, or `epochs`, which
    are rounded up to whole steps. Under REPLACE two clipped gradients may point apart, so the sensitivity is 2C and the
    reach C; the event prints it.

    >>> dpsgd(noise_multiplier=1.1, batch=256, size=60_000, epochs=60)
    Gaussian(scale=1.1).sampled(rate=8/1875) * 14063
    >>> dpsgd(noise_multiplier=1.1, rate=0.01, steps=10, relation=Relation.REPLACE)
    Gaussian(scale=1.1, sensitivity=2, relation=REPLACE, reach=1).sampled(rate=0.01) * 10
    """
    relation = Relation.of(relation)
    often = _rate(rate, batch, size)
    if (steps is None) == (epochs is None):
        raise InvalidArgument("steps", steps, "given, or epochs instead, and not both", example("steps", 1000))
    total = (
        math.ceil(_checks.positive("epochs", epochs) / often) if epochs is not None else _checks.count("steps", steps)
    )
    noise = _checks.positive("noise_multiplier", noise_multiplier)
    replaced = relation is Relation.REPLACE
    step = Gaussian(noise, 2, relation, reach=1) if replaced else Gaussian(noise, 1, relation)
    return step.sampled(rate=often) * total


def _rate(rate: Number | None, batch: Number | None, size: int | None) -> Fraction:
    """How likely one example is in a batch: as given, or the expected batch out of all."""
    if rate is not None and batch is None and size is None:
        return _checks.rate("rate", rate)
    if rate is not None or batch is None or size is None:
        batch_option, size_option = Option("batch", 256), Option("size", 60_000)
        remedy = Remedy(f"For example {batch_option}, {size_option}.", batch_option, size_option)
        raise InvalidArgument("rate", rate, "given, or batch and size instead", remedy)
    expected, all_of_them = _checks.positive("batch", batch), _checks.count("size", size)
    if expected > all_of_them:
        raise InvalidArgument("batch", batch, f"at most size={all_of_them}", "It is the expected batch.")
    return expected / all_of_them
