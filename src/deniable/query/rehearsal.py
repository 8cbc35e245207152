"""A rehearsal: a plan is computed on made-up rows, before anything is charged and without a look at the real ones.

The rows are made from what was declared: the columns and their types, the keys, the bounds, and a few values beyond
them. So the SQL runs and the noise is drawn: what can go wrong for a reason that lies in the plan or in the engine goes
wrong here, where it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from deniable._checks import shown
from deniable.query.engines.duckdb import FakeDuckDB
from deniable.query.planning import PlanningContext, QueryPlan
from deniable.query.release import Release
from deniable.query.schema import Column, ColumnKind, Table
from deniable.query.staging import Plan, compute

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


def rehearse(plan: Plan) -> Release:
    """The answer on made-up rows; the numbers mean nothing."""
    context = plan.context if isinstance(plan, QueryPlan) else plan.answer.context
    with MadeUpTables(context, [plan]) as tables:
        return tables.answer(plan)


class MadeUpTables:
    """An engine with made-up rows in every table of a session."""

    def __init__(self, context: PlanningContext, plans: Iterable[Plan]) -> None:
        self._engine = FakeDuckDB()
        plans = list(plans)
        for table in context.tables:
            self._engine.fill(table, pools(table, plans, unit=context.ledger.unit.column), rows=ROWS)

    def answer(self, plan: Plan) -> Release:
        """What a plan would release of these rows."""
        return compute(plan.on(self._engine))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()


def pools(table: Table, plans: Iterable[Plan], *, unit: str | None) -> dict[str, list[str | None]]:
    """Texts for every column: its kind's, the declared keys, and the bounds with what lies beyond them."""
    found: dict[str, list[str | None]] = {column.name: list(_POOLS[column.kind]) for column in table.columns}
    if unit is not None and table.has(unit):
        found[table.find(unit).name] = [str(person) for person in range(_PEOPLE)] + [None]
    for plan in plans:
        answer = plan if isinstance(plan, QueryPlan) else plan.answer
        for keys in answer.keys:
            _add(found, table, keys.column, keys.texts or ())
        for column, grid in answer.grids.items():
            ends = (grid.low, (grid.low + grid.high) / 2, grid.high, grid.low - grid.step, grid.high + 1000 * grid.step)
            _add(found, table, column, [shown(end) for end in ends])
    return found


def _add(found: dict[str, list[str | None]], table: Table, column: Column, texts: Iterable[str]) -> None:
    if column in table.columns:
        found[column.name].extend(texts)
