"""P[L > 0] and Q[L > 0] against formulas, enumeration and a plain convolution of the loss."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from deniable.accounting import account
from deniable.events import Claimed, DiscreteLaplace, Event, Gaussian, Laplace, RandomizedResponse
from deniable.guarantees import ApproxDP, Bracket, PureDP
from deniable.units import Relation


def holds(bracket: Bracket, value: float, *, width: float = 1e-5, slack: float = 1e-12) -> bool:
    return bracket.lower - slack <= value <= bracket.upper + slack and bracket.width <= width


@pytest.mark.parametrize(("rate", "scale"), [(0.01, 1.0), (0.1, 0.8), (0.5, 1.0)])
def test_one_poisson_step(rate: float, scale: float) -> None:
    """{L > 0} = {output > ½} at every rate."""
    removed, added = account(Gaussian(scale=scale).sampled(rate=rate)).odds()
    low, high = ndtr(-1 / (2 * scale)), ndtr(1 / (2 * scale))
    assert holds(removed.under_q, low)
    assert holds(removed.under_p, (1 - rate) * low + rate * high)
    assert holds(added.under_p, 1 - low)
    assert holds(added.under_q, 1 - (1 - rate) * low - rate * high)


def test_a_thousand_poisson_steps() -> None:
    """The density of the loss under both worlds, on a grid, convolved a thousand times by the Fourier transform."""
    rate, scale, steps = 0.01, 0.8, 1000
    removed, added = account(Gaussian(scale=scale).sampled(rate=rate) * steps).odds()
    size, width = 2**16, 2e-4
    x = np.linspace(-12.0, 16.0, 400_001)
    loss = np.log1p(rate * np.expm1((2 * x - 1) / (2 * scale**2)))
    without = np.exp(-(x**2) / (2 * scale**2))
    without /= without.sum()
    for density, ends in ((without, removed.under_q), (without * np.exp(loss), removed.under_p)):
        # Each loss is split between its two neighbours on the grid, so that the mean is kept.
        place = loss / width
        left = np.floor(place).astype(int)
        share = place - left
        mass = np.bincount(left % size, density * (1 - share), size) + np.bincount(
            (left + 1) % size, density * share, size
        )
        total = np.real(np.fft.ifft(np.fft.fft(mass) ** steps))
        positive = total[1 : size // 2].sum() + total[0] / 2
        assert holds(ends, float(positive), slack=2e-4)
    assert holds(added.under_p, 1 - removed.under_q.upper, slack=1e-5)


@pytest.mark.parametrize("step", [RandomizedResponse(1), RandomizedResponse(1, 4), DiscreteLaplace(2, 3)], ids=repr)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_outcomes_of_steps_with_few(step: Event, count: int) -> None:
    if isinstance(step, RandomizedResponse):
        others = step.categories - 1
        truth = math.exp(step.epsilon) / (math.exp(step.epsilon) + others)
        lie = (1 - truth) / others
        p, q = [truth, lie, *[lie] * (others - 1)], [lie, truth, *[lie] * (others - 1)]
    else:
        x = np.arange(-80, 84)
        p, q = (np.exp(-np.abs(x - shift) / 2.0) for shift in (3, 0))
        p, q = p / p.sum(), q / q.sum()
        p, q = ([w[:81].sum(), *w[81:83], w[83:].sum()] for w in (p, q))
    above_p = above_q = level = 0.0
    for outcome in itertools.product(range(len(p)), repeat=count):
        under_p, under_q = math.prod(p[i] for i in outcome), math.prod(q[i] for i in outcome)
        if abs(math.log(under_p / under_q)) < 1e-9:
            level += under_p
        elif under_p > under_q:
            above_p, above_q = above_p + under_p, above_q + under_q
    (odds,) = account(step * count).odds()
    # Of a composition the mass at L = 0 may be counted on either side.
    assert odds.under_p.lower - 1e-12 <= above_p <= odds.under_p.upper + 1e-12
    assert odds.under_q.lower - 1e-12 <= above_q <= odds.under_q.upper + 1e-12
    assert odds.under_p.upper <= above_p + level + 1e-5
    assert odds.under_q.lower >= above_q - 1e-5


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(scale=2) * 3,
        Laplace(scale=2) + Gaussian(scale=1),
        Claimed(ApproxDP(1, 0.01)),
        Claimed(ApproxDP(1, 0.01)) + Gaussian(scale=1),
        Gaussian(1, 2, Relation.REPLACE, reach=1).sampled(rate=0.1) * 30,
        RandomizedResponse(1).shuffled(size=100) * 2,
        Claimed(PureDP(0)),
    ],
    ids=repr,
)
def test_the_two_differ_by_the_advantage(event: Event) -> None:
    profile = account(event)
    advantage = profile.delta_bracket(0)
    for odds in profile.odds():
        assert odds.under_p.upper - odds.under_q.lower >= advantage.lower - 1e-12
        assert odds.under_p.lower - odds.under_q.upper <= advantage.upper + 1e-12
        assert 0 <= odds.under_q.lower <= odds.under_q.upper <= 1
        assert 0 <= odds.under_p.lower <= odds.under_p.upper <= 1


def test_the_worst_pair_of_a_promise() -> None:
    (odds,) = account(Claimed(ApproxDP(1, 0.01))).odds()
    assert holds(odds.under_p, (math.e + 0.01) / (1 + math.e))
    assert holds(odds.under_q, 0.99 / (1 + math.e))
