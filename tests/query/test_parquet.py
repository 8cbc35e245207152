"""Parquet files: no value in a file that was written well makes a query fail after its charge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError, QueryError
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session

ONE = AtMost(groups=1, rows=1)
FAR = [0, 2**63 - 1, -(2**63), 10**15]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "t.ledger", unit="p", budget=PureDP(10**6)) as found:
        yield found


def whole(type_: pa.DataType, values: list[int]) -> pa.Array:
    stored = b"".join(value.to_bytes(type_.bit_width // 8, "little", signed=True) for value in values)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(stored)])


def write(folder: Path, column: Any, name: str = "t.parquet", **options: Any) -> Path:
    pq.write_table(pa.table({"p": range(len(column)), "x": column}), folder / name, **options)
    return folder / name


@pytest.mark.parametrize("statistics", [True, False, ["p"]])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_far_times_in_milliseconds_are_refused_at_the_opening(
    statistics: Any, zone: str | None, tmp_path: Path, ledger: Ledger
) -> None:
    path = write(tmp_path, whole(pa.timestamp("ms", zone), FAR), write_statistics=statistics)
    with pytest.raises(DataError, match=r"t\.parquet has a time that is too far away to be read"):
        Session(path, ledger=ledger)
    assert list(ledger.charges()) == []


def test_one_far_time_among_many_files(tmp_path: Path, ledger: Ledger) -> None:
    near, far = (whole(pa.timestamp("ms"), [0, last]) for last in (1, 2**62))
    write(tmp_path, near, "a.parquet")
    write(tmp_path, far, "b.parquet", write_statistics=False)
    with pytest.raises(DataError, match="has a time that is too far away"):
        Session({"t": tmp_path / "*.parquet"}, ledger=ledger)


def test_a_far_time_of_another_column_is_not_one_in_milliseconds(tmp_path: Path, ledger: Ledger) -> None:
    table = pa.table({"p": range(4), "x": whole(pa.timestamp("us"), FAR), "y": whole(pa.timestamp("ms"), [0, 1, 2, 3])})
    pq.write_table(table, tmp_path / "t.parquet")
    with Session(tmp_path / "t.parquet", ledger=ledger) as session:
        session.sql("SELECT COUNT(x) AS n, COUNT(y) AS m FROM t", epsilon=1, per_unit=ONE)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_other_times_are_asked(unit: str, zone: str | None, statistics: bool, tmp_path: Path, ledger: Ledger) -> None:
    values = [0, 10**12, 4 * 10**12] if unit == "ms" else FAR
    path = write(tmp_path, whole(pa.timestamp(unit, zone), values), write_statistics=statistics)
    with Session(path, ledger=ledger) as session:
        for sql in (
            "SELECT COUNT(x) AS n FROM t",
            "SELECT COUNT(*) AS n FROM t WHERE x > TIMESTAMP '2000-01-01 00:00:00'",
        ):
            session.sql(sql, epsilon=1, per_unit=ONE)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "type_", [pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(30, 5), pa.decimal128(20, 0)]
)
def test_decimals_beyond_their_digits_are_no_values(
    type_: pa.DataType, form: str, tmp_path: Path, ledger: Ledger
) -> None:
    """They fit the 128 bits, and DuckDB's casts of them fail."""
    limit = 10**type_.precision
    column = whole(type_, [0, 2**127 - 1, -(2**127), limit, limit - 1, 1 - limit])
    data: Any = {"t": pa.table({"p": range(6), "x": column})}
    with Session(write(tmp_path, column) if form == "parquet" else data, ledger=ledger) as session:
        for sql in (
            "SELECT SUM(x) AS n FROM t", "SELECT COUNT(*) AS n FROM t WHERE CAST(x AS TEXT) <> ''",
            "SELECT COUNT(DISTINCT x) AS n FROM t", "SELECT COUNT(*) AS n FROM t WHERE x > 0.5",
        ):  # fmt: skip
            session.sql(sql, epsilon=1, bounds={"x": (0, 10)} if "SUM" in sql else None, per_unit=ONE)
        found = session.sql("SELECT COUNT(x) AS n FROM t", epsilon=1000, per_unit=ONE)
        # A writer of Parquet keeps as many bytes as the digits of the type need.
        assert found.columns["n"] == [3] or (form == "parquet" and type_.precision < 38)


def test_small_decimals_beyond_their_digits_are_no_values(ledger: Ledger) -> None:
    """DuckDB would keep their last 64 bits."""
    column = whole(pa.decimal128(18, 2), [0, 2**127 - 1, 10**18, 10**18 - 1])
    with Session({"t": pa.table({"p": column, "x": column})}, ledger=ledger) as session:
        found = session.sql("SELECT COUNT(x) AS n, COUNT(DISTINCT p) AS m FROM t", epsilon=1000, per_unit=ONE)
        assert (found.columns["n"], found.columns["m"]) == ([2], [2])


@pytest.mark.parametrize(
    "type_", ["JSON", "TIME", "INTERVAL", "TIME_NS", "TIMESTAMP[]", "STRUCT(a INTEGER, b TIME)", "MAP(VARCHAR, JSON)"]
)
def test_types_that_fail_when_they_are_read_cannot_be_asked(type_: str, tmp_path: Path, ledger: Ledger) -> None:
    duckdb.sql(f"SELECT 1 AS p, NULL::{type_} AS x").write_parquet(str(tmp_path / "t.parquet"))
    with Session(tmp_path / "t.parquet", ledger=ledger) as session:
        for sql in ("SELECT COUNT(x) AS n FROM t", "SELECT COUNT(*) AS n FROM t WHERE x IS NULL"):
            with pytest.raises(QueryError, match="cannot be asked: some values fail when they are read"):
                session.plan(sql, epsilon=1, per_unit=ONE)
        session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1, per_unit=ONE)


@pytest.mark.parametrize(
    "type_", ["BLOB", "INTEGER[]", 'STRUCT(a INTEGER, "TIME" VARCHAR)', "MAP(VARCHAR, DATE)", "BIT"]
)
def test_types_that_do_not_are_counted(type_: str, tmp_path: Path, ledger: Ledger) -> None:
    duckdb.sql(f"SELECT 1 AS p, NULL::{type_} AS x").write_parquet(str(tmp_path / "t.parquet"))
    with Session(tmp_path / "t.parquet", ledger=ledger) as session:
        session.sql("SELECT COUNT(x) AS n FROM t", epsilon=1, per_unit=ONE)


def test_lists_of_texts_that_are_not_utf8(tmp_path: Path, ledger: Ledger) -> None:
    stored = pa.array([b"\xff", b"\xfe"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, stored.buffers())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts)
    structs = pa.StructArray.from_arrays([texts], names=["a"])
    fixed = pa.FixedSizeListArray.from_arrays(texts, 1)
    json = [pa.ExtensionArray.from_storage(pa.json_(), texts)] if hasattr(pa, "json_") else []
    for column in (lists, structs, fixed, *json):
        plain = isinstance(column.type, pa.BaseExtensionType)
        for data in ({"t": pa.table({"p": [1, 2], "x": column})}, write(tmp_path, column)):
            with Session(data, ledger=ledger) as session:
                if not plain:
                    found = session.sql("SELECT COUNT(x) AS n FROM t WHERE x IS NOT NULL", epsilon=1000, per_unit=ONE)
                    assert found.columns["n"] == [2]
                else:
                    session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1, per_unit=ONE)


def test_codes_outside_of_their_list_are_refused(ledger: Ledger) -> None:
    for code in (5, -1):
        column = pa.DictionaryArray.from_arrays(pa.array([0, code], pa.int8()), pa.array(["a"]), safe=False)
        with pytest.raises(DataError, match="column x is not valid Arrow"):
            Session({"t": pa.table({"p": [1, 2], "x": column})}, ledger=ledger)


@pytest.mark.parametrize("names", [["p", "P"], ["x", "X", "p"], ["p", ""]])
def test_names_that_the_engine_would_change(names: list[str], tmp_path: Path, ledger: Ledger) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * len(names), names=names), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"has two columns|has a column without a name"):
        Session(tmp_path / "t.parquet", ledger=ledger)


@pytest.mark.parametrize("content", [b"x" * 100, b"PAR1", b"PAR1" + b"\0" * 50 + b"PAR1"])
def test_a_file_that_is_not_parquet(content: bytes, tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"t\.parquet could not be read; check that it is whole, and Parquet"):
        Session(tmp_path / "t.parquet", ledger=ledger)


def test_a_file_that_is_cut(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path, pa.array(range(1000)))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="could not be read"):
        Session(path, ledger=ledger)


def test_a_mark_makes_texts_untyped(tmp_path: Path, ledger: Ledger) -> None:
    """The mark that `convert` sets is about texts alone."""
    options = "FORMAT parquet, KV_METADATA {deniable: 'columns without types'}"
    sql = f"COPY (SELECT 1 AS p, '2' AS x, 3.5::DOUBLE AS y) TO '{tmp_path / 't.parquet'}' ({options})"
    with duckdb.connect() as connection:
        connection.execute(sql)
    with Session(tmp_path / "t.parquet", ledger=ledger) as session:
        assert [column.kind.name for column in session.tables[0].columns] == ["INTEGER", "UNTYPED", "REAL"]
