"""Times with a zone are read in UTC, whoever holds them and whatever zone is set there; no time makes reading fail."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deniable as dn
from deniable.errors import DataError
from deniable.query import AtMost, Session
from deniable.query.planning import QueryPlan

ZONE = "America/New_York"
FIRST = datetime(2026, 1, 31, 22, 30, tzinfo=UTC)  # 17:30 there
MOMENTS = [FIRST, FIRST, datetime(2026, 7, 1, 3, 0, tzinfo=UTC), None]  # 23:00 of the day before there
FAR = {"s": 1 << 62, "ms": 1 << 62, "us": -(1 << 63), "ns": -(1 << 63)}
ONE = AtMost(groups=1, rows=1)


def arrow(unit: str) -> pa.Table:
    """Four people, and one whose time is as far away as the unit allows."""
    times = pa.array(MOMENTS, pa.timestamp(unit, tz=ZONE))
    far = pa.array([FAR[unit]], pa.int64()).cast(times.type)
    return pa.table({"person": range(5), "at": pa.chunked_array([times, far])})


def coded(table: pa.Table) -> pa.Table:
    return table.set_column(1, "at", table["at"].dictionary_encode())


def in_a_file(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def in_a_database(table: pa.Table, folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute(f"CREATE TABLE t AS FROM given; SET TimeZone = '{ZONE}'")
    return connection


HOLDERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "arrow": lambda table, folder: table,
    "arrow, with a dictionary": lambda table, folder: coded(table),
    "polars": lambda table, folder: pl.from_arrow(table),
    "pandas": lambda table, folder: table.to_pandas(),
    "pandas on arrow": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas on arrow, with a dictionary": lambda table, folder: coded(table).to_pandas(types_mapper=pd.ArrowDtype),
    "parquet": in_a_file,
    "duckdb": in_a_database,
}
UNREADABLE = {("duckdb", "s"), ("duckdb", "ms"), ("parquet", "s"), ("parquet", "ms")}
"""Where the far time is left out: DuckDB's own table cannot hold it, and such a file is refused."""


def rows(plan: QueryPlan) -> list[int]:
    return [int(n) for n in plan.engine.run(plan.bounded, groups=plan.groups, key=(1, 2)).rows]


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with dn.Ledger.create(tmp_path / "l", unit="person", budget=dn.ApproxDP(50, 1e-3)) as found:
        yield found


def check(session: Session) -> None:
    """The counts of the four people, in UTC."""

    def count(what: str, **options: Any) -> list[int]:
        return rows(session.plan(f"SELECT {what}", epsilon=1, per_unit=ONE, **options))

    assert count("COUNT(*) AS n FROM t WHERE at >= TIMESTAMP '2026-01-31 22:30:00' AND at < '2026-01-31 22:30:01'") == [
        2
    ]
    assert count("COUNT(*) AS n FROM t WHERE CAST(at AS DATE) = DATE '2026-07-01'") == [1]
    by_hour = count("HOUR(at) AS k, COUNT(*) AS n FROM t WHERE YEAR(at) = 2026 GROUP BY k")
    assert {hour: n for hour, n in enumerate(by_hour) if n} == {3: 1, 22: 2}
    days = [datetime(2026, 1, 31), datetime(2026, 7, 1)]
    assert count("DATE_TRUNC('day', at) AS k, COUNT(*) AS n FROM t GROUP BY k", keys={"k": days}) == [2, 1]
    assert count("at, COUNT(*) AS n FROM t GROUP BY at", keys={"at": ["2026-07-01 03:00"]}) == [1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_every_holder_gives_the_same_times(ledger: dn.Ledger, tmp_path: Path, holder: str, unit: str) -> None:
    size = 4 if holder == "pandas" or (holder, unit) in UNREADABLE else 5
    data = HOLDERS[holder](arrow(unit).slice(0, size), tmp_path)
    with Session({"t": data}, ledger=ledger) as session:
        check(session)
        for what in ("at", "DISTINCT at", "CAST(at AS TEXT)", "CAST(CAST(at AS DATE) AS TEXT)"):
            assert rows(session.plan(f"SELECT COUNT({what}) AS n FROM t", epsilon=1, per_unit=ONE)) == [size]


def test_plain_times_that_no_calendar_has_are_no_text(ledger: dn.Ledger) -> None:
    """DuckDB fails to write the least microseconds, whether by CAST or TRY_CAST."""
    times = pa.array([-(1 << 63), -(1 << 63) + 2, 0], pa.int64()).cast(pa.timestamp("us"))
    with Session({"t": pa.table({"person": range(3), "at": times})}, ledger=ledger) as session:
        found = session.plan("SELECT COUNT(CAST(at AS TEXT)) AS n FROM t", epsilon=1, per_unit=ONE)
        totals = found.engine.run(found.bounded, groups=1, key=(1, 2))
        assert [int(count[0]) for count in totals.counts.values()] == [1]


@pytest.mark.parametrize("zone", [None, ZONE])
def test_a_file_with_times_that_cannot_be_decoded_is_refused_when_it_is_opened(
    ledger: dn.Ledger, tmp_path: Path, zone: str | None
) -> None:
    """DuckDB's reader of Parquet fails on milliseconds that do not fit microseconds."""
    times = pa.array([0, FAR["ms"]], pa.int64()).cast(pa.timestamp("ms", tz=zone))
    with pytest.raises(DataError, match=r"t\.parquet has a time that is too far away"):
        Session(in_a_file(pa.table({"person": [1, 2], "at": times}), tmp_path), ledger=ledger)


def test_postgres(postgres: Any, ledger: dn.Ledger) -> None:
    import psycopg

    with psycopg.connect(postgres.database(), autocommit=True) as connection:
        connection.execute(f"SET timezone = '{ZONE}'")
        connection.execute("CREATE TABLE t (person INT, at TIMESTAMPTZ)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO t VALUES (%s, %s)", list(enumerate([*MOMENTS, "infinity", "4713-01-01 BC"]))
            )
        connection.execute("CREATE TABLE talks (at TIMESTAMPTZ)")
        connection.execute("INSERT INTO talks VALUES ('2026-01-31 22:30:00+00')")
        with Session({"t": connection}, ledger=ledger, public={"talks": connection}) as session:
            check(session)
            assert rows(session.plan("SELECT COUNT(*) AS n FROM t JOIN talks USING (at)", epsilon=1, per_unit=ONE)) == [
                2
            ]


@pytest.mark.xdist_group("spark")
def test_spark(spark: Any, ledger: dn.Ledger) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    try:
        frame = spark.createDataFrame(list(enumerate(MOMENTS)), "person INT, at TIMESTAMP")
        talks = spark.createDataFrame([(FIRST,)], "at TIMESTAMP")
        with Session({"t": frame}, ledger=ledger, public={"talks": talks}) as session:
            check(session)
            assert rows(session.plan("SELECT COUNT(*) AS n FROM t JOIN talks USING (at)", epsilon=1, per_unit=ONE)) == [
                2
            ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
