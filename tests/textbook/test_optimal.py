"""Optimal composition against exact rational sums, the reference values, and its own blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, PureDP
from deniable.textbook import compose_optimal, optimal_corner, repeat_optimal
from deniable.textbook.optimal import lies
from tests.reference.values import Case, cases


@pytest.fixture(autouse=True, scope="module")
def _digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


def exact(epsilon: Fraction, count: int, at: mp.mpf) -> mp.mpf:
    """Σ_j C(k, j)(p^{k−j}q^j − e^ε̃ p^j q^{k−j})₊ term by term."""
    e = mp.mpf(epsilon.numerator) / epsilon.denominator
    p, q = 1 / (1 + mp.exp(-e)), 1 / (1 + mp.exp(e))
    total = mp.mpf(0)
    for j in range(count + 1):
        term = p ** (count - j) * q**j - mp.exp(at) * p**j * q ** (count - j)
        total += mp.binomial(count, j) * max(term, mp.mpf(0))
    return total


@settings(max_examples=40)
@given(st.fractions(Fraction(1, 1000), 3, max_denominator=1000), st.integers(1, 60), st.floats(0, 1))
def test_against_the_sum(epsilon: Fraction, count: int, share: float) -> None:
    at = share * float(epsilon) * count
    bracket = repeat_optimal(PureDP(epsilon), count=count).delta_bracket(at)
    truth = exact(epsilon, count, mp.mpf(at))
    assert bracket.upper >= truth
    # ε was rounded up to a float, so the lower end is that of a slightly larger step.
    assert bracket.lower <= truth * (1 + mp.mpf("1e-12")) + mp.mpf("1e-15")
    assert bracket.upper - bracket.lower <= 1e-10 * bracket.upper + 1e-13


@pytest.mark.parametrize("case", [*cases(family="optimal_composition"), *cases(family="randomized_response")], ids=str)
def test_reference(case: Case) -> None:
    step = ApproxDP(Fraction(case.part["epsilon0"]), Fraction(case.part.get("delta0", "0")))
    profile = repeat_optimal(step, count=case.part["count"])
    bracket = profile.delta_bracket(case.epsilon) if case.unknown == "delta" else profile.epsilon_bracket(case.delta)
    assert Fraction(bracket.lower) <= case.exact_value <= Fraction(bracket.upper)
    assert bracket.width < 1e-11 * bracket.upper
    if "i" in case.part:
        corner = optimal_corner(step, count=case.part["count"], index=case.part["i"])
        assert corner.epsilon == case.epsilon
        assert case.exact_value <= corner.delta <= case.exact_value * (1 + Fraction(1, 10**10))


def test_the_theory_sheets_numbers() -> None:
    assert float(optimal_corner(PureDP(0.2), count=10, index=3).delta) == pytest.approx(0.03826339453672056, rel=1e-12)
    assert repeat_optimal(PureDP(1), count=10).epsilon(1e-5) == pytest.approx(9.99977, abs=5e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_blocks_lie_above_the_sum_and_close(monkeypatch: pytest.MonkeyPatch, epsilon: float) -> None:
    import sys

    module = sys.modules["deniable.textbook.optimal"]
    one_by_one = lies(0.005, 40_000, epsilon)
    monkeypatch.setattr(module, "_ONE_BY_ONE", 10)
    monkeypatch.setattr(module, "_BLOCKS", 16)
    blocks = lies(0.005, 40_000, epsilon)
    assert one_by_one.lower <= blocks.upper <= one_by_one.upper * 1.001
    assert blocks.lower == 0


@pytest.mark.parametrize(
    ("epsilon", "count", "delta", "expected"),
    [
        (1e-6, 10**12, 1e-5, 4.3771781),  # close to the Gaussian with μ = ε√k = 1
        (1e-6, 10**12, 1e-300, 37.448848),
        (1e-9, 10**12, 1e-10, 0.0048824553),
        (800, 10**12, 1e-300, 8e14),
        (800, 1, 0.25, 800 + math.log(0.75)),
        (1e-9, 1, 1e-300, 1e-9),
    ],
)
def test_extremes(epsilon: float, count: int, delta: float, expected: float) -> None:
    found = repeat_optimal(PureDP(epsilon), count=count).epsilon(delta)
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_ends_of_the_curve() -> None:
    profile = repeat_optimal(ApproxDP(0.1, 1e-6), count=100)
    assert profile.epsilon(1) == 0
    assert profile.epsilon(1e-5) == math.inf  # 1 − (1 − 1e-6)^100 is about 1e-4
    assert profile.delta(1000) == pytest.approx(1e-4, rel=1e-3)
    assert repeat_optimal(PureDP(0), count=7).epsilon(0) == 0
    assert repeat_optimal(PureDP(0.1), count=7).epsilon(0) == pytest.approx(0.7, rel=1e-15)
    assert repeat_optimal(ApproxDP(0.1, 1), count=7).delta(0) == 1
    assert compose_optimal([PureDP(0)]).epsilon(0.1) == 0
    assert compose_optimal([ApproxDP(0.5, 0.1)]).epsilon(0.05) == math.inf


def test_unequal_steps_off_the_grid_stay_bracketed() -> None:
    parts = [PureDP(Fraction(1, 3)), PureDP(Fraction(1, 7)), PureDP(Fraction(2, 11))] * 5
    coarse = compose_optimal(parts, points=200).epsilon_bracket(1e-4)
    fine = compose_optimal(parts).epsilon_bracket(1e-4)
    assert coarse.lower <= fine.lower <= fine.upper <= coarse.upper
    assert fine.width < 1e-3
    assert coarse.width > 1e-3


def test_bad_input() -> None:
    with pytest.raises(InvalidArgument, match="index must be at most count/2 = 5"):
        optimal_corner(PureDP(1), count=10, index=6)
    with pytest.raises(InvalidArgument, match="count"):
        repeat_optimal(PureDP(1), count=True)
