"""Stochastic convex optimisation in one pass: phased SGD, and localisation by regularised minima.

Both (Feldman–Koren–Talwar 2020) cut the records into blocks of sizes n/2, n/4, …, work on block i from the last
centre with a scale η_i = η/4^i, and add Gaussian noise to the result before it becomes the next centre. A record is
in one block, so exchanging it changes one noisy answer: the cost is that of a single Gaussian step (parallel
composition, REPLACE only).

* `PhasedSGD`: one step x ← x − η_i∇f(x; s) per record, average. For β-smooth convex losses and η_i ≤ 2/β a step
  brings no two points further apart (Hardt–Recht–Singer 2016), so the average moves by at most 2Lη_i. n gradients in
  all.
* `Localisation`: minimise Σ f + |x − centre|²/η_i on the block. It is 2/η_i-strongly convex, so its minimiser moves
  by at most Lη_i, plus τη_i for a gradient of at most τ. No smoothness for privacy; the certified minimiser here
  needs it.

What floating point adds to the distance is bounded per step and paid for. Preconditions: REPLACE; Lipschitz
everywhere; δ > 0; no regularization. A hinge has its corner rounded off first, by a width that follows from η: the risk
of that does not depend on the dimension.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable._checks import positive
from deniable._progress import Tracker, silent
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import (
    Array,
    Data,
    Method,
    MethodPlan,
    Task,
    counted,
    exchanged,
    smooth,
    steady,
    unpenalised,
)
from deniable.learning.optimizers.minimum import minimisable, minimise, placed_on, placing, reachable
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, multiplier
from deniable.noise import Source

_GRID = 1 << 30
_TOLERANCE = 1e-6


def _checked(method: Method, task: Task) -> LinearLoss:
    loss = steady(task, method)
    exchanged(task, method)
    unpenalised(task, method)
    if task.size < 2:
        raise method.refuse("it needs two records or more.")
    return loss


def blocks(size: int) -> tuple[slice, ...]:
    """Halves of what is left, the last record alone at the end."""
    found, start = [], 0
    while start < size:
        stop = start + max(1, (size - start) // 2)
        found.append(slice(start, stop))
        start = stop
    return tuple(found)


def _scale(task: Task, mu: float) -> float:
    """η = (R/L)·min(1/√n, μ/√d)."""
    return task.reach / task.loss.lipschitz * min(1 / math.sqrt(task.size), mu / math.sqrt(task.parameters))


def _risk(task: Task, mu: float) -> float:
    """The order LR(1/√n + √d/(nμ)) of their theorem, with constant 10: a rate, not a certified constant."""
    rate = 1 / math.sqrt(task.size) + math.sqrt(task.parameters) / (task.size * mu)
    return 10 * task.loss.lipschitz * task.reach * rate


def drift(steps: int, task: Task, longest: float) -> float:
    """How far rounding may carry the end of `steps` float64 steps, each a contraction of points of norm `longest`.

    One step rounds the margins (β times parameters + 2 roundings of |θ|, times a step of at most 2/β), residuals (64
    roundings of ηL ≤ |θ| + ηL), the move, the norm and the quotient of the projection, and the running sum.
    """
    return 4.0 * steps * (task.parameters + 40) * 2.0**-52 * (1 + longest)


@dataclass(frozen=True)
class _Phases(Method):
    """What both share: the checks, the noise, the event."""

    size_free: ClassVar[bool] = False

    scale: float | None = None
    """η; default (R/L)·min(1/√n, μ/√d), for `PhasedSGD` at most 1/β."""

    def __post_init__(self) -> None:
        if self.scale is not None:
            positive("scale", self.scale)

    def plan(self, task: Task) -> PhasesPlan:
        mu, ratio = largest_mu(task.target), multiplier(task.target)
        task = self.smooth(task)
        loss = _checked(self, task)
        scale = self.scale if self.scale is not None else min(_scale(task, mu), self._longest(loss) / 2)
        if scale / 4 > self._longest(loss) * (1 - 1e-9):
            raise self.refuse(f"steps must be at most 2/beta = {self._longest(loss):.4g} to be contractions.")
        draws = len(blocks(task.size)) * task.parameters
        event = gaussian_event(ratio * 2, draws=draws, relation=task.relation)
        return PhasesPlan(task, event, _risk(task, mu), self, scale, ratio)

    def smooth(self, task: Task) -> Task:
        """The task without corners: rounded off within η/4, which costs at most η/16 of risk beside L²η of the method.

        SmoothedHinge(h) is 1/(2h)-smooth, so steps up to 4h = η are contractions, and the longest one is η/4.
        """
        eta = self.scale if self.scale is not None else _scale(task, largest_mu(task.target))
        return smooth(task, self, width=eta / 4)

    def _longest(self, loss: LinearLoss) -> float:
        """The longest step that the proof allows."""
        return math.inf

    @abstractmethod
    def work(self, data: Data, task: Task, centre: Array, eta: float) -> tuple[Array, float]:
        """What a block moves the centre by, and how far apart that is on two neighbours."""


@dataclass(frozen=True)
class PhasedSGD(_Phases):
    """One pass, one gradient per record."""

    name: ClassVar[str] = "phased"
    theorem: ClassVar[str] = "Feldman–Koren–Talwar 2020"

    def _longest(self, loss: LinearLoss) -> float:
        return 2 / (loss.smoothness + 1e-12)

    def work(self, data: Data, task: Task, centre: Array, eta: float) -> tuple[Array, float]:
        loss = task.linear
        rows, theta, total = data.table.points(), centre.copy(), np.zeros(task.shape)
        for i in range(len(rows)):
            residual = data.weighted_at(i, loss.residuals(rows[i : i + 1] @ theta, data.labels[i : i + 1])[0])
            theta = task.project(theta - eta * (rows[i] * residual if theta.ndim == 1 else np.outer(rows[i], residual)))
            total += theta
        longest = float(np.linalg.norm(centre)) + eta * loss.lipschitz * len(rows)
        rounded = 2 * drift(len(rows), task, longest)
        return total / len(rows) - centre, 2 * loss.lipschitz * eta * (1 + 1e-12) + rounded


@dataclass(frozen=True)
class Localisation(_Phases):
    """Regularised minima of blocks that halve: from ERM to SCO."""

    name: ClassVar[str] = "localisation"
    theorem: ClassVar[str] = "Feldman–Koren–Talwar 2020 (phased ERM)"

    def plan(self, task: Task) -> PhasesPlan:
        plan = super().plan(task)
        minimisable(plan.task, self, strength=8 / plan.scale)  # that of the first phase; later ones have more
        return plan

    def work(self, data: Data, task: Task, centre: Array, eta: float) -> tuple[Array, float]:
        strength = 2 / eta
        tolerance = max(_TOLERANCE * task.loss.lipschitz, reachable(task))
        found = minimise(data, task.linear, strength=strength, tolerance=tolerance, origin=centre)
        return found, (2 * task.loss.lipschitz + 2 * tolerance) / strength * (1 + 1e-12)


@dataclass(frozen=True)
class PhasesPlan(MethodPlan):
    """One run of either."""

    method: _Phases
    scale: float
    ratio: Fraction

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task = self.task
        counted(task, data)
        cut, centre = blocks(task.size), np.zeros(task.shape)
        for phase in track(range(len(cut))):
            part = data.take(np.arange(cut[phase].start, cut[phase].stop))
            moved, apart = self.method.work(part, task, centre, self.scale / 4 ** (phase + 1))
            # The centre is public, and the move is what is placed on the grid: late moves are far smaller than it.
            step = apart / _GRID
            bound = _GRID + placing(task.parameters)
            noisy = add_gaussian(placed_on(moved, step), bound=bound, ratio=self.ratio, source=source) * step
            centre = task.project(centre + noisy)
        return centre
