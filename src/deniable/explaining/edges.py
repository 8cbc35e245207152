"""The sharp edges that a record has met: sentences that apply to what was charged, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

from deniable.events import (
    Claimed,
    Event,
    Gaussian,
    Laplace,
    RandomizedResponse,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
)
from deniable.units import Relation, Unit

EDGES: tuple[tuple[str, Callable[[Event], bool]], ...] = (
    (
        "Part of the record is entered as a promise, not as the noise that was drawn; it rests on whoever made it.",
        lambda part: isinstance(part, Claimed),
    ),
    (
        "Sampling is counted as protection. Which records were sampled must stay secret.",
        lambda part: isinstance(part, Sampled | SampledWithoutReplacement),
    ),
    (
        "A shuffle is counted as protection. Whoever shuffles must not tell who sent which report.",
        lambda part: isinstance(part, Shuffled),
    ),
    (
        "Continuous noise is computed in floating point. Its stated law is that of real numbers; see the sharp edges.",
        lambda part: type(part) in (Gaussian, Laplace),
    ),
    (
        "Randomized responses protect against whoever collects them, as long as the truth never leaves the person.",
        lambda part: isinstance(part, RandomizedResponse),
    ),
    (
        "How many people there are is treated as public.",
        lambda part: part.relation is not Relation.ADD_REMOVE,
    ),
)


def edges_met(events: Iterable[Event], unit: Unit) -> list[str]:
    """The sentences that apply to these events and this unit, each once."""
    parts = {part for event in events for part in _parts(event)}
    met = [sentence for sentence, applies in EDGES if any(map(applies, parts))]
    if unit.column is None:
        met.insert(0, "The unit is a row. A person with many rows is protected less, row by row.")
    return met


def _parts(event: Event) -> Iterator[Event]:
    """An event and everything inside it."""
    yield event
    for field in fields(event):
        value = getattr(event, field.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Event):
                yield from _parts(inner)
