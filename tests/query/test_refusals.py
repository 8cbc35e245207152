"""The bad-input table, line by line: one sentence with the remedy, and a ledger that did not change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import BudgetExceeded, DataError, InvalidArgument, LedgerMissing, QueryError
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session

GOOD: dict[str, Any] = {
    "epsilon": 0.5,
    "bounds": {"cost": (0, 5000)},
    "keys": {"city": ["Bern", "Basel"]},
    "per_unit": AtMost(groups=2, rows=4),
}
SQL = "SELECT city, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY city"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("refusals")
    pq.write_table(
        pa.table(
            {
                "patient_id": pa.array([1, 2], pa.int64()),
                "city": ["Bern", "Basel"],
                "cost": [10.0, 20.0],
                "age": pa.array([40, 50], pa.int32()),
                "day": pa.array([1, 2], pa.date32()),
                "flag": [True, False],
                "tags": pa.array([["a"], ["b"]]),
                "at": pa.array([1, 2], pa.timestamp("us", tz="UTC")),
            }
        ),
        place / "visits.parquet",
    )
    return place


@pytest.fixture(scope="module")
def ledger(folder: Path) -> Iterator[Ledger]:
    with Ledger.create(folder / "hospital.ledger", unit="patient_id", budget=PureDP(1)) as found:
        yield found


@pytest.fixture(scope="module")
def session(folder: Path, ledger: Ledger) -> Iterator[Session]:
    with Session(folder / "visits.parquet", ledger=ledger) as found:
        yield found


@pytest.fixture(autouse=True)
def _ledger_is_unchanged(ledger: Ledger) -> Iterator[None]:
    before = ledger.head()
    yield
    assert ledger.head() == before
    assert ledger.remaining() == PureDP(1, unit="patient_id")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": None}, "epsilon must be given, or error in its place"),
        ({"error": 5}, "error must be left out when epsilon is given"),
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"epsilon": -1}, "epsilon must be a positive number; got epsilon=-1"),
        ({"epsilon": float("nan")}, "epsilon must be a positive number"),
        ({"epsilon": float("inf")}, "epsilon must be a positive number"),
        ({"epsilon": "0.5"}, "epsilon must be a positive number"),
        ({"epsilon": True}, "epsilon must be a positive number"),
        ({"confidence": 1}, "confidence must be strictly between 0 and 1"),
        ({"bounds": {"cost": (5000, 0)}}, "low below high"),
        ({"bounds": {"cost": (5, 5)}}, "low below high"),
        ({"bounds": {"cost": (0, float("inf"))}}, "a pair of finite numbers"),
        ({"bounds": {"cost": (float("nan"), 1)}}, "a pair of finite numbers"),
        ({"bounds": {"cost": 5000}}, "a pair (low, high)"),
        ({"bounds": {"cost": "05"}}, "a pair (low, high)"),
        ({"bounds": {"cost": (0, 5000, 0)}}, "step"),
        ({"bounds": {"cost": (0, 5000, 1e-15)}}, "step"),
        ({"bounds": {"price": (0, 5000)}}, "has no column price"),
        ({"bounds": {"city": (0, 5000), "cost": (0, 1)}}, "bounds are for numbers; column city holds text"),
        ({"bounds": [("cost", (0, 1))]}, "a mapping from column"),
        ({"keys": None}, "GROUP BY city needs its keys declared"),
        ({"keys": {"ward": ["x"]}}, "has no column ward"),
        ({"keys": {"city": ["Bern"], "cost": [1]}}, "of MODE; got keys='cost'. To keep only some rows, write WHERE"),
        ({"keys": {"city": []}}, "at least one key"),
        ({"keys": {"city": "Bern"}}, "a list of keys"),
        ({"keys": {"city": ["Bern", "Bern"]}}, "without repetition"),
        ({"keys": {"city": ["Bern", None]}}, "A missing value cannot be a key"),
        ({"keys": {"city": ["Bern", 3]}}, "Column city holds text"),
        ({"per_unit": (2, 4)}, "per_unit must be limits"),
        ({"weights": {"m": 1}}, "weights must be about the aggregates n, cost"),
        ({"weights": {"n": 0}}, "weights['n'] must be a positive number"),
    ],
)  # fmt: skip
def test_arguments(session: Session, change: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidArgument, QueryError, DataError)) as caught:
        session.sql(SQL, **{**GOOD, **change})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "words", "place"),
    [
        ("", "the SQL is empty", None),
        ("-- nothing", "the SQL is empty", None),
        ("SELEC COUNT(*) FROM visits", "could not be read", None),
        ("SELECT COUNT(*) FROM visits WHERE (", "could not be read", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE city = 'B", "is not closed", None),
        ("DROP TABLE visits", "only SELECT", (1, 1)),
        ("FROM visits", "only SELECT", (1, 1)),
        ("SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits", "a second statement", (1, 37)),
        ("SELECT COUNT(*)", "FROM is missing", None),
        ("SELECT COUNT(*) FROM wards", "there is no table wards; the tables are visits", (1, 22)),
        ("SELECT COUNT(*) FROM 'visits.parquet'", "there is no table visits.parquet", None),
        ("SELECT COUNT(*) FROM read_parquet('visits.parquet')", "is not a table", None),
        ("SELECT COUNT(*) FROM main.visits", "a schema name", (1, 22)),
        ("SELECT COUNT(*) FROM visits, visits AS v", "visits cannot be joined to itself", (1, 30)),
        ("SELECT COUNT(*) FROM visits JOIN visits AS v USING (city)", "visits cannot be joined to itself", (1, 34)),
        ("SELECT COUNT(*) FROM visits JOIN wards USING (city)", "there is no table wards", (1, 34)),
        ("SELECT COUNT(*) FROM visits CROSS JOIN visits", "CROSS is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM visits FULL JOIN visits USING (city)", "FULL is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM visits NATURAL JOIN visits", "NATURAL is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM visits ANTI JOIN visits USING (city)", "ANTI is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 3)", "LIMIT within a subquery", None),
        ("SELECT COUNT(*) FROM visits AS v(a, b)", "columns with a table", None),
        ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", "TABLESAMPLE is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM visits LIMIT 3%", "is not supported", None),
        ("SELECT COUNT(*) FROM visits LIMIT -3", "LIMIT needs a whole number", None),
        ("SELECT COUNT(*) FROM visits LIMIT 1.5", "LIMIT needs a whole number", (1, 35)),
        ("SELECT COUNT(*) FROM visits OFFSET age", "OFFSET needs a whole number", (1, 36)),
        ("SELECT COUNT(*) FROM visits FETCH FIRST 3 ROWS ONLY", "FETCH is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM visits\nORDER BY 2", "ORDER BY 2 is not a place in the SELECT list", (2, 10)),
        ("SELECT COUNT(*) FROM visits ORDER BY cost", "cost is not released", (1, 38)),
        ("SELECT COUNT(*) AS n FROM visits ORDER BY n NULLS LAST", "NULLS is not supported; a release has", (1, 45)),
        ("SELECT COUNT(*) FROM visits ORDER BY ALL", "ALL is not supported", (1, 38)),
        ("SELECT COUNT(*) AS n FROM visits HAVING MODE(city) = 'x'", "MODE is selected by itself", (1, 41)),
        ("SELECT COUNT(*) AS n FROM visits HAVING n > age", "age is not released", (1, 45)),
        ("SELECT COUNT(*) AS n FROM visits HAVING n > 'x'", "n is a number; compare it with one", (1, 45)),
        ("SELECT COUNT(*) AS n FROM visits HAVING n + age > 3", "age is not released", (1, 45)),
        ("SELECT COUNT(*) AS n FROM visits HAVING n + 'x' > 3", "a number is needed here", (1, 45)),
        ("SELECT COUNT(*) AS n FROM visits HAVING n", "is not true or false", (1, 41)),
        ("SELECT COUNT(*) AS n FROM visits HAVING n LIKE 'x'", "is not supported of released numbers", (1, 41)),
        ("SELECT COUNT(*) FROM visits QUALIFY 1", "QUALIFY is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM visits WINDOW w AS ()", "WINDOW is not supported", (1, 29)),
        ("SELECT COUNT(*) FROM visits UNION SELECT 1", "UNION of answers is not supported", (1, 8)),
        ("WITH v AS (SELECT 1) SELECT COUNT(*) FROM v", "FROM is missing", (1, 19)),
        ("SELECT DISTINCT COUNT(*) FROM visits", "DISTINCT is not supported", None),
        ("SELECT COUNT(DISTINCT city, tags) FROM visits", "column tags is of type", (1, 8)),
        ("SELECT SUM(DISTINCT cost) FROM visits", "COUNT(DISTINCT column) only", (1, 8)),
        ("SELECT COUNT(DISTINCT tags) FROM visits", "COUNT(DISTINCT tags) is not supported", (1, 8)),
        ("SELECT MODE(city) FROM visits GROUP BY tags", "GROUP BY tags is not supported", (1, 40)),
        ("SELECT MODE(diagnosis) FROM visits", "has no column diagnosis", (1, 13)),
        ("SELECT SUM(ALL cost) FROM visits", "ALL is not supported", (1, 12)),
        ("SELECT COUNT(*) FILTER (WHERE age) FROM visits", "column age is not true or false", (1, 31)),
        ("SELECT city FILTER (WHERE age > 3) FROM visits", "could not be read", None),
        ("SELECT COUNT(*) OVER () FROM visits", "OVER is not supported", (1, 17)),
        ("SELECT AVG(cost ORDER BY age) FROM visits", "cost ORDER BY age is not supported", (1, 12)),
        ("SELECT COUNT(*) FROM visits GROUP BY ALL", "ALL is not supported", (1, 38)),
        ("SELECT COUNT(*) FROM visits GROUP BY ROLLUP (city)", "ROLLUP is not supported", (1, 38)),
        ("SELECT city, COUNT(*) FROM visits GROUP BY 3", "GROUP BY 3 is not a place in the SELECT list", (1, 44)),
        ("SELECT city, COUNT(*) FROM visits GROUP BY 2", "COUNT(*) is not supported here; an aggregate", (1, 14)),
        ("SELECT city, COUNT(*) FROM visits GROUP BY city, city", "stands twice", (1, 50)),
        ("SELECT city, COUNT(*) FROM visits GROUP BY upper(city)", "city is neither grouped nor aggregated", (1, 8)),
        ("SELECT city, COUNT(*) FROM visits GROUP BY md5(city)", "MD5(city) is not supported", (1, 44)),
        ("SELECT city, COUNT(*) FROM visits", "city is neither grouped nor aggregated", (1, 8)),
        ("SELECT city FROM visits GROUP BY city", "every key is declared", None),
        ("SELECT * FROM visits", "would release rows", (1, 8)),
        ("SELECT * EXCLUDE (city) FROM visits", "EXCLUDE is not supported", (1, 10)),
        ("SELECT SKEWNESS(cost) FROM visits", "is not supported; the aggregates are", (1, 8)),
        ("SELECT HISTOGRAM(cost) FROM visits", "for a histogram, COUNT(*) with GROUP BY WIDTH_BUCKET", (1, 8)),
        ("SELECT geomean(cost) FROM visits", "is not supported; the aggregates are", (1, 8)),
        ("SELECT MEDIAN(city) FROM visits", "city holds text; a number is needed here", (1, 15)),
        ("SELECT QUANTILE_CONT(cost, 1.5) FROM visits", "needs a number between 0 and 1", (1, 22)),
        ("SELECT QUANTILE_CONT(cost, age) FROM visits", "needs a number between 0 and 1", (1, 22)),
        ("SELECT QUANTILE_CONT(cost, [0.1, 9]) FROM visits", "needs a number between 0 and 1", (1, 22)),
        ("SELECT MODE(tags) FROM visits", "MODE(tags) is not supported", (1, 8)),
        ("SELECT MODE(age) FROM visits", "MODE(age) needs its categories declared", None),
        ("SELECT COUNT(*) + age FROM visits", "column age is neither grouped nor aggregated", (1, 19)),
        ("SELECT SUM(cost + AVG(cost)) FROM visits", "AVG(cost) is not supported", (1, 19)),
        ("SELECT COUNT(*) || 'x' FROM visits", "is not supported of released numbers", (1, 8)),
        ("SELECT SUM(city + 1) FROM visits", "city holds text; a number is needed here", (1, 12)),
        ("SELECT SUM(cost ^ age) FROM visits", "needs a whole number from 0 to 64 here", (1, 19)),
        ("SELECT SUM(ROUND(cost, age)) FROM visits", "needs a whole number from 0 to 15 here", (1, 24)),
        ("SELECT COUNT(SUBSTRING(city, age)) FROM visits", "needs a whole number from 0 to 10000", (1, 30)),
        ("SELECT COUNT(UPPER(age)) FROM visits", "a text is needed here, as in CAST(age AS TEXT)", (1, 20)),
        ("SELECT COUNT(YEAR(city)) FROM visits", "city holds text; a date or time is needed here", (1, 19)),
        ("SELECT COUNT(EXTRACT(epoch FROM day)) FROM visits", "EPOCH of a date is not supported", (1, 33)),
        ("SELECT COUNT(CASE WHEN age > 3 THEN 'a' ELSE 3 END) FROM visits", "must be of one kind", (1, 24)),
        ("SELECT COUNT(CASE WHEN age THEN 1 END) FROM visits", "column age is not true or false", (1, 24)),
        ("SELECT COUNT(REGEXP_REPLACE(city, 'a', 'b')) FROM visits", "is not supported", (1, 14)),
        ("SELECT SUM(RANDOM()) FROM visits", "RANDOM() is not supported", (1, 12)),
        ("SELECT COUNT(WIDTH_BUCKET(cost, 5, 0, 10)) FROM visits", "WIDTH_BUCKET needs two numbers", (1, 14)),
        ("SELECT cost // 2, COUNT(*) FROM visits GROUP BY 1", "// is not supported; write FLOOR(a / b)", (1, 13)),
        ("SELECT COUNT(CAST(city AS BLOB)) FROM visits", "is not supported", (1, 27)),
        ("SELECT COUNT() FROM visits", "write COUNT(*)", (1, 8)),
        ("SELECT COUNT(NULL) FROM visits", "is not supported", None),
        ("SELECT SUM(*) FROM visits", "write SUM(column)", (1, 8)),
        ("SELECT SUM(city) FROM visits", "column city holds text; CAST(city AS DOUBLE) reads", (1, 8)),
        ("SELECT AVG(flag) FROM visits", "write CASE WHEN flag THEN 1 ELSE 0 END, or COUNT_IF", (1, 8)),
        ("SELECT SUM(price) FROM visits", "has no column price", (1, 12)),
        ("SELECT SUM(w.cost) FROM visits", "w is not a table of this query", (1, 12)),
        ("SELECT visits.cost.x FROM visits", "is not supported", None),
        ("SELECT COUNT(*) AS n, SUM(cost) AS n FROM visits", "two columns n", None),
        ("SELECT COUNT(*) AS n, SUM(cost) AS N_low FROM visits", "two columns N_low", None),
        ("SELECT COUNT(*) FROM visits WHERE price > 3", "has no column price", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE city LIKE city", "LIKE is supported with a text", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE city ILIKE age", "ILIKE is supported with a text", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE city LIKE 'a!b' ESCAPE '!'", "stands before %, _ or itself", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE city LIKE 'a!%' ESCAPE 'ab'", "supported with one letter", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE day > day + INTERVAL '1 month 3 days'", "INTERVAL '3' DAY", None),
        ("SELECT COUNT(*) FROM visits WHERE day > day + INTERVAL age DAY", "is not supported", None),
        ("SELECT COUNT(*) FROM visits WHERE day > day + age", "add an INTERVAL to a time", (1, 41)),
        ("SELECT COUNT(*) FROM visits WHERE STRFTIME(day, '%A') = 'x'", "a format is made of", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE age LIKE '3%'", "age holds whole numbers; a text is needed", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE city IN (SELECT city FROM visits)", "would let one person decide", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1)", "EXISTS is not supported", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE SUM(cost) > 1", "SUM(cost) is not supported", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE CASE WHEN flag THEN 1 END", "is not true or false", (1, 45)),
        ("SELECT COUNT(*) FROM visits WHERE city = 5", "column city holds text; write the value in quot", (1, 42)),
        ("SELECT COUNT(*) FROM visits WHERE age = 'x'", "column age holds whole numbers; write a number", (1, 41)),
        ("SELECT COUNT(*) FROM visits WHERE flag = 1", "column flag holds true or false; write TRUE", (1, 42)),
        ("SELECT COUNT(*) FROM visits WHERE age", "column age is not true or false", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE 3", "3 is not true or false", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE 3 = 3", "3 = 3 compares two values", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE age = NULL", "write IS NULL", None),
        ("SELECT COUNT(*) FROM visits WHERE age IN (1, NULL)", "write IS NULL", None),
        ("SELECT COUNT(*) FROM visits WHERE age IN ()", "IN is supported with a list of values only", None),
        ("SELECT COUNT(*) FROM visits WHERE age IS 3", "IS is supported with NULL, TRUE and FALSE only", (1, 35)),
        ("SELECT COUNT(*) FROM visits WHERE age IS NOT TRUE", "age is not true or false", (1, 35)),
        ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city HAVING city <> 3", "in quotation marks", (1, 69)),
        ("SELECT COUNT(*) FROM visits WHERE age BETWEEN SYMMETRIC 5 AND 1", "SYMMETRIC is not supported", (1, 47)),
        ("SELECT COUNT(*) FROM visits WHERE city < age", "cannot be compared", (1, 35)),
        ("SELECT DISTINCT city FROM visits", "DISTINCT is not supported; GROUP BY gives each key once", None),
        ('SELECT COUNT(*) FROM visits WHERE city = "Bern"', "no column Bern; its columns are patient_id", (1, 42)),
        ('SELECT COUNT(*) FROM visits WHERE city = "Bern"', "; the text is written 'Bern'", (1, 42)),
        ("SELECT COUNT(*) FROM visits WHERE day < CURRENT_DATE", "write the day itself, as in DATE", (1, 41)),
        ("SELECT city, COUNT(*) FROM visits GROUP BY ALL", "ALL is not supported; name the columns", (1, 44)),
        ("SELECT COUNT(*) FROM visits WHERE tags = 'a'", "a type that cannot be compared", (1, 42)),
        ("SELECT COUNT(*) FROM visits WHERE at > '2026-01-31 12:00+01:00'", "without its zone, in UTC where", (1, 40)),
        ("SELECT COUNT(HOUR(at AT TIME ZONE 'CET')) FROM visits", "AT is not supported; times with a zone", (1, 22)),
        ("SELECT MAX(at) FROM visits", "a number is needed here; write DATE_DIFF('day', DATE ", (1, 12)),
        ("SELECT SUM(day) FROM visits", "column day holds dates; write DATE_DIFF('day', DATE ", (1, 8)),
        ("SELECT COUNT(*) FROM visits WHERE day > 'soon'", "column day holds dates; write a date", (1, 41)),
        ("SELECT COUNT(*) FROM visits WHERE day > DATE 'soon'", "is not a date", (1, 46)),
        ("SELECT COUNT(*) FROM visits WHERE day > TIMESTAMPTZ '2026-01-01 00:00:00'", "are read in UTC; wri", (1, 41)),
        ("SELECT COUNT(*) FROM visits WHERE cost > 1e999999999", "out of the range", (1, 42)),
        ("SELECT COUNT(*) FROM visits WHERE cost > 1e350", "out of the range", (1, 42)),
        ("SELECT COUNT(*) FROM visits WHERE age = ?", "? is not supported", (1, 41)),
        ("SELECT tags, COUNT(*) FROM visits GROUP BY tags", "GROUP BY tags is not supported", (1, 44)),
        ("SELECT COUNT(*) FROM visits WHERE " + "NOT (" * 3000 + "flag" + ")" * 3000, "", None),
    ],
)  # fmt: skip
def test_sql(session: Session, sql: str, words: str, place: tuple[int, int] | None) -> None:
    with pytest.raises(QueryError) as caught:
        session.sql(sql, **{**GOOD, "keys": GOOD["keys"] if "GROUP BY city" in sql else None})
    assert words in str(caught.value)
    if place is not None:
        assert (caught.value.line, caught.value.column) == place


def test_sql_is_text(session: Session) -> None:
    with pytest.raises(InvalidArgument, match="sql must be a SQL text"):
        session.sql(None, **GOOD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "is empty: not even column names"),
        ("empty.parquet", b"", "is empty"),
        ("wrong.parquet", b"patient_id,city\n1,Bern\n", "could not be read"),
        ("wrong.xls", b"PK", "must end in .csv, .csv.gz, .parquet or .xlsx"),
        ("latin.csv", "patient_id,größe\n1,2\n".encode("latin-1"), "line 1: bytes that are not UTF-8"),
        ("blank.csv", b"\npatient_id,city\n", "must hold the column names"),
        ("headless.csv", b"17,Bern,120\n18,Basel,80\n", "must hold the column names"),
        ("unnamed.csv", b"patient_id,,cost\n", "must hold the column names"),
        ("semicolons.csv", b"patient_id;city;cost\n17;Bern;3,5\n", "is separated by semicolons; save it with commas"),
        ("mixed.csv", b"patient_id;cost, CHF;city\n17;3,5;Bern\n", "is separated by semicolons"),
        ("tabs.csv", b"patient_id\tcity\n17\tBern\n", r"pandas.read_csv(..., sep='\t')"),
        ("twice.csv", b"patient_id,city,City\n", "columns 2 and 3 of twice.csv have one name"),
        ("nobody.csv", b"city,cost\nBern,3\n", "by the column patient_id, which table nobody does not have"),
    ],
)
def test_files(tmp_path: Path, ledger: Ledger, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        Session(tmp_path / name, ledger=ledger)
    assert words in str(caught.value)
    assert "17" not in str(caught.value), "no row may be quoted"


def test_missing_file_and_ledger(tmp_path: Path, folder: Path, ledger: Ledger) -> None:
    with pytest.raises(DataError, match="there is no file"):
        Session(tmp_path / "visits.csv", ledger=ledger)
    with pytest.raises(LedgerMissing):
        Session(folder / "visits.parquet", ledger=tmp_path / "other.ledger")


@pytest.mark.parametrize("data", [None, 7, {}, {"": "x.csv"}, {"a": object()}, {"a": {"x": [1]}}, [1, 2]])
def test_data_of_no_known_kind(ledger: Ledger, data: object) -> None:
    with pytest.raises((DataError, InvalidArgument)):
        Session(data, ledger=ledger)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (7, "got an int; name a frame by writing {'visits': frame}"),
        (None, "got None;"),
        (pl.LazyFrame({"patient_id": [1]}), "got a LazyFrame; name a frame"),
        ({"a": pl.LazyFrame({"patient_id": [1]})}, "got a LazyFrame; its collect() computes it"),
        ({"a": pd.Series([1])}, "got a Series; its to_frame() makes a table of it"),
        ({"a": np.zeros((2, 2))}, "got an ndarray; pandas.DataFrame makes"),
        ({"a": pd.DataFrame({"patient_id": [1], "z": [1j], "i": pd.interval_range(0, 1)})}, "cannot be read: z, i;"),
        ({"a": pl.DataFrame({"patient_id": [1], "z": pl.Series([()], dtype=pl.Object)})}, "cannot be read: z;"),
        ({"a": pa.table({"patient_id": [1], "z": pa.array([1], pa.decimal256(60, 2))})}, "cannot be read: z;"),
    ],
)
def test_data_that_are_nearly_a_table(ledger: Ledger, data: object, words: str) -> None:
    with pytest.raises(DataError) as caught:
        Session(data, ledger=ledger)
    assert words in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 3, ""])
def test_the_argument_that_is_no_ledger_is_named(folder: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"ledger must be a Ledger, or the path or address of one; got ledger="):
        Session(folder / "visits.parquet", ledger=wrong)


def test_two_tables_of_one_name(ledger: Ledger, folder: Path) -> None:
    with pytest.raises(InvalidArgument, match="differ by more than case"):
        Session({"a": folder / "visits.parquet", "A": folder / "visits.parquet"}, ledger=ledger)


def test_a_spent_budget(session: Session) -> None:
    with pytest.raises(BudgetExceeded, match=r"requested ε = 1\.5; remaining ε = 1"):
        session.sql(SQL, **{**GOOD, "epsilon": 1.5})


def test_limits_for_rows(folder: Path, tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "rows.ledger", unit="row", budget=PureDP(1)) as ledger:
        with Session(folder / "visits.parquet", ledger=ledger) as session:
            with pytest.raises(InvalidArgument, match="this ledger protects single rows"):
                session.sql("SELECT COUNT(*) FROM visits", epsilon=1, per_unit=AtMost(groups=2, rows=4))
            assert session.plan("SELECT COUNT(*) FROM visits", epsilon=1, per_unit=AtMost(groups=1, rows=1))
        assert not list(ledger.charges())


@pytest.mark.parametrize("wrong", [0, -1, 1.5, float("nan"), "2", None])
def test_limits(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="a whole number, 1 or more"):
        AtMost(groups=wrong, rows=1)
    with pytest.raises(InvalidArgument, match="a whole number, 1 or more"):
        AtMost(groups=1, rows=wrong)
