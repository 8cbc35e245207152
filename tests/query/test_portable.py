"""The choice of rows that all engines make alike, against the rule written down in Python; and a session with its key.

About 10 s.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deniable as dn
from deniable.errors import InvalidArgument
from deniable.query import AtMost
from tests.query.elsewhere import ask, in_duckdb, totals

Row = tuple[int | None, str, int | None]

COUNTS = "SELECT g, COUNT(*) AS n, COUNT(DISTINCT person) AS p FROM t GROUP BY g"
SUMS = "SELECT g, COUNT(*) AS n, COUNT(DISTINCT person) AS p, SUM(x) AS s FROM t GROUP BY g"
GROUPS = ["a", "b", "c", "d"]


def rank(key: tuple[int, int], *content: object) -> str:
    """MD5 of the key and the content, where NULL is an empty text."""
    return md5("|".join("" if part is None else str(part) for part in (*key, *content)).encode()).hexdigest()


def kept(rows: list[Row], limits: AtMost, key: tuple[int, int], *, most: int = 5) -> dict[int, list[list[int | None]]]:
    """The values that stay, by the number of their group and by person: each one's first groups, and the first rows in
    each; where all rows are limited, the groups take turns."""
    people: dict[int, dict[int, list[int | None]]] = defaultdict(lambda: defaultdict(list))
    for person, group, x in rows:
        if person is not None and group in GROUPS:
            people[person][GROUPS.index(group)].append(None if x is None else max(-most, min(x, most)))
    found: dict[int, list[list[int | None]]] = defaultdict(list)
    for person, groups in people.items():
        turns: dict[int, list[int | None]] = {}
        for number in sorted(groups, key=lambda g: rank(key, person, g))[: limits.groups]:
            copies, values = Counter[int | None](), []
            for value in groups[number]:
                copies[value] += 1
                values.append((rank(key, person, number, value, copies[value]), value))
            values.sort(key=lambda found: found[0])
            turns[number] = [value for _, value in values[: limits.rows]]
        order = [(place, number) for place in range(limits.rows) for number, mine in turns.items() if place < len(mine)]
        last = order if limits.total is None else order[: limits.total]
        for number, mine in turns.items():
            stay = [mine[place] for place, group in last if group == number]
            found[number] += [stay] if stay else []
    return found


def asked(rows: list[Row], sql: str, limits: AtMost, key: tuple[int, int]) -> dict[str, dict[int, int]]:
    """The measures that an engine finds, where they are not 0, by the number of their group."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = {"person": "BIGINT", "g": "VARCHAR", "x": "BIGINT"}
    table: Any = {name: (type, values) for (name, type), values in zip(types.items(), columns, strict=True)}
    engine = in_duckdb({"t": table}, {})
    try:
        got = totals(ask(engine, sql, bounds={"x": (-5, 5)}, keys={"g": GROUPS}, per_unit=limits), key=key)
    finally:
        engine.close()
    return {name: {group: n for ((group,), _), n in found.items()} for name, found in got.items() if name != "rows"}


rows = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from([*GROUPS, "other"]), st.sampled_from([None, 0, 1, 7])),
    max_size=40,
)


@settings(max_examples=60)
@given(
    rows,
    st.integers(1, 5),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(1, 9)),
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 9)),
)
def test_the_rule_in_python_keeps_the_same_rows(
    found: list[Row], most: int, each: int, total: int | None, key: tuple[int, int]
) -> None:
    limits = AtMost(groups=most, rows=each, total=total)
    stay = kept(found, limits, key)
    expected = {
        "COUNT(*)": {group: sum(map(len, people)) for group, people in stay.items() if people},
        "COUNT(DISTINCT person)": {group: len(people) for group, people in stay.items() if people},
    }
    assert asked(found, COUNTS, limits, key) == expected
    sums = {group: sum(value or 0 for values in people for value in values) for group, people in stay.items()}
    expected["SUM(x)"] = {group: total for group, total in sums.items() if total}
    assert asked(found, SUMS, limits, key) == expected


TABLE = pa.table(
    {
        "person": [i % 40 for i in range(4000)],
        "g": [GROUPS[i * i % 7 % 4] for i in range(4000)],
        "x": [i % 11 for i in range(4000)],
    }
)


def answered(folder: Path, **options: Any) -> list[float]:
    """Sums with next to no noise: of scale 2·3·10 / 3000, so 0.5 off has probability below e^-25 each."""
    ledger = dn.Ledger.create(folder, unit="person", budget=dn.PureDP(10_000))
    with dn.Session({"t": TABLE}, ledger=ledger, **options) as session:
        release = session.sql(
            "SELECT g, SUM(x) AS s FROM t GROUP BY g",
            epsilon=3000, bounds={"x": (0, 10)}, keys={"g": GROUPS}, per_unit=AtMost(groups=2, rows=3),
        )  # fmt: skip
    return [round(s) for s in release.columns["s"]]


def test_a_session_with_a_key_keeps_the_same_rows_each_time(tmp_path: Path) -> None:
    """As the rule in Python does, whose rows every engine keeps (test_engines_alike)."""
    key = 2**127 + 12345
    listed = list(zip(*(TABLE[name].to_pylist() for name in ("person", "g", "x")), strict=True))
    stay = kept(listed, AtMost(groups=2, rows=3), (key >> 64, key & (2**64 - 1)), most=10)
    wanted = [sum(value or 0 for values in stay[group] for value in values) for group in range(4)]
    assert answered(tmp_path / "1", choice_key=key) == answered(tmp_path / "2", choice_key=key) == wanted
    assert answered(tmp_path / "3", choice_key=key + 1) != wanted
    assert answered(tmp_path / "4") != wanted


@pytest.mark.parametrize("key", [-1, 2**128, True, 1.5, "7"])
def test_a_key_is_a_number_of_128_bits(tmp_path: Path, key: Any) -> None:
    ledger = dn.Ledger.create(tmp_path / "l", unit="person", budget=dn.PureDP(1))
    with pytest.raises(InvalidArgument, match="choice_key must be a whole number"):
        dn.Session({"t": TABLE}, ledger=ledger, choice_key=key)
