"""A median of an odd number of values is one of them: releasing it releases a record.

>>> find_record(41.5, candidates={"ann": 30.0, "bob": 41.5, "eve": 77.0})
['bob']
"""

from __future__ import annotations

from collections.abc import Mapping


def find_record(median: float, *, candidates: Mapping[str, float]) -> list[str]:
    """Who has the value that was released, among those whose values are suspected."""
    return [name for name, value in candidates.items() if value == median]
