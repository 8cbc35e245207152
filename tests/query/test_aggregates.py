"""Each aggregate: what is measured of known rows, what comes out when the noise is negligible, and how often intervals
hold when it is not. Statistical tests alarm falsely with probability at most 1e-7 each.
"""

from __future__ import annotations

import statistics
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.noise import Grid
from deniable.query import AtMost
from deniable.query.aggregates import QuantileAggregate
from deniable.query.grids import BinNumber, Distinct, Values
from deniable.query.measures import BinTree, Cells, Different, Measure, NodeCounts, UnitCounts, move
from deniable.query.schema import Column, ColumnKind
from deniable.units import Relation

WIDE = AtMost(groups=1000, rows=1000)
COLUMN = Column("x", ColumnKind.INTEGER, "BIGINT")
VALUES = [3, 3, 4, 7, 8, 8, 8, 15, 20, 21]
TABLE = pa.table({"person": [0, 0, 0, 1, 1, 2, 3, 4, 5, 5], "x": VALUES, "c": list("aababbbccc")})
MUCH = 10**9


def released(make_plan: Any, sql: str, **options: Any) -> dict[str, Any]:
    plan = make_plan(TABLE, sql, **{"epsilon": MUCH, "per_unit": WIDE, "bounds": {"x": (0, 30)}, **options})
    (row,) = plan.run().rows
    plan.engine.close()
    return dict(row)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("COUNT(DISTINCT person)", 6),
        ("COUNT(DISTINCT x)", 7),
        ("COUNT(DISTINCT c)", 3),
        ("COUNT(DISTINCT x % 2)", 2),
        ("VAR_POP(x)", statistics.pvariance(VALUES)),
        ("VARIANCE(x)", statistics.variance(VALUES)),
        ("VAR_SAMP(x)", statistics.variance(VALUES)),
        ("STDDEV_POP(x)", statistics.pstdev(VALUES)),
        ("STDDEV(x)", statistics.stdev(VALUES)),
        ("STDDEV_SAMP(x * 2)", 2 * statistics.stdev(VALUES)),
        ("AVG(x)", statistics.fmean(VALUES)),
        ("MEAN(x)", statistics.fmean(VALUES)),
        ("SUM(x * x)", sum(v * v for v in VALUES)),
        ("COUNT_IF(x > 7)", 6),
        ("MEDIAN(x)", 8),
        ("QUANTILE_CONT(x, 0.25)", 4),
        ("QUANTILE_CONT(x, 0.75)", 15),
        ("QUANTILE_DISC(x, 0.95)", 21),
        ("QUANTILE_CONT(x, 0)", 3),
        ("QUANTILE_CONT(x, 1)", 21),
        ("QUANTILE_CONT(x, 0.9)", 20),
        ("PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY x)", 4),
        ("PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY x DESC)", 15),
        ("MIN(x)", 3),
        ("MAX(x)", 21),
        ("MAX(x / 2)", 10.5),
    ],
)
def test_without_noise(make_plan: Any, aggregate: str, expected: float) -> None:
    value = released(make_plan, f"SELECT {aggregate} AS a FROM t")["a"]
    assert value.value == pytest.approx(expected, abs=0.01)
    assert value.low - 0.01 <= expected <= value.high + 0.01


def test_the_mode(make_plan: Any) -> None:
    sql = "SELECT MODE(c) AS m FROM t"
    assert released(make_plan, sql, keys={"c": ["z", "a", "b", "c"]})["m"] == ("b", "b")
    assert released(make_plan, sql, keys={"c": ["z", "a"]})["m"] == ("a", "a"), "only declared categories count"
    found = released(make_plan, "SELECT MODE(x % 3) AS m FROM t", keys={"x % 3": [0, 1, 2]})["m"]
    assert found == (0, "0, 2"), "four are 0 and four are 2: the first declared, and both are possible"
    vague = released(make_plan, sql, keys={"c": ["a", "b", "c"]}, epsilon=Fraction(1, 100))["m"]
    assert vague.among == "a, b, c"


def test_limits_hold_for_different_values(answers: Any) -> None:
    """Two rows of a person count: at most two new values, whoever else is there."""
    table = pa.table({"person": [1] * 6 + [2], "x": [1, 2, 3, 4, 5, 6, 6]})
    found = answers(table, "SELECT COUNT(DISTINCT x) AS d FROM t", per_unit=AtMost(groups=1, rows=2))
    assert found in ([[2]], [[3]])


def test_a_person_counts_once_per_group(answers: Any) -> None:
    sql = "SELECT c, COUNT(DISTINCT person) AS p FROM t GROUP BY c"
    assert answers(TABLE, sql, keys={"c": ["a", "b", "c"]}, per_unit=WIDE) == [[2, 4, 2]]
    (found,) = answers(TABLE, sql, keys={"c": ["a", "b", "c"]}, per_unit=AtMost(groups=1, rows=1))
    assert sum(found) == 6


# Sensitivities of the measures that are no plain sums, against all shares of small tables.


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("size", "levels"), [(2, 1), (3, 1), (4, 2), (8, 3)])
def test_the_move_of_a_tree_is_exact(relation: Relation, size: int, levels: int) -> None:
    """One group, R rows: every way to put up to R rows into the bins, old and new."""
    tree = BinTree(size, round(size ** (1 / levels)), levels) if levels > 1 else BinTree.flat(size)
    counts = NodeCounts(None, bins=BinNumber(COLUMN, Grid(low=0, high=size - 1, step=1)), tree=tree)
    for rows in (1, 2):
        shares = []
        for many in range(rows + 1):
            for places in product(range(size), repeat=many):
                leaves = np.bincount(places, minlength=size) if places else np.zeros(size, dtype=np.int64)
                shares.append(tree.totals(leaves[None, :])[0])
        nothing = np.zeros_like(shares[0])
        others = shares if relation is Relation.REPLACE else [nothing]
        found = move(counts, AtMost(groups=3, rows=rows), groups=1, relation=relation)
        assert found.sensitivity == max(int(np.abs(a - b).sum()) for a in shares for b in others)
        assert found.reach == max(int(np.abs(a).sum()) for a in shares)
        assert found.coordinates >= max(int((a != b).sum()) for a in shares for b in others)


def test_moves_of_people_and_values() -> None:
    limits = AtMost(groups=3, rows=5)
    people, different = UnitCounts(None, noun="person"), Different(None, distinct=Distinct(COLUMN))
    assert move(people, limits, groups=10, relation=Relation.ADD_REMOVE) == (3, 3, 3, 3)
    assert move(people, limits, groups=10, relation=Relation.REPLACE) == (6, 6, 3, 6)
    assert move(people, limits, groups=None, relation=Relation.REPLACE) == (6, 6, 3, 6)
    assert move(different, limits, groups=10, relation=Relation.ADD_REMOVE) == (15, 75, 15, 3)
    assert move(different, limits, groups=3, relation=Relation.REPLACE) == (15, 75, 15, 3)
    square = Values(COLUMN, Grid(low=-3, high=7, step=1), squared=True)
    assert (square.middle, square.low, square.high) == (2, 0, 25)
    centred = Measure(square, summed=True, centre=12)
    assert move(centred, AtMost(groups=1, rows=1), groups=1, relation=Relation.ADD_REMOVE).sensitivity == 13


# Trees


@given(
    st.integers(1, 200), st.integers(1, 4), st.integers(0, 3), st.randoms(use_true_random=False)
)  # fmt: skip
def test_ranks_are_read_off_the_tree(size: int, levels: int, groups: int, random: Any) -> None:
    """Below and above every edge, as sums of nodes, whatever the shape of the tree."""
    branching = next(b for b in range(1, size + 1) if b**levels >= size)
    tree = BinTree(size, branching, levels)
    leaves = np.array([[random.randrange(9) for _ in range(size)] for _ in range(groups)], dtype=np.int64)
    leaves = leaves.reshape(groups, size)
    below = np.concatenate([np.zeros((groups, 1)), np.cumsum(leaves, axis=1)], axis=1)
    nodes = tree.totals(leaves)
    assert nodes.shape == (groups, tree.nodes)
    assert (tree.below(nodes) == below).all()
    assert (tree.above(nodes) == leaves.sum(axis=1, keepdims=True) - below).all()
    fewest = levels * (branching - 1) + 1
    assert all(one + other <= max(fewest, branching) for one, other in zip(*tree.used, strict=True))


@pytest.mark.parametrize(("size", "levels"), [(1, 1), (30, 1), (121, 2), (1000, 3), (4096, 3)])
def test_the_shape_has_the_least_noise(size: int, levels: int) -> None:
    tree = BinTree.of_bins(size)
    assert tree.levels == levels
    assert tree.branching**levels >= size


def test_sparse_cells() -> None:
    cells = Cells(np.array([0, 2, 2, 5]), np.array([1, 0, 2, 1]), np.array([4, 5, 6, 7]))
    assert cells.dense(6, 3)[[0, 2, 5]].tolist() == [[0, 4, 0], [5, 0, 6], [0, 7, 0]]
    part = cells.part(np.array([1, 2, 5]))
    assert part.dense(3, 3).tolist() == [[0, 0, 0], [5, 0, 6], [0, 7, 0]]


# Margins of sums of noise


# Coverage

GROUPS, SIZE = 1500, 60


@pytest.fixture(scope="module")
def noisy(make_plan: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """1,500 groups of 60 people with one value each, and the released columns."""
    values = np.random.default_rng(7).integers(0, 25, (GROUPS, SIZE)) + np.arange(GROUPS)[:, None] % 20
    table = pa.table(
        {"person": np.arange(GROUPS * SIZE), "g": np.repeat(np.arange(GROUPS), SIZE), "x": values.reshape(-1)}
    )
    plan = make_plan(
        table,
        "SELECT g, VAR_POP(x) AS v, STDDEV(x) AS s, MEDIAN(x) AS q5, QUANTILE_CONT(x, 0.9) AS q9, MAX(x) AS top, "
        "MODE(CASE WHEN x < 12 THEN 'low' WHEN x < 24 THEN 'mid' ELSE 'high' END) AS m, COUNT(DISTINCT x) AS d "
        "FROM t GROUP BY g",
        epsilon=40,
        bounds={"x": (0, 50)},
        keys={"g": range(GROUPS)},
        per_unit=AtMost(groups=1, rows=1),
    )
    columns = {name: np.array(column) for name, column in plan.run().columns.items()}
    plan.engine.close()
    return columns, values


def truths(values: np.ndarray) -> dict[str, np.ndarray]:
    ordered = np.sort(values, axis=1)
    at = {"q5": SIZE // 2, "q9": SIZE * 9 // 10, "top": int(np.ceil(SIZE * 0.99))}
    return {
        "v": values.var(axis=1),
        "s": values.std(axis=1, ddof=1),
        **{name: ordered[:, rank - 1] for name, rank in at.items()},
        "d": np.array([len(set(row)) for row in values.tolist()]),
    }


@pytest.mark.parametrize("name", ["v", "s", "q5", "q9", "top", "d"])
def test_intervals_cover(noisy: tuple[dict[str, np.ndarray], np.ndarray], name: str) -> None:
    """At least 95 % hold the truth, but for 5.4 deviations; values lie inside; an interval tells something."""
    columns, values = noisy
    true = truths(values)[name]
    inside = (columns[f"{name}_low"] <= true + 1e-9) & (true <= columns[f"{name}_high"] + 1e-9)
    assert inside.mean() > 0.95 - 5.4 * np.sqrt(0.95 * 0.05 / GROUPS)
    assert (columns[f"{name}_low"] <= columns[name]).all()
    assert (columns[name] <= columns[f"{name}_high"]).all()
    assert (columns[f"{name}_high"] - columns[f"{name}_low"]).mean() < {"v": 400, "s": 20, "d": 20}.get(name, 30)


def test_the_mode_is_among(noisy: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    columns, values = noisy
    counts = np.stack(
        [(values < 12).sum(axis=1), ((values >= 12) & (values < 24)).sum(axis=1), (values >= 24).sum(axis=1)]
    )
    names = np.array(["low", "mid", "high"])
    inside = [
        any(name in among.split(", ") for name in names[column == column.max()])
        for column, among in zip(counts.T, columns["m_among"], strict=True)
    ]
    assert np.mean(inside) > 0.95 - 5.4 * np.sqrt(0.95 * 0.05 / GROUPS)
    assert np.mean(columns["m"] == names[counts.argmax(axis=0)]) > 0.8
    assert np.mean([", " in among for among in columns["m_among"]]) < 0.9


def test_the_noise_of_bins_has_the_planned_law(make_plan: Any) -> None:
    """Every node of a tree gets its own noise of the planned scale: the mean of |noise| over 40,000 nodes."""
    plan = make_plan(
        pa.table({"person": [1], "x": [3]}), "SELECT MEDIAN(x) AS m FROM t", bounds={"x": (0, 120)},
        per_unit=AtMost(groups=1, rows=4), epsilon=2,
    )  # fmt: skip
    (part,) = plan.noises
    assert part.scale == Fraction(4 * 2, 2)
    exact = np.zeros((300, part.measure.cells), dtype=np.int64)
    drawn = part.added(exact)
    scale = float(part.scale)
    mean = 2 * np.exp(-1 / scale) / (1 - np.exp(-2 / scale))
    assert drawn.shape == exact.shape
    assert abs(np.abs(drawn).mean() - mean) < 5.4 * scale / np.sqrt(drawn.size)
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 5.5 / np.sqrt(300)
    plan.engine.close()


def test_quantiles_of_a_column_share_their_tree(make_plan: Any) -> None:
    plan = make_plan(
        TABLE, "SELECT MEDIAN(x) AS a, MIN(x) AS b, QUANTILE_CONT(x, 0.9) AS c FROM t", bounds={"x": (0, 30)},
        per_unit=WIDE,
    )  # fmt: skip
    assert [part.amount for part in plan.noises] == [1]
    assert str(plan.error["a"]).endswith("in rank, of the 50 % quantile")
    assert str(plan.error["b"]).endswith("in rank, of the 1 % quantile"), "the plan says what MIN means"
    assert plan.error["a"]() == 30
    assert isinstance(plan.aggregates[1], QuantileAggregate)
    assert plan.aggregates[1].level == Fraction(1, 100)
    plan.engine.close()


def test_few_groups_at_a_time(make_plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handling groups a few at a time gives every group its own answer."""
    from deniable.query import answering

    monkeypatch.setattr(answering, "AT_ONCE", 400)
    rows = [(g, 2 * g) for g in range(30) for _ in range(40)]
    table = pa.table({"person": range(len(rows)), "g": [r[0] for r in rows], "x": [r[1] for r in rows]})
    plan = make_plan(
        table, "SELECT g, MEDIAN(x) AS m, COUNT(*) AS n FROM t GROUP BY g", bounds={"x": (0, 120)},
        keys={"g": range(30)}, per_unit=AtMost(groups=1, rows=1), epsilon=MUCH,
    )  # fmt: skip
    found = plan.run().columns
    assert found["m"] == [2 * g for g in range(30)]
    assert found["n"] == [40] * 30
    plan.engine.close()
