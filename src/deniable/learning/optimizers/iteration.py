"""The last iterate of one noisy pass, with privacy amplification by iteration.

x_{t+1} = Proj(x_t − η(∇f(x_t; s_t) + Z_t)), Z_t ~ N(0, s²I), for convex, L-Lipschitz, β-smooth losses and η ≤ 2/β:
every step is a contraction followed by noise, so noise that comes after a record's own step hides it too. The record
of step t, exchanged, has Rényi divergence at most 2αL²/(s²·(steps that follow, and its own)) at every order α, if
*only the last iterate* is released (Feldman–Mironov–Talwar–Thakurta 2018). The last record would have no
amplification; so `rest` steps without data (f = 0, a contraction too) follow the pass, and every record has ρ ≤
2L²/(s²(rest + 1))-zCDP.

Preconditions: REPLACE; Lipschitz everywhere; smooth; η ≤ 2/β; δ > 0.
The theorem is about real numbers and continuous noise. Here the noise is the discrete Gaussian on a grid of 2⁻³⁰ noise
scales and the iterates are float64: one of the exceptions that the documentation lists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable._checks import count, positive
from deniable.events import Claimed
from deniable.guarantees import ZCDP, ApproxDP
from deniable.learning.optimizers.base import Array, Data, Method, Plan, Task, linear
from deniable.learning.privacy import largest_rho, rounded_up
from deniable.noise import Source
from deniable.units import Relation

_GRID = 1 << 30


@dataclass(frozen=True)
class LastIterate(Method):
    """One noisy pass; only its end is released."""

    name: ClassVar[str] = "last_iterate"
    theorem: ClassVar[str] = "amplification by iteration (Feldman–Mironov–Talwar–Thakurta 2018)"
    size_free: ClassVar[bool] = False

    rest: int | None = None
    """Steps without data at the end; default: as many as there are records."""

    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.rest is not None:
            count("rest", self.rest, least=0)
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)

    def plan(self, task: Task) -> LastIteratePlan:
        loss = linear(task, self)
        if task.relation is not Relation.REPLACE:
            raise self.refuse("it is stated for relation='replace'.")
        if not isinstance(task.target, ApproxDP):
            raise self.refuse("it needs delta > 0.")
        if not loss.everywhere or not loss.smooth:
            raise self.refuse(f"{type(loss).__name__} is not smooth and Lipschitz everywhere.")
        rest = task.size if self.rest is None else self.rest
        rho = largest_rho(task.target)
        scale = float(rounded_up(loss.lipschitz * math.sqrt(2 / (rho * (rest + 1))) * (1 + 1e-8)))
        shaken = math.sqrt(task.parameters * (task.size + rest)) * scale
        best = task.reach / (loss.lipschitz * math.sqrt(task.size) + shaken)
        rate = self.learning_rate if self.learning_rate is not None else min(best, 1 / loss.smoothness)
        if rate > 2 / loss.smoothness:
            raise self.refuse(f"steps must be at most 2/beta = {2 / loss.smoothness:.4g} to be contractions.")
        promised = rounded_up(2 * loss.lipschitz**2 / (scale**2 * (rest + 1)) * (1 + 1e-12))
        event = Claimed(ZCDP(promised, relation=task.relation))
        return LastIteratePlan(task, event, math.inf, rest, scale, rate)


@dataclass(frozen=True)
class LastIteratePlan(Plan):
    """One run."""

    rest: int
    scale: float
    rate: float

    def run(self, data: Data, *, source: Source | None = None) -> Array:
        task, loss = self.task, self.task.linear
        rows, theta = data.table.points(), np.zeros(task.shape)
        for i in range(len(rows) + self.rest):
            drawn = noise.discrete_gaussian(_GRID, theta.shape, source=source).astype(np.float64)
            move = drawn * (self.scale / _GRID)
            if i < len(rows):
                margins = rows[i : i + 1] @ theta
                residual = loss.residuals(margins, data.labels[i : i + 1])[0]
                if data.weights is not None:
                    residual = residual * data.weights[i]
                move = move + (rows[i] * residual if theta.ndim == 1 else np.outer(rows[i], residual))
            theta = task.project(theta - self.rate * move)
        return theta
