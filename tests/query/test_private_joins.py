"""Joins of private tables: whose a joined row is, and what is refused. The oracle takes people out of both tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deniable as dn
from deniable.errors import QueryError
from deniable.query import AtMost
from deniable.query.engines import DuckDB
from deniable.query.planning import QueryPlan
from deniable.units import Relation, Unit
from tests.query.conftest import NoLedger, plan_over

VISITS = pa.schema([("person", pa.int64()), ("visit", pa.int64()), ("city", pa.string()), ("cost", pa.float64())])
BILLS = pa.schema([("person", pa.int64()), ("visit", pa.int64()), ("paid", pa.float64()), ("kind", pa.string())])
LIMITS = AtMost(groups=2, rows=3)


def table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(values, type) for values, type in zip(columns, schema.types, strict=True)], schema=schema)


def asked(
    tables: Mapping[str, Any], sql: str, *, unit: str = "person", alike: bool = False, **options: Any
) -> QueryPlan:
    engine = DuckDB(alike=alike)
    owner = Unit.of(unit).column
    known = tuple(replace(engine.add(name, data), owner=owner) for name, data in tables.items())
    options = {"bounds": {"cost": (0, 10), "paid": (0, 5)}, "per_unit": LIMITS, **options}
    return plan_over(sql, known, engine, NoLedger(Unit.of(unit), Relation.ADD_REMOVE), **options)


def vectors(found: QueryPlan) -> list[Counter[Any]]:
    totals = found.engine.run(found.bounded, groups=found.groups, key=(3, 4))
    found.engine.close()
    return [
        Counter({place: int(x) for place, x in enumerate(part.measure.of(totals).ravel().tolist()) if x})
        for part in found.noises
    ]


people = st.sampled_from([1, 2, 3, None])
visits = st.lists(
    st.tuples(
        people, st.integers(1, 3), st.sampled_from(["a", "b", "c", None]), st.sampled_from([1.0, 7.5, -0.0, None])
    ),
    max_size=16,
)
bills = st.lists(
    st.tuples(
        people, st.integers(1, 3), st.sampled_from([2.5, 0.0, -0.0, 9.0, math.nan, None]), st.sampled_from(["x", "y"])
    ),
    max_size=16,
)
questions = st.sampled_from(
    [
        "SELECT city, COUNT(*) AS n, SUM(paid) AS s FROM visits JOIN bills USING (person, visit) GROUP BY city",
        "SELECT city, COUNT(*) AS n, SUM(1 / paid) AS s FROM visits LEFT JOIN bills "
        "ON visits.person = bills.person GROUP BY city",
        "SELECT kind, SUM(cost - paid) AS s, COUNT(DISTINCT visits.person) AS p FROM visits JOIN bills "
        "ON visits.person = bills.person AND visits.visit = bills.visit WHERE paid > 0 OR city = 'a' GROUP BY kind",
        "SELECT SUM(cost) AS s, AVG(paid) AS a FROM bills LEFT JOIN visits USING (person, visit)",
    ]
)


@settings(max_examples=30)
@given(visits, bills, questions, st.booleans(), st.randoms(use_true_random=False))
def test_a_person_changes_nobody_elses_rows(
    first: list[tuple[Any, ...]], second: list[tuple[Any, ...]], sql: str, alike: bool, random: Any
) -> None:
    """Under one key the answer is the sum of what everybody gives alone, and nobody gives more than planned."""
    options = {
        "bounds": {"cost": (0, 10), "paid": (0, 5), "1 / paid": (-3, 3)},
        "keys": {"city": ["a", "b", "c"]} if "city, COUNT" in sql else {"kind": ["x", "y"]} if "kind" in sql else None,
        "alike": alike,
    }

    def of(someone: Callable[[Any], bool]) -> tuple[list[Counter[Any]], QueryPlan]:
        mine = [[row for row in rows if someone(row[0])] for rows in (first, second)]
        for rows in mine:
            random.shuffle(rows)
        found = asked({"visits": table(mine[0], VISITS), "bills": table(mine[1], BILLS)}, sql, **options)
        return vectors(found), found

    whole, planned = of(lambda person: True)
    summed = [Counter[Any]() for _ in whole]
    for person in (1, 2, 3):
        alone, _ = of(lambda other, person=person: other == person)  # type: ignore[misc]
        for part, share, noise in zip(summed, alone, planned.noises, strict=True):
            part.update(share)
            assert sum(abs(x) for x in share.values()) <= noise.move.reach
    assert [{k: v for k, v in part.items() if v} for part in summed] == [dict(part) for part in whole]


def test_of_several_rows_per_key_the_first_counts() -> None:
    first = table([(1, 1, "a", 1.0), (1, 2, "a", 1.0), (2, 1, "a", 1.0)], VISITS)
    second = table([(1, 1, 4.0, "x"), (1, 1, 3.0, "y"), (1, 2, 5.0, "x"), (2, 2, 1.0, "x")], BILLS)
    found = asked(
        {"visits": first, "bills": second},
        "SELECT COUNT(*) AS n, SUM(paid) AS s FROM visits JOIN bills USING (person, visit)",
    )
    assert "one row per person, visit" in str(found)
    step = found.noises[1].measure.step
    (count, total) = vectors(found)
    assert (count[0], total[0] * step) == (2, 3 + 5)


def test_a_column_does_not_take_the_place_of_the_number_of_a_row() -> None:
    """Of three bills per visit one counts, whatever their columns are called."""
    bills = pa.table({"person": [1, 1, 1], "Place_of_row": [1, 1, 1], "paid": [1.0, 2.0, 3.0]})
    visits = table([(1, 1, "a", 1.0), (1, 2, "a", 1.0)], VISITS)
    found = asked({"visits": visits, "bills": bills}, "SELECT COUNT(*) AS n FROM visits JOIN bills USING (person)")
    assert vectors(found) == [Counter({0: 2})]


def test_a_session_joins_its_tables(tmp_path: Path) -> None:
    dn.Ledger.create(tmp_path / "l", unit="person", budget=dn.PureDP(5))
    frames = {
        "visits": table([(p, 1, "a", 5.0) for p in range(500)], VISITS),
        "bills": table([(p, 1, 2.0, "x") for p in range(250)], BILLS),
    }
    with dn.Session(frames, ledger=tmp_path / "l") as session:
        release = session.sql(
            "SELECT COUNT(*) AS n, SUM(paid) AS s FROM visits JOIN bills USING (person)",
            epsilon=4, bounds={"paid": (0, 5)}, per_unit=AtMost(groups=1, rows=1),
        )  # fmt: skip
    row = {name: values[0] for name, values in release.columns.items()}
    # Laplace noise of scale 1/2 and 5/2: beyond 40 and 200 with probability below e^-80.
    assert abs(row["n"] - 250) < 40
    assert abs(row["s"] - 500) < 200


REFUSED = [
    ("SELECT COUNT(*) FROM visits JOIN bills USING (visit)", "must be joined on person.* belong to two people"),
    ("SELECT COUNT(*) FROM visits JOIN bills ON visits.person = bills.visit", "must be joined on person"),
    ("SELECT COUNT(*) FROM visits JOIN bills ON visits.visit = bills.person", "must be joined on person"),
    ("SELECT COUNT(*) FROM visits JOIN visits AS v ON visits.person = v.person", "cannot be joined to itself"),
    ("SELECT COUNT(*) FROM visits CROSS JOIN bills", "CROSS"),
    ("SELECT COUNT(*) FROM visits, bills", "a product of tables|needs ON"),
]


@pytest.mark.parametrize(("sql", "said"), REFUSED)
def test_joins_that_mix_people_are_refused(sql: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        asked({"visits": table([], VISITS), "bills": table([], BILLS)}, sql)


def test_single_rows_cannot_be_joined() -> None:
    with pytest.raises(QueryError, match="protects single rows"):
        asked(
            {"visits": table([], VISITS), "bills": table([], BILLS)},
            "SELECT COUNT(*) FROM visits JOIN bills USING (person)",
            unit="row",
            per_unit=None,
        )


@pytest.mark.parametrize(
    "type", [pa.float64(), pa.string(), pa.decimal128(18, 2), pa.bool_(), pa.date32(), pa.timestamp("us")]
)
def test_ids_of_two_types_are_refused(type: pa.DataType) -> None:
    """As floats, ids that differ would be equal."""
    other = BILLS.set(0, pa.field("person", type))
    with pytest.raises(QueryError, match=r"is of type|cannot be joined"):
        asked(
            {"visits": table([], VISITS), "bills": table([], other)},
            "SELECT COUNT(*) FROM visits JOIN bills USING (person)",
        )


def test_decimal_ids_are_refused() -> None:
    """They would be compared as floats."""
    schemas = [schema.set(0, pa.field("person", pa.decimal128(30, 2))) for schema in (VISITS, BILLS)]
    with pytest.raises(QueryError, match="is of type"):
        asked(
            {"visits": table([], schemas[0]), "bills": table([], schemas[1])},
            "SELECT COUNT(*) FROM visits JOIN bills USING (person)",
        )


def test_a_public_table_may_stand_between(tmp_path: Path) -> None:
    """Three tables: visits, a public list, and bills joined on the id of the first."""
    dn.Ledger.create(tmp_path / "l", unit="person", budget=dn.PureDP(5))
    frames = {"visits": table([(1, 1, "a", 5.0)], VISITS), "bills": table([(1, 1, 2.0, "x")], BILLS)}
    public = {"cities": pa.table({"city": ["a", "b"], "canton": ["BE", "ZH"]})}
    with dn.Session(frames, ledger=tmp_path / "l", public=public) as session:
        plan = session.plan(
            "SELECT canton, SUM(paid) AS s FROM visits JOIN cities USING (city) JOIN bills "
            "ON visits.person = bills.person GROUP BY canton",
            epsilon=1, bounds={"paid": (0, 5)}, per_unit=LIMITS,
        )  # fmt: skip
        assert plan.engine.run(plan.bounded, groups=2, key=(1, 2)).rows.tolist() == [1, 0]
