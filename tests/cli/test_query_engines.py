"""`deniable query` with tables of engines elsewhere, and with GoogleSQL, which states ε itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deniable.cli import options
from deniable.errors import InvalidArgument


def test_tables_elsewhere_are_named() -> None:
    given = ["spark:clinic.visits", "stays=postgresql://host/db?sslmode=require", "beds.csv"]
    assert options.tables(given) == {
        "visits": "spark:clinic.visits",
        "stays": "postgresql://host/db?sslmode=require",
        "beds": "beds.csv",
    }


def test_a_database_needs_a_tables_name() -> None:
    with pytest.raises(InvalidArgument, match="visits=postgresql"):
        options.tables(["postgresql://host/db"])


def test_googlesql_needs_no_other_options(hospital: Callable) -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY "
        "OPTIONS(epsilon=0.5, privacy_unit_column=patient_id, max_groups_contributed=1) "
        "city, COUNT(*, contribution_bounds_per_group => (0, 2)) AS n FROM visits GROUP BY city"
    )
    ran = hospital("query", "visits.csv", sql, "--keys", "city=Bern,Basel", "--ledger", "hospital.ledger")
    assert ran.code == 0
    assert "cost       ε ≤ 0.50, δ = 0, one patient added or removed" in ran.out
