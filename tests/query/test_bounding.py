"""The bounded SQL against the rule in words, computed here in Python from the same hash values."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deniable.noise import Grid
from deniable.query import AtMost, bounding, choice
from deniable.query.engines import DuckDB
from deniable.query.grids import Values
from deniable.query.keys import declare, unknown
from deniable.query.measures import Totals
from deniable.query.reading import read
from deniable.query.schema import Column, ColumnKind, Table

KEY = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
GROUPS = 200
Row = tuple[int, int, int | None]


def people(seed: int) -> list[Row]:
    """Sixty people: in one group, in a few, in more than there are intervals of ranks; with rows that are alike."""
    drawn = random.Random(seed)
    rows: list[Row] = []
    for person in range(60):
        mine = drawn.sample(range(GROUPS), drawn.choice([1, 1, 2, 3, 5, 12, 70, 150]))
        for group in mine:
            for _ in range(drawn.choice([1, 1, 1, 2, 6])):
                rows.append((person, group, drawn.choice([None, 0, 1, 7, 7, drawn.randrange(10**6)])))
    drawn.shuffle(rows)
    return rows


def hashes(engine: DuckDB, unit: str, content: list[str], rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    """The hash that the bounded SQL ranks by, of each row."""
    names = [unit, *content]
    table = pa.table({n: pa.array([r[i] for r in rows], type=pa.int64()) for i, n in enumerate(names)})
    engine._connection.register("hashed", table)
    sql = f"SELECT {', '.join(names)}, {choice._mixed(unit, content)} FROM hashed"
    found = engine._connection.execute(sql, dict(zip(choice.KEY_PARAMETERS, KEY, strict=True))).fetchall()
    engine._connection.unregister("hashed")
    return {row[:-1]: row[-1] for row in found}


def by_the_rule(engine: DuckDB, rows: list[Row], limits: AtMost) -> Counter[Row]:
    """The rows that stay, as a multiset."""
    ranks = hashes(engine, "u", ["g"], sorted({row[:2] for row in rows}))
    groups: dict[int, list[int]] = defaultdict(list)
    for (person, _), rank in ranks.items():
        groups[person].append(rank)
    edges = {p: sorted(mine)[limits.groups] for p, mine in groups.items() if len(mine) > limits.groups}
    shares: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row[0] not in edges or ranks[row[:2]] < edges[row[0]]:
            shares[row[:2]].append(row)
    kept: Counter[Row] = Counter(row for mine in shares.values() if len(mine) <= limits.rows for row in mine)
    crowded = [mine for mine in shares.values() if len(mine) > limits.rows]
    shifts = hashes(engine, "u", ["g", "n"], [(*mine[0][:2], len(mine)) for mine in crowded])
    for mine in crowded:
        n, most = len(mine), limits.rows
        shift = shifts[(*mine[0][:2], n)] % n
        ordered = sorted(mine, key=lambda row: (row[2] is None, row[2] or 0))
        kept.update(row for i, row in enumerate(ordered) if (i * most + shift) % n < most)
    return kept


def summed(kept: Counter[Row]) -> dict[int, list[int]]:
    """Rows, units, values and their sum, of every group."""
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for (_, group, value), times in kept.items():
        found[group][0] += times
        found[group][2] += times * (value is not None)
        found[group][3] += times * (value or 0)
    for _, group in {row[:2] for row in kept}:
        found[group][1] += 1
    return dict(found)


def listed(totals: Totals, value: Values, groups: list[int]) -> dict[int, list[int]]:
    units = totals.units if len(totals.units) else [None] * len(groups)
    columns = zip(totals.rows, units, totals.counts[value], totals.sums[value], strict=True)
    return {g: list(four) for g, four in zip(groups, columns, strict=True) if four[0]}


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    ("groups_limit", "rows_limit"), [(1, 1), (2, 3), (5, 100), (63, 1), (64, 3), (100, 1), (GROUPS, 3)]
)
def test_the_rule(groups_limit: int, rows_limit: int, private: bool) -> None:
    data = people(groups_limit)
    engine, limits = DuckDB(), AtMost(groups=groups_limit, rows=rows_limit)
    columns = zip(("person", "ward", "x"), zip(*data, strict=True), strict=True)
    table = engine.add("t", pa.table({name: pa.array(column, type=pa.int64()) for name, column in columns}))
    question = read("SELECT ward, SUM(x) FROM t GROUP BY ward", (table,))
    unit, ward, x = table.columns
    value = Values(x, Grid(low=0, high=10**6, step=1))
    keys = [unknown(ward)] if private else [declare(ward, range(GROUPS))]
    groups = None if private else GROUPS
    expected = summed(by_the_rule(engine, data, limits))
    if not private:  # here a group is named by g; with private keys by g = 0 and k1, which hashes differently
        for units in (False, True):
            text = bounding.bounded(question, keys, [value], unit=unit, limits=limits, groups=groups, units=units)
            found = listed(engine.run(text, groups=groups, key=KEY), value, list(range(GROUPS)))
            wanted = {g: [a, b if units else None, c, d] for g, (a, b, c, d) in expected.items()}
            assert found == wanted
    text = bounding.bounded(question, keys, [value], unit=unit, limits=limits, groups=groups, units=True)
    totals = engine.run(text, groups=groups, key=KEY)
    names = totals.keys[1].tolist() if private else list(range(GROUPS))
    assert names == sorted(names)
    # The rows that stay, one by one, are those that are added up.
    source = bounding.base(question, keys, [value], unit=unit)
    steps = bounding.kept_rows(source, limits=limits, groups=groups)
    parameters: dict[str, Any] = {name: list(texts) for name, texts in bounding.lists(keys).items()}
    parameters |= {p: half for p, half in zip(choice.KEY_PARAMETERS, KEY, strict=True) if f"${p}" in "".join(steps)}
    sql = f"WITH {', '.join(steps)} SELECT u, {'k1' if private else 'g'}, v1 FROM rows"
    kept = Counter(engine._connection.execute(sql, parameters).fetchall())
    assert listed(totals, value, names) == summed(kept)
    for _, mine in Counter(row[:2] for row in kept.elements()).items():
        assert mine <= rows_limit
    assert max(Counter(person for person, _ in {row[:2] for row in kept}).values()) <= groups_limit
    engine.close()


def test_everybody_within_the_limits_is_whole() -> None:
    """People with few rows, or few enough rows in one group, lose nothing, and cost no hashing of rows."""
    engine = DuckDB()
    rows = [(1, 5)] * 4 + [(2, 7), (2, 8)] + [(3, 9)] * 5
    table = engine.add("t", pa.table({"person": [r[0] for r in rows], "ward": [r[1] for r in rows]}))
    question = read("SELECT ward, COUNT(*) FROM t GROUP BY ward", (table,))
    keys = [declare(table.columns[1], range(10))]
    text = bounding.bounded(question, keys, [], unit=table.columns[0], limits=AtMost(groups=2, rows=4), groups=10)
    assert engine.run(text, groups=10, key=KEY).rows.tolist() == [0, 0, 0, 0, 0, 4, 0, 1, 1, 4]
    engine.close()


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), "HUGEINT"])
@pytest.mark.parametrize("first", [0, 5, -3])
def test_keys_in_a_row_need_no_list(type_: Any, first: int) -> None:
    """Whatever else the column holds, up to the ends of its type; the same groups as by a list."""
    whole = pa.int64() if type_ == "HUGEINT" else type_
    low, high = {1: (-128, 127), 4: (-(1 << 31), (1 << 31) - 1)}.get(whole.byte_width, (-(1 << 63), (1 << 63) - 1))
    low, high = (0, high * 2 + 1) if str(whole).startswith("u") else (low, high)
    held = sorted({v for v in (low, high, *range(first - 1, first + 5)) if low <= v <= high})
    data = pa.table({"ward": pa.array([*held, *held, None], type=whole)})
    engine = DuckDB()
    if type_ == "HUGEINT":
        engine._connection.register("whole", data)
        huge = "SELECT ward::HUGEINT AS ward FROM whole UNION ALL VALUES (-(2::HUGEINT ** 126)::HUGEINT)"
        engine._connection.execute(f"CREATE TEMP TABLE t AS {huge}")
        table = Table("t", (Column("ward", ColumnKind.INTEGER, "HUGEINT"),))
    else:
        table = engine.add("t", data)
    question = read("SELECT ward, COUNT(*) FROM t GROUP BY ward", (table,))
    for wards in (list(range(first, first + 4)), [first, first + 2, first + 1, first + 3]):
        keys = [declare(table.columns[0], wards)]
        text = bounding.bounded(question, keys, [], unit=None, limits=AtMost(groups=1, rows=1), groups=4)
        assert bool(text.lists) is (wards != sorted(wards) or table.columns[0].wide)
        assert engine.run(text, groups=4, key=KEY).rows.tolist() == [2 * (w in held) for w in wards]
    engine.close()


def test_sums_leave_the_engine_exact() -> None:
    """Sums beyond 2⁵³, where floats have gaps, and beyond 2⁶³."""
    engine = DuckDB()
    high = (1 << 52) - 1
    table = engine.add("t", pa.table({"person": np.arange(5000), "x": np.full(5000, high)}))
    question = read("SELECT SUM(x) FROM t", (table,))
    value = Values(table.columns[1], Grid(low=-high, high=high, step=1))
    for unit in (None, table.columns[0]):
        text = bounding.bounded(question, [], [value], unit=unit, limits=AtMost(groups=1, rows=1), groups=1)
        total = engine.run(text, groups=1, key=KEY).sums[value]
        assert int(total[0]) == 5000 * high > 1 << 63
    engine.close()
