"""The sharp edges that a record has met: sentences of `Texts` that apply to what was charged, and no others."""

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
from deniable.explaining.texts import ENGLISH, Texts
from deniable.units import Relation, Unit

EDGES: tuple[tuple[str, Callable[[Event], bool]], ...] = (
    (
        "edge_claimed",
        lambda part: isinstance(part, Claimed),
    ),
    (
        "edge_sampled",
        lambda part: isinstance(part, Sampled | SampledWithoutReplacement),
    ),
    (
        "edge_shuffled",
        lambda part: isinstance(part, Shuffled),
    ),
    (
        "edge_floats",
        lambda part: type(part) in (Gaussian, Laplace),
    ),
    (
        "edge_local",
        lambda part: isinstance(part, RandomizedResponse),
    ),
    (
        "edge_size",
        lambda part: part.relation is not Relation.ADD_REMOVE,
    ),
)


def edges_met(events: Iterable[Event], unit: Unit, *, texts: Texts = ENGLISH) -> list[str]:
    """The sentences that apply to these events and this unit, each once."""
    parts = {part for event in events for part in _parts(event)}
    met = ["edge_row"] if unit.column is None else []
    met += [name for name, applies in EDGES if any(map(applies, parts))]
    return [getattr(texts, name) for name in met]


def _parts(event: Event) -> Iterator[Event]:
    """An event and everything inside it."""
    yield event
    for field in fields(event):
        value = getattr(event, field.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Event):
                yield from _parts(inner)
