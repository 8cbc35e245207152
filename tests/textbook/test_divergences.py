"""Divergences of two laws, against closed forms, the accountant and each other."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from scipy import stats

from deniable.accounting.accountant import account
from deniable.errors import InvalidArgument
from deniable.events import Gaussian, Laplace
from deniable.textbook import (
    binary_test_divergence,
    gaussian_rdp,
    hockey_stick,
    kl_divergence,
    laplace_rdp,
    losses,
    random_record_laws,
    renyi_divergence,
    total_variation,
)

COIN, FAIR = {0: 0.9, 1: 0.1}, {0: 0.5, 1: 0.5}


def test_closed_forms() -> None:
    for mu, order in ((1, 2), (0.3, 1.5), (1, 9)):
        found = renyi_divergence(stats.norm(mu), stats.norm(0), order=order)
        assert found == pytest.approx(gaussian_rdp(order, mu=mu), rel=1e-9)
    assert renyi_divergence(stats.laplace(1.5), stats.laplace(0), order=3) == pytest.approx(
        laplace_rdp(3, epsilon=1.5), rel=1e-9
    )
    assert kl_divergence(stats.norm(1, 2), stats.norm(0, 2)) == pytest.approx(1 / 8, rel=1e-9)
    assert kl_divergence(stats.laplace(0.5), stats.laplace(0)) == pytest.approx(0.5 + math.expm1(-0.5), rel=1e-9)
    assert hockey_stick(stats.norm(1), stats.norm(0), epsilon=1) == pytest.approx(
        account(Gaussian(1)).delta(1), rel=1e-5
    )
    assert total_variation(stats.norm(1), stats.norm(0)) == pytest.approx(2 * stats.norm.cdf(0.5) - 1, rel=1e-5)
    assert hockey_stick(COIN, FAIR, epsilon=0.1) == pytest.approx(0.9 - 0.5 * math.exp(0.1))


def test_the_mean_loss_is_the_kl_divergence() -> None:
    for event, pair in ((Laplace(1), stats.laplace), (Gaussian(1), stats.norm)):
        (loss,) = losses(event)
        assert kl_divergence(pair(1), pair(0)) == pytest.approx(loss.mean, rel=1e-8)


def test_publishing_a_random_record() -> None:
    with_you, without = random_record_laws(1000)
    assert total_variation(with_you, without) == pytest.approx(0.001)
    for epsilon in (0, 1, 10):
        assert hockey_stick(with_you, without, epsilon=epsilon) == pytest.approx(0.001)
    assert renyi_divergence(with_you, without, order=2) == math.inf
    with pytest.raises(InvalidArgument, match="size"):
        random_record_laws(1)


def test_the_chain_rule() -> None:
    first, second = {"a": 0.7, "b": 0.3}, {"a": 0.4, "b": 0.6}
    given = {"a": ({0: 0.9, 1: 0.1}, {0: 0.6, 1: 0.4}), "b": ({0: 0.5, 1: 0.5}, {0: 0.45, 1: 0.55})}
    for order in (1.5, 2, 6):
        pair = [
            {(x, y): law[x] * given[x][side][y] for x in "ab" for y in (0, 1)}
            for side, law in enumerate((first, second))
        ]
        base = renyi_divergence(first, second, order=order)
        inner = [renyi_divergence(*laws, order=order) for laws in given.values()]
        assert base + min(inner) < renyi_divergence(*pair, order=order) < base + max(inner)
        product = [
            {(x, y): law[x] * given["a"][side][y] for x in "ab" for y in (0, 1)}
            for side, law in enumerate((first, second))
        ]
        assert renyi_divergence(*product, order=order) == pytest.approx(base + inner[0])


def test_no_test_reaches_a_renyi_divergence() -> None:
    """And more outcomes reach more: five cells lie between the best test and the whole."""
    assert binary_test_divergence(1, order=2) == pytest.approx(0.662, abs=5e-4)
    for mu, order in ((1, 2), (1, 8), (0.2, 3)):
        test, whole = binary_test_divergence(mu, order=order), gaussian_rdp(order, mu=mu)
        assert 0.3 * whole < test < 0.95 * whole
    edges = [-math.inf, 0.5, 1.5, 2.5, 3.5, math.inf]
    cells = [
        {i: float(stats.norm.cdf(b - mean) - stats.norm.cdf(a - mean)) for i, (a, b) in enumerate(pairwise(edges))}
        for mean in (1, 0)
    ]
    assert binary_test_divergence(1, order=2) < renyi_divergence(*cells, order=2) < 1


def test_orders_near_one() -> None:
    assert renyi_divergence(COIN, FAIR, order=1.000001) == pytest.approx(kl_divergence(COIN, FAIR), rel=1e-5)
    assert abs(kl_divergence(COIN, FAIR) - kl_divergence(FAIR, COIN)) > 0.1


def test_order_two_is_chi_squared() -> None:
    chi = sum((COIN[x] - FAIR[x]) ** 2 / FAIR[x] for x in COIN)
    assert renyi_divergence(COIN, FAIR, order=2) == pytest.approx(math.log1p(chi))


def test_post_processing_and_quasi_convexity() -> None:
    first, second = {0: 0.6, 1: 0.3, 2: 0.1}, {0: 0.2, 1: 0.3, 2: 0.5}
    for order in (1.5, 2, 8):
        merged = renyi_divergence({0: 0.6, 1: 0.4}, {0: 0.2, 1: 0.8}, order=order)
        assert merged < renyi_divergence(first, second, order=order)
    halves = renyi_divergence({0: 0.74, 1: 0.26}, FAIR, order=20)
    extremes = renyi_divergence({0: 0.98, 1: 0.02}, FAIR, order=20), renyi_divergence(FAIR, FAIR, order=20)
    assert sum(extremes) / 2 < halves < max(extremes)  # not convex, but quasi-convex


def test_bad_laws() -> None:
    for wrong in ({0: 0.5}, {0: 1.5, 1: -0.5}):
        with pytest.raises(InvalidArgument, match="add up to 1"):
            kl_divergence(wrong, FAIR)
    with pytest.raises(InvalidArgument, match="two continuous laws"):
        kl_divergence(FAIR, stats.norm(0))
    assert kl_divergence(FAIR, {0: 1.0, 1: 0.0}) == math.inf
    assert kl_divergence({0: 1.0, 1: 0.0}, FAIR) == pytest.approx(math.log(2))
