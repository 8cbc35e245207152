"""Noisy projected gradient descent exactly as textbooks state it, with the constants of its theorem.

F is an average of n convex L-Lipschitz losses, X a convex set of diameter R, neighbours exchange one record. With

    σ = 4L√(T ln(1/δ))/(εn),  T ≥ n²ε²/(32 d ln(1/δ)),  η = (R/L)(2T + 32dT² ln(1/δ)/(ε²n²))^{−1/2},

x_{t+1} = Proj_X(x_t − η(∇F(x_t) + N(0, σ²I))) and the average of x_0 … x_{T−1}, it is (ε, δ)-DP if δ ≤ e^{−ε}, and

    E F(average) − min F ≤ 8LR√(d ln(1/δ))/(εn).

The proof as usually printed gives 9.80 for this T; 8 is true because independent noise has second moment exactly
L² + dσ², which gives 7.35. (Bassily–Smith–Thakurta 2014; the privacy is 2L√T/(nσ)-GDP, which `event` states, and is
less than ε, δ.)

It takes T·n, about n², gradients. `GradientDescent` is the same with tight noise and as few steps as are wanted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable._progress import Tracker, silent
from deniable.guarantees import ApproxDP
from deniable.learning.optimizers.base import (
    Array,
    BallMethod,
    Data,
    MethodPlan,
    Task,
    clipped_sum,
    exchanged,
    gradient_grid,
)
from deniable.learning.privacy import add_gaussian, gaussian_event, multiplier, round_up
from deniable.noise import Source


def bound(task: Task) -> float:
    """8LR√(d ln(1/δ))/(εn), R the diameter of the ball."""
    epsilon, spread = float(task.target.epsilon), math.log(1 / task.delta)
    return 16 * task.loss.lipschitz * task.reach * math.sqrt(task.parameters * spread) / (epsilon * task.size)


def least_steps(task: Task) -> int:
    """The smallest T of the theorem."""
    exact = (task.size * float(task.target.epsilon)) ** 2 / (32 * task.parameters * math.log(1 / task.delta))
    return max(1, math.ceil(exact))


@dataclass(frozen=True)
class TextbookGradientDescent(BallMethod):
    """The theorem's own step, noise and number of steps (the smallest it allows, by default)."""

    name: ClassVar[str] = "textbook"
    theorem: ClassVar[str] = "Bassily–Smith–Thakurta 2014, as a textbook theorem with constant 8"

    def plan(self, task: Task) -> TextbookPlan:
        exchanged(task, self)
        task, radius = self.inside(task)
        if not isinstance(task.target, ApproxDP):
            raise self.refuse("it needs delta > 0.")
        epsilon, delta, d = float(task.target.epsilon), task.delta, task.parameters
        if delta > math.exp(-epsilon):
            raise self.refuse(f"its noise is proved for delta <= exp(-epsilon) = {math.exp(-epsilon):.3g}.")
        least = least_steps(task)
        steps = self.steps if self.steps is not None else least
        if steps < least:
            raise self.refuse(f"its theorem needs at least {least} steps.")
        spread = math.log(1 / delta)
        # σ·n/L as printed; the tight noise is less under the precondition on δ.
        ratio = max(
            round_up(4 * math.sqrt(steps * spread) / epsilon),
            2 * multiplier(task.target, steps=steps),
        )
        loose = 2 * steps + 32 * d * steps**2 * spread / (epsilon * task.size) ** 2
        rate = 2 * radius / task.loss.lipschitz / math.sqrt(loose)
        event = gaussian_event(ratio, steps=steps, draws=steps * d, relation=task.relation)
        return TextbookPlan(task, event, bound(task), steps, ratio, rate)


@dataclass(frozen=True)
class TextbookPlan(MethodPlan):
    """One run."""

    steps: int
    ratio: Fraction
    rate: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task = self.task
        unit, most, worth = gradient_grid(task.loss.lipschitz)
        theta, total = np.zeros(task.shape), np.zeros(task.shape)
        for _ in track(range(self.steps)):
            total += theta
            sums = clipped_sum(data, task, theta, unit=unit, bound=most)
            noisy = add_gaussian(sums, bound=most, ratio=self.ratio, source=source) * (worth / task.size)
            theta = task.project(theta - self.rate * noisy)
        return np.asarray(total / self.steps)
