"""What each event adds to each filter, against mpmath and brute force."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting.filters import FilterEntry, addends, cost, filters_for
from deniable.accounting.filters.costs import mu_squared, rho_below
from deniable.conversions import formulas
from deniable.errors import NotSupported
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    RandomizedResponse,
    TreeGaussian,
)
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP
from deniable.units import Relation
from tests.accounting.filters.exact import ORDERS, REPLACE, real, small


def renyi_by_outcomes(p: list[mpmath.mpf], q: list[mpmath.mpf], order: Fraction) -> mpmath.mpf:
    a = real(order)
    return mpmath.log(sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)


@given(small, st.sampled_from((*ORDERS, Fraction(3, 2), Fraction(101, 100))))
def test_a_pure_step_costs_what_randomized_response_costs(epsilon: Fraction, order: Fraction) -> None:
    odds = mpmath.exp(real(epsilon))
    p, q = [odds / (1 + odds), 1 / (1 + odds)], [1 / (1 + odds), odds / (1 + odds)]
    true = renyi_by_outcomes(p, q, order)
    found = real(formulas.response_divergence(epsilon, order))
    assert true <= found <= true + mpmath.mpf(10) ** -50
    assert true <= real(order * formulas.pure_rho(epsilon))


@given(small)
def test_rho_of_a_pure_step_is_the_slope_at_order_one(epsilon: Fraction) -> None:
    true = real(epsilon) * mpmath.tanh(real(epsilon) / 2)
    assert true <= real(formulas.pure_rho(epsilon)) <= true + mpmath.mpf(10) ** -50


@pytest.mark.parametrize("epsilon", [Fraction(101), Fraction(10**4)])
def test_huge_steps_cost_at_most_themselves(epsilon: Fraction) -> None:
    assert formulas.pure_rho(epsilon) == epsilon
    assert formulas.response_divergence(epsilon, Fraction(45)) <= epsilon
    assert formulas.amplified_epsilon(epsilon, Fraction(1, 2)) <= epsilon
    assert formulas.group_delta(epsilon, Fraction(1, 10**9), 3) == 1


def sampled_divergences(q: float, ratio: float, order: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Both directions of D_α of N(0, 1) against (1 − q) N(0, 1) + q N(√ratio, 1), by quadrature."""
    with mpmath.workdps(30):
        m = mpmath.sqrt(ratio)

        def growth(x: mpmath.mpf) -> mpmath.mpf:
            return 1 - mpmath.mpf(q) + q * mpmath.exp(m * x - m * m / 2)

        places = [-40, -10, 0, 10, 20, 40, 40 + order * m]
        forth = mpmath.quad(lambda x: mpmath.npdf(x) * growth(x) ** order, places)
        back = mpmath.quad(lambda x: mpmath.npdf(x) * growth(x) ** (1 - order), places)
        return mpmath.log(forth) / (order - 1), mpmath.log(back) / (order - 1)


@pytest.mark.parametrize(("q", "scale"), [(0.1, 1.2), (0.01, 0.7), (0.5, 2.0), (0.004, 1.1), (0.9, 0.8)])
@pytest.mark.parametrize("order", [2, 3, 8])
def test_the_sampled_gaussian_is_bounded_in_both_directions(q: float, scale: float, order: int) -> None:
    event = Gaussian(scale=scale).sampled(rate=q)
    found = cost(event, (Fraction(order),)).renyi[0]
    assert found is not None
    forth, back = sampled_divergences(q, float((1 / Fraction(str(scale))) ** 2), order)
    assert back <= forth * (1 + 1e-12)
    assert abs(real(found) - forth) <= 1e-15 * max(1, forth) + 1e-20


def test_published_values_of_the_sampled_gaussian() -> None:
    found = cost(Gaussian(scale=1.2).sampled(rate=0.1), tuple(map(Fraction, (2, 3, 8)))).renyi
    assert [float(f or 0) for f in found] == pytest.approx([0.00997603559, 0.0167663666, 0.281802648], rel=1e-8)


def test_between_whole_orders_the_next_one_counts() -> None:
    event = Gaussian(scale=1.2).sampled(rate=0.1)
    low, middle, high = cost(event, (Fraction(7), Fraction(15, 2), Fraction(8))).renyi
    assert low is not None
    assert middle is not None
    assert high is not None
    assert low < middle == high


def test_sampling_never_costs_more_than_not_sampling() -> None:
    for scale, order in itertools.product((0.05, 0.5, 3), ORDERS):
        plain = cost(Gaussian(scale=scale), (order,)).renyi[0]
        sampled = cost(Gaussian(scale=scale).sampled(rate=0.999), (order,)).renyi[0]
        assert plain is not None
        assert sampled is not None
        assert sampled <= plain


EXACT: list[tuple[Event, Fraction, Fraction]] = [
    (Laplace(scale=4), Fraction(1, 4), Fraction(0)),
    (DiscreteLaplace(scale=10, sensitivity=3), Fraction(3, 10), Fraction(0)),
    (RandomizedResponse(epsilon=0.1), Fraction(1, 10), Fraction(0)),
    (ExponentialMechanism(epsilon=0.7), Fraction(7, 10), Fraction(0)),
    (Claimed(PureDP(0.1)), Fraction(1, 10), Fraction(0)),
    (Claimed(ApproxDP(0.1, 1e-7)) * 3, Fraction(3, 10), Fraction(3, 10**7)),
    (Laplace(scale=2) * 5 + Claimed(ApproxDP(1, 0.25)), Fraction(7, 2), Fraction(1, 4)),
    (Laplace(scale=4).for_group(3), Fraction(3, 4), Fraction(0)),
    (Laplace(scale=4).to_replace(), Fraction(1, 2), Fraction(0)),
    (RandomizedResponse(epsilon=0.5).shuffled(size=1000), Fraction(1, 2), Fraction(0)),
    (Laplace(scale=4, relation=REPLACE, reach=1).sampled(rate=0.1), Fraction(1, 4), Fraction(0)),
    (Claimed(ApproxDP(1, 0.01, relation=REPLACE)).sampled(rate=0.1), Fraction(1), Fraction(1, 1000)),
]


@pytest.mark.parametrize(("event", "epsilon", "delta"), EXACT, ids=lambda x: str(x) if isinstance(x, Event) else "")
def test_basic_costs_are_exact(event: Event, epsilon: Fraction, delta: Fraction) -> None:
    found = cost(event)
    assert (found.epsilon, found.delta) == (epsilon, delta)


@pytest.mark.parametrize(
    "event",
    [
        Claimed(ApproxDP(1.5, 1e-6)).sampled(rate=0.2),
        Claimed(ApproxDP(1.5, 1e-6, relation=REPLACE)).sampled_without_replacement(batch=20, size=100),
    ],
)
def test_amplification_by_sampling(event: Event) -> None:
    found = cost(event)
    true = mpmath.log(1 + mpmath.mpf("0.2") * (mpmath.exp(mpmath.mpf("1.5")) - 1))
    assert found.epsilon is not None
    assert true <= real(found.epsilon) <= true + mpmath.mpf(10) ** -29
    assert found.delta == Fraction(2, 10**7)


@pytest.mark.parametrize(("size", "published"), [(4, 9.8487e-06), (1, 1e-6)])
def test_delta_of_a_group(size: int, published: float) -> None:
    found = cost(Claimed(ApproxDP(0.5, 1e-6)).for_group(size))
    true = mpmath.mpf("1e-6") * sum(mpmath.exp(mpmath.mpf(j) / 2) for j in range(size))
    assert true <= real(found.delta) <= true * (1 + mpmath.mpf(10) ** -8)
    assert float(found.delta) == pytest.approx(published, rel=1e-4)


def test_groups_of_tiny_steps_are_not_divided_by_nothing() -> None:
    found = cost(Claimed(ApproxDP(0, 1e-6)).for_group(5))
    assert 0 <= found.delta - Fraction(5, 10**6) <= Fraction(1, 10**14)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_exponential_mechanism_is_bounded_by_its_range(epsilon: float) -> None:
    """Every choice among three candidates whose utilities move by at most 1, at the corners of what is allowed."""
    found = cost(ExponentialMechanism(epsilon=epsilon), ORDERS)
    scores = [(0.0, 0.0, 0.0), (0.0, 3.0, 1.0), (5.0, 0.0, 0.0)]
    for first, moved in itertools.product(scores, itertools.product((-1, 1), repeat=3)):
        laws = []
        for utility in (first, [u + m for u, m in zip(first, moved, strict=True)]):
            weights = [mpmath.exp(mpmath.mpf(epsilon) * u / 2) for u in utility]
            laws.append([w / sum(weights) for w in weights])
        for (p, q), (order, bound) in itertools.product((laws, laws[::-1]), zip(ORDERS, found.renyi, strict=True)):
            assert bound is not None
            assert renyi_by_outcomes(p, q, order) <= real(bound)
    assert found.rho == Fraction(str(epsilon)) ** 2 / 8


def test_concentrated_costs() -> None:
    assert cost(Gaussian(scale=2)).rho == Fraction(1, 8)
    assert cost(DiscreteGaussian(scale=2, sensitivity=3)).rho == Fraction(9, 8)
    assert cost(Gaussian(scale=2).for_group(3)).rho == Fraction(9, 8)
    assert cost(Gaussian(scale=2).to_replace()).rho == Fraction(1, 2)
    assert cost(ExponentialMechanism(epsilon=0.5).for_group(3)).rho == 9 * Fraction(1, 4) / 8
    assert cost(Claimed(GDP(0.5)) * 4).rho == Fraction(1, 2)
    assert cost(Claimed(ApproxZCDP(0.25, 1e-6))).delta == Fraction(1, 10**6)
    assert cost(Gaussian(scale=2), ORDERS).renyi == tuple(order / 8 for order in ORDERS)
    assert cost(Claimed(RDP(8, 0.5)), ORDERS).renyi == (Fraction(1, 2),) * 3 + (None,)
    assert cost(Claimed(TCDP(0.5, 8)), ORDERS).renyi == (Fraction(1), Fraction(3, 2), None, None)


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(scale=9),
        Claimed(ZCDP(0.1)),
        Gaussian(scale=9).sampled(rate=0.5),
        Laplace(scale=9) + Gaussian(scale=9),
        TreeGaussian(scale=9, steps=8),
        Claimed(ApproxZCDP(0.1, 1e-6)).for_group(2),
    ],
)
def test_what_has_no_finite_epsilon_has_none(event: Event) -> None:
    assert cost(event).epsilon is None


def test_a_tree_is_gaussian() -> None:
    tree = TreeGaussian(scale=9, steps=8, participations=2)
    assert mu_squared(tree) == Fraction(2 * 4, 81)
    assert cost(tree).rho == Fraction(4, 81)


def test_groups_of_sampled_steps() -> None:
    """`fold` leaves these wrapped; a path of k neighbours bounds them."""
    sampled = Claimed(ApproxDP(0.5, 1e-6)).sampled(rate=0.5)
    one, four = cost(sampled), cost(sampled.for_group(4))
    assert one.epsilon is not None
    assert four.epsilon == 4 * one.epsilon
    growth = sum(mpmath.exp(j * real(one.epsilon)) for j in range(4))
    assert growth * real(one.delta) <= real(four.delta) <= growth * real(one.delta) * (1 + mpmath.mpf(10) ** -20)
    assert cost(sampled.to_replace()) == cost(sampled.for_group(2))
    assert None not in cost(Gaussian(scale=3).sampled(rate=0.5).for_group(2), ORDERS).renyi
    assert cost(Claimed(ZCDP(0.1)).sampled(rate=0.5).for_group(2)).rho == Fraction(4, 10)


def test_truncated_claims_serve_the_orders_they_reach() -> None:
    both = Claimed(TCDP(0.1, 20)) * 2 + Gaussian(scale=2) + Claimed(ZCDP(0.5))
    assert rho_below(both, Fraction(20)) == Fraction(2, 10) + Fraction(1, 8) + Fraction(1, 2)
    assert rho_below(both, Fraction(21)) is None
    assert rho_below(Claimed(ApproxZCDP(0.1, 1e-9)), Fraction(2)) is None
    assert rho_below(Claimed(RDP(30, 0.1)), Fraction(20)) is None


def test_only_gaussians_enter_the_gaussian_filter() -> None:
    assert mu_squared(Gaussian(scale=2, sensitivity=3) * 4) == 9
    assert mu_squared(Gaussian(scale=2).for_group(3) + Claimed(GDP(1))) == Fraction(13, 4)
    assert mu_squared(Gaussian(scale=2).to_replace()) == 1
    for other in (DiscreteGaussian(scale=2), Laplace(scale=2), Gaussian(scale=2).sampled(rate=0.5)):
        assert mu_squared(other + Gaussian(scale=9)) is None


def test_an_unknown_event_is_refused_by_name() -> None:
    class Unheard(Event):
        relation = Relation.ADD_REMOVE

    try:
        with pytest.raises(NotSupported, match="Unheard"):
            cost(Unheard())
        entry = FilterEntry(Unheard())
        assert addends(filters_for(PureDP(1)).families[0], entry).amounts == (None,)
    finally:
        del Event.registry["Unheard"]
