"""The theorems in exact fractions: never below the truth, close to it at every size, against mpmath."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.conversions import formulas

F = Fraction

epsilons = st.fractions(min_value=F(1, 10**9), max_value=60) | st.sampled_from(
    [F(1, 10**25), F(500), F(9000), F(10**6)]
)
orders = st.fractions(min_value=F(101, 100), max_value=300) | st.sampled_from([1 + F(1, 10**9), F(10**7), F(2**80)])
shares = st.fractions(min_value=F(1, 10**12), max_value=1) | st.just(F(1, 10**70))


@pytest.fixture(autouse=True, scope="module")
def _digits() -> Iterator[None]:
    with mp.workdps(200):
        yield


def real(x: Fraction) -> mp.mpf:
    return mp.mpf(x.numerator) / x.denominator


def just_above(found: Fraction, truth: mp.mpf, *, rel: str = "1e-18") -> None:
    assert truth * (1 - mp.mpf("1e-150")) <= real(found) <= truth * (1 + mp.mpf(rel)), (found, truth)


@given(epsilons, orders, st.sampled_from([2, 3, 100]))
def test_randomized_response_at_every_size(epsilon: Fraction, order: Fraction, categories: int) -> None:
    found = formulas.response_divergence(epsilon, order, categories=categories)
    e, a = real(epsilon), real(order)
    with mp.workdps(400):
        rare = mp.exp(-(2 * a - 1) * e) + (categories - 2) * mp.exp(-a * e)
        truth = e + (mp.log1p(rare) - mp.log1p((categories - 1) * mp.exp(-e))) / (a - 1)
    assert found <= epsilon
    if epsilon > F(1, 10**10):
        just_above(found, truth)
    else:
        just_above(found, truth, rel="1e-9" if categories == 2 else "100")


@given(epsilons)
def test_more_categories_cost_less(epsilon: Fraction) -> None:
    costs = [formulas.response_divergence(epsilon, F(8), categories=k) for k in (2, 3, 50)]
    assert costs == sorted(costs, reverse=True)


@given(epsilons, shares)
def test_a_mixture_at_every_size(exponent: Fraction, share: Fraction) -> None:
    x, q = real(exponent), real(share)
    truth = x + mp.log(q + (1 - q) * mp.exp(-x)) if exponent > 1 else mp.log1p(q * mp.expm1(x))
    just_above(formulas.log_mixture(exponent, share), truth)
    assert formulas.amplified_epsilon(exponent, share) <= exponent


@settings(max_examples=50)
@given(epsilons, st.fractions(min_value=F(1, 10**30), max_value=F(1, 10)), st.integers(1, 1000))
def test_a_group_at_every_size(epsilon: Fraction, delta: Fraction, size: int) -> None:
    found = formulas.group_delta(epsilon, delta, size)
    if size * epsilon > 8000:
        assert found == 1
        return
    with mp.workdps(4000 if epsilon > 1 else 400):
        truth = real(delta) * mp.expm1(size * real(epsilon)) / mp.expm1(real(epsilon))
    just_above(found, min(truth, mp.mpf(1)), rel="1e-15")
    assert formulas.group_delta(F(0), delta, size) == min(delta * size, 1)
    assert formulas.group_delta(epsilon, F(0), size) == 0
