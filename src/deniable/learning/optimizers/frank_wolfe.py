"""Noisy Frank–Wolfe on the L1 ball: a sparse answer whose error grows with ln d, not with √d.

Each of T steps asks which corner ±R·e_j of the L1 ball has the smallest inner product with the gradient, and moves
towards it. The question is answered by the exponential mechanism: a record moves every score by at most Δ =
R·sup|φ′|·|row|_∞ (2Δ when exchanged), and one corner is drawn with probability ∝ exp(−ε₀·score/(2Δ)), exactly, on
integer scores. T answers of range ε₀ are Tε₀²/8-zCDP (Cesar–Rogers 2021), which sets ε₀.
(Talwar–Thakurta–Zhang 2015.)

Preconditions: a linear model with one margin; residuals bounded by L (they are clipped to it); δ > 0; a radius for
the L1 ball. Utility for β-smooth losses: excess ≤ 2βR²·ln(T)/T-type curvature plus 2Δ ln(2d)·√T/(ε n)-type selection
error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable._progress import Tracker, silent
from deniable.events import ExponentialMechanism
from deniable.guarantees import ApproxDP
from deniable.learning.optimizers.base import (
    Array,
    BallMethod,
    Data,
    MethodPlan,
    Task,
    clipped_sum,
    gradient_grid,
    linear,
)
from deniable.learning.privacy import largest_rho, round_down
from deniable.noise import Source


@dataclass(frozen=True)
class FrankWolfe(BallMethod):
    """Corners of the L1 ball, chosen privately. `steps` defaults to what balances curvature against selection error."""

    name: ClassVar[str] = "frank_wolfe"
    theorem: ClassVar[str] = "private Frank–Wolfe (Talwar–Thakurta–Zhang 2015)"

    def plan(self, task: Task) -> FrankWolfePlan:
        loss = linear(task, self)
        if loss.outputs != 1:
            raise self.refuse("it needs one margin per record.")
        if not isinstance(task.target, ApproxDP):
            raise self.refuse("its composition needs delta > 0.")
        task, radius = self.inside(task)
        if not loss.smooth:
            raise self.refuse(f"{type(loss).__name__} is not smooth: Frank–Wolfe does not converge.")
        rho = largest_rho(task.target)
        wide = loss.lipschitz * radius * task.sides
        spread = math.log(2 * task.columns + 1)
        curved = 2 * loss.smoothness * radius**2
        # Selection error per step is 2Δ·ln(2d)/(nε₀) with ε₀ = √(8ρ/T).
        per_step = 2 * wide * spread / (task.size * math.sqrt(8 * rho))
        balance = (2 * curved / per_step) ** (2 / 3)
        steps = self.steps if self.steps is not None else max(1, min(2000, round(balance)))
        epsilon = round_down(math.sqrt(8 * rho / steps) * (1 - 1e-12))
        risk = curved / (steps + 2) + per_step * math.sqrt(steps)
        event = ExponentialMechanism(epsilon, task.relation) * steps
        return FrankWolfePlan(task, event, risk, steps, epsilon, radius)


@dataclass(frozen=True)
class FrankWolfePlan(MethodPlan):
    """One run."""

    steps: int
    epsilon: Fraction
    radius: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task = self.task
        unit, bound, _ = gradient_grid(task.loss.lipschitz)
        rate = self.epsilon / (2 * task.sides * bound)
        theta = np.zeros(task.columns)
        for step in track(range(self.steps)):
            # |row|_∞·|residual| ≤ |row|₂·|residual| ≤ bound, so every integer score moves by at most `bound` per
            # record.
            sums = clipped_sum(data, task, theta, unit=unit, bound=bound)
            scores = np.concatenate([-sums, sums])
            best = noise.race([int(score) for score in scores], rate=rate, source=source)
            corner = np.zeros(task.columns)
            corner[best % task.columns] = self.radius if best < task.columns else -self.radius
            theta = theta + 2 / (step + 2) * (corner - theta)
        return theta
