"""GROUP BY expressions, keys from public tables and from the SQL itself, joins, HAVING, ORDER BY, LIMIT, bounds of
expressions: with so much ε that the noise is 0."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from deniable.errors import DataError, InvalidArgument, QueryError
from deniable.query import AtMost, planning

VISITS = pa.table(
    {
        "person": [1, 1, 2, 3, 4, 5, 6, 7],
        "city": ["Bern", "Basel", "Bern", "Chur", "Bern", "Basel", None, "Genf"],
        "day": [date(2026, m, 1) for m in (1, 1, 2, 2, 3, 3, 3, 12)],
        "age": pa.array([10, 10, 35, 70, 44, 18, 65, None], pa.int32()),
        "cost": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0],
        "items": pa.array([1, 2, 3, 4, 5, 6, 7, 8], pa.int64()),
    }
)
CITIES = pa.table(
    {"city": ["Basel", "Bern", "Chur", "Sion"], "region": ["north", "middle", "east", "south"], "size": [5, 4, 2, 1]}
)
SPOKEN = pa.table({"town": ["Bern", "Bern", "Basel"], "language": ["de", "fr", "de"]})
PUBLIC = {"cities": CITIES, "spoken": SPOKEN}


def rows(make_plan: Any, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    """The released values, without intervals."""
    options = {
        "epsilon": 10**15,
        "per_unit": AtMost(groups=50, rows=50),
        "bounds": {"cost": (0, 100), "items": (0, 10), "age": (0, 100)},
        "public": PUBLIC,
        **options,
    }
    plan = make_plan(VISITS, sql, **options)
    try:
        release = plan.run()
        names = release.outputs
        return [
            tuple(round(v, 4) if isinstance(v, float) else v for v in row)
            for row in zip(*(release.columns[name] for name in names), strict=True)
        ]
    finally:
        plan.engine.close()


def test_keys_that_the_sql_lists(make_plan: Any) -> None:
    """A month, a comparison, CASE with constants, a bucket: keys need not be stated, and all are released."""
    found = rows(make_plan, "SELECT MONTH(day) AS m, COUNT(*) AS n FROM t GROUP BY MONTH(day)")
    assert found == [(m, {1: 2, 2: 2, 3: 3, 12: 1}.get(m, 0)) for m in range(1, 13)]
    assert rows(make_plan, "SELECT age >= 18 AS adult, COUNT(*) AS n FROM t GROUP BY 1") == [(True, 5), (False, 2)]
    bands = "CASE WHEN age < 18 THEN 'young' WHEN age < 65 THEN 'grown' WHEN age >= 65 THEN 'old' END"
    found = rows(make_plan, f"SELECT {bands} AS band, COUNT(*) AS n FROM t GROUP BY band")
    assert found == [("young", 2), ("grown", 3), ("old", 2)], "NULL is no key"
    found = rows(make_plan, "SELECT WIDTH_BUCKET(cost, 20, 60, 2) AS b, COUNT(*) AS n FROM t GROUP BY b")
    assert found == [(0, 1), (1, 2), (2, 2), (3, 3)], "below, [20, 40), [40, 60), from 60 on"


def test_a_histogram(make_plan: Any) -> None:
    """FLOOR makes bins; which ones are released is declared."""
    sql = "SELECT FLOOR(age / 20) * 20 AS bin, COUNT(*) AS n FROM t GROUP BY bin"
    assert rows(make_plan, sql, keys={"bin": [0, 20, 40, 60, 80]}) == [(0, 3), (20, 1), (40, 1), (60, 2), (80, 0)]
    assert rows(make_plan, sql, keys={"FLOOR(age / 20) * 20": [60, 0]}) == [(60, 2), (0, 3)]


def test_several_keys(make_plan: Any) -> None:
    sql = "SELECT MONTH(day) AS m, city, SUM(items) AS s FROM t GROUP BY 2, 1 ORDER BY s DESC, m, city LIMIT 4"
    found = rows(make_plan, sql, keys={"city": ["Bern", "Basel"]})
    assert found == [(3, "Basel", 6), (3, "Bern", 5), (2, "Bern", 3), (1, "Basel", 2)]


@pytest.mark.parametrize("keys", ["cities.city", "CITIES.City", {"city": "cities.city"}, {"city": CITIES["city"]}])
def test_keys_from_a_public_table(make_plan: Any, keys: Any) -> None:
    found = rows(make_plan, "SELECT city, COUNT(*) AS n FROM t GROUP BY city", keys=keys)
    assert found == [("Basel", 2), ("Bern", 3), ("Chur", 1), ("Sion", 0)]


def test_keys_from_a_series(make_plan: Any) -> None:
    found = rows(
        make_plan, "SELECT city, COUNT(*) AS n FROM t GROUP BY city", keys={"city": pd.Series(["Chur", "Bern"])}
    )
    assert found == [("Chur", 1), ("Bern", 3)]


@pytest.mark.parametrize("keys", ["cities.nothing", "nothing.city", "t.city", "city", {"city": "Bern"}])
def test_keys_that_are_no_public_column(make_plan: Any, keys: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a list of keys, or table\.column of a public table"):
        rows(make_plan, "SELECT city, COUNT(*) AS n FROM t GROUP BY city", keys=keys)


def test_joins(make_plan: Any) -> None:
    """The keys of a public column are known; rows without a match are dropped, or kept without region by LEFT JOIN."""
    inner = "SELECT region, COUNT(*) AS n, SUM(size) AS s FROM t JOIN cities ON t.city = cities.city GROUP BY region"
    bounds = {"size": (0, 9)}
    expected = [("east", 1, 2), ("middle", 3, 12), ("north", 2, 10), ("south", 0, 0)]
    assert rows(make_plan, inner, bounds=bounds) == expected
    assert rows(make_plan, inner.replace("ON t.city = cities.city", "USING (city)"), bounds=bounds) == expected
    assert rows(make_plan, inner.replace("JOIN", "LEFT OUTER JOIN"), bounds=bounds) == expected
    assert rows(make_plan, "SELECT COUNT(*) AS n FROM t INNER JOIN cities USING (city)") == [(6,)]
    assert rows(make_plan, "SELECT COUNT(*) AS n, COUNT(size) AS m FROM t LEFT JOIN cities USING (city)") == [(8, 6)]
    found = rows(
        make_plan, "SELECT COUNT(*) AS n FROM t AS v LEFT JOIN cities AS c ON (c.city = v.city) WHERE c.size IS NULL"
    )
    assert found == [(2,)]


def test_using_makes_one_column_of_two(make_plan: Any) -> None:
    sql = "SELECT city, COUNT(*) AS n FROM t JOIN cities USING (city) WHERE city <> 'Bern' GROUP BY city"
    assert rows(make_plan, sql, keys={"city": ["Bern", "Chur"]}) == [("Bern", 0), ("Chur", 1)]
    sql = "SELECT COUNT(*) AS n FROM t LEFT JOIN cities USING (city) WHERE city = 'Genf' AND cities.city IS NULL"
    assert rows(make_plan, sql) == [(1,)]


def test_a_join_that_multiplies(make_plan: Any) -> None:
    """Bern has two languages: its rows count twice, under the limits of their people."""
    sql = "SELECT language, COUNT(*) AS n FROM t JOIN spoken ON t.city = spoken.town GROUP BY language"
    assert rows(make_plan, sql) == [("de", 5), ("fr", 3)]
    both = "SELECT COUNT(*) AS n FROM t JOIN spoken ON t.city = town JOIN cities USING (city) WHERE size > 4"
    assert rows(make_plan, both) == [(2,)]


def test_names_in_joins(make_plan: Any) -> None:
    with pytest.raises(QueryError, match="column city is in several tables; write t, cities before it") as caught:
        rows(make_plan, "SELECT COUNT(*) AS n FROM t JOIN cities ON t.city = cities.city WHERE city = 'Bern'")
    assert (caught.value.line, caught.value.column) == (1, 71)
    for sql, words in [
        ("SELECT COUNT(*) FROM cities", "cities is a public table"),
        ("SELECT COUNT(*) FROM t JOIN cities ON t.age < cities.size", "ON is supported for equal columns"),
        ("SELECT COUNT(*) FROM t JOIN cities ON t.city = t.city", "ON is supported for equal columns"),
        ("SELECT COUNT(*) FROM t JOIN cities ON t.city = cities.size", "cannot be joined"),
        ("SELECT COUNT(*) FROM t JOIN cities ON TRUE", "ON is supported for equal columns"),
        ("SELECT COUNT(*) FROM t JOIN cities", "a join needs ON"),
        ("SELECT COUNT(*) FROM t, cities", "a join needs ON"),
        ("SELECT COUNT(*) FROM t JOIN cities AS t ON t.city = t.city", "two tables are called t"),
        ("SELECT COUNT(*) FROM t JOIN cities USING (region)", "has no column region"),
        ("SELECT COUNT(*) FROM t RIGHT JOIN cities USING (city)", "RIGHT is not supported"),
    ]:
        with pytest.raises(QueryError, match=words):
            rows(make_plan, sql)


CASES = [
    ("HAVING n > 1", [("Basel", 2, 80.0), ("Bern", 3, 90.0)]),
    ("HAVING COUNT(*) > 1 AND SUM(cost) < 85", [("Basel", 2, 80.0)]),
    ("HAVING 2 <= n AND NOT s = 80", [("Bern", 3, 90.0)]),
    ("HAVING n BETWEEN 1 AND 2", [("Basel", 2, 80.0), ("Chur", 1, 40.0)]),
    ("HAVING city IN ('Bern', 'Sion')", [("Bern", 3, 90.0), ("Sion", 0, 0.0)]),
    ("HAVING city > 'Bern' OR n = 3", [("Bern", 3, 90.0), ("Chur", 1, 40.0), ("Sion", 0, 0.0)]),
    ("HAVING t.city = 'Bern' OR SUM(t.cost) = 80", [("Basel", 2, 80.0), ("Bern", 3, 90.0)]),
    ("ORDER BY n", [("Sion", 0, 0.0), ("Chur", 1, 40.0), ("Basel", 2, 80.0), ("Bern", 3, 90.0)]),
    ("ORDER BY 2 DESC LIMIT 2", [("Bern", 3, 90.0), ("Basel", 2, 80.0)]),
    ("ORDER BY city DESC LIMIT 1 OFFSET 1", [("Chur", 1, 40.0)]),
    ("ORDER BY SUM(cost) DESC, city LIMIT 1", [("Bern", 3, 90.0)]),
    ("LIMIT 0", []),
    ("OFFSET 3", [("Sion", 0, 0.0)]),
]


@pytest.mark.parametrize(("clause", "expected"), CASES)
def test_what_follows_group_by(make_plan: Any, clause: str, expected: list[Any]) -> None:
    sql = f"SELECT city, COUNT(*) AS n, SUM(cost) AS s FROM t GROUP BY city {clause}"
    assert rows(make_plan, sql, keys="cities.city") == expected


SWAPPED = "SELECT a AS b, b AS a, COUNT(*) AS n FROM t GROUP BY a, b"


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("HAVING a = 1", [(1, 2, 3)]),  # the column, as in SQL: HAVING knows grouped columns first
        ("HAVING t.a = 2", [(2, 1, 2)]),
        ("HAVING n > 2", [(1, 2, 3)]),
        ("ORDER BY a", [(2, 1, 2), (1, 2, 3)]),  # the output, as in SQL
        ("ORDER BY t.a", [(1, 2, 3), (2, 1, 2)]),
    ],
)
def test_which_of_two_a_name_means(make_plan: Any, clause: str, expected: list[Any]) -> None:
    swapped = pa.table({"person": range(5), "a": [1, 1, 1, 2, 2], "b": [2, 2, 2, 1, 1]})
    with duckdb.connect() as engine:
        engine.register("t", swapped)
        theirs = f"{SWAPPED.replace('GROUP BY a, b', 'GROUP BY t.a, t.b')} {clause}"
        assert sorted(engine.execute(theirs).fetchall()) == sorted(expected)
    options = {"keys": {"a": [1, 2], "b": [1, 2]}, "per_unit": AtMost(groups=1, rows=1), "epsilon": 1000}
    plan = make_plan(swapped, f"{SWAPPED} {clause}", **options)
    found = [tuple(getattr(v, "value", v) for v in row.values()) for row in planning.answer(plan).rows]
    assert [row for row in found if row[-1]] == expected
    plan.engine.close()


def test_an_output_may_be_meant_where_its_column_is_not_grouped(make_plan: Any) -> None:
    table = pa.table({"person": [1, 2, 3], "city": ["bern", "Bern", "basel"]})
    sql = "SELECT UPPER(city) AS city, COUNT(*) AS n FROM t GROUP BY UPPER(city) HAVING city = 'BERN'"
    plan = make_plan(
        table, sql, keys={"city": ["BERN", "BASEL"]}, per_unit=AtMost(groups=1, rows=1), epsilon=1000
    )  # fmt: skip
    (row,) = planning.answer(plan).rows
    assert (row["city"], row["n"].value) == ("BERN", 2)
    plan.engine.close()


def test_keys_name_columns_first_and_none_twice(make_plan: Any) -> None:
    swapped = pa.table({"person": range(5), "a": [1, 1, 1, 2, 2], "b": [2, 2, 2, 1, 1]})
    options = {"per_unit": AtMost(groups=1, rows=1), "epsilon": 1000}
    plan = make_plan(swapped, SWAPPED, keys={"a": [1], "b": [2]}, **options)
    (row,) = planning.answer(plan).rows
    assert (row["b"], row["a"], row["n"].value) == (1, 2, 3)
    plan.engine.close()
    with pytest.raises(InvalidArgument, match="given once for each column"):
        make_plan(swapped, SWAPPED, keys={"a": [1], "t.a": [2], "b": [2]}, **options)
    with pytest.raises(InvalidArgument, match="given once for each column"):
        make_plan(swapped, "SELECT SUM(a) AS s FROM t", bounds={"a": (0, 1), "t.a": (0, 2)}, **options)


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("d = '2026-01-02'", 1), ("d >= DATE '2026-01-02'", 2), ("d < TIMESTAMP '2026-01-02 12:00:00'", 2),
        ("d NOT IN ('2026-01-01')", 2), ("NOT d = '2026-01-02'", 2),
    ],
)  # fmt: skip
def test_having_compares_dates_as_where_does(make_plan: Any, test: str, kept: int) -> None:
    days = [date(2026, 1, day) for day in (1, 2, 3)]
    table = pa.table({"person": [1, 2, 3], "d": pa.array(days, pa.date32())})
    plan = make_plan(
        table, f"SELECT d, COUNT(*) AS n FROM t GROUP BY d HAVING {test}", keys={"d": days},
        per_unit=AtMost(groups=1, rows=1),
    )  # fmt: skip
    assert len(planning.answer(plan).rows) == kept
    plan.engine.close()


def test_having_on_a_mode(make_plan: Any) -> None:
    sql = "SELECT MONTH(day) AS m, MODE(city) AS c FROM t GROUP BY m HAVING c = 'Basel' AND m < 6"
    assert rows(make_plan, sql, keys={"city": ["Basel", "Bern"]}) == [(m, "Basel") for m in (1, 3, 4, 5)]


def test_the_clauses_cost_nothing(make_plan: Any) -> None:
    """The event is the same with and without them."""
    sql = "SELECT MONTH(day) AS m, COUNT(*) AS n FROM t GROUP BY m"
    plain, cut = (
        make_plan(VISITS, text, per_unit=AtMost(groups=2, rows=2))
        for text in (sql, f"{sql} HAVING n > 3 ORDER BY n LIMIT 2")
    )
    assert plain.event == cut.event
    for plan in (plain, cut):
        plan.engine.close()


def test_bounds_of_expressions(make_plan: Any) -> None:
    """From the bounds of the inputs, or stated for the expression; values beyond are clamped."""
    assert rows(make_plan, "SELECT SUM(items * cost) AS s FROM t") == [(2040.0,)]
    plan = make_plan(
        VISITS, "SELECT SUM(items * cost) AS s FROM t", bounds={"items": (0, 10), "cost": (-5, 100)},
        per_unit=AtMost(groups=1, rows=1),
    )  # fmt: skip
    assert (plan.bounded.values[0].grid.low, plan.bounded.values[0].grid.high) == (-50, 1000)
    plan.engine.close()
    assert rows(make_plan, "SELECT SUM(items * cost) AS s FROM t", bounds={"items*cost": (0, 100)}) == [(640.0,)]
    bounds = {"items + LENGTH(city)": (0, 9)}
    assert rows(make_plan, "SELECT SUM(items + LENGTH(city)) AS s FROM t", bounds=bounds) == [(54,)]
    with pytest.raises(QueryError, match=r"SUM\(LENGTH\(city\)\) needs bounds for LENGTH\(city\)"):
        rows(make_plan, "SELECT SUM(LENGTH(city)) AS s FROM t")
    with pytest.raises(DataError, match="has no column nothing"):
        rows(make_plan, "SELECT COUNT(*) AS n FROM t", bounds={"nothing": (0, 1)})
    with pytest.raises(QueryError, match="bounds are for numbers"):
        rows(make_plan, "SELECT COUNT(*) AS n FROM t", bounds={"UPPER(city)": (0, 1)})


def test_constants(make_plan: Any) -> None:
    found = rows(
        make_plan, "SELECT SUM(CASE WHEN age > 40 THEN 2 END) AS a, SUM(CASE WHEN age > 40 THEN 0 END) AS b FROM t"
    )
    assert found == [(6, 0)]


def test_whole_expressions_stay_whole(make_plan: Any) -> None:
    ((found,),) = rows(make_plan, "SELECT SUM(items * 2 - age) AS s FROM t")
    assert found == -196
    assert isinstance(found, int)


def test_public_tables_need_no_unit(make_plan: Any) -> None:
    """The split of a plan with a join is that of one without: a public table costs nothing."""
    sql = "SELECT region, COUNT(*) AS n FROM t JOIN cities USING (city) GROUP BY region"
    plan = make_plan(VISITS, sql, public=PUBLIC, per_unit=AtMost(groups=2, rows=3))
    assert [(part.amount, part.move.sensitivity) for part in plan.noises] == [(Fraction(1), 6)]
    plan.engine.close()
