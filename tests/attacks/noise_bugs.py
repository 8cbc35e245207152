"""Too little noise, or noise of the wrong kind."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from deniable import noise
from deniable.guarantees import GDP, ApproxDP, PureDP
from deniable.units import REPLACE
from tests.attacks.zoo import broken

TEN, NINE = [1.0] * 10, [1.0] * 9
SWAPPED = [0.0] + [1.0] * 9
ROWS, FEWER = np.ones((6, 10)), np.ones((5, 10))


@broken((TEN, NINE), PureDP(1))
def laplace_of_half_the_scale(data: list[float]) -> float:
    """The scale for a sensitivity of one half."""
    return sum(data) + float(np.random.laplace(scale=0.5))


@broken((TEN, NINE), PureDP(1))
def laplace_ten_percent_low(data: list[float]) -> float:
    """Hard to see in outputs: tens of thousands of runs. Replay needs a few."""
    return sum(data) + float(np.random.laplace(scale=0.9))


@broken((TEN, NINE), GDP(1))
def gaussian_of_half_the_scale(data: list[float]) -> float:
    return sum(data) + random.gauss(0, 0.5)


@broken((TEN, NINE), GDP(0.5))
def variance_taken_for_scale(data: list[float]) -> float:
    """μ = ½ needs a standard deviation of 2, a variance of 4; the generator is given its inverse's root."""
    return sum(data) + float(np.random.default_rng().normal(scale=math.sqrt(2)))


@broken((TEN, NINE), PureDP(1))
def gaussian_noise_claimed_as_pure(data: list[float]) -> float:
    """δ ignored: a Gaussian's loss has no bound."""
    return sum(data) + random.gauss(0, 4)


@broken((TEN, NINE), ApproxDP(20, 1e-5))
def classic_gaussian_beyond_its_theorem(data: list[float]) -> float:
    """σ = √(2 ln(1.25/δ))/ε is a theorem for ε < 1. At ε = 20, δ is 150 times what is claimed."""
    return sum(data) + random.gauss(0, math.sqrt(2 * math.log(1.25e5)) / 20)


@broken((TEN, SWAPPED), PureDP(1, relation=REPLACE))
def histogram_of_sensitivity_one_under_replace(data: list[float]) -> list[float]:
    """One record moves two bins."""
    return [data.count(value) + float(np.random.laplace(scale=1)) for value in (0.0, 1.0)]


@broken((ROWS, FEWER), PureDP(1))
def laplace_for_the_euclidean_norm(data: Any) -> Any:
    """Laplace noise needs the L1 norm of what a record moves: 10, not √10."""
    return data.sum(axis=0) + np.random.laplace(scale=math.sqrt(10), size=10)


@broken((ROWS, FEWER), PureDP(1))
def epsilon_for_every_column(data: Any) -> list[float]:
    """A query with three aggregates spends its ε three times."""
    return [float(data[:, i].sum() + np.random.laplace(scale=1)) for i in range(3)]


@broken((TEN, NINE), PureDP(0.1))
def integers_with_too_little_noise(data: list[float]) -> int:
    return int(sum(data)) + int(noise.discrete_laplace(5))


@broken((TEN, NINE), PureDP(1), by="testing", best=(1.0, 0.0))
def seed_used_again(data: list[float]) -> float:
    """The same noise in every run: the attacker knows it."""
    return sum(data) + float(np.random.Generator(np.random.PCG64(7)).laplace(scale=1))


@broken((TEN, NINE), PureDP(2), by="testing", best=(1.0, 0.0))
def generator_forked(data: list[float]) -> tuple[float, float]:
    """Two workers inherit one generator. Their answers share their noise, and the difference has none."""
    state = np.random.randint(2**31)
    first, second = np.random.default_rng(state), np.random.default_rng(state)
    return sum(data) + float(first.laplace()), float(second.laplace())


@broken(([0.0], []), PureDP(1), by="low bits", runs=1500)
def float_laplace(data: list[float]) -> float:
    """Inverse sampling in floating point: which low bits can occur depends on the answer (Mironov 2012).

    Below 1 a quarter of the answers around 0 have bits beyond 2⁻⁵³, and none around 1.
    """
    u = np.random.random()
    sign = 1.0 if np.random.random() < 0.5 else -1.0
    return float(len(data) + sign * math.log1p(-u))


@broken(([1.0], []), PureDP(1), by="testing", best=(1.0, 0.0))
def no_noise_for_an_empty_group(data: list[float]) -> float:
    return sum(data) + float(np.random.laplace(scale=1)) if data else 0.0


@broken(([1.0, math.nan], [1.0]), PureDP(1), by="testing", best=(1.0, 0.0))
def nan_is_not_bounded(data: list[float]) -> float:
    """min and max let NaN through, and a sum with NaN is NaN."""
    return sum(value if math.isnan(value) else min(1.0, max(0.0, value)) for value in data) + float(np.random.laplace())


@broken(([1.0, 7.0], [1.0]), PureDP(1), by="testing", best=(1.0, 0.0))
def out_of_range_raises(data: list[float]) -> float:
    """A message in one world only."""
    if any(value > 1 for value in data):
        raise ValueError("out of range")
    return sum(data) + float(np.random.laplace())
