"""Plans over small tables without a ledger on disk, for the tests that look at what happens before the noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deniable.events import Event
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.ledger.records import Charge
from deniable.query.aggregates import Average, CountAggregate, SumAggregate
from deniable.query.bounding import Bounded
from deniable.query.complements import SharedAggregate, SharedAverage, SharedCount, SharedSum
from deniable.query.engines import DuckDB
from deniable.query.engines.base import Engine
from deniable.query.estimates import Aggregate
from deniable.query.measures import BoundDistances, Totals
from deniable.query.planning import Budget, PlanningContext, PlanOptions, QueryPlan, plan
from deniable.query.reading import read
from deniable.query.schema import Table
from deniable.units import Relation, Unit


@dataclass(frozen=True)
class NoLedger:
    """Says who is protected, and takes every charge."""

    unit: Unit
    relation: Relation = Relation.ADD_REMOVE

    def charge(
        self,
        event: Event,
        *,
        purpose: str,
        who: str | None,
        key: str | None = None,
        at: ApproxDP | None = None,
        envelopes: Sequence[str] = (),
    ) -> Charge:
        return Charge(1, "", purpose, who, key, "", "")

    def fits(self, event: Event, *, who: str | None, at: ApproxDP | None = None) -> bool:
        return True

    def remaining(self, *, who: str | None) -> Guarantee:
        return PureDP(7, relation=self.relation, unit=self.unit)


class UnboundDuckDB(DuckDB):
    """DuckDB that binds no statement beforehand, which takes longer than to run it over small tables. `test_binding`
    and all tests with sessions bind."""

    def bind(self, bounded: Bounded) -> None:
        return None


def make_plan(
    data: Any,
    sql: str,
    *,
    unit: str = "person",
    relation: Relation = Relation.ADD_REMOVE,
    public: dict[str, Any] | None = None,
    **options: Any,
) -> QueryPlan:
    """A plan over one table called t, and public ones."""
    engine = UnboundDuckDB()
    shared = (replace(engine.add(name, table), public=True) for name, table in (public or {}).items())
    tables = (replace(engine.add("t", data), owner=None if unit == "row" else unit), *shared)
    return plan_over(sql, tables, engine, NoLedger(Unit.of(unit), relation), **options)


def plan_over(sql: str, tables: tuple[Table, ...], engine: Engine, ledger: Budget, **options: Any) -> QueryPlan:
    """A plan over tables of an engine; the options are those of `PlanOptions`, with ε = 1."""
    return plan(read(sql, tables), PlanOptions(**{"epsilon": 1, **options}), PlanningContext(tables, engine, ledger))


def vectors(found: QueryPlan, *, key: tuple[int, int]) -> list[list[int]]:
    """The integers before noise, one vector per measure."""
    totals: Totals = found.engine.run(found.bounded, groups=found.groups, key=key)
    measures = dict.fromkeys(measure for one in found.aggregates for measure in plainly(one).measures)
    measures |= dict.fromkeys(part.measure for part in found.noises if not isinstance(part.measure, BoundDistances))
    return [[int(x) for x in measure.of(totals)] for measure in measures]


def plainly(one: Aggregate) -> Aggregate:
    """An aggregate as it would be without a vector that it shares: its sums and counts are easier to read."""
    kinds: dict[type, Any] = {SharedAverage: Average, SharedSum: SumAggregate, SharedCount: CountAggregate}
    if not isinstance(one, SharedAggregate):
        return one
    aggregate: Aggregate = kinds[type(one)](one.name, one.distances.values)
    return aggregate


def places(found: QueryPlan, *, key: tuple[int, int]) -> list[dict[Any, int]]:
    """The integers before noise that are not 0, one mapping per measure, by (group's keys, cell)."""
    totals: Totals = found.engine.run(found.bounded, groups=found.groups, key=key)
    numbers = range(len(totals.rows)) if totals.groups is None else totals.groups.tolist()
    names = [(g, *(str(totals.keys[i][row]) for i in sorted(totals.keys))) for row, g in enumerate(numbers)]
    measured = []
    for part in found.noises:
        cells = part.measure.of(totals).reshape(len(names), part.measure.cells)
        measured.append({(names[row], cell): int(cells[row, cell]) for row, cell in zip(*cells.nonzero(), strict=True)})
    return measured


@pytest.fixture(scope="session", name="make_plan")
def _make_plan() -> Callable[..., QueryPlan]:
    return make_plan


@pytest.fixture(scope="session", name="vectors")
def _vectors() -> Callable[..., list[list[int]]]:
    return vectors


@pytest.fixture(scope="session", name="places")
def _places() -> Callable[..., list[dict[Any, int]]]:
    return places


@pytest.fixture
def answers() -> Callable[..., list[list[int]]]:
    """The integers before noise of a query over a table, under one key."""

    def run(data: Any, sql: str, *, key: tuple[int, int] = (1, 2), **options: Any) -> list[list[int]]:
        found = make_plan(data, sql, **options)
        try:
            return vectors(found, key=key)
        finally:
            found.engine.close()

    return run
