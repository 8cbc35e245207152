"""A session that asks again about the same rows and limits: exact totals are kept, and answers are as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import deniable as dn
from deniable.noise import Grid
from deniable.query import bounding
from deniable.query.engines import base
from deniable.query.engines.duckdb import DuckDB
from deniable.query.grids import Values
from deniable.query.reading import read

LIMITS = dn.AtMost(groups=2, rows=2)
BASE: dict[str, Any] = {
    "bounds": {"x": (0, 100), "y": (-5, 5)}, "keys": {"ward": [0, 1, 2]}, "per_unit": LIMITS, "epsilon": 1, "cover": 0,
}  # fmt: skip
FIRST = "SELECT ward, SUM(x) AS s, AVG(y) AS a FROM t GROUP BY ward"


def table(*, extra: bool = False, far: bool = True) -> pd.DataFrame:
    """People with up to 9 rows, or 1; `extra` adds somebody who is far beyond any limit."""
    random = np.random.default_rng(3)
    people = np.repeat(np.arange(40), random.integers(1, 10, 40) if far else 1)
    size = len(people)
    frame = pd.DataFrame(
        {"person": people, "ward": random.integers(0, 3, size), "x": random.integers(0, 100, size), "y": 1.0}
    )
    return pd.concat([frame, frame.head(50).assign(person=999)], ignore_index=True) if extra else frame


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., dn.Session]]:
    """Sessions over a table, on ledgers that never end."""
    sessions: list[dn.Session] = []

    def open_session(data: Any = None, **options: Any) -> dn.Session:
        ledger = dn.Ledger.create(tmp_path / f"{len(sessions)}.ledger", unit="person", budget=dn.ApproxDP(10**6, 0.1))
        sessions.append(dn.Session({"t": table() if data is None else data}, ledger=ledger, **options))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that DuckDB runs."""
    ran: list[str] = []
    execute = DuckDB._computed

    def watched(self: DuckDB, bounded: Any, key: Any, cursor: Any) -> Any:
        ran.append(bounded.text)
        return execute(self, bounded, key, cursor)

    monkeypatch.setattr(DuckDB, "_computed", watched)
    return ran


def test_what_was_read_is_not_computed_again(opened: Callable[..., dn.Session], statements: list[str]) -> None:
    session = opened()
    covered = {**BASE, "cover": None}  # so that people beyond are counted, too
    session.sql(FIRST, **covered)
    del statements[:]
    session.sql(FIRST, **covered)
    assert not statements
    for sql, options in (
        (FIRST, {}),
        (FIRST, {"epsilon": 0.1, "noise": "gaussian", "confidence": 0.5}),
        ("SELECT ward, AVG(x) AS a FROM t GROUP BY ward HAVING a > 3 ORDER BY a LIMIT 2", {}),
        ("SELECT ward, COUNT(*) AS n, COUNT(y) AS m, SUM(x) / COUNT(*) AS r FROM t GROUP BY ward", {}),
    ):
        before = len(list(session.ledger.charges()))
        first, second = (session.sql(sql, **{**BASE, **options}) for _ in range(2))
        assert first.to_dict() != second.to_dict()  # the noise is fresh
        assert len(list(session.ledger.charges())) == before + 2  # and paid for
        assert not statements, sql


def test_anything_else_is_computed(opened: Callable[..., dn.Session], statements: list[str]) -> None:
    session = opened()
    session.sql(FIRST, **BASE)
    for sql, options in (
        (FIRST.replace("GROUP", "WHERE x > 3 GROUP"), {}),
        ("SELECT SUM(x) AS s FROM t", {"keys": None}),
        (FIRST, {"per_unit": dn.AtMost(groups=2, rows=3)}),
        (FIRST, {"per_unit": dn.AtMost(groups=2, rows=2, total=3)}),
        (FIRST, {"keys": {"ward": [0, 1, 3]}}),
        (FIRST, {"bounds": {"x": (0, 99), "y": (-5, 5)}}),
        ("SELECT ward, COUNT(DISTINCT person) AS n FROM t GROUP BY ward", {}),
        ("SELECT ward, MEDIAN(x) AS q FROM t GROUP BY ward", {}),
    ):
        del statements[:]
        session.sql(sql, **{**BASE, **options})
        assert statements, (sql, options)


def test_totals_are_those_of_the_statement_itself(opened: Callable[..., dn.Session]) -> None:
    """Where more was read before, other rows of a unit may stay, and as many. What is kept cannot be written."""
    session, other = opened(), opened()
    session.sql(FIRST, **BASE)
    smaller: Any = session.plan("SELECT ward, SUM(x) AS s FROM t GROUP BY ward", **BASE)
    key = session.context.key
    assert key is not None
    kept = smaller.engine.run(smaller.bounded, groups=3, key=key)
    fresh = other.context.engine.run(smaller.bounded, groups=3, key=key)
    assert kept.rows.tolist() == fresh.rows.tolist()
    assert kept.counts.keys() > fresh.counts.keys()
    with pytest.raises(ValueError, match="read-only"):
        kept.rows[0] = 7


def test_analysts_do_not_see_by_a_clock_what_others_asked(
    opened: Callable[..., dn.Session], statements: list[str]
) -> None:
    session = opened()
    session.sql(FIRST, **BASE)
    del statements[:]
    session.as_("ann").sql(FIRST, **BASE)
    assert len(statements) == 1


def test_tables_that_may_change_are_read_again(opened: Callable[..., dn.Session], statements: list[str]) -> None:
    with duckdb.connect() as owner:
        owner.register("frame", table())
        owner.execute("CREATE TABLE t AS FROM frame")
        session = opened(owner)
        release = session.sql(FIRST, **{**BASE, "epsilon": 1000})
        owner.execute("UPDATE t SET x = 0")
        again = session.sql(FIRST, **{**BASE, "epsilon": 1000})
    assert len(statements) == 2
    assert max(again["s"]) < 30 < min(release["s"])


def test_another_table_is_not_answered_from_memory() -> None:
    """A table that takes another's place in an engine, under the same key."""
    engine = DuckDB()
    for value in (1, 2):
        engine._connection.execute("DROP VIEW IF EXISTS temp.main.t")
        table = engine.add("t", pd.DataFrame({"person": [1], "x": [value]}))
        question = read("SELECT SUM(x) AS s FROM t", (table,))
        values = Values(table.columns[1], Grid(low=0, high=9, step=1))
        text = bounding.bounded(question, [], [values], unit=table.columns[0], limits=LIMITS, groups=1)
        assert engine.run(text, groups=1, key=(1, 2)).sums[values].tolist() == [value]
    engine.close()


def test_a_fixed_key_and_keys_of_the_data_are_not_kept(
    opened: Callable[..., dn.Session], statements: list[str]
) -> None:
    fixed = opened(choice_key=7)
    for _ in range(2):
        fixed.sql(FIRST, **BASE)
    assert len(statements) == 2
    found = opened()
    for _ in range(2):
        found.sql(FIRST, **{**BASE, "keys": None})
    assert len(statements) == 4


def test_a_file_that_changed_is_refused_before_the_charge(opened: Callable[..., dn.Session], tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table().to_parquet(path)
    session = opened(path)
    plan = session.plan(FIRST, **BASE)
    plan.run()
    charges = len(list(session.ledger.charges()))
    table(extra=True).to_parquet(path)
    with pytest.raises(dn.errors.DataError, match="has changed"):
        plan.run()
    assert len(list(session.ledger.charges())) == charges


@pytest.mark.parametrize("far", [False, True])
def test_no_record_decides_what_is_computed_again(
    opened: Callable[..., dn.Session], statements: list[str], far: bool
) -> None:
    """The same questions run the same statements on neighbours, and find the same totals in memory."""
    texts = []
    for extra in (False, True):
        session = opened(table(extra=extra, far=far))
        for sql in (FIRST, "SELECT ward, SUM(x) AS s FROM t GROUP BY ward", FIRST, "SELECT COUNT(*) AS n FROM t"):
            session.sql(sql, **{**BASE, "keys": BASE["keys"] if "GROUP" in sql else None})
        texts.append(list(statements))
        del statements[:]
    assert texts[0] == texts[1]


def test_room_is_bounded_by_public_numbers(
    opened: Callable[..., dn.Session], statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three groups, and six numbers in each: two such totals are too many for a memory of 30 numbers."""
    monkeypatch.setattr(base, "MOST_KEPT", 30)
    session = opened()
    other = FIRST.replace("GROUP", "WHERE x > 3 GROUP")
    for sql, ran in ((FIRST, 1), (FIRST, 1), (other, 2), (FIRST, 3), (FIRST, 3)):
        session.sql(sql, **BASE)
        assert len(statements) == ran
    monkeypatch.setattr(base, "MOST_KEPT", 3)
    for ran in (4, 5):
        session.sql(other, **BASE)
        assert len(statements) == ran
