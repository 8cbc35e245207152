"""Every statement of a run is bound by its engine before the charge, on every engine; and a text is a text.

Binding finds what is wrong with a statement, its tables, columns, types and rights, without reading a row. What a run
executes after the charge is what was bound before it, but for constants that surveys found. About 10 s on DuckDB and
PostgreSQL, and 20 s on Spark.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import deniable as dn
from deniable.errors import DataError
from deniable.query import AtMost
from deniable.query.bounding import Bounded
from deniable.query.surveys import FURTHEST

SPARK = pytest.param("spark", marks=pytest.mark.xdist_group("spark"))
ENGINES = ["duckdb", "postgres", SPARK]
ONE = AtMost(groups=1, rows=1)

TEXTS = [
    "$key_1", "$keys_1", "$bins_1", ":key_1", ":x", "q.x", "$1", "?", "%s", "%(x)s", "${x}", "{0}", "{x}", "\\", "\\'",
    "a\\", "--", "/* x", "*/", "'; DROP TABLE t; --", "`", '"', "a''b", "$$", "$a$x$a$", "E'\\n'", "\n", "a\n  b", "\t",
    "  two  blanks  ", "N'x'", "😀", "\u2028", "@v", "#c", "t.city", "\x01", "\x7f", "__SQLGLOT__LB__", "%", "_", "ß",
]  # fmt: skip
"""What looks like a placeholder of ours, of an engine or of a library, or like SQL."""


@pytest.fixture
def ledger(tmp_path: Path) -> Generator[dn.Ledger]:
    with dn.Ledger.create(tmp_path / "l", unit="person", budget=dn.ApproxDP(10**9, 0.1)) as found:
        yield found


@pytest.fixture(params=ENGINES)
def opened(
    request: pytest.FixtureRequest, ledger: dn.Ledger
) -> Generator[Callable[[dict[str, pd.DataFrame]], dn.Session]]:
    """Opens a session on an engine that holds the tables."""
    sessions: list[dn.Session] = []

    def open_session(tables: dict[str, pd.DataFrame]) -> dn.Session:
        if request.param == "duckdb":
            data: dict[str, Any] = {name: pa.Table.from_pandas(frame) for name, frame in tables.items()}
        elif request.param == "postgres":
            data = in_postgres(request.getfixturevalue("postgres").database(), tables)
        else:
            spark = request.getfixturevalue("spark")
            data = {name: spark.createDataFrame(frame) for name, frame in tables.items()}
        sessions.append(dn.Session(data, ledger=ledger))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def in_postgres(dsn: str, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    import psycopg
    from psycopg import sql

    types = {"int64": "BIGINT", "float64": "DOUBLE PRECISION", "bool": "BOOLEAN"}
    with psycopg.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        for name, frame in tables.items():
            columns = sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(str(column)), sql.SQL(types.get(str(type), "TEXT")))
                for column, type in frame.dtypes.items()
            )
            cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), columns))
            places = sql.SQL(", ").join([sql.Placeholder()] * len(frame.columns))
            insert = sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(name), places)
            cursor.executemany(insert, frame.astype(object).to_numpy().tolist())
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return dict.fromkeys(tables, f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def visits(texts: list[str]) -> pd.DataFrame:
    """Three rows with each text, of three people, and a number."""
    rows = [(person, text, float(person % 5)) for person, text in enumerate(texts * 3)]
    return pd.DataFrame(rows, columns=["person", "city", "x"]).astype({"person": "int64", "city": "str"})


# a text is a text


def test_a_text_in_a_condition_is_a_text(opened: Callable[..., dn.Session]) -> None:
    session = opened({"t": visits(TEXTS)})
    tests = [f"city = {x} AND CONTAINS(city, {x}) AND city IN ({x}, 'c')" for x in map(quoted, TEXTS)]
    number = "CASE" + "".join(f" WHEN {test} THEN {i}" for i, test in enumerate(tests)) + " ELSE -1 END"
    release = session.sql(f"SELECT {number} AS i, COUNT(*) AS n FROM t GROUP BY i", epsilon=1000, per_unit=ONE)
    assert {row["i"]: row["n"].value for row in release.rows} == {**dict.fromkeys(range(len(TEXTS)), 3), -1: 0}


def test_a_text_in_a_list_is_a_text(opened: Callable[..., dn.Session]) -> None:
    """In a list of IN, of keys, of categories, and as a private key."""
    session = opened({"t": visits(TEXTS)})
    some = ", ".join(quoted(text) for text in TEXTS[::2])
    (row,) = session.sql(f"SELECT COUNT(*) AS n FROM t WHERE city IN ({some})", epsilon=1000, per_unit=ONE).rows
    assert row["n"].value == 3 * len(TEXTS[::2])
    sql = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"
    stated = session.sql(sql, epsilon=1000, keys={"city": TEXTS}, per_unit=ONE)
    assert [(row["city"], row["n"].value) for row in stated.rows] == [(text, 3) for text in TEXTS]
    found = session.sql(sql, epsilon=1000, delta=0.01, per_unit=ONE)
    assert {row["city"]: row["n"].value for row in found.rows} == dict.fromkeys(TEXTS, 3)
    mode = session.sql(
        "SELECT MODE(city) AS m FROM t WHERE city = '$key_1'", epsilon=1000, keys={"city": TEXTS}, per_unit=ONE
    )
    assert mode.rows[0]["m"].value == "$key_1"


@pytest.mark.parametrize("what", ["MEDIAN(x) AS m", "COUNT(DISTINCT x) AS m", "AVG(x) AS m, COUNT(*) AS n"])
@pytest.mark.parametrize("unit", ["row", "person"])
def test_what_looks_like_a_parameter_needs_none(tmp_path: Path, unit: str, what: str) -> None:
    """Whether a statement takes the hash key is asked of the statement."""
    with dn.Ledger.create(tmp_path / "l", unit=unit, budget=dn.PureDP(100)) as ledger:
        limits: dict[str, Any] = {} if unit == "row" else {"per_unit": ONE}
        with dn.Session({"t": pa.Table.from_pandas(visits(TEXTS))}, ledger=ledger) as session:
            for text in ("$key_1", "$keys_1", "$bins_1"):
                sql = f"SELECT {what} FROM t WHERE city <> '{text}'"
                session.sql(sql, epsilon=1, bounds={"x": (0, 5)}, **limits)
            assert len(list(ledger.charges())) == 3


def test_names_are_names(opened: Callable[..., dn.Session]) -> None:
    """Of tables, columns and outputs."""
    odd = ["$key_1", ":x", "a b", "a;--", "'", "a.b", "{0}", "%s", "q", "u", "g", "v1", "k1", "base", "Select", "ü"]
    frame = visits(["a", "b"])
    for name in odd:
        frame[name] = frame["x"]
    session = opened({"t;--": frame})
    sums = ", ".join(f'SUM("{name}") AS "{name}"' for name in odd)
    release = session.sql(
        f'SELECT {sums} FROM "t;--" WHERE ' + " AND ".join(f'"{name}" < 9' for name in odd),
        epsilon=10_000, bounds=dict.fromkeys(odd, (0, 4)), per_unit=ONE,
    )  # fmt: skip
    assert {round(value.value) for value in release.rows[0].values()} == {frame["x"].sum()}


# bound before the charge


class Watched:
    """A DuckDB connection that writes down what it executes."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.texts = inner, list[str]()

    def execute(self, sql: Any, given: Any = None) -> Any:
        self.texts.append(getattr(sql, "query", sql))
        return self.inner.execute(sql, given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "count": ("SELECT COUNT(*) AS n FROM t", {"per_unit": ONE}),
    "sum and keys": (
        "SELECT city, SUM(x) AS s FROM t GROUP BY city",
        {"bounds": {"x": (0, 5)}, "keys": {"city": ["a", "b"]}, "per_unit": AtMost(groups=1, rows=2)},
    ),
    "private keys": ("SELECT city, COUNT(*) AS n FROM t GROUP BY city", {"per_unit": ONE}),
    "detail": (
        "SELECT MEDIAN(x) AS m, COUNT(DISTINCT city) AS d, MODE(city) AS w FROM t",
        {"bounds": {"x": (0, 5)}, "keys": {"city": ["a", "b"]}, "per_unit": AtMost(groups=1, rows=2)},
    ),
    "private bounds": ("SELECT AVG(x) AS m, VAR_POP(y) AS v FROM t", {"bounds": "private", "per_unit": ONE}),
    "private limits": (
        "SELECT city, SUM(x) AS s, MEDIAN(y) AS m FROM t GROUP BY city",
        {"bounds": {"x": (0, 5), "y": "private"}, "keys": {"city": ["a", "b"]}, "per_unit": "private", "diagnose": 0.1},
    ),
    "private keys and limits": (
        "SELECT city, COUNT(*) AS n, COUNT(DISTINCT x) AS d FROM t GROUP BY city",
        {"per_unit": "private", "diagnose": 0.1},
    ),
    "diagnosed": ("SELECT SUM(x) AS s FROM t", {"bounds": {"x": (0, 5)}, "per_unit": ONE, "diagnose": 0.1}),
}


@pytest.mark.parametrize("name", PLANS)
def test_what_runs_was_bound_before_the_charge(name: str, ledger: dn.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    sql, options = PLANS[name]
    rows = pa.table({"person": range(40), "city": ["a", "b"] * 20, "x": [0.5] * 40, "y": [3, 900] * 20})
    with dn.Session({"t": rows}, ledger=ledger) as session:
        engine: Any = session._engine
        watched = engine._connection = Watched(engine._connection)
        charge, before = ledger.charge, list[str]()

        def charged(*given: Any, **more: Any) -> Any:
            before.extend(watched.texts)
            watched.texts.clear()
            return charge(*given, **more)

        monkeypatch.setattr(ledger, "charge", charged)
        plan = session.plan(sql, epsilon=10, **options)
        plan.run()
    bound = _forms(text.removeprefix(bind) for text in before if text.startswith(bind := "PREPARE deniable AS "))
    assert watched.texts
    assert _forms(watched.texts) <= bound


def _forms(texts: Iterable[str]) -> set[str]:
    """The forms of statements: without their numbers, since those that surveys find are constants in them, and apart
    from them the values that are read of a row. The form of values depends on bounds, and that of the rest on limits.
    """
    plain = [re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "0", text) for text in texts]
    value = re.compile(r"^ +(.*) AS v0,?$", re.MULTILINE)
    return {part for text in plain for part in (*value.findall(text), value.sub("", text))}


def _bound(statements: Iterable[Bounded]) -> set[str]:
    return _forms(text for bounded in statements for text in bounded.statements)


AGGREGATES = ["SUM({})", "MEDIAN({})", "STDDEV({})", "COUNT(DISTINCT {})"]


@pytest.mark.parametrize("engine", ["duckdb", "portable"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_whatever_surveys_find_has_a_form_that_was_bound(aggregate: str, engine: str, ledger: dn.Ledger) -> None:
    """All limits and many bounds that can be found, one at a time: the form of the one does not depend on the other."""
    rows = pa.table({"person": [1], "city": ["a"], "day": [1], "x": [0.5], "i": [3]})
    random = Random(f"{aggregate} {engine}")  # each engine tries others
    with dn.Session({"t": rows}, ledger=ledger, choice_key=None if engine == "duckdb" else 7) as session:
        for column, groups in [("x", None), ("x", 2), ("x", 90), ("x", 5000), ("i", 2)]:
            options: dict[str, Any] = {"bounds": "private", "per_unit": "private"}
            if "DISTINCT" in aggregate:
                options.pop("bounds")
            sql, keys = f"SELECT day, {aggregate.format(column)} AS a FROM t GROUP BY day", {}
            if groups is not None:
                keys = {"day": range(1, 2 * groups + 1, 2)}
            plan = session.plan(sql, epsilon=1, keys=keys, delta=None if keys else 1e-9, **options)
            assert isinstance(plan, dn.query.StagedPlan)
            bound = _bound(plan.statements)
            assert plan.limits is not None
            for place in [0, -1, *random.sample(range(plan.limits.cells), 3)]:
                wide = {survey.column: (-FURTHEST, FURTHEST) for survey in plan.bounds}
                counts = np.zeros(plan.limits.cells, dtype=int)
                counts[place] = 10**9
                found = plan.settle(wide, plan.limits.read(counts, epsilon=Fraction(1, 2), groups=groups))
                looks = [look.sql for look in plan._looks(found)]
                assert _bound((*found.statements, *looks)) <= bound, (sql, groups, found.limits)
            for survey in plan.bounds if groups == 2 else ():
                cells = itertools.combinations_with_replacement(range(survey.cells), 2)
                for first, last in random.sample(list(cells), 6):
                    counts = np.zeros(survey.cells, dtype=int)
                    counts[[first, last]] = 10**9
                    ends = survey.read(counts, epsilon=Fraction(1, 2), groups=groups)
                    found = plan.settle({survey.column: ends}, AtMost(groups=1, rows=1))
                    looks = [look.sql for look in plan._looks(found)]
                    assert _bound((*found.statements, *looks)) <= bound, (sql, ends)


@pytest.mark.parametrize("broken", ["text", "peek", "check", "plain"])
def test_a_statement_that_duckdb_cannot_bind_is_not_charged(ledger: dn.Ledger, broken: str) -> None:
    with dn.Session({"t": pa.table({"person": [1], "x": [1.0]})}, ledger=ledger) as session:
        plan = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1, per_unit=ONE, cover=0)
        assert isinstance(plan, dn.query.QueryPlan)
        easy, wrong = plan.bounded.shortcut, "SELECT 0 AS g, nothing AS n FROM temp.main.t"
        assert easy is not None
        parts: dict[str, Any] = {"text": wrong} if broken == "text" else {"shortcut": replace(easy, **{broken: wrong})}
        with pytest.raises(DataError, match="nothing was charged"):
            replace(plan, bounded=replace(plan.bounded, **parts)).run()
    assert not list(ledger.charges())


@pytest.mark.parametrize("engine", ["postgres", SPARK])
def test_a_statement_that_another_engine_cannot_bind_is_not_charged(
    engine: str, request: pytest.FixtureRequest, ledger: dn.Ledger
) -> None:
    frame = visits(["a"])
    if engine == "postgres":
        data = in_postgres(request.getfixturevalue("postgres").database(), {"t": frame})
    else:
        data = {"t": request.getfixturevalue("spark").createDataFrame(frame)}
    with dn.Session(data, ledger=ledger) as session:
        plan = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1, per_unit=ONE, cover=0)
        for wrong in (
            "SELECT 0 AS g, nothing AS n FROM temp.main.t AS t",
            "SELECT 0 AS g, CAST(1 AS BIGINT) || 'a' + 1 AS n",
        ):
            with pytest.raises(dn.errors.DeniableError, match=r"nothing was charged|not supported"):
                replace(plan, bounded=Bounded(wrong, {}, ())).run()
    assert not list(ledger.charges())


# between plan and run


def test_a_table_of_duckdb_that_changes_is_refused_before_the_charge(ledger: dn.Ledger) -> None:
    for change in ("DROP TABLE t", "ALTER TABLE t DROP COLUMN x", "ALTER TABLE t ALTER x TYPE VARCHAR"):
        with duckdb.connect() as owner:
            owner.execute("CREATE TABLE t AS SELECT 1::BIGINT AS person, 1.0::DOUBLE AS x")
            with dn.Session({"t": owner}, ledger=ledger) as session:
                plan = session.plan("SELECT SUM(x) AS s FROM t", epsilon=1, bounds={"x": (0, 5)}, per_unit=ONE)
                owner.execute(change)
                with pytest.raises(DataError, match="open it again"):
                    plan.run()
    assert not list(ledger.charges())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE t", "has changed"),
        ("ALTER TABLE t DROP COLUMN x", "has changed"),
        ("ALTER TABLE t ALTER x TYPE NUMERIC", "has changed"),
        ("REVOKE SELECT ON t FROM analyst", "GRANT SELECT"),
        ("REVOKE USAGE ON SCHEMA public FROM PUBLIC", "GRANT USAGE"),
        ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "nothing was charged"),
    ],
)
def test_a_table_of_postgres_that_changes_is_refused_before_the_charge(
    postgres: Any, ledger: dn.Ledger, change: str, said: str
) -> None:
    import psycopg

    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("CREATE TABLE t AS SELECT 1::BIGINT AS person, 1.0::DOUBLE PRECISION AS x")
        owner.execute("CREATE ROLE analyst LOGIN")
        try:
            owner.execute("GRANT SELECT ON t TO analyst")
            with (
                psycopg.connect(dsn.replace("user=tester", "user=analyst")) as theirs,
                dn.Session({"t": theirs}, ledger=ledger) as session,
            ):
                plan = session.plan("SELECT SUM(x) AS s FROM t", epsilon=1, bounds="private", per_unit=ONE)
                owner.execute(change)
                with pytest.raises(DataError, match=said):
                    plan.run()
        finally:
            owner.execute("DROP OWNED BY analyst")
            owner.execute("DROP ROLE analyst")
    assert not list(ledger.charges())


@pytest.mark.xdist_group("spark")
def test_a_table_of_spark_that_changes_is_refused_before_the_charge(spark: Any, ledger: dn.Ledger) -> None:
    spark.createDataFrame(visits(["a"])).createOrReplaceTempView("changing")
    try:
        with dn.Session({"changing": spark}, ledger=ledger) as session:
            plan = session.plan("SELECT SUM(x) AS s FROM changing", epsilon=1, bounds={"x": (0, 5)}, per_unit=ONE)
            spark.sql("SELECT 1 AS person, 'a' AS x").createOrReplaceTempView("changing")
            with pytest.raises(DataError, match="has changed"):
                plan.run()
            spark.catalog.dropTempView("changing")
            with pytest.raises(DataError, match="Spark has no table changing"):
                plan.run()
    finally:
        spark.catalog.dropTempView("changing")
    assert not list(ledger.charges())


# a plan with surveys is made again after the charge, from what it was given


def test_a_plan_keeps_what_it_was_given(ledger: dn.Ledger) -> None:
    rows = pa.table({"person": range(60), "city": ["a", "b"] * 30, "x": [1.0, 5.0] * 30})
    sql = "SELECT city, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY city"
    cities, weights = ["a", "b"], {"s": 2, "n": 1}
    with dn.Session({"t": rows}, ledger=ledger) as session:
        plan = session.plan(sql, epsilon=10, bounds="private", keys={"city": cities}, per_unit=ONE, weights=weights)
        cities.append("c")
        weights.clear()
        assert plan.run().columns["city"] == ["a", "b"]
        once = session.plan(sql, epsilon=10, bounds="private", keys={"city": iter(["a", "b"])}, per_unit=ONE)
        assert once.run().columns["city"] == ["a", "b"]


@pytest.mark.parametrize(
    "sum_of",
    [
        "CASE WHEN city = 'two  blanks' THEN t.x END", "CASE WHEN city = 'a\nb' THEN t.x END", "t.x * 2", "p.x",
        "t.x + p.x",
    ],
)  # fmt: skip
def test_private_bounds_find_the_expression_again(ledger: dn.Ledger, sum_of: str) -> None:
    """By what it is, not by how it is written down: literals have blanks, and two tables have an x."""
    rows = pa.table({"person": range(60), "city": ["two  blanks", "a\nb"] * 30, "x": [1.0, 5.0] * 30})
    places = pa.table({"city": ["two  blanks", "a\nb"], "x": [7, 70]})
    with dn.Session({"t": rows}, ledger=ledger, public={"p": places}) as session:
        sql = f"SELECT SUM({sum_of}) AS s, SUM(t.x) AS other FROM t JOIN p USING (city)"
        for diagnose in (None, 0.1):
            release = session.sql(sql, epsilon=100, bounds="private", per_unit="private", diagnose=diagnose)
            assert release.found is not None
            assert len(release.found.bounds) == 2
            if release.findings is not None:
                assert release.findings.clamped == {}, "both leave out, and clamp nothing"
