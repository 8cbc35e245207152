"""Plans over small tables without a ledger on disk, for the tests that look at what happens before the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from deniable.events import Event
from deniable.guarantees import Guarantee, PureDP
from deniable.query.engines import DuckDB
from deniable.query.measures import Totals
from deniable.query.planning import QueryPlan, plan
from deniable.units import Relation, Unit


@dataclass(frozen=True)
class NoLedger:
    """Says who is protected, and takes every charge."""

    unit: Unit
    relation: Relation = Relation.ADD_REMOVE

    def charge(self, event: Event, *, purpose: str, who: str | None) -> None:
        return None

    def remaining(self, *, who: str | None) -> Guarantee:
        return PureDP(7, relation=self.relation, unit=self.unit)


def make_plan(
    data: Any, sql: str, *, unit: str = "person", relation: Relation = Relation.ADD_REMOVE, **options: Any
) -> QueryPlan:
    """A plan over one table called t."""
    engine = DuckDB()
    options = {
        "who": None,
        "epsilon": 1,
        "bounds": None,
        "keys": None,
        "per_unit": None,
        "weights": None,
        "confidence": 0.95,
        **options,
    }
    return plan(
        sql, tables=(engine.add("t", data),), engine=engine, ledger=NoLedger(Unit.of(unit), relation), **options
    )


def vectors(found: QueryPlan, *, key: tuple[int, int]) -> list[list[int]]:
    """The integers before noise, one vector per measure."""
    totals: Totals = found._engine.run(found.bounded, groups=found.groups, key=key)
    return [[int(x) for x in part.measure.of(totals)] for part in found.noises]


@pytest.fixture(scope="session", name="make_plan")
def _make_plan() -> Callable[..., QueryPlan]:
    return make_plan


@pytest.fixture(scope="session", name="vectors")
def _vectors() -> Callable[..., list[list[int]]]:
    return vectors


@pytest.fixture
def answers() -> Callable[..., list[list[int]]]:
    """The integers before noise of a query over a table, under one key."""

    def run(data: Any, sql: str, *, key: tuple[int, int] = (1, 2), **options: Any) -> list[list[int]]:
        found = make_plan(data, sql, **options)
        try:
            return vectors(found, key=key)
        finally:
            found._engine.close()

    return run
