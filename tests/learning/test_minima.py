"""Methods that perturb a minimiser: its certificate, its neighbours, and the noise in the objective."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.events import Claimed, DiscreteLaplace, Gaussian
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning import losses
from deniable.learning.optimizers import Data, ObjectivePerturbation, OutputPerturbation, Task
from deniable.learning.optimizers.minimum import minimise
from deniable.learning.optimizers.objective import noise_scale
from deniable.learning.privacy import multiplier
from deniable.learning.table import IntegerTable
from deniable.units import REPLACE

N, D = 3000, 4
SMOOTH = losses.Logistic()
BOTH = [ApproxDP(2, 1e-5), ApproxDP(2, 1e-5, relation=REPLACE)]


@pytest.fixture
def data() -> Data:
    rows = np.random.default_rng(7).normal(size=(N, D))
    return Data(IntegerTable.place(rows, norm=2.0), np.where(rows[:, 0] > 0, 1.0, -1.0))


def test_minimiser_is_certified(data: Data) -> None:
    theta = minimise(data, SMOOTH, strength=2.0, tolerance=1e-7)
    gradient = data.table.points().T @ SMOOTH.residuals(data.table.points() @ theta, data.labels) + 2.0 * theta
    assert np.linalg.norm(gradient) <= 1e-7


def test_minimisers_of_neighbours_are_as_close_as_promised() -> None:
    """Sensitivity L/λ, on the neighbours of a small data set; nearly attained by the worst of them."""
    generator = np.random.default_rng(1)
    rows = np.vstack([generator.normal(size=(20, 2)), [[1.0, 0.0]]])
    data = Data(IntegerTable.place(rows, norm=1.0), np.where(np.arange(21) % 2, 1.0, -1.0))
    strength = 3.0
    full = minimise(data, SMOOTH, strength=strength, tolerance=1e-9)

    def moved(i: int) -> float:
        others = data.take(np.delete(np.arange(21), i))
        return float(np.linalg.norm(full - minimise(others, SMOOTH, strength=strength, tolerance=1e-9)))

    moves = [moved(i) for i in range(21)]
    assert 0.1 / strength < max(moves) <= 1 / strength


def test_output_noise_covers_tolerance_and_grid() -> None:
    plan = OutputPerturbation(strength=10.0).plan(Task(SMOOTH, D, BOTH[0], size=N))
    assert plan.step * plan.bound >= (1 + 2 * plan.tolerance) / 10.0 + 2 * math.sqrt(D) * plan.step
    pure = OutputPerturbation(strength=10.0).plan(Task(SMOOTH, D, PureDP(0.5), size=N))
    assert isinstance(pure.event, DiscreteLaplace)
    assert pure.event.sensitivity / pure.event.scale == Fraction(1, 2)
    assert pure.event.sensitivity >= math.sqrt(D) * pure.bound


# objective perturbation


def objective_delta(epsilon: float, *, m: float, c: float) -> float:
    """E(1 − e^{ε−U})₊ with U = c + m²/2 + m|Z|, by quadrature: the bound's own definition, not its closed form."""
    z = np.linspace(0, 40, 400_001)
    density = 2 * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    loss = c + m * m / 2 + m * z
    return float(np.sum(np.maximum(0.0, -np.expm1(epsilon - loss)) * density) * (z[1] - z[0]))


@pytest.mark.parametrize(("epsilon", "delta", "strength"), [(0.2, 1e-6, 20.0), (1.0, 1e-5, 2.0), (4.0, 1e-9, 0.5)])
def test_objective_noise_meets_its_target(epsilon: float, delta: float, strength: float) -> None:
    scale = noise_scale(ApproxDP(epsilon, delta), lipschitz=1.0, smoothness=0.25, strength=strength)
    c = math.log1p(0.25 / strength)
    assert objective_delta(epsilon, m=1 / scale, c=c) <= delta * (1 + 1e-6)
    assert objective_delta(epsilon, m=1.01 / scale, c=c) > delta


def test_objective_perturbation_in_one_dimension_by_integration() -> None:
    """The density of the exact minimiser, on neighbours, integrated: its δ is below that of the bound."""
    s, strength, grid = 1.5, 1.0, np.linspace(-14, 14, 20_001)

    def density(records: list[tuple[float, float]]) -> np.ndarray:
        # b = −(Σ y x φ'(…) + λθ): the density of θ is that of b times |db/dθ|.
        slope = strength * grid
        bend = np.full(grid.shape, strength)
        for x, y in records:
            slope = slope + x * SMOOTH.residuals(x * grid, np.full(grid.shape, y))
            bend = bend + x * x * SMOOTH.curvatures(x * grid, np.full(grid.shape, y))
        return np.exp(-(slope**2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi)) * bend

    base = [(1.0, 1.0), (0.5, -1.0), (-0.8, 1.0)]
    step = grid[1] - grid[0]
    c, m = math.log1p(0.25 / strength), 1 / s
    worst = 0.0
    for extra in ((1.0, 1.0), (1.0, -1.0), (0.4, 1.0), (-1.0, -1.0)):
        p, q = density(base), density([*base, extra])
        assert p.sum() * step == pytest.approx(1, abs=1e-4)
        for epsilon in (0.4, 0.8, 1.5):
            found = max(np.maximum(0, a - math.exp(epsilon) * b).sum() * step for a, b in ((p, q), (q, p)))
            assert found <= objective_delta(epsilon, m=m, c=c) * (1 + 1e-6)
            worst = max(worst, found / objective_delta(epsilon, m=m, c=c))
    assert worst > 0.1  # the bound is not empty


def test_objective_event_adds_up_to_the_target() -> None:
    for target in BOTH:
        plan = ObjectivePerturbation().plan(Task(SMOOTH, D, target, size=N))
        claimed, last = plan.event.parts[0], plan.event.parts[1]
        assert isinstance(claimed, Claimed)
        assert isinstance(last, Gaussian)
        share = ApproxDP(target.epsilon - claimed.guarantee.epsilon, target.delta - claimed.guarantee.delta)
        assert last.scale / last.sensitivity >= multiplier(share)
        assert plan.apart >= 2 * plan.tolerance / plan.strength


def test_under_replace_the_objective_pays_for_two_steps() -> None:
    one = ObjectivePerturbation(strength=5.0).plan(Task(SMOOTH, D, BOTH[0], size=N))
    two = ObjectivePerturbation(strength=5.0).plan(Task(SMOOTH, D, BOTH[1], size=N))
    assert two.scale > 1.9 * one.scale
