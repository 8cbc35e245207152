"""Who is who: two ids that differ are never read as one, whatever the table is made of.

A type that cannot keep ids apart is refused as the unit when a session is opened, by its type alone. In all others,
ids that differ stay so; one that cannot be read is nobody's, and its row is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session
from deniable.query.engines import DuckDB

ONE = AtMost(groups=1, rows=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "t.ledger", unit="p", budget=PureDP(10**6)) as found:
        yield found


def raw(type_: pa.DataType, values: list[bytes]) -> pa.Array:
    """Values of a fixed size, as they are in memory."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(b"".join(values))])


def whole(type_: pa.DataType, values: list[int]) -> pa.Array:
    return raw(type_, [value.to_bytes(type_.bit_width // 8, "little", signed=True) for value in values])


def texts(values: list[bytes | None], type_: pa.DataType | None = None) -> pa.Array:
    """Texts that need not be UTF-8."""
    stored = pa.array(values, pa.large_binary() if type_ == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(type_ or pa.string(), len(values), stored.buffers())


def ids_of(data: Any) -> list[Any]:
    """The ids as queries read them."""
    engine = DuckDB()
    try:
        table = engine.add("t", data, unit="p")
        assert table.find("p").merged is None
        return [row[0] for row in engine.look("SELECT p FROM temp.main.t")]
    finally:
        engine.close()


BROKEN = [b"\xff", b"\xfe", b"a\xc3(", b"\xed\xa0\x80", b"?", "\ufffd".encode(), b"ok"]
WHOLE: list[bytes] = [b"?", "\ufffd".encode(), b"ok"]


def in_parquet(array: Any, folder: Path, **options: Any) -> Path:
    pq.write_table(pa.table({"p": array}), folder / "t.parquet", **options)
    return folder / "t.parquet"


MIXED: list[Any] = [
    1, "1", " 1", "  1", 1.0, "1.0", True, "True", Decimal(1), Decimal("1.0000000000000000000001"), np.float32(0.1),
    0.1, 1 + 0j, date(2020, 1, 1), "2020-01-01", datetime(2020, 1, 1), "2020-01-01 00:00:00",
    datetime(2020, 1, 1, tzinfo=UTC), pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01 00:00:00.000000001"),
    np.datetime64("2020-01-01"), time(1), "01:00:00", timedelta(hours=1), timedelta(microseconds=1), pd.Timedelta(1),
    "1:00:00", np.timedelta64(1, "s"), b"a", "a", b"\xff", "ff", "b'a'", uuid.UUID(int=1), str(uuid.UUID(int=1)),
    10**400, str(10**400), -1, "", b"", "x" * 30 + "1", " " * 16 + "1", " " * 17 + "1", " " * 18 + "1", "nan", "None",
    np.str_("c"), np.bytes_(b"b"), np.longdouble(1) / 3,
]  # fmt: skip
"""Ids of which no two are one."""
NOBODY: list[Any] = [None, np.nan, pd.NaT, pd.NA, Decimal("NaN"), "\ud800", "\udfff a", 10**5000, object(), [1], (1, 2)]


@pytest.mark.parametrize("form", ["objects", "categories"])
def test_objects(form: str) -> None:
    series = pd.Series([*MIXED, *NOBODY], dtype=object)
    if form == "categories":
        known = list(dict.fromkeys(MIXED))  # pandas takes 1, 1.0 and True for one
        coded = pd.Categorical.from_codes(range(len(known)), categories=pd.Index(known, dtype=object))
        found = ids_of(pd.DataFrame({"p": coded}))
        assert len(set(found)) == len(known) == len(found)
        return
    found = ids_of(pd.DataFrame({"p": series}))
    assert None not in found[: len(MIXED)]
    assert len(set(found[: len(MIXED)])) == len(MIXED)
    assert set(found[len(MIXED) :]) == {None}


def test_equal_ids_stay_equal() -> None:
    same = [7, np.int64(7), np.uint8(7), np.int32(7)]
    assert len(set(ids_of(pd.DataFrame({"p": pd.Series(same, dtype=object)})))) == 1
    assert len(set(ids_of(pd.DataFrame({"p": pd.Series([0.0, -0.0, np.float64(0)], dtype=object)})))) == 1


def test_texts_of_objects_are_themselves(ledger: Ledger) -> None:
    """A text id is compared, joined and counted as it is; a number is compared with numbers."""
    frame = pd.DataFrame({"p": pd.Series(["a", "b", 3, 4.5, True], dtype=object)})
    with Session({"t": frame}, ledger=ledger) as session:
        for condition, number in (("p = 'a'", 1), ("p IN ('a', 'b')", 2), ("p = 3", 1), ("p > 1", 2), ("p = '3'", 0)):
            found = session.sql(f"SELECT COUNT(*) AS n FROM t WHERE {condition}", epsilon=1000, per_unit=ONE)
            assert found.columns["n"] == [number], condition


FORMS = ["arrow", "codes", "pandas", "pandas str", "parquet", "parquet, two files"]


@pytest.mark.parametrize(
    ("form", "type_"),
    [
        *((form, type_) for form in FORMS for type_ in (pa.string(), pa.large_string())),
        ("arrow", pa.string_view()),
        ("codes", pa.string_view()),
    ],
)
def test_texts_that_are_not_utf8(form: str, type_: pa.DataType, tmp_path: Path) -> None:
    """Such an id is nobody's; all others are as they are, a question mark among them."""
    if type_ == pa.string_view():
        array = texts(BROKEN).cast(pa.binary()).cast(pa.binary_view()).view(pa.string_view())
    else:
        array = texts(BROKEN, type_)
    data: Any = pa.table({"p": array})
    if form == "codes":
        codes = pa.array(range(len(BROKEN)), pa.int8())
        data = pa.table({"p": pa.DictionaryArray.from_arrays(codes, array)})
    elif form == "pandas":
        data = pd.DataFrame({"p": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))})
    elif form == "pandas str":
        stored = pd.arrays.ArrowStringArray(pa.chunked_array([array]))
        data = pd.DataFrame({"p": pd.Series(stored)})
    elif form == "parquet":
        data = in_parquet(array, tmp_path, row_group_size=2)
    elif form == "parquet, two files":
        pq.write_table(pa.table({"p": array.slice(0, 3)}), tmp_path / "a.parquet")
        pq.write_table(pa.table({"p": array.slice(3)}), tmp_path / "b.parquet")
        data = tmp_path / "*.parquet"
    found = ids_of(data)
    assert sorted(value for value in found if value is not None) == sorted(value.decode() for value in WHOLE)
    assert len(found) == len(BROKEN)


def test_broken_ids_and_names_of_the_engine(tmp_path: Path, ledger: Ledger) -> None:
    names = {"file": 1, "file_": 2, "filename": 3, "row": 4, "broken": 5, "every": 6}
    table = pa.table({"p": texts(BROKEN), **{name: [value] * len(BROKEN) for name, value in names.items()}})
    pq.write_table(table, tmp_path / "t.parquet")
    with Session(tmp_path / "t.parquet", ledger=ledger) as session:
        assert session.tables[0].names == ("p", *names)
        where = " AND ".join(f'"{name}" = {value}' for name, value in names.items())
        found = session.sql(f"SELECT COUNT(*) AS n FROM t WHERE {where}", epsilon=1000, per_unit=ONE)
        assert found.columns["n"] == [len(WHOLE)]
    renamed = table.rename_columns(["p", "file_row_number", *list(names)[1:]])
    whole = renamed.set_column(0, "p", pa.array(["a"] * len(renamed)))
    for each in (renamed, whole):  # whether an id is broken decides nothing
        pq.write_table(each, tmp_path / "t.parquet")
        with pytest.raises(DataError, match="is called file_row_number"):
            Session(tmp_path / "t.parquet", ledger=ledger)


def test_texts_of_pandas_with_half_a_pair() -> None:
    column = pd.Series(["\ud800", "\ud801", "?", "a", None], dtype=pd.StringDtype("python"))
    assert ids_of(pd.DataFrame({"p": column})) == [None, None, "?", "a", None]


EXACT: dict[str, Any] = {
    "whole numbers": pa.array([2**63 - 1, 2**63 - 2, -(2**63)]),
    "unsigned": pa.array([2**64 - 1, 2**64 - 2, 2**63], pa.uint64()),
    "floats": pa.array([2.0**53, 2.0**53 + 2, 5e-324, 1e308, np.inf, -np.inf]),
    "single floats": pa.array(np.array([1, 1 + 2**-23], np.float32)),
    "decimals": pa.array([Decimal(10**37), Decimal(10**37 + 1)], pa.decimal128(38, 0)),
    "decimals with places": pa.array([Decimal("0.1"), Decimal("0.1000000001")], pa.decimal128(38, 10)),
    "times": whole(pa.timestamp("us"), [2**62, 2**62 + 1, -(2**62), 0, 1]),
    "times in seconds": whole(pa.timestamp("s"), [2**42, 2**42 + 1]),
    "times with a zone": whole(pa.timestamp("us", "Asia/Tokyo"), [0, 1]),
    "dates": whole(pa.date32(), [0, 1, 2**30, 2**30 + 1]),
    "texts": pa.array(["a", "A", "a ", " a", "á", "a\u0301", "", "\0", "a\0"]),
    "codes of texts": pa.array(["a", "A", "a "]).dictionary_encode(),
    "codes of numbers": pa.array([2**63 - 1, 2**63 - 2]).dictionary_encode(),
    "true and false": pa.array([True, False]),
}


@pytest.mark.parametrize("form", ["arrow", "parquet", "pandas", "polars", "duckdb"])
@pytest.mark.parametrize("name", EXACT)
def test_types_that_keep_ids_apart(name: str, form: str, tmp_path: Path, ledger: Ledger) -> None:
    array = EXACT[name]
    data: Any = pa.table({"p": array})
    if form == "parquet":
        data = in_parquet(array, tmp_path)
    elif form == "pandas":
        data = pd.DataFrame({"p": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))})
    elif form == "polars":
        data = pl.from_arrow(data)
    elif form == "duckdb":
        with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
            connection.register("given", data)
            connection.execute("CREATE TABLE t AS FROM given")
        data = tmp_path / "t.duckdb"
    with Session({"t": data}, ledger=ledger) as session:
        found = session.sql("SELECT COUNT(DISTINCT p) AS n FROM t", epsilon=1000, per_unit=ONE)
        assert found.columns["n"] == [len(array)]


MERGED: dict[str, tuple[Any, str]] = {
    "nanoseconds": (whole(pa.timestamp("ns"), [1, 2]), "nanoseconds"),
    "nanoseconds with a zone": (whole(pa.timestamp("ns", "UTC"), [1, 2]), "nanoseconds"),
    "codes of nanoseconds": (whole(pa.timestamp("ns"), [1, 2]).dictionary_encode(), "nanoseconds"),
    "dates in milliseconds": (whole(pa.date64(), [1, 2]), "read in days"),
    "long decimals": (pa.array([Decimal(10**49), Decimal(10**49 + 1)], pa.decimal256(50, 0)), "p"),
    "bytes": (pa.array([b"a", b"b"]), "type BLOB"),
    "lists": (pa.array([["a"], ["b"]]), r"type VARCHAR\[\]"),
    "times of day": (whole(pa.time64("ns"), [1, 2]), "type TIME_NS"),
    "durations": (whole(pa.duration("s"), [1, 2]), "type INTERVAL"),
    "nothing": (pa.nulls(2), "cannot say who is who"),
}


@pytest.mark.parametrize("values", ["hostile", "plain", "none"])
@pytest.mark.parametrize("name", MERGED)
def test_types_that_do_not_are_refused_by_type(name: str, values: str, ledger: Ledger) -> None:
    array, words = MERGED[name]
    array = array if values == "hostile" else pa.nulls(2, array.type) if values == "plain" else array.slice(0, 0)
    with pytest.raises(DataError, match=words):
        Session({"t": pa.table({"p": array})}, ledger=ledger)


@pytest.mark.parametrize("rows", [2, 0])
def test_types_of_files_and_frames_that_are_refused(rows: int, tmp_path: Path, ledger: Ledger) -> None:
    times = whole(pa.timestamp("ns"), [1, 2]).slice(0, rows)
    decimals = pa.array([Decimal(1), Decimal(2)], pa.decimal256(50, 0)).slice(0, rows)
    frame = pd.DataFrame({"p": np.array([1, 2], "datetime64[ns]")[:rows]})
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT MAKE_TIMESTAMP_NS(i) AS p FROM RANGE({rows}) AS r(i)")
        for data, words in (
            (in_parquet(times, tmp_path), "nanoseconds"),
            ({"t": frame}, "nanoseconds"),
            ({"t": frame.astype("category")}, "nanoseconds"),
            ({"t": pl.DataFrame({"p": pl.Series([1, 2], dtype=pl.Datetime("ns"))})[:rows]}, "nanoseconds"),
            (connection, "nanoseconds"),
        ):
            with pytest.raises(DataError, match=f"cannot say who is who: .*{words}.*two ids could become one"):
                Session(data, ledger=ledger)
    for array, options, words in (
        (times, {"use_deprecated_int96_timestamps": True}, "nanoseconds"),
        (decimals, {}, "more than 38 digits"),
    ):
        with pytest.raises(DataError, match=words):
            Session(in_parquet(array, tmp_path, **options), ledger=ledger)


@pytest.mark.parametrize("missing", [False, True])
def test_a_missing_value_decides_no_type(missing: bool) -> None:
    """pandas makes floats of whole numbers with a gap; a column of categories has a type that both have."""
    kinds: dict[str, tuple[list[Any], Any]] = {
        "INTEGER": ([1, 2], int),
        "TEXT": (["a", "b"], "string"),
        "BOOLEAN": ([True, False], bool),
        "REAL": ([1.5, 2.5], float),
        "UNTYPED": ([1, "1"], object),
    }
    for kind, (values, type_) in kinds.items():
        given = pd.Categorical([*values, None] if missing else values, categories=pd.Index(values, dtype=type_))
        engine = DuckDB()
        assert engine.add("t", pd.DataFrame({"p": given})).find("p").kind.name == kind
        engine.close()


def test_removing_one_person_moves_a_count_by_one() -> None:
    """Two people whose ids were read as one moved it by two."""
    for first, second in ((1, "1"), ("\ud800", "\ud801"), (b"a", "a"), (1, 1.0)):
        found = []
        for ids in ([first, second], [second]):
            engine = DuckDB()
            engine.add("t", pd.DataFrame({"p": pd.Series(ids, dtype=object)}), unit="p")
            found += engine.look("SELECT COUNT(DISTINCT p), COUNT(p) FROM temp.main.t")
            engine.close()
        assert all(different == rows for different, rows in found)
