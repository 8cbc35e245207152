"""Subqueries, WITH, UNION ALL and VALUES: what they answer, whose rows they have, and what is refused.

The oracle of `test_sensitivity` runs over them too, with random tables and queries.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import deniable as dn
from deniable.errors import QueryError
from deniable.query import AtMost
from deniable.query.scope import DerivedTable
from deniable.units import Unit
from tests.query.conftest import NoLedger, UnboundDuckDB, plan_over

VISITS = pa.table(
    {
        "person": [1, 1, 2, 3, 4, 5, 6, 7],
        "city": ["Bern", "Basel", "Bern", "Chur", "Bern", "Basel", None, "Genf"],
        "age": pa.array([10, 10, 35, 70, 44, 18, 65, None], pa.int32()),
        "cost": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0],
    }
)
BILLS = pa.table({"person": [1, 2, 2, 9], "paid": [5.0, 6.0, 7.0, 8.0]})
REGIONS = pa.table(
    {"city": ["Basel", "Bern", "Chur", "Sion"], "region": ["north", "middle", "east", "south"], "size": [5, 4, 2, 1]}
)
WIDE = AtMost(groups=50, rows=50)
BOUNDS = {"cost": (0, 100), "age": (0, 100)}


class Tables:
    """Two private tables and a public one, asked without noise."""

    def __init__(self, unit: str) -> None:
        self.engine, self.unit = UnboundDuckDB(), unit
        owner = None if unit == "row" else unit
        private = {"t": VISITS, "bills": BILLS}
        self.tables = (
            *(replace(self.engine.add(name, table), owner=owner) for name, table in private.items()),
            self.engine.add("regions", REGIONS, public=True),
        )

    def plan(self, sql: str, **options: Any) -> Any:
        per_unit = {} if self.unit == "row" else {"per_unit": WIDE}
        options = {"epsilon": 10**15, "bounds": BOUNDS, **per_unit, **options}
        return plan_over(sql, self.tables, self.engine, NoLedger(Unit.of(self.unit)), **options)

    def ask(self, sql: str, **options: Any) -> list[tuple[Any, ...]]:
        release = self.plan(sql, **options).run()
        columns = [release.columns[name] for name in release.outputs]
        return [tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in zip(*columns, strict=True)]


@pytest.fixture(scope="module")
def people() -> Any:
    found = Tables("person")
    yield found
    found.engine.close()


@pytest.fixture(scope="module")
def single_rows() -> Any:
    found = Tables("row")
    yield found
    found.engine.close()


PER_PERSON = "SELECT person, COUNT(*) AS n FROM t GROUP BY person"


@pytest.mark.parametrize(
    ("sql", "expected", "options"),
    [
        (f"SELECT AVG(n) AS a, COUNT(*) AS c FROM ({PER_PERSON}) AS p", [(1.142857, 7)], {"bounds": {"n": (0, 10)}}),
        (f"WITH p AS ({PER_PERSON}) SELECT COUNT(*) AS c FROM p WHERE n > 1", [(1,)], {}),
        (f"SELECT COUNT(*) AS c FROM ({PER_PERSON} HAVING COUNT(*) > 1) AS p", [(1,)], {}),
        (f"SELECT n, COUNT(*) AS c FROM ({PER_PERSON}) AS p GROUP BY n", [(1, 6), (2, 1)], {"keys": {"n": [1, 2]}}),
        (
            "WITH p AS (SELECT person, SUM(cost) AS s, AVG(age) AS a, MIN(cost) AS lo FROM t GROUP BY person), "
            "q AS (SELECT s * 2 AS d, a, lo FROM p WHERE s > 40) "
            "SELECT SUM(d) AS x, AVG(a) AS y, AVG(lo) AS z, COUNT(*) AS n FROM q",
            [(520.0, 42.333333, 65.0, 4)],
            {"bounds": {"d": (0, 1000), "a": (0, 100), "cost": (0, 100)}},
        ),
        (
            "SELECT AVG(m) AS a FROM (SELECT person, MAX(n) AS m FROM (SELECT person, city, COUNT(*) AS n FROM t "
            "GROUP BY person, city) AS i GROUP BY person) AS o",
            [(1.0,)],
            {"bounds": {"m": (0, 9)}},
        ),
        (
            "SELECT AVG(r) AS a FROM (SELECT person, ROUND(SUM(cost) / COUNT(*), 1) + 1 AS r FROM t GROUP BY person) "
            "AS x",
            [(50.285714,)],
            {"bounds": {"r": (0, 200)}},
        ),
        (
            "SELECT city, COUNT(*) AS n, SUM(m) AS s FROM (SELECT person, city, COUNT(*) FILTER (WHERE age > 20) AS m "
            "FROM t GROUP BY 1, 2) AS x GROUP BY city",
            [("Bern", 3, 2), ("Basel", 2, 0)],
            {"bounds": {"m": (0, 5)}, "keys": {"city": ["Bern", "Basel"]}},
        ),
        ("SELECT COUNT(*) AS n FROM (SELECT cost FROM t WHERE cost > 30) AS x", [(5,)], {}),
        ("SELECT COUNT(DISTINCT person) AS p FROM (SELECT * FROM t) AS x WHERE x.age > 20", [(4,)], {}),
        (
            "SELECT band, COUNT(*) AS n FROM (SELECT CASE WHEN age < 30 THEN 'young' ELSE 'old' END AS band FROM t) "
            "AS x GROUP BY band",
            [("young", 3), ("old", 5)],
            {},
        ),
        ("SELECT SUM(c) AS s FROM (SELECT cost AS c FROM t) AS x", [(360.0,)], {}),
        (
            "SELECT COUNT(*) AS n, SUM(c) AS s FROM (SELECT person, cost AS c FROM t WHERE age > 20 UNION ALL "
            "SELECT person, paid FROM bills) AS u",
            [(8, 216.0)],
            {"bounds": {"c": (0, 100)}},
        ),
        (
            "SELECT size, COUNT(*) AS n FROM t JOIN (VALUES ('Bern', 1), ('Basel', NULL)) AS v(city, size) "
            "USING (city) GROUP BY size",
            [(1, 3)],
            {},
        ),
        ("SELECT COUNT(*) AS n FROM t WHERE city IN (SELECT city FROM regions WHERE size > 2)", [(5,)], {}),
        ("SELECT COUNT(*) AS n FROM t WHERE city NOT IN (SELECT city FROM regions WHERE size > 2)", [(2,)], {}),
        ("SELECT COUNT(*) AS n FROM t WHERE person IN (SELECT person FROM bills WHERE paid > 5)", [(1,)], {}),
        (f"SELECT COUNT(*) AS n FROM t WHERE person NOT IN ({PER_PERSON} HAVING COUNT(*) > 1)".replace(
            "SELECT person, COUNT(*) AS n", "SELECT person"), [(6,)], {}),
        (
            f"SELECT SUM(n) AS s FROM t JOIN ({PER_PERSON}) AS p ON t.person = p.person",
            [(10,)],
            {"bounds": {"n": (0, 5)}},
        ),
        (
            "SELECT region, COUNT(*) AS n FROM (SELECT region FROM t JOIN regions USING (city)) AS x GROUP BY region",
            [("east", 1), ("middle", 3), ("north", 2), ("south", 0)],
            {},
        ),
        ("WITH b AS (SELECT city FROM regions WHERE size > 2) SELECT COUNT(*) FROM t JOIN b USING (city)", [(5,)], {}),
        (
            "WITH r AS (SELECT MAX(size) AS m, city FROM regions GROUP BY city) SELECT COUNT(*) AS n FROM t JOIN r "
            "USING (city) WHERE m > 4",
            [(2,)],
            {},
        ),
        ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT person FROM t) AS x", [(7,)], {}),
        ("SELECT COUNT(*) AS n FROM (t JOIN regions USING (city)) AS x WHERE x.size > 4", [(2,)], {}),
        ("WITH t AS (SELECT * FROM t WHERE age > 40) SELECT COUNT(*) AS n FROM t", [(3,)], {}),
    ],
)  # fmt: skip
def test_answers(people: Tables, sql: str, expected: list[tuple[Any, ...]], options: dict[str, Any]) -> None:
    assert people.ask(sql, **options) == expected


def test_one_row_per_person_needs_no_limits(people: Tables) -> None:
    """Whoever is in the table is there once: limits need not be stated, and the noise is that of one row."""
    sql = f"SELECT AVG(n) AS a FROM ({PER_PERSON}) AS p"
    for given in (None, AtMost(groups=5, rows=9)):
        plan = people.plan(sql, epsilon=1, bounds={"n": (0, 10)}, per_unit=given)
        assert [part.move.sensitivity for part in plan.noises] == [10], "the distances from both bounds"
    with pytest.raises(QueryError, match="may own many rows"):
        people.plan("SELECT COUNT(*) AS c FROM (SELECT person, city FROM t GROUP BY person, city) AS p", per_unit=None)
    with pytest.raises(QueryError, match="may own many rows"):  # a public table may make many rows of one
        people.plan(f"SELECT COUNT(*) AS c FROM ({PER_PERSON}) AS p JOIN regions ON p.n = regions.size", per_unit=None)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM (SELECT age AS person, cost FROM t) AS x",
        "SELECT COUNT(*) AS n FROM (SELECT 1 AS person FROM t) AS x",
        "SELECT COUNT(*) AS n FROM (SELECT city AS person FROM t UNION ALL SELECT 'a' FROM bills) AS x",
        "SELECT COUNT(*) AS n FROM (SELECT COUNT(*) AS person FROM t GROUP BY t.person) AS x",
        "SELECT COUNT(*) AS n FROM (SELECT person, cost FROM t UNION ALL SELECT 1, paid FROM bills) AS x",
        "SELECT COUNT(*) AS n FROM (SELECT age AS person, cost FROM t UNION ALL SELECT person, paid FROM bills) AS x",
        "SELECT COUNT(*) AS n FROM (SELECT person, age FROM t UNION ALL SELECT age, person FROM t) AS x",
        "WITH x(unit_of_row) AS (SELECT city FROM t) SELECT COUNT(*) AS n FROM x",
        "WITH x(UNIT_OF_ROW, unit_of_row_) AS (SELECT city, age FROM t) SELECT COUNT(*) AS n FROM x",
        "WITH x AS (SELECT cost AS person FROM t) SELECT COUNT(*) AS n FROM x JOIN regions ON x.person = regions.size",
    ],
)
def test_no_other_column_passes_for_the_id(people: Tables, sql: str) -> None:
    """Whose a row is does not follow from a name: a column that is called like the id is another column."""
    plan = people.plan(sql)
    assert isinstance(plan.question.table, DerivedTable)
    assert plan.unit == plan.question.table.unit
    assert plan.unit.name != "person"
    assert plan.unit.kind.value == "whole numbers"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT AVG(n) FROM (SELECT city, COUNT(*) AS n FROM t GROUP BY city) AS x", "must be grouped by person"),
        ("SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM t) AS x", "must be grouped by person"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT city FROM t) AS x", "must be grouped by person"),
        ("SELECT COUNT(*) FROM (SELECT person FROM t LIMIT 3) AS x", "LIMIT within a subquery is not supported"),
        ("SELECT COUNT(*) FROM (SELECT person FROM t ORDER BY cost) AS x", "have no order; leave it out"),
        ("SELECT COUNT(*) FROM (SELECT person, person FROM t) AS x", "has two columns person"),
        ("WITH x(z, Z) AS (SELECT city, person FROM t) SELECT COUNT(*) FROM x", "two columns get one name"),
        ("WITH x(z, c, z) AS (SELECT city, age, person FROM t) SELECT COUNT(*) FROM x", "two columns get one name"),
        ("SELECT COUNT(*) FROM (SELECT person, MEDIAN(cost) AS m FROM t GROUP BY person) AS x", "aggregates are COUNT"),
        ("SELECT COUNT(*) FROM (SELECT person, MIN(city) AS m FROM t GROUP BY person) AS x", "needs numbers or times"),
        ("SELECT COUNT(*) FROM (SELECT person, cost FROM t GROUP BY person) AS x", "neither grouped nor aggregated"),
        ("SELECT COUNT(*) FROM t WHERE city IN (SELECT city FROM t)", "would let one person decide"),
        ("SELECT COUNT(*) FROM t WHERE age IN (SELECT person FROM t)", "would let one person decide"),
        ("SELECT COUNT(*) FROM t WHERE person IN (SELECT age AS person FROM t)", "would let one person decide"),
        ("SELECT COUNT(*) FROM t WHERE person IN (SELECT person, age FROM t)", "needs a subquery with one column"),
        ("SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM t)", "EXISTS is not supported; write id IN"),
        ("SELECT COUNT(*) FROM t UNION ALL SELECT COUNT(*) FROM t", "UNION of answers is not supported"),
        ("SELECT COUNT(*) FROM (SELECT person FROM t UNION SELECT person FROM bills) AS x", "as UNION ALL of SELECTs"),
        ("SELECT COUNT(*) FROM (SELECT person FROM t UNION ALL SELECT size FROM regions) AS x", "private and public"),
        ("SELECT COUNT(*) FROM (SELECT person FROM t UNION ALL SELECT person, paid FROM bills) AS x", "numbers of col"),
        ("SELECT COUNT(*) FROM (SELECT city FROM t UNION ALL SELECT paid FROM bills) AS x", "of several kinds"),
        ("SELECT COUNT(*) FROM (SELECT * FROM regions) AS x", "is a public table, which needs no privacy"),
        ("SELECT COUNT(*) FROM regions JOIN t USING (city)", "start with the table to protect"),
        ("WITH RECURSIVE x AS (SELECT person FROM t) SELECT COUNT(*) FROM x", "RECURSIVE"),
        ("WITH x AS (SELECT person FROM t), x AS (SELECT person FROM t) SELECT COUNT(*) FROM x", "names x twice"),
        ("SELECT COUNT(*) FROM t JOIN (SELECT city FROM t) AS x USING (city)", "must be joined on"),
        ("SELECT COUNT(*) FROM t JOIN (VALUES (1), ('a')) AS v(age) USING (age)", "needs values of one kind"),
        ("SELECT COUNT(*) FROM t JOIN (VALUES (1, 2), (3)) AS v(age, b) USING (age)", "rows of one length"),
        ("SELECT (SELECT COUNT(*) FROM t) AS n, COUNT(*) FROM t", "is not supported"),
        (
            "SELECT COUNT(*) FROM (SELECT COUNT(ALL cost) AS n, person FROM t GROUP BY person) AS x",
            "ALL is not supported",
        ),
    ],
)
def test_refusals(people: Tables, sql: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        people.plan(sql)


def test_where_rows_are_protected(single_rows: Tables) -> None:
    """Rows pass through a subquery one by one. Groups, and a table that stands twice, are refused."""
    assert single_rows.ask("SELECT COUNT(*) AS n FROM (SELECT cost FROM t WHERE age > 20) AS x") == [(4,)]
    assert single_rows.ask("SELECT COUNT(*) AS n FROM (SELECT cost FROM t UNION ALL SELECT paid FROM bills) AS x") == [
        (12,)
    ]
    for sql, words in [
        (f"SELECT COUNT(*) FROM ({PER_PERSON}) AS p", "protects single rows"),
        ("SELECT COUNT(*) FROM (SELECT cost FROM t UNION ALL SELECT age FROM t) AS x", "a row would count twice"),
        (
            "SELECT COUNT(*) FROM (SELECT cost FROM (SELECT cost FROM t) AS y UNION ALL SELECT age FROM t) AS x",
            "a row would count twice",
        ),
        ("SELECT COUNT(*) FROM t WHERE person IN (SELECT person FROM bills)", "would let one person decide"),
        ("SELECT COUNT(*) FROM (SELECT t.cost FROM t JOIN bills USING (person)) AS x", "protects single rows"),
        (
            "SELECT COUNT(*) FROM (SELECT cost FROM t JOIN (VALUES ('Bern', 1), ('Bern', 2)) AS v(city, x) "
            "USING (city)) AS y",
            "several rows for one key",
        ),
    ]:
        with pytest.raises(QueryError, match=words):
            single_rows.plan(sql)


@pytest.mark.parametrize("names", ["unit_of_row", "UNIT_OF_ROW", "unit_of_row_", "z"])
def test_given_names_do_not_make_many_people_of_one(tmp_path: Path, names: str) -> None:
    """One person in 500 cities counts once, whatever the column is called: ε is so large that noise is 0."""
    frame = pd.DataFrame({"pid": ["a"] * 500, "city": [f"c{i}" for i in range(500)]})
    with (
        dn.Ledger.create(tmp_path / "a.ledger", unit="pid", budget=dn.PureDP(10**6)) as ledger,
        dn.Session({"visits": frame}, ledger=ledger) as session,
    ):
        sql = f"WITH x({names}) AS (SELECT city FROM visits) SELECT COUNT(*) AS n FROM x"
        release = session.sql(sql, epsilon=1000, per_unit=AtMost(groups=1, rows=1), cover=0)
        assert release["n"] == [1]
