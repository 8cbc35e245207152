"""Laws of every curve, over random compositions of every kind of step, at every size: some 40 s of one core.

No exception of Python's own, no warning, no curve that rises, ends in order, ε(δ) the inverse of δ(ε).
"""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.accounting.accountant import account, grid_curve
from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour import contour_curve
from deniable.accounting.fold import fold, within_floats
from deniable.events import Claimed, DiscreteGaussian, DiscreteLaplace, Event, Gaussian, Laplace
from deniable.guarantees import PureDP
from tests.accounting.random_events import compositions, powers

BRIEF = settings(max_examples=15, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=3000, suppress_health_check=list(HealthCheck))

PLACES = st.lists(st.one_of(powers(-6, 3), powers(-6, 300)).map(float), min_size=2, max_size=4)
DELTAS = st.one_of(st.just(0.0), powers(-12, 0).map(float), powers(-320, 0).map(float))


def lawful(event: Event, places: list[float], delta: float) -> None:
    """One event against all laws."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile = account(event)
        before, found = 1.0, []
        for epsilon in sorted([0.0, *places]):
            here = profile.delta_bracket(epsilon)
            assert 0 <= here.lower <= here.upper <= 1
            # Ends that are proven to ten digits may differ in the eleventh; far out they may not rise at all.
            assert here.upper <= before * (1 + 1e-3), "δ never rises"
            before = min(before, here.upper)
            found.append((epsilon, here))
        there = profile.epsilon_bracket(delta)
    assert 0 <= there.lower <= there.upper
    for epsilon, here in found:
        if here.lower > delta:
            assert there.upper >= epsilon * (1 - 1e-12), "ε(δ) cannot lie where δ(ε) is proven to be larger"
        if here.upper < delta:
            assert there.lower <= epsilon * (1 + 1e-9) + 1e-12, "nor the other way round"


@BRIEF
@given(event=compositions(wild=False), places=PLACES, delta=DELTAS)
def test_ordinary_sizes(event: Event, places: list[float], delta: float) -> None:
    lawful(event, places, delta)


@BRIEF
@given(event=compositions(wild=True), places=PLACES, delta=DELTAS)
def test_sizes_beyond_the_floats(event: Event, places: list[float], delta: float) -> None:
    lawful(event, places, delta)


@pytest.mark.soak
@LONG
@given(event=compositions(wild=False), places=PLACES, delta=DELTAS)
def test_all_ordinary_sizes(event: Event, places: list[float], delta: float) -> None:
    lawful(event, places, delta)


@pytest.mark.soak
@LONG
@given(event=compositions(wild=True), places=PLACES, delta=DELTAS)
def test_all_sizes_beyond_the_floats(event: Event, places: list[float], delta: float) -> None:
    lawful(event, places, delta)


SMOOTH = st.one_of(
    st.builds(Gaussian, powers(-1, 2)),
    st.builds(lambda s, q: Gaussian(s).sampled(rate=q), powers(-1, 2), powers(-4, 0)),
    st.builds(Laplace, powers(-1, 3)),
    st.builds(lambda s, q: Laplace(s).sampled(rate=q), powers(-1, 3), powers(-3, 0)),
    st.builds(DiscreteGaussian, powers(-1, 2), st.integers(1, 3)),
    st.builds(DiscreteLaplace, powers(-1, 2), st.integers(1, 5)),
    st.builds(lambda e: Claimed(PureDP(e)), powers(-3, 1)),
)
MIXES = st.lists(st.tuples(SMOOTH, st.integers(1, 3000)), min_size=1, max_size=3).map(
    lambda parts: sum((event * count for event, count in parts[1:]), parts[0][0] * parts[0][1])
)


def engines_agree(event: Event, delta: float) -> None:
    """The contour integral's bracket and the grid's have a value in common."""
    folded = within_floats(fold(event))
    contour = contour_curve(folded)
    assert contour is not None
    try:
        exact = contour.epsilon_bracket(delta)
    except NotCertified:
        return
    grid = grid_curve(folded).epsilon_bracket(delta)
    assert grid.lower <= exact.upper * (1 + 1e-12)
    assert exact.lower <= grid.upper * (1 + 1e-12)
    here = grid_curve(folded).delta_bracket(exact.upper)
    assert here.lower <= delta * (1 + 1e-12)


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(event=MIXES, delta=powers(-12, 0).map(float))
def test_engines_agree_on_random_mixes(event: Event, delta: float) -> None:
    engines_agree(event, delta)


@pytest.mark.soak
@LONG
@given(event=MIXES, delta=powers(-100, 0).map(float))
def test_engines_agree_on_thousands_of_mixes(event: Event, delta: float) -> None:
    engines_agree(event, delta)
