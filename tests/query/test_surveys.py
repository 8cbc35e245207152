"""Surveys: no unit moves one by more than its event says, and what is read off them is sensible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deniable.query import AtMost, surveys
from deniable.query.grids import wider
from deniable.query.planning import PlanningContext, QueryPlan
from deniable.query.schema import Column, ColumnKind
from deniable.query.staging import Plan, StagedPlan, plan_query
from deniable.query.surveys import Survey
from deniable.units import Relation, Unit
from tests.query.conftest import NoLedger, UnboundDuckDB

SQL = "SELECT city, SUM(cost) AS total, SUM(age) AS years FROM {} WHERE cost < 1e12 OR cost IS NULL GROUP BY city"


class Tables:
    """Small tables in one engine, and the staged plan of one question over any of them."""

    def __init__(self, ledger: Any) -> None:
        self.engine, self.ledger, self.number = UnboundDuckDB(), ledger, 0

    def any_plan(self, frame: pd.DataFrame, sql: str = SQL, **given: Any) -> Plan:
        self.number += 1
        table = self.engine.add(f"t{self.number}", frame)
        context = PlanningContext((table,), self.engine, self.ledger)
        return plan_query(sql.format(table.name), context, epsilon=1, **given)

    def plan(self, frame: pd.DataFrame, sql: str = SQL, **given: Any) -> StagedPlan:
        found = self.any_plan(frame, sql, **given)
        assert isinstance(found, StagedPlan)
        return found

    def exact(self, survey: Survey) -> np.ndarray:
        return self.engine.run(survey.sql, groups=survey.cells, key=(0, 0)).rows


@pytest.fixture
def tables(request: pytest.FixtureRequest) -> Iterator[Tables]:
    unit, relation = getattr(request, "param", ("person", Relation.ADD_REMOVE))
    found = Tables(NoLedger(Unit.of(unit), relation))
    yield found
    found.engine.close()


def people(random: np.random.Generator, size: int) -> pd.DataFrame:
    """Rows of a few people, wild values and undeclared cities among them."""
    wild = np.array([0, 1, -3, 0.4, 99, 100, 101, 250, -1e11, 1e11, 1e308, np.inf, -np.inf, np.nan])
    return pd.DataFrame(
        {
            "person": random.choice([1.0, 2, 3, 4, np.nan], size),
            "city": random.choice(["a", "b", "c", "elsewhere"], size),
            "cost": random.choice(wild, size),
            "age": pd.array(random.choice([None, 0, 5, -7, 10**17], size), dtype="Int64"),
        }
    )


GIVEN: dict[str, Any] = {"keys": {"city": ["a", "b", "c"]}}
PRIVATE = {**GIVEN, "bounds": "private", "per_unit": "private"}
LOOKED = {
    **GIVEN,
    "bounds": {"cost": (0, 100), "age": (-5, 5)},
    "per_unit": AtMost(groups=2, rows=2),
    "diagnose": 0.1,
}


@pytest.mark.parametrize(
    "tables", [("person", Relation.ADD_REMOVE), ("person", Relation.REPLACE)], indirect=True, ids=["add", "replace"]
)
def test_no_person_moves_a_survey_further_than_its_event_says(tables: Tables) -> None:
    random = np.random.default_rng(5)
    reached: dict[str, int] = {}
    for _ in range(15):
        frame = people(random, int(random.integers(1, 25)))
        other = frame[frame["person"] != 1]
        if tables.ledger.relation is Relation.REPLACE:
            fresh = people(random, int(random.integers(1, 12)))
            fresh["person"] = 1.0
            other = pd.concat([other, fresh], ignore_index=True)
            frame = frame if (frame["person"] == 1).any() else pd.concat([frame, fresh], ignore_index=True)
        both = [(tables.plan(f, **PRIVATE), tables.plan(f, **LOOKED)) for f in (frame, other)]
        pairs = list(zip(*[(*a.stages, *b.stages) for a, b in both], strict=True))
        assert len(pairs) == 6
        for one, two in pairs:
            moved = np.abs(tables.exact(one) - tables.exact(two)).astype(int)
            assert moved.sum() <= one.event.sensitivity
            assert np.count_nonzero(moved) <= one.event.coordinates
            assert one.event.sensitivity / one.event.scale == one.epsilon
            reached[one.name] = max(reached.get(one.name, 0), moved.sum() / one.event.sensitivity)
    # The oracle can see a wrong bound: histograms reach theirs, the diagnosis most of it.
    assert min(reached.values()) > 0.4
    assert max(reached.values()) == 1


@pytest.mark.parametrize("tables", [("row", Relation.ADD_REMOVE)], indirect=True)
def test_no_row_moves_a_survey_further_than_its_event_says(tables: Tables) -> None:
    random = np.random.default_rng(6)
    for _ in range(6):
        frame = people(random, 12)
        given = {**LOOKED, "per_unit": None}
        a, b = (tables.plan(f, **{**GIVEN, "bounds": "private"}) for f in (frame, frame[1:]))
        c, d = (tables.plan(f, **given) for f in (frame, frame[1:]))
        assert a.bounds[0].most == 1
        for one, two in zip((*a.stages, *c.stages), (*b.stages, *d.stages), strict=True):
            assert np.abs(tables.exact(one) - tables.exact(two)).sum() <= one.event.sensitivity


COST, AGE = Column("cost", ColumnKind.REAL, "DOUBLE"), Column("age", ColumnKind.INTEGER, "BIGINT")
SIDE = surveys.side(COST)


@pytest.mark.parametrize("column", [COST, AGE], ids=["real", "whole"])
def test_cells_cover_the_line_without_gaps(column: Column) -> None:
    ends = [surveys.edges(cell) for cell in range(-surveys.side(column), surveys.side(column) + 1)]
    for (_, high), (low, _) in pairwise(ends):
        assert high == low or {high, low} <= {-1, 0, 1}, "only whole numbers lie between the cells next to 0"
    assert ends[-1][1] * surveys.widest_grid(column).step == surveys.FURTHEST


def test_values_fall_into_the_cell_whose_edges_hold_them(tables: Tables) -> None:
    values = [0, 1, 2, 4.9, 5, 9.9, 10, 1999, 2e3, 0.000001, -3, -50, -50.5, 999_999_999, 3e9, -3e9]
    step = Fraction(1, 10**6)
    frame = pd.DataFrame({"person": range(len(values)), "cost": values})
    plan = tables.plan(frame, "SELECT SUM(cost) AS s FROM {}", bounds="private", per_unit=AtMost(groups=1, rows=1))
    found = tables.exact(plan.bounds[0])
    expected = np.zeros_like(found)
    for value in values:
        index = round(Fraction(str(value)) / step)
        cells = range(-SIDE, SIDE + 1)
        inside = [
            cell for cell in cells
            if index == 0 == cell or (cell > 0 and surveys.edges(cell)[0] <= index < surveys.edges(cell)[1])
            or (cell < 0 and surveys.edges(cell)[0] < index <= surveys.edges(cell)[1])
        ]  # fmt: skip
        cell = inside[0] if inside else (SIDE if index > 0 else -SIDE)
        expected[cell + SIDE] += 2  # lowest and highest value of one person
    assert found.tolist() == expected.tolist()


READ: dict[str, Any] = {"epsilon": Fraction(1, 2), "groups": 1}


def test_private_bounds_hold_nearly_everybody(tables: Tables) -> None:
    """20,000 people, noise of scale 62. A cell is missed or strays with probability 20·e^(−66) and 60·e^(−7)/2, so the
    test fails less than 3 times in 100 tables; the noise is left out, so it never does."""
    frame = pd.DataFrame({"person": range(20_000), "cost": np.linspace(120, 900, 20_000), "age": 40})
    plan = tables.plan(frame, "SELECT SUM(cost) AS s, SUM(age) AS a FROM {}", bounds="private",
                       per_unit=AtMost(groups=1, rows=1))  # fmt: skip
    found = {survey.column.name: survey.read(tables.exact(survey), **READ) for survey in plan.bounds}
    assert found == {"cost": (0, 1000), "age": (20, 50)}


def test_a_few_outliers_are_clamped(tables: Tables) -> None:
    plan = tables.plan(people(np.random.default_rng(1), 5), **PRIVATE)
    survey = plan.bounds[0]
    counts = np.zeros(survey.cells, dtype=int)
    enough = surveys.FAR * int(survey.scale) + surveys.FAR
    counts[SIDE + 19], counts[SIDE + 22], counts[SIDE + 40] = 10**6, 10**6, enough // 2
    assert survey.read(counts, **READ) == (0, 20), "cells 19 to 22, from 1 to 20"
    counts[SIDE + 40] = enough
    assert survey.read(counts, **READ)[1] == 2 * 10**7


def test_bounds_on_both_sides_of_0(tables: Tables) -> None:
    survey = tables.plan(people(np.random.default_rng(1), 5), **PRIVATE).bounds[0]
    for cells, expected in (
        ((-22, 19), (-20, 2)), ((-22, -19), (-20, 0)), ((-22, -22), (-20, -10)), ((0, 0), (0, Fraction(1, 10**6))),
    ):  # fmt: skip
        counts = np.zeros(survey.cells, dtype=int)
        counts[[SIDE + cell for cell in cells]] = 10**6
        assert survey.read(counts, **READ) == expected


def test_bounds_are_found_where_people_are_spread_over_cells(tables: Tables) -> None:
    """Every cell has fewer people than the noise of some other cell. Lowest and highest values, in noise scales, lie in
    one decade; in three; and on both sides of 0. Of 50 readings few leave out half of the people: a fullest cell, and a
    low end above 0 wherever one is found, left out all of them in half of the readings and more."""
    survey = tables.plan(people(np.random.default_rng(1), 5), **PRIVATE).bounds[0]
    unit, random = float(survey.scale), np.random.default_rng(6)
    for cells, least in (
        ({24: 3.3, 25: 3.1, 26: 2.3, 27: 0.9, 28: 9.6}, 45),
        ({22: 2, 23: 3, 24: 3, 25: 2, 26: 2, 27: 3, 28: 3, 29: 2}, 45),
        ({-26: 1.5, -25: 6, -24: 2, 24: 2, 25: 6, 26: 1.5}, 30),
    ):
        counts = np.zeros(survey.cells)
        counts[[SIDE + cell for cell in cells]] = [unit * many for many in cells.values()]
        held = 0
        for _ in range(50):
            low, high = survey.read(np.round(counts + random.laplace(0, unit, survey.cells)).astype(int), **READ)
            ends = [surveys.edges(cell) for cell in cells]
            kept = [low <= first / 10**6 and last / 10**6 <= high for first, last in ends]
            held += sum(many for many, inside in zip(cells.values(), kept, strict=True) if inside) > 0.75 * sum(
                cells.values()
            )
        assert held >= least, (cells, held)


def test_without_people_bounds_are_still_bounds(tables: Tables) -> None:
    plan = tables.plan(people(np.random.default_rng(1), 5)[:0], **PRIVATE)
    for survey in plan.bounds:
        low, high = survey.read(np.zeros(survey.cells, dtype=int), **READ)
        assert low < high
        low, high = survey.read(survey.take(tables.engine, None), **READ)
        assert low < high
    assert plan.limits.read(np.zeros(plan.limits.cells, dtype=int), **READ) == AtMost(groups=1, rows=1, total=1)
    assert plan.limits.read(np.full(plan.limits.cells, -9), **READ) == AtMost(groups=1, rows=1, total=1)
    assert plan.run().rows


def test_whatever_is_found_can_be_planned_with(tables: Tables) -> None:
    """After the charge nothing may raise, so no bounds and limits that can come out may be refused."""
    random = np.random.default_rng(7)
    every = (
        "SELECT city, SUM({0}) AS s, AVG({0}) AS m, VARIANCE({0}) AS v, STDDEV({0}) AS d, MEDIAN({0}) AS q, "
        "MAX({0}) AS x FROM {{}} GROUP BY city"
    )
    for column in ("cost", "age"):
        plan = tables.plan(people(random, 5), every.format(column), **PRIVATE)
        (survey,) = plan.bounds
        ends = [(0, 0), (0, survey.cells - 1), (survey.cells - 1,) * 2, (survey.cells // 2,) * 2]
        ends += [tuple(sorted(random.integers(0, survey.cells, 2))) for _ in range(12)]
        for first, last in ends:
            counts = np.zeros(survey.cells, dtype=int)
            counts[[first, last]] = 10**9
            found = {survey.column: survey.read(counts, **READ)}
            groups, rows = (int(random.choice(steps)) for steps in (surveys.GROUP_STEPS, surveys.STEPS))
            assert plan.settle(found, AtMost(groups=groups, rows=rows)).cost == plan.answer.cost


def test_limits_have_the_least_error(tables: Tables) -> None:
    """100 people, 36 with 2 rows, 60 with 4, and four with 40, who own about 53 rows of each of three groups. With four
    rows the noise is 4/ε = 8 and these are left out; with a hundred times the ε all of them count."""
    rows = [(p, c) for p in range(100) for c in "ab"[: 1 + (p < 60)] for _ in range(2 if p < 96 else 40)]
    frame = pd.DataFrame(rows, columns=["person", "city"]).assign(cost=1.0, age=1)
    plan = tables.plan(frame, **{**PRIVATE, "bounds": {"cost": (0, 1), "age": (0, 1)}})
    exact = tables.exact(plan.limits)
    assert exact.sum() == 100, "every person adds one"
    assert plan.limits is not None
    sure = replace(plan.limits, epsilon=Fraction(1000))
    assert sure.read(exact, epsilon=Fraction(1, 2), groups=3) == AtMost(groups=4, rows=4, total=4)
    assert sure.read(exact, epsilon=Fraction(50), groups=3) == AtMost(groups=40, rows=40, total=40)


def test_whatever_the_noise_is_limits_come_out(tables: Tables) -> None:
    plan = tables.plan(people(np.random.default_rng(1), 5), **PRIVATE)
    random = np.random.default_rng(2)
    for size in (0, 1, 40, 10**6, 10**15):
        for _ in range(10):
            noisy = random.integers(-size, size + 1, plan.limits.cells)
            limits = plan.limits.read(noisy.astype(object), epsilon=Fraction(1, 2), groups=3)
            assert limits.groups <= limits.total
            assert limits.rows in surveys.STEPS
            noisy = random.integers(-size, size + 1, plan.bounds[0].cells)
            low, high = plan.bounds[0].read(noisy, epsilon=Fraction(1, 2), groups=None)
            assert -surveys.FURTHEST <= low < high <= surveys.FURTHEST


def test_more_than_the_last_step_counts_as_the_last(tables: Tables) -> None:
    frame = pd.DataFrame({"person": [1] * 100_001, "cost": 1.0})
    plan = tables.plan(frame, "SELECT COUNT(*) AS n FROM {}", per_unit="private")
    assert tables.exact(plan.limits).tolist() == [0] * (len(surveys.STEPS) - 1) + [1]
    assert plan.limits.kinds == ("total",)


def test_limits_that_do_not_matter_are_not_searched(tables: Tables) -> None:
    frame = people(np.random.default_rng(1), 5)
    found = tables.plan(frame, "SELECT city, COUNT(DISTINCT person) AS n FROM {} GROUP BY city", **GIVEN)
    assert found.limits.kinds == ("groups",)
    both = tables.plan(frame, "SELECT city, COUNT(DISTINCT person) AS n, COUNT(*) AS m FROM {} GROUP BY city", **GIVEN)
    assert both.limits.kinds == ("total", "groups")
    alone = tables.any_plan(frame, "SELECT COUNT(DISTINCT person) AS n FROM {}")
    assert isinstance(alone, QueryPlan), "every person counts once, so there is nothing to find and nothing left out"
    assert alone.run().covers == "privacy noise; no limit or bound leaves anything out"


def test_the_diagnosis_counts_what_happens(tables: Tables) -> None:
    frame = pd.DataFrame(
        {
            "person": [1, 1, 1, 1, 2, 2, 3],
            "city": ["a", "a", "a", "b", "a", "b", "c"],
            "cost": [1, 500, 2, 3, -4, 5, None],
            "age": [1, 2, 3, 4, 50, 6, 7],
        }
    )
    plan = tables.plan(frame, **LOOKED)
    # Weights 4, 2, 1; person 1 loses one of three rows in a; clamped: 500 and -4 of cost, 50, 6 and 7 of age.
    assert tables.exact(plan.diagnosis).tolist() == [7, 1, 2, 3]
    findings = plan.diagnosis.read(np.array([7000, 1000, 2000, 3000]), failure=Fraction(1, 20))
    assert findings.dropped.low < 1 / 7 < findings.dropped.high
    assert list(findings.clamped) == ["cost", "age"]
    assert findings.clamped["age"].value == pytest.approx(3 / 7)


def test_groups_beyond_the_limit_are_lost_on_average(tables: Tables) -> None:
    frame = pd.DataFrame({"person": [1] * 6, "city": list("aabbcc"), "cost": 1.0, "age": 1})
    plan = tables.plan(frame, **{**LOOKED, "per_unit": AtMost(groups=2, rows=3)})
    assert tables.exact(plan.diagnosis).tolist() == [6, 2, 0, 0], "two of three groups stay"


def test_the_noise_is_that_of_the_event(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable import noise

    drawn: list[tuple[Fraction, int]] = []

    def draw(scale: Fraction, size: int) -> np.ndarray:
        drawn.append((scale, size))
        return np.full(size, 7)

    monkeypatch.setattr(noise, "discrete_laplace", draw)
    frame = people(np.random.default_rng(3), 20)
    for survey in (*tables.plan(frame, **PRIVATE).stages, *tables.plan(frame, **LOOKED).stages):
        assert survey.take(tables.engine, None).tolist() == (tables.exact(survey) + 7).tolist()
        assert drawn.pop() == (survey.event.scale, survey.cells)


def test_empty_diagnosis(tables: Tables) -> None:
    plan = tables.plan(people(np.random.default_rng(1), 5)[:0], **LOOKED)
    assert tables.exact(plan.diagnosis).tolist() == [0, 0, 0, 0]
    findings = plan.diagnosis.read(np.array([-3, 5, -5, 0]), failure=Fraction(1, 20))
    assert findings.dropped == (1.0, 0.0, 1.0), "nothing is known"


def test_a_wider_grid_tells_what_was_clamped() -> None:
    from deniable.noise import Grid

    grid = Grid(low=0, high=10, step=1)
    assert (wider(grid).lowest, wider(grid).highest) == (-1, 11)
    full = Grid(low=-(1 << 52), high=1 << 52, step=1)
    assert (wider(full).lowest, wider(full).highest) == (-(1 << 52), 1 << 52)


def test_people_spread_over_cells_far_out_are_seen_together() -> None:
    """None of the five cells is more than noise alone, and the next cells are empty; together they are no chance."""
    noisy = np.array([40, 0, 0, 0, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0]) * 100
    seen = surveys.OutwardCounts.of(noisy, Fraction(100), start=0)
    assert seen.last == 8
    assert surveys.OutwardCounts.of(noisy // 4, Fraction(100), start=0).last == 0


def test_empty_cells_are_seldom_taken_for_people() -> None:
    """In 2,000 fixed draws of noise alone: at most 2 in 100 limits, 1 in 100 bounds."""
    draws = np.random.default_rng(5).laplace(size=(2000, 91))
    limits = sum(surveys.OutwardCounts.of(draw[:29] * 50, Fraction(50), start=0).last > 3 for draw in draws)
    beyond = sum(surveys._fullest(draw) + 3 < surveys.OutwardCounts.of(draw * 50, Fraction(50)).last for draw in draws)
    assert limits <= 40
    assert beyond <= 20
