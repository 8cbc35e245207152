"""One test per erratum of the lecture notes (000–004) that belongs to the calculus.

Each test holds the formula as printed and shows where it fails, next to ours, which does not. docs/calculus.md lists
them all; errata about estimators, error bars, planners, training and audits are tested in the rooms that own them.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from deniable.accounting.accountant import account
from deniable.conversions import (
    approx_to_fdp,
    for_group,
    gdp_to_tradeoff,
    linear_rdp_to_zcdp,
    pure_to_fdp,
    rdp_to_approx,
    rdp_to_approx_classic,
    replace_to_add_remove,
    zcdp_to_rdp,
)
from deniable.errors import NoConversion, UnitMismatch
from deniable.events import ExponentialMechanism, Gaussian, Laplace, RandomizedResponse
from deniable.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP, TradeOff
from deniable.textbook import (
    advanced_tanh,
    compose_advanced,
    compose_optimal,
    estimate_dpsgd_batch_mu,
    estimate_mu,
    exponential_mechanism_zcdp,
    gaussian_moments,
    laplace_rdp,
    per_query_budget,
    pure_rdp,
    repeat_advanced,
    repeat_basic,
    repeat_optimal,
    sample_batch,
)
from deniable.textbook.loss import losses
from deniable.units import Relation

REPLACE = Relation.REPLACE


# 000


def test_000_the_gaussian_loss_has_variance_two_rho() -> None:
    """Printed: N(ρ, 2ρ²)."""
    (loss,) = losses(Gaussian(4))
    rho = 1 / 32
    printed = 2 * rho**2
    assert loss.variance == pytest.approx(2 * rho)
    assert loss.variance > 10 * printed
    # With the printed variance the tail at 1 would be many orders too small.
    assert loss.tail(1) > 1e6 * (1 - ndtr((1 - rho) / math.sqrt(printed)))


def test_000_linear_rdp_is_zcdp_with_the_same_letter() -> None:
    """Printed: "(α, αε)-RDP for all α ⇒ ρ-zCDP"; read ρ = ε."""
    assert linear_rdp_to_zcdp(0.3) == ZCDP(0.3)
    assert zcdp_to_rdp(ZCDP(0.3), order=7) == RDP(7, 2.1)


def test_000_markovs_inequality_needs_a_variable_that_is_not_negative() -> None:
    """P[L ≥ t] ≤ E L/t is false for a loss, which may be negative; it is e^L that Markov's inequality is for."""
    (loss,) = losses(RandomizedResponse(1))
    assert loss.tail(0.999) > loss.mean / 0.999
    assert loss.tail(0.999) <= loss.tail_markov(0.999)


def test_000_subgaussian_bounds_of_both_signs() -> None:
    """E e^{λ(L−ρ)} = e^{λ²·2ρ/2} for every real λ; with λ ≥ 0 alone only the upper tail is bounded."""
    rng = np.linspace(-12, 12, 24_001)
    density = np.exp(-(rng**2) / 2) / math.sqrt(2 * math.pi)
    rho = 0.5
    for lam in (-2.0, -0.5, 1.5):
        moment = float(np.sum(density * np.exp(lam * math.sqrt(2 * rho) * rng)) * (rng[1] - rng[0]))
        assert moment == pytest.approx(math.exp(lam**2 * rho))


def test_000_swap_and_add_remove_are_not_the_same() -> None:
    """The exercise: add/remove gives swap at twice the cost, and swap gives nothing back."""
    with pytest.raises(NoConversion, match="number of units"):
        replace_to_add_remove(PureDP(0, relation=REPLACE))


# 001


def test_001_the_split_that_ignores_a_term_overspends() -> None:
    """Printed: ε₀ = ε/√(2k ln 1/δ), which yields ε + ε²/(4 ln 1/δ)."""
    count, epsilon, delta = 100, 1.0, 1e-6
    printed = epsilon / math.sqrt(2 * count * math.log(1 / delta))
    spent = printed * math.sqrt(2 * count * math.log(1 / delta)) + count * printed**2 / 2
    assert spent == pytest.approx(epsilon + epsilon**2 / (4 * math.log(1 / delta)))
    assert spent == pytest.approx(1.018, abs=1e-3)
    ours = per_query_budget(ApproxDP(epsilon, delta), count=count)
    assert float(ours.epsilon) < printed
    assert repeat_advanced(ours, count=count, slack=delta).epsilon <= 1


def test_001_the_chain_rule() -> None:
    """D_α(P_X‖Q_X) + min_x D_α(…|x) ≤ D_α(P_XY‖Q_XY) ≤ D_α(P_X‖Q_X) + max_x D_α(…|x); equality for products."""

    def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
        return math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)

    first, second = np.array([0.7, 0.3]), np.array([0.4, 0.6])
    given_p = np.array([[0.9, 0.1], [0.5, 0.5]])
    given_q = np.array([[0.6, 0.4], [0.45, 0.55]])
    for order in (1.5, 2, 6):
        joint = divergence((first[:, None] * given_p).ravel(), (second[:, None] * given_q).ravel(), order)
        base = divergence(first, second, order)
        inner = [divergence(given_p[x], given_q[x], order) for x in range(2)]
        assert base + min(inner) <= joint <= base + max(inner)
        same = divergence(np.outer(first, given_p[0]).ravel(), np.outer(second, given_q[0]).ravel(), order)
        assert same == pytest.approx(base + inner[0])


# 002


def test_002_a_loss_tail_of_delta_is_sufficient_and_not_necessary() -> None:
    """Printed: (ε, δ)-DP iff P[L ≥ ε] ≤ δ. Gaussian with μ = 1: P[L ≥ 1] = 0.3085, and it is (1, 0.1269)-DP."""
    (loss,) = losses(Gaussian(1))
    truth = account(Gaussian(1)).delta(1)
    assert truth < loss.tail(1) / 2
    assert truth == pytest.approx(0.1269, abs=1e-4)


def test_002_advanced_composition_without_its_epsilon_is_unsound() -> None:
    """Printed: ε√(2k ln 1/δ′) + k(e^ε − 1)/(e^ε + 1). Counter-example: k = 50, ε = 2, δ′ = 1e-3."""
    count, epsilon, slack = 50, 2.0, 1e-3
    printed = epsilon * math.sqrt(2 * count * math.log(1 / slack)) + count * math.expm1(epsilon) / (
        math.exp(epsilon) + 1
    )
    exact = repeat_optimal(PureDP(epsilon), count=count).epsilon_bracket(slack).lower
    assert printed == pytest.approx(90.64, abs=0.01)
    assert exact == pytest.approx(99.16, abs=0.01)
    assert printed < exact
    assert float(advanced_tanh(PureDP(epsilon), count=count, slack=slack).epsilon) >= exact
    # 50 runs of randomized response really have 43 times δ′ beyond the printed ε.
    assert repeat_optimal(PureDP(epsilon), count=count).delta_bracket(printed).lower > 42 * slack


def test_002_the_divergence_of_laplace_is_of_second_order() -> None:
    """Printed: ε + e^{−ε} − 1 ≈ O(ε), so Laplace would need ε = 1/k. It is ε²/2, and Laplace composes like √k."""
    (loss,) = losses(Laplace(100))
    assert loss.mean == pytest.approx(0.01**2 / 2, rel=0.01)
    composed = account(Laplace(100) * 10_000).epsilon(1e-6)
    assert composed == pytest.approx(4.8762575794, rel=1e-6)
    assert composed < 0.05 * float(repeat_basic(PureDP(0.01), count=10_000).epsilon)


def test_002_the_trade_off_function_is_not_negative() -> None:
    """Printed: f = max(1 − δ − e^ε α, e^{−ε}(1 − δ − α)) without the 0."""
    epsilon, delta, alpha = 1.0, 0.1, 0.95
    printed = max(1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha))
    assert printed < 0
    assert approx_to_fdp(ApproxDP(epsilon, delta)).tradeoff(alpha) == 0


def test_002_f_dp_allows_equality() -> None:
    """Printed: "strictly above f". Randomized response meets its own f everywhere."""
    f = pure_to_fdp(PureDP(1)).tradeoff
    corner = Fraction(1 / (1 + math.e))
    response = TradeOff([(0, 1), (corner, corner), (1, 0)])
    assert response >= f
    assert response(0) == f(0) == 1
    assert float(response(0.1)) == pytest.approx(float(f(0.1)), rel=1e-12)


def test_002_gdp_bounds_tests_not_ratios() -> None:
    """Printed: a ratio of normal densities at every output. Post-processing keeps GDP and breaks that."""
    mu = 1.0
    # Report only whether the output exceeds 3: GDP by post-processing.
    alpha, power = 1 - ndtr(3), 1 - ndtr(3 - mu)
    assert 1 - power >= gdp_to_tradeoff(GDP(1), alpha=alpha) * (1 - 1e-12)
    # The answer 1 ("yes") is that many times likelier; the densities at t = 1 allow a factor of 1.65 only.
    assert power / alpha > 16 > math.exp(mu * 1 - mu**2 / 2)


def test_002_the_limit_theorem() -> None:
    """Printed: μ = 2√k·κ₁/(κ₁ − κ₂). It must give √k·m for k Gaussians of m."""
    m, count = 0.3, 7
    moments = gaussian_moments(m)
    printed = 2 * math.sqrt(count) * moments.kl / (moments.kl - moments.second)
    assert printed != pytest.approx(m * math.sqrt(count), rel=0.5)
    assert estimate_mu([(moments, count)]) == pytest.approx(m * math.sqrt(count))


def test_002_the_corollary_has_a_root_of_two() -> None:
    """Printed without √2, the root over the first term only; see test_clt for the limit of the operator."""
    step, share = 1.0, 0.01 * math.sqrt(1000)
    bracket = math.exp(step**2) * ndtr(1.5 * step) + 3 * ndtr(-0.5 * step) - 2
    printed = share * math.sqrt(bracket)
    ours = estimate_dpsgd_batch_mu(batch=1, size=100, mu=1, steps=1000)
    assert ours == pytest.approx(math.sqrt(2) * printed)


def test_002_subsampling_has_an_adjacency() -> None:
    """Printed without one. A sum on [0, 1] under Poisson sampling and REPLACE is far worse than clipped vectors are."""
    bounded_sum = account(Gaussian(1, 1, REPLACE, reach=1).sampled(rate=0.01)).delta(0.5)
    clipped = account(Gaussian(1, 1, REPLACE, reach=Fraction(1, 2)).sampled(rate=0.01)).delta(0.5)
    assert bounded_sum == pytest.approx(2.2e-7, rel=0.02)
    assert clipped == pytest.approx(1.9e-19, rel=0.03)
    with pytest.raises(UnitMismatch):
        sample_batch(PureDP(1), batch=1, size=10)


# 003


def test_003_approximate_privacy_is_about_sets() -> None:
    """Printed pointwise. Two disjoint uniform laws on n values pass with δ = 1/n at every point and hide nothing."""
    n = 100
    p = {i: Fraction(1, n) for i in range(n)}
    q = {i: Fraction(1, n) for i in range(n, 2 * n)}
    assert all(p.get(i, Fraction(0)) <= q.get(i, Fraction(0)) + Fraction(1, n) for i in range(2 * n))
    everything = sum(
        (max(Fraction(0), p.get(i, Fraction(0)) - q.get(i, Fraction(0))) for i in range(2 * n)), Fraction(0)
    )
    assert everything == 1


@pytest.mark.parametrize(("epsilon", "factor"), [(10, 2.3), (20, 150)])
def test_003_the_classic_gaussian_needs_a_small_epsilon(epsilon: float, factor: float) -> None:
    """Printed: σ = √(2 ln(1.25/δ))/ε without ε < 1."""
    delta = 1e-5
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert account(Gaussian(sigma)).delta(epsilon) == pytest.approx(factor * delta, rel=0.1)
    small = math.sqrt(2 * math.log(1.25 / delta)) / 0.5
    assert account(Gaussian(small)).delta(0.5) < delta


def test_003_group_privacy_is_a_consequence_and_its_delta_is_loose() -> None:
    """Printed: k·e^{kε}·δ."""
    printed = 4 * math.exp(4 * 0.5) * 1e-6
    ours = float(for_group(ApproxDP(0.5, 1e-6), 4).delta)
    assert ours == pytest.approx(9.8487e-6, rel=1e-4)
    assert printed > 2.9 * ours


def test_003_noisy_max_under_replace_loses_twice() -> None:
    """Printed: Laplace(1/ε) on each count is ε-DP. Replacing moves one count up and another down."""
    epsilon, gap = 1.0, 20.0

    def wins(lead: float) -> float:
        # P[X > x] for X the difference of two Laplace(1/ε): e^{−εx}(2 + εx)/4.
        return math.exp(-epsilon * lead) * (2 + epsilon * lead) / 4

    loss = math.log(wins(gap) / wins(gap + 2))
    assert loss > 1.9 * epsilon


def test_003_the_exponential_mechanisms_epsilon_is_its_guarantee() -> None:
    """Printed: weights e^{εu/Δ}, called ε. Two candidates, utilities that move apart by Δ each: the loss nears 2ε."""
    epsilon = 1.0

    def chance(first: float, second: float, factor: float) -> float:
        return 1 / (1 + math.exp(factor * (second - first)))

    printed = math.log(chance(-20, 0, epsilon) / chance(-21, 1, epsilon))
    ours = math.log(chance(-20, 0, epsilon / 2) / chance(-21, 1, epsilon / 2))
    assert printed > 1.99 * epsilon
    assert ours <= epsilon
    assert account(ExponentialMechanism(1)).epsilon(0) <= 1 + 1e-9
    assert exponential_mechanism_zcdp(epsilon=1).rho == Fraction(1, 8)


# 004


@pytest.mark.parametrize("n", [2, 3, 5])
def test_004_the_mean_moves_by_one_over_n(n: int) -> None:
    """Printed: 2/n for values in [0, 1] under swap."""
    values = [0, Fraction(1, 2), 1]
    worst = max(
        abs(Fraction(sum(data[:-1]) + data[-1]) / n - Fraction(sum(data[:-1]) + other) / n)
        for data in itertools.product(values, repeat=n)
        for other in values
    )
    assert worst == Fraction(1, n)


def test_004_divergences_do_not_decrease() -> None:
    """Printed: nonincreasing in α. And α → 1 is KL under P, not under Q."""
    orders = [1.001, 1.5, 2, 8, 100]
    assert [laplace_rdp(a, epsilon=1) for a in orders] == sorted(laplace_rdp(a, epsilon=1) for a in orders)
    (loss,) = losses(RandomizedResponse(3, 4))
    truth, lie = math.exp(3) / (math.exp(3) + 3), 1 / (math.exp(3) + 3)
    # A pair whose two divergences differ: the first answer against a law that is not its mirror image.
    p, q = (truth, 1 - truth), (0.5, 0.5)
    forward = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    backward = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
    near_one = math.log(sum(a**1.000001 * b**-0.000001 for a, b in zip(p, q, strict=True))) / 1e-6
    assert near_one == pytest.approx(forward, rel=1e-4)
    assert abs(forward - backward) > 0.05
    assert loss.mean == pytest.approx((truth - lie) * 3, rel=1e-9)


def test_004_rdp_is_in_mironovs_scale() -> None:
    """Printed: "(α, ρ)-RDP" for D_α ≤ αρ. Reading that ρ as Mironov's ε would understate the cost α-fold."""
    assert zcdp_to_rdp(ZCDP(0.5), order=8).epsilon == 4
    right = rdp_to_approx(RDP(8, 4), delta=1e-6).epsilon
    mistaken = rdp_to_approx(RDP(8, 0.5), delta=1e-6).epsilon
    assert float(right) == pytest.approx(float(mistaken) + 3.5, rel=1e-12)


def test_004_uneven_composition_exists() -> None:
    """Printed: there is no straightforward uneven version."""
    parts = [PureDP(Fraction(e, 100)) for e in (1, 3, 2, 5)] * 50
    found = compose_advanced(parts, slack=1e-6).epsilon
    assert found < sum(part.epsilon for part in parts)
    assert found >= compose_optimal(parts).epsilon_bracket(1e-6).lower


def test_004_equation_11_has_a_precondition() -> None:
    """Printed for all δ: α = 3 ln(1/δ)/ε, ρ = ε/(2α) gives (ε, δ). It needs ln(1/δ) ≥ ε."""

    def reached(epsilon: float, delta: float) -> float:
        order = 3 * math.log(1 / delta) / epsilon
        rho = epsilon / (2 * order)
        return float(rdp_to_approx_classic(RDP(order, order * rho), delta=delta).epsilon)

    assert reached(1, 1e-6) <= 1
    assert reached(2, math.exp(-2)) <= 2 * (1 + 1e-12)
    assert reached(2, math.exp(-1)) > 2


def test_004_pure_rdp_is_bounded_by_epsilon() -> None:
    """Order ∞ is max-divergence: D_α rises to ε and no further."""
    assert pure_rdp(1e6, epsilon=1) <= 1
    assert pure_rdp(1e6, epsilon=1) > 0.99999
