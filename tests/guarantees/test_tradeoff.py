"""Trade-off functions against brute force over the tests of finite pairs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import InvalidArgument
from deniable.guarantees import TradeOff
from deniable.guarantees.tradeoff import lower_hull

weights = st.lists(st.integers(0, 8), min_size=3, max_size=4).filter(any)


def of_pair(p: list[F], q: list[F]) -> TradeOff:
    """T(P, Q) by brute force: the convex hull of the errors of all deterministic tests."""
    corners = []
    for chosen in itertools.product((0, 1), repeat=len(p)):
        corners.append((sum((a for a, c in zip(p, chosen, strict=True) if c), F(0)),
                        1 - sum((b for b, c in zip(q, chosen, strict=True) if c), F(0))))  # fmt: skip
    return TradeOff(lower_hull(corners))


def normal(values: list[int]) -> list[F]:
    return [F(v, sum(values)) for v in values]


@given(weights, weights)
def test_inverse_atoms_and_conjugate(first: list[int], second: list[int]) -> None:
    size = min(len(first), len(second))
    p, q = first[:size], second[:size]
    if not any(p) or not any(q):
        return
    f = of_pair(normal(p), normal(q))
    assert f.inverse() == of_pair(normal(q), normal(p))
    assert f.inverse().inverse() == f
    atoms = f.atoms
    assert of_pair([a for a, _ in atoms], [b for _, b in atoms]) == f
    assert sum(a for a, _ in atoms) == sum(b for _, b in atoms) == 1
    for odds in (F(0), F(1, 2), F(1), F(3)):
        # H_odds(Q ‖ P) by its definition: rejecting is right under Q, wrong under P.
        hockey = sum((max(F(0), b - odds * a) for a, b in zip(normal(p), normal(q), strict=True)), F(0))
        assert f.delta_at(odds) == hockey
    both = f.symmetrized()
    assert both.is_symmetric
    assert both >= f
    assert both >= f.inverse()
    for alpha in (F(0), F(1, 3), F(2, 3), F(1)):
        assert both(alpha) == max(f(alpha), f.inverse()(alpha))


def test_approximate_differential_privacy_has_four_corners() -> None:
    f = TradeOff.of_lines([(2, F(1, 10))])
    assert list(f.corners) == [(0, F(9, 10)), (F(3, 10), F(3, 10)), (F(9, 10), 0), (1, 0)]
    assert f.is_symmetric
    assert f(F(95, 100)) == 0  # the erratum of note 002: without max(0, ·) this would be negative
    assert f.delta_at(2) == F(1, 10)
    assert f.advantage == F(1, 10) + F(9, 10) * F(1, 3)
    assert TradeOff.of_lines([]).corners == ((0, 0), (1, 0))


@given(st.lists(st.tuples(st.integers(10, 60), st.integers(0, 10)), min_size=1, max_size=5), st.integers(0, 50))
def test_lines_are_a_maximum(bounds: list[tuple[int, int]], place: int) -> None:
    lines = [(F(odds, 10), F(delta, 10)) for odds, delta in bounds]
    at = F(place, 50)
    expected = max([F(0)] + [max(1 - d - g * at, (1 - d - at) / g) for g, d in lines])
    assert TradeOff.of_lines(lines)(at) == expected


@given(st.integers(2, 60), st.integers(0, 9), st.floats(0, 10), st.floats(0, 1))
def test_conjugate_rounds_up_and_inverts(odds: int, tenth: int, epsilon: float, share: float) -> None:
    f = TradeOff.of_lines([(odds, F(tenth, 10))])
    exact = max(1 - float(b) - math.exp(epsilon) * float(a) for a, b in f.corners)
    assert exact - 1e-12 <= f.delta(epsilon) <= exact + 1e-12
    wanted = tenth / 10 + share * (1 - tenth / 10)
    found = f.epsilon(wanted)
    assert f.delta_at(F(math.exp(found)) if found else 1) <= F(wanted) + F(1, 10**14)
    assert found == 0 or f.delta_at(F(math.exp(found - 1e-9))) > F(wanted) - F(1, 10**14)


def test_extremes() -> None:
    f = TradeOff.of_lines([(2, 0)])
    assert f.delta(800) == 0
    assert f.epsilon(0) == pytest.approx(math.log(2), rel=1e-14)
    assert f.epsilon(0) >= math.log(2)
    assert TradeOff.of_lines([(2, F(1, 10))]).epsilon(F(1, 11)) == math.inf
    assert TradeOff.perfect().epsilon(0) == 0
    assert TradeOff.of_lines([(10**400, 0)]).epsilon(0) == pytest.approx(400 * math.log(10))


@pytest.mark.parametrize(
    ("corners", "said"),
    [
        ([(0, 1), (0.5, 0.6), (1, 0)], "at or below 1 − α"),
        ([(0, 1), (0.5, 0)], "to \\(1, 0\\)"),
        ([(0, 0.5), (0.4, 0.45), (0.5, 0.0), (1, 0)], "convex"),
        ([(0, 0.1), (0.5, 0.2), (1, 0)], "convex"),
        ([(0, 1), (0, 0.5), (1, 0)], "one value"),
        ([(0, 1), (1.5, 0)], "probability"),
        ([], "corners"),
    ],
)
def test_what_is_no_trade_off_function(corners: list[tuple[float, float]], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        TradeOff(corners)


def test_equal_functions_are_equal_values() -> None:
    assert TradeOff([(0, 1), (0.5, 0.5), (1, 0)]) == TradeOff.perfect()
    assert hash(TradeOff([(0, 1), (0.5, 0.5), (1, 0)])) == hash(TradeOff.perfect())
