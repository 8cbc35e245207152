"""Which rows stay: as if drawn at random, anew for every key. Each test alarms falsely with probability ≤ 1e-7."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from deniable import noise
from deniable.query import AtMost

PEOPLE = 6000
ALARM = 1e-7


@pytest.fixture
def key() -> tuple[int, int]:
    first, second = noise.secure().words(2).tolist()
    return first, second


def until(plan: Any, step: str, select: str, key: tuple[int, int]) -> list[tuple[Any, ...]]:
    """What a query finds in the steps of the bounded SQL up to one of them."""
    text = plan.bounded.text
    start = text[: text.index("\n)", text.index(f"{step} AS ")) + 2]
    parameters: dict[str, Any] = {name: list(texts) for name, texts in plan.bounded.lists.items()}
    parameters |= {"key_1": key[0], "key_2": key[1]}
    return plan.engine._connection.execute(f"{start}\n{select}", parameters).fetchall()  # type: ignore[no-any-return]


@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_pairs_of_groups_are_equally_likely(make_plan: Any, vectors: Any, key: tuple[int, int], ids: str) -> None:
    """Everybody is in 5 groups and keeps 2: all 10 pairs occur alike. The bits of a sum tell the pair."""
    people = [f"p{i}" if ids == "text" else i for i in range(PEOPLE)]
    table = pa.table({"person": np.repeat(people, 5).tolist(), "g": list(range(5)) * PEOPLE})
    plan = make_plan(
        table, "SELECT g, COUNT(*) FROM t GROUP BY g", keys={"g": range(5)}, per_unit=AtMost(groups=2, rows=1)
    )
    rows = until(plan, "kept", "SELECT u, SUM(1 << g) AS pair FROM kept GROUP BY u", key)
    plan.engine.close()
    counted = Counter(int(row[1]) for row in rows)
    pairs = [(1 << a) + (1 << b) for a, b in combinations(range(5), 2)]
    assert set(counted) == set(pairs)
    assert stats.chisquare([counted[pair] for pair in pairs]).pvalue > ALARM


def test_rows_are_equally_likely(make_plan: Any, vectors: Any, key: tuple[int, int]) -> None:
    """Everybody has the values 0 … 7 and keeps 3 of them: each value stays for 3 people in 8."""
    table = pa.table({"person": np.repeat(np.arange(PEOPLE), 8), "x": np.tile(np.arange(8), PEOPLE)})
    plan = make_plan(table, "SELECT SUM(x) FROM t", bounds={"x": (0, 7)}, per_unit=AtMost(groups=1, rows=3))
    rows = until(plan, "rows", "SELECT SUM(1 << v1) FROM rows GROUP BY u", key)
    plan.engine.close()
    # The place of the first row that stays is drawn, so there are 8 sets of rows, and each value is in 3 of them.
    counted = Counter(int(row[0]) for row in rows)
    assert sum(counted.values()) == PEOPLE
    assert len(counted) == 8
    assert [sum(kept >> value & 1 for kept in counted) for value in range(8)] == [3] * 8
    assert stats.chisquare(list(counted.values())).pvalue > ALARM


def test_two_keys_choose_independently(make_plan: Any, vectors: Any, key: tuple[int, int]) -> None:
    """Of two values one stays: under two keys that differ in one half, half of the people choose alike."""
    table = pa.table({"person": np.repeat(np.arange(PEOPLE), 2), "g": np.tile([0, 1], PEOPLE)})
    plan = make_plan(
        table, "SELECT g, COUNT(*) FROM t GROUP BY g", keys={"g": [0, 1]}, per_unit=AtMost(groups=1, rows=1)
    )

    def chosen(first: int, second: int) -> np.ndarray:
        return np.array(until(plan, "kept", "SELECT g FROM kept ORDER BY u", (first, second)))

    one = chosen(*key)
    for other in (chosen(key[0] ^ 1, key[1]), chosen(key[0], key[1] ^ 1)):
        assert abs((one == other).mean() - 0.5) < 5.4 * 0.5 / np.sqrt(PEOPLE)
    plan.engine.close()
