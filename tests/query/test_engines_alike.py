"""One meaning on every engine: the same plan, the same table, the same key, and exactly the same totals.

DuckDB is the reference; the rules it follows are tested elsewhere in this room. Each case runs on PostgreSQL and Spark:
bounds, NULL, NaN, ±inf, overflow, times, texts, quantiles, private keys, which rows stay. About 5 s on PostgreSQL; on
Spark, whose tests are one group, about a minute on two cores, most of it the start of Java.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.errors import NotSupported
from deniable.query import AtMost, diagnosis, planning, staging, surveys
from deniable.query.allowance import Allowance
from deniable.query.values import name
from tests.query.elsewhere import ask, in_duckdb, in_postgres, in_spark, totals

ENGINES = ["postgres", pytest.param("spark", marks=pytest.mark.xdist_group("spark"))]

REALS = [
    None, 0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 3.0, 0.49999999999999994, 9.99, 1e300, -1e300, 1e-300, 5e-324, -5e-324,
    math.nan, math.inf, -math.inf, 1.7976931348623157e308, 0.1, 7.0,
]  # fmt: skip
TEXTS = [None, "", "Bern", "bern", "Bern ", "Zürich", "o'x\\y", "50%", "a_b", "naïve 😀", "Basel"]
MOMENTS = [
    None, datetime(2026, 1, 31, 12, 30, 15, 250000), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59), datetime(2024, 2, 29, 23, 59, 59), datetime(2026, 1, 4), datetime(2026, 1, 5),
]  # fmt: skip
WHOLES = [None, 0, 1, 2, 3, -7, 50, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**53 + 1]


def made(rows: int, *, seed: int) -> dict[str, Any]:
    """A table with a bit of everything."""
    random = Random(seed)

    def several(values: list[Any]) -> list[Any]:
        return [random.choice(values) for _ in range(rows)]

    return {
        "person": ("BIGINT", several([1, 2, 3, 4, 5, 6, None])),
        "city": ("VARCHAR", several(TEXTS)),
        "cost": ("DOUBLE", several(REALS)),
        "age": ("INTEGER", several([None, 0, 1, 2, 5, 30, 120, -7])),
        "big": ("BIGINT", several(WHOLES)),
        "price": ("DECIMAL(10, 2)", several([None, Decimal("1.50"), Decimal("-3.25"), Decimal("99999999.99")])),
        "ratio": ("FLOAT", several([None, 0.5, -1.25, math.nan, math.inf])),
        "ok": ("BOOLEAN", several([None, True, False])),
        "day": ("DATE", several([None, date(2026, 1, 31), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)])),
        "at": ("TIMESTAMP", several(MOMENTS)),
    }


TABLE = made(400, seed=7)
REGIONS: dict[str, tuple[str, Sequence[Any]]] = {
    "city": ("VARCHAR", ["Bern", "Bern", "Basel", "Zürich", None, "o'x\\y"]),
    "region": ("VARCHAR", ["middle", "west", "north", "east", "nowhere", None]),
    "size": ("BIGINT", [1, 2, 3, None, 5, 6]),
}

BILLS: dict[str, tuple[str, Sequence[Any]]] = {
    "person": ("BIGINT", [1, 1, 1, 2, 2, 3, None, 9]),
    "age": ("INTEGER", [1, 1, 2, 2, 30, None, 1, 1]),
    "paid": ("DOUBLE", [4.0, -0.0, math.nan, 2.5, None, 1.0, 1.0, 1.0]),
    "kind": ("VARCHAR", ["b", "a", None, "Zürich", "z", "a", "a", "a"]),
}

BOUNDS: dict[str, Any] = {"cost": (0, 10), "age": (0, 100), "big": (-1000, 1000), "price": (-5, 5), "ratio": (-1, 1)}
CITIES = {"city": ["Bern", "o'x\\y", "", "Zürich", "elsewhere"]}
OK = {"ok": [True, False]}
KEPT = AtMost(groups=2, rows=3)

LONG_TEXTS = ", ".join(["'Bern'", "'o''x\\y'", "'Zürich'", "'a|b;'", "''", *(f"'x{i}'" for i in range(60))])
LONG_WHOLES = ", ".join(map(str, [2**53 + 1, -7, -(2**63), 2**63 - 1, *range(100, 160)]))
LONG_REALS = ", ".join(map(str, [0.1, 7, -2.5, 0, 1e300, -1e300, 1.5, 99999999.99, *range(100, 160)]))
LONG_DAYS = ", ".join(f"DATE '{2026 - i:04}-01-31'" for i in range(60))
LONG_MOMENTS = ", ".join(["'2026-01-31 12:30:15.25'", "'0001-01-01'", *(f"'2027-01-01 00:{i:02}'" for i in range(60))])

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bounds, NULL, NaN, inf": (
        "SELECT city, COUNT(*), COUNT(cost) AS m, SUM(cost), AVG(age), SUM(big), SUM(price), SUM(ratio), "
        "COUNT(DISTINCT person) AS people FROM t GROUP BY city",
        {"keys": CITIES},
    ),
    "all groups of a person, some rows": (
        "SELECT ok, COUNT(*), SUM(cost), SUM(age), COUNT(DISTINCT person) AS people FROM t GROUP BY ok", {"keys": OK},
    ),
    "halves of a step": (
        "SELECT SUM(cost) AS a, SUM(ratio) AS b FROM t",
        {"bounds": {"cost": (-3, 3, 1), "ratio": (-2, 2, 0.5)}, "per_unit": AtMost(groups=1, rows=50)},
    ),
    "squares and steps above 1": (
        "SELECT ok, VAR_POP(cost), STDDEV(big) AS s FROM t GROUP BY ok",
        {"bounds": {"cost": (-1e6, 1e6), "big": (-(10**12), 10**12, 1000)}, "keys": OK},
    ),
    "sums beyond 64 bits": (  # some 60 squares of 1e18
        "SELECT VAR_POP(cost), SUM(big) AS b FROM t",
        {"bounds": {"cost": (-1e9, 1e9, 1), "big": (-(2**52), 2**52, 1)}, "per_unit": AtMost(groups=1, rows=400)},
    ),
    "quantiles, modes, different values": (
        "SELECT MEDIAN(cost) AS a, QUANTILE_CONT(age, 0.9) AS b, MODE(city) AS c, COUNT(DISTINCT city) AS d, "
        "COUNT(DISTINCT cost) AS e, COUNT(DISTINCT at) AS f, COUNT(DISTINCT ok) AS g, "
        "COUNT(DISTINCT price) AS h FROM t",
        {"keys": CITIES, "per_unit": AtMost(groups=1, rows=20)},
    ),
    "long lists": (  # each with a value of the table, and with the letter that lists are split by first
        f"SELECT COUNT_IF(city IN ({LONG_TEXTS})) AS a, COUNT_IF(NOT (big IN ({LONG_WHOLES}))) AS b, "
        f"COUNT_IF(day IN ({LONG_DAYS})) AS c, COUNT(*) AS n, COUNT_IF(price NOT IN ({LONG_REALS})) AS d "
        f"FROM t WHERE cost IN ({LONG_REALS}) OR at NOT IN ({LONG_MOMENTS})",
        {},
    ),
    "private keys": (
        "SELECT city, ok, COUNT(*) FROM t GROUP BY city, ok", {"delta": 1e-5},
    ),
    "private keys that are times": (
        "SELECT day, at, SUM(cost) FROM t GROUP BY day, at", {"delta": 1e-5, "per_unit": AtMost(groups=5, rows=1)},
    ),
    "private keys that are numbers": (
        "SELECT cost, big, COUNT(*) FROM t GROUP BY cost, big", {"delta": 1e-5, "per_unit": AtMost(groups=9, rows=1)},
    ),
    "declared keys of every type": (
        "SELECT day, cost, age, COUNT(*) FROM t GROUP BY day, cost, age",
        {"keys": {"day": [date(2026, 1, 31), date(1, 1, 1)], "cost": [0.1, 7, 0], "age": [0, 1, 2]}},
    ),
    "arithmetic that overflows, vanishes or fails": (
        "SELECT SUM(cost * cost) AS a, SUM(cost * 1e300) AS b, SUM(cost / age) AS c, SUM(cost / cost) AS d, "
        "SUM(cost - big) AS e, SUM(EXP(cost)) AS f, SUM(POWER(cost, 3)) AS g, SUM(SQRT(cost) + LN(cost)) AS h, "
        "SUM(cost + cost) AS i, SUM(-cost) AS j, SUM(CASE WHEN age > 3 THEN 1e300 ** 2 END) AS k, "
        "SUM(CAST(CONTAINS(city, 'e') AS DOUBLE)) AS l FROM t",
        {
            "bounds": {
                **BOUNDS, "cost * cost": (-5, 90), "cost * 1e300": (-9, 9), "cost / age": (-3, 3),
                "cost / cost": (0, 2), "cost - big": (-99, 99), "EXP(cost)": (0, 100), "POWER(cost, 3)": (-9, 99),
                "SQRT(cost) + LN(cost)": (-9, 9), "cost + cost": (-9, 9), "-cost": (-9, 9),
                "CASE WHEN age > 3 THEN 1e300 ** 2 END": (0, 9), "CAST(CONTAINS(city, 'e') AS DOUBLE)": (0, 1),
            },
            "per_unit": AtMost(groups=1, rows=40),
        },
    ),
    "whole numbers": (
        "SELECT SUM(FLOOR(cost)) AS a, SUM(CEIL(cost)) AS b, SUM(ROUND(cost)) AS c, SUM(ROUND(cost, 1)) AS d, "
        "SUM(SIGN(cost)) AS e, SUM(big + 1) AS f, SUM(age % 7) AS g, SUM(age * age) AS h, "
        "SUM(CAST(cost AS BIGINT)) AS i, SUM(WIDTH_BUCKET(cost, 0, 10, 4)) AS j, SUM(CAST(ok AS INTEGER)) AS k, "
        "SUM(ABS(age)) AS l FROM t",
        {
            "bounds": dict.fromkeys(
                (
                    "FLOOR(cost)", "CEIL(cost)", "ROUND(cost)", "ROUND(cost, 1)", "big + 1", "age % 7", "age * age",
                    "CAST(cost AS BIGINT)", "CAST(ok AS INTEGER)", "ABS(age)",
                ),
                (-50, 50),
            ),
            "per_unit": AtMost(groups=1, rows=40),
        },
    ),
    "texts": (
        "SELECT COUNT_IF(city LIKE 'o''x\\y') AS a, COUNT_IF(city LIKE '5_\\%') AS b, COUNT_IF(city LIKE '%50%') AS c, "
        "SUM(LENGTH(city)) AS d, COUNT_IF(LOWER(city) = 'bern') AS e, COUNT_IF(TRIM(city) = 'Bern') AS f, "
        "COUNT_IF(SUBSTRING(city, 0, 3) = 'Be') AS g, COUNT_IF(LEFT(city, 2) || RIGHT(city, 2) = 'Bern') AS h, "
        "COUNT_IF(CONCAT(city, CASE WHEN ok THEN 'x' END) = 'Bern') AS i, COUNT_IF(CONTAINS(city, '_')) AS j, "
        "COUNT_IF(STARTS_WITH(city, 'B')) AS k, COUNT_IF(REPLACE(city, 'ern', 'e') = 'Be') AS l, "
        "COUNT_IF(CAST(age AS TEXT) = '30') AS m, COUNT_IF(city < 'a') AS n FROM t",
        {"bounds": {"LENGTH(city)": (0, 20)}, "per_unit": AtMost(groups=1, rows=40)},
    ),
    "times": (
        "SELECT SUM(YEAR(at)) AS a, SUM(WEEK(at)) AS b, SUM(DAYOFWEEK(day)) AS c, SUM(EXTRACT(ISODOW FROM at)) AS d, "
        "SUM(DAYOFYEAR(at)) AS e, SUM(HOUR(at) + MINUTE(at)) AS f, SUM(QUARTER(day) + MONTH(at) + DAY(at)) AS g, "
        "COUNT_IF(DATE_TRUNC('month', at) = DATE '2026-01-01') AS h, "
        "COUNT_IF(DATE_TRUNC('hour', at) = TIMESTAMP '2026-01-31 12:00:00') AS i, "
        "COUNT_IF(DATE_TRUNC('week', day) < DATE '2026-01-31') AS j, COUNT_IF(at > day) AS k, "
        "COUNT_IF(CAST(at AS DATE) = DATE '1969-12-31') AS l, COUNT_IF(at >= '2024-02-29') AS m FROM t",
        {"per_unit": AtMost(groups=1, rows=40)},
    ),
    "time between": (
        "SELECT " + ", ".join(
            f"SUM(DATE_DIFF('{unit}', day, at)) AS {unit}"
            for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
        ) + " FROM t",
        {
            "bounds": {
                f"DATE_DIFF('{unit}', day, at)": (-(10**6), 10**6)
                for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
            },
            "per_unit": AtMost(groups=1, rows=40),
        },
    ),
    "times that are moved and written": (
        "SELECT COUNT_IF(day + INTERVAL '1' MONTH = DATE '2026-02-28') AS a, "
        "COUNT_IF(at - INTERVAL 90 MINUTE < day) AS b, "
        "COUNT_IF(at + INTERVAL '9999' YEAR IS NULL) AS c, COUNT_IF(day + 3 > DATE '2026-02-01') AS d, "
        "SUM(DATE '2026-03-01' - day) AS e, COUNT_IF(STRFTIME(at, '%Y-%m-%dT%H:%M') = '2026-01-31T12:30') AS f, "
        "COUNT_IF(DATE_ADD(day, INTERVAL 2 WEEK) > at) AS g, COUNT_IF(at - INTERVAL '2' QUARTER > TIMESTAMP "
        "'2025-01-01 00:00:00') AS h, COUNT(DISTINCT STRFTIME(day, '%j')) AS i FROM t",
        {"per_unit": AtMost(groups=1, rows=40), "bounds": {"DATE '2026-03-01' - day": (-(10**6), 10**6)}},
    ),
    "patterns, tuples, filters": (
        "SELECT COUNT_IF(city ILIKE 'BERN_') AS a, COUNT_IF(city LIKE '5_!%' ESCAPE '!') AS b, "
        "COUNT_IF(city NOT LIKE '%!_%' ESCAPE '!') AS c, COUNT_IF(city NOT ILIKE '%z_R%') AS d, "
        "COUNT(DISTINCT city, age, ok) AS e, SUM(cost) FILTER (WHERE ok) AS f, "
        "COUNT(*) FILTER (WHERE NOT ok) * 2 AS g, CORR(cost, age) AS h, REGR_SLOPE(ratio, big) AS i FROM t",
        {"per_unit": AtMost(groups=1, rows=40)},
    ),
    "conditions": (
        "SELECT COUNT(*) AS a, COUNT_IF(cost > 2.5 AND NOT ok) AS b, COUNT_IF(cost <= 0 OR ok IS NULL) AS c, "
        "COUNT_IF(big = 9223372036854775807) AS d, COUNT_IF(big > age) AS e, COUNT_IF(cost = 0) AS f, "
        "COUNT_IF(price = 1.5) AS g, COUNT_IF(COALESCE(cost, age) > 1) AS h, COUNT_IF(GREATEST(cost, age) > 5) AS i, "
        "COUNT_IF(NULLIF(age, 30) IS NULL) AS j, COUNT_IF(city IN ('', 'Bern')) AS k, COUNT_IF(cost > age) AS l, "
        "COUNT_IF(ratio > 0.4) AS m FROM t WHERE age BETWEEN -10 AND 100 AND city <> 'Basel'",
        {"per_unit": AtMost(groups=1, rows=40)},
    ),
    "a public table": (
        "SELECT region, COUNT(*) AS n, SUM(size) AS s FROM t LEFT JOIN regions USING (city) GROUP BY region",
        {"bounds": {"size": (0, 9)}},
    ),
    "a private table": (
        "SELECT kind, COUNT(*) AS n, SUM(paid + cost) AS s FROM t LEFT JOIN bills ON t.person = bills.person "
        "AND t.age = bills.age GROUP BY kind",
        {"delta": 1e-5, "bounds": {"paid + cost": (-9, 9)}},
    ),
    "one number per person, of several levels": (
        "WITH p AS (SELECT person, city, COUNT(*) AS n, SUM(cost) AS s, SUM(big) AS b, AVG(price) AS a, "
        "MAX(at) AS last, MIN(ratio) AS r, COUNT(DISTINCT age) AS d FROM t WHERE age IS NOT NULL "
        "GROUP BY person, city HAVING COUNT(*) > 1) "
        "SELECT COUNT(*) AS c, SUM(n) AS n, SUM(s) AS s, AVG(b) AS b, SUM(a * r) AS a, SUM(d) AS d, "
        "COUNT_IF(last > '2025-01-01') AS l FROM p WHERE s < 1e9 AND n / 2 < 40",
        {
            "bounds": {"n": (0, 9), "s": (-9, 99), "b": (-99, 99), "a * r": (-5, 5), "d": (0, 5)},
            "per_unit": AtMost(groups=1, rows=4),
        },
    ),
    "subqueries of rows, unions, values": (
        "SELECT v, COUNT(*) AS n, SUM(x) AS s FROM (SELECT person, city, cost * 2 AS x FROM t WHERE person IN (SELECT "
        "person FROM bills WHERE paid > 1) UNION ALL SELECT person, kind, paid FROM bills) AS u "
        "LEFT JOIN (VALUES ('Bern', 1), ('a', 2)) AS w(city, v) USING (city) "
        "WHERE city NOT IN (SELECT city FROM regions WHERE size = 3) GROUP BY v",
        {"bounds": {"x": (-9, 9)}},
    ),
    "one number per person and group": (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=person, max_groups_contributed=2) "
        "city, SUM(cost, contribution_bounds_per_group => (-5, 40)) AS s, "
        "COUNT(age, contribution_bounds_per_group => (0, 4)) AS n, "
        "SUM(big, contribution_bounds_per_group => (-9, 9)) AS b, "
        "AVG(cost, contribution_bounds_per_group => (0, 5)) AS a FROM t WHERE age > 0 GROUP BY city",
        {"keys": CITIES, "per_unit": AtMost(groups=2, rows=1), "bounds": None},
    ),
    "a limit on all rows": (
        "SELECT city, SUM(cost), COUNT(*), COUNT(DISTINCT person) AS p, MEDIAN(age) AS m FROM t GROUP BY city",
        {"keys": CITIES, "bounds": BOUNDS, "per_unit": AtMost(groups=3, rows=2, total=4)},
    ),
    "counts with a limit on all rows": (
        "SELECT city, COUNT(*), COUNT(DISTINCT person) AS p FROM t GROUP BY city",
        {"delta": 1e-5, "per_unit": AtMost(groups=3, rows=2, total=4)},
    ),
    "every row a unit": (
        "SELECT city, SUM(cost) FROM t GROUP BY city", {"unit": "row", "per_unit": None, "keys": CITIES},
    ),
    "people by text": (
        "SELECT ok, SUM(cost) FROM t GROUP BY ok", {"unit": "city", "keys": OK},
    ),
    "people by time": (
        "SELECT ok, SUM(cost), COUNT(DISTINCT cost) AS d FROM t GROUP BY ok", {"unit": "at", "keys": OK},
    ),
    "people by number": ("SELECT ok, SUM(age) FROM t GROUP BY ok", {"unit": "cost", "keys": OK}),
    "people by decimal": ("SELECT ok, SUM(age) FROM t GROUP BY ok", {"unit": "price", "keys": OK}),
}  # fmt: skip


Place = Callable[..., Any]


@pytest.fixture(scope="module")
def database(postgres: Any) -> Generator[tuple[Any, str]]:
    import psycopg

    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection, dsn


@pytest.fixture(scope="module")
def reference() -> Generator[Any]:
    engine = in_duckdb({"t": TABLE, "bills": BILLS}, {"regions": REGIONS})
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=ENGINES)
def place(request: pytest.FixtureRequest) -> Place:
    """Puts tables on the engine that is tested."""
    if request.param == "spark":
        session = request.getfixturevalue("spark")
        return lambda tables, public: in_spark(session, tables, public)
    connection, dsn = request.getfixturevalue("database")
    return lambda tables, public: in_postgres(connection, dsn, tables, public)


@pytest.fixture(scope="module")
def engine(place: Place) -> Generator[Any]:
    found = place({"t": TABLE, "bills": BILLS}, {"regions": REGIONS})
    yield found
    found.close()


@pytest.mark.parametrize("case", CASES)
def test_totals_are_the_same(engine: Any, reference: Any, case: str) -> None:
    sql, options = CASES[case]
    options = {"bounds": BOUNDS, "per_unit": KEPT, **options}
    expected = totals(ask(reference, sql, **options), key=(2**64 - 1, 12345))
    assert any(expected["rows"].values())
    assert totals(ask(engine, sql, **options), key=(2**64 - 1, 12345)) == expected


WHOLE = {
    "limits": (AtMost(groups=3, rows=3, total=4), True, False),
    "bounds, then a cut": (AtMost(groups=1, rows=2), False, True),
    "all": (AtMost(groups=2, rows=2), True, True),
    "rows in all": (AtMost(groups=9, rows=9, total=4), True, True),
}


@pytest.mark.parametrize("case", WHOLE)
def test_the_same_people_are_left_out_whole(engine: Any, reference: Any, case: str) -> None:
    """Also by the joins that DuckDB makes where rows need not be chosen alike."""
    limits, of_limits, of_bounds = WHOLE[case]
    where = "age = 5 OR (person = 2 AND age = 30)"  # so that some are within, and some beyond
    sql = "SELECT city, SUM(cost), COUNT(*), COUNT(DISTINCT person), COUNT(DISTINCT age) FROM t "
    sql += f"WHERE {where} GROUP BY city"
    found = []
    for each in (engine, reference):
        plan = ask(each, sql, bounds=BOUNDS, keys=CITIES, per_unit=limits)
        columns = frozenset(map(name, plan.grids)) if of_bounds else frozenset()
        options = replace(plan.options, whole_limits=("total",) * of_limits, whole_bounds=columns)
        found.append(totals(planning.plan(plan.question, options, plan.context), key=(5, 6)))
    assert any(found[1]["rows"].values())
    assert found[0] == found[1]


def test_another_key_keeps_other_rows(engine: Any, reference: Any) -> None:
    """Each engine agrees with DuckDB under a second key, under which the answer is another one."""
    plans = [
        ask(each, "SELECT city, SUM(cost) FROM t GROUP BY city", keys=CITIES, bounds=BOUNDS, per_unit=KEPT)
        for each in (engine, reference)
    ]
    one, other = (totals(plan, key=(5, 6)) for plan in plans)
    assert one == other != totals(plans[1], key=(5, 7))


def test_surveys_count_the_same(engine: Any, reference: Any) -> None:
    """Private bounds, private limits, and the diagnosis."""

    def surveyed(each: Any) -> list[list[int]]:
        plan = ask(
            each, "SELECT city, SUM(cost), AVG(age) FROM t GROUP BY city", bounds=BOUNDS, keys=CITIES, per_unit=KEPT
        )
        rows, one = staging._rows(plan), Fraction(1)
        columns = [plan.question.table.find(name) for name in ("cost", "age", "big")]
        allowance = Allowance.of({"rows": 2, "groups": 1, "total": 3}, plan.grids, groups=None)
        planned = [
            *(surveys.survey_bounds(rows, column, epsilon=one) for column in columns),
            *(
                surveys.survey_limits(rows, kinds=kinds, epsilon=one)
                for kinds in (("total",), ("total", "groups", "rows"))
            ),
            *(diagnosis.survey_beyond(rows, each, epsilon=one) for each in (allowance, Allowance((("total", 3),)))),
            diagnosis.survey_shares(rows, plan.grids, plan.limits, Allowance(), cut=True, epsilon=one),
            diagnosis.survey_shares(rows, plan.grids, plan.limits, allowance, cut=False, epsilon=one),
        ]
        found = [s for s in planned if s is not None]
        return [each.run(survey.sql, groups=survey.cells, key=(0, 0)).rows.tolist() for survey in found]

    counted = surveyed(reference)
    assert all(any(cells) for cells in counted)
    assert surveyed(engine) == counted


rows = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, None]),
        st.sampled_from(["a", "b", "c", "d", "", None]),
        st.one_of(st.sampled_from(REALS), st.floats()),
        st.one_of(st.none(), st.integers(-9, 9), st.sampled_from(WHOLES)),
    ),
    max_size=20,
)  # fmt: skip
QUESTION = (
    "SELECT g, COUNT(*) AS a, SUM(x) AS b, COUNT(DISTINCT x) AS c, AVG(i) AS d, MEDIAN(x * i) AS e, "
    "SUM(x / i - i) AS f FROM t WHERE NOT x < -5 GROUP BY g"
)
SMALL: dict[str, Any] = {
    "bounds": {"x": (-3, 3), "i": (-4, 4), "x * i": (-9, 9), "x / i - i": (-9, 9)},
    "keys": {"g": ["a", "b", "c", ""]},
    "per_unit": AtMost(groups=2, rows=2),
}


def table(found: list[tuple[Any, ...]]) -> dict[str, Any]:
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    types = {"person": "BIGINT", "g": "VARCHAR", "x": "DOUBLE", "i": "BIGINT"}
    return {name: (type, values) for (name, type), values in zip(types.items(), columns, strict=True)}


def compared(place: Place, found: list[tuple[Any, ...]]) -> None:
    one, other = in_duckdb({"t": table(found)}, {}), place({"t": table(found)}, {})
    try:
        assert totals(ask(other, QUESTION, **SMALL)) == totals(ask(one, QUESTION, **SMALL))
    finally:
        one.close()
        other.close()


@settings(max_examples=25)
@given(rows)
def test_random_tables_on_postgres(database: tuple[Any, str], found: list[tuple[Any, ...]]) -> None:
    compared(lambda tables, public: in_postgres(*database, tables, public), found)


@pytest.mark.xdist_group("spark")
@settings(max_examples=3)
@given(rows)
def test_random_tables_on_spark(spark: Any, found: list[tuple[Any, ...]]) -> None:
    compared(lambda tables, public: in_spark(spark, tables, public), found)


def additive(place: Place, found: list[tuple[Any, ...]]) -> None:
    """The oracle of test_sensitivity, for sums: all people give what each gives alone, and nobody more than planned."""

    def shares(some: list[tuple[Any, ...]]) -> Any:
        engine = place({"t": table(some)}, {})
        try:
            plan = ask(engine, "SELECT g, COUNT(*) AS a, SUM(x) AS b FROM t GROUP BY g", **SMALL)
            got = totals(plan)
            return {name: Counter(got[name]) for name in ("COUNT(*)", "SUM(x)")}, plan
        finally:
            engine.close()

    whole, plan = shares(found)
    alone = [shares([row for row in found if row[0] == person])[0] for person in (1, 2, 3)]
    for noise in plan.noises:
        name, summed = noise.measure.name, Counter[Any]()
        for share in alone:
            summed.update(share[name])
            assert sum(abs(value) for value in share[name].values()) <= noise.move.reach
        assert {k: v for k, v in summed.items() if v} == {k: v for k, v in whole[name].items() if v}


@settings(max_examples=30)
@given(rows)
def test_nobody_matters_to_others_by_the_portable_rule(found: list[tuple[Any, ...]]) -> None:
    additive(in_duckdb, found)


@settings(max_examples=8)
@given(rows)
def test_nobody_matters_to_others_on_postgres(database: tuple[Any, str], found: list[tuple[Any, ...]]) -> None:
    additive(lambda tables, public: in_postgres(*database, tables, public), found)


@pytest.mark.xdist_group("spark")
@settings(max_examples=1)
@given(st.just([(p, g, float(p), None) for p in (1, 2, 3) for g in "abcd" for _ in range(3)]))
def test_nobody_matters_to_others_on_spark(spark: Any, found: list[tuple[Any, ...]]) -> None:
    additive(lambda tables, public: in_spark(spark, tables, public), found)


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT SUM(CAST(city AS DOUBLE)) FROM t", "CAST"),
        ("SELECT COUNT_IF(CAST(cost AS TEXT) = '1.5') FROM t", "CAST"),
        ("SELECT COUNT_IF(city > DATE '2026-01-01') FROM t", "CAST"),
    ],
)
def test_what_engines_read_differently_is_refused_before_the_charge(engine: Any, sql: str, word: str) -> None:
    with pytest.raises(NotSupported, match=f"{word}.* is not supported on (PostgreSQL|Spark)"):
        ask(engine, sql, bounds={"CAST(city AS DOUBLE)": (0, 1)}, per_unit=KEPT)
