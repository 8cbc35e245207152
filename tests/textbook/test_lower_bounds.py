"""Lower bounds: by their proofs, and below what methods reach."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.textbook import excess_risk, fingerprinting_error, low_rank_risk, packing_size


def test_packing_by_its_proof() -> None:
    """One record fewer contradicts group privacy, the bound itself does not; and the Laplace mechanism lies above."""
    for columns, epsilon, error in ((100, 1, 0.01), (20, 0.1, 0.05)):
        size = packing_size(columns=columns, epsilon=epsilon, error=error)

        def contradicts(n: int, columns: int = columns, epsilon: float = epsilon, error: float = error) -> bool:
            copies = math.floor(2 * error * n) + 1
            return (columns - 1) * math.log(2) > copies * epsilon

        assert contradicts(size - math.ceil(1 / (2 * error)) - 1)
        assert not contradicts(size + math.ceil(1 / (2 * error)))
        assert size < columns * math.log(columns / 0.5) / (error * epsilon)
    assert packing_size(columns=1, epsilon=1, error=0.5) == 1


def test_the_fingerprinting_identity_is_exact() -> None:
    """E f·Σ(Xᵢ − p) = 1/3 + E f² − E(f − p)² for any f of n signs; p uniform on [−1, 1], by exact integrals of p."""
    generator, n = np.random.default_rng(0), 4
    values = {signs: Fraction(int(generator.integers(-8, 9)), 8) for signs in itertools.product((-1, 1), repeat=n)}

    def moment(ups: int, power: int) -> Fraction:
        # ∫ ((1+p)/2)^u ((1−p)/2)^(n−u) p^power dp/2 with p = 2t − 1: a sum of Beta functions.
        total = Fraction(0)
        for j in range(power + 1):
            top = ups + j
            beta = Fraction(math.factorial(top) * math.factorial(n - ups), math.factorial(top + n - ups + 1))
            total += math.comb(power, j) * 2**j * (-1) ** (power - j) * beta
        return total

    left = right = Fraction(0)
    for signs, f in values.items():
        ups = signs.count(1)
        left += f * (sum(signs) * moment(ups, 0) - n * moment(ups, 1))
        right += 2 * f * moment(ups, 1)
    assert left == right
    assert fingerprinting_error(size=4, columns=1, mu=10) == 0


def test_fingerprinting_lies_below_the_gaussian_mechanism() -> None:
    for size, columns, mu in ((1000, 10_000, 0.2367), (10_000, 10**6, 0.2), (10**5, 10**6, 0.05)):
        reached = math.sqrt(columns) / (size * mu)
        assert reached / 8 < fingerprinting_error(size=size, columns=columns, mu=mu) < reached
    assert fingerprinting_error(size=1000, columns=10_000, mu=0.2367) == pytest.approx(0.0619, abs=1e-4)


def test_risks_lie_between_their_bounds() -> None:
    """On the hard instance of the lower bound: the noisy mean reaches an excess between the two."""
    n, d, mu = 1000, 2500, 0.24
    risk = excess_risk(size=n, dimension=d, mu=mu)
    assert risk.erm_lower <= risk.erm_upper
    assert risk.sco_lower <= risk.sco_upper
    generator = np.random.default_rng(1)
    part = min(1.0, math.sqrt(d / 3) / (n * math.sqrt(math.expm1(mu**2))))
    excesses = []
    for _ in range(5):
        mean = generator.uniform(-1, 1, d)
        rows = np.where(generator.random((n, d)) < (1 + mean) / 2, 1, -1) / math.sqrt(d)
        rows *= generator.random((n, 1)) < part
        noisy = rows.mean(axis=0) + generator.normal(size=d) * 2 / (n * mu)
        truth = part * mean / math.sqrt(d)
        excesses.append(float(np.linalg.norm(truth) - truth @ noisy / np.linalg.norm(noisy)))
    assert risk.sco_lower < np.mean(excesses) < risk.sco_upper
    assert excess_risk(size=10**6, dimension=d, mu=mu).sco_lower == pytest.approx(0.34 / 1000)


def test_where_privacy_costs_and_where_it_is_free() -> None:
    risk = excess_risk(size=1, dimension=100, mu=0.2)
    below, above = int(risk.costs_below / 1.5), int(risk.costs_below * 1.5)
    assert excess_risk(size=below, dimension=100, mu=0.2).sco_lower > 0.34 / math.sqrt(below)
    assert excess_risk(size=above, dimension=100, mu=0.2).sco_lower == pytest.approx(0.34 / math.sqrt(above))
    free = int(risk.free_from) + 1
    assert excess_risk(size=free, dimension=100, mu=0.2).sco_upper <= math.sqrt(2 * 8 / (3 * free))


def test_descent_on_few_directions_does_not_see_the_others() -> None:
    """Absolute losses |⟨θ, x⟩ − y| on rows of rank 3: the excess stays below the bound in 3 and in 300 dimensions."""
    n, rank, steps, mu = 500, 3, 100, 0.5
    generator = np.random.default_rng(2)
    core = generator.normal(size=(n, rank))
    core /= np.linalg.norm(core, axis=1, keepdims=True)
    best = np.full(rank, 1 / math.sqrt(rank))
    noise = 2 * math.sqrt(steps) / (n * mu)
    eta = 1 / math.sqrt(steps * (1 + rank * noise**2))
    bound = low_rank_risk(size=n, rank=rank, steps=steps, mu=mu)
    for dimension in (3, 300):
        rows = np.zeros((n, dimension))
        rows[:, :rank] = core
        target = core @ best
        theta, average = np.zeros(dimension), np.zeros(dimension)
        for _ in range(steps):
            average += theta / steps
            gradient = (np.sign(rows @ theta - target)[:, None] * rows).mean(axis=0)
            theta = theta - eta * (gradient + generator.normal(scale=noise, size=dimension))
        assert np.abs(rows @ average - target).mean() < bound
    assert low_rank_risk(size=n, rank=300, steps=steps, mu=mu) > 1.5 * bound
