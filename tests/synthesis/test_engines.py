"""The same exact marginals on PostgreSQL and Spark as on DuckDB: every code, and the same choice of rows."""

from __future__ import annotations

import contextlib
import datetime
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deniable.query.choice import AtMost
from deniable.query.planning import PlanningContext
from deniable.synthesis import ColumnBins, ColumnCategories
from deniable.synthesis.marginals import plan_marginals
from deniable.units import Unit
from tests.query.conftest import NoLedger
from tests.query.elsewhere import in_duckdb, in_postgres, in_spark

DATA = {
    "people": {
        "person": ("BIGINT", [1, 1, 1, 2, 2, 3, 4, 5, None]),
        "sex": ("VARCHAR", ["f", "m", None, "x", "f", "m", "F", "f", "f"]),
        "age": ("DOUBLE", [0.0, 9.9, 10.0, math.nan, math.inf, -math.inf, 1e300, None, 3.0]),
        "grade": ("INTEGER", [1, 2, 3, 99, -5, None, 2, 1, 1]),
        "married": ("BOOLEAN", [True, False, None, True, False, True, True, False, True]),
        "day": ("DATE", [datetime.date(2026, 1, 1 + 3 * day) for day in range(8)] + [None]),
    }
}
COLUMNS = {
    "sex": ColumnCategories(["f", "m"]),
    "age": ColumnBins([0, 10, 20, 30]),
    "grade": range(1, 4),
    "married": None,
    "day": ColumnBins.steps(datetime.date(2026, 1, 4), datetime.date(2026, 1, 20), 8, missing=False),
}


CLIQUES = [(0, 1), (2, 3), (4,)]
"""Few: Spark computes the rows anew for each."""


def counts(engine: Any, unit: str) -> dict[tuple[int, ...], np.ndarray]:
    protected = Unit.of(unit)
    tables = tuple(replace(table, owner=protected.column) for table in engine.given.values())
    context = PlanningContext(tables, engine, NoLedger(protected))
    limits = None if unit == "row" else AtMost(groups=1, rows=2)
    plan = plan_marginals(
        context, "people", [("sex", "age")], columns=COLUMNS, epsilon=1, delta=1e-6, per_unit=limits, confidence=0.95
    )
    return plan.counting.count(engine, CLIQUES, key=(7, 9))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("postgres", "row"),
        ("postgres", "person"),
        pytest.param("spark", "person", marks=[pytest.mark.xdist_group("spark"), pytest.mark.soak]),
    ],
)
def test_marginals_are_the_same_on_every_engine(request: pytest.FixtureRequest, name: str, unit: str) -> None:
    with contextlib.ExitStack() as stack:
        if name == "spark":
            engine = in_spark(request.getfixturevalue("spark"), DATA, {})
        else:
            psycopg = pytest.importorskip("psycopg")
            dsn = request.getfixturevalue("postgres").database()
            connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            engine = in_postgres(connection, dsn, DATA, {})
        stack.callback(engine.close)
        found, expected = counts(engine, unit), counts(in_duckdb(DATA, {}), unit)
    assert found.keys() == expected.keys()
    for clique, cells in expected.items():
        np.testing.assert_array_equal(found[clique], cells)
