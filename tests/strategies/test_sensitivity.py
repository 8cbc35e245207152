"""Every sensitivity against brute force over all patterns and over vectors, not only signs. About 6 s."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from deniable.errors import InvalidArgument, NotSupported
from deniable.strategies import Banded, Buffered, Participation, Toeplitz, Tree, once, ordered, separated
from deniable.strategies import sensitivity as bounds
from tests.strategies.examples import mixed_signs, strategies

PATTERNS = [
    once(7),
    separated(7, separation=1, times=3),
    separated(7, separation=2),
    separated(7, separation=3, times=2),
    ordered(7, period=2),
    ordered(7, period=3),
    separated(1, separation=1),
    separated(12, separation=4),
]


def patterns(participation: Participation) -> list[tuple[int, ...]]:
    """Every set of steps that one unit may take part in."""
    steps, apart = participation.steps, participation.separation
    found = []
    for size in range(1, participation.times + 1):
        for chosen in itertools.combinations(range(steps), size):
            gaps = np.diff(chosen)
            if np.all(gaps % apart == 0 if participation.ordered else gaps >= apart):
                found.append(chosen)
    return found


def largest(gram: np.ndarray) -> float:
    """The largest Σ X_ij⟨u_i, u_j⟩ over unit vectors: all signs, and ascent over vectors in six dimensions."""
    size = len(gram)
    best = max(float(np.array(s) @ gram @ np.array(s)) for s in itertools.product((1, -1), repeat=size))
    random = np.random.default_rng(1)
    for _ in range(3):
        u = random.normal(size=(size, 6))
        for _ in range(30):
            u /= np.linalg.norm(u, axis=1, keepdims=True)
            for i in range(size):
                pull = gram[i] @ u - gram[i, i] * u[i]
                if np.linalg.norm(pull) > 1e-12:
                    u[i] = pull / np.linalg.norm(pull)
        best = max(best, float(np.sum(gram * (u @ u.T))))
    return best


@pytest.mark.parametrize("participation", PATTERNS, ids=repr)
def test_brute_force(participation: Participation) -> None:
    for strategy in strategies(participation.steps):
        matrix = strategy.matrix()
        gram = matrix.T @ matrix
        true = max(largest(gram[np.ix_(p, p)]) for p in patterns(participation)) ** 0.5
        found = strategy.sensitivity(participation)
        assert isinstance(found.value, Fraction)
        assert float(found.value) >= true, (strategy, found)
        if found.exact:
            assert float(found.value) <= true * (1 + 1e-8), (strategy, found)


def test_exact_where_the_theorems_say_so() -> None:
    several = separated(12, separation=3)
    exact = [
        Toeplitz.square_root(12),
        Toeplitz.square_root(12, bands=3),
        Buffered(decays=[0.9, 0.4], weights=[0.1, 0.4], steps=12),
        Buffered(decays=[0.9, 0.4], weights=[0.8, 0.9], steps=12),
        mixed_signs(12, 3),
    ]
    assert all(strategy.sensitivity(several).exact for strategy in exact)
    assert not mixed_signs(12, 4).sensitivity(several).exact
    assert Toeplitz([1.0, 2.0, 0.5, 0.1], 12).sensitivity(several).exact
    assert not Toeplitz([1.0, 0.1, 2.0, 0.5], 12).sensitivity(several).exact
    assert Tree(12).sensitivity(ordered(12, period=3)).exact


def test_the_patterns_of_an_order_are_fewer() -> None:
    rising = Banded(np.concatenate([np.full((4, 1), 1.0), [[5.0]], np.full((5, 1), 1.0), [[5.0]], [[1.0]]]))
    # Columns 4 and 10 are long; they are 6 apart and never in one phase of period 4.
    assert rising.sensitivity(separated(12, separation=4)).value == Fraction("7.14142843")
    assert rising.sensitivity(ordered(12, period=4)).value == Fraction("5.19615243")


def test_a_vector_can_do_more_than_a_sign() -> None:
    # Three columns at 120 degrees: signs reach |C·u|² = 4, vectors 4.5, and the bound says 6.
    angles = np.array([0.0, 2 * np.pi / 3, 4 * np.pi / 3])
    gram = np.cos(angles[:, None] - angles)
    assert max(float(np.array(s) @ gram @ np.array(s)) for s in itertools.product((1, -1), repeat=3)) < 4 + 1e-9
    assert largest(gram) > 4.4


def test_the_best_sum_of_separated_values() -> None:
    random = np.random.default_rng(3)
    for times, apart in itertools.product((0, 1, 2, 3), (1, 2, 3)):
        values = random.random((4, 9))
        allowed = [()] + (patterns(Participation(9, times, apart)) if times else [])
        expected = [max(sum(row[list(p)]) for p in allowed) for row in values]
        np.testing.assert_allclose(bounds.best(values, times, apart), expected)


def test_rounded_up() -> None:
    third = Toeplitz([1 / 3], 5).sensitivity(once(5)).value
    assert third > Fraction(1 / 3)
    assert float(third) - 1 / 3 < 2e-9
    # The computed square may be too small by its margin; the root is taken above it.
    long = Toeplitz(np.full(4000, 0.1), 4000)
    exact = sum(Fraction(0.1) ** 2 for _ in range(4000))
    assert long.sensitivity(once(4000)).value ** 2 >= exact


def test_refusals() -> None:
    with pytest.raises(InvalidArgument, match="steps of this strategy"):
        Tree(8).sensitivity(once(9))
    with pytest.raises(InvalidArgument, match="no more fit"):
        Participation(10, times=4, separation=4)
    with pytest.raises(NotSupported, match="Toeplitz"):
        Tree(9000).sensitivity(separated(9000, separation=10))


def test_a_fixed_order_holds_all_of_its_steps() -> None:
    """Of three steps two apart, any two may be chosen; trying the first two only would miss the others."""
    with pytest.raises(InvalidArgument, match="3 in a fixed order"):
        Participation(6, times=2, separation=2, ordered=True)
