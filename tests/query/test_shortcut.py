"""The check that lets the plain aggregate answer: it never passes anybody who is beyond the limits."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.errors import DataError
from deniable.noise import Grid
from deniable.query import AtMost, bounding, choice, engines
from deniable.query.bounding import Bounded, detailed
from deniable.query.engines import DuckDB
from deniable.query.engines.databases import DuckDBTable
from deniable.query.engines.duckdb import FakeDuckDB
from deniable.query.grids import BinNumber, Distinct, Reading, Values
from deniable.query.keys import Keys, declare
from deniable.query.measures import Totals
from deniable.query.reading import read
from deniable.query.schema import Column, ColumnKind, Table

KEY = (3, 5)
Rows = list[tuple[int, int, int | None]]


def ask(engine: DuckDB, table: Any, limits: AtMost, *, groups: int, kind: str = "sums") -> Bounded:
    """The bounded SQL over a table of person, ward and x."""
    unit, ward, x = table.columns
    question = read("SELECT ward, SUM(x) FROM t GROUP BY ward", (table,))
    keys = [_declared(ward, groups)]
    values = Values(x, Grid(low=0, high=100, step=1))
    if kind == "sums":
        return bounding.bounded(question, keys, [values], unit=unit, limits=limits, groups=groups, units=True)
    readings: list[Reading] = [values, Distinct(x), BinNumber(x, Grid(low=0, high=100, step=10))]
    return detailed(question, keys, readings, unit=unit, limits=limits, groups=groups)


@cache
def _declared(ward: Column, groups: int) -> Keys:
    return declare(ward, range(groups))


def made(rows: Rows) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table(
        {name: pa.array(column, type=pa.int64()) for name, column in zip(("person", "ward", "x"), columns, strict=True)}
    )


def surely_within(rows: Rows, limits: AtMost, *, groups: int) -> bool:
    """The rule in words."""
    mine: dict[int, Counter[int]] = defaultdict(Counter)
    for person, ward, _ in rows:
        if ward < groups:
            mine[person][ward] += 1
    few = limits.groups < groups
    return all(
        wards.total() <= limits.rows and (not few or wards.total() <= limits.groups or len(wards) == 1)
        for wards in mine.values()
    )


def exact(totals: Totals) -> list[Any]:
    cells = [[part.tolist() for part in found] for found in totals.cells.values()]
    return [
        totals.rows.tolist(),
        totals.units.tolist(),
        *(column.tolist() for held in (totals.counts, totals.sums, totals.distincts) for column in held.values()),
        *(sorted(zip(*found, strict=True)) for found in cells),
    ]


@settings(max_examples=45, deadline=None)
@given(st.data())
def test_the_check_is_the_rule_and_the_plain_totals_are_the_bounded_ones(data: st.DataObject) -> None:
    """Small tables; 60,000 groups are often too many for one number per unit, so both forms of the check are met."""
    groups = data.draw(st.sampled_from([1, 2, 3, 9, 60_000]))
    wards = st.sampled_from([0, 0, 0, min(1, groups - 1), groups - 1, groups])
    people = st.integers(0, data.draw(st.sampled_from([1, 4])))
    rows = data.draw(st.lists(st.tuples(people, wards, st.none() | st.integers(0, 100)), max_size=12))
    limits = AtMost(groups=data.draw(st.integers(1, 3)), rows=data.draw(st.integers(1, 5)))
    engine = DuckDB()
    table = engine.add("t", made(rows))
    for kind in ("sums", "cells"):
        found = ask(engine, table, limits, groups=groups, kind=kind)
        easy = found.shortcut
        assert easy is not None
        within = surely_within(rows, limits, groups=groups)
        beyond, seen = engine._connection.execute(easy.peek).fetchall()[0]
        assert (beyond == 0) is within
        assert (seen or 0) == sum(ward < groups for _, ward, _ in rows)
        assert (engine._connection.execute(easy.check).fetchall()[0][0] == 0) is within
        if within and groups < 10:
            bounded = Bounded(found.text, found.lists, found.values)
            plain = Bounded(easy.plain, found.lists, found.values)
            assert exact(engine.run(plain, groups=groups, key=KEY)) == exact(
                engine.run(bounded, groups=groups, key=KEY)
            )
    engine.close()


@pytest.mark.parametrize("groups", [2, 5, 1000])
@pytest.mark.parametrize("limit", [1, 7, 40])
def test_many_rows_are_seen(groups: int, limit: int) -> None:
    """Far more rows than the limit, in one group or two that look like one: their sums run over all digits."""
    condition = choice.marks(["g"], limits=AtMost(groups=1, rows=limit), groups=groups)
    assert "mark" in condition.beyond
    drawn = random.Random(groups * limit)
    last = groups - 1
    units = [[last] * n for n in (limit, limit + 1, 2 * limit, 64 * limit, 4099)]
    units += [[last] * n + [0] * drawn.randrange(1, 9) for n in range(1, 200)]
    units += [[drawn.randrange(groups) for _ in range(drawn.randrange(1, 3 * limit))] for _ in range(2000)]
    units += [[0] * (last + 1) + [last], [0, last], [last, last - 1]]
    flat = pa.table({"u": [u for u, gs in enumerate(units) for _ in gs], "g": [g for gs in units for g in gs]})
    with duckdb.connect() as connection:
        connection.register("rows", flat)
        sql = f"SELECT u, {condition.columns} FROM rows GROUP BY u"
        found = dict(connection.execute(f"SELECT u, {condition.beyond} FROM ({sql})").fetchall())
    for u, gs in enumerate(units):
        assert found[u] is (len(gs) > limit or (len(gs) > 1 and len(set(gs)) > 1))


def test_the_largest_sums_that_fit() -> None:
    """At the edge of 2⁵³ one sum is used, beyond it two; a unit with 3,000,000 rows is beyond in both."""
    fits = choice.marks(["g"], limits=AtMost(groups=1, rows=1), groups=1 << 17)
    assert "mark" in fits.columns
    assert "mark" not in choice.marks(["g"], limits=AtMost(groups=1, rows=1), groups=1 << 18).columns
    for groups in (1 << 17, 1 << 18):
        found = choice.marks(["g"], limits=AtMost(groups=1, rows=1), groups=groups)
        rows = f"SELECT {groups - 1}::BIGINT AS g FROM RANGE(3000000)"
        sql = f"SELECT {found.beyond} FROM (SELECT {found.columns} FROM ({rows}))"
        assert duckdb.execute(sql).fetchall() == [(True,)]
        one = f"SELECT {found.beyond} FROM (SELECT {found.columns} FROM ({rows} LIMIT 1))"
        assert duckdb.execute(one).fetchall() == [(False,)]


class Watched:
    """A connection that keeps what was executed, and calls somebody before each."""

    def __init__(self, inner: Any, before: Callable[[int], None] = lambda _: None) -> None:
        self.inner, self.texts, self.before = inner, list[str](), before

    def execute(self, sql: Any, given: Any = None) -> Any:
        self.texts.append(getattr(sql, "query", sql))
        self.before(len(self.texts))
        return self.inner.execute(sql, given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_which_sql_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small table is looked at once; a larger one by a peek and, unless that finds somebody, by a check."""
    monkeypatch.setattr(choice, "PEEK", 4)
    monkeypatch.setattr(engines.duckdb, "PEEK", 4)
    limits, inside = AtMost(groups=1, rows=2), [(i // 2, 0, 1) for i in range(3)]
    many = [(i // 2, 0, 1) for i in range(9)]
    for rows, kinds in (
        (inside, ["peek", "plain"]),
        ([], ["peek", "plain"]),
        (many, ["peek", "check", "plain"]),
        ([(9, 0, 1)] * 5, ["peek", "text"]),
        ([*many, (9, 0, 1), (9, 1, 1)], ["peek", "check", "text"]),
    ):
        engine = DuckDB()
        found = ask(engine, engine.add("t", made(rows)), limits, groups=3)
        watched = engine._connection = Watched(engine._connection)  # type: ignore[assignment]
        engine.run(found, groups=3, key=KEY)
        easy = found.shortcut
        assert easy is not None
        names = {easy.peek: "peek", easy.check: "check", easy.plain: "plain", found.text: "text"}
        assert [names[text] for text in watched.texts] == kinds
        engine.close()


def test_a_rehearsal_tries_all_sql() -> None:
    engine = FakeDuckDB()
    columns = tuple(Column(name, ColumnKind.INTEGER, "BIGINT") for name in ("person", "ward", "x"))
    table = Table("t", columns)
    engine.fill(table, {name: ["1", "2"] for name in table.names}, rows=10)
    found = ask(engine, table, AtMost(groups=1, rows=1), groups=3)
    watched = engine._connection = Watched(engine._connection)  # type: ignore[assignment]
    engine.run(found, groups=3, key=KEY)
    easy = found.shortcut
    assert easy is not None
    assert watched.texts == [easy.peek, easy.check, easy.plain, found.text]
    engine.close()


def test_what_was_checked_is_what_is_added_up() -> None:
    """Rows that are inserted while a query runs are not in it, neither checked nor added."""
    with duckdb.connect() as owner:
        owner.execute("CREATE TABLE t AS SELECT 1::BIGINT AS person, 0::BIGINT AS ward, 1::BIGINT AS x")
        engine = DuckDB(owner)
        found = ask(engine, engine.add("t", DuckDBTable(owner, "t")), AtMost(groups=1, rows=1), groups=3)

        def insert(call: int) -> None:
            if call == 2:
                owner.execute("INSERT INTO t SELECT 1, 0, 1 FROM RANGE(100)")

        engine._connection = Watched(engine._connection, insert)  # type: ignore[assignment]
        assert engine.run(found, groups=3, key=KEY).rows.tolist() == [1, 0, 0]
        assert engine.run(found, groups=3, key=KEY).rows.tolist() == [1, 0, 0]
        assert owner.execute("SELECT COUNT(*) FROM t").fetchall() == [(101,)]
        engine.close()


def while_run(engine: DuckDB, path: Path, before: Callable[[int], None]) -> Totals:
    """What a count over a file finds while something happens before each statement."""
    table = engine.add("t", path)
    question = read("SELECT COUNT(*) FROM t", (table,))
    found = bounding.bounded(question, [], [], unit=table.columns[0], limits=AtMost(groups=1, rows=1), groups=1)
    engine._connection = Watched(engine._connection, before)  # type: ignore[assignment]
    return engine.run(found, groups=1, key=KEY)


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("unit", [1, 2])
def test_a_csv_file_that_grows_while_it_is_asked_is_the_one_that_was_opened(
    tmp_path: Path, call: int, unit: int
) -> None:
    """Its checked copy is read, so the answer is that of one state, whoever the new rows belong to."""
    path = tmp_path / "t.csv"
    path.write_text("person,ward,x\n1,0,1\n")

    def grow(at: int) -> None:
        if at == call:
            with path.open("a") as file:
                file.write(f"{unit},0,1\n" * 10)

    engine = DuckDB()
    assert while_run(engine, path, grow).rows.tolist() == [1]
    with pytest.raises(DataError, match="has changed since the session was opened; open it again"):
        engine.check([])
    engine.close()


@pytest.mark.parametrize("call", [1, 2])
def test_a_parquet_file_that_grows_while_it_is_read_releases_nothing(tmp_path: Path, call: int) -> None:
    """It is read where it is, once to be checked and once to be added up: the two may not differ."""
    path = tmp_path / "t.parquet"
    pq.write_table(made([(1, 0, 1)]), path)

    def grow(at: int) -> None:
        if at == call:
            pq.write_table(made([(1, 0, 1)] * 10), path)

    engine = DuckDB()
    with pytest.raises(DataError, match="charge stands, and nothing is released"):
        while_run(engine, path, grow)
    engine.close()


def test_a_folder_that_gets_another_file_while_it_is_read_releases_nothing(tmp_path: Path) -> None:
    pq.write_table(made([(1, 0, 1)]), tmp_path / "a.parquet")
    engine = DuckDB()
    with pytest.raises(DataError, match="charge stands, and nothing is released"):
        while_run(engine, tmp_path, lambda at: pq.write_table(made([(1, 0, 1)]), tmp_path / f"b{at}.parquet"))
    engine.close()
