"""Consistent marginals and synthetic tables: hostile values in every kind of column, and people with many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deniable.query import AtMost, Session
from deniable.synthesis import ColumnBins
from tests.laws.neighbours.core import EntryPoint, World
from tests.laws.neighbours.questions import CITIES, UNITS, mix, table

LIMITS = AtMost(groups=1, rows=2)
COLUMNS: dict[str, Any] = {"city": CITIES, "cost": ColumnBins.steps(0, 90, 30), "day": ["2026-01-11", "2026-02-11"]}


def marginals(**terms: Any) -> Callable[[World, Any], Any]:
    def call(world: World, unit: Any) -> Any:
        with Session({"visits": table(unit)}, ledger=world.ledger(**terms)) as session:
            plan = session.marginals("visits", [("city", "cost"), "day"], columns=COLUMNS, epsilon=5, per_unit=LIMITS)
            release = plan.run()
            cells = [one.to_columns() for one in release]
            return plan.to_json(), str(plan), release.event, release.describe(), str(release), cells

    return call


MARGINALS = ("deniable.query.Session.marginals", "deniable.synthesis.MarginalsPlan.run")
ENTRY_POINTS = [
    EntryPoint("Session.marginals", MARGINALS, UNITS, marginals(), mix=mix, sample=4),
]
