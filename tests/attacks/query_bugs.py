"""Tables: bounds, keys and limits that come from the data, and what is released beside the answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from deniable.guarantees import ApproxDP, PureDP
from deniable.units import REPLACE
from tests.attacks.zoo import broken

PEOPLE, FEWER = [1.0, 2.0, 3.0, 9.0], [1.0, 2.0, 3.0]
CITIES, WITHOUT = ["Bern"] * 8 + ["Chur"], ["Bern"] * 8


def _lap(scale: float) -> float:
    return float(np.random.laplace(scale=scale))


@broken((PEOPLE, FEWER), PureDP(1))
def bounds_from_the_data(data: list[float]) -> float:
    """Values are bounded by the largest of them, and so is the noise."""
    most = max(data)
    return sum(min(value, most) for value in data) + _lap(most)


@broken((PEOPLE, FEWER), PureDP(1))
def mean_with_the_exact_size(data: list[float]) -> float:
    """Noise for a mean of n, where n is private: adding a record changes the scale."""
    return sum(min(10.0, value) for value in data) / len(data) + _lap(10 / len(data))


@broken((PEOPLE, FEWER), PureDP(1), by="testing", best=(1.0, 0.0))
def size_released_beside_the_answer(data: list[float]) -> tuple[int, float]:
    return len(data), sum(min(10.0, value) for value in data) + _lap(10)


@broken((CITIES, WITHOUT), PureDP(1), by="testing", best=(1.0, 0.0))
def keys_from_the_data(data: list[str]) -> dict[str, float]:
    """A key that only one person has is released with its count."""
    return {key: count + _lap(1) for key, count in Counter(data).items()}


@broken((CITIES, WITHOUT), ApproxDP(1, 1e-6), by="testing", best=(0.5, 0.0))
def threshold_without_delta(data: list[str]) -> list[str]:
    """A key shows when its noisy count reaches one: half the time for a single person."""
    return sorted(key for key, count in Counter(data).items() if count + _lap(1) >= 1)


@broken(([3.0] + [1.0] * 8, [1.0] * 8 + [2.0]), PureDP(1, relation=REPLACE))
def first_rows_of_the_table(data: list[float]) -> list[float]:
    """The first five rows of the sorted table are kept: whoever comes in pushes somebody else out."""
    kept = sorted(data, reverse=True)[:5]
    return [kept.count(value) + _lap(1) for value in (1.0, 2.0, 3.0)]


ROWS = [{"person": "ann", "visit": 1}, {"person": "bob", "visit": 2}, {"person": "bob", "visit": 3}]


@broken((ROWS, ROWS[:1]), PureDP(1, unit="person"))
def rows_counted_where_people_are_promised(data: list[dict[str, Any]]) -> float:
    """A person with two rows moves the count by two; the noise is for one."""
    return len(data) + _lap(1)


@broken(([0.0] * 5 + [10.0] * 5, [0.0] * 5 + [10.0] * 4), PureDP(1))
def median_with_local_sensitivity(data: list[float]) -> float:
    """Noise for how far this table's median can move; how far that is says where the table lies."""
    ordered = sorted(data)
    middle = len(ordered) // 2
    gap = ordered[middle] - ordered[middle - 1]
    return ordered[middle] + _lap(gap + 1e-6)


@broken(([0.0] * 10 + [1.0], [0.0] * 10), PureDP(1), by="testing", runs=4000)
def answer_bounded_by_the_truth(data: list[float]) -> float:
    """Negative counts look odd, so the answer is cut at the true count above."""
    return min(sum(data) + _lap(1), sum(data))


@broken(([5.0, 1.0, 1.0], [1.0, 1.0]), PureDP(1), by="testing", best=(1.0, 0.0))
def order_of_the_raw_values(data: list[float]) -> list[float]:
    """One noisy value per record, so their number tells who is there."""
    return [value + _lap(5) for value in sorted(data)]
