"""The mechanisms, called on lists of records and on computed answers."""

from __future__ import annotations

from typing import Any

from deniable import mechanisms
from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, EntryPoint, World


def records(own: list[Any], unit: Any) -> list[Any]:
    """D, D without its last record, or D with the hostile records behind its own."""
    if unit is None:
        return own
    return own[:-1] if unit is REMOVED else [*own, *unit]


UNITS = {
    "removed": REMOVED,
    **hostile.values(hostile.ANY, form=lambda value: [value]),
    "many rows": [3.5] * hostile.MANY,
    "duplicates": [1.0, 1.0],
}


def count(world: World, unit: Any) -> Any:
    return mechanisms.count(epsilon=1)(records([True, False, True], unit))


def sum_of(world: World, unit: Any) -> Any:
    return mechanisms.sum_of(bounds=(0, 9), epsilon=1)(records([1.0, 2.0, 3.0], unit))


def histogram(world: World, unit: Any) -> Any:
    return mechanisms.histogram(keys=["a", "b"], epsilon=1)(records(["a", "b", "b"], unit))


ENTRY_POINTS = [
    EntryPoint("mechanisms.count", ("deniable.mechanisms.Count.__call__",), UNITS, count),
    EntryPoint("mechanisms.sum_of", ("deniable.mechanisms.Sum.__call__",), UNITS, sum_of),
    EntryPoint("mechanisms.histogram", ("deniable.mechanisms.Histogram.__call__",), UNITS, histogram),
]
