"""Derived columns: what each function gives, that no row can make one fail, and that ranges hold."""

from __future__ import annotations

import math
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deniable.errors import QueryError
from deniable.query.reading import read
from deniable.query.schema import Column, ColumnKind, Table

COLUMNS = {
    "x": (ColumnKind.REAL, "DOUBLE", pa.float64()),
    "y": (ColumnKind.REAL, "DOUBLE", pa.float64()),
    "i": (ColumnKind.INTEGER, "BIGINT", pa.int64()),
    "j": (ColumnKind.INTEGER, "INTEGER", pa.int32()),
    "s": (ColumnKind.TEXT, "VARCHAR", pa.string()),
    "u": (ColumnKind.UNTYPED, "VARCHAR", pa.string()),
    "d": (ColumnKind.DATE, "DATE", pa.date32()),
    "w": (ColumnKind.TIMESTAMP, "TIMESTAMP", pa.timestamp("us")),
    "b": (ColumnKind.BOOLEAN, "BOOLEAN", pa.bool_()),
}
TABLE = Table("t", tuple(Column(name, kind, type) for name, (kind, type, _) in COLUMNS.items()))
BOUNDS = {"x": (Fraction(-4), Fraction(9)), "y": (Fraction(1, 2), Fraction(3)), "i": (Fraction(-7), Fraction(8))}


def derived(text: str) -> Column:
    """A text as a query would read it."""
    question = read(f"SELECT {text} AS c, COUNT(*) FROM t GROUP BY {text}", (TABLE,), BOUNDS)
    return question.groups[0]


@pytest.fixture(scope="module")
def engine() -> Any:
    with duckdb.connect() as connection:
        yield connection


def evaluated(engine: Any, columns: list[Column], rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    table = pa.table({n: pa.array([row.get(n) for row in rows], type) for n, (_, _, type) in COLUMNS.items()})
    engine.register("frame", table)
    listed = ", ".join(f"{c.sql or 't.' + c.name}" for c in columns)
    return list(engine.execute(f"SELECT {listed} FROM frame AS t").fetchall())


ROW = {
    "x": 2.5, "y": -3.0, "i": 17, "j": 5, "s": "Bern Süd", "u": "12.5", "d": date(2026, 3, 31), "b": True,
    "w": datetime(2026, 3, 31, 13, 45, 10),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y", -0.5), ("x - y", 5.5), ("x * y", -7.5), ("x / y", 2.5 / -3), ("x / (x - x)", None), ("-x", -2.5),
        ("i + j * 2", 27), ("i - j", 12), ("i / j", 3.4), ("i % j", 2), ("-i % 5", -2), ("i % 0", None), ("x % 2", 0.5),
        ("i * 1000000000000000000", None), ("2 * (x + 1)", 7.0), ("u + 1", 13.5), ("i + x", 19.5), ("i ** 2", 289.0),
        ("x ^ 3", 15.625), ("POWER(x, 0)", 1.0), ("ABS(y)", 3.0), ("ABS(i - 20)", 3.0), ("FLOOR(y / 2)", -2),
        ("CEIL(y / 2)", -1), ("CEILING(x)", 3), ("ROUND(x)", 3), ("ROUND(x / 3, 2)", 0.83), ("SIGN(y)", -1),
        ("SQRT(x + 0.75)", math.sqrt(3.25)), ("SQRT(y)", None), ("LN(x)", math.log(2.5)), ("LN(y)", None),
        ("LN(x - x)", None), ("EXP(x)", math.exp(2.5)), ("EXP(i * 1000)", math.inf), ("LEAST(x, y, 4)", -3.0),
        ("GREATEST(i, j)", 17), ("LEAST(x, NULL)", 2.5), ("COALESCE(NULL, x)", 2.5), ("COALESCE(y / 0, i)", 17.0),
        ("NULLIF(j, 5)", None), ("NULLIF(j, 6)", 5), ("NULLIF(s, 'x')", "Bern Süd"),
        ("CASE WHEN x > 2 THEN 'high' ELSE 'low' END", "high"), ("CASE WHEN x > 3 THEN 1 END", None),
        ("CASE j WHEN 4 THEN 1 WHEN 5 THEN x ELSE 0 END", 2.5), ("IF(b, i, j)", 17),
        ("CASE WHEN b THEN d END", ROW["d"]),
        ("CASE WHEN x > 2 AND NOT (s = 'a' OR y IS NULL) THEN 1 ELSE 0 END", 1), ("COUNT_ME", "refused"),
        ("CAST(u AS DOUBLE)", 12.5), ("u::INT", 13), ("TRY_CAST(s AS BIGINT)", None), ("CAST(x AS BIGINT)", 2),
        ("CAST(i AS TEXT)", "17"), ("CAST('2026-02-30' AS DATE)", "refused"), ("CAST(u AS DATE)", None),
        ("CAST(d AS TIMESTAMP)", datetime(2026, 3, 31)), ("CAST(w AS DATE)", date(2026, 3, 31)),
        ("CAST(j AS BOOLEAN)", True),
        ("CAST(1e30 * x AS INT)", None), ("UPPER(s)", "BERN SÜD"), ("LOWER(s)", "bern süd"), ("TRIM('  a ')", "a"),
        ("LENGTH(s)", 8), ("SUBSTRING(s, 2, 3)", "ern"), ("SUBSTR(s, 6)", "Süd"), ("LEFT(s, 4)", "Bern"),
        ("RIGHT(s, 3)", "Süd"), ("LEFT(s, 0)", ""), ("s || '!' || u", "Bern Süd!12.5"), ("CONCAT(s, u)",
        "Bern Süd12.5"),
        ("REPLACE(s, 'Bern', 'B')", "B Süd"), ("STARTS_WITH(s, 'Be')", True), ("CONTAINS(s, 'x')", False),
        ("s LIKE 'B%S_d'", True), ("YEAR(d)", 2026), ("MONTH(d)", 3), ("DAY(d)", 31), ("QUARTER(w)", 1),
        ("WEEK(d)", 14),
        ("DAYOFWEEK(d)", 2), ("DAYOFYEAR(d)", 90), ("HOUR(w)", 13), ("MINUTE(w)", 45), ("HOUR(d)", 0),
        ("EXTRACT(year FROM w)", 2026), ("DATE_PART('month', d)", 3), ("EXTRACT(isodow FROM d)", 2),
        ("YEAR(u)", None), ("MONTH('2026-05-01')",
        "refused"),
        ("DATE_TRUNC('month', d)", date(2026, 3, 1)), ("DATE_TRUNC('hour', w)", datetime(2026, 3, 31, 13)),
        ("DATE_DIFF('day', DATE '2026-03-01', d)", 30), ("DATEDIFF('hour', d, w)", 13), ("x > 2", True),
        ("x > 2 AND b", True),
        ("d BETWEEN '2026-01-01' AND '2026-12-31'", True), ("WIDTH_BUCKET(x, 0, 10, 5)", 2),
        ("WIDTH_BUCKET(y, 0, 10, 5)", 0), ("WIDTH_BUCKET(i, 0, 10, 5)", 6), ("WIDTH_BUCKET(j, 0, 5, 5)", 6),
    ],
)  # fmt: skip
def test_values(engine: Any, text: str, expected: Any) -> None:
    if expected == "refused":
        with pytest.raises(Exception, match=r"not a date|has no column|a date or time is needed"):
            derived(text)
        return
    column = derived(text)
    ((found,),) = evaluated(engine, [column], [ROW])
    assert found == pytest.approx(expected) if isinstance(expected, float) else found == expected
    assert type(found) is type(expected) or expected is None


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("x + y", Fraction(-7, 2), 12), ("x - y", -7, Fraction(17, 2)), ("x * y", -12, 27), ("x / y", -8, 18),
        ("y / x", None, None), ("-x", -9, 4), ("i % 3", -3, 3), ("ABS(i) % 3", 0, 3), ("ABS(x)", 0, 9),
        ("ABS(y)", Fraction(1, 2), 3),
        ("FLOOR(y)", 0, 3), ("CEIL(y)", 1, 3), ("ROUND(y)", 0, 3), ("x ** 2", 0, 81), ("x ** 3", -64, 729),
        ("LEAST(x, y)", -4, 9), ("CASE WHEN b THEN x ELSE 20 END", -4, 20), ("CASE WHEN b THEN i END", -7, 8),
        ("COALESCE(x, 0)", -4, 9), ("CAST(y AS INT)", 0, 3), ("SIGN(x)", -1, 1), ("MONTH(d)", 1, 12),
        ("j + 1", None, None),
        ("CASE WHEN b THEN x ELSE j END", None, None), ("EXP(x * 1000)", None, None), ("LN(x)", None, None),
        ("3 * 4", 12, 12),
        ("WIDTH_BUCKET(j, 0, 1, 7)", 0, 8), ("LENGTH(s)", None, None), ("ROUND(x / 3, 1)", Fraction(-14, 10), 3),
    ],
)  # fmt: skip
def test_ranges(text: str, low: Any, high: Any) -> None:
    column = derived(text)
    assert (column.low, column.high) == (low, high)


def test_texts_stay_short(engine: Any) -> None:
    """Nested concatenation is cut at every step, and REPLACE cannot make a text longer: no row can fill the memory."""
    text = "s"
    for _ in range(6):
        text = f"({text} || {text})"
    ((found,),) = evaluated(engine, [derived(text)], [{"s": "x" * 1000}])
    assert len(found) == 10_000
    for refused in ("REPLACE(s, 'a', 'bb')", "REPLACE(s, u, '')", f"CONCAT({', '.join(['s'] * 21)})"):
        with pytest.raises(QueryError, match=r"not longer than the first|more than 20 texts"):
            derived(refused)


def test_rising_ranges_are_outside() -> None:
    column = derived("SQRT(x)")
    assert column.low is not None
    assert column.high is not None
    assert column.low <= 0 < 3 <= column.high < Fraction(3001, 1000)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("CASE WHEN b THEN 'a' WHEN x > 3 THEN 'b' ELSE 'a' END", ("a", "b")), ("MONTH(d)", tuple(range(1, 13))),
        ("b", None), ("x > 3", (True, False)), ("CASE WHEN b THEN 1 ELSE i END", None), ("YEAR(d)", None),
        ("WIDTH_BUCKET(x, 0, 1, 3)", (0, 1, 2, 3, 4)), ("COALESCE(CASE WHEN b THEN 2 END, 5)", (2, 5)),
    ],
)  # fmt: skip
def test_lists_of_values(text: str, domain: Any) -> None:
    assert derived(text).domain == domain


# Random expressions over nasty rows.

reals = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan, None, 0.5, 9.0, -4.0]),
    st.floats(),
)
wholes = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-8, 8))
texts = st.one_of(
    st.none(),
    st.sampled_from(["", " ", "12", "-3.5e400", "nan", "inf", "2026-01-31", "9999999-01-01", "true", "ß", "💥", "%"]),
)
days = st.one_of(st.none(), st.dates())
times = st.one_of(st.none(), st.datetimes(datetime(1600, 1, 1), datetime(2300, 1, 1)))
rows = st.lists(
    st.fixed_dictionaries(
        {"x": reals, "y": reals, "i": wholes, "j": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), "s": texts,
         "u": texts, "d": days, "w": times, "b": st.one_of(st.none(), st.booleans())}
    ),
    min_size=1, max_size=8,
)  # fmt: skip

numbers: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["x", "y", "i", "j", "u", "2", "0", "-3", "1.5", "1e300"]),
        st.tuples(numbers, st.sampled_from("+-*/%"), numbers).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["ABS", "FLOOR", "CEIL", "ROUND", "SIGN", "SQRT", "LN", "EXP", "-"]), numbers).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(st.sampled_from(["LEAST", "GREATEST", "COALESCE"]), numbers, numbers).map(
            lambda t: f"{t[0]}({t[1]} + 0, {t[2]} + 0)"
        ),
        st.tuples(numbers, st.integers(0, 5)).map(lambda t: f"POWER({t[0]}, {t[1]})"),
        st.tuples(conditions, numbers, numbers).map(lambda t: f"CASE WHEN {t[0]} THEN {t[1]} + 0 ELSE {t[2]} + 0 END"),
        st.tuples(st.sampled_from(["YEAR", "MONTH", "WEEK", "DAYOFWEEK"]), moments).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["day", "month", "second"]), moments, moments).map(
            lambda t: f"DATE_DIFF('{t[0]}', {t[1]}, {t[2]})"
        ),
        words.map(lambda t: f"LENGTH({t})"),
        st.tuples(numbers | words, st.sampled_from(["INT", "DOUBLE"])).map(lambda t: f"CAST({t[0]} AS {t[1]})"),
        numbers.map(lambda t: f"WIDTH_BUCKET({t}, -3, 3.5, 7)"),
    )
)
words: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["s", "u", "'a'", "''"]),
        st.tuples(st.sampled_from(["UPPER", "LOWER", "TRIM"]), words).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["LEFT", "RIGHT", "SUBSTRING"]), words, st.integers(0, 9)).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(words, words).map(lambda t: f"({t[0]} || {t[1]})"),
        words.map(lambda t: f"REPLACE({t}, 'a', '')"),
        numbers.map(lambda t: f"CAST({t} AS TEXT)"),
    )
)
moments: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["d", "w", "u", "DATE '2026-01-31'"]),
        st.tuples(st.sampled_from(["year", "week", "minute"]), moments).map(lambda t: f"DATE_TRUNC('{t[0]}', {t[1]})"),
        words.map(lambda t: f"CAST({t} || u AS TIMESTAMP)"),
    )
)
conditions: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        st.tuples(numbers, st.sampled_from(["=", "<", ">=", "<>"])).map(lambda t: f"{t[0]} + 0 {t[1]} 1"),
        st.tuples(numbers, numbers).map(lambda t: f"{t[0]} + 0 < {t[1]} + 0"),
        words.map(lambda t: f"({t} || 'z') LIKE '%a_'"),
        st.just("b"),
        st.tuples(conditions, st.sampled_from(["AND", "OR"]), conditions).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        conditions.map(lambda t: f"NOT ({t})"),
        numbers.map(lambda t: f"{t} + 0 IS NULL"),
    )
)
TYPES = {
    ColumnKind.INTEGER: int,
    ColumnKind.REAL: float,
    ColumnKind.TEXT: str,
    ColumnKind.BOOLEAN: bool,
    ColumnKind.DATE: (date, str),
}
TYPES |= {ColumnKind.TIMESTAMP: (datetime, str), ColumnKind.UNTYPED: str}


@settings(max_examples=60)
@given(text=st.one_of(numbers, words, moments, conditions), rows=rows)
def test_no_row_makes_an_expression_fail(engine: Any, text: str, rows: list[dict[str, Any]]) -> None:
    """Whatever the row: a value of the column's kind, or NULL; each row on its own; ranges hold for bounded inputs."""
    try:
        column = derived(f"COALESCE({text}, {text})")  # not a number alone, which GROUP BY takes for a place
    except QueryError as error:
        assume("nested too deeply" not in str(error))
        raise
    found = evaluated(engine, [column], rows)
    assert all(value is None or isinstance(value, TYPES[column.kind]) for (value,) in found)
    assert found[0] == evaluated(engine, [column], rows[:1])[0] or found[0] != found[0] or math.isnan(found[0][0])
    if column.low is not None and column.high is not None:
        kept = [row for row in rows if all(_within(row[name], BOUNDS[name]) for name in BOUNDS)]
        slack = 1e-9 * (1 + abs(float(column.low)) + abs(float(column.high)))
        for (value,) in evaluated(engine, [column], kept) if kept else []:
            if value is not None and not math.isnan(value):
                assert float(column.low) - slack <= value <= float(column.high) + slack


def _within(value: Any, ends: tuple[Fraction, Fraction]) -> bool:
    return value is not None and float(ends[0]) <= value <= float(ends[1])


def test_a_function_that_only_looks_like_a_known_one_is_refused() -> None:
    """sqlglot's CONCAT_WS is a kind of CONCAT, which would add the separator as one more text."""
    with pytest.raises(QueryError, match="CONCAT_WS"):
        read("SELECT COUNT_IF(CONCAT_WS('-', s, s) = 'x-x') AS n FROM t", (TABLE,))
