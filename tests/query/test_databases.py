"""DuckDB databases as data: files and open connections, read only, beside other tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deniable.errors import DataError
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session

ONE = AtMost(groups=1, rows=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "t.ledger", unit="person", budget=PureDP(10**6)) as found:
        yield found


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE visits AS SELECT i AS person, i % 2 AS ward FROM RANGE(1000) AS r(i)")
    connection.execute('CREATE TABLE "old \'visits" AS SELECT i AS person FROM RANGE(50) AS r(i)')
    connection.execute("CREATE VIEW wards AS SELECT person FROM visits")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "hospital's.duckdb")) as connection:
        fill(connection)
    return tmp_path / "hospital's.duckdb"


def count(session: Session, table: str) -> int:
    """With ε = 1000 the noise is 0 but for a probability of e^(−1000)."""
    named = '"' + table + '"'
    found = session.sql(f"SELECT COUNT(*) AS n FROM {named}", epsilon=1000, per_unit=ONE)
    return int(found.columns["n"][0])


def test_all_tables_of_a_file(path: Path, ledger: Ledger) -> None:
    before = path.read_bytes()
    with Session(path, ledger=ledger) as session:
        assert [table.name for table in session.tables] == ["old 'visits", "visits"]
        assert (count(session, "visits"), count(session, "old 'visits")) == (1000, 50)
    assert path.read_bytes() == before


def test_all_tables_of_a_connection(ledger: Ledger) -> None:
    with duckdb.connect() as connection:
        fill(connection)
        with Session(connection, ledger=ledger) as session:
            assert [table.name for table in session.tables] == ["old 'visits", "visits"]
            assert count(session, "visits") == 1000
        names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        assert sorted(names) == [("old 'visits",), ("visits",)], "nothing of ours appears, and nothing is gone"
        assert views == [("wards",)]
        assert connection.execute("SELECT COUNT(*) FROM visits").fetchone() == (1000,), "still open"


def test_a_database_beside_frames_and_files(path: Path, ledger: Ledger, tmp_path: Path) -> None:
    pd.DataFrame({"person": [1, 2, 3]}).to_csv(tmp_path / "calls.csv", index=False)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE stays AS SELECT 1 AS person")
        data = {
            "visits": path,
            "stays": connection,
            "calls": tmp_path / "calls.csv",
            "beds": pd.DataFrame({"person": [1, 2]}),
        }
        with Session(data, ledger=ledger) as session:
            found = {table.name: count(session, table.name) for table in session.tables}
    assert found == {"visits": 1000, "stays": 1, "calls": 3, "beds": 2}


def test_tables_that_are_about_nobody(ledger: Ledger) -> None:
    with duckdb.connect() as connection:
        fill(connection)
        connection.execute(
            "CREATE TABLE names AS SELECT * FROM (VALUES (0, 'surgery'), (1, 'maternity')) AS v(ward, name)"
        )
        with Session({"visits": connection}, public={"names": connection}, ledger=ledger) as session:
            release = session.sql(
                "SELECT name, COUNT(*) AS n FROM visits JOIN names USING (ward) GROUP BY name",
                epsilon=1000,
                per_unit=ONE,
            )
            assert sorted(row["name"] for row in release.rows) == ["maternity", "surgery"]
        with pytest.raises(DataError, match=r"public=\{'names'"):
            Session(connection, ledger=ledger)


def test_what_cannot_be_opened_is_refused(path: Path, ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "broken.duckdb").write_bytes(b"secret rows")
    with duckdb.connect() as one, duckdb.connect() as two:
        fill(one)
        fill(two)
        for data, expected in (
            (tmp_path / "none.duckdb", "there is no file"),
            (tmp_path / "broken.duckdb", "could not be opened as a DuckDB database"),
            ({"missing": path}, "the database has no table missing; its tables are old 'visits, visits"),
            ({"wards": one}, "views cannot be asked"),
            ({"visits": one, "old": two}, "not of several"),
        ):
            with pytest.raises(DataError) as caught:
                Session(data, ledger=ledger)
            assert expected in str(caught.value)
            assert "secret" not in str(caught.value)


def test_every_kind_of_data_gives_the_same_answer(ledger: Ledger, tmp_path: Path) -> None:
    """At ε = 10⁵ the noise is 0 but for a probability of e^(−1000)."""
    frame = pd.DataFrame(
        {"person": [1, 1, 2, 3], "city": ["Bern", "Basel", "Bern", None], "cost": [1.5, 2.5, 99.0, 4.0]}
    )
    frame.to_csv(tmp_path / "csv.csv", index=False)
    frame.to_parquet(tmp_path / "parquet.parquet")
    with duckdb.connect(str(tmp_path / "file.duckdb")) as connection:
        connection.execute("CREATE TABLE file AS SELECT * FROM frame")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE connection AS SELECT * FROM frame")
        data = {
            "csv": tmp_path / "csv.csv",
            "parquet": str(tmp_path / "parquet.parquet"),
            "pandas": frame,
            "polars": pl.from_pandas(frame),
            "arrow": pa.Table.from_pandas(frame),
            "file": tmp_path / "file.duckdb",
            "connection": connection,
        }
        with Session(data, ledger=ledger) as session:
            found = {
                name: session.sql(
                    f"SELECT city, COUNT(*) AS n, SUM(cost) AS total FROM {name} GROUP BY city",
                    epsilon=10**5,
                    bounds={"cost": (0, 10, 0.5)},
                    keys={"city": ["Bern", "Basel"]},
                    per_unit=AtMost(groups=2, rows=2),
                ).columns
                for name in data
            }
    for name, columns in found.items():
        assert (columns["n"], columns["total"]) == ([2, 1], [11.5, 2.5]), name


def test_what_is_no_table_is_refused(ledger: Ledger) -> None:
    for data in ({"t": pl.DataFrame({"person": [1]}).lazy()}, {"t": [1, 2]}, {"t": None}, [1], None, {}):
        with pytest.raises(DataError):
            Session(data, ledger=ledger)
