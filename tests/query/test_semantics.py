"""What is counted, and the rules for NULL, NaN, infinity, bounds, keys and units, one by one."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.query import AtMost
from deniable.query.grids import choose
from deniable.query.schema import Column, ColumnKind

WIDE = AtMost(groups=1000, rows=1000)
REAL, WHOLE, TEXT = (
    Column("x", ColumnKind.REAL, "DOUBLE"),
    Column("x", ColumnKind.INTEGER, "INTEGER"),
    Column("x", ColumnKind.UNTYPED, ""),
)


def numbers(values: list[Any], type: pa.DataType) -> pa.Table:
    return pa.table({"person": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, type)})


# grids


@pytest.mark.parametrize(
    ("column", "bounds", "step", "lowest", "highest"),
    [
        (WHOLE, (0, 120), 1, 0, 120),
        (WHOLE, (-5, 5), 1, -5, 5),
        (WHOLE, (0.5, 7.5), Fraction(1, 10**8), 5 * 10**7, 75 * 10**7),
        (WHOLE, (0, 10**20), 10**11, 0, 10**9),
        (REAL, (0, 5000), Fraction(1, 10**5), 0, 5 * 10**8),
        (REAL, (0, 1), Fraction(1, 10**9), 0, 10**9),
        (REAL, (0, 1.1), Fraction(1, 10**8), 0, 110_000_000),
        (REAL, (10**9, 10**9 + 1), Fraction(1, 10**6), 10**15, 10**15 + 10**6),
        (REAL, (0, Decimal("1e12")), 1000, 0, 10**9),
        (TEXT, (0, 120, 1), 1, 0, 120),
        (REAL, (0.05, 0.95, 0.1), Fraction(1, 10), 0, 10),
    ],
)  # fmt: skip
def test_grids(column: Column, bounds: Any, step: Any, lowest: int, highest: int) -> None:
    grid = choose(column, bounds)
    assert (grid.step, grid.lowest, grid.highest) == (step, lowest, highest)


@pytest.mark.parametrize(
    ("value", "index"),
    [(0.0, 0), (-0.0, 0), (2.5, 25), (2.44, 24), (2.46, 25), (10.0, 100), (11.0, 100), (-1.0, 0), (1e308, 100),
     (-1e308, 0), (math.inf, 100), (-math.inf, 0), (5e-324, 0)],
)  # fmt: skip
@pytest.mark.parametrize("type", [pa.float64(), pa.float32()])
def test_values_are_clamped_and_rounded(answers: Any, value: float, index: int, type: pa.DataType) -> None:
    table = numbers([value], type)
    assert answers(table, "SELECT SUM(x) FROM t", bounds={"x": (0, 10, 0.1)}, per_unit=WIDE) == [[index]]


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_null_and_nan_are_no_values(answers: Any, nothing: Any) -> None:
    table = numbers([3.0, nothing, 5.0], pa.float64())
    sql = "SELECT COUNT(*) AS a, COUNT(x) AS b, SUM(x) AS c FROM t"
    assert answers(table, sql, bounds={"x": (2, 10, 1)}, per_unit=WIDE) == [[3], [2], [8]]
    assert answers(table, "SELECT COUNT(x) AS b FROM t", per_unit=WIDE) == [[2]]


def test_average_is_centred(answers: Any) -> None:
    table = numbers([0.0, 10.0, 10.0, None], pa.float64())
    total, count = answers(table, "SELECT AVG(x) FROM t", bounds={"x": (0, 10, 1)}, per_unit=WIDE)
    assert (total, count) == ([-5 + 5 + 5], [3])


@pytest.mark.parametrize(
    ("type", "extremes"),
    [
        (pa.int8(), (-128, 127)),
        (pa.int16(), (-(2**15), 2**15 - 1)),
        (pa.int64(), (-(2**63), 2**63 - 1)),
        (pa.uint8(), (0, 255)),
        (pa.uint64(), (0, 2**64 - 1)),
        (pa.decimal128(38, 2), (Decimal(-(10**35)), Decimal(10**35))),
    ],
)
def test_extreme_numbers_of_every_type(answers: Any, type: pa.DataType, extremes: Any) -> None:
    table = numbers([*extremes, None], type)
    low, high = answers(table, "SELECT SUM(x) AS s, COUNT(x) AS n FROM t", bounds={"x": (-3, 7)}, per_unit=WIDE)
    step = 1 if pa.types.is_integer(type) else 10**8
    assert low == [7 * step + (0 if extremes[0] == 0 else -3 * step)]
    assert high == [2]


def test_sums_beyond_64_bits_are_exact(answers: Any) -> None:
    table = numbers([2**52 - 1] * 5000, pa.int64())
    assert answers(table, "SELECT SUM(x) FROM t", bounds={"x": (0, 2**52)}, unit="row") == [[5000 * (2**52 - 1)]]
    table = numbers([-(2**52) + 1] * 5000, pa.int64())
    assert answers(table, "SELECT SUM(x) FROM t", bounds={"x": (-(2**52), 0)}, unit="row") == [[-5000 * (2**52 - 1)]]


# units and limits


@pytest.mark.parametrize("type", [pa.int64(), pa.string(), pa.float64()])
def test_rows_without_a_unit_are_left_out(answers: Any, type: pa.DataType) -> None:
    ids = {"int64": [1, None, 2], "string": ["a", None, "b"], "double": [1.0, math.nan, -0.0]}[str(type)]
    table = pa.table({"person": pa.array(ids, type), "x": [1, 2, 3]})
    assert answers(table, "SELECT COUNT(*) FROM t", per_unit=WIDE) == [[2]]
    assert answers(table, "SELECT COUNT(*) FROM t", unit="row") == [[3]]


def test_both_zeros_are_one_unit(answers: Any) -> None:
    table = pa.table({"person": [0.0, -0.0, 0.0], "x": [1.0, 2.0, 3.0]})
    assert answers(table, "SELECT COUNT(*) FROM t", per_unit=AtMost(groups=1, rows=2)) == [[2]]


@pytest.mark.parametrize("groups", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_limits_are_used_up(answers: Any, groups: int, rows: int) -> None:
    """A person with 4 rows in each of 5 groups keeps exactly what the limits allow."""
    table = pa.table({"person": [1] * 20, "g": [i % 5 for i in range(20)], "x": [float(i) for i in range(20)]})
    sql = "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g"
    limits = AtMost(groups=groups, rows=rows)
    counts, sums = answers(table, sql, keys={"g": range(5)}, bounds={"x": (0, 100, 1)}, per_unit=limits)
    assert sorted(counts, reverse=True) == [min(rows, 4)] * min(groups, 5) + [0] * (5 - min(groups, 5))
    for g, (count, total) in enumerate(zip(counts, sums, strict=True)):
        assert count == 0 or g * count + 5 * sum(range(count)) <= total <= g * count + 5 * sum(range(4 - count, 4))


def test_the_key_changes_the_choice(answers: Any) -> None:
    table = pa.table({"person": [1] * 64, "x": [2**i % 61 for i in range(64)]})
    options = {"bounds": {"x": (0, 100)}, "per_unit": AtMost(groups=1, rows=5)}
    found = {answers(table, "SELECT SUM(x) FROM t", key=(i, 7), **options)[0][0] for i in range(20)}
    again = {answers(table, "SELECT SUM(x) FROM t", key=(7, i), **options)[0][0] for i in range(20)}
    assert len(found) > 5
    assert len(again) > 5


def test_copies_of_a_row_are_chosen_like_rows(answers: Any) -> None:
    """Of 10 equal rows and 10 others, a choice of 10 takes 5 equal ones on average, not all or none (p < 1e-9)."""
    people = 400
    table = pa.table(
        {"person": [p for p in range(people) for _ in range(20)], "x": ([1] * 10 + list(range(2, 12))) * people}
    )
    sql = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"
    total = answers(table, "SELECT SUM(x) FROM t", bounds={"x": (0, 2)}, per_unit=AtMost(groups=1, rows=10))[0][0]
    # Each of 10 kept rows gives 1 or 2: mean 15 per person; a person's standard deviation is 1.15 (hypergeometric).
    assert abs(total - 15 * people) < 6.2 * 1.15 * math.sqrt(people), sql


# keys


def test_declared_keys_in_declared_order(answers: Any) -> None:
    table = pa.table({"person": [1, 2, 3, 4], "c": ["b", "a", "z", None]})
    sql = "SELECT c, COUNT(*) FROM t GROUP BY c"
    assert answers(table, sql, keys={"c": ["c", "b", "a"]}, per_unit=WIDE) == [[0, 1, 1]]


def test_first_column_of_group_by_counts_slowest(answers: Any) -> None:
    table = pa.table({"person": [1, 2, 3], "c": ["a", "b", "b"], "y": [1, 1, 2]})
    sql = "SELECT y, c, COUNT(*) FROM t GROUP BY c, y"
    assert answers(table, sql, keys={"c": ["a", "b"], "y": [1, 2, 3]}, per_unit=WIDE) == [[1, 0, 0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("values", "type", "keys", "expected"),
    [
        ([1, 2, 2], pa.int8(), [2, 1, 500], [2, 1, 0]),
        ([1, 2, 2], pa.int32(), ["2", "1"], [2, 1]),
        ([2**64 - 1, 5], pa.uint64(), [2**64 - 1, 5, -1], [1, 1, 0]),
        ([1.5, 2.0, math.nan], pa.float64(), [2, 1.5], [1, 1]),
        ([True, False, True], pa.bool_(), [True, False], [2, 1]),
        ([date(2026, 1, 1), date(2026, 1, 2)], pa.date32(), ["2026-01-02", date(2026, 1, 1)], [1, 1]),
        ([datetime(2026, 1, 1, 12)], pa.timestamp("ns"), [datetime(2026, 1, 1, 12), date(2026, 1, 1)], [1, 0]),
        (["x", "'; --"], pa.string(), ["'; --", "x"], [1, 1]),
    ],
)
def test_keys_of_every_type(answers: Any, values: Any, type: Any, keys: Any, expected: Any) -> None:
    assert answers(
        numbers(values, type), "SELECT x, COUNT(*) AS n FROM t GROUP BY x", keys={"x": keys}, per_unit=WIDE
    ) == [expected]


def test_keys_from_series(answers: Any) -> None:
    table = pa.table({"person": [1, 2], "c": [7, 8]})
    sql = "SELECT c, COUNT(*) FROM t GROUP BY c"
    for keys in (pd.Series([8, 7]), pl.Series([8, 7]), pa.array([8, 7]).to_numpy(), (8, 7), range(8, 6, -1)):
        assert answers(table, sql, keys={"c": keys}, per_unit=WIDE) == [[1, 1]]


# conditions


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("x > 2", 2), ("x >= 2", 3), ("2 < x", 2), ("x <> 2", 3), ("x != 2", 3), ("x == 2", 1), ("NOT x > 2", 2),
        ("x BETWEEN 2 AND 3", 2), ("x NOT BETWEEN 2 AND 3", 2), ("x IN (1, 4)", 2), ("x NOT IN (1, 4)", 2),
        ("x IS NULL", 1), ("x IS NOT NULL", 4), ("x = 2.5", 0), ("x > 1.5 AND x < 3.5", 2), ("x = 1 OR x = 4", 2),
        ("x = -1", 0), ("TRUE", 5), ("FALSE", 0), ("c = 'a'", 2), ("c > 'a'", 2), ("c IN ('a', 'b')", 3), ("f", 2),
        ("NOT f", 3), ("f = TRUE", 2), ("d > '2026-01-02'", 2), ("d = DATE '2026-01-02'", 1), ("x > person", 0),
        ("d < TIMESTAMP '2026-01-02 12:00:00'", 2), ("x < 100000000000000000000000000000000000000000", 4),
        ("t.x = 2", 1), ("\"x\" = 2", 1), ("X = 2", 1), ("(((x = 2)))", 1), ("x = 2 /* two */", 1),
    ],
)  # fmt: skip
def test_conditions(answers: Any, condition: str, count: int) -> None:
    table = pa.table(
        {
            "person": [1, 2, 3, 4, 5],
            "x": pa.array([1, 2, 3, 4, None], pa.int32()),
            "c": ["a", "a", "b", "c", None],
            "f": [True, True, False, False, False],
            "d": pa.array([date(2026, 1, d) for d in (1, 2, 3, 4)] + [None], pa.date32()),
        }
    )
    assert answers(table, f"SELECT COUNT(*) FROM t WHERE {condition}", per_unit=WIDE) == [[count]]


@pytest.mark.parametrize(
    "condition",
    [
        "city NOT LIKE 'a%'", "NOT city NOT LIKE 'a%'", "city NOT LIKE 'a' AND i NOT IN (1)", "NOT NOT b", "i == 1",
        "i NOT IN (1) AND city NOT LIKE 'a'", "city NOT LIKE 'a' AND city NOT LIKE 'b'", "b IS TRUE", "b IS NOT TRUE",
        "b IS FALSE", "b IS NOT FALSE", "(i > 1) IS NOT TRUE", "i IS DISTINCT FROM 1", "i IS NOT DISTINCT FROM 1",
        "i IS DISTINCT FROM u", "u IS NOT DISTINCT FROM i", "i IS DISTINCT FROM NULL", "i IS NOT DISTINCT FROM NULL",
        "city IS DISTINCT FROM 'a'", "NOT city IS NOT DISTINCT FROM 'a'", "1 IS DISTINCT FROM i", "x IN (1, 2.5, 3)",
        "i IN (1, 2, 99999999999999999999, 2.5)", "u IN (-1, 2, 18446744073709551615)", "u NOT IN (-1, 300)",
        "d IN ('2026-01-01', DATE '2026-01-03')", "d NOT IN (TIMESTAMP '2026-01-01 00:00:00')", "b IN (TRUE)",
        "x IN (1e300, -0.0)", "small IN (300, -1000, 1)", "city IN ('a', 'b', 'a')", "UPPER(city) IN ('A')",
        "i NOT BETWEEN 1 AND 2 OR i IS NULL", "city LIKE '_' AND NOT city LIKE 'c'", "x > -i", "-x > 1", "i % 2 = 1",
    ],
)  # fmt: skip
def test_conditions_mean_what_they_mean_in_duckdb(answers: Any, condition: str) -> None:
    t = pa.table(
        {
            "person": [1, 2, 3, 4, 5],
            "city": ["a", "b", "c", None, "ab"],
            "x": [1.0, 2.5, math.nan, math.inf, 0.0],
            "i": pa.array([1, 2, 3, None, None], pa.int32()),
            "u": pa.array([1, 2**64 - 1, 2, None, 3], pa.uint64()),
            "small": pa.array([1, -128, 127, None, 0], pa.int8()),
            "b": [True, False, None, True, False],
            "d": pa.array([date(2026, 1, d) for d in (1, 2, 3, 4)] + [None], pa.date32()),
        }
    )
    with duckdb.connect() as engine:
        engine.register("t", t)
        expected = engine.execute(f"SELECT COUNT(*) FROM t WHERE {condition}").fetchall()
    assert answers(t, f"SELECT COUNT(*) FROM t WHERE {condition}", per_unit=WIDE) == [list(expected[0])]


@settings(max_examples=40)
@given(
    xs=st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=1, max_size=12),
    ys=st.lists(st.one_of(st.none(), st.sampled_from("ab")), min_size=12, max_size=12),
    condition=st.recursive(
        st.sampled_from(["x > 0", "x IN (1, -2)", "y = 'a'", "y IS NULL", "x BETWEEN -1 AND 2", "x <> 1"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join),
            inner.map("NOT {}".format),
            inner.map("({})".format),
        ),
        max_leaves=5,
    ),
)
def test_conditions_mean_what_sql_means(make_plan: Any, vectors: Any, xs: Any, ys: Any, condition: str) -> None:
    """Without limits in force, the counts are those of the same SQL run plainly."""
    table = pa.table(
        {"person": list(range(len(xs))), "x": pa.array(xs, pa.int32()), "y": pa.array(ys[: len(xs)], pa.string())}
    )
    sql = f"SELECT y, COUNT(*) AS n, COUNT(x) AS m, SUM(x) AS s FROM t WHERE {condition} GROUP BY y"
    found = make_plan(table, sql, bounds={"x": (-10, 10)}, keys={"y": ["a", "b"]}, per_unit=WIDE)
    with duckdb.connect() as plain:
        plain.register("t", table)
        rows = {row[0]: row[1:] for row in plain.execute(sql).fetchall()}
    try:
        expected = [rows.get(key, (0, 0, 0)) for key in "ab"]
        assert vectors(found, key=(0, 0)) == [[int(row[i] or 0) for row in expected] for i in range(3)]
    finally:
        found.engine.close()


# sources: the same table in every form


FORMS = ["parquet", "csv", "arrow", "pandas", "polars", "objects", "categories"]


@pytest.mark.parametrize("form", FORMS)
def test_every_source_gives_the_same(answers: Any, tmp_path: Any, form: str) -> None:
    columns = {
        "person": [1, 1, 1, 2, 2, None],
        "city": ["Bern", "Bern", "Basel", "Basel", None, "Bern"],
        "cost": [1.5, 2.5, 99.0, None, 4.0, 5.0],
    }
    frame = pd.DataFrame(columns)
    data: Any
    if form == "parquet":
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        data = tmp_path / "t.parquet"
    elif form == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
        data = str(tmp_path / "t.csv")
    elif form == "objects":
        data = frame.astype(object)
    elif form == "categories":
        data = frame.astype({"city": "category"})
    else:
        data = {"arrow": pa.table(columns), "pandas": frame, "polars": pl.DataFrame(columns)}[form]
    sql = "SELECT city, COUNT(*) AS n, COUNT(cost) AS m, SUM(cost) AS s FROM t WHERE cost <= 50 GROUP BY city"
    found = answers(
        data, sql, keys={"city": ["Bern", "Basel"]}, bounds={"cost": (0, 10, 0.5)}, per_unit=AtMost(groups=2, rows=2)
    )
    assert found == [[2, 0], [2, 0], [8, 0]]


def test_csv_columns_are_read_as_they_are_used(answers: Any, tmp_path: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        'person,x,day\n1,5,2026-01-01\n2,abc,soon\n3,,\n4,"1e2",2026-02-01\n5,inf,2026-01-15\n6,nan,2026-01-02\n'
    )

    def count(condition: str) -> int:
        return int(answers(path, f"SELECT COUNT(*) FROM t WHERE {condition}", per_unit=WIDE)[0][0])

    assert count("x > 5") == 3, "1e2, inf and, in DuckDB's order, NaN"
    assert count("x = 5") == count("x = '5'") == 1
    assert count("x IS NULL") == 1
    assert count("day < DATE '2026-01-20'") == 3
    sums = answers(path, "SELECT COUNT(x) AS n, SUM(x) AS s FROM t", bounds={"x": (0, 10, 1)}, per_unit=WIDE)
    assert sums == [[3], [5 + 10 + 10]]


def test_text_that_is_no_unicode(answers: Any) -> None:
    for type in (object, pd.StringDtype("python")):
        frame = pd.DataFrame({"person": [1, 2, 3], "c": pd.Series(["a", "\ud800", "é"], dtype=type)})
        assert answers(frame, "SELECT COUNT(c) FROM t WHERE c <> 'a'", per_unit=WIDE) == [[2]]


def test_names_that_sql_must_quote(answers: Any, tmp_path: Any) -> None:
    table = pa.table(
        {"person": [1, 2], 'we"ird; --': ["a", "b"], "select": [1, 2], "g": [5, 6], "k": [1, 1], "i": [2, 2]}
    )
    sql = 'SELECT "we""ird; --" AS w, g, SUM("select") AS s FROM t WHERE k = 1 AND i = 2 GROUP BY "we""ird; --", g'
    found = answers(table, sql, keys={'we"ird; --': ["b", "a"], "g": [5, 6]}, bounds={"select": (0, 5)}, per_unit=WIDE)
    assert found == [[0, 2, 1, 0]]


def test_a_table_named_like_a_step(make_plan: Any) -> None:
    from deniable.query.engines import DuckDB
    from deniable.units import Unit
    from tests.query.conftest import plan_over

    engine = DuckDB()
    ledger = make_plan(pa.table({"person": [1], "x": [1]}), "SELECT COUNT(*) FROM t", per_unit=WIDE).context.ledger
    for name in ("base", "shares", "kept", "last", "counted", "my table"):
        table = engine.add(name, pa.table({"person": [1, 1], "x": [1, 2]}))
        found = plan_over(
            f'SELECT SUM(x) AS s FROM "{name}"', (table,), engine, ledger,
            bounds={"x": (0, 5)}, per_unit=AtMost(groups=1, rows=3),
        )  # fmt: skip
        totals = engine.run(found.bounded, groups=1, key=(1, 2))
        assert found.noises[0].measure.of(totals).tolist() == [3]
    assert ledger.unit == Unit.of("person")
    engine.close()
