"""Output perturbation: the minimiser of a strongly convex sum, plus noise.

J(θ) = Σ loss + (λ/2)|θ|² with convex losses that are L-Lipschitz everywhere has a minimiser of L2 sensitivity L/λ
when a record is added or removed and 2L/λ when one is exchanged (Chaudhuri–Monteleoni–Sarwate 2011, in
sum scale). The minimiser is known to within τ/λ and is placed on a grid of step g, so the sensitivity that is paid
for is

    sides·L/λ + 2τ/λ + √d·g.

* δ > 0: Gaussian noise.
* δ = 0: discrete Laplace noise on every coordinate, for the L1 sensitivity √d × the L2 one. (Noise with density
  ∝ exp(−ε|b|₂/Δ) would be shorter by √2, but has no exact sampler here.)

Preconditions: λ > 0; the loss is Lipschitz everywhere; weights at most 1. No smoothness needed.
Utility: excess ≤ λR²/(2n) + min(L·|b|, β|b|²/2) for noise b (the second for β-smooth losses and J's own minimiser).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable._checks import positive
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import PureDP
from deniable.learning.optimizers.base import Array, Data, Method, Plan, Task, linear
from deniable.learning.optimizers.minimum import minimise, placed_on
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, multiplier
from deniable.noise import Source

GRID = 1 << 30
"""Grid steps in one sensitivity."""

TOLERANCE = 1e-6
"""τ as a part of L: what the inexact minimiser adds to the sensitivity is twice this part."""


@dataclass(frozen=True)
class OutputPerturbation(Method):
    """Noise on the minimiser."""

    name: ClassVar[str] = "output"
    theorem: ClassVar[str] = "Chaudhuri–Monteleoni–Sarwate 2011"

    strength: float | None = None
    """λ; default: the task's own, or what balances noise against shrinkage if that is larger."""

    def __post_init__(self) -> None:
        if self.strength is not None:
            positive("strength", self.strength)

    def plan(self, task: Task) -> OutputPlan:
        loss = linear(task, self)
        if not loss.everywhere:
            raise self.refuse(
                f"{type(loss).__name__} is Lipschitz on a bounded set only. Use Huber, or another solver."
            )
        if not loss.smooth:
            raise self.refuse(f"no certified minimiser of a loss with corners ({type(loss).__name__}); smooth it.")
        length = self._length(task)  # of the noise, in sensitivities
        if self.strength is not None:
            strength = self.strength
        else:
            # λR²/(2n) against (β/2)(length·sides·L/λ)²: the minimum is at λ³ = 2nβ(length·sides·L)²/R².
            noise_part = 2 * task.size * loss.smoothness * (length * task.sides * loss.lipschitz) ** 2
            strength = max(task.regularization, (noise_part / task.reach**2) ** (1 / 3))
        if strength <= 0:
            raise self.refuse("it needs a positive regularization.")
        tolerance = TOLERANCE * loss.lipschitz
        sensitivity = (task.sides * loss.lipschitz + 2 * tolerance) / strength * (1 + 1e-12)
        root = math.isqrt(task.parameters - 1) + 1
        bound = GRID + root  # the placing moves either neighbour by √d/2 steps
        pure = isinstance(task.target, PureDP)
        draws = task.parameters
        ratio = Fraction(0) if pure else multiplier(task.target, draws=draws)
        event: Event
        if pure:
            event = DiscreteLaplace(_laplace_scale(task, root * bound), root * bound, task.relation, coordinates=draws)
        else:
            event = gaussian_event(ratio * task.sides, draws=draws, relation=task.relation)
        shaken = length * sensitivity
        risk = strength * task.reach**2 / (2 * task.size) + min(
            loss.lipschitz * shaken, loss.smoothness * shaken**2 / 2
        )
        return OutputPlan(task, event, risk, strength, tolerance, sensitivity / GRID, bound, ratio)

    def _length(self, task: Task) -> float:
        d = task.parameters
        if isinstance(task.target, PureDP):
            return math.sqrt(2) * d / float(task.target.epsilon)
        return math.sqrt(d) / largest_mu(task.target, draws=d)


def _laplace_scale(task: Task, bound: int) -> Fraction:
    return bound / task.target.epsilon


@dataclass(frozen=True)
class OutputPlan(Plan):
    """One run."""

    strength: float
    tolerance: float
    step: float
    bound: int
    ratio: Fraction

    def run(self, data: Data, *, source: Source | None = None) -> Array:
        task = self.task
        still = np.zeros(task.shape)
        theta = minimise(data, task.linear, strength=self.strength, slope=still, tolerance=self.tolerance)
        placed = placed_on(theta, self.step)
        if isinstance(task.target, PureDP):
            root = math.isqrt(task.parameters - 1) + 1
            scale = _laplace_scale(task, root * self.bound)
            noisy = noise.add(placed, noise.discrete_laplace(scale, placed.shape, source=source)).astype(np.float64)
        else:
            noisy = add_gaussian(placed, bound=self.bound, ratio=self.ratio, source=source)
        return task.project(noisy * self.step)
