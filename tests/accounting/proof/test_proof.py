"""Ball arithmetic against published values, and the fast brackets against ball arithmetic.

Both are proofs, so their brackets must meet; the balls are narrower, so the fast bracket must hold them. Twelve
seconds; `make soak` runs the comparisons over thousands of random compositions, an hour or two.
"""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis
import pytest
from hypothesis import strategies as st

from deniable.accounting.contour import NotCertified, contour_curve
from deniable.accounting.contour.search import contour, saddle_at_delta
from deniable.accounting.fold import fold
from deniable.accounting.proof import proof_curve
from deniable.events import DiscreteGaussian, DiscreteLaplace, Event, Gaussian, Laplace, RandomizedResponse
from deniable.numerics.rounding import Bracket
from deniable.units import Relation
from tests.reference.values import case

CHEAP = [
    "gauss-00",
    "rr-00",
    "rr-06",
    "krr-00",
    "dlap-02",
    "dlap-04",
    "dgauss-04",
    "lapT-01",
    "lapT-04",
    "het-02",
    "het-06",
]
SAMPLED = ["slap-00", "het-08", "sg-16", "sg-33"]


@pytest.mark.parametrize("name", [*CHEAP, *SAMPLED])
def test_reference_values(name: str) -> None:
    known = case(name)
    made = proof_curve(fold(known.event))
    assert made is not None
    if known.unknown == "epsilon":
        found = made.epsilon_bracket(float(known.delta or 0))
    else:
        found = made.delta_bracket(float(known.epsilon or 0))
    assert found.lower <= known.value * (1 + 2e-15)
    assert known.value * (1 - 2e-15) <= found.upper
    assert found.width <= 1e-13 * known.value


def agree(event: Event, *, epsilon: float | None = None, delta: float | None = None) -> bool:
    """The two brackets meet, and the narrower lies in the wider; False when either left the question to others."""
    fast = contour_curve(fold(event))
    assert fast is not None
    try:
        first = _asked(fast, epsilon, delta)
        exact = proof_curve(fold(event))
        assert exact is not None
        second = _asked(exact, epsilon, delta)
    except NotCertified:
        return False
    if math.isinf(first.upper):
        assert first == second
        return True
    assert first.lower <= second.upper
    assert second.lower <= first.upper
    if second.width < 0.2 * first.width:
        assert first.lower <= second.lower
        assert second.upper <= first.upper
    return True


def _asked(curve: object, epsilon: float | None, delta: float | None) -> Bracket:
    found = curve.delta_bracket(epsilon) if epsilon is not None else curve.epsilon_bracket(delta)  # type: ignore[attr-defined]
    assert isinstance(found, Bracket)
    return found


def decimals(low: float, high: float) -> st.SearchStrategy[Fraction]:
    """Numbers of three digits, spread over the decades."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda x: Fraction(f"{10**x:.3g}"))


def counts(most: float) -> st.SearchStrategy[int]:
    return st.floats(0, math.log10(most)).map(lambda x: round(10**x))


def rates() -> st.SearchStrategy[Fraction]:
    return st.one_of(decimals(1e-6, 1), decimals(1e-6, 0.5).map(lambda q: 1 - q))


deltas = st.one_of(
    st.sampled_from([1e-5, 1e-6, 1e-9]),
    decimals(1e-100, 0.5).map(float),
    decimals(1e-9, 0.5).map(lambda d: float(1 - d)),
)
epsilons = st.one_of(st.just(0.0), decimals(1e-3, 1e3).map(float))

steps = st.one_of(
    st.builds(lambda e, n: Laplace(1 / e) * n, decimals(1e-4, 5), counts(1e9)),
    st.builds(lambda e, k, n: RandomizedResponse(e, k) * n, decimals(1e-3, 5), st.integers(2, 9), counts(1e9)),
    st.builds(lambda s, d, n: DiscreteLaplace(s, d) * n, decimals(0.3, 50), st.integers(1, 12), counts(1e7)),
    st.builds(lambda s, d, n: DiscreteGaussian(s, d) * n, decimals(0.3, 100), st.integers(1, 6), counts(1e7)),
    st.builds(
        lambda s, d, n, m: Gaussian(s) * m + DiscreteLaplace(d) * n,
        decimals(0.3, 100), decimals(0.3, 50), counts(1e4), counts(1e4),
    ),
)  # fmt: skip


@hypothesis.given(event=steps, delta=deltas)
@hypothesis.settings(max_examples=25)
def test_closed_forms_agree_at_a_delta(event: Event, delta: float) -> None:
    agree(event, delta=delta)


@hypothesis.given(event=steps, epsilon=epsilons)
@hypothesis.settings(max_examples=25)
def test_closed_forms_agree_at_an_epsilon(event: Event, epsilon: float) -> None:
    agree(event, epsilon=epsilon)


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (Gaussian(Fraction(7, 10)).sampled(rate=Fraction(1, 10)) * 1000, 1e-8),
        (Gaussian(20).sampled(rate=Fraction(999, 1000)) * 10**9, 1e-6),
        (Gaussian(1, 1, Relation.REPLACE, reach=Fraction(1, 2)).sampled(rate=Fraction(1, 50)) * 10**4, 1e-7),
        (Laplace(2).sampled(rate=Fraction(1, 20)) * 3000, 1e-9),
    ],
    ids=repr,
)
def test_sampled_noise_agrees(event: Event, delta: float) -> None:
    assert agree(event, delta=delta)


sampled = st.one_of(
    st.builds(lambda s, q, n: Gaussian(s).sampled(rate=q) * n, decimals(0.1, 100), rates(), counts(1e12)),
    st.builds(
        lambda s, q, n: Gaussian(s, 1, Relation.REPLACE, reach=Fraction(1, 2)).sampled(rate=q) * n,
        decimals(0.1, 100), rates(), counts(1e12),
    ),
    st.builds(lambda e, q, n: Laplace(1 / e).sampled(rate=q) * n, decimals(0.01, 10), rates(), counts(1e9)),
    st.builds(
        lambda s, q, n, e, m: Gaussian(s).sampled(rate=q) * n + Laplace(1 / e) * m + Gaussian(10) * 20,
        decimals(0.3, 30), rates(), counts(1e6), decimals(1e-3, 2), counts(1e3),
    ),
)  # fmt: skip


def quick(event: Event, delta: float) -> bool:
    """Whether ball arithmetic answers in seconds: a hundred nodes, each a rigorous integral."""
    fast = contour_curve(fold(event))
    assert fast is not None
    try:
        rules = [contour(d, saddle_at_delta(d, math.log(delta))) for d in fast.directions]
    except NotCertified:
        return False
    return max(len(rule.omegas) for rule in rules) <= 100


@pytest.mark.soak
@hypothesis.given(event=steps, delta=deltas)
def test_every_closed_form_agrees_at_a_delta(event: Event, delta: float) -> None:
    agree(event, delta=delta)


@pytest.mark.soak
@hypothesis.given(event=steps, epsilon=epsilons)
def test_every_closed_form_agrees_at_an_epsilon(event: Event, epsilon: float) -> None:
    agree(event, epsilon=epsilon)


@pytest.mark.soak
@hypothesis.settings(max_examples=500, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(event=sampled, delta=deltas)
def test_all_sampled_noise_agrees(event: Event, delta: float) -> None:
    hypothesis.assume(quick(event, delta))
    agree(event, delta=delta)


def test_both_ends_of_delta_are_passed_on() -> None:
    made = proof_curve(fold(Laplace(10) * 1000))
    assert made is not None
    assert made.epsilon_bracket(1.0) == (0.0, 0.0)
    assert made.epsilon_bracket(0.0).upper == pytest.approx(100.0)
    assert made.delta_bracket(101.0) == (0.0, 0.0)
    assert made.method == "contour integral in ball arithmetic"


def test_delta_next_to_one_is_proven_too() -> None:
    made = proof_curve(fold(Gaussian(1).sampled(rate=0.5) * 10**5))
    assert made is not None
    found = made.delta_bracket(0.0)
    assert found.lower > 1 - 1e-11
    assert found.upper == 1.0
