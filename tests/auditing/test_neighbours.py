"""Neighbours are compared by keys in arrays; whatever the records are, the answer is that of two bags by value."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from deniable.auditing import neighbours
from deniable.auditing.outputs import read_output
from deniable.units import RECORD, Unit

VALUES = [
    0, 1, -1, -2, 2**70, -(2**70), 10**5000, 1.0, 1.5, -0.0, 0.0, math.nan, True, "a", "b", "", b"a", None, [1], [1, 2],
    [], (1,), (), {"k": 1}, [[1], [2]], [1, [2, "a"]], [None], [True], [1.0],
]  # fmt: skip
PERSON = Unit(column="id")


def difference_by_value(first: list[Any], second: list[Any], unit: Unit) -> tuple[int, int]:
    """How many units are in one list only, by comparing what each record shows."""

    def bag(rows: list[Any]) -> Counter[Any]:
        if unit.column is None:
            return Counter(read_output(row).atom for row in rows)
        owned: dict[Any, list[Any]] = {}
        for row in rows:
            owned.setdefault(read_output(row[unit.column]).atom, []).append(read_output(row).atom)
        return Counter((owner, tuple(sorted(atoms, key=repr))) for owner, atoms in owned.items())

    one, two = bag(first), bag(second)
    return (one - two).total(), (two - one).total()


def record(rng: random.Random, kind: str, values: list[Any]) -> Any:
    if kind == "dict":
        return {"id": rng.choice(["x", "y", 3]), "a": rng.choice(values), "b": rng.choice(values)}
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(rng.choice(values) for _ in range(2))
    return rng.choice(values)


@pytest.mark.parametrize("kind", ["dict", "tuple", "list", "value"])
def test_the_difference_is_that_of_bags_by_value(kind: str) -> None:
    rng = random.Random(1)
    for _ in range(250):
        values = rng.sample(VALUES, rng.randint(1, 5))
        first = [record(rng, kind, values) for _ in range(rng.randrange(9))]
        second = copy.deepcopy(first) if rng.random() < 0.5 else list(first)
        rng.shuffle(second)
        for _ in range(rng.randint(0, 2)):
            if rng.random() < 0.5 and second:
                second.pop()
            else:
                second.append(record(rng, kind, values))
        for unit in (RECORD, PERSON) if kind == "dict" else (RECORD,):
            expected = difference_by_value(first, second, unit)
            assert neighbours._differing(first, second, unit) == expected
            if kind == "dict" and first and second:
                one, two = ({name: [row[name] for row in rows] for name in first[0]} for rows in (first, second))
                assert neighbours._differing(one, two, unit) == expected


def test_zeros_of_two_signs_are_two_values() -> None:
    for make in (list, np.array):
        assert neighbours._differing(make([0.0, 1.0]), make([-0.0, 1.0]), RECORD) == (1, 1)


def test_equal_records_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied and shuffled records of every shape: by value only the one that the other lacks is looked at."""
    asked: list[Any] = []
    monkeypatch.setattr(neighbours, "_key", lambda row: asked.append(row) or repr(row))
    rows = list(range(1000))
    for make in (
        lambda n: {"id": f"p{n}", "x": [n, "a"]}, lambda n: (n, [float(n)]), lambda n: [n, {"a": None}], str, float,
    ):  # fmt: skip
        asked.clear()
        assert neighbours._differing([make(n) for n in rows], [make(n) for n in rows[:0:-1]], RECORD) == (1, 0)
        assert len(asked) == 1
