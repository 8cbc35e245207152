"""The junction tree against brute force, the fit against its optimum, and rows against the model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deniable.noise.source import fresh_numbers
from deniable.synthesis import fitting, sampling
from deniable.synthesis.fitting import Measurement
from deniable.synthesis.tree import JunctionTree


def random_model(seed: int) -> tuple[JunctionTree, list[np.ndarray], np.ndarray]:
    """A tree with random potentials, and the whole distribution."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 4, rng.integers(2, 7)).tolist())
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    some = [pairs[i] for i in rng.choice(len(pairs), rng.integers(0, len(pairs)) or 1, replace=False)]
    tree = JunctionTree(sizes, [*((i,) for i in range(len(sizes))), *some])
    logs = [rng.normal(0, 3, tree.shape(clique)) for clique in tree.cliques]
    for log in logs:
        log[rng.random(log.shape) < 0.1] = -np.inf
    whole = np.zeros(sizes)
    for clique, log in zip(tree.cliques, logs, strict=True):
        whole = whole + log.reshape([sizes[i] if i in clique else 1 for i in range(len(sizes))])
    return tree, logs, whole


@pytest.mark.parametrize("seed", range(40))
def test_inference_is_that_of_the_whole_table(seed: int) -> None:
    tree, logs, whole = random_model(seed)
    beliefs, log_z = tree.infer(logs)
    if np.isneginf(whole).all():
        assert log_z == -np.inf
        return
    table = np.exp(whole)
    assert log_z == pytest.approx(np.log(table.sum()))
    table /= table.sum()

    def expected(clique: tuple[int, ...]) -> np.ndarray:
        return table.sum(axis=tuple(i for i in range(table.ndim) if i not in clique))

    for clique, belief in zip(tree.cliques, beliefs, strict=True):
        np.testing.assert_allclose(belief, expected(clique), atol=1e-12)
    found = tree.pairs(beliefs)
    assert set(found) == set(itertools.combinations(range(table.ndim), 2))
    for pair, joint in found.items():
        np.testing.assert_allclose(joint, expected(pair), atol=1e-12)
    if table.ndim > 2:
        triple = (0, 1, table.ndim - 1)
        model = fitting.Model(tree, beliefs, {}, 1.0)
        np.testing.assert_allclose(model.marginal(triple), expected(triple), atol=1e-12)


def test_a_fit_meets_measurements_without_noise() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(1, 200, (3, 4, 2)).astype(float)
    cliques = [(0,), (0, 1), (1, 2)]
    exact = [table.sum(axis=tuple(i for i in range(3) if i not in c)) for c in cliques]
    measured = [Measurement(c, values, 1e-3) for c, values in zip(cliques, exact, strict=True)]
    model = fitting.fit((3, 4, 2), measured, steps=500)
    assert model.size == pytest.approx(table.sum())
    for clique, values in zip(cliques, exact, strict=True):
        np.testing.assert_allclose(model.marginal(clique) * model.size, values, rtol=1e-3, atol=0.5)


def test_repeated_measurements_are_averaged_by_their_precision() -> None:
    one, other = Measurement((0,), np.array([10.0, 20.0]), 4.0), Measurement((0,), np.array([20.0, 40.0]), 1.0)
    (found,) = fitting.merged([one, other])
    np.testing.assert_allclose(found.values, [18.0, 36.0])
    assert found.variance == pytest.approx(0.8)
    assert fitting.total([found]) == pytest.approx(54.0)
    assert fitting.total([Measurement((0,), np.array([-5.0, -5.0]), 1.0)]) == 1.0


def test_forbidden_cells_stay_empty_in_the_model_and_in_its_rows() -> None:
    barred = {(0, 1): np.array([[True, False, False], [False, False, True]])}
    measured = [Measurement((0,), np.array([50.0, 60.0]), 9.0), Measurement((1,), np.array([40.0, 30.0, 40.0]), 9.0)]
    model = fitting.fit((2, 3), measured, forbidden=barred)
    assert (model.marginal((0, 1))[barred[0, 1]] == 0).all()
    codes = sampling.sample(model.tree, model.beliefs, 500, random=fresh_numbers())
    assert not barred[0, 1][codes[:, 0], codes[:, 1]].any()
    assert fitting.possible((2, 3), barred)
    assert not fitting.possible((2,), {(0,): np.array([True, True])})


@pytest.mark.parametrize("seed", [1, 5, 9, 12])
@pytest.mark.parametrize("rows", [1, 7, 4000])
def test_rows_follow_the_model_to_within_one_row_for_each_cell(seed: int, rows: int) -> None:
    tree, logs, _ = random_model(seed)
    beliefs, _ = tree.infer(logs)
    codes = sampling.sample(tree, beliefs, rows, random=np.random.default_rng(seed))
    assert codes.shape == (rows, len(tree.sizes))
    root = tree.cliques[0]
    counts = np.zeros(tree.shape(root))
    np.add.at(counts, tuple(codes[:, i] for i in root), 1)
    assert (np.abs(counts - rows * beliefs[0]) < 1 + 1e-6).all()
    for clique, belief in zip(tree.cliques, beliefs, strict=True):
        counts = np.zeros(tree.shape(clique))
        np.add.at(counts, tuple(codes[:, i] for i in clique), 1)
        assert not counts[belief == 0].any(), "a row in a cell that cannot occur"
        if rows == 4000:
            assert np.abs(counts / rows - belief).sum() < 0.05


def chain() -> tuple[JunctionTree, list[np.ndarray]]:
    """A chain a – b – c, in which c depends on a through b alone."""
    rng = np.random.default_rng(9)
    tree = JunctionTree((4, 3, 4), [(0, 1), (1, 2)])
    return tree, tree.infer([rng.normal(0, 1, tree.shape(clique)) for clique in tree.cliques])[0]


def test_columns_that_share_no_clique_are_closer_than_chance() -> None:
    """Shuffled rows would be about 400 of 20,000 off in the pair that the chain does not hold."""
    tree, beliefs = chain()
    rows = 20_000
    codes = sampling.sample(tree, beliefs, rows, random=fresh_numbers())
    for clique, law in tree.pairs(beliefs).items():
        counts = np.zeros(law.shape)
        np.add.at(counts, (codes[:, clique[0]], codes[:, clique[1]]), 1)
        assert np.abs(counts - rows * law).sum() < 100


def test_few_rows_are_drawn_without_a_tie_to_their_order() -> None:
    """800 tables of 3 rows: no pair of cells comes more or less often than its probability by 5 deviations."""
    tree, beliefs = chain()
    law, found, random = tree.pairs(beliefs)[0, 2], np.zeros((4, 4)), fresh_numbers()
    for _ in range(800):
        codes = sampling.sample(tree, beliefs, 3, random=random)
        np.add.at(found, (codes[:, 0], codes[:, 2]), 1)
    assert (np.abs(found - 2400 * law) < 5 * np.sqrt(2400 * law) + 1).all()
