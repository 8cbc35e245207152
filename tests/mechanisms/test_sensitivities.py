"""Sensitivities by brute force: over all small data sets and all their neighbours, what reaches the noise moves by no
more than the event says, and where the sensitivity is exact, by no less.

About 30 seconds on a busy machine with two cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from deniable import mechanisms as dm
from deniable.events import DiscreteLaplace
from deniable.mechanisms import Mechanism, additive, moments
from deniable.units import ADD_REMOVE, REPLACE, ZERO_OUT, Relation

REALS = (0.0, 0.3, 1.999, 2.0, None, math.inf)
LETTERS = ("a", "b", "c", "other", None)
BITS = (0, 1, "neither")


def neighbours(domain: tuple[Any, ...], size: int, relation: Relation) -> Iterator[tuple[list[Any], list[Any]]]:
    """All pairs of neighbours with `size` records in the larger one."""
    for rest in product(domain, repeat=size - 1):
        if relation is ADD_REMOVE:
            yield from (([one, *rest], list(rest)) for one in domain)
        else:
            yield from (([one, *rest], [other, *rest]) for one in domain for other in domain if one is not other)


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What every call hands to the noise, in steps; nothing is added."""
    seen: list[list[int]] = []

    def add(values: list[int], event: Any, source: Any) -> list[int]:
        seen.append([int(v) for v in values])
        assert all(v == int(v) for v in values)
        return list(values)

    monkeypatch.setattr(additive, "add_noise", add)
    return seen


def worst(m: Mechanism, pairs: Iterator[tuple[Any, Any]], seen: list[list[int]]) -> list[tuple[int, int, int]]:
    """For each part of the event: the largest L1, squared L2 and number of changed coordinates."""
    found: list[tuple[int, int, int]] = []
    for one, other in pairs:
        seen.clear()
        m(one)
        half = len(seen)
        m(other)
        found = found or [(0, 0, 0)] * half
        for part in range(half):
            moves = [abs(a - b) for a, b in zip(seen[part], seen[half + part], strict=True)]
            l1, l2, changed = sum(moves), sum(x * x for x in moves), sum(x > 0 for x in moves)
            old = found[part]
            found[part] = (max(old[0], l1), max(old[1], l2), max(old[2], changed))
    return found


def events(m: Mechanism) -> list[Any]:
    return list(getattr(m.event, "parts", [m.event]))


def check(m: Mechanism, pairs: Iterator[tuple[Any, Any]], seen: list[list[int]], *, tight: bool = True) -> None:
    for event, (l1, l2, changed) in zip(events(m), worst(m, pairs, seen), strict=True):
        assert changed <= event.coordinates
        if isinstance(event, DiscreteLaplace):
            assert l1 <= event.sensitivity
            assert not tight or l1 == event.sensitivity
        else:
            assert l2 <= event.sensitivity**2
            assert not tight or l2 >= event.sensitivity**2 * Fraction(999, 1000)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_count(relation: Relation, delta: float, noiseless: list[list[int]]) -> None:
    check(dm.count(epsilon=1, delta=delta, relation=relation), neighbours((True, False, None), 3, relation), noiseless)


@pytest.mark.parametrize("step", [None, 1, 0.5])
@pytest.mark.parametrize("bounds", [(0, 2), (-3, 2), (1, 2), (-2, -1), (0.1, 1.7)])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_sum(relation: Relation, bounds: tuple[float, float], step: float | None, noiseless: list[list[int]]) -> None:
    m = dm.sum_of(bounds=bounds, epsilon=1, relation=relation, step=step)
    domain = (-5.0, 0.0, 0.3, 1.2, 2.0, 9.0, None)
    # Bounds that are no multiples of the step are rounded outwards, which no record may reach.
    exact = step is None or all((Fraction(str(b)) / Fraction(str(step))).denominator == 1 for b in bounds)
    check(m, neighbours(domain, 2, relation), noiseless, tight=exact)


def test_sum_of_bounded_records_is_exact_at_the_bounds() -> None:
    """[a, b]: max(|a|, |b|) when a record comes or goes, b − a when it is replaced."""
    assert dm.sum_of(bounds=(-3, 2), epsilon=1, step=1).event.sensitivity == 3
    assert dm.sum_of(bounds=(-3, 2), epsilon=1, step=1, relation=ZERO_OUT).event.sensitivity == 3
    replaced = dm.sum_of(bounds=(-3, 2), epsilon=1, step=1, relation=REPLACE).event
    assert (replaced.sensitivity, replaced.reach) == (5, 3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_mean_of_known_size(n: int, noiseless: list[list[int]]) -> None:
    m = dm.mean(bounds=(0, 2), epsilon=1, size=n, relation=REPLACE)
    check(m, neighbours((0.0, 0.3, 2.0, None, -math.inf), n, REPLACE), noiseless)
    # In the unit of the data one step of the noise is worth sensitivity/steps/(2n): (b − a)/n altogether.
    assert m.event.sensitivity * m.noise.unit * m.grid.step / (2 * n) == Fraction(2, n)


def test_a_blanked_record_counts_as_the_middle(noiseless: list[list[int]]) -> None:
    """Under ZERO_OUT the mean moves by at most half the width over n."""
    m = dm.mean(bounds=(0, 2), epsilon=1, size=3, relation=ZERO_OUT)
    pairs = (([x, *rest], [1.0, *rest]) for x in (0.0, 0.7, 2.0, 5.0) for rest in product((0.0, 2.0), repeat=2))
    check(m, pairs, noiseless)


def test_mean_of_unknown_size(noiseless: list[list[int]]) -> None:
    check(dm.mean(bounds=(-1, 3), epsilon=1), neighbours((-1.0, 0.3, 3.0, None), 3, ADD_REMOVE), noiseless)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_variance_of_known_size(n: int, noiseless: list[list[int]]) -> None:
    """(n − 1)/n²·(b − a)², attained by one value far from n − 1 equal ones."""
    m = dm.variance(bounds=(0, 1), epsilon=1, size=n, relation=REPLACE)
    check(m, neighbours((0.0, 0.25, 0.5, 0.8, 1.0), n, REPLACE), noiseless)
    moved = m.event.sensitivity * m.noise.unit / n**2 * m.grid.step**2
    assert moved == Fraction(n - 1, n * n)


def test_variance_of_unknown_size(noiseless: list[list[int]]) -> None:
    check(dm.variance(bounds=(0, 1), epsilon=1), neighbours((0.0, 0.25, 0.5, 1.0, None), 3, ADD_REMOVE), noiseless)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_histogram(relation: Relation, delta: float, noiseless: list[list[int]]) -> None:
    m = dm.histogram(keys=["a", "b", "c"], epsilon=1, delta=delta, relation=relation)
    check(m, neighbours(LETTERS, 3, relation), noiseless)
    single = dm.histogram(keys=["a"], epsilon=1, delta=delta, relation=relation)
    check(single, neighbours(LETTERS, 3, relation), noiseless)


def tables(pairs: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    def by_column(rows: list[Any]) -> dict[str, list[Any]]:
        return {name: [row[i] for row in rows] for i, name in enumerate("xyz")}

    return ((by_column(one), by_column(other)) for one, other in pairs)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_tables(relation: Relation, delta: float, noiseless: list[list[int]]) -> None:
    domain = tuple(product(BITS, (0, 1), (0, 1)))
    attributes = {name: [0, 1] for name in "xyz"}
    crossed = dm.contingency(attributes=attributes, epsilon=1, delta=delta, relation=relation)
    check(crossed, tables(neighbours(domain, 1, relation)), noiseless)
    for ways in (1, 2, 3):
        m = dm.marginals(attributes=attributes, ways=ways, epsilon=1, delta=delta, relation=relation)
        check(m, tables(neighbours(domain, 1, relation)), noiseless)
        moved = math.comb(3, ways) * (2 if relation is REPLACE else 1)
        assert m.event.sensitivity == moved if not delta else m.event.sensitivity**2 >= moved


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("bounds", [[(0, 1)] * 2, [(-2, 5), (0.1, 0.7)]])
def test_column_means(bounds: list[tuple[float, float]], delta: float, noiseless: list[list[int]]) -> None:
    m = dm.column_means(bounds=bounds, size=2, epsilon=1, delta=delta)
    domain = tuple(product((-9.0, 0.3, 9.0), repeat=2))
    check(m, neighbours(domain, 2, REPLACE), noiseless)


def test_the_widths_of_many_columns_are_read_once_per_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their common multiple reads every column; asked for once per column, a release would cost d² steps."""
    common, calls = moments._common_width, []
    monkeypatch.setattr(moments, "_common_width", lambda columns: calls.append(len(columns)) or common(columns))
    m = dm.column_means(bounds=[(0, 1), (0, 3), (-2, 5)] * 20, size=2, epsilon=1, delta=1e-6)
    m([[0.5] * 60] * 2)
    m.error(0.95)
    assert calls == [60, 60, 60]  # making, releasing, stating the error


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("matrix", [[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[0.5, -2, 3]], [[1, -1, 0], [0.1, 0.2, 0.3]]])
def test_linear_queries(
    matrix: list[list[float]], relation: Relation, delta: float, noiseless: list[list[int]]
) -> None:
    m = dm.linear_queries(matrix=matrix, keys=["a", "b", "c"], epsilon=1, delta=delta, relation=relation)
    check(m, neighbours(LETTERS, 2, relation), noiseless)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("make", [dm.laplace, lambda **k: dm.gaussian(delta=1e-6, **k)], ids=["laplace", "gaussian"])
def test_vectors_in_every_norm(make: Callable[..., Any], norm: float, noiseless: list[list[int]]) -> None:
    """Random vectors at exactly the stated distance, rounded, stay within the charged one."""
    import numpy as np

    random = np.random.default_rng(1)
    m = make(sensitivity=0.7, norm=norm, dimension=4, epsilon=1)
    pairs = []
    for _ in range(300):
        x, move = random.normal(size=4) * 10, random.normal(size=4) * random.integers(0, 2, size=4)
        length = np.linalg.norm(move, ord=norm)
        pairs.append((x, x + (move * 0.7 / length if length else move)))
    check(m, iter(pairs), noiseless, tight=False)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_integer_vectors_lose_nothing(norm: float, noiseless: list[list[int]]) -> None:
    m = dm.laplace(sensitivity=2, norm=norm, dimension=2, epsilon=1, step=1)
    moves = [(a, b) for a in range(-2, 3) for b in range(-2, 3)]
    size = {1: lambda a, b: a + b, 2: lambda a, b: math.hypot(a, b), math.inf: max}[norm]
    pairs = (([5, 5], [5 + a, 5 + b]) for a, b in moves if size(abs(a), abs(b)) <= 2)
    check(m, pairs, noiseless, tight=norm != 2)  # √2·2 = 2.83 is rounded down to 2 in integers


@pytest.mark.parametrize("value", [0.0, 1 / 3, 1e9, -7.77, 2**20 + 0.5])
def test_scalars_that_move_by_the_sensitivity(value: float, noiseless: list[list[int]]) -> None:
    m = dm.laplace(sensitivity=0.1, epsilon=2)
    pairs = ((value, value + move) for move in (0.1, -0.1, 0.05, 0.09999999))
    check(m, pairs, noiseless, tight=False)
    assert m.event.sensitivity * m.noise.unit * m.step <= Fraction(1, 10) * (1 + Fraction(1, 2**18))


def test_floats_far_from_zero_can_break_the_callers_promise(noiseless: list[list[int]]) -> None:
    """The limit of real answers: floats near 2**40 are 2**-12 apart, far more than the step that is charged.

    There `value + 0.1` is more than 0.1 away, so the caller's promise of a sensitivity of 0.1 does not hold and the
    charge does not cover it. Exact numbers of the same size are covered.
    """
    m = dm.laplace(sensitivity=0.1, epsilon=2)
    value = 2.0**40 + 0.5
    assert Fraction(value + 0.1) - Fraction(value) > Fraction(1, 10) + m.step
    moved = worst(m, iter([(value, value + 0.1)]), noiseless)[0][0]
    assert moved > m.event.sensitivity
    exact = Fraction(value)
    check(m, iter([(exact, exact + Fraction(1, 10)), (exact, exact - Fraction(1, 10))]), noiseless, tight=False)


@pytest.mark.parametrize("answers", [5, 9])
def test_weights_near_the_end_of_machine_integers(answers: int) -> None:
    """Sums of 2**62 do not fit 64 bits; wrapped around, the noise would be five or nine times too small."""
    m = dm.linear_queries(matrix=[[2.0**62]] * answers, keys=["a"], epsilon=1)
    assert m.event == DiscreteLaplace(answers * 2**62, answers * 2**62, coordinates=answers)
    far = dm.linear_queries(matrix=[[2.0**62, -(2.0**62)]], keys=["a", "b"], epsilon=1, relation=REPLACE)
    assert far.event == DiscreteLaplace(2**63, 2**63, REPLACE, reach=2**62)
    beyond = dm.linear_queries(matrix=[[2.0**80]], keys=["a"], epsilon=1)
    assert beyond.event == DiscreteLaplace(2**80, 2**80)
    assert abs(int(beyond(["a"] * 3)[0]) - 3 * 2**80) < 100 * 2**80
