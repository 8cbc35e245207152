"""The oracle: random tables, random queries, every person taken out or replaced, and the integers before noise
compared.

Under one hash key, the answer must be the sum of what each person gives alone. That is stronger than a bound on one
neighbour: it says that nobody's kept rows depend on anybody else's. From it, and from each person's own share being
within the plan's reach, every neighbour is within the plan's sensitivity; removal and replacement are checked as
well, directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.noise import Grid
from deniable.query import AtMost
from deniable.query.engines import DuckDB
from deniable.query.measures import Measure, Values, move
from deniable.query.planning import QueryPlan
from deniable.query.schema import Column, Kind
from deniable.units import Relation

CITIES = ["Bern", "Basel", "Chur", "Olten"]
PEOPLE = [1, 2, 3, None]

costs = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 2.5, 7.0, 100.0, -100.0, 1e300, -1e300, math.inf, -math.inf, math.nan, None, 0.3]),
    st.floats(-10, 10),
)
ages = st.one_of(st.none(), st.integers(-5, 12), st.just(2**31 - 1), st.just(-(2**31)))
row = st.tuples(
    st.sampled_from(PEOPLE),
    st.sampled_from([*CITIES, "elsewhere", None]),
    st.sampled_from([2020, 2021, 2022, None]),
    costs,
    ages,
)
tables = st.lists(row, min_size=0, max_size=24)

aggregates = st.lists(
    st.sampled_from(
        ["COUNT(*)", "COUNT(cost)", "COUNT(city)", "SUM(cost)", "AVG(cost)", "SUM(age)", "AVG(age)", "COUNT(age)"]
    ),
    min_size=1,
    max_size=4,
    unique=True,
)
leaves = st.sampled_from(
    [
        "age > 3", "5 >= age", "cost BETWEEN 0 AND 6", "city IN ('Bern', 'Chur')", "city <> 'Bern'", "year IS NULL",
        "cost IS NOT NULL", "age = 2.5", "cost < 1e10", "age NOT IN (1, 2)", "year = 2021", "age < year", "cost > age",
    ]
)  # fmt: skip
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        inner.map(lambda c: f"NOT ({c})"),
    ),
    max_leaves=4,
)
bounds = st.tuples(st.integers(-8, 8), st.integers(1, 9)).map(lambda t: (t[0], t[0] + t[1]))


@st.composite
def questions(draw: Any) -> tuple[str, dict[str, Any]]:
    groups = draw(st.sampled_from([[], ["city"], ["year"], ["city", "year"], ["year", "city"]]))
    wanted = draw(aggregates)
    where = draw(st.one_of(st.none(), conditions))
    listed = [*groups, *(f"{a} AS a{i}" for i, a in enumerate(wanted))]
    sql = f"SELECT {', '.join(listed)} FROM t" + (f" WHERE {where}" if where else "")
    if groups:
        sql += f" GROUP BY {', '.join(groups)}"
    low, high = draw(bounds)
    options = {
        "bounds": {"cost": (low, high), "age": draw(bounds)},
        "keys": {"city": draw(st.permutations(CITIES)), "year": [2020, 2021, 2022]},
        "per_unit": AtMost(groups=draw(st.integers(1, 4)), rows=draw(st.integers(1, 3))),
    }
    return sql, options


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    names = ["person", "city", "year", "cost", "age"]
    types = [pa.int64(), pa.string(), pa.int32(), pa.float64(), pa.int32()]
    return pa.table(
        {n: pa.array([r[i] for r in rows], type=t) for i, (n, t) in enumerate(zip(names, types, strict=True))}
    )


class Oracle:
    """Runs one plan's bounded SQL over many tables of one schema."""

    def __init__(self, found: QueryPlan, vectors: Callable[..., list[list[int]]], key: tuple[int, int]) -> None:
        self.plan, self.vectors, self.key = found, vectors, key

    def __call__(self, rows: list[tuple[Any, ...]]) -> list[list[int]]:
        engine = self.plan._engine
        assert isinstance(engine, DuckDB)
        engine._connection.execute("DROP VIEW temp.main.t")
        engine._connection.unregister("t (frame)")
        engine.add("t", arrow(rows))
        return self.vectors(self.plan, key=self.key)


def distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


keys = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


def check_people(make_plan: Any, vectors: Any, rows: Any, question: Any, key: Any, shuffled: Any) -> None:
    sql, options = question
    found = make_plan(arrow(rows), sql, **options)
    try:
        run = Oracle(found, vectors, key)
        whole = run(rows)
        alone = {p: run([r for r in rows if r[0] == p]) for p in PEOPLE if p is not None}
        nobody = run([r for r in rows if r[0] is None])
        for j, part in enumerate(found.noises):
            assert nobody[j] == [0] * found.groups
            assert whole[j] == [sum(mine[j][g] for mine in alone.values()) for g in range(found.groups)]
            for mine in alone.values():
                assert distance(mine[j], nobody[j]) <= part.move.sensitivity
                assert sum(x != 0 for x in mine[j]) <= part.move.coordinates
        shuffled.shuffle(rows)
        assert run(rows) == whole, "the order of rows must not matter"
    finally:
        found._engine.close()


@settings(max_examples=50)
@given(rows=tables, question=questions(), key=keys, shuffled=st.randoms(use_true_random=False))
def test_people_add_up_and_stay_within_reach(
    make_plan: Any, vectors: Any, rows: Any, question: Any, key: Any, shuffled: Any
) -> None:
    check_people(make_plan, vectors, rows, question, key, shuffled)


@pytest.mark.soak
@given(rows=tables, question=questions(), key=keys, shuffled=st.randoms(use_true_random=False))
def test_people_add_up_at_length(
    make_plan: Any, vectors: Any, rows: Any, question: Any, key: Any, shuffled: Any
) -> None:
    check_people(make_plan, vectors, rows, question, key, shuffled)


@settings(max_examples=30)
@given(rows=tables, other=tables, question=questions(), key=keys)
def test_removing_and_replacing_a_person(
    make_plan: Any, vectors: Any, rows: Any, other: Any, question: Any, key: Any
) -> None:
    sql, options = question
    moved = [r for r in rows if r[0] != 1]
    replaced = moved + [(1, *r[1:]) for r in other]
    for relation, neighbour in ((Relation.ADD_REMOVE, moved), (Relation.REPLACE, replaced)):
        found = make_plan(arrow(rows), sql, relation=relation, **options)
        try:
            run = Oracle(found, vectors, key)
            before, after = run(rows), run(neighbour)
        finally:
            found._engine.close()
        for j, part in enumerate(found.noises):
            assert distance(before[j], after[j]) <= part.move.sensitivity


@settings(max_examples=60)
@given(
    rows=tables, changed=row, question=questions(), relation=st.sampled_from([Relation.ADD_REMOVE, Relation.REPLACE])
)
def test_rows_as_units(make_plan: Any, vectors: Any, rows: Any, changed: Any, question: Any, relation: Any) -> None:
    sql, options = question
    options = {**options, "per_unit": None}
    found = make_plan(arrow(rows), sql, unit="row", relation=relation, **options)
    try:
        run = Oracle(found, vectors, (0, 0))
        before = run([*rows, changed])
        after = run(rows) if relation is Relation.ADD_REMOVE else run([*rows, (7, "Basel", 2022, 5.0, 3)])
        for j, part in enumerate(found.noises):
            assert distance(before[j], after[j]) <= part.move.sensitivity
    finally:
        found._engine.close()


@pytest.mark.parametrize(
    ("groups", "relation"), [(2, Relation.REPLACE), (3, Relation.REPLACE), (2, Relation.ADD_REMOVE)]
)
def test_the_sensitivity_is_reached(make_plan: Any, vectors: Any, relation: Any, groups: int) -> None:
    """The plan's sensitivity is the largest distance over extreme neighbours: nothing too small, nothing wasted."""
    cities, low, high = CITIES[:3], -3, 5
    found = make_plan(
        arrow([]),
        "SELECT city, SUM(cost) AS s FROM t GROUP BY city",
        relation=relation,
        bounds={"cost": (low, high, 1)},
        keys={"city": cities},
        per_unit=AtMost(groups=groups, rows=2),
    )
    try:
        run = Oracle(found, vectors, (3, 4))
        answers = []
        for values in product((None, low, high), repeat=3):
            if sum(value is not None for value in values) <= groups:
                mine = [(1, c, 2020, float(v), 1) for c, v in zip(cities, values, strict=True) if v is not None]
                answers.append(run(mine * 2)[0])
        empty = [0, 0, 0]
        others = answers if relation is Relation.REPLACE else [empty]
        assert found.noises[0].move.sensitivity == max(distance(a, b) for a in answers for b in others)
        assert found.noises[0].move.reach == max(distance(a, empty) for a in answers)
    finally:
        found._engine.close()


COLUMN = Column("cost", Kind.REAL, "DOUBLE")


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("low", "high"), [(0, 5), (-3, 5), (-5, -1), (2, 4), (-4, 0)])
@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_the_formula_is_exact(relation: Relation, low: int, high: int, groups: int) -> None:
    """Against all shares of up to four groups that are nothing, the least or the most: those between move less."""
    measure = Measure(Values(COLUMN, Grid(low=low, high=high, step=1)), summed=True)
    for limit, rows in product((1, 2, 3, 9), (1, 3)):
        shares = [
            tuple(rows * (value or 0) for value in values)
            for values in product((None, low, high), repeat=groups)
            if sum(value is not None for value in values) <= limit
        ]
        empty = (0,) * groups
        others = shares if relation is Relation.REPLACE else [empty]
        found = move(measure, AtMost(groups=limit, rows=rows), groups=groups, relation=relation)
        assert found.sensitivity == max(distance(a, b) for a in shares for b in others)
        assert found.reach == max(distance(a, empty) for a in shares)
        assert found.coordinates == max(sum(x != y for x, y in zip(a, b, strict=True)) for a in shares for b in others)
