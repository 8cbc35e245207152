"""The curve as others see it: published values, extremes, both directions, and what it leaves to other engines.

Six seconds. Comparisons with ball arithmetic are in tests/accounting/proof.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from deniable.accounting.accountant import grid_curve
from deniable.accounting.contour import NotCertified, contour_curve
from deniable.accounting.contour import curve as contour_engine
from deniable.accounting.contour.curve import ContourCurve, _down, _up
from deniable.accounting.contour.search import contour, saddle_at_epsilon
from deniable.accounting.fold import fold
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from deniable.guarantees import ZCDP, ApproxDP, PureDP
from deniable.numerics.roots import walk
from deniable.units import Relation
from tests.reference.values import Case, cases


def curve(event: Event) -> ContourCurve:
    found = contour_curve(fold(event))
    assert found is not None
    return found


def answered() -> list[Case]:
    """The reference cases with an ε or a δ whose steps have transforms."""
    known = [case for case in cases(has_event=True) if case.unknown in ("epsilon", "delta")]
    return [case for case in known if contour_curve(fold(case.event)) is not None]


LEFT_TO_OTHERS = {"lap-00", "lap-02", "lap-04", "lap-06", "lap-08", "sg1-00", "sg1-02", "sg1-04"}
"""One sampled Gaussian step, few Laplace steps: the integrand does not decay; a closed form or the grid answers."""


@pytest.mark.parametrize("case", answered(), ids=str)
def test_reference_values(case: Case) -> None:
    made = curve(case.event)
    true, slack = case.value, 4e-16 + case.relative_error
    try:
        found = (
            made.epsilon_bracket(float(case.delta or 0))
            if case.unknown == "epsilon"
            else made.delta_bracket(float(case.epsilon or 0))
        )
    except NotCertified:
        assert case.id in LEFT_TO_OTHERS
        return
    assert case.id not in LEFT_TO_OTHERS, "this case is answered now: shorten the list"
    assert found.lower <= true * (1 + slack)
    assert true * (1 - slack) <= found.upper
    assert found.width <= 3e-6 * true


SAMPLED = Gaussian(Fraction(11, 10)).sampled(rate=Fraction(256, 60_000)) * 14_063


@pytest.mark.parametrize(
    ("delta", "true"),
    [
        (1e-5, 2.381689726141651),
        (1e-12, 4.17461840659486),
        (1e-15, 4.771841642221695),
        (1e-20, 5.68064275067701),
        (1e-50, 11.81143783283117),
        (1e-100, 21.78776904244029),
    ],
)
def test_tiny_deltas(delta: float, true: float) -> None:
    found = curve(SAMPLED).epsilon_bracket(delta)
    assert found.lower <= true * (1 + 1e-11)
    assert true * (1 - 1e-11) <= found.upper
    assert found.width < 1e-9 * true


@pytest.mark.parametrize("count", [10**4, 10**6, 10**9, 10**12])
def test_counts_do_not_matter(count: int) -> None:
    """A rate that falls as 1/√count has nearly the same curve; the bracket stays narrow."""
    event = Gaussian(2).sampled(rate=Fraction(1, math.isqrt(count))) * count
    found = curve(event).epsilon_bracket(1e-6)
    assert found.width < 1e-6 * found.upper
    assert found.upper == pytest.approx(2.42, rel=0.02)


def test_delta_and_epsilon_are_inverse() -> None:
    made = curve(SAMPLED)
    for delta in (0.2, 1e-3, 1e-9, 1e-40):
        epsilon = made.epsilon_bracket(delta)
        assert made.delta_bracket(epsilon.upper).upper <= delta * (1 + 1e-9)
        assert made.delta_bracket(epsilon.lower).lower >= delta * (1 - 1e-9)


def test_an_end_is_one_only_when_it_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started at a wrong ε with a tiny step, the walk goes on until its inequality holds; a false one is refused."""
    direction = curve(Laplace(10) * 1000).directions[0]
    rule = contour(direction, saddle_at_epsilon(direction, 18.0))
    true = 18.95028736753957
    upper = walk(lambda e: _up(rule.delta(e)) <= 1e-6, 18.0, 1e-6)
    lower = walk(lambda e: _down(rule.delta(e)) >= 1e-6, 19.5, -1e-6)
    assert true <= upper < 20
    assert 17 < lower <= true
    assert walk(lambda e: False, 18.0, 1e-6) is None
    monkeypatch.setattr(contour_engine, "walk", lambda *asked: None)
    with pytest.raises(NotCertified):
        contour_engine._epsilon(direction, 1e-6)


def test_delta_falls_in_epsilon() -> None:
    made = curve(Laplace(10) * 1000)
    found = [made.delta_bracket(epsilon) for epsilon in (0.0, 1.0, 5.0, 10.0, 20.0, 40.0, 90.0)]
    assert all(high.lower > low.upper for high, low in pairwise(found))


def test_the_ends_of_the_curve() -> None:
    made = curve(Laplace(10) * 1000)
    assert made.epsilon_bracket(1.0) == (0.0, 0.0)
    assert made.epsilon_bracket(0.0).upper == pytest.approx(100.0, rel=1e-12)
    assert made.epsilon_bracket(0.0).lower <= 100.0 <= made.epsilon_bracket(0.0).upper
    assert made.delta_bracket(100.1) == (0.0, 0.0)
    assert curve(SAMPLED).epsilon_bracket(0.0) == (math.inf, math.inf)


def test_epsilon_is_zero_when_delta_is_large() -> None:
    assert curve(Gaussian(100).sampled(rate=0.01) * 100).epsilon_bracket(0.5) == (0.0, 0.0)


def test_delta_next_to_one() -> None:
    found = curve(Gaussian(1).sampled(rate=0.5) * 10**5).delta_bracket(0.0)
    assert found.lower >= 1 - 1e-11
    assert found.upper == 1.0


def test_delta_below_every_double() -> None:
    found = curve(Gaussian(1) * 1 + SAMPLED).delta_bracket(1e5)
    assert found.lower == 0.0
    assert 0.0 < found.upper < 1e-300


def test_the_larger_direction_counts() -> None:
    """Removing costs more than adding at small δ for a sampled Gaussian; the order of the pair must not matter."""
    made = curve(SAMPLED)
    one, other = (ContourCurve((direction,)) for direction in made.directions)
    first, second = one.epsilon_bracket(1e-6), other.epsilon_bracket(1e-6)
    assert first.lower > second.upper
    both, turned = made.epsilon_bracket(1e-6), ContourCurve(made.directions[::-1]).epsilon_bracket(1e-6)
    assert both.lower >= first.lower
    assert both.upper == pytest.approx(turned.upper, rel=1e-11)


def test_zero_out_is_accounted_as_add_remove() -> None:
    step = Gaussian(1, relation=Relation.ZERO_OUT).sampled(rate=0.01) * 1000
    assert curve(step).epsilon_bracket(1e-6) == curve(Gaussian(1).sampled(rate=0.01) * 1000).epsilon_bracket(1e-6)


def test_mixtures_with_a_normal_part_need_no_decay_of_their_own() -> None:
    """One Laplace step alone is left to others; with Gaussian noise beside it the integrand decays."""
    with pytest.raises(NotCertified):
        curve(Laplace(1) * 1).epsilon_bracket(1e-6)
    alone, both = curve(Gaussian(1) * 1), curve(Laplace(1) * 1 + Gaussian(1) * 1)
    assert alone.epsilon_bracket(1e-6).upper < both.epsilon_bracket(1e-6).lower < alone.epsilon_bracket(1e-6).upper + 1


def test_integer_noise_is_close_to_its_limit() -> None:
    """Discrete noise of a large scale has the curve of the continuous one, up to its lattice."""
    pairs = [
        (DiscreteGaussian(40, 4) * 50, Gaussian(40, 4) * 50),
        (DiscreteLaplace(100, 10) * 800, Laplace(100, 10) * 800),
    ]
    for discrete, smooth in pairs:
        found, limit = curve(discrete).epsilon_bracket(1e-6), curve(smooth).epsilon_bracket(1e-6)
        assert found.upper == pytest.approx(limit.upper, rel=2e-3)


def test_a_pure_promise_is_a_binary_response() -> None:
    claimed = curve(Claimed(PureDP(Fraction(1, 5), relation=Relation.REPLACE)) * 60)
    assert claimed.epsilon_bracket(1e-5) == curve(RandomizedResponse(Fraction(1, 5)) * 60).epsilon_bracket(1e-5)


def test_losses_that_are_next_to_nothing_cost_nothing() -> None:
    """δ(0) ≤ √(D₂/2): proven at once where that is enough, and never claimed where δ(0) is above."""
    assert curve(Laplace(10**30) * 10**6).epsilon_bracket(1e-9) == (0.0, 0.0)
    small = curve(ExponentialMechanism(Fraction(1, 100)) * 50)
    advantage = small.delta_bracket(0.0)
    assert small.epsilon_bracket(advantage.lower * 0.99).lower > 0
    assert small.epsilon_bracket(advantage.upper * 1.01) == (0.0, 0.0)
    assert small.epsilon_bracket(advantage.upper * 3) == (0.0, 0.0)


def test_losses_of_bounded_range_against_the_grid() -> None:
    """Two engines with nothing in common but the law of one step."""
    event = ExponentialMechanism(Fraction(1, 5)) * 40 + ExponentialMechanism(Fraction(1, 7)) * 30
    found, other = curve(event), grid_curve(fold(event))
    for delta in (1e-3, 1e-8, 1e-20):
        narrow, wide = found.epsilon_bracket(delta), other.epsilon_bracket(delta)
        assert wide.lower <= narrow.upper
        assert narrow.lower <= wide.upper
        assert narrow.width < 1e-9 * narrow.upper


@pytest.mark.parametrize(
    "event",
    [
        Claimed(ApproxDP(1, 1e-6)) * 3,
        Claimed(ZCDP(1)) * 3,
        Gaussian(1, 1, Relation.REPLACE, reach=1).sampled(rate=0.1) * 10,
        DiscreteLaplace(10**6, 10**5) * 10,
    ],
    ids=repr,
)
def test_what_has_no_transform_is_left_to_others(event: Event) -> None:
    assert contour_curve(fold(event)) is None


def test_the_method_is_named() -> None:
    assert curve(SAMPLED).method == "contour integral"
