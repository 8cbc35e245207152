"""Random allocation and truncated Poisson samples: published values, enumeration on small cases, Monte Carlo."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from deniable import account
from deniable.accounting.filters.costs import cost
from deniable.accounting.pairs.allocation import adding_divergence, allocation, divergence
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.events import Event, Gaussian, Laplace, RandomAllocation
from deniable.units import Relation

F = Fraction


@pytest.mark.parametrize(
    ("scale", "steps", "epsilon", "removing", "adding"),
    [(1, 100, 0.5, 4.4089e-5, 5.925e-7), (1, 10, 1, 2.78287e-3, 4.862e-4), (2, 20, 0.3, 2.891620e-4, 2.304795e-4)],
)
def test_one_epoch_is_an_upper_bound_and_close(
    scale: int, steps: int, epsilon: float, removing: float, adding: float
) -> None:
    """The values are those of a lattice 16 times finer; the last digit that is printed is allowed for."""
    laws = allocation(1 / scale**2, steps)
    for law, value in zip(laws, (removing, adding), strict=True):
        upper = float(law.profile(np.array([epsilon]))[0])
        assert value * (1 - 2e-4) <= upper <= value * (1 + 6e-3)


@pytest.mark.parametrize(
    ("scale", "steps", "epochs", "delta", "epsilon", "plain"),
    [(1, 100, 10, 1e-5, 1.703, 17.86), (2, 20, 5, 1e-6, 1.146, 5.551), (1, 100, 1, 1e-5, 0.62094, 4.377)],
)
def test_epochs_compose(scale: int, steps: int, epochs: int, delta: float, epsilon: float, plain: float) -> None:
    run = Gaussian(scale).allocated(steps=steps) * epochs
    profile = account(run)
    assert profile.epsilon(delta) == pytest.approx(epsilon, rel=1.5e-3)
    assert "bound" in profile.method
    assert account(Gaussian(scale) * epochs).epsilon(delta) == pytest.approx(plain, rel=1e-3)
    # a Poisson sample of the same rate costs a little more
    assert profile.epsilon(delta) < account(Gaussian(scale).sampled(rate=F(1, steps)) * (steps * epochs)).epsilon(delta)


def test_two_steps_by_quadrature_over_the_plane() -> None:
    y = np.arange(-9.0, 9.0, 0.02)
    bell = np.exp(-(y**2) / 2) * 0.02 / math.sqrt(2 * math.pi)
    q = np.outer(bell, bell)
    for scale in (0.7,):
        w = np.exp(y / scale - 1 / (2 * scale**2))
        ratio = (w[:, None] + w[None, :]) / 2
        for order, law in enumerate(allocation(1 / scale**2, 2)):
            for epsilon in (0.0, 0.5, 1.5, -0.5):
                g = math.exp(epsilon)
                true = float((q * np.maximum(1 - g * ratio if order else ratio - g, 0)).sum())
                upper = float(law.profile(np.array([epsilon]))[0])
                assert true - 2e-5 <= upper <= true * (1 + 4e-2) + 2e-5


def test_monte_carlo_of_a_noisy_epoch() -> None:
    """200,000 runs, five standard deviations: a false alarm in a million."""
    draws = np.random.default_rng(3)
    scale, steps, runs = 0.8, 50, 200_000
    root = 1 / scale
    total = np.zeros(runs)
    for _ in range(steps):
        total += np.exp(root * draws.standard_normal(runs) - root**2 / 2)
    ratio = total / steps
    for law, values in zip(
        allocation(root**2, steps),
        (lambda g: np.maximum(ratio - g, 0), lambda g: np.maximum(1 - g * ratio, 0)),
        strict=True,
    ):
        for epsilon in (0.0, 0.3):
            seen = values(math.exp(epsilon))
            upper = float(law.profile(np.array([epsilon]))[0])
            assert abs(upper - seen.mean()) <= 5 * seen.std() / math.sqrt(runs) + 2e-3 * upper


def test_renyi_divergences_of_an_epoch() -> None:
    assert [divergence(1.0, 100, order) for order in (2, 3, 5)] == pytest.approx(
        [0.0170369, 0.0257938, 0.0439635], abs=6e-8
    )
    assert [divergence(0.25, 20, order) for order in (2, 3, 5)] == pytest.approx(
        [0.0141014, 0.0211781, 0.0353881], abs=6e-8
    )
    assert divergence(1.0, 7, 2) == pytest.approx(math.log1p(math.expm1(1) / 7), rel=1e-12)
    # adding, by a sum over the plane for two steps
    y = np.arange(-12.0, 12.0, 0.02)
    bell = np.exp(-(y**2) / 2) * 0.02 / math.sqrt(2 * math.pi)
    w = np.exp(y - 0.5)
    ratio = (w[:, None] + w[None, :]) / 2
    for order in (1.5, 2.0, 3.0):
        true = math.log(float(bell @ ratio ** (1 - order) @ bell)) / (order - 1)
        assert adding_divergence(1.0, 2, order) == pytest.approx(true, rel=1e-9)
        assert adding_divergence(1.0, 2, order) >= true * (1 - 1e-12)
    found = cost(Gaussian(1).allocated(steps=100), (F(2), F(5, 2), F(200)))
    assert found.renyi[0] == pytest.approx(0.0170369, abs=6e-8)
    assert found.renyi[1] == pytest.approx(0.0257938, abs=6e-8)
    assert found.renyi[2] == 100
    assert found.rho == F(1, 2)


def test_several_participations_are_several_epochs_of_fewer_steps() -> None:
    three = account(Gaussian(2).allocated(steps=20, participations=3))
    blocks = account(Gaussian(2).allocated(steps=6) + Gaussian(2).allocated(steps=7) * 2)
    assert three.epsilon(1e-6) == blocks.epsilon(1e-6)
    assert account(Gaussian(2).allocated(steps=4, participations=4)).epsilon(1e-6) == account(Gaussian(2) * 4).epsilon(
        1e-6
    )


def test_k_of_t_by_enumeration_of_all_subsets() -> None:
    """2 of 3 steps: the curve of the mixture over the three pairs of steps, by a sum over a box, is never larger."""
    y = np.arange(-7.0, 8.0, 0.1)
    bell = np.exp(-(y**2) / 2) * 0.1 / math.sqrt(2 * math.pi)
    q = bell[:, None, None] * bell[None, :, None] * bell[None, None, :]
    w = np.exp(0.8 * y - 0.32)
    grids = (w[:, None, None], w[None, :, None], w[None, None, :])
    ratio = sum(a * b for a, b in itertools.combinations(grids, 2)) / 3
    profile = account(Gaussian(1.25).allocated(steps=3, participations=2))
    for epsilon in (0.0, 0.7, 2.0):
        g = math.exp(epsilon)
        true = max(float((q * np.maximum(ratio - g, 0)).sum()), float((q * np.maximum(1 - g * ratio, 0)).sum()))
        assert true <= profile.delta(epsilon) + 1e-4


def test_small_noise_never_costs_more_than_no_amplification() -> None:
    for scale in (0.3, 0.01):
        for epochs in (1, 3):
            plain = account(Gaussian(scale) * epochs).epsilon(1e-5)
            assert account(Gaussian(scale).allocated(steps=30) * epochs).epsilon(1e-5) <= plain * (1 + 1e-9)
    beside = account(Gaussian(0.3).allocated(steps=30) * 2 + Gaussian(1))
    assert account(Gaussian(1)).epsilon(1e-5) < beside.epsilon(1e-5)


def test_what_random_allocation_refuses() -> None:
    for make, error in (
        (lambda: Laplace(1).allocated(steps=3), InvalidArgument),
        (lambda: (Gaussian(1) * 2).allocated(steps=3), InvalidArgument),
        (lambda: Gaussian(1).allocated(steps=3, participations=4), InvalidArgument),
        (lambda: Gaussian(1, 2, Relation.REPLACE, reach=1).allocated(steps=3), UnitMismatch),
        (lambda: Gaussian(1, 1, Relation.ZERO_OUT).truncated(rate=0.1, capacity=3, size=9), UnitMismatch),
    ):
        with pytest.raises(error):
            make()
    event = RandomAllocation(Gaussian(1), 10, 2)
    assert Event.from_json(event.to_json()) == event
    cut = Gaussian(1).truncated(rate=0.1, capacity=3, size=9)
    assert Event.from_json(cut.to_json()) == cut


# truncated Poisson samples


def _batches(size: int, rate: float, capacity: int) -> dict[frozenset[int], float]:
    """Every batch that can be drawn from units 0 … size−1, with its probability."""
    found: dict[frozenset[int], float] = {}
    for mask in itertools.product((0, 1), repeat=size):
        drawn = [i for i in range(size) if mask[i]]
        weight = math.prod(rate if bit else 1 - rate for bit in mask)
        kept = list(itertools.combinations(drawn, capacity)) if len(drawn) > capacity else [tuple(drawn)]
        for batch in kept:
            key = frozenset(batch)
            found[key] = found.get(key, 0.0) + weight / len(kept)
    return found


@pytest.mark.parametrize(("size", "rate", "capacity", "scale"), [(4, 0.5, 2, 1.0), (5, 0.3, 1, 0.7), (5, 0.6, 3, 2.0)])
def test_truncated_samples_by_enumeration_of_all_batches(size: int, rate: float, capacity: int, scale: float) -> None:
    """All contributions in {−1, 1}, with and without the last unit, also with fewer units than the largest number."""
    event = Gaussian(scale).truncated(rate=rate, capacity=capacity, size=size)
    profile = account(event)
    y = np.arange(-size - 9 * scale, size + 9 * scale, 0.005)

    def density(values: tuple[int, ...]) -> np.ndarray:
        total = np.zeros_like(y)
        for batch, weight in _batches(len(values), rate, capacity).items():
            at = sum(values[i] for i in batch)
            total += weight * np.exp(-((y - at) ** 2) / (2 * scale**2))
        return total * 0.005 / (scale * math.sqrt(2 * math.pi))

    for people in range(1, size + 1):
        for others in itertools.combinations_with_replacement((-1, 1), people - 1):
            p, q = density((*others, 1)), density(others)
            for epsilon in (0.0, 0.5, 2.0):
                g = math.exp(epsilon)
                true = max(float(np.maximum(p - g * q, 0).sum()), float(np.maximum(q - g * p, 0).sum()))
                assert true <= profile.delta(epsilon) * (1 + 1e-6) + 1e-9


def test_truncation_far_above_the_mean_costs_nothing_and_below_it_a_lot() -> None:
    def epsilon(capacity: int) -> float:
        return account(Gaussian(1.1).truncated(rate=F(256, 60_000), capacity=capacity, size=60_000) * 1000).epsilon(
            1e-5
        )

    plain = account(Gaussian(1.1).sampled(rate=F(256, 60_000)) * 1000).epsilon(1e-5)
    assert epsilon(350) == pytest.approx(plain, rel=1e-4)
    # with the exact rate of displacement these are 0.6154 and 4.243
    assert epsilon(320) == pytest.approx(0.6160, rel=1e-3)
    assert 4.243 < epsilon(256) < 4.4
    full = cost(Gaussian(1.1).truncated(rate=0.01, capacity=100, size=100), (F(8),))
    assert full == cost(Gaussian(1.1).sampled(rate=0.01), (F(8),))
    ends = [cost(e, (F(8),)).renyi[0] for e in (Gaussian(1.1).sampled(rate=0.01), Gaussian(1.1, 2).sampled(rate=0.01))]
    half = cost(Gaussian(1.1).truncated(rate=0.01, capacity=3, size=300), (F(8),)).renyi[0]
    beta = float(special.betainc(3, 297, 0.01))
    true = math.log((1 - beta) * math.exp(7 * float(ends[0])) + beta * math.exp(7 * float(ends[1]))) / 7
    assert float(half) == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "steps", "epochs", "delta", "direct"),
    [(1.0, 100, 10, 1e-5, 1.7015), (2.0, 20, 5, 1e-6, 1.14544), (0.8, 500, 20, 1e-6, 1.86800)],
)
def test_epochs_against_a_direct_convolution(
    scale: float, steps: int, epochs: int, delta: float, direct: float
) -> None:
    """ε of the worse direction by plain float FFTs: t log-normal weights on a linear grid (one of them size-biased for
    removing), then the losses of all epochs; the same five digits at half the steps of both grids."""
    epsilon = account(Gaussian(scale).allocated(steps=steps) * epochs).epsilon(delta=delta)
    assert direct - 5e-6 < epsilon < direct * 1.001
