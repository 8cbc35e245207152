"""Files at the command line: folders, patterns, encodings, `deniable convert`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

ASK = ["--epsilon", "0.1", "--groups-per-unit", "1", "--rows-per-unit", "1", "--ledger", "hospital.ledger"]


@pytest.fixture(name="years")
def _years(hospital: Callable) -> Callable:
    """A folder of two files, in the encoding of Windows."""
    Path("years").mkdir()
    for year in (2025, 2026):
        Path(f"years/{year}.csv").write_bytes(f"patient_id,city\np{year},Zürich\n".encode("cp1252"))
    return hospital


@pytest.mark.parametrize(("place", "table"), [("years", "years"), ("years/*.csv", "years"), ("visits=years", "visits")])
def test_several_files(years: Callable, place: str, table: str) -> None:
    ran = years("query", place, f"SELECT COUNT(*) AS n FROM {table}", "--encoding", "cp1252", *ASK)
    assert ran.code == 0, ran.err
    assert "n_low" in ran.out.splitlines()[0]


def test_another_encoding(years: Callable) -> None:
    ran = years("query", "years", "SELECT COUNT(*) AS n FROM years", *ASK)
    assert ran.code == 1
    assert ran.err == (
        "deniable: 2025.csv, line 2: bytes that are not UTF-8; if the file is in another encoding, say so: "
        "--encoding cp1252\n"
    )
    ran = years("query", "years", "SELECT COUNT(*) AS n FROM years", "--encoding", "utf-7", *ASK)
    assert (ran.code, ran.out) == (1, "")
    assert "an encoding of text that Python knows" in ran.err


def test_convert(years: Callable) -> None:
    words = ["convert", "years", "all.parquet", "--encoding", "cp1252"]
    ran = years(*words)
    assert (ran.code, ran.out, ran.err) == (0, "all.parquet: written\n", "")
    assert years("query", "all.parquet", "SELECT COUNT(*) AS n FROM all", *ASK).code == 1, "ALL is a word of SQL"
    assert (
        years("query", "visits=all.parquet", "SELECT COUNT(*) AS n FROM visits WHERE city = 'Zürich'", *ASK).code == 0
    )
    again = years(*words)
    assert again.code == 1
    assert (
        again.err
        == "deniable: all.parquet exists already; nothing was written. Choose another name, or give --force.\n"
    )
    ran = years(*words, "--force", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"file": "all.parquet"})


def test_convert_refuses_a_file_with_its_line(years: Callable) -> None:
    Path("stray.csv").write_text('patient_id,note\n1,a 5" SECRET\n')
    ran = years("convert", "stray.csv", "out.parquet")
    assert ran.code == 1
    assert ran.err.startswith("deniable: stray.csv, line 2: a quote stands inside a field")
    assert "SECRET" not in ran.err
    assert not Path("out.parquet").exists()


def test_a_publication_of_several_files(years: Callable) -> None:
    for given in ('"years"', '"years/*.csv"', '["years/2025.csv", "years/2026.csv"]'):
        Path("tables.toml").write_text(
            f"""
ledger = "hospital.ledger"
epsilon = 0.1
encoding = "cp1252"
[data]
visits = {given}
[tables.n]
sql = "SELECT COUNT(*) AS n FROM visits WHERE city = 'Zürich'"
per_unit = {{groups = 1, rows = 1}}
""",
            encoding="utf-8",
        )
        ran = years("publish", "tables.toml", "--out", "release", "--dry-run")
        assert ran.code == 0, ran.err
    text = Path("tables.toml").read_text(encoding="utf-8").replace('encoding = "cp1252"', "")
    Path("tables.toml").write_text(text, encoding="utf-8")
    ran = years("publish", "tables.toml", "--out", "release", "--dry-run")
    assert ran.code == 1
    assert (
        'line 2: bytes that are not UTF-8; if the file is in another encoding, say so: encoding = "cp1252"' in ran.err
    )


@pytest.fixture(name="database")
def _database(hospital: Callable) -> Callable:
    """A DuckDB file with two private tables and a public one."""
    with duckdb.connect("clinic.duckdb") as connection:
        connection.execute(
            "CREATE TABLE visits AS FROM (VALUES ('p1', 'Bern'), ('p2', 'Basel')) AS t(patient_id, city)"
        )
        connection.execute("CREATE TABLE bills AS FROM (VALUES ('p1', 3.5)) AS t(patient_id, paid)")
        connection.execute("CREATE TABLE cities AS FROM (VALUES ('Bern', 'west')) AS t(city, region)")
    return hospital


def test_a_duckdb_file_with_all_its_tables(database: Callable) -> None:
    joined = (
        "SELECT COUNT(*) AS n FROM visits JOIN bills USING (patient_id) JOIN cities USING (city) WHERE region = 'west'"
    )
    ran = database("query", "clinic.duckdb", joined, "--public", "cities=clinic.duckdb", *ASK)
    assert ran.code == 0, ran.err
    ran = database("query", "visits=clinic.duckdb", "SELECT COUNT(*) AS n FROM visits", *ASK)
    assert ran.code == 0, ran.err
    again = ["--table", "visits=clinic.duckdb", "--public", "cities=clinic.duckdb"]
    ran = database("query", "clinic.duckdb", joined, *again, *ASK)
    assert (ran.code, ran.out) == (1, "")
    assert "a table of a new name" in ran.err


def test_a_duckdb_file_without_tables_and_one_with_several(database: Callable) -> None:
    duckdb.connect("none.duckdb").close()
    for words in (["query", "none.duckdb", "SELECT 1"], ["describe", "none.duckdb"]):
        ran = database(*words, "--epsilon", "0.1", "--ledger", "hospital.ledger")
        assert (ran.code, ran.out) == (1, "")
        assert "a database with tables" in ran.err
    words = ["made.csv", "--epsilon", "0.1", "--ledger", "hospital.ledger", "--keys", "city=Bern", "--dry-run"]
    ran = database("synthesize", "clinic.duckdb", *words)
    assert (ran.code, ran.out) == (1, "")
    assert "one of its tables bills, cities, visits" in ran.err


def test_describe(database: Callable) -> None:
    ran = database("describe", "visits.csv", "--epsilon", "0.5", "--ledger", "hospital.ledger")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("patients ")
    ran = database("describe", "visits.csv", "--epsilon", "0.5", "--ledger", "hospital.ledger", "--dry-run")
    assert (ran.code, ran.out) == (0, "a survey of visits, for ε = 0.5; remaining ε = 1.5\n")
    ran = database("describe", "visits.csv", "--epsilon", "nan", "--ledger", "hospital.ledger", "--dry-run")
    assert (ran.code, ran.out) == (1, "")
    words = ["describe", "clinic.duckdb", "--epsilon", "0.5", "--ledger", "hospital.ledger"]
    ran = database(*words)
    assert (ran.code, ran.out) == (1, "")
    with duckdb.connect("more.duckdb") as connection:
        connection.execute("CREATE TABLE a AS SELECT 'p1' AS patient_id")
        connection.execute("CREATE TABLE b AS SELECT 'p1' AS patient_id")
    words[1] = "more.duckdb"
    ran = database(*words)
    assert (ran.code, ran.out) == (1, "")
    assert "one of a, b" in ran.err
    ran = database(*words[:2], "b", *words[2:], "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["table"] == "b"
    ran = database("describe", "visits.csv", "--ledger", "hospital.ledger")
    assert (ran.code, ran.out) == (1, "")
    assert "--epsilon" in ran.err


@pytest.mark.parametrize("address", ["https://example.org/visits.parquet", "s3://bucket/visits.parquet"])
def test_an_address_is_refused_with_the_way_to_it(hospital: Callable, address: str) -> None:
    """Without a look at the network, and without installing an extension."""
    ran = hospital("query", address, "SELECT COUNT(*) AS n FROM visits", *ASK)
    assert (ran.code, ran.out) == (1, "")
    assert "DuckDB's extension httpfs" in ran.err
