"""Consistent marginals and synthetic tables: hostile values in every kind of column, and people with many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

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


def rows(options: dict[str, Any], **terms: Any) -> Callable[[World, Any], Any]:
    def call(world: World, unit: Any) -> Any:
        with Session({"visits": table(unit)}, ledger=world.ledger(**terms)) as session:
            plan = session.synthesize(
                "visits", **{"columns": COLUMNS, "epsilon": 5, "per_unit": LIMITS, "rows": 50, **options}
            )
            made = plan.run()
            told = plan.to_json(), plan.explain(), made.event
            if "columns" in options or "per_unit" in options:
                return told  # what is found, and so which cells there are and how much noise, is noise
            told = *told, made.steps[0].event
            made.write("made.parquet")
            made.write_page("made.html")
            # Which pairs are chosen, and so how many, is noise.
            shapes = [one.columns for one in made.measurements[: len(made.domain.names)]]
            return told, shapes, made.to_arrow().num_rows, type(made.error("city", "cost")), len(made.codes)

    return call


def synthesize_command(world: World, unit: Any) -> Any:
    pq.write_table(table(unit), world.input("visits.parquet"))
    world.ledger()
    line = ["synthesize", "visits.parquet", "made.parquet", "--epsilon", "5", "--rows", "40", "--json"]
    line += ["--keys", "city=Basel,Bern", "--bins", "cost=0:90:45", "--rows-per-unit", "2"]
    return world.command(*line, "--ledger", "study.ledger").code


MARGINALS = ("deniable.query.Session.marginals", "deniable.synthesis.MarginalsPlan.run")
ROWS = ("deniable.query.Session.synthesize", "deniable.synthesis.SynthesisPlan.run")
FOUND = {"city": "private", "cost": "private", "day": ["2026-01-11"]}
ENTRY_POINTS = [
    EntryPoint("Session.marginals", MARGINALS, UNITS, marginals(), mix=mix, sample=4),
    EntryPoint("Session.synthesize", ROWS, UNITS, rows({}), mix=mix, sample=4),
    EntryPoint("Session.synthesize, MST", ROWS, UNITS, rows({"method": "mst", "check": 0}), mix=mix, sample=2),
    EntryPoint("Session.synthesize, found", ROWS, UNITS, rows({"columns": FOUND}), mix=mix, sample=3),
    EntryPoint(
        "Session.synthesize, limit found",
        ROWS,
        UNITS,
        rows({"per_unit": "private", "method": "mst"}),
        mix=mix,
        sample=3,
    ),
    EntryPoint("deniable synthesize", ("deniable synthesize",), UNITS, synthesize_command, mix=mix, sample=2),
]
