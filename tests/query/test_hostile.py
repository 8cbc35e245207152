"""After the charge nothing raises because of data: tables of every kind, full of what is hard to read, are asked
everything. What cannot be asked of a table is refused by its plan, which looks at types only."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.errors import DataError, DeniableError
from deniable.guarantees import ApproxDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session


class Broken:
    """An object that can do nothing."""

    def __str__(self) -> str:
        raise RuntimeError("secret")

    __repr__ = __str__


TEXTS = [
    "", "a", " ", "\0", "é", "\U0001f600", "'", '"', ",", "\n", "\r", "\ufeff", "\\", "1", "1.0", "1e400", "nan",
    "-1e400", "infinity", "9" * 400, "true", "2026-01-31", "2026-02-30", "99999-01-01", "294247-01-10 04:00:54.775806",
    "x" * 20_000, "$key_1", "5e-324", "-0", "NULL",
]  # fmt: skip
FLOATS = [0.0, -0.0, 1.5, -1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2.0**63]
WHOLE = [0, 1, -1, 2**31, 2**53, 2**63 - 1, -(2**63)]
TIMES = [0, 10**15, 2**63 - 1, -(2**63), -(2**63) + 1, -(2**63) + 2]
TYPED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), TEXTS),
    (pa.float64(), FLOATS),
    (pa.float32(), FLOATS),
    (pa.int64(), WHOLE),
    (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.int8(), [-128, 127, 0]),
    (pa.bool_(), [True, False]),
    (pa.date32(), [0, 20_000, 2**31 - 1, -(2**31)]),
    (pa.timestamp("us"), TIMES),
    (pa.timestamp("ns"), TIMES),
    (pa.timestamp("s"), TIMES),
    (pa.timestamp("us", tz="UTC"), TIMES),
    (pa.timestamp("s", tz="Asia/Tokyo"), TIMES),
    (pa.decimal128(38, 2), [Decimal("1.50"), Decimal("9" * 35 + ".99"), Decimal("-" + "9" * 35 + ".99")]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    (pa.binary(), [b"", b"\xff\0"]),
    (pa.list_(pa.int64()), [[], [1]]),
    (pa.null(), [None]),
]
OBJECTS = [*TEXTS, *FLOATS, *WHOLE, Broken(), [Broken()], 10**5000, Decimal("sNaN"), b"\xff", pd.NA, pd.NaT, "\ud800"]
BYTES = [b"1", b",", b"\n", b"\r", b'"', b"\xff", b"\0", b"1,2,3\n", b"a,b\n", b"1,2,3,4\n", b'"a""b"', b"\xef\xbb\xbf"]

AGGREGATES = [
    "COUNT(*)", "COUNT(a)", "SUM(a)", "AVG(a)", "STDDEV(a)", "MEDIAN(a)", "MODE(b)", "COUNT(DISTINCT p)",
    "COUNT(DISTINCT b)", "SUM(LN(a))", "SUM(LENGTH(b))", "COUNT_IF(b LIKE '%a%')", "SUM(YEAR(b))", "SUM(a / a)",
    "SUM(CAST(b AS INTEGER))", "COUNT(DISTINCT CAST(b AS TEXT))", "COUNT_IF(CAST(a AS TEXT) < 'x')",
]  # fmt: skip
BOUNDS = {"LN(a)": (0, 9), "LENGTH(b)": (0, 9), "YEAR(b)": (0, 9), "a / a": (0, 9), "CAST(b AS INTEGER)": (0, 9)}
GROUPS = ["", "", "a", "b", "UPPER(b)", "MONTH(b)", "DATE_TRUNC('month', b)", "WIDTH_BUCKET(a, 0, 10, 3)", "a IS NULL"]
WHERE = ["", "", "WHERE a > 0", "WHERE b = 'a'", "WHERE a IN (1, 2)", "WHERE b < DATE '2030-01-01'", "WHERE a % 2 = 0"]


def column(draw: Callable[..., Any], size: int) -> pa.Array:
    type_, values = draw(st.sampled_from(TYPED))
    held = draw(st.lists(st.sampled_from([None, *values]), min_size=size, max_size=size))
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return pa.array(held, pa.int64() if pa.types.is_timestamp(type_) else pa.int32()).cast(type_)
    return pa.array(held, type_)


def table(draw: Callable[..., Any], home: Path) -> Any:
    """A table t of p, a and b."""
    kind = draw(st.sampled_from(["arrow", "parquet", "pandas", "objects", "polars", "duckdb", "csv", "bytes"]))
    size = draw(st.sampled_from([0, 1, 3, 12]))
    if kind == "objects":
        rows = st.lists(st.sampled_from(OBJECTS), min_size=size, max_size=size)
        return pd.DataFrame({name: pd.Series(draw(rows), dtype=object) for name in "pab"})
    if kind == "csv":
        with (home / "t.csv").open("w", newline="", encoding="utf-8") as file:
            rows = st.lists(st.tuples(*[st.sampled_from(TEXTS)] * 3), min_size=size, max_size=size)
            csv.writer(file).writerows([("p", "a", "b"), *draw(rows)])
        return home / "t.csv"
    if kind == "bytes":
        (home / "t.csv").write_bytes(b"p,a,b\n" + b"".join(draw(st.lists(st.sampled_from(BYTES), max_size=40))))
        return home / "t.csv"
    found = pa.table({name: column(draw, size) for name in "pab"})
    try:
        if kind == "parquet":
            pq.write_table(found, home / "t.parquet")
            return home / "t.parquet"
        if kind == "pandas":
            return found.to_pandas(types_mapper=draw(st.sampled_from([None, pd.ArrowDtype])))
        if kind == "polars":
            return pl.from_arrow(found)
        if kind == "duckdb":
            connection = duckdb.connect()
            connection.register("given", found)
            connection.execute("CREATE TABLE t AS FROM given")
            return connection
    except (ValueError, pa.ArrowException, pl.exceptions.PolarsError, duckdb.Error):
        pass  # that kind of table cannot hold these
    return found


def question(draw: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """A query, and what it needs."""
    group, several = draw(st.sampled_from(GROUPS)), st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3)
    asked = [f"{aggregate} AS x{i}" for i, aggregate in enumerate(draw(several))]
    sql = f"SELECT {', '.join([*([f'{group} AS k'] if group else []), *asked])} FROM t {draw(st.sampled_from(WHERE))}"
    sql += f" GROUP BY {group}" if group else ""
    stated = {"a": (-10, 10)} | {text: ends for text, ends in BOUNDS.items() if text in sql}
    options: dict[str, Any] = {"bounds": draw(st.sampled_from([stated, stated, "private"]))}
    keys = {"b": ["a", "b"]} if "MODE" in sql else {}
    listed = st.sampled_from([None, None, ["a", "b"], [1, 2, 3], [True], [1.5]])
    found = draw(listed)
    keys |= {group: found} if group and found is not None else {}
    options |= {"keys": keys} if keys else {}
    return sql, options | {"diagnose": draw(st.sampled_from([None, None, 0.1]))}


@pytest.fixture(scope="module", params=["p", "row"])
def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("ledger") / "of.ledger"
    with Ledger.create(path, unit=request.param, budget=ApproxDP(10**12, 0.5)) as found:
        yield found


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_raises_after_the_charge(data: st.DataObject, ledger: Ledger, tmp_path: Path) -> None:
    try:
        session = Session({"t": table(data.draw, tmp_path)}, ledger=ledger)
    except DataError:
        return  # of a type that cannot say who is who, or cannot be read
    with session:
        for _ in range(3):
            sql, options = question(data.draw)
            if ledger.unit.column is not None:
                limits = [AtMost(groups=1, rows=1), AtMost(groups=2, rows=3), AtMost(groups=70, rows=2), "private"]
                options["per_unit"] = data.draw(st.sampled_from(limits))
            try:
                plan = session.plan(sql, epsilon=1000, **options)
            except DeniableError:
                continue
            release = plan.run()
            assert str(release)
            assert release.to_csv()
            assert release.to_json()
            assert release.to_arrow().num_columns == len(release.to_pandas().columns)
