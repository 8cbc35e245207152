"""Filters: their numbers against mpmath, their decision against an adversary who plays perfectly. About 12 s."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting.filters import (
    Entry,
    Filters,
    Totals,
    accepts,
    addends,
    admitted,
    after,
    basic,
    bounds,
    conversions,
    cost,
    filters_for,
    normal,
    nothing,
    rounding,
)
from deniable.accounting.filters.costs import mu_squared, rho_below
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
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.units import Relation


@pytest.fixture(autouse=True, scope="module")
def _digits() -> Iterator[None]:
    """High precision for this module, and for no other."""
    with mpmath.workdps(120):
        yield


ORDERS = tuple(map(Fraction, (2, 3, 8, 45)))
REPLACE = Relation.REPLACE


def real(x: Fraction | int) -> mpmath.mpf:
    return mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator


positive = st.fractions(min_value=Fraction(1, 10**6), max_value=500)
small = st.fractions(min_value=Fraction(1, 10**4), max_value=8)


# rounding


@given(positive)
def test_functions_are_rounded_to_the_side_they_say(x: Fraction) -> None:
    for down, up, true in (
        (rounding.exp_down, rounding.exp_up, mpmath.exp),
        (rounding.log_down, rounding.log_up, mpmath.log),
        (rounding.sqrt_down, rounding.sqrt_up, mpmath.sqrt),
    ):
        low, middle, high = real(down(x)), true(real(x)), real(up(x))
        assert low < middle < high
        assert high - low <= mpmath.mpf(10) ** -56 * max(1, abs(middle))
    assert real(rounding.exp_down(-x)) < mpmath.exp(-real(x)) < real(rounding.exp_up(-x))


@given(st.fractions(), st.integers(1, 10**9))
def test_grids_are_the_nearest_on_their_side(x: Fraction, grid: int) -> None:
    assert 0 <= rounding.ceiling(x, grid=grid) - x < Fraction(1, grid)
    assert 0 <= x - rounding.floor(x, grid=grid) < Fraction(1, grid)
    assert (rounding.ceiling(x, grid=grid) * grid).denominator == 1


@given(st.fractions(min_value=-30, max_value=38))
def test_normal_tails_enclose_the_truth(x: Fraction) -> None:
    digits = int(x * x / 4) + 30
    low, high = normal.tail(x, digits=digits)
    with mpmath.workdps(500):
        true = mpmath.erfc(real(x) / mpmath.sqrt(2)) / 2
        assert real(low) < true < real(high)
    assert high - low == Fraction(2, 10**digits)


@settings(max_examples=40)
@given(st.fractions(min_value=Fraction(1, 100), max_value=20), st.fractions(min_value=0, max_value=60))
def test_the_gaussian_curve_is_an_upper_end(mu: Fraction, epsilon: Fraction) -> None:
    with mpmath.workdps(700):
        near, far = real(epsilon / mu - mu / 2), real(epsilon / mu + mu / 2)
        true = (mpmath.erfc(near / mpmath.sqrt(2)) - mpmath.exp(real(epsilon)) * mpmath.erfc(far / mpmath.sqrt(2))) / 2
        found = real(normal.gaussian_delta_up(mu, epsilon))
        assert found >= true
        if far < 40:
            assert found <= true * (1 + mpmath.mpf(10) ** -12) + mpmath.mpf(10) ** -300


# costs


def renyi_by_outcomes(p: list[mpmath.mpf], q: list[mpmath.mpf], order: Fraction) -> mpmath.mpf:
    a = real(order)
    return mpmath.log(sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)


@given(small, st.sampled_from((*ORDERS, Fraction(3, 2), Fraction(101, 100))))
def test_a_pure_step_costs_what_randomized_response_costs(epsilon: Fraction, order: Fraction) -> None:
    odds = mpmath.exp(real(epsilon))
    p, q = [odds / (1 + odds), 1 / (1 + odds)], [1 / (1 + odds), odds / (1 + odds)]
    true = renyi_by_outcomes(p, q, order)
    found = real(bounds.pure_to_renyi(epsilon, order))
    assert true <= found <= true + mpmath.mpf(10) ** -50
    assert true <= real(order * bounds.pure_to_rho(epsilon))


@given(small)
def test_rho_of_a_pure_step_is_the_slope_at_order_one(epsilon: Fraction) -> None:
    true = real(epsilon) * mpmath.tanh(real(epsilon) / 2)
    assert true <= real(bounds.pure_to_rho(epsilon)) <= true + mpmath.mpf(10) ** -50


@pytest.mark.parametrize("epsilon", [Fraction(101), Fraction(10**4)])
def test_huge_steps_cost_at_most_themselves(epsilon: Fraction) -> None:
    assert bounds.pure_to_rho(epsilon) == epsilon
    assert bounds.pure_to_renyi(epsilon, Fraction(45)) <= epsilon
    assert bounds.amplified(epsilon, Fraction(1, 2)) <= epsilon
    assert bounds.group_delta(epsilon, Fraction(1, 10**9), 3) == 1


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
    (RandomizedResponse(epsilon=0.5).shuffled(population=1000), Fraction(1, 2), Fraction(0)),
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
        Claimed(ApproxDP(1.5, 1e-6, relation=REPLACE)).sampled_without_replacement(batch=20, population=100),
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
    assert cost(Gaussian(scale=3).sampled(rate=0.5).for_group(2), ORDERS).renyi == (None,) * 4
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
        entry = Entry(Unheard())
        assert addends(filters_for(PureDP(1)).families[0], entry).amounts == (None,)
    finally:
        del Event.registry["Unheard"]


# limits


@given(
    st.fractions(min_value=Fraction(1, 100), max_value=30),
    st.sampled_from([Fraction(1, 10**k) for k in (1, 3, 6, 12)]),
    st.sampled_from(ORDERS),
)
def test_renyi_limits_give_their_share(epsilon: Fraction, delta: Fraction, order: Fraction) -> None:
    limit = conversions.renyi_limit(epsilon, delta, order)
    a, e = real(order), real(epsilon)
    true = mpmath.exp((a - 1) * (real(limit) - e)) * (1 - 1 / a) ** a / (a - 1)
    assert true <= real(delta) <= true * (1 + mpmath.mpf(10) ** -20)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(3), Fraction(30)])
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 10**6), Fraction(1, 10**15)])
def test_rho_limits_give_their_share_and_little_is_lost(epsilon: Fraction, delta: Fraction) -> None:
    rho, e, d = real(conversions.rho_limit(epsilon, delta)), real(epsilon), real(delta)

    def delta_at(a: mpmath.mpf, r: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp((a - 1) * (a * r - e)) * (1 - 1 / a) ** a / (a - 1)

    with mpmath.workdps(30):
        grid = [1 + mpmath.mpf(10) ** (mpmath.mpf(k) / 200) for k in range(-600, 1200)]
        best = min(grid, key=lambda a: delta_at(a, rho))
        near = [1 + (best - 1) * (1 + mpmath.mpf(k) / 10_000) for k in range(-130, 131)]
        assert min(delta_at(a, rho) for a in near) <= d * (1 + mpmath.mpf("1e-4"))
        assert min(delta_at(a, rho * mpmath.mpf("1.0001")) for a in grid) > d
    # The classic conversion never allows more.
    classic = (mpmath.sqrt(-mpmath.log(d) + e) - mpmath.sqrt(-mpmath.log(d))) ** 2
    assert rho >= classic * mpmath.mpf("0.999")


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.05, 1e-9), (8, 1e-3), (3, 0.4)])
def test_gaussian_limits_give_their_share(epsilon: float, delta: float) -> None:
    e, d = Fraction(str(epsilon)), Fraction(str(delta))
    limit = conversions.gaussian_limit(e, d)
    mu = mpmath.sqrt(real(limit))

    def curve(m: mpmath.mpf) -> mpmath.mpf:
        near, far = real(e) / m - m / 2, real(e) / m + m / 2
        return (mpmath.erfc(near / mpmath.sqrt(2)) - mpmath.exp(real(e)) * mpmath.erfc(far / mpmath.sqrt(2))) / 2

    assert curve(mu) <= real(d) < curve(mu * (1 + mpmath.mpf(10) ** -9))


@settings(max_examples=25)
@given(
    st.fractions(min_value=Fraction(1, 1000), max_value=50), st.sampled_from([Fraction(1, 10**k) for k in (1, 6, 15)])
)
def test_shares_and_caps_never_exceed_delta(epsilon: Fraction, delta: Fraction) -> None:
    filters = filters_for(ApproxDP(epsilon, delta))
    assert filters.delta <= delta
    assert filters.alone is not None
    assert filters.alone.delta == delta
    assert all(s.limit > 0 for family in filters.families for s in family.sums)
    for family in filters.families:
        for s in family.sums:
            if s.kind == "epsilon":
                assert s.limit == epsilon
                assert s.share == 0
            if s.kind == "renyi":
                assert s.order is not None
                assert s.limit == conversions.renyi_limit(epsilon, s.share, s.order)
    assert Filters.from_plain(filters.to_plain()) == filters


def test_no_budget_kind_is_widened() -> None:
    for budget in (PureDP(1), ZCDP(1), GDP(1), RDP(8, 1), TCDP(1, 9), ApproxDP(1, 0), ApproxDP(0, 0.5), ApproxDP(1, 1)):
        (family,) = filters_for(budget).families
        numbers = budget.numbers
        assert family.cap == numbers.get("delta", 0)
        assert [s.limit for s in family.sums] == [numbers.get("epsilon", numbers.get("rho", numbers.get("mu")))]
    with pytest.raises(NotSupported, match="Guarantee"):
        filters_for(Guarantee())


# the decision


def test_totals_are_text_and_back() -> None:
    filters = filters_for(ApproxDP(3, 1e-6))
    totals = after(filters, nothing(filters), Entry(Gaussian(scale=3) + Laplace(scale=7)))
    assert Totals.from_plain(totals.to_plain()) == totals


def test_a_sum_that_was_passed_stays_spent() -> None:
    filters = filters_for(ApproxDP(1, 1e-3))
    totals = admitted(filters, nothing(filters), Entry(Laplace(scale=1000) * 1500))
    assert totals is not None
    assert totals.tallies[0].amounts == (Fraction(3, 2),)
    # The basic filter is spent, although this request alone would fit it.
    assert admitted(filters, totals, Entry(Claimed(PureDP(0.99)))) is None
    assert admitted(filters, totals, Entry(Laplace(scale=1000))) is not None


def test_an_event_that_cannot_be_added_ends_its_sum_for_good() -> None:
    filters = filters_for(ApproxDP(1, 1e-6))
    totals = admitted(filters, nothing(filters), Entry(Gaussian(scale=50)))
    assert totals is not None
    assert totals.tallies[0].amounts == (None,)
    totals = after(filters, totals, Entry(Laplace(scale=50)))
    assert totals.tallies[0].amounts == (None,)
    assert totals.tallies[1].amounts == (None,)
    assert accepts(filters, totals)


def test_only_a_first_request_may_choose_the_basic_filter_alone() -> None:
    filters = filters_for(ApproxDP(1, 1e-6))
    large = Entry(Claimed(ApproxDP(0.5, 1e-6)))
    chosen = admitted(filters, nothing(filters), large)
    assert chosen is not None
    assert chosen.choice == "alone"
    later = admitted(filters, chosen, Entry(Laplace(scale=2)))
    assert later is not None
    assert later.tallies[0].amounts == (Fraction(1),)
    first = admitted(filters, nothing(filters), Entry(Laplace(scale=1000)))
    assert first is not None
    assert first.choice == "list"
    assert admitted(filters, first, large) is None


def test_the_events_own_delta_is_capped() -> None:
    filters = basic(ApproxDP(1, 1e-6))
    totals = admitted(filters, nothing(filters), Entry(Claimed(ApproxDP(0.1, 1e-6))))
    assert totals is not None
    assert admitted(filters, totals, Entry(Claimed(ApproxDP(0.1, 1e-20)))) is None
    assert admitted(filters, totals, Entry(Laplace(scale=10))) is not None


# An adversary who plays perfectly. Every answer is a (leaky) randomized response, the worst step of its cost; the next
# request may depend on all answers. Backward induction finds the largest hockey-stick divergence over all strategies.

Menu = tuple[tuple[Fraction, Fraction], ...]
Step = Callable[[Filters, Totals, Entry], Totals | None]


def worst_delta(budget: ApproxDP, menu: Menu, rounds: int, decide: Step) -> float:
    """sup over strategies of P(S) − e^ε Q(S), for the ledger that `decide` runs."""
    filters = filters_for(budget)
    threshold = math.exp(budget.epsilon)

    def outcomes(epsilon: Fraction, delta: Fraction) -> list[tuple[float, float]]:
        odds, kept = math.exp(epsilon), 1 - float(delta)
        return [(kept * odds / (1 + odds), kept / (1 + odds)), (kept / (1 + odds), kept * odds / (1 + odds)),
                (float(delta), 0.0), (0.0, float(delta))]  # fmt: skip

    @cache
    def next_totals(totals: Totals, epsilon: Fraction, delta: Fraction) -> Totals | None:
        return decide(filters, totals, Entry(Claimed(ApproxDP(epsilon, delta))))

    @cache
    def value(totals: Totals, left: int, p: float, q: float) -> float:
        best = max(0.0, p - threshold * q)
        if left == 0 or q == 0.0 or p == 0.0:
            return best
        for epsilon, delta in menu:
            reached = next_totals(totals, epsilon, delta)
            if reached is not None:
                best = max(best, sum(value(reached, left - 1, p * a, q * b) for a, b in outcomes(epsilon, delta)))
        return best

    return value(nothing(filters), rounds, 1.0, 1.0)


GAMES = [
    (ApproxDP(1, 0.3), ((Fraction(1, 2), Fraction(0)), (Fraction(1, 5), Fraction(0)), (Fraction(1), Fraction(0))), 6),
    (ApproxDP(0.5, 0.2), ((Fraction(1, 10), Fraction(1, 50)), (Fraction(1, 4), Fraction(0))), 6),
    (ApproxDP(0.5, 0.4), ((Fraction(1, 3), Fraction(1, 25)), (Fraction(1, 10), Fraction(0))), 6),
    (ApproxDP(0.3, 0.5), ((Fraction(1, 3), Fraction(0)), (Fraction(1, 10), Fraction(1, 20))), 7),
]


@pytest.mark.parametrize(("budget", "menu", "rounds"), GAMES)
def test_no_strategy_gets_more_than_the_budget(budget: ApproxDP, menu: Menu, rounds: int) -> None:
    assert worst_delta(budget, menu, rounds, admitted) <= float(budget.delta) + 1e-12


def test_the_adversary_beats_a_ledger_that_forgets_what_other_filters_let_through() -> None:
    """The negative control: a filter that does not count the charges that another one accepted."""

    def forgetful(filters: Filters, totals: Totals, entry: Entry) -> Totals | None:
        reached = after(filters, totals, entry)
        for index in range(len(reached.tallies)):
            one = Filters((filters.families[index],))
            if accepts(one, Totals((reached.tallies[index],), "list")):
                kept = list(totals.tallies)
                kept[index] = reached.tallies[index]
                return Totals(tuple(kept), "list")
        return None

    budget, menu, rounds = ApproxDP(0.3, 0.02), ((Fraction(3, 10), Fraction(0)), (Fraction(1, 10), Fraction(0))), 6
    assert worst_delta(budget, menu, rounds, admitted) <= 0.02 + 1e-12
    assert worst_delta(budget, menu, rounds, forgetful) > 0.02


@pytest.mark.parametrize("first", [0.3, 0.6, 0.9])
def test_adaptive_gaussians_stay_within_the_gaussian_filter(first: float) -> None:
    """Two Gaussian answers with Σμ² ≤ 1, the second asked only when the first looks revealing: never above N(0, 1)."""
    second = math.sqrt(1 - first * first)
    epsilon = 0.7

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    def delta_of(mu: float, level: float) -> float:
        """∫ (p − e^level q)_+ for N(μ, 1) against N(0, 1)."""
        return tail(level / mu - mu / 2) - math.exp(level) * tail(level / mu + mu / 2)

    def value(threshold: float) -> float:
        total, step, y = 0.0, 0.005, -12.0
        while y < 12.0:
            p = math.exp(-((y - first) ** 2) / 2) / math.sqrt(2 * math.pi)
            loss = first * y - first * first / 2
            gain = delta_of(second, epsilon - loss) if y > threshold else max(0.0, 1 - math.exp(epsilon - loss))
            total += step * p * gain
            y += step
        return total

    whole = delta_of(1.0, epsilon)
    for threshold in (-12.0, -1.0, 0.0, 0.5, 1.0, 2.0, 12.0):
        assert value(threshold) <= whole + 1e-6
    assert value(-12.0) == pytest.approx(whole, abs=1e-5)
