"""Merged cells: which they are, that a unit moves them no further, and that the fit handles them as the whole table."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from deniable.query.schema import Column, ColumnKind
from deniable.synthesis import ColumnBins, fitting
from deniable.synthesis.contributions import UnitContribution
from deniable.synthesis.domain import Domain, attribute
from deniable.synthesis.fitting import Measurement
from deniable.synthesis.grouping import RARE, group_codes, merge_cells, spread_cells
from deniable.synthesis.selection import GRID, Candidate, Spending, run_aim
from deniable.units import Relation

NUMBER, TEXT = Column("n", ColumnKind.INTEGER, "BIGINT"), Column("t", ColumnKind.TEXT, "VARCHAR")
BINS = attribute("n", NUMBER, ColumnBins([0, 1, 2, 3, 4, 5]))
WORDS = attribute("t", TEXT, ["a", "b", "c", "d"])


def test_rare_categories_are_one_cell() -> None:
    groups = group_codes(WORDS, np.array([50.0, 1.0, 40.0, -3.0, 0.0]), 10.0)
    assert groups.tolist() == [0, 2, 1, 2, 2]


def test_rare_bins_join_their_neighbours_and_missing_stays_alone() -> None:
    groups = group_codes(BINS, np.array([50.0, 15.0, 14.0, 40.0, 3.0, -2.0]), 10.0)
    assert groups.tolist() == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("scale", [0.1, 3.0, 1000.0])
@pytest.mark.parametrize("one", [BINS, WORDS], ids=["bins", "categories"])
def test_groups_are_numbered_without_gaps_and_common_cells_stay(one: object, scale: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        counts = rng.normal(0, 30, one.size)  # type: ignore[attr-defined]
        groups = group_codes(one, counts, scale)  # type: ignore[arg-type]
        assert sorted(set(groups.tolist())) == list(range(groups.max() + 1))
        if one is WORDS:
            assert all((groups == groups[place]).sum() == 1 for place in np.flatnonzero(counts >= RARE * scale))


def test_merging_and_spreading_are_adjoint() -> None:
    rng = np.random.default_rng(5)
    groups = (np.array([0, 1, 1]), None, np.array([1, 0, 1, 0]))
    table, values = rng.normal(size=(3, 2, 4)), rng.normal(size=(2, 2, 2))
    assert (merge_cells(table, groups) * values).sum() == pytest.approx((table * spread_cells(values, groups)).sum())


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
def test_a_unit_moves_merged_cells_and_scores_as_far_as_is_paid_for(relation: Relation) -> None:
    """All units of at most two rows over two columns of three codes, and all pairs of them; every merging of codes."""
    contribution = UnitContribution(2, relation)
    cells = list(itertools.product(range(3), range(3)))
    units = [list(some) for many in range(3) for some in itertools.combinations_with_replacement(cells, many)]
    others = units if relation is Relation.REPLACE else [[]]
    model, farthest = np.full((3, 3), 1.3), 0
    for groups in itertools.product(([0, 1, 2], [0, 0, 1], [0, 1, 0], [0, 0, 0]), repeat=2):
        counted, scores = {}, {}
        for unit in units:
            exact = np.zeros((3, 3), dtype=np.int64)
            for cell in unit:
                exact[cell] += 1
            spending = Spending({(0, 1): exact}, contribution, Fraction(1))
            spending.groups = tuple(np.array(one) for one in groups)
            counted[tuple(unit)] = spending._counted((0, 1))
            scores[tuple(unit)] = spending._score(Candidate((0, 1), 1), model)
        for one, other in itertools.product(units, others):
            move = counted[tuple(one)] - counted[tuple(other)]
            assert (move**2).sum() <= contribution.l2_squared
            assert abs(scores[tuple(one)] - scores[tuple(other)]) <= contribution.l1 * GRID
            farthest = max(farthest, int((move**2).sum()))
    assert farthest == contribution.l2_squared


def test_the_fit_of_merged_cells_is_that_of_the_merged_table() -> None:
    """Codes 1 and 2 of the first column are alike for everything that was measured, so the model has them alike."""
    groups = (np.array([0, 1, 1]), None)
    pair = np.array([[30.0, 10.0], [20.0, 60.0]])
    merged = fitting.fit((2, 2), [Measurement((0, 1), pair, 4.0)], steps=500, size=120.0)
    wide = fitting.fit((3, 2), [Measurement((0, 1), pair, 4.0, groups)], steps=500, size=120.0)
    found = wide.marginal((0, 1))
    np.testing.assert_allclose(found[1], found[2])
    np.testing.assert_allclose(merge_cells(found, groups) * 120, pair, atol=3)
    np.testing.assert_allclose(merged.marginal((0, 1)) * 120, pair, atol=3)


def test_rare_cells_are_merged_before_pairs_are_measured() -> None:
    domain = Domain((WORDS, BINS))
    exact = {(0,): np.array([900, 0, 600, 0, 0]), (1,): np.array([800, 700, 0, 0, 0, 0])}
    exact[0, 1] = np.zeros((5, 6), dtype=np.int64)
    exact[0, 1][0, 0], exact[0, 1][0, 1], exact[0, 1][2, 1] = 800, 100, 600
    spending = Spending(exact, UnitContribution(1, Relation.ADD_REMOVE), Fraction(1, 50))
    candidates = [Candidate((0,), 1), Candidate((1,), 1), Candidate((0, 1), 2)]
    model = run_aim(spending, domain, candidates, cells=1000, forbidden={})
    pairs = [one for one in spending.measurements if len(one.columns) == 2]
    assert pairs
    assert all(one.values.size < 30 for one in pairs)
    assert np.abs(model.marginal((0, 1)) * 1500 - exact[0, 1]).sum() < 600
