"""Several files as one table: folders, patterns and lists; how tables are named; what is refused."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import deniable as dn
from deniable.errors import DataError, FileExists
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session, convert
from deniable.query.engines.files import Files, table_name

ONE = AtMost(groups=1, rows=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "t.ledger", unit="person", budget=PureDP(10**6)) as found:
        yield found


@pytest.fixture
def count(ledger: Ledger) -> Callable[..., int]:
    """How many rows a table has. With ε = 1000 the noise is 0 but for a probability of e^(−1000)."""

    def run(data: Any, table: str = "t", where: str = "", **options: Any) -> int:
        with Session(data, ledger=ledger, **options) as session:
            found = session.sql(f'SELECT COUNT(*) AS n FROM "{table}" {where}', epsilon=1000, per_unit=ONE)
            return int(found.columns["n"][0])

    return run


def write_parquet(path: Path, sql: str) -> None:
    duckdb.sql(sql).write_parquet(str(path))


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A folder of CSV files, one of them packed, and of a program's notes."""
    folder = tmp_path / "visits"
    folder.mkdir()
    (folder / "2024.csv").write_text("person,city\n1,Bern\n2,Basel\n")
    (folder / "2025.csv").write_text("person,city\r\n3,Bern\r\n", newline="")
    (folder / "2026.CSV.GZ").write_bytes(gzip.compress(b'person,city\n4,Bern\n5,"Bern\n"\n'))
    (folder / "_SUCCESS").write_text("")
    (folder / ".2024.csv.crc").write_bytes(b"\0")
    return folder


def test_a_folder_a_pattern_and_a_list(
    visits: Path, count: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count(visits, "visits") == 5
    assert count(f"{visits}/", "visits") == 5
    assert count(visits / "*.csv", "visits") == 3
    assert count(visits.parent / "*" / "202[45].csv", visits.parent.name) == 3
    assert count(visits.parent / "**" / "202*", visits.parent.name) == 5
    assert count([visits / "2024.csv", str(visits / "2025.csv")], "visits") == 3
    assert count({"t": (visits / "2025.csv", visits / "2026.CSV.GZ")}) == 3
    monkeypatch.chdir(visits)
    assert count("*.csv", "visits") == 3
    assert count(".", "visits") == 5
    assert count("2024.csv", "2024") == 2


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path, count: Callable[..., int]) -> None:
    for name in ("a[1].csv", "a*.csv", "it's?.csv"):
        (tmp_path / name).write_text("person\n1\n")
        assert count(tmp_path / name, name.removesuffix(".csv")) == 1
    for name in ("b[1].parquet", "b*.parquet", "it's?.parquet", 'b".parquet'):
        write_parquet(tmp_path / "plain.parquet", "SELECT 1 AS person")
        os.rename(tmp_path / "plain.parquet", tmp_path / name)
        assert count({"t": tmp_path / name}) == 1


def test_parquet_files(tmp_path: Path, count: Callable[..., int]) -> None:
    for year in (2025, 2026):
        write_parquet(tmp_path / f"{year}.parquet", f"SELECT i AS person, {year} AS year FROM RANGE(10) AS r(i)")
    assert count(tmp_path / "202*.parquet", tmp_path.name, "WHERE year = 2026") == 10
    assert count({"t": [tmp_path / "2025.parquet", tmp_path / "2026.parquet"]}) == 10, "a person has one row"


def test_a_file_counts_once(tmp_path: Path, ledger: Ledger) -> None:
    """With rows as units, a row that is read twice would be two units."""
    folder = tmp_path / "t"
    folder.mkdir()
    one = folder / "a.csv"
    one.write_text("person,city\n1,Bern\n")
    twice: list[Any] = [[one, one], [one, folder / ".." / "t" / "a.csv"]]
    for link in (folder / "b.csv", folder / "c.csv"):
        link.symlink_to(one) if link.name == "b.csv" else link.hardlink_to(one)
        for data in (*twice, folder, folder / "*.csv"):
            with pytest.raises(DataError, match="are one file; give it once"):
                Session({"t": data}, ledger=ledger)
        link.unlink()


def test_names_of_folders_are_no_columns(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "year=2026").mkdir()
    write_parquet(tmp_path / "year=2026" / "a.parquet", "SELECT 1 AS person")
    with Session({"t": tmp_path / "*" / "*.parquet"}, ledger=ledger) as session:
        assert session.tables[0].names == ("person",)
    with Session(tmp_path / "year=2026" / "a.parquet", ledger=ledger) as session:
        assert session.tables[0].names == ("person",)
    with pytest.raises(DataError, match="holds a folder, year=2026, and names of folders are not read"):
        Session(tmp_path / "year=2026" / "..", ledger=ledger)


def test_names_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clinic").mkdir()
    monkeypatch.chdir(tmp_path)
    names = {
        "visits.csv": "visits", "visits.CSV.gz": "visits", "visits.2026.parquet": "visits.2026", "clinic": "clinic",
        "clinic/": "clinic", "./clinic/*.csv": "clinic", "clinic/**/*.parquet": "clinic", "clinic/20*/a.csv": "clinic",
        "clinic/../clinic": "clinic", "visits.db": "visits",
    }  # fmt: skip
    assert {given: table_name(given) for given in names} == names
    assert table_name(["clinic/a.csv", "clinic/b.csv"]) == "clinic"
    with pytest.raises(DataError, match="a table without a name; give data="):
        table_name(["clinic/a.csv", "b.csv"])
    with pytest.raises(DataError, match="a folder without a name"):
        table_name("/*.csv")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"b.csv": "person,town\n1,2\n"}, r"must have the same first line; b\.csv has another"),
        ({"b.csv": "city,person\n1,2\n"}, r"must have the same first line; b\.csv has another"),
        ({"b.csv": "person,city,x\n1,2,3\n"}, r"must have the same first line; b\.csv has another"),
        ({"b.csv": "person,city\n1,2,SECRET\n"}, r"b\.csv, line 2: it has another number of fields"),
        ({"b.csv": ""}, r"b\.csv is empty"),
        ({"b.txt": "person,city\n1,2\n"}, r"b\.txt must end in \.csv, \.csv\.gz, \.parquet or \.xlsx"),
        ({"b.parquet": "x"}, "must be all CSV or all Parquet"),
    ],
)
def test_files_that_are_not_one_table(others: dict[str, str], words: str, tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("person,city\n1,Bern\n")
    for name, text in others.items():
        (folder / name).write_text(text)
    with pytest.raises(DataError, match=words) as caught:
        Session(folder, ledger=ledger)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "other", ["SELECT 1 AS id", "SELECT '1' AS person", "SELECT 1 AS person, 2 AS x", "SELECT 1::INT AS Person"]
)
def test_parquet_files_that_are_not_one_table(other: str, tmp_path: Path, ledger: Ledger) -> None:
    write_parquet(tmp_path / "a.parquet", "SELECT 1::INT AS person")
    write_parquet(tmp_path / "b.parquet", other)
    with pytest.raises(DataError, match="must have the same columns, of the same types and in one order"):
        Session({"t": tmp_path / "*.parquet"}, ledger=ledger)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("none", "must end in"),
        ("none.csv", "there is no file"),
        ("none/*.csv", "no file that fits the pattern"),
        ("empty", "holds no files"),
        ({"t": []}, "must not be empty"),
        ({"t": ["a.csv", 7]}, "must hold paths; it holds"),
        ({"t": ["empty"]}, "must end in"),
        ({"t": ["none.csv"]}, "there is no file"),
        ({"t": ["*.csv"]}, "there is no file"),
    ],
)
def test_files_that_are_not_there(
    data: Any, words: str, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.csv").write_text("person\n1\n")
    with pytest.raises(DataError, match=words):
        Session(data, ledger=ledger)


@pytest.mark.parametrize("change", ["another file", "a file less", "a file written again"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_that_change(change: str, kind: str, tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    def write(name: str, person: int) -> None:
        if kind == "csv":
            (folder / f"{name}.csv").write_text(f"person\n{person}\n")
        else:
            write_parquet(folder / f"{name}.parquet", f"SELECT {person} AS person")

    write("a", 1)
    write("b", 2)
    with Session(folder, ledger=ledger) as session:
        plan = session.plan("SELECT COUNT(*) AS n FROM data", epsilon=1000, per_unit=ONE)
        assert plan.run().columns["n"] == [2]
        if change == "another file":
            write("c", 3)
        elif change == "a file less":
            (folder / f"b.{kind}").unlink()
        else:
            write("b", 7777)
        before = len(list(ledger.charges()))
        with pytest.raises(DataError, match="has changed since the session was opened; open it again"):
            plan.run()
        assert len(list(ledger.charges())) == before


def test_a_session_goes_on_in_another_folder(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("person\n1\n")
    (tmp_path / "b.csv").write_text("person\n1\n")
    monkeypatch.chdir(tmp_path)
    with Session({"t": "data", "u": ["b.csv"]}, ledger=ledger) as session:
        monkeypatch.chdir("/")
        plan = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1000, per_unit=ONE)
        assert plan.run().columns["n"] == [1]


def test_public_tables_of_several_files(visits: Path, tmp_path: Path, ledger: Ledger) -> None:
    for number, city in enumerate(("Bern", "Basel")):
        (tmp_path / f"canton{number}.csv").write_bytes(f"city,canton\n{city},Zürich\n".encode("cp1252"))
    (tmp_path / "ids.csv").write_text("person,city\n1,Bern\n2,Basel\n")
    public = {"cantons": [tmp_path / "canton0.csv", tmp_path / "canton1.csv"]}
    with Session(tmp_path / "ids.csv", ledger=ledger, public=public, encoding="cp1252") as session:
        sql = "SELECT canton, COUNT(*) AS n FROM ids JOIN cantons USING (city) GROUP BY canton"
        found = session.sql(sql, epsilon=1000, per_unit=ONE)
        assert found.columns["canton"] == ["Zürich"]
        assert found.columns["n"] == [2]


def test_a_converted_file_is_read_as_the_csv_files(visits: Path, tmp_path: Path, ledger: Ledger) -> None:
    (visits / "2026.csv").write_text('person,city\n6,"7"\n7,\n')
    out = tmp_path / "all.parquet"
    convert(visits, out)
    assert out.stat().st_mode & 0o077 == 0, "for its owner alone"
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT * FROM '{out}'").fetchall()
    ids = [int(row[0]) for row in rows]
    assert ids == [1, 2, 3, 4, 5, 6, 7], "in the order of the files"
    sql = "SELECT SUM(city) AS n, COUNT(city) AS m FROM t WHERE person > 2"
    answers = []
    for data in (visits, out):
        with Session({"t": data}, ledger=ledger) as session:
            found = session.sql(sql, epsilon=1000, bounds={"city": (0, 10, 1)}, per_unit=ONE)
            answers.append((session.tables[0].columns, round(found.columns["n"][0]), round(found.columns["m"][0])))
    assert answers[0] == answers[1]
    assert answers[0][1:] == (7, 1)


def test_converting_replaces_nothing(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    out.write_text("mine")
    with pytest.raises(FileExists):
        convert(visits, out)
    assert out.read_text() == "mine"
    convert(visits, out, overwrite=True)
    with pytest.raises(DataError, match="is Parquet already"):
        convert(out, tmp_path / "again.parquet")
    with pytest.raises(DataError, match=r"out\.csv must end in \.parquet"):
        convert(visits, tmp_path / "out.csv")
    (visits / "2027.csv").write_text('person,city\n1,"x\n')
    with pytest.raises(DataError, match="line 2: a quote is opened and never closed"):
        convert(visits, tmp_path / "new.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "visits"]


def test_versions_of_files_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("person\n1\n")
    files = Files.of(tmp_path / "a.csv")
    assert files.version
    (tmp_path / "a.csv").unlink()
    assert files.version == ()


def workbook(path: Path, rows: list[list[Any]], *, sheets: int = 1) -> Path:
    """An Excel file."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for i in range(1, sheets):
        book.create_sheet(f"more {i}")
    book.save(path)
    return path


def test_an_excel_file_is_read_like_csv(tmp_path: Path) -> None:
    """Texts, numbers, times, truth values and nothing: every column is text, read as what it is compared with."""
    path = workbook(
        tmp_path / "visits.xlsx",
        [
            ["patient_id", "cost", "day", "ok", "note"],
            [1, 2.5, datetime(2026, 1, 31), True, 'a "b", c'],
            ["p2", 7.0, datetime(2026, 2, 1, 12, 30), False, None],
            [],
            [3, None, None, None, "x\ny"],
        ],
    )
    dn.Ledger.create(tmp_path / "l", unit="patient_id", budget=dn.PureDP(10**12))
    with dn.Session(path, ledger=tmp_path / "l") as session:
        assert session.tables[0].names == ("patient_id", "cost", "day", "ok", "note")
        release = session.sql(
            "SELECT COUNT(*) AS n, SUM(cost) AS s, COUNT_IF(day < DATE '2026-02-01') AS d, COUNT_IF(ok = TRUE) AS k, "
            "COUNT(note) AS t FROM visits",
            epsilon=10**9, bounds={"cost": (0, 10)}, per_unit=dn.AtMost(groups=1, rows=9), cover=0,
        )  # fmt: skip
    assert [release.columns[name][0] for name in "nsdkt"] == [3, pytest.approx(9.5), 1, 1, 2]


def test_excel_files_that_are_refused(tmp_path: Path) -> None:
    dn.Ledger.create(tmp_path / "l", unit="row", budget=dn.PureDP(1))
    workbook(tmp_path / "two.xlsx", [["a"], [1]], sheets=2)
    (tmp_path / "broken.xlsx").write_bytes(b"PK")
    for name, words in [("two.xlsx", "has 2 sheets"), ("broken.xlsx", "could not be read as an Excel file")]:
        with pytest.raises(DataError, match=words):
            dn.Session(tmp_path / name, ledger=tmp_path / "l")


def test_a_data_set_of_pyarrow_is_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "visits"
    folder.mkdir()
    for year in (2025, 2026):
        pq.write_table(pa.table({"a": [year, 1]}), folder / f"{year}.parquet")
    dn.Ledger.create(tmp_path / "l", unit="row", budget=dn.PureDP(10**12))
    found = dataset.dataset(folder)
    for given in (found, {"visits": found}):
        with dn.Session(given, ledger=tmp_path / "l") as session:
            assert session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=10**9).columns["n"] == [4]
    (tmp_path / "parts" / "year=2026").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "parts" / "year=2026" / "x.parquet")
    for given, words in [
        (found.filter(dataset.field("a") > 1), "with a filter"),
        (dataset.dataset(tmp_path / "parts", partitioning="hive"), "names of folders are not read"),
        (dataset.dataset(pa.table({"a": [1]})), "local Parquet files"),
    ]:
        with pytest.raises(DataError, match=words):
            dn.Session({"visits": given}, ledger=tmp_path / "l")


@pytest.mark.parametrize(
    "address", ["s3://bucket/visits.parquet", "https://example.org/visits.csv", "az://x/y.parquet"]
)
def test_addresses_in_a_network_say_the_way(tmp_path: Path, address: str) -> None:
    dn.Ledger.create(tmp_path / "l", unit="row", budget=dn.PureDP(1))
    for given in (address, {"visits": address}):
        with pytest.raises(DataError, match=r"DuckDB's extension (httpfs|azure).* or download the file"):
            dn.Session(given, ledger=tmp_path / "l")
