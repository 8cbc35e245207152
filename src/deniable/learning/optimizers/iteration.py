"""The last iterate of one noisy pass, with privacy amplification by iteration.

x_{t+1} = Proj(x_t − η(∇f(x_t; s_t) + Z_t)), Z_t ~ N(0, s²I), for convex, L-Lipschitz, β-smooth losses and η ≤ 2/β:
every step is a contraction followed by noise, so noise that comes after a record's own step hides it too. The record
of step t, exchanged, has Rényi divergence at most 2αL²/(s²·(steps that follow, and its own)) at every order α, if
*only the last iterate* is released (Feldman–Mironov–Talwar–Thakurta 2018, Theorem 23). The last record would have no
amplification; so `rest` steps without data (f = 0, a contraction too) follow the pass, and every record has ρ ≤
2L²/(s²(rest + 1))-zCDP.

*The program is not the theorem, and pays for the difference.* Its noise is a random rounding of a continuous Gaussian
(see `privacy`), moved by more than 240 grid steps in no coordinate but with probability below 10⁻³⁴⁰; its iterates are
rounded to float64. A step is a contraction, so what it errs by is added up and not amplified: the last iterate is
within r = T·(η·240√d·g + rounding of one step) of the theorem's. Given the theorem's iterate, the program's on two
neighbours are at most 2r apart, and Gaussian noise for that distance, a small part of ρ, is added before the release.
The leaks of all draws, twice for the tails, are part of δ.

Preconditions: REPLACE; Lipschitz everywhere; smooth; η ≤ 2/β; δ > 0; no regularization.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable._checks import count, positive
from deniable.events import Claimed
from deniable.guarantees import ZCDP, ApproxDP
from deniable.learning.optimizers.base import (
    Array,
    Data,
    Method,
    Plan,
    Task,
    counted,
    exchanged,
    steady,
    unpenalised,
)
from deniable.learning.optimizers.minimum import placed_on, placing
from deniable.learning.optimizers.phases import drift
from deniable.learning.privacy import LEAK, SPREAD, add_gaussian, gaussian_event, largest_rho, leak, rounded_up
from deniable.learning.progress import Tracker, silent
from deniable.noise import Source

SHARE = 0.01
"""The part of ρ that pays for the distance between program and theorem."""

_GRID = 1 << 40
_ROUNDED = 240
_LAST_GRID = 1 << 14


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
        loss = steady(task, self)
        exchanged(task, self)
        unpenalised(task, self)
        if not isinstance(task.target, ApproxDP):
            raise self.refuse("it needs delta > 0.")
        rest = task.size if self.rest is None else self.rest
        steps, d = task.size + rest, task.parameters
        draws = 2 * steps * d  # twice, for the tails
        rho = largest_rho(ApproxDP(task.target.epsilon, task.target.delta - LEAK * draws, relation=task.relation))
        scale = float(rounded_up(loss.lipschitz * math.sqrt(2 / (rho * (1 - SHARE) * (rest + 1))) * (1 + 1e-8)))
        shaken = math.sqrt(d * steps) * scale
        best = task.reach / (loss.lipschitz * math.sqrt(task.size) + shaken)
        rate = self.learning_rate if self.learning_rate is not None else min(best, 1 / loss.smoothness)
        if rate > 2 / loss.smoothness:
            raise self.refuse(f"steps must be at most 2/beta = {2 / loss.smoothness:.4g} to be contractions.")
        promised = rounded_up(2 * loss.lipschitz**2 / (scale**2 * (rest + 1)) * (1 + 1e-12))
        ratio = rounded_up(1 / math.sqrt(2 * rho * SHARE) * (1 + 1e-8))
        event = (
            Claimed(ZCDP(promised, relation=task.relation))
            + gaussian_event(ratio * 2, draws=d, relation=task.relation)
            + leak(draws, task.relation)
        )
        # No coordinate of the noise exceeds 40 scales but with the probability of the tails.
        leap = rate * (loss.lipschitz + 40 * scale * math.sqrt(d))
        longest = steps * leap if task.radius is None else min(steps * leap, task.radius + leap)
        moved = steps * rate * scale * math.sqrt(d) * _ROUNDED / _GRID + drift(steps, task, longest)
        return LastIteratePlan(task, event, math.inf, rest, scale, rate, 2 * moved * (1 + 1e-12), ratio)


@dataclass(frozen=True)
class LastIteratePlan(Plan):
    """One run."""

    rest: int
    scale: float
    rate: float
    apart: float
    ratio: Fraction

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task, loss = self.task, self.task.linear
        counted(task, data)
        rows, theta = data.table.points(), np.zeros(task.shape)
        for i in track(range(len(rows) + self.rest)):
            drawn = noise.discrete_gaussian(variance=_GRID**2 + SPREAD, size=theta.shape, source=source)
            move = drawn.astype(np.float64) * (self.scale / _GRID)
            if i < len(rows):
                residual = data.weighted_at(i, loss.residuals(rows[i : i + 1] @ theta, data.labels[i : i + 1])[0])
                move = move + (rows[i] * residual if theta.ndim == 1 else np.outer(rows[i], residual))
            theta = task.project(theta - self.rate * move)
        step = self.apart / _LAST_GRID
        bound = _LAST_GRID + placing(task.parameters)
        return task.project(add_gaussian(placed_on(theta, step), bound=bound, ratio=self.ratio, source=source) * step)
