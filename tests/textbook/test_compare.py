"""ε against k under every theorem: the table and the plot of the lecture notes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from deniable.errors import InvalidArgument, NotSupported
from deniable.events import (
    Composed,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from deniable.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from deniable.textbook import Comparison, compare_theorems, comparison_table
from deniable.units import Relation

COUNTS = (1, 30, 300)
STEPS: dict[str, Event | Guarantee] = {
    "pure": PureDP(0.1),
    "approximate": ApproxDP(0.1, 1e-9),
    "Gaussian DP": GDP(0.1),
    "zCDP": ZCDP(0.005),
    "Gaussian": Gaussian(10),
    "Laplace": Laplace(10),
    "randomized response": RandomizedResponse(0.1, 4),
    "exponential mechanism": ExponentialMechanism(0.1),
    "sampled Gaussian": Gaussian(1).sampled(rate=0.01),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_no_theorem_beats_the_accountant(step: Event | Guarantee) -> None:
    found = compare_theorems(step, counts=COUNTS, delta=1e-5)
    best = found["accountant"]
    # Curves of promises are bounds over a grid of orders; the exponential mechanism's pair is an envelope of several.
    slack = 0.1 if isinstance(step, ExponentialMechanism) else 1e-5
    for line in found.lines:
        if not line.estimate:
            for theorem, exact in zip(line.epsilons, best, strict=True):
                assert theorem >= exact * (1 - slack), line.theorem
    assert all(math.isfinite(e) for e in best)


def test_the_graph_of_the_notes() -> None:
    """Note 002: 0.1·k against advanced composition at δ′ = 1e-3; they cross, and the optimum lies below both."""
    found = compare_theorems(PureDP(0.1), counts=range(100, 1501, 200), delta=1e-3)
    basic, advanced = found["basic"], found["advanced, kε·tanh(ε/2)"]
    assert basic[0] == pytest.approx(10)
    assert basic[-1] == pytest.approx(150)
    expected = [0.1 * math.sqrt(2 * k * math.log(1000)) + k * 0.1 * math.tanh(0.05) for k in found.counts]
    assert advanced == pytest.approx(expected, rel=1e-12)
    assert all(o < a for o, a in zip(found["optimal"], advanced, strict=True))
    forms = ["advanced, kε(e^ε − 1)", "advanced, kε²", "advanced, kε²/2", "advanced, kε·tanh(ε/2)", "optimal"]
    for loose, tight in pairwise(forms):
        assert all(a >= b for a, b in zip(found[loose], found[tight], strict=True))
    assert found["zCDP"] < found["zCDP, classic conversion"]
    assert found["Rényi"] <= found["moments accountant"]


def test_the_estimate_is_marked() -> None:
    found = compare_theorems(PureDP(0.1), counts=[10], delta=1e-3)
    assert [line.theorem for line in found.lines if line.estimate] == ["central limit"]
    assert [row[0] for row in found.rows()][-1] == "central limit (estimate)"
    assert "central limit (estimate)" in comparison_table(found)


def test_the_table_is_rounded_up_and_aligned() -> None:
    found = compare_theorems(PureDP(0.1), counts=[1, 1000], delta=1e-3)
    text = comparison_table(found).splitlines()
    assert text[0].split() == ["theorem", "k", "=", "1", "k", "=", "1,000"]
    assert text[1].split() == ["basic", "0.10", "100.00"]
    assert len({len(line) for line in text}) == 1
    assert len(found.rows()) == len(found.lines) + 1


def test_a_form_that_does_not_apply_is_infinite() -> None:
    found = compare_theorems(PureDP(2), counts=[3], delta=1e-3)
    assert found["advanced, kε²"] == (math.inf,)
    assert found.rows()[3][1] == "∞"
    spent = compare_theorems(ApproxDP(0.1, 1e-6), counts=[2000], delta=1e-3)
    assert spent["basic"] == (math.inf,)  # k·δ₀ is already above δ


def test_bad_input() -> None:
    with pytest.raises(InvalidArgument, match="counts"):
        compare_theorems(PureDP(1), counts=[], delta=1e-3)
    with pytest.raises(InvalidArgument, match="counts"):
        compare_theorems(PureDP(1), counts=[0], delta=1e-3)
    with pytest.raises(InvalidArgument, match="delta"):
        compare_theorems(PureDP(1), counts=[1], delta=0)
    with pytest.raises(NotSupported, match="give one step"):
        compare_theorems(Composed([Gaussian(1), Laplace(1)]), counts=[1], delta=0.1)
    clipped = Gaussian(1, 2, Relation.REPLACE, reach=1).sampled(rate=0.1)
    with pytest.raises(NotSupported, match="ADD_REMOVE"):
        compare_theorems(clipped, counts=[1], delta=0.1)
    with pytest.raises(KeyError):
        _ = compare_theorems(PureDP(1), counts=[1], delta=0.1)["folklore"]
    assert isinstance(compare_theorems(PureDP(1), counts=[1], delta=0.1), Comparison)
