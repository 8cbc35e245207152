"""The central limit estimates: the constants, and that they are estimates."""

from __future__ import annotations

import math

import pytest

from deniable.conversions import gdp_to_fdp, pure_to_fdp
from deniable.errors import InvalidArgument
from deniable.guarantees import GDP, PureDP, TradeOff
from deniable.textbook import (
    berry_esseen_gap,
    clt,
    estimate_dpsgd_batch_mu,
    estimate_dpsgd_mu,
    estimate_epsilon,
    estimate_mu,
    estimate_pure_mu,
    gaussian_moments,
    moments_of,
    repeat_optimal,
)


def test_a_gaussian_is_its_own_limit() -> None:
    assert estimate_mu([(gaussian_moments(0.3), 7)]) == pytest.approx(0.3 * math.sqrt(7), rel=1e-14)
    assert estimate_mu([(gaussian_moments(3), 1), (gaussian_moments(4), 1)]) == pytest.approx(5, rel=1e-14)
    # The moments of its supporting lines come close to those of the curve.
    lines = moments_of(gdp_to_fdp(GDP(1), epsilons=[i / 20 for i in range(120)]).tradeoff)
    assert math.isinf(lines.kl)  # finitely many lines leave f(0) < 1
    assert moments_of(pure_to_fdp(PureDP(1)).tradeoff).kl == pytest.approx(math.tanh(0.5), rel=1e-12)
    assert moments_of(pure_to_fdp(PureDP(1)).tradeoff).second == pytest.approx(1, rel=1e-12)


def test_randomized_response_tends_to_epsilon_root_k() -> None:
    assert estimate_pure_mu(epsilon=0.01, count=10_000) == pytest.approx(1, rel=1e-4)
    by_lines = estimate_mu([(moments_of(pure_to_fdp(PureDP(0.5)).tradeoff), 9)])
    assert estimate_pure_mu(epsilon=0.5, count=9) == pytest.approx(by_lines, rel=1e-12)
    assert estimate_pure_mu(epsilon=0, count=9) == 0
    assert 1e170 < estimate_pure_mu(epsilon=800, count=9) < math.inf
    assert math.isinf(estimate_pure_mu(epsilon=2000, count=9))


def test_estimates_fall_short_of_the_truth_at_small_delta() -> None:
    """Theory sheet: PLD 3.141 against CLT 2.510, and 4.655 against 1.420. Why these are called estimates."""
    first = estimate_epsilon(estimate_dpsgd_mu(rate=0.01, noise_multiplier=0.8, steps=1000), delta=1e-5)
    second = estimate_epsilon(estimate_dpsgd_mu(rate=0.001, noise_multiplier=0.5, steps=2000), delta=1e-6)
    assert (round(first, 3), round(second, 3)) == (2.510, 1.420)
    # Where the exact curve is at hand: four steps of randomized response at δ = 0.05.
    truth = repeat_optimal(PureDP(1), count=4).epsilon_bracket(0.05).lower
    assert estimate_epsilon(estimate_pure_mu(epsilon=1, count=4), delta=0.05) != pytest.approx(truth, rel=0.05)
    gap = berry_esseen_gap([(moments_of(pure_to_fdp(PureDP(0.1)).tradeoff), 100)])
    assert gap > 0.05  # no statement about δ below 5 % follows from the theorem


def test_constants() -> None:
    assert estimate_dpsgd_batch_mu(batch=1, size=1, mu=1, steps=1) == pytest.approx(1.7101, abs=5e-5)
    assert estimate_dpsgd_mu(rate=1, noise_multiplier=1, steps=1) == pytest.approx(1.3108, abs=5e-5)
    assert math.isinf(estimate_dpsgd_mu(rate=1, noise_multiplier=1e-3, steps=1))
    assert math.isinf(estimate_dpsgd_batch_mu(batch=1, size=1, mu=1e3, steps=1))
    assert math.isinf(estimate_epsilon(math.inf, delta=0.1))
    assert estimate_epsilon(0, delta=0.1) == 0


def test_the_batch_constant_is_the_limit_of_the_operator() -> None:
    """2kl/√(κ₂ − kl²) of C_p(G_1) tends to p·1.7101 as p → 0: the √2 that note 002 leaves out."""
    from scipy.integrate import quad

    # C_p(G_μ) has −f′ = 1 − p + p·e^{μt − μ²/2} at a test with threshold t, until its slope reaches 1.
    p, mu = 1e-4, 1.0
    edge = mu / 2

    def density(t: float) -> float:
        return math.exp(-t * t / 2) / math.sqrt(2 * math.pi)

    def slope(t: float) -> float:
        return math.log1p(p * math.expm1(mu * t - mu * mu / 2))

    # Above the edge f′ steeper than −1 (weights under P), and its mirror image (weights under the mixture).
    kl = -quad(lambda t: density(t) * slope(t), edge, 12)[0]
    kl += quad(lambda t: ((1 - p) * density(t) + p * density(t - mu)) * slope(t), edge, 12)[0]
    second = quad(lambda t: density(t) * slope(t) ** 2, edge, 12)[0]
    second += quad(lambda t: ((1 - p) * density(t) + p * density(t - mu)) * slope(t) ** 2, edge, 12)[0]
    constant = 2 * kl / math.sqrt(second - kl * kl) / p
    assert constant == pytest.approx(estimate_dpsgd_batch_mu(batch=1, size=1, mu=1, steps=1), rel=1e-3)


def test_estimates_are_named_so() -> None:
    """Whatever returns a μ or an ε here says "estimate" in its name."""
    public = [name for name in vars(clt) if name.islower() and callable(getattr(clt, name)) and name[0] != "_"]
    ours = [name for name in public if getattr(clt, name).__module__ == clt.__name__]
    assert set(ours) == {
        "berry_esseen_gap", "estimate_dpsgd_batch_mu", "estimate_dpsgd_mu", "estimate_epsilon", "estimate_mu",
        "estimate_pure_mu", "gaussian_moments", "moments_of",
    }  # fmt: skip


def test_bad_input() -> None:
    with pytest.raises(InvalidArgument, match="parts"):
        estimate_mu([])
    with pytest.raises(InvalidArgument, match="mu"):
        estimate_epsilon(math.nan, delta=0.1)
    with pytest.raises(InvalidArgument, match="batch"):
        estimate_dpsgd_batch_mu(batch=3, size=2, mu=1, steps=1)
    with pytest.raises(InvalidArgument, match="rate"):
        estimate_dpsgd_mu(rate=2, noise_multiplier=1, steps=1)
    assert math.isinf(moments_of(TradeOff([(0, 0.9), (0.25, 0.25), (1, 0)])).kl)
    assert math.isinf(estimate_mu([(moments_of(TradeOff([(0, 0.9), (0.25, 0.25), (1, 0)])), 2)]))
