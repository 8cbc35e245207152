"""Charge first, compute second; looking is free; nothing private in a message."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import BudgetExceeded, DataError
from deniable.events import Event
from deniable.guarantees import ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session
from deniable.units import Relation

SQL = "SELECT city, AVG(cost) AS cost\nFROM visits GROUP BY city"
ASK: dict[str, Any] = {
    "epsilon": 0.5,
    "bounds": {"cost": (0, 5000)},
    "keys": {"city": ["Bern", "Basel"]},
    "per_unit": AtMost(groups=2, rows=4),
}


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    table = pa.table({"patient_id": [1, 1, 2], "city": ["Bern", "Basel", "Bern"], "cost": [123.25, 77.5, 4.0]})
    pq.write_table(table, tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "hospital.ledger", unit="patient_id", budget=ApproxDP(3, 1e-6)) as found:
        yield found


def test_from_file_to_release(visits: Path, ledger: Ledger, tmp_path: Path) -> None:
    with Session(str(visits), ledger=tmp_path / "hospital.ledger") as session:
        assert [table.name for table in session.tables] == ["visits"]
        plan = session.plan(SQL, **ASK)
        assert str(plan.cost) == "ε ≤ 0.50, δ = 0, one patient added or removed"
        assert not list(ledger.charges()), "looking is free"
        release = plan.run()
        assert [row["city"] for row in release.rows] == ["Bern", "Basel"]
        assert release.cost == plan.cost
        assert release.event == plan.event
    (charge,) = ledger.charges()
    assert charge.event == plan.event
    assert charge.purpose == "SELECT city, AVG(cost) AS cost FROM visits GROUP BY city"
    assert release.remaining == ledger.remaining()


def test_three_tenths_fit_three_tenths(visits: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "small.ledger", unit="patient_id", budget=PureDP(0.3))
    with ledger, Session(visits, ledger=ledger) as session:
        for _ in range(3):
            session.sql(SQL, **{**ASK, "epsilon": 0.1})
        assert ledger.remaining() == PureDP(0, unit="patient_id")
        with pytest.raises(BudgetExceeded):
            session.sql(SQL, **{**ASK, "epsilon": Fraction(1, 10**9)})


def test_the_charge_is_durable_before_the_engine_runs(
    visits: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(visits, ledger=ledger) as session:
        plan = session.plan(SQL, **ASK)
        seen: list[list[Event]] = []

        def crash(*_: Any, **__: Any) -> None:
            with Ledger.open(visits.parent / "hospital.ledger") as other:
                seen.append([charge.event for charge in other.charges()])
            raise KeyboardInterrupt

        monkeypatch.setattr(session._engine, "run", crash)
        with pytest.raises(KeyboardInterrupt):
            plan.run()
    assert seen == [[plan.event]]


def test_a_refused_charge_reads_nothing(visits: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(visits, ledger=ledger) as session:
        plan = session.plan(SQL, **{**ASK, "epsilon": 4})

        def read(*_: Any, **__: Any) -> None:
            raise AssertionError("the engine ran")

        monkeypatch.setattr(session._engine, "run", read)
        with pytest.raises(BudgetExceeded):
            plan.run()
    assert not list(ledger.charges())


def test_planning_reads_no_rows(broken: Path, ledger: Ledger) -> None:
    with Session(broken, ledger=ledger) as session:
        assert "AVG(cost)" in str(session.plan(SQL, **ASK))


def test_a_file_that_is_gone_is_said_when_a_query_is_planned(visits: Path, ledger: Ledger) -> None:
    with Session(visits, ledger=ledger) as session:
        visits.unlink()
        with pytest.raises(DataError, match="has changed since the session was opened"):
            session.plan(SQL, **ASK)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A file whose columns can be read, and whose rows cannot."""
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"patient_id": [1], "city": ["Bern"], "cost": [123.25]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"secret" * 8 + whole[52:])  # the rows, not the columns' names at the end
    return path


def test_a_file_that_is_broken_inside_quotes_nothing(broken: Path, ledger: Ledger) -> None:
    with Session(broken, ledger=ledger) as session, pytest.raises(DataError) as caught:
        session.sql(SQL, **ASK)
    assert "the charge stands" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert len(list(ledger.charges())) == 1


def test_a_plan_says_everything_but_the_key(visits: Path, ledger: Ledger) -> None:
    with Session(visits, ledger=ledger) as session:
        plan = session.plan(SQL, **ASK)
        text = plan.explain()
    for part in (
        "SELECT city, AVG(cost) AS cost FROM visits GROUP BY city",
        "cost    ε ≤ 0.50, δ = 0, one patient added or removed",
        "limits  2 of 2 groups, 4 rows per group, of each patient",
        "bounds  cost clamped to [0, 5000], in steps of 1e-05",
        "SUM(cost - 0), SUM(5000 - cost) 0.45 88,900 40000",
        "units beyond the limits 0.05 20 1",
        "in a group of 1,000 values",
        "$key_1::UBIGINT",
    ):
        assert part in text or part in " ".join(text.split())
    assert "WITH base" not in str(plan)


def test_relation_and_unit_come_from_the_ledger(visits: Path, tmp_path: Path) -> None:
    budget = PureDP(3, relation=Relation.REPLACE)
    with Ledger.create(tmp_path / "replace.ledger", unit="patient_id", budget=budget) as ledger:
        with Session(visits, ledger=ledger) as session:
            plan = session.plan(SQL, **{**ASK, "per_unit": AtMost(groups=1, rows=4)})
            assert str(plan.cost) == "ε ≤ 0.50, δ = 0, one patient replaced by another"
            assert [n.move.sensitivity for n in plan.noises] == [2 * 4 * 500_000_000]
            plan.run()
        assert ledger.remaining() == PureDP(2.5, relation=Relation.REPLACE, unit="patient_id")


def test_rows_as_units(visits: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "rows.ledger", unit="row", budget=PureDP(3))
    with ledger, Session(visits, ledger=ledger) as session:
        plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1)
        assert str(plan.cost) == "ε ≤ 1.00, δ = 0, one row added or removed"
        assert plan.bounded.shortcut is None
        assert "every row is protected on its own" in str(plan)
        plan.run()


def test_several_tables(visits: Path, ledger: Ledger) -> None:
    wards = pa.table({"Patient_ID": [1, 2], "ward": ["a", "b"]})
    with Session({"visits": visits, "wards": wards}, ledger=ledger) as session:
        for sql in ("SELECT COUNT(*) FROM visits", "SELECT COUNT(*) FROM Wards AS w WHERE w.ward = 'a'"):
            assert session.sql(sql, epsilon=0.1, per_unit=AtMost(groups=1, rows=1)).rows


def test_closing_removes_temporary_files(visits: Path, ledger: Ledger) -> None:
    session = Session(visits, ledger=ledger)
    (folder,) = session._engine._connection.execute("SELECT current_setting('temp_directory')").fetchone()  # type: ignore[misc]
    assert Path(folder).is_dir()
    assert Path(folder).stat().st_mode & 0o077 == 0, "others may not read what is spilled"
    session.close()
    assert not Path(folder).exists()


def test_a_frame_may_change_afterwards(ledger: Ledger) -> None:
    import pandas as pd

    frame = pd.DataFrame({"patient_id": [1, 2], "cost": [1.0, 2.0]})
    with Session({"visits": frame}, ledger=ledger) as session:
        del frame["cost"]
        answer = session.sql(
            "SELECT SUM(cost) AS s FROM visits", epsilon=1, bounds={"cost": (0, 5)}, per_unit=AtMost(groups=1, rows=1)
        )
    assert len(answer.rows) == 1


def test_ctrl_c_stops_the_engine(visits: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal while DuckDB computes arrives as a KeyboardInterrupt, after the charge, and the session goes on."""
    with Session(visits, ledger=ledger) as session:
        limits = AtMost(groups=1, rows=1)
        plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=0.5, per_unit=limits, cover=0)
        endless = "SELECT 0 AS g, COUNT(*) AS n FROM RANGE(100000000000) AS a(i) WHERE HASH(i) = 7"
        long = replace(plan, bounded=replace(plan.bounded, text=endless, lists={}))
        run = session._engine.run

        def timed(*args: Any, **named: Any) -> Any:
            signal.setitimer(signal.ITIMER_REAL, 0.2)  # the charge is made by now
            return run(*args, **named)

        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(session._engine, "run", timed)
                with pytest.raises(KeyboardInterrupt):
                    long.run()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert [charge.event for charge in ledger.charges()] == [plan.event]
        assert plan.run().rows
    assert ledger.verify().seq == 2


@pytest.mark.parametrize("budget", [ApproxDP(3, 1e-6), ApproxZCDP(3, 1e-6)])
def test_private_keys_take_a_hundredth_of_any_delta(visits: Path, tmp_path: Path, budget: Guarantee) -> None:
    with Ledger.create(tmp_path / "own.ledger", unit="patient_id", budget=budget) as own:
        with Session(visits, ledger=own) as session:
            plan = session.plan(
                "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon=1, per_unit=ASK["per_unit"]
            )
            assert isinstance(plan.cost, ApproxDP)
            assert plan.cost.delta == Fraction(1, 10**8)
            plan.run()
        assert len(list(own.charges())) == 1
