"""A rehearsal: every table is computed once on made-up rows, before anything is charged.

The rows are made from what was declared: the columns and their types, the keys, the bounds, and a few values beyond
them. No row of the real tables is read. So the SQL runs, the noise is drawn, the CSV is written as text: what can go
wrong for a reason that lies in the plan or in the engine goes wrong here, where it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deniable._checks import shown
from deniable.query import planning, staging
from deniable.query.engines.fakes import FakeDuckDB
from deniable.query.planning import QueryPlan
from deniable.query.release import Release
from deniable.query.schema import Column, ColumnKind, Table
from deniable.query.staging import Plan

if TYPE_CHECKING:
    from deniable.query.publication.publication import Publication

ROWS = 300
"""Made-up rows per table."""

_PEOPLE = 40
_POOLS: dict[ColumnKind, tuple[str | None, ...]] = {
    ColumnKind.INTEGER: ("0", "1", "-1", "7", "100", None),
    ColumnKind.REAL: ("0", "0.5", "-0.5", "17.25", "1e300", "nan", "inf", None),
    ColumnKind.TEXT: ("a", "b", "", "ß", None),
    ColumnKind.UNTYPED: ("a", "1", "0.5", "2026-01-31", "", None),
    ColumnKind.BOOLEAN: ("true", "false", None),
    ColumnKind.DATE: ("2026-01-31", "1999-12-31", None),
    ColumnKind.TIMESTAMP: ("2026-01-31 12:00:00", "1999-12-31 00:00:00", None),
    ColumnKind.OTHER: (None,),
}


def rehearse(publication: Publication) -> dict[str, Release]:
    """Every table, computed on made-up rows; the numbers mean nothing."""
    engine = FakeDuckDB()
    try:
        plans = publication.plans
        for table in publication.session.tables:
            engine.fill(table, pools(table, plans.values(), unit=publication.session.ledger.unit.column), rows=ROWS)
        found = {name: _computed(plan, engine) for name, plan in plans.items()}
        for release in found.values():
            release.to_csv()
        return found
    finally:
        engine.close()


def pools(table: Table, plans: Iterable[Plan], *, unit: str | None) -> dict[str, list[str | None]]:
    """Texts for every column: its kind's, the declared keys, and the bounds with what lies beyond them."""
    found: dict[str, list[str | None]] = {column.name: list(_POOLS[column.kind]) for column in table.columns}
    if unit is not None and table.has(unit):
        found[table.find(unit).name] = [str(person) for person in range(_PEOPLE)] + [None]
    for plan in plans:
        answer = plan if isinstance(plan, QueryPlan) else plan.answer
        for keys in answer.keys:
            _add(found, table, keys.column, keys.texts or ())
        for column, grid in staging.grids(answer).items():
            ends = (grid.low, (grid.low + grid.high) / 2, grid.high, grid.low - grid.step, grid.high + 1000 * grid.step)
            _add(found, table, column, [shown(end) for end in ends])
    return found


def _add(found: dict[str, list[str | None]], table: Table, column: Column, texts: Iterable[str]) -> None:
    if column in table.columns:
        found[column.name].extend(texts)


def _computed(plan: Plan, engine: FakeDuckDB) -> Release:
    moved = plan.on(engine)
    return planning.answer(moved) if isinstance(moved, QueryPlan) else staging.answer(moved)
