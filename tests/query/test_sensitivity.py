"""The oracle: random tables, random queries, every person taken out or replaced, and the integers before noise
compared.

Under one hash key, the answer must be the sum of what each person gives alone. That is stronger than a bound on one
neighbour: it says that nobody's kept rows depend on anybody else's. From it, and from each person's own share being
within the plan's reach, every neighbour is within the plan's sensitivity. The number of different values is no sum, so
it is compared between neighbours; removal and replacement are checked for all measures as well, directly. Queries have
every aggregate, derived columns, declared, known and private keys, and a join with a public table that multiplies rows.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.errors import QueryError
from deniable.noise import Grid
from deniable.query import AtMost
from deniable.query.engines import DuckDB
from deniable.query.grids import BinNumber
from deniable.query.measures import BinTree, Different, Measure, NodeCounts, Values, move
from deniable.query.planning import QueryPlan, plan
from deniable.query.schema import Column, ColumnKind
from deniable.query.values import name
from deniable.units import Relation

CITIES = ["Bern", "Basel", "Chur", "Olten"]
PEOPLE = [1, 2, 3, None]
REGIONS = pa.table(
    {
        "city": ["Bern", "Bern", "Bern", "Basel", "Chur", None, "Genf"],
        "region": ["west", "middle", "west", "north", None, "north", "west"],
        "size": [3, 5, None, 7, 2, 1, 9],
    }
)
PUBLIC = {"regions": REGIONS}

costs = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 2.5, 7.0, 100.0, -100.0, 1e300, -1e300, math.inf, -math.inf, math.nan, None, 0.3]),
    st.floats(-10, 10),
)
ages = st.one_of(st.none(), st.integers(-5, 12), st.just(2**31 - 1), st.just(-(2**31)))
row = st.tuples(
    st.sampled_from(PEOPLE),
    st.sampled_from([*CITIES, "elsewhere", "", None]),
    st.sampled_from([2020, 2021, 2022, None]),
    costs,
    ages,
)
tables = st.lists(row, min_size=0, max_size=24)

SUMS = [
    "COUNT(*)", "COUNT(cost)", "COUNT(t.city)", "SUM(cost)", "AVG(cost)", "SUM(age)", "AVG(age)", "COUNT(age)",
    "SUM(cost * age)", "AVG(CASE WHEN age > 3 THEN cost ELSE -age END)", "SUM(FLOOR(cost) % 3)",
    "COUNT_IF(cost / age > 1)",
    "SUM(CAST(year AS DOUBLE) / 7 - 288)", "COUNT(DISTINCT person)", "COUNT(*) FILTER (WHERE age > 2)",
    "CORR(cost, age)", "REGR_INTERCEPT(age, cost)", "SUM(cost) / COUNT(*)",
    "ROUND(AVG(age) FILTER (WHERE cost > 0), 1) - COUNT(1)",
]  # fmt: skip
DETAILS = [
    "COUNT(DISTINCT t.city)", "COUNT(DISTINCT t.city, age)", "COUNT(DISTINCT cost)", "COUNT(DISTINCT UPPER(t.city))",
    "VAR_POP(cost)", "STDDEV(age)",
    "MEDIAN(cost)", "QUANTILE_CONT(age, 0.9)", "MAX(ABS(cost))",
    "PERCENTILE_CONT(0.2) WITHIN GROUP (ORDER BY age DESC)",
    "MODE(t.city)", "MODE(CASE WHEN age > 3 THEN 'old' WHEN cost > 2 THEN 'dear' END)", "MODE(year)",
]  # fmt: skip
aggregates = st.one_of(
    st.lists(st.sampled_from(SUMS), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(SUMS + DETAILS), min_size=1, max_size=4, unique=True),
)
leaves = st.sampled_from(
    [
        "age > 3", "5 >= age", "cost BETWEEN 0 AND 6", "t.city IN ('Bern', 'Chur')", "t.city <> 'Bern'", "year IS NULL",
        "cost IS NOT NULL", "age = 2.5", "cost < 1e10", "age NOT IN (1, 2)", "year = 2021", "age < year", "cost > age",
        "t.city ILIKE 'b%'", "t.city LIKE '!%' ESCAPE '!'",
        "LENGTH(t.city) < 5", "age * 2 > cost", "t.city LIKE 'B%'", "COALESCE(cost, age) > 0",
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
groupings = st.sampled_from(
    [[], ["t.city"], ["year"], ["t.city", "year"], ["year", "t.city"], ["age > 3"], ["UPPER(t.city)"], ["cost"],
     ["FLOOR(age / 4)", "year"], ["region"], ["region", "t.city"],
     ["CASE WHEN age > 3 THEN 'old' ELSE 'young' END", "year"]]
)  # fmt: skip


SOURCES = [
    "t",
    "t",
    "(SELECT * FROM t WHERE age < 9) AS t",
    "(SELECT person, city, year, SUM(cost) AS cost, MAX(age) AS age FROM t GROUP BY person, city, year) AS t",
    "(SELECT person, city, year, cost, age FROM t UNION ALL SELECT person, 'Chur', year, age, COUNT(*) AS n FROM t "
    "GROUP BY person, year, age) AS t",
    "(SELECT a.person, city, year, AVG(cost) AS cost, COUNT(DISTINCT age) AS age FROM t AS a "
    "GROUP BY a.person, city, year HAVING COUNT(*) < 4) AS t",
    "(SELECT a.person, a.city, year, p.n AS age, cost FROM t AS a JOIN (SELECT person, COUNT(*) AS n FROM t "
    "GROUP BY person) AS p ON a.person = p.person) AS t",
    "(SELECT * FROM t WHERE person IN (SELECT person FROM t GROUP BY person HAVING SUM(age) > 3)) AS t",
]
"""What stands for the table: itself, or a derived table with its columns."""


@st.composite
def questions(
    draw: Any, *, private: bool = True, joined: bool = True, derived: bool = True
) -> tuple[str, dict[str, Any]]:
    groups = draw(groupings)
    wanted = draw(aggregates)
    where = draw(st.one_of(st.none(), conditions))
    join = joined and (draw(st.booleans()) or "region" in groups)
    if not joined:
        groups = [group for group in groups if group != "region"]
    terms = [f"{group} AS g{i}" for i, group in enumerate(groups)]
    listed = [*terms, *(f"{a} AS a{i}" for i, a in enumerate(wanted))]
    side = draw(st.sampled_from(["", "LEFT "]))
    table = draw(st.sampled_from(SOURCES)) if derived else "t"
    source = f"{table} {side}JOIN regions ON t.city = regions.city" if join else table
    sql = f"SELECT {', '.join(listed)} FROM {source}" + (f" WHERE {where}" if where else "")
    if groups:
        sql += f" GROUP BY {', '.join(str(i) for i in range(1, len(groups) + 1))}"
    low, high = draw(bounds)
    keys = {"t.city": draw(st.permutations(CITIES)), "year": [2020, 2021, 2022]}
    known = {"UPPER(t.city)": ["BERN", "CHUR"], "cost": [0, 1, 2.5, 7], "FLOOR(age / 4)": [-1, 0, 1]}
    hidden = private and draw(st.booleans())
    if hidden and not any(a.startswith("MODE") for a in wanted):
        keys = {name: keys[name] for name in draw(st.lists(st.sampled_from(sorted(keys)), unique=True))}
    if not hidden:
        keys |= {name: known[name] for name in groups if name in known}
    keys = {name: found for name, found in keys.items() if name in groups or f"MODE({name})" in wanted}
    options: dict[str, Any] = {
        "bounds": {"cost": (low, high), "age": draw(bounds), "year": (2020, 2022)},
        "keys": keys,
        "per_unit": AtMost(
            groups=draw(st.integers(1, 4)),
            rows=draw(st.integers(1, 3)),
            total=draw(st.sampled_from([None, None, 1, 3, 5])),
        ),
        "public": PUBLIC,
        "whole": draw(st.sampled_from(["", "", "limits", "bounds", "limits and bounds"])),
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

    def __init__(self, found: QueryPlan, look: Callable[..., Any], key: tuple[int, int]) -> None:
        self.plan, self.look, self.key = found, look, key

    def __call__(self, rows: list[tuple[Any, ...]]) -> Any:
        engine = self.plan.engine
        assert isinstance(engine, DuckDB)
        engine._connection.execute("DROP VIEW temp.main.t")
        engine._connection.unregister("t (frame)")
        engine.add("t", arrow(rows))
        return self.look(self.plan, key=self.key)


def planned(make_plan: Any, rows: Any, sql: str, options: dict[str, Any], **more: Any) -> QueryPlan:
    """The plan; with a δ where keys are private. `whole` says beyond what units are left out whole."""
    given = {**options, **more}
    whole = given.pop("whole", "")
    try:
        found: QueryPlan = make_plan(arrow(rows), sql, **given)
    except QueryError:  # of keys that are not declared
        found = make_plan(arrow(rows), sql, delta=1e-6, **given)
    return leaving_out(found, limits="limits" in whole, bounds="bounds" in whole)


def leaving_out(found: QueryPlan, *, limits: bool, bounds: bool) -> QueryPlan:
    """The same plan, with units beyond its limits, or its bounds, left out whole."""
    columns = frozenset(map(name, found.grids)) if bounds else frozenset()
    kinds = random_kinds(found) if limits else ()
    return plan(found.question, replace(found.options, whole_limits=kinds, whole_bounds=columns), found.context)


def random_kinds(found: QueryPlan) -> tuple[str, ...]:
    """Some limits that are asked for also where they follow from others; which must not matter."""
    return ("total", "groups", "rows")[: 1 + len(found.sql) % 3]


def distance(one: Sequence[int] | Mapping[Any, int], other: Sequence[int] | Mapping[Any, int]) -> int:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return sum(abs(one.get(place, 0) - other.get(place, 0)) for place in {*one, *other})
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def squared(one: Mapping[Any, int], other: Mapping[Any, int]) -> int:
    """The squared L2 distance."""
    return sum((one.get(place, 0) - other.get(place, 0)) ** 2 for place in {*one, *other})


keys = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


def check_people(make_plan: Any, places: Any, rows: Any, question: Any, key: Any, shuffled: Any) -> None:
    sql, options = question
    found = planned(make_plan, rows, sql, options)
    try:
        run = Oracle(found, places, key)
        whole = run(rows)
        people = [p for p in PEOPLE if p is not None]
        alone = {p: run([r for r in rows if r[0] == p]) for p in people}
        without = {p: run([r for r in rows if r[0] != p]) for p in people}
        nobody = run([r for r in rows if r[0] is None])
        for j, part in enumerate(found.noises):
            assert nobody[j] == {}
            if not isinstance(part.measure, Different):
                added = Counter[Any]()
                for mine in alone.values():
                    for place, count in mine[j].items():
                        added[place] += count
                assert whole[j] == {place: count for place, count in added.items() if count}
            for p, mine in alone.items():
                assert distance(mine[j], {}) <= part.move.reach <= part.move.sensitivity
                assert distance(whole[j], without[p][j]) <= part.move.sensitivity
                assert squared(mine[j], {}) <= part.move.squared
                assert squared(whole[j], without[p][j]) <= part.move.squared
                assert len(mine[j]) <= part.move.coordinates
                assert len({group for group, _ in mine[j]}) <= options["per_unit"].groups
        shuffled.shuffle(rows)
        assert run(rows) == whole, "the order of rows must not matter"
    finally:
        found.engine.close()


@settings(max_examples=30)
@given(rows=tables, question=questions(), key=keys, shuffled=st.randoms(use_true_random=False))
def test_people_add_up_and_stay_within_reach(
    make_plan: Any, places: Any, rows: Any, question: Any, key: Any, shuffled: Any
) -> None:
    check_people(make_plan, places, rows, question, key, shuffled)


@pytest.mark.parametrize("aggregate", SUMS + DETAILS)
def test_every_aggregate_with_busy_people(make_plan: Any, places: Any, aggregate: str) -> None:
    """Few groups, many rows of each person in them, extreme values: every aggregate, beside people and values."""
    random = Random(aggregate)
    private = random.random() < 0.5
    costs, ages = [-100.0, 0.3, 2.5, 100.0], [None, -5, 2, 12]
    columns = (PEOPLE, CITIES[:3], [2020, 2022], costs, ages)
    rows = [tuple(random.choice(column) for column in columns) for _ in range(40)]
    sql = f"SELECT t.city AS c, {aggregate} AS a, COUNT(DISTINCT person) AS p"
    sql += ", COUNT(DISTINCT year) AS d" if random.random() < 0.5 else ""
    years = {"year": [2020, 2022]} if aggregate == "MODE(year)" else {}
    options = {
        "bounds": {"cost": (-3, 4), "age": (0, 9), "year": (2020, 2022)},
        "keys": {**years, **({} if private and "MODE(t" not in aggregate else {"t.city": CITIES})},
        "per_unit": AtMost(
            groups=random.choice([1, 2]), rows=random.choice([1, 2, 3]), total=random.choice([None, None, 2, 3])
        ),
        "whole": random.choice(["", "limits", "bounds"]),
    }
    check_people(make_plan, places, rows, (f"{sql} FROM t GROUP BY 1", options), (1, 2), random)


@pytest.mark.soak
@given(rows=tables, question=questions(), key=keys, shuffled=st.randoms(use_true_random=False))
def test_people_add_up_at_length(
    make_plan: Any, places: Any, rows: Any, question: Any, key: Any, shuffled: Any
) -> None:
    check_people(make_plan, places, rows, question, key, shuffled)


@settings(max_examples=30)
@given(rows=tables, other=tables, question=questions(), key=keys)
def test_removing_and_replacing_a_person(
    make_plan: Any, places: Any, rows: Any, other: Any, question: Any, key: Any
) -> None:
    sql, options = question
    moved = [r for r in rows if r[0] != 1]
    replaced = moved + [(1, *r[1:]) for r in other]
    for relation, neighbour in ((Relation.ADD_REMOVE, moved), (Relation.REPLACE, replaced)):
        found = planned(make_plan, rows, sql, options, relation=relation)
        try:
            run = Oracle(found, places, key)
            before, after = run(rows), run(neighbour)
        finally:
            found.engine.close()
        for j, part in enumerate(found.noises):
            assert distance(before[j], after[j]) <= part.move.sensitivity
            assert squared(before[j], after[j]) <= part.move.squared
            changed = sum(before[j].get(p, 0) != after[j].get(p, 0) for p in {*before[j], *after[j]})
            assert changed <= part.move.coordinates


@settings(max_examples=30)
@given(
    rows=tables,
    changed=row,
    question=questions(joined=False, derived=False),
    relation=st.sampled_from([Relation.ADD_REMOVE, Relation.REPLACE]),
)
def test_rows_as_units(make_plan: Any, places: Any, rows: Any, changed: Any, question: Any, relation: Any) -> None:
    sql, options = question
    options = {**options, "per_unit": None}
    found = planned(make_plan, rows, sql, options, unit="row", relation=relation)
    try:
        run = Oracle(found, places, (0, 0))
        before = run([*rows, changed])
        after = run(rows) if relation is Relation.ADD_REMOVE else run([*rows, (7, "Basel", 2022, 5.0, 3)])
        for j, part in enumerate(found.noises):
            assert distance(before[j], after[j]) <= part.move.sensitivity
            assert squared(before[j], after[j]) <= part.move.squared
    finally:
        found.engine.close()


def test_a_join_that_multiplies_rows(make_plan: Any, places: Any) -> None:
    """Bern has three rows in the public table: a person's one visit counts three times, within the limits; where rows
    are units, the plan refuses."""
    sql = "SELECT COUNT(*) AS n FROM t JOIN regions USING (city)"
    rows = [(1, "Bern", 2020, 1.0, 1)]
    for limit, expected in ((1, 1), (2, 2), (5, 3)):
        found = make_plan(arrow(rows), sql, public=PUBLIC, per_unit=AtMost(groups=1, rows=limit))
        assert Oracle(found, places, (1, 2))(rows) == [{((0,), 0): expected}]
        assert found.noises[0].move.sensitivity == limit
        found.engine.close()
    with pytest.raises(QueryError, match="has several rows for one key"):
        make_plan(arrow(rows), sql, unit="row", public=PUBLIC)
    once = {"regions": REGIONS.slice(3)}
    found = make_plan(arrow(rows), sql, unit="row", public=once)
    assert Oracle(found, places, (1, 2))([*rows, (1, "Basel", 2020, 1.0, 1)]) == [{((0,), 0): 1}]
    found.engine.close()


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
        found.engine.close()


COLUMN = Column("cost", ColumnKind.REAL, "DOUBLE")


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
        assert found.squared == max(length(a, b) for a in shares for b in others)
        assert found.coordinates == max(sum(x != y for x, y in zip(a, b, strict=True)) for a in shares for b in others)


def length(one: Sequence[int], other: Sequence[int]) -> int:
    """The squared L2 distance of two vectors."""
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
@pytest.mark.parametrize(("low", "high"), [(0, 5), (-3, 5), (-4, 4), (-4, 0)])
@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 9])
def test_the_formula_with_a_limit_on_all_rows(relation: Relation, low: int, high: int, total: int) -> None:
    """Against all numbers of rows in three groups, each group's rows all least or all most. Nothing is too small, and
    nothing is wasted where a unit is added."""
    measure = Measure(Values(COLUMN, Grid(low=low, high=high, step=1)), summed=True)
    for limit, rows in ((1, 2), (2, 2), (3, 2), (3, 3)):
        counts = [
            each
            for each in product(range(rows + 1), repeat=3)
            if sum(each) <= total and sum(n > 0 for n in each) <= limit
        ]
        ends = list(product((low, high), repeat=3))
        shares = {tuple(n * end for n, end in zip(each, some, strict=True)) for each in counts for some in ends}
        others = shares if relation is Relation.REPLACE else {(0, 0, 0)}
        limits = AtMost(groups=limit, rows=rows, total=total).within(3)
        found = move(measure, limits, groups=3, relation=relation)
        most = max(distance(a, b) for a in shares for b in others), max(length(a, b) for a in shares for b in others)
        assert found.sensitivity >= most[0]
        assert found.squared >= most[1]
        assert found.reach == max(distance(a, (0, 0, 0)) for a in shares)
        if relation is Relation.ADD_REMOVE:
            assert (found.sensitivity, found.squared) == most


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
@pytest.mark.parametrize(("size", "branching", "levels"), [(4, 2, 2), (3, 3, 1)])
@pytest.mark.parametrize("total", [None, 3])
def test_the_formula_of_trees(relation: Relation, size: int, branching: int, levels: int, total: int | None) -> None:
    """Against all ways to place up to two rows in the bins of each of two groups."""
    tree = BinTree(size, branching, levels)
    measure = NodeCounts(None, bins=BinNumber(COLUMN, Grid(low=0, high=size - 1, step=1)), tree=tree)
    leaves = [each for each in product(range(3), repeat=size) if sum(each) <= 2]
    nodes = {each: tuple(tree.totals(np.array([each]))[0].tolist()) for each in leaves}
    shares = {
        (*nodes[one], *nodes[two]) for one in leaves for two in leaves if total is None or sum(one) + sum(two) <= total
    }
    others = shares if relation is Relation.REPLACE else {(0,) * (2 * tree.nodes)}
    limits = AtMost(groups=2, rows=2, total=total)
    found = move(measure, limits, groups=2, relation=relation)
    matrix, beside = (np.array(sorted(each)) for each in (shares, others))
    apart = np.abs(matrix[:, None, :] - beside[None, :, :])
    assert found.squared == (apart**2).sum(axis=2).max()
    assert found.sensitivity == apart.sum(axis=2).max()
    assert found.coordinates >= (apart > 0).sum(axis=2).max()


def test_units_beyond_are_left_out_whole_and_others_count_in_full(make_plan: Any, places: Any) -> None:
    """By hand: a person within limits and bounds gives all rows, and one that is beyond any of them gives none."""
    rows = [
        *[(1, city, 2020, 1.0, 1) for city in ("Bern", "Bern", "Chur")],
        *[(2, "Bern", 2020, 1.0, 1)] * 3,
        *[(3, city, 2020, 1.0, 1) for city in ("Bern", "Chur", "Basel")],
        *[(4, "Basel", 2020, cost, 1) for cost in (1.0, 9.0)],
        *[(5, "Olten", 2020, cost, 1) for cost in (None, math.nan, 3.0)][1:],
        *[(6, "Bern", 2020, 0.0, 1)] * 2 + [(6, "Chur", 2020, 0.0, 1)] * 2,
    ]
    sql = "SELECT city, COUNT(*) AS n, SUM(cost) AS s, COUNT(DISTINCT person) AS p FROM t GROUP BY city"
    options = {"bounds": {"cost": (0, 3)}, "keys": {"city": CITIES}, "per_unit": AtMost(groups=2, rows=2, total=3)}
    found = planned(make_plan, rows, sql, {**options, "whole": "limits and bounds"})
    with contextlib.closing(found.engine):
        totals = found.engine.run(found.bounded, groups=4, key=(1, 2))
        assert totals.rows.tolist() == [2, 0, 1, 2], "1 and 5; others exceed rows, groups, bounds, total"
        assert totals.units.tolist() == [1, 0, 1, 1]
        (values,) = [values for values in totals.sums if values.grid is not None]
        assert [int(x) * values.step for x in totals.sums[values]] == [2, 0, 1, 3]
