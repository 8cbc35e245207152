"""The exact arrows against mpmath, and their rounding: never below the truth, never far above it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import conversions as c
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff
from deniable.numerics import normal


@pytest.fixture(autouse=True, scope="module")
def _digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


epsilons = st.floats(1e-9, 40)


def just_above(found: object, truth: mp.mpf, *, rel: float = 1e-9) -> None:
    """The number promised is not below the truth and not far above it."""
    got = mp.mpf(found.numerator) / found.denominator if isinstance(found, Fraction) else mp.mpf(found)  # type: ignore[arg-type]
    assert got >= truth * (1 - mp.mpf("1e-50")), (found, truth)
    assert got <= truth * (1 + mp.mpf(rel)) + mp.mpf("1e-300"), (found, truth)


def gaussian_delta(mu: float, epsilon: float) -> mp.mpf:
    """Balle–Wang, with enough digits for the cancellation."""
    with mp.workdps(120):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.erfc((e / m - m / 2) / mp.sqrt(2)) / 2 - mp.exp(e) * mp.erfc((e / m + m / 2) / mp.sqrt(2)) / 2


@given(epsilons, st.floats(0, 1))
def test_pure_profile_is_that_of_randomized_response(epsilon: float, share: float) -> None:
    at = share * epsilon
    e, a = mp.mpf(str(epsilon)), mp.mpf(str(at))
    truth = max(mp.mpf(0), (mp.exp(e) - mp.exp(a)) / (1 + mp.exp(e)))
    just_above(c.pure_to_approx(PureDP(epsilon), epsilon=at).delta, truth)
    bracket = c.pure_to_profile(PureDP(epsilon)).delta_bracket(at)
    assert bracket.lower <= truth <= bracket.upper <= truth + mp.mpf("1e-13")


@given(epsilons, st.floats(1e-12, 0.99), st.floats(0, 0.5))
def test_the_profile_of_a_claim_inverts(epsilon: float, wanted: float, fail: float) -> None:
    profile = c.approx_to_profile(ApproxDP(epsilon, fail))
    bracket = profile.epsilon_bracket(wanted)
    if wanted < fail:
        assert bracket.upper == math.inf
        return
    e, d = mp.mpf(str(epsilon)), mp.mpf(str(fail))
    share = (mp.mpf(str(wanted)) - d) / (1 - d)
    inside = mp.exp(e) * (1 - share) - share
    truth = max(mp.mpf(0), mp.log(inside)) if inside > 1 else mp.mpf(0)
    assert bracket.lower <= truth + mp.mpf("1e-50")
    assert bracket.upper >= truth - mp.mpf("1e-50")
    assert bracket.width <= 1e-9 * (1 + epsilon)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.1, 0.5, 1, 3, 40, 800])
@pytest.mark.parametrize("order", [1.001, 1.5, 2, 5, 64, 1e6])
def test_pure_to_rdp_is_the_divergence_of_randomized_response(epsilon: float, order: float) -> None:
    with mp.workdps(80):
        e, a = mp.mpf(str(epsilon)), mp.mpf(str(order))
        p = 1 / (1 + mp.exp(-e))
        q = 1 / (1 + mp.exp(e))
        truth = mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        sinh = mp.log((mp.sinh(a * e) - mp.sinh((a - 1) * e)) / mp.sinh(e)) / (a - 1)
        assert mp.almosteq(truth, sinh, rel_eps=mp.mpf("1e-40"))
        just_above(c.pure_to_rdp(PureDP(epsilon), order=order).epsilon, truth, rel=1e-8)
        assert c.pure_to_rdp(PureDP(epsilon), order=order) <= c.pure_to_rdp_simple(PureDP(epsilon), order=order)


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 0.3, 1, 5, 30, 800])
def test_pure_to_zcdp_holds_at_every_order_and_is_tight_at_one(epsilon: float) -> None:
    rho = c.pure_to_zcdp(PureDP(epsilon)).rho
    just_above(rho, mp.mpf(str(epsilon)) * mp.tanh(mp.mpf(str(epsilon)) / 2))
    with mp.workdps(80):
        e = mp.mpf(str(epsilon))
        p, q = 1 / (1 + mp.exp(-e)), 1 / (1 + mp.exp(e))
        for beyond in ("1e-8", "1e-3", "0.1", "1", "10", "1000"):
            a = 1 + mp.mpf(beyond)
            divergence = mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
            assert divergence <= a * mp.mpf(rho.numerator) / rho.denominator
    assert c.pure_to_zcdp(PureDP(epsilon)) <= c.pure_to_zcdp_classic(PureDP(epsilon))
    assert c.pure_to_tcdp(PureDP(epsilon), omega=9).rho == rho


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 0.999, 1, 10, 800])
def test_pure_to_gdp_touches_the_corner(epsilon: float) -> None:
    mu = c.pure_to_gdp(PureDP(epsilon)).mu
    with mp.workdps(400):
        corner = 1 / (1 + mp.exp(mp.mpf(str(epsilon))))
        # Φ(−μ/2) is the corner of G_μ on its diagonal; a larger μ lies lower.
        assert mp.erfc(mp.mpf(mu.numerator) / mu.denominator / 2 / mp.sqrt(2)) / 2 <= corner
        smaller = mp.mpf(mu.numerator) / mu.denominator * (1 - mp.mpf("1e-9"))
        assert mp.erfc(smaller / 2 / mp.sqrt(2)) / 2 > corner


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 3, 20, 100])
def test_laplace_to_gdp_lies_below_the_whole_curve(epsilon: float) -> None:
    mu = float(c.laplace_to_gdp(scale=1, sensitivity=epsilon).mu)
    with mp.workdps(120):
        for step in range(101):
            # α = e^{−s}/2, β = e^{s−ε}/2 runs through the curved part, ends included.
            s = mp.mpf(epsilon) * step / 100
            alpha, beta = mp.exp(-s) / 2, mp.exp(s - mp.mpf(epsilon)) / 2
            z = mp.sqrt(2) * mp.erfinv(1 - 2 * alpha)
            assert mp.erfc(-(z - mp.mpf(mu)) / mp.sqrt(2)) / 2 <= beta * (1 + mp.mpf("1e-12"))
    assert mu < float(c.pure_to_gdp(PureDP(epsilon)).mu)


@settings(max_examples=60)
@given(st.floats(-6, 1), st.floats(-3, 30))
def test_gaussian_delta_between_its_ends(log_mu: float, z: float) -> None:
    mu = 10**log_mu
    epsilon = max(0.0, mu * mu / 2 + z * mu)
    bracket = normal.delta_bracket(mu, epsilon)
    truth = gaussian_delta(mu, epsilon)
    assert bracket.lower <= truth <= bracket.upper
    assert bracket.upper - bracket.lower <= 1e-8 * bracket.upper
    promise = c.gdp_to_approx(GDP(mu), epsilon=epsilon)
    assert mp.mpf(promise.delta.numerator) / promise.delta.denominator >= truth * (1 - mp.mpf("1e-12"))


@pytest.mark.parametrize("alpha", [0, 1e-300, 1e-9, 0.05, 0.5, 0.999, 1])
@pytest.mark.parametrize("mu", [1e-3, 1, 3])
def test_gaussian_trade_off(mu: float, alpha: float) -> None:
    with mp.workdps(400):
        found = c.gdp_to_tradeoff(GDP(mu), alpha=alpha)
        if alpha in (0, 1):
            assert found == 1 - alpha
            return
        z = mp.findroot(lambda t: mp.erfc(t / mp.sqrt(2)) / 2 / mp.mpf(str(alpha)) - 1, -_quantile(alpha))
        truth = mp.erfc(-(z - mp.mpf(str(mu))) / mp.sqrt(2)) / 2
        assert truth * (1 - mp.mpf("1e-11")) <= found <= truth


def _quantile(alpha: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(alpha))


def test_a_claimed_gaussian() -> None:
    mu = c.gaussian_claim_to_gdp(ApproxDP(0.21, 1e-5)).mu
    assert float(mu) == pytest.approx(0.06414141278, rel=1e-9)
    assert gaussian_delta(float(mu), 0.21) <= 1e-5
    assert c.gaussian_claim_to_gdp(ApproxDP(1, 0)).mu == 0
    assert c.gaussian_to_gdp(scale=2, sensitivity=3).mu == Fraction(3, 2)


@given(st.floats(0, 30), st.floats(0, 0.9))
def test_approximate_trade_off_and_total_variation(epsilon: float, delta: float) -> None:
    claim = ApproxDP(epsilon, delta)
    e, d = mp.mpf(str(epsilon)), mp.mpf(str(delta))
    just_above(c.approx_to_total_variation(claim), (mp.expm1(e) + 2 * d) / (mp.exp(e) + 1))
    f = c.approx_to_fdp(claim).tradeoff
    for alpha in (0, 0.01, 0.3, 0.95):
        a = mp.mpf(str(alpha))
        truth = max(mp.mpf(0), 1 - d - mp.exp(e) * a, mp.exp(-e) * (1 - d - a))
        found = f(alpha)
        assert truth - mp.mpf("1e-10") <= mp.mpf(found.numerator) / found.denominator <= truth + mp.mpf("1e-50")
    assert c.fdp_to_approx(c.approx_to_fdp(claim), delta=delta).epsilon >= claim.epsilon
    assert float(c.fdp_to_approx(c.approx_to_fdp(claim), delta=delta).epsilon) <= epsilon + 1e-9


def test_there_and_back_by_the_conjugate() -> None:
    """A piecewise linear f comes back from its own curve when asked at its own slopes."""
    f = TradeOff.of_lines([(2, 0.01), (8, 0.001), (64, 0)])
    profile = c.fdp_to_profile(FDP(f))
    back = c.profile_to_fdp(profile, epsilons=[math.log(2), math.log(8), math.log(64)]).tradeoff
    for alpha in (0, 0.001, 0.01, 0.2, 0.5, 0.9):
        assert float(f(alpha)) - 1e-10 <= float(back(alpha)) <= float(f(alpha)) + 1e-18
    assert c.fdp_to_pure(FDP(f)).epsilon == pytest.approx(math.log(64))
    assert c.fdp_to_total_variation(FDP(f)) == pytest.approx(float(f.advantage))
    assert c.fdp_to_tradeoff(FDP(f), alpha=0.2) == pytest.approx(float(f(0.2)))


def test_trade_off_of_a_gaussian_from_its_lines() -> None:
    f = c.gdp_to_fdp(GDP(1), epsilons=[i / 20 for i in range(160)])
    assert all(
        0 <= c.gdp_to_tradeoff(GDP(1), alpha=a) - float(f.tradeoff(a)) < 1e-3 for a in (1e-4, 0.01, 0.3, 0.7, 0.99)
    )
    assert c.fdp_to_approx(f, delta=1e-5).epsilon == pytest.approx(4.3771780956812, rel=1e-3)
    assert c.fdp_to_approx(f, delta=1e-5).epsilon >= 4.3771780956812
    assert c.profile_to_fdp(c.gdp_to_profile(GDP(1))).tradeoff(0.05) <= c.gdp_to_tradeoff(GDP(1), alpha=0.05)


@given(st.integers(1, 20), st.integers(1, 20))
def test_fdp_to_gdp_is_the_smallest(first: int, second: int) -> None:
    f = FDP(TradeOff.of_lines([(1 + first / 5, 0), (1 + (first + second) / 5, 0)]))
    mu = c.fdp_to_gdp(f).mu
    corners = [(a, b) for a, b in f.tradeoff.corners if 0 < a < 1 and b > 0]
    assert all(c.gdp_to_tradeoff(GDP(mu), alpha=a) <= float(b) for a, b in corners)
    less = GDP(mu * (1 - Fraction(1, 10**9)))
    assert any(c.gdp_to_tradeoff(less, alpha=a) > float(b) * (1 - 1e-12) for a, b in corners)


EXTREMES: dict[str, Callable[[], Any]] = {
    "pure → profile, ε = 800": lambda: c.pure_to_profile(PureDP(800)).delta(799.5),
    "pure → f, ε = 800": lambda: c.pure_to_fdp(PureDP(800)).tradeoff(1e-300),
    "pure → GDP, ε = 1e-300": lambda: c.pure_to_gdp(PureDP(1e-300)).mu,
    "approx → TV": lambda: c.approx_to_total_variation(ApproxDP(800, 1e-300)),
    "approx → profile": lambda: c.approx_to_profile(ApproxDP(800, 1e-300)).epsilon(1e-299),
    "GDP, scale 1e-3": lambda: c.gdp_to_approx(c.gaussian_to_gdp(scale=1e-3), delta=1e-300).epsilon,
    "GDP, μ = 1e-12": lambda: c.gdp_to_approx(GDP(1e-12), delta=1e-300).epsilon,
    "GDP, δ at ε = 800": lambda: c.gdp_to_approx(GDP(1e-3), epsilon=800).delta,
    "zCDP, ρ = 5e5": lambda: c.zcdp_to_approx(ZCDP(5e5), delta=1e-300).epsilon,
    "zCDP, ρ = 1e-24": lambda: c.zcdp_to_approx(ZCDP(1e-24), delta=1e-300).epsilon,
    "zCDP, δ near 1": lambda: c.zcdp_to_approx(ZCDP(1e-3), delta=1 - 1e-12).epsilon,
    "approx zCDP": lambda: c.approx_zcdp_to_approx(ApproxZCDP(1, 1e-300), delta=1.1e-300).epsilon,
    "tCDP": lambda: c.tcdp_to_approx(TCDP(1, 1 + 1e-9), delta=1e-300).epsilon,
    "RDP, order 1 + 1e-9": lambda: c.rdp_to_approx(RDP(1 + 1e-9, 1), delta=1e-300).epsilon,
    "RDP, order 1e12": lambda: c.rdp_to_approx(RDP(1e12, 1), delta=1e-300).epsilon,
    "group of 1e12": lambda: c.for_group(ApproxDP(1e-12, 1e-300), 10**12).delta,
    "group at ε = 800": lambda: c.for_group(ApproxDP(800, 1e-300), 10**12).epsilon,
}


@pytest.mark.parametrize("compute", EXTREMES.values(), ids=EXTREMES.keys())
def test_extreme_legal_input_gets_a_number(compute: Callable[[], Any]) -> None:
    found = float(compute())
    assert math.isfinite(found)
    assert found >= 0
