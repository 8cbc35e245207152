"""Output perturbation: the minimiser of a strongly convex sum, plus noise.

J(θ) = Σ loss + (λ/2)|θ|² with convex losses that are L-Lipschitz everywhere has a minimiser of L2 sensitivity L/λ
when a record is added or removed and 2L/λ when one is exchanged (Chaudhuri–Monteleoni–Sarwate 2011, in
sum scale: nothing is divided by the number of records, which is private). The minimiser is known to within τ/λ and is
placed on a grid of step g, so the sensitivity that is paid for is

    sides·L/λ + 2τ/λ + 3√d·g.

* δ > 0: Gaussian noise.
* δ = 0: discrete Laplace noise on every coordinate, for the L1 sensitivity √d × the L2 one. (Noise with density
  ∝ exp(−ε|b|₂/Δ) would be shorter by √2, but has no exact sampler here.)

Preconditions: λ > 0; the loss is Lipschitz everywhere and smooth (smoothness is for the certificate of τ, not for the
sensitivity); weights at most 1.
Utility: excess ≤ λR²/(2n) + min(L·|b|, β|b|²/2) for noise b (the second for β-smooth losses and J's own minimiser).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from deniable import noise
from deniable._checks import positive
from deniable._progress import Tracker, silent
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import PureDP
from deniable.learning.optimizers.base import Array, Data, Method, MethodPlan, Task, smooth, steady
from deniable.learning.optimizers.minimum import DEFAULT_RATIO, minimisable, minimise, placed_on, placing, reachable
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, multiplier
from deniable.noise import Source
from deniable.numerics.exact import whole_root_above

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
        task = smooth(task, self, width=0.1)  # at most 0.025 above a hinge, and minima stay quick to find
        loss = steady(task, self)
        length = self._length(task)  # of the noise, in sensitivities
        if self.strength is not None:
            strength = self.strength
        else:
            # λR²/(2n) against (β/2)(length·sides·L/λ)²: the minimum is at λ³ = 2nβ(length·sides·L)²/R².
            noise_part = 2 * task.size * loss.smoothness * (length * task.sides * loss.lipschitz) ** 2
            balance = (noise_part / task.reach**2) ** (1 / 3)
            strength = max(task.regularization, balance, DEFAULT_RATIO * loss.smoothness)
        minimisable(task, self, strength=strength)
        tolerance = max(TOLERANCE * loss.lipschitz, reachable(task))
        sensitivity = (task.sides * loss.lipschitz + 2 * tolerance) / strength * (1 + 1e-12)
        bound, draws = GRID + placing(task.parameters), task.parameters
        event: Event
        if isinstance(task.target, PureDP):
            ratio = Fraction(0)
            scale, far = laplace(bound, task)
            event = DiscreteLaplace(scale, far, task.relation, coordinates=draws)
        else:
            ratio = multiplier(task.target)
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
        return math.sqrt(d) / largest_mu(task.target)


def laplace(bound: int, task: Task) -> tuple[Fraction, int]:
    """Scale and L1 sensitivity for integer points at most `bound` apart in L2: √d of it, rounded up."""
    far = bound * whole_root_above(task.parameters)
    return far / task.target.epsilon, far


@dataclass(frozen=True)
class OutputPlan(MethodPlan):
    """One run."""

    strength: float
    tolerance: float
    step: float
    bound: int
    ratio: Fraction

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task = self.task
        theta = minimise(data, task.linear, strength=self.strength, tolerance=self.tolerance)
        placed = placed_on(theta, self.step)
        if isinstance(task.target, PureDP):
            drawn = noise.discrete_laplace(laplace(self.bound, task)[0], placed.shape, source=source)
            noisy = noise.add(placed, drawn).astype(float)
        else:
            noisy = add_gaussian(placed, bound=self.bound, ratio=self.ratio, source=source)
        return task.project(noisy * self.step)
