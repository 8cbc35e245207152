"""What is spent: never more than was charged, in steps whose events say what ran, and scores that move as stated."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import deniable as dn
from deniable.events import DiscreteGaussian, ExponentialMechanism
from deniable.guarantees import ZCDP
from deniable.query.schema import Column, ColumnKind
from deniable.synthesis import sampling
from deniable.synthesis.contributions import UnitContribution, largest_rho
from deniable.synthesis.domain import Domain, attribute
from deniable.synthesis.plan import weigh_candidates
from deniable.synthesis.quality import checked_cliques, distances, take_check
from deniable.synthesis.selection import GRID, Candidate, Spending, run_aim, run_mst
from deniable.synthesis.tree import JunctionTree, neighbours, tree_cells
from deniable.units import Relation
from tests.synthesis.tables import tabulated

SIZES = (3, 4, 2, 5)
DOMAIN = Domain(
    tuple(
        attribute(f"c{i}", Column(f"c{i}", ColumnKind.INTEGER, "BIGINT"), range(size - 1))
        for i, size in enumerate(SIZES)
    )
)
PAIRS = list(itertools.combinations(range(4), 2))
EVERY = [*((i,) for i in range(4)), *PAIRS]


def counts(rows: int = 3000) -> dict[tuple[int, ...], np.ndarray]:
    rng = np.random.default_rng(2)
    codes = np.array([rng.integers(0, size, rows) for size in SIZES]).T
    codes[:, 1] = np.where(rng.random(rows) < 0.8, codes[:, 0], codes[:, 1])
    return {clique: tabulated(codes, clique, DOMAIN.shape(clique)) for clique in EVERY}


@pytest.mark.parametrize("method", ["aim", "mst"])
@pytest.mark.parametrize(
    "contribution", [UnitContribution(1, Relation.ADD_REMOVE), UnitContribution(3, Relation.REPLACE)]
)
def test_steps_cost_what_their_events_do_and_no_more_than_was_charged(
    method: str, contribution: UnitContribution
) -> None:
    rho = Fraction(3, 10)
    spending = Spending(counts(), contribution, rho)
    if method == "mst":
        model = run_mst(spending, DOMAIN, forbidden={})
    else:
        model = run_aim(spending, DOMAIN, weigh_candidates(PAIRS, DOMAIN), cells=1000, forbidden={})
        assert model.tree.cells <= 1000
    assert Fraction(99, 100) * rho < spending.spent <= rho
    for step in spending.steps:
        event = step.event
        assert event.relation is contribution.relation
        if isinstance(event, DiscreteGaussian):
            assert event.sensitivity**2 >= contribution.l2_squared
            assert step.rho == Fraction(contribution.l2_squared) / (2 * event.scale**2)
        else:
            assert isinstance(event, ExponentialMechanism)
            assert step.rho == event.epsilon**2 / 8
    gaussians = [step.event for step in spending.steps if isinstance(step.event, DiscreteGaussian)]
    assert [float(event.scale) ** 2 for event in gaussians] == [one.variance for one in spending.measurements]
    with pytest.raises(ValueError, match="more than what was charged"):
        spending.measure((0,), Fraction(1, 100))
    assert spending.spent == sum(step.rho for step in spending.steps) <= rho


def test_the_accountant_confirms_the_conversion() -> None:
    rho = largest_rho(Fraction(1), Fraction(1, 10**6))
    assert dn.account(dn.Claimed(ZCDP(rho))).epsilon(delta=1e-6) <= 1
    assert dn.account(dn.Claimed(ZCDP(rho * Fraction(1002, 1000)))).epsilon(delta=1e-6) > 1


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
@pytest.mark.parametrize("rows", [1, 2])
def test_scores_move_no_further_than_the_choice_assumes(relation: Relation, rows: int) -> None:
    """All units of at most `rows` rows over the cells of one marginal, against models near and far; it is reached."""
    contribution = UnitContribution(rows, relation)
    others = np.array([4, 2, 0])
    units = [
        np.bincount(cells, minlength=3)
        for many in range(rows + 1)
        for cells in itertools.combinations_with_replacement(range(3), many)
    ]
    replaced = units if relation is Relation.REPLACE else [np.zeros(3, dtype=int)]
    worst = 0
    for model in (np.array([0.0, 0.0, 0.0]), np.array([4.3, 2.7, 0.1]), np.array([9.0, 0.0, 9.0])):
        scores = {}
        for unit in [*units, *replaced]:
            spending = Spending({(0,): others + unit}, contribution, Fraction(1))
            scores[tuple(unit)] = spending._score(Candidate((0,), 2, penalty=7), model)
        for one, other in itertools.product(units, replaced):
            worst = max(worst, abs(scores[tuple(one)] - scores[tuple(other)]))
    assert worst == 2 * contribution.l1 * GRID


def test_a_choice_is_by_the_exponential_mechanism() -> None:
    """Two candidates, whose scores make the odds e : 1. Of 1,000, 7 % more or less than 73 % once in 10⁶ runs."""
    exact = {(0,): np.array([0, 0]), (1,): np.array([2, 0])}
    model = {(0,): np.zeros(2), (1,): np.zeros(2)}
    spending = Spending(exact, UnitContribution(1, Relation.ADD_REMOVE), Fraction(10**6))
    chosen = [spending.select([Candidate((0,), 1), Candidate((1,), 1)], model, Fraction(1)) for _ in range(1000)]
    assert abs(chosen.count((1,)) / 1000 - np.e / (1 + np.e)) < 0.07


def test_distances_of_a_check_move_no_further_than_it_assumes_and_are_right() -> None:
    exact = counts()
    spending = Spending(exact, UnitContribution(1, Relation.ADD_REMOVE), Fraction(10))
    codes = np.array([np.random.default_rng(5).integers(0, size, 3000) for size in SIZES]).T
    cliques = checked_cliques(DOMAIN)
    check = take_check(spending, cliques, codes, DOMAIN, 3000.0)
    assert spending.spent <= 10
    for clique in cliques:
        truth = np.abs(exact[clique] - tabulated(codes, clique, DOMAIN.shape(clique))).sum()
        assert abs(check.distances[clique] - truth) < 6 * check.scale + 1
    whole = sum(np.abs(exact[c] - tabulated(codes, c, DOMAIN.shape(c))).sum() for c in cliques)
    assert abs(check.mean * len(cliques) - whole) < 6 * check.mean_scale * len(cliques) + len(cliques)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
def test_distances_move_no_further_than_the_check_states(relation: Relation) -> None:
    """All units of at most two rows over two columns of two codes, and all pairs of them; the bounds are reached."""
    small = Domain(DOMAIN.attributes[2:3] * 2)
    cliques, contribution = [(0,), (1,), (0, 1)], UnitContribution(2, relation)
    cells = list(itertools.product(range(2), range(2)))
    units = [list(some) for many in range(3) for some in itertools.combinations_with_replacement(cells, many)]
    codes = np.array([[0, 0]] * 5)

    def vector(unit: list[tuple[int, int]]) -> np.ndarray:
        rows = np.array([(0, 0), (0, 0), (1, 1), *unit])
        exact = {clique: tabulated(rows, clique, small.shape(clique)) for clique in cliques}
        return np.array(distances(exact, cliques, codes, small, 20.0))

    others = units if relation is Relation.REPLACE else [[]]
    moves = [vector(one) - vector(other) for one, other in itertools.product(units, others)]
    spending = Spending({c: np.zeros(small.shape(c), dtype=np.int64) for c in cliques}, contribution, Fraction(1))
    take_check(spending, cliques, codes, small, 20.0)
    each, whole = (step.event.sensitivity for step in spending.steps)
    assert max((move**2).sum() for move in moves) == round(float(each**2))
    assert max(abs(move.sum()) for move in moves) == whole


def test_the_tree_is_as_large_as_it_was_said_to_be() -> None:
    graph = neighbours(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    tree = JunctionTree(SIZES, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert tree_cells(SIZES, graph) == tree.cells


def test_rows_keep_totals() -> None:
    spending = Spending(counts(), UnitContribution(1, Relation.ADD_REMOVE), Fraction(5))
    model = run_mst(spending, DOMAIN, forbidden={})
    codes = sampling.sample(model.tree, model.beliefs, 1000, random=np.random.default_rng(1))
    assert tabulated(codes, (0,), (SIZES[0],)).sum() == 1000
