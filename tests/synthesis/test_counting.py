"""Exact marginals: every value has its code, every unit its limit, and units do not move one another's rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deniable as dn
from deniable.errors import InvalidArgument, QueryError
from deniable.synthesis import ColumnBins, ColumnCategories
from deniable.synthesis.contributions import UnitContribution
from deniable.synthesis.counting import Counting
from deniable.units import Relation
from tests.synthesis.tables import CODES, COLUMNS, frame, session, tabulated


def counting(opened: dn.Session, *, columns: object = None, rows: int = 1, table: str = "people") -> Counting:
    per_unit = None if opened.ledger.unit.column is None else dn.AtMost(groups=1, rows=rows)
    return opened.marginals(table, 1, columns=columns or COLUMNS, epsilon=1, per_unit=per_unit).counting


def test_every_value_has_the_code_that_the_rule_says(tmp_path: Path) -> None:
    codes = np.array(list(CODES.values())).T
    with session(tmp_path) as opened:
        how = counting(opened)
        cliques = [(), (0,), (1,), (0, 1), (2, 4), (0, 1, 2, 3, 4)]
        found = how.count(opened.context.engine, cliques, key=(1, 2))
    for clique in cliques:
        expected = tabulated(codes, clique, how.domain.shape(clique)) if clique else np.array(12)
        np.testing.assert_array_equal(found[clique], expected)


def test_rows_without_a_listed_value_are_left_out_where_missing_is_no_category(tmp_path: Path) -> None:
    columns = {"sex": ColumnCategories(["f", "m"], missing=False), "age": ColumnBins([0, 20, 40], missing=False)}
    with session(tmp_path) as opened:
        how = counting(opened, columns=columns)
        found = how.count(opened.context.engine, [(0, 1)], key=(1, 2))[0, 1]
    assert found.tolist() == [[2, 2], [2, 2]]


def test_a_select_names_columns_and_rows(tmp_path: Path) -> None:
    sql = "SELECT sex AS s, grade FROM people WHERE age >= 0"
    with session(tmp_path) as opened:
        how = counting(opened, columns={"S": ["f", "m"], "grade": [1, 2]}, table=sql)
        found = how.count(opened.context.engine, [(0, 1)], key=(1, 2))[0, 1]
    assert found.sum() == 9
    assert found.tolist() == [[2, 0, 2], [0, 3, 0], [0, 0, 2]]


@pytest.mark.parametrize("limit", [2])
@pytest.mark.parametrize("alike", [False, True])
def test_a_unit_adds_at_most_its_limit_and_moves_nobody_else(tmp_path: Path, limit: int, alike: bool) -> None:
    data, cliques = frame(), [(), (0,), (0, 1), (1, 2)]
    tables = {"people": data, **{f"without_{unit}": data[data.who != unit] for unit in data.who.unique()}}
    ledger = dn.Ledger.create(tmp_path / "ledger", unit="who", budget=dn.ApproxDP(9, 1e-6))
    with dn.Session(tables, ledger=ledger, choice_key=5 if alike else None) as opened:
        found = {
            name: counting(opened, rows=limit, table=name).count(opened.context.engine, cliques, key=(3, 4))
            for name in tables
        }
    contribution = UnitContribution(limit, Relation.ADD_REMOVE)
    for unit in data.who.unique():
        for clique in cliques:
            move = found["people"][clique] - found[f"without_{unit}"][clique]
            assert (move >= 0).all(), "removing a unit added rows of others"
            assert move.sum() == min(limit, int((data.who == unit).sum())) <= contribution.l1
            assert (move**2).sum() <= contribution.l2_squared


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE, Relation.ZERO_OUT])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_sensitivities_are_those_of_the_worst_neighbours(relation: Relation, rows: int) -> None:
    """All units of at most `rows` rows over three cells, and all pairs of them."""
    units = [
        np.bincount(cells, minlength=3)
        for many in range(rows + 1)
        for cells in itertools.combinations_with_replacement(range(3), many)
    ]
    others = units if relation is Relation.REPLACE else [np.zeros(3, dtype=int)]
    moves = [one - other for one, other in itertools.product(units, others)]
    contribution = UnitContribution(rows, relation)
    assert max(abs(move).sum() for move in moves) == contribution.l1
    assert max((move**2).sum() for move in moves) == contribution.l2_squared


REFUSED: dict[str, dict[str, Any]] = {
    "unknown column": {"columns": {"nose": ["a"]}},
    "text without categories": {"columns": {"sex": None}},
    "the id": {"columns": {"who": range(9)}, "unit": "who"},
    "bins of text": {"columns": {"sex": ColumnBins([0, 1])}},
    "numbers for dates": {"columns": {"day": ColumnBins([0, 1])}},
    "repeated category": {"columns": {"sex": ["f", "f"]}},
    "no columns": {"columns": {}},
    "a word": {"columns": {"sex": "all"}},
    "no limits": {"columns": COLUMNS, "unit": "who", "per_unit": None},
    "groups": {"columns": COLUMNS, "unit": "who", "per_unit": dn.AtMost(groups=2, rows=1)},
    "limits of rows": {"columns": COLUMNS, "per_unit": dn.AtMost(groups=1, rows=2)},
    "group by": {"columns": {"sex": ["f"]}, "table": "SELECT sex FROM people GROUP BY sex"},
    "limit": {"columns": {"sex": ["f"]}, "table": "SELECT sex FROM people LIMIT 3"},
    "aggregate": {"columns": {"n": ["f"]}, "table": "SELECT COUNT(*) AS n FROM people"},
    "no such table": {"columns": COLUMNS, "table": "persons"},
    "epsilon": {"columns": COLUMNS, "epsilon": 0},
    "confidence": {"columns": COLUMNS, "confidence": 1},
    "marginal": {"columns": COLUMNS, "marginals": [("sex", "nose")]},
    "no marginal": {"columns": COLUMNS, "marginals": []},
    "too many ways": {"columns": COLUMNS, "marginals": 6},
    "too many cells": {"columns": {"grade": range(3000), "age": ColumnBins(range(3000))}, "marginals": 2},
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_comes_before_the_charge(tmp_path: Path, case: str) -> None:
    given = {"table": "people", "marginals": 1, "epsilon": 1, "per_unit": dn.AtMost(groups=1, rows=1), **REFUSED[case]}
    unit = given.pop("unit", "row")
    with session(tmp_path, unit=unit) as opened:
        table, marginals = given.pop("table"), given.pop("marginals")
        with pytest.raises((InvalidArgument, QueryError, dn.errors.DataError)):
            opened.marginals(table, marginals, **given)
        assert not list(opened.ledger.charges())


@pytest.mark.parametrize(
    "make",
    [
        lambda: ColumnBins([1]),
        lambda: ColumnBins([2, 1]),
        lambda: ColumnBins("ab"),
        lambda: ColumnBins([0, float("nan")]),
        lambda: ColumnBins.steps(0, 1, 0),
        lambda: ColumnBins.steps(0, 10**9, 1),
        lambda: ColumnCategories("ab"),
        lambda: ColumnCategories(["a"], missing=1),
    ],
)
def test_a_domain_that_is_none_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument):
        make()
