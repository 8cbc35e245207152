"""One session for many analysts: keys that pay once, a shared engine, its limits, and rehearsals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deniable as dn
from deniable.errors import AlreadyPaid, BudgetExceeded, DataError, InvalidArgument, LedgerError
from deniable.query.engines import DuckDB

SQL = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"
OPTIONS: dict[str, Any] = {"keys": {"city": ["a", "b"]}, "per_unit": dn.AtMost(groups=1, rows=2)}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[dn.Ledger]:
    with dn.Ledger.create(tmp_path / "t.ledger", unit="person", budget=dn.PureDP(5)) as made:
        yield made


@pytest.fixture
def session(ledger: dn.Ledger) -> Iterator[dn.Session]:
    rows = pa.table({"person": range(40), "city": ["a", "b"] * 20, "x": [0.5] * 40})
    public = pa.table({"city": ["a", "b"], "canton": ["u", "v"]})
    with dn.Session({"t": rows}, ledger=ledger, public={"cities": public}) as opened:
        yield opened


@pytest.mark.parametrize("options", [OPTIONS, {"keys": OPTIONS["keys"]}], ids=["plain", "staged"])
def test_a_key_pays_for_one_answer(session: dn.Session, options: dict[str, Any]) -> None:
    plan = session.plan(SQL, epsilon=1, **options)
    release = plan.run(key="first", purpose="the monthly table")
    assert len(release) == 2
    [charge] = session.ledger.charges()
    assert (charge.key, charge.purpose) == ("first", "the monthly table")
    with pytest.raises(AlreadyPaid, match="another charge"):
        plan.run(key="first")
    with pytest.raises(LedgerError, match="another event"):
        session.plan(SQL, epsilon=2, **options).run(key="first")
    assert session.ledger.remaining().numbers["epsilon"] == 4
    plan.run(key="second")
    plan.run()
    assert session.ledger.remaining().numbers["epsilon"] == 2


def test_another_analyst_shares_the_tables(session: dn.Session) -> None:
    session.ledger.allot("ana", epsilon=1)
    session.ledger.allot("ben", epsilon=2)
    session.ledger.open_envelope("table t", epsilon=1, decision="the board")
    with session.as_("ana", envelopes=["table t"]) as ana:
        ana.sql(SQL, epsilon=1, **OPTIONS)
    assert (session.who, session._envelopes) == (None, ())
    ben = session.as_("ben")
    assert ben._engine is session._engine
    ben.sql(SQL, epsilon=1, **OPTIONS)  # the tables are still open
    with pytest.raises(BudgetExceeded, match="the envelope table t's"):
        session.as_("ben", envelopes=["table t"]).sql(SQL, epsilon=1, **OPTIONS)
    assert [(charge.who, charge.envelopes) for charge in session.ledger.charges()] == [
        ("ana", ("table t",)),
        ("ben", ()),
    ]
    with pytest.raises(InvalidArgument):
        session.as_("")


def test_queries_of_several_threads_run_beside_one_another(session: dn.Session) -> None:
    """Every thread holds its cursor until all have one, so that each is another one and knows all tables."""
    engine, barrier, found = session._engine, threading.Barrier(4), list[Any]()
    assert isinstance(engine, DuckDB)
    joined = "SELECT COUNT(*), MIN(canton) FROM temp.main.t JOIN temp.main.cities USING (city)"

    def ask() -> None:
        with engine._cursor() as cursor:
            barrier.wait(timeout=20)
            found.append((id(cursor), cursor.execute(joined).fetchall()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({cursor for cursor, _ in found}) == 4
    assert [rows for _, rows in found] == [[(40, "u")]] * 4
    session.sql(SQL, epsilon=1, **OPTIONS)


def test_a_closed_session_is_closed_for_every_cursor(session: dn.Session) -> None:
    plan = session.plan(SQL, epsilon=1, **OPTIONS)
    engine = session._engine
    assert isinstance(engine, DuckDB)
    with engine._cursor(), engine._cursor():
        pass
    session.close()
    with pytest.raises(DataError, match="closed"):
        plan.run()
    assert list(session.ledger.charges()) == []


class _Watched:
    """Writes down what is executed."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.texts = inner, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, statement: Any, *given: Any) -> Any:
        self.texts.append(str(getattr(statement, "query", statement)))
        return self._inner.execute(statement, *given)


@pytest.mark.parametrize("steady", [False, True])
def test_a_steady_session_runs_the_same_statements_whatever_the_rows_are(ledger: dn.Ledger, steady: bool) -> None:
    ran = []
    for one_more in ([], [7, 7, 7]):  # one person more, beyond the limit
        people = [*range(40), *one_more]
        rows = pa.table({"person": people, "city": ["a"] * len(people)})
        with dn.Session({"t": rows}, ledger=ledger, steady=steady) as session:
            plan = session.plan(SQL, epsilon=0.1, cover=0, **OPTIONS)
            plan.engine.check(plan.statements)
            engine: Any = session._engine
            watched = engine._connection = _Watched(engine._connection)
            plan.engine.run(plan.bounded, groups=2, key=(1, 2))
            ran.append(watched.texts)
    assert (ran[0] == ran[1]) is steady


def test_limits_of_the_engine(ledger: dn.Ledger, tmp_path: Path) -> None:
    rows = pa.table({"person": range(40), "city": ["a"] * 40})
    with dn.Session({"t": rows}, ledger=ledger, memory="300MB", threads=1, seconds=50) as session:
        engine = session._engine
        assert isinstance(engine, DuckDB)
        settings = "SELECT current_setting('memory_limit'), current_setting('threads')"
        with engine._cursor() as first, engine._cursor() as second:
            for cursor in (first, second):
                assert cursor.execute(settings).fetchone() == ("286.1 MiB", 1)
                assert cursor.execute("SELECT current_setting('max_execution_time')").fetchone() == (50_000,)
    wrong: tuple[dict[str, Any], ...] = (
        {"memory": "lots"}, {"memory": "1GB'; DROP TABLE x"}, {"threads": 0}, {"seconds": 0}, {"seconds": 1e12}
    )  # fmt: skip
    for limit in wrong:
        with pytest.raises(InvalidArgument):
            dn.Session({"t": rows}, ledger=ledger, **limit)
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS person")
        with pytest.raises(InvalidArgument, match="Its owner limits it"):
            dn.Session(connection, ledger=ledger, threads=1)


def test_past_the_seconds_the_charge_stands_and_one_sentence_is_said(ledger: dn.Ledger) -> None:
    rows = pa.table({"person": range(200_000), "city": ["a"] * 200_000})
    with dn.Session({"t": rows}, ledger=ledger, seconds=50) as session:
        plan = session.plan(SQL, epsilon=1, **OPTIONS)
        engine: Any = session._engine
        engine._connection.execute("SET SESSION max_execution_time = 1")
        bounded = plan.bounded

        def run_until_stopped() -> None:
            while True:  # a fast machine may answer some
                engine.run(bounded, groups=2, key=(1, 2))

        with pytest.raises(DataError, match="the charge stands and nothing is released"):
            run_until_stopped()


@pytest.mark.parametrize("options", [OPTIONS, {"keys": OPTIONS["keys"]}, {}], ids=["plain", "staged", "private keys"])
def test_a_rehearsal_costs_nothing_and_reads_no_row(options: dict[str, Any], tmp_path: Path) -> None:
    with dn.Ledger.create(tmp_path / "r.ledger", unit="person", epsilon=5, delta=1e-6) as ledger:
        rows = pa.table({"person": [1], "city": ["a"]})
        with dn.Session({"t": rows}, ledger=ledger) as session:
            plan = session.plan(SQL, epsilon=1, **options)
            release = plan.rehearse()
            assert list(release.columns) == ["city", "n", "n_low", "n_high"]
            if "per_unit" in options:
                assert max(release["n"]) > 10  # of 300 made-up rows, not of one
        assert list(ledger.charges()) == []


def test_a_digest_tells_plans_apart(session: dn.Session) -> None:
    same = [session.plan(SQL, epsilon=1, **OPTIONS).digest for _ in range(2)]
    assert same[0] == same[1]
    more = dn.AtMost(groups=1, rows=3)
    others = [
        session.plan(SQL, epsilon=2, **OPTIONS),
        session.plan(SQL, epsilon=1, **{**OPTIONS, "keys": {"city": ["b", "a"]}}),
        session.plan(SQL, epsilon=1, **{**OPTIONS, "per_unit": more}),
        session.plan(SQL, epsilon=1, confidence=0.9, **OPTIONS),
        session.plan(SQL, epsilon=1, cover=0, **OPTIONS),
        session.plan(SQL.replace("t GROUP", "t WHERE x < 1 GROUP"), epsilon=1, **OPTIONS),
        session.plan("SELECT SUM(x) AS s FROM t", epsilon=1, per_unit=more, bounds={"x": (0, 1)}),
        session.plan("SELECT SUM(x) AS s FROM t", epsilon=1, per_unit=more, bounds={"x": (0, 2)}),
    ]
    assert len({same[0], *(plan.digest for plan in others)}) == 1 + len(others)
