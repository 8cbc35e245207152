"""Rényi closed forms against mpmath integrals and sums, their composition, and the moments accountant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.conversions import gdp_to_approx, interpolated_rdp, pure_to_rdp, zcdp_to_approx
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.guarantees import GDP, RDP, ZCDP, PureDP
from deniable.textbook import (
    ORDERS,
    best_order,
    compose_rdp,
    gaussian_rdp,
    laplace_rdp,
    log_moment,
    moments_accountant,
    pure_rdp,
    randomized_response_rdp,
    rdp_curve_of,
    repeat_rdp,
    sampled_gaussian_rdp,
)
from deniable.units import Relation
from tests.reference.values import Case, cases


@pytest.fixture(autouse=True, scope="module")
def _digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def sampled_truth(order: float, rate: float, scale: float) -> mp.mpf:
    """∫ N(0, s²)[(1 + w)^α − 1 − αw] by adaptive quadrature, 40 digits."""
    a, q, s = mp.mpf(str(order)), mp.mpf(str(rate)), mp.mpf(str(scale))

    def integrand(x: mp.mpf) -> mp.mpf:
        w = q * mp.expm1((2 * x - 1) / (2 * s * s))
        return mp.exp(-x * x / (2 * s * s)) * ((1 + w) ** a - 1 - a * w) / (s * mp.sqrt(2 * mp.pi))

    turn = mp.mpf("0.5") + s * s * mp.log(1 / q)
    breaks = sorted({-40 * s, -10 * s, -3 * s, 0, 3 * s, 10 * s, a - 10 * s, a - 3 * s, a, a + 3 * s, a + 40 * s, turn})
    return mp.log1p(mp.quad(integrand, breaks)) / (a - 1)


def just_above(found: float, truth: mp.mpf, *, rel: float = 1e-9) -> None:
    assert truth * (1 - mp.mpf("1e-30")) <= found <= truth * (1 + mp.mpf(rel))


@pytest.mark.parametrize("case", cases(family="subsampled_gaussian_rdp"), ids=str)
def test_sampled_gaussian_reference(case: Case) -> None:
    found = sampled_gaussian_rdp(
        case.part["alpha"], rate=Fraction(case.part["q"]), noise_multiplier=Fraction(case.part["noise_multiplier"])
    )
    assert case.exact_value <= Fraction(found) <= case.exact_value * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize(
    ("order", "rate", "scale"),
    [(1.5, 0.01, 1), (2.5, 0.01, 1), (1.01, 0.1, 0.5), (7.3, 0.1, 0.7), (33.5, 0.01, 1), (1.05, 1e-9, 1),
     (10.25, 0.5, 3), (1.5, 0.999999, 1), (60.5, 0.001, 2), (1.2, 0.001, 30), (3.5, 0.2, 0.05)],
)  # fmt: skip
def test_sampled_gaussian_at_any_order(order: float, rate: float, scale: float) -> None:
    just_above(sampled_gaussian_rdp(order, rate=rate, noise_multiplier=scale), sampled_truth(order, rate, scale))


@pytest.mark.parametrize(("order", "rate", "scale"), [(2, 0.1, 1.2), (5, 0.3, 2), (3, 1e-9, 0.5)])
def test_the_integral_meets_the_sum_at_whole_orders(order: int, rate: float, scale: float) -> None:
    """An order a hair off a whole one goes through the integral."""
    near = sampled_gaussian_rdp(order + 1e-9, rate=rate, noise_multiplier=scale)
    assert near == pytest.approx(sampled_gaussian_rdp(order, rate=rate, noise_multiplier=scale), rel=1e-7)


@settings(max_examples=30)
@given(st.floats(1.01, 40), st.floats(0.001, 0.9), st.floats(0.4, 5))
def test_sampling_between_whole_orders_and_against_the_other_direction(order: float, rate: float, scale: float) -> None:
    found = sampled_gaussian_rdp(order, rate=rate, noise_multiplier=scale)
    assert 0 < found <= order / (2 * scale**2) * (1 + 1e-12)
    orders = sorted({max(2, math.floor(order)), math.ceil(order) + 1})
    known = [RDP(a, sampled_gaussian_rdp(a, rate=rate, noise_multiplier=scale)) for a in orders]
    assert found <= float(interpolated_rdp(known, order=order).epsilon) * (1 + 1e-9)
    # D_α(Q ‖ P), the direction "add", by a plain sum: Mironov–Talwar–Zhang say it is never the larger one.
    x = np.linspace(-12 * scale, order + 12 * scale, 20_001)
    log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * scale**2))
    density = np.exp(-(x**2) / (2 * scale**2)) / (scale * math.sqrt(2 * math.pi))
    other = math.log(float(np.sum(density * np.exp((1 - order) * log_ratio)) * (x[1] - x[0]))) / (order - 1)
    assert other <= found * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("beyond", ["1.2e-12", "3e-15", "1e-9", "1e-5"])
def test_sampling_at_orders_next_to_1(beyond: str) -> None:
    """There D_α is the relative entropy E (1 + w) ln(1 + w), and α − 1 has few digits as a float."""
    with mp.workdps(30):
        q = mp.mpf("0.3")

        def entropy(x: Any) -> Any:
            mixed = 1 - q + q * mp.exp(x - mp.mpf("0.5"))
            return mp.npdf(x) * mixed * mp.log(mixed)

        limit = mp.quad(entropy, [-20, -5, -1, 0, 1, 2, 5, 10, 20])
    found = sampled_gaussian_rdp(1 + Fraction(beyond), rate=0.3, noise_multiplier=1)
    assert limit <= found <= limit * (1 + 10 * float(beyond) + 2.0**-52 / float(beyond) + 1e-4)


def test_the_theory_sheets_numbers() -> None:
    found = [sampled_gaussian_rdp(a, rate=0.1, noise_multiplier=1.2) for a in (2, 3, 8)]
    assert found == pytest.approx([0.00997603559, 0.0167663666, 0.281802648], rel=1e-8)
    assert laplace_rdp(3, epsilon=1.5) == pytest.approx(1.2447715155929266, rel=1e-13)
    assert pure_rdp(2, epsilon=1) == pytest.approx(0.7353256640555194, rel=1e-13)
    assert pure_rdp(5, epsilon=0.5) == pytest.approx(0.3842426901671219, rel=1e-13)
    assert pure_rdp(1.5, epsilon=3) == pytest.approx(2.907776667127978, rel=1e-13)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 1.5, 40, 800])
@pytest.mark.parametrize("order", [1.0001, 1.5, 3, 64, 1e6])
def test_laplace_closed_form(epsilon: float, order: float) -> None:
    with mp.workdps(80):
        a, e = mp.mpf(str(order)), mp.mpf(str(epsilon))
        truth = mp.log(a / (2 * a - 1) * mp.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.exp(-a * e)) / (a - 1)
        just_above(laplace_rdp(order, epsilon=epsilon), truth, rel=1e-12)


def test_laplace_closed_form_is_the_integral() -> None:
    with mp.workdps(25):
        for order, epsilon in ((1.5, 0.7), (4, 2)):
            a, e = mp.mpf(order), mp.mpf(epsilon)
            moment = mp.quad(lambda x, a=a, e=e: mp.exp(-a * abs(x - e) - (1 - a) * abs(x)) / 2, [-60, 0, e, 60])
            assert laplace_rdp(order, epsilon=epsilon) == pytest.approx(float(mp.log(moment) / (a - 1)), rel=1e-10)


@pytest.mark.parametrize("categories", [2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 3, 60])
@pytest.mark.parametrize("order", [1.01, 2, 7.5, 300])
def test_randomized_response(categories: int, epsilon: float, order: float) -> None:
    with mp.workdps(60):
        a, e, k = mp.mpf(str(order)), mp.mpf(str(epsilon)), categories
        truth_p, lie = mp.exp(e) / (mp.exp(e) + k - 1), 1 / (mp.exp(e) + k - 1)
        moment = truth_p**a * lie ** (1 - a) + lie**a * truth_p ** (1 - a) + (k - 2) * lie
        just_above(
            randomized_response_rdp(order, epsilon=epsilon, categories=categories), mp.log(moment) / (a - 1), rel=1e-8
        )


def test_divergences_do_not_decrease_in_the_order() -> None:
    """Note 004 says "nonincreasing"."""
    orders = [1.1, 1.5, 2, 3, 5.5, 17, 64]
    for divergence in (
        lambda a: gaussian_rdp(a, mu=1),
        lambda a: laplace_rdp(a, epsilon=1),
        lambda a: pure_rdp(a, epsilon=1),
        lambda a: sampled_gaussian_rdp(a, rate=0.05, noise_multiplier=1),
    ):
        found = [divergence(a) for a in orders]
        assert found == sorted(found)
        assert found[0] < found[-1]


def test_composition_adds_and_the_best_order_is_near_the_bound() -> None:
    curve = rdp_curve_of(lambda a: gaussian_rdp(a, mu=Fraction(1, 10)))
    total = repeat_rdp(curve, count=100)
    assert compose_rdp([curve] * 3) == repeat_rdp(curve, count=3)
    order, promise = best_order(total, delta=1e-6)
    bound = zcdp_to_approx(ZCDP(0.5), delta=1e-6)
    assert bound.epsilon <= promise.epsilon <= bound.epsilon * Fraction(1001, 1000)
    assert order in ORDERS
    assert promise.epsilon >= gdp_to_approx(GDP(1), delta=1e-6).epsilon
    moments = moments_accountant(total, delta=1e-6)
    assert moments.epsilon >= promise.epsilon
    # Abadi et al. 2016, Theorem 2, by hand: the least (α(λ) + ln 1/δ)/λ over whole λ.
    by_hand = min((100 * lam * (lam + 1) / 200 + math.log(1e6)) / lam for lam in range(1, 64))
    assert float(moments.epsilon) == pytest.approx(by_hand, rel=1e-12)
    assert log_moment(RDP(9, 0.5)) == 4


def test_only_orders_in_common_are_composed() -> None:
    found = compose_rdp([[RDP(2, 1), RDP(3, 2)], [RDP(3, 1), RDP(4, 5)]])
    assert found == [RDP(3, 3)]


def test_extremes() -> None:
    values = [
        sampled_gaussian_rdp(1e6, rate=1e-9, noise_multiplier=1e-3),
        sampled_gaussian_rdp(1.5, rate=1e-9, noise_multiplier=1e-3),
        sampled_gaussian_rdp(1.0001, rate=1e-9, noise_multiplier=1e3),
        sampled_gaussian_rdp(2, rate=1, noise_multiplier=1e-3),
        laplace_rdp(1e6, epsilon=800),
        gaussian_rdp(1e12, mu=1e3),
        float(pure_to_rdp(PureDP(800), order=1 + 1e-9).epsilon),
    ]
    assert all(math.isfinite(v) and v > 0 for v in values)
    assert values[1] <= 750_000.01
    assert values[3] == pytest.approx(1e6)
    assert laplace_rdp(3, epsilon=0) == 0


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "order 1": (lambda: gaussian_rdp(1, mu=1), "order must be a Rényi order above 1"),
    "order nan": (lambda: laplace_rdp(math.nan, epsilon=1), "order"),
    "epsilon below 0": (lambda: laplace_rdp(2, epsilon=-1), "epsilon"),
    "one category": (lambda: randomized_response_rdp(2, epsilon=1, categories=1), "categories"),
    "rate above 1": (lambda: sampled_gaussian_rdp(2, rate=1.5, noise_multiplier=1), "rate"),
    "rate 0": (lambda: sampled_gaussian_rdp(2, rate=0, noise_multiplier=1), "rate"),
    "noise 0": (lambda: sampled_gaussian_rdp(2, rate=0.1, noise_multiplier=0), "noise_multiplier"),
    "no curves": (lambda: compose_rdp([]), "curves"),
    "no common order": (lambda: compose_rdp([[RDP(2, 1)], [RDP(3, 1)]]), "in common"),
    "no whole order": (lambda: moments_accountant([RDP(2.5, 1)], delta=0.1), "whole orders"),
    "count 0": (lambda: repeat_rdp([RDP(2, 1)], count=0), "count"),
}


@pytest.mark.parametrize(("compute", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input(compute: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        compute()
    assert said in str(caught.value)


def test_mixed_relations() -> None:
    with pytest.raises(UnitMismatch):
        compose_rdp([[RDP(2, 1)], [RDP(2, 1, relation=Relation.REPLACE)]])
