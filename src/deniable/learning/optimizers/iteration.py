"""The last iterate of one noisy pass, with privacy amplification by iteration.

x_{t+1} = Proj(x_t − η(∇f(x_t; s_t) + Z_t)), Z_t ~ N(0, s²I), for convex, L-Lipschitz, β-smooth losses and η ≤ 2/β:
every step is a contraction followed by noise, so noise that comes after a record's own step hides it too. The last
record would have no amplification; so `rest` steps without data (f = 0, a contraction too) follow the pass. If *only
the last iterate* is released, exchanging a record that k = `rest` + 1 or more steps see, its own among them, is
2L/(s√k)-GDP (Bok–Su–Altschuler 2024; for Rényi divergences Feldman–Mironov–Talwar–Thakurta 2018).

*Proof.* Write the iterates before projection, y ← φ_t(Proj y) − ηZ_t. Let y be the run on D, and let y′ be a run on D′
that starts equal to it and whose noise is moved by v_t: at the step of the exchanged record the means are at most
2ηL apart, and at this and every later one v_t removes 2L/k of the distance between y and y′ that is left, in units of
η. Contractions do not enlarge it, so after k steps y = y′: the last iterate on D is what D′ makes of the noises
Z_t + v_t. Each |v_t| ≤ 2L/k, and v_t depends on earlier noises alone: telling these noises from the Z_t is an adaptive
composition of k Gaussian mechanisms of sensitivity 2L/k and scale s, √k·2L/(ks)-GDP (Dong–Roth–Su 2019, Cor. 3.3). ∎

*The program is not the theorem, and pays for the difference.* Its noise is a random rounding of a continuous Gaussian
(see `privacy`), moved by more than 240 grid steps in no coordinate but with probability below 10⁻³⁴⁰; its iterates are
rounded to float64. A step is a contraction, so what it errs by is added up and not amplified: the last iterate is
within r = T·(η·240√d·g + rounding of one step) of the theorem's. Given the theorem's iterate, the program's on two
neighbours are at most 2r apart, and Gaussian noise for that distance, a small part of μ², is added before the release.
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
from deniable._progress import Tracker, silent
from deniable.events import Claimed
from deniable.guarantees import GDP, ApproxDP
from deniable.learning.optimizers.base import (
    Array,
    Data,
    Method,
    MethodPlan,
    Task,
    counted,
    exchanged,
    steady,
    unpenalised,
)
from deniable.learning.optimizers.minimum import placed_on, placing
from deniable.learning.optimizers.phases import drift
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, leak, round_up
from deniable.noise import Source
from deniable.noise.discrete import LEAK, SPREAD

SHARE = 0.01
"""The part of μ² that pays for the distance between program and theorem."""

_GRID = 1 << 40
_ROUNDED = 240
_LAST_GRID = 1 << 14


@dataclass(frozen=True)
class LastIterate(Method):
    """One noisy pass; only its end is released."""

    name: ClassVar[str] = "last_iterate"
    theorem: ClassVar[str] = "amplification by iteration (Feldman–Mironov–Talwar–Thakurta 2018; proof in `iteration`)"
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
        mu = largest_mu(ApproxDP(task.target.epsilon, task.target.delta - LEAK * draws, relation=task.relation))
        scale = float(round_up(2 * loss.lipschitz / (mu * math.sqrt((1 - SHARE) * (rest + 1))) * (1 + 1e-8)))
        shaken = math.sqrt(d * steps) * scale
        best = task.reach / (loss.lipschitz * math.sqrt(task.size) + shaken)
        rate = self.learning_rate if self.learning_rate is not None else min(best, 1 / loss.smoothness)
        # Less a billionth: β and the quotient are rounded, and thousands of steps would add up what is too long.
        if rate > 2 / loss.smoothness * (1 - 1e-9):
            raise self.refuse(f"steps must be below 2/beta = {2 / loss.smoothness:.4g} to be contractions.")
        promised = round_up(2 * loss.lipschitz / (scale * math.sqrt(rest + 1)) * (1 + 1e-12))
        ratio = round_up(1 / (mu * math.sqrt(SHARE)) * (1 + 1e-8))
        event = (
            Claimed(GDP(promised, relation=task.relation))
            + gaussian_event(ratio * 2, draws=d, relation=task.relation)
            + leak(draws, task.relation)
        )
        # No coordinate of the noise exceeds 40 scales but with the probability of the tails.
        leap = rate * (loss.lipschitz + 40 * scale * math.sqrt(d))
        longest = steps * leap if task.radius is None else min(steps * leap, task.radius + leap)
        moved = steps * rate * scale * math.sqrt(d) * _ROUNDED / _GRID + drift(steps, task, longest)
        return LastIteratePlan(task, event, math.inf, rest, scale, rate, 2 * moved * (1 + 1e-12), ratio)


@dataclass(frozen=True)
class LastIteratePlan(MethodPlan):
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
