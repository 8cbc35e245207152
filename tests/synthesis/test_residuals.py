"""The residual basis: it puts marginals together exactly, one unit moves it as stated, and variances are exact."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import prod, sqrt

import numpy as np
import pytest

from deniable.synthesis import residuals
from deniable.synthesis.contributions import UnitContribution
from deniable.units import Relation

SIZES = (2, 3, 4, 1)


def exact_parts(table: np.ndarray, cliques: list[tuple[int, ...]]) -> dict[tuple[int, ...], np.ndarray]:
    found = {}
    for clique in residuals.closure(cliques, SIZES):
        marginal = table.sum(axis=tuple(i for i in range(table.ndim) if i not in clique))
        found[clique] = residuals.centre_whole(marginal) / prod(SIZES[i] for i in clique)
    return found


@pytest.mark.parametrize("clique", [(), (1,), (0, 2), (0, 1, 2), (1, 3)])
def test_residuals_make_up_the_marginal(clique: tuple[int, ...]) -> None:
    table = np.random.default_rng(3).integers(0, 50, SIZES)
    built = residuals.rebuild(clique, SIZES, exact_parts(table, [clique]))
    expected = table.sum(axis=tuple(i for i in range(4) if i not in clique))
    np.testing.assert_allclose(built, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
@pytest.mark.parametrize("shape", [(), (2,), (3,), (2, 3), (3, 2, 2)])
@pytest.mark.parametrize("rows", [1, 2])
def test_one_unit_moves_a_residual_no_further_than_stated(
    relation: Relation, shape: tuple[int, ...], rows: int
) -> None:
    """All units of at most `rows` rows, and all pairs of them; the bound is reached."""
    cells = list(np.ndindex(shape))
    units = []
    for many in range(rows + 1):
        for some in itertools.combinations_with_replacement(cells, many):
            table = np.zeros(shape, dtype=np.int64)
            for cell in some:
                table[cell] += 1
            units.append(residuals.centre_whole(table).reshape(-1))
    stacked = np.array(units)
    others = stacked if relation is Relation.REPLACE else np.zeros_like(stacked[:1])
    worst = max(int(((stacked - other) ** 2).sum(axis=1).max()) for other in others)
    stated = residuals.squared_move(shape, UnitContribution(rows, relation)) * prod(shape) ** 2
    assert worst == stated


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
def test_all_residuals_together_cost_what_one_gaussian_does(relation: Relation) -> None:
    contribution, scale = UnitContribution(3, relation), Fraction(7, 2)
    cliques = [(0, 1), (1, 2), (0, 2, 3)]
    planned = residuals.plan_residuals(cliques, SIZES, contribution, unit_scale=scale * (1 + Fraction(1, 10**9)))
    cost = sum(one.cost for one in planned)
    assert Fraction(999, 1000) / scale**2 < cost <= 1 / scale**2
    assert all(one.times % prod(one.shape) == 0 for one in planned)
    event = residuals.composed(planned, contribution, unit_scale=scale)
    assert event.relation is relation
    with pytest.raises(ValueError, match="further"):
        residuals.composed(planned, contribution, unit_scale=scale * 2)


def test_variances_are_those_of_the_noise_that_is_drawn() -> None:
    """The variance of a cell by its formula, and by the matrix that turns independent noise into the cell."""
    clique, sizes = (0, 1), (2, 3)
    variances = {(): 5.0, (0,): 3.0, (1,): 2.0, (0, 1): 7.0}
    total = np.zeros((2, 3))
    for subset, variance in variances.items():
        shape = tuple(sizes[i] for i in subset)
        for cell in np.ndindex(shape):
            unit = np.zeros(shape)
            unit[cell] = 1.0
            total += variance * residuals.rebuild(clique, sizes, {subset: residuals.centre(unit)}) ** 2
    np.testing.assert_allclose(total, residuals.cell_variance(clique, sizes, variances))


def test_noise_has_the_planned_scale() -> None:
    """2,000 draws of one residual; the sample variance is off by more than 15 % once in 10⁵ runs."""
    (planned,) = residuals.plan_residuals([()], SIZES, UnitContribution(1, Relation.ADD_REMOVE), unit_scale=Fraction(3))
    drawn = np.array([float(planned.measure(np.array(10))) for _ in range(2000)])
    assert abs(drawn.mean() - 10) < 5 * sqrt(planned.variance / 2000)
    assert 0.85 < drawn.var() / planned.variance < 1.15
