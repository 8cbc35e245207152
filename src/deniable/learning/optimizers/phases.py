"""Stochastic convex optimisation in one pass: phased SGD, and localisation by regularised minima.

Both (Feldman–Koren–Talwar 2020) cut the records into blocks of sizes n/2, n/4, …, work on block i from the last
centre with a scale η_i = η/4^i, and add Gaussian noise to the result before it becomes the next centre. A record is
in one block, so exchanging it changes one noisy answer: the cost is that of a single Gaussian step (parallel
composition, REPLACE only).

* `PhasedSGD`: one step x ← x − η_i∇f(x; s) per record, average. For β-smooth convex losses and η_i ≤ 2/β a step
  brings no two points further apart, so the average moves by at most 2Lη_i (their Proposition 2.10). n
  gradients in all.
* `Localisation`: minimise Σ f + |x − centre|²/η_i on the block. It is 2/η_i-strongly convex, so its minimiser moves
  by at most Lη_i, plus τη_i for a gradient of at most τ. No smoothness for privacy; the certified minimiser here
  needs it.

What floating point adds to the distance is bounded per step and paid for. Preconditions are checked by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable._checks import positive
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Array, Data, Method, Plan, Task, linear
from deniable.learning.optimizers.minimum import minimise, placed_on
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, multiplier
from deniable.noise import Source
from deniable.units import Relation

_GRID = 1 << 30
_TOLERANCE = 1e-6


def _checked(method: Method, task: Task) -> LinearLoss:
    loss = linear(task, method)
    if task.relation is not Relation.REPLACE:
        raise method.refuse("blocks of fixed size exist under relation='replace' only.")
    if not loss.everywhere:
        raise method.refuse(f"{type(loss).__name__} is Lipschitz on a bounded set only.")
    if not loss.smooth:
        raise method.refuse(f"{type(loss).__name__} is not smooth.")
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


@dataclass(frozen=True)
class PhasedSGD(Method):
    """One pass, one gradient per record."""

    name: ClassVar[str] = "phased"
    theorem: ClassVar[str] = "Feldman–Koren–Talwar 2020"
    size_free: ClassVar[bool] = False

    scale: float | None = None
    """η; default (R/L)·min(1/√n, μ/√d), at most 1/β."""

    def __post_init__(self) -> None:
        if self.scale is not None:
            positive("scale", self.scale)

    def plan(self, task: Task) -> PhasesPlan:
        loss = _checked(self, task)
        draws = len(blocks(task.size)) * task.parameters
        mu = largest_mu(task.target, draws=draws)
        steady = 1 / (loss.smoothness + 1e-12)
        scale = self.scale if self.scale is not None else min(_scale(task, mu), steady)
        if scale / 4 > 2 * steady * (1 - 1e-9):
            raise self.refuse(f"steps must be at most 2/beta = {2 * steady:.4g} to be contractions.")
        ratio = multiplier(task.target, draws=draws)
        event = gaussian_event(ratio * 2, draws=draws, relation=task.relation)
        return PhasesPlan(task, event, _risk(task, mu), scale, ratio, True)


@dataclass(frozen=True)
class Localisation(Method):
    """Regularised minima of blocks that halve: from ERM to SCO."""

    name: ClassVar[str] = "localisation"
    theorem: ClassVar[str] = "Feldman–Koren–Talwar 2020 (phased ERM)"
    size_free: ClassVar[bool] = False

    scale: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            positive("scale", self.scale)

    def plan(self, task: Task) -> PhasesPlan:
        _checked(self, task)
        draws = len(blocks(task.size)) * task.parameters
        mu = largest_mu(task.target, draws=draws)
        scale = self.scale if self.scale is not None else _scale(task, mu)
        ratio = multiplier(task.target, draws=draws)
        event = gaussian_event(ratio * 2, draws=draws, relation=task.relation)
        return PhasesPlan(task, event, _risk(task, mu), scale, ratio, False)


@dataclass(frozen=True)
class PhasesPlan(Plan):
    """One run of either."""

    scale: float
    ratio: Fraction
    stepwise: bool

    def run(self, data: Data, *, source: Source | None = None) -> Array:
        task = self.task
        centre = np.zeros(task.shape)
        for phase, block in enumerate(blocks(task.size), start=1):
            eta = self.scale / 4**phase
            part = data.take(np.arange(block.start, block.stop))
            found, apart = (self._pass if self.stepwise else self._minimum)(part, centre, eta)
            step = apart / _GRID
            bound = _GRID + math.isqrt(task.parameters - 1) + 1
            noisy = add_gaussian(placed_on(found, step), bound=bound, ratio=self.ratio, source=source) * step
            centre = task.project(noisy)
        return centre

    def _pass(self, data: Data, centre: Array, eta: float) -> tuple[Array, float]:
        """The average of one pass of SGD, and how far it may move when one record is exchanged."""
        task, loss = self.task, self.task.linear
        rows, theta, total = data.table.points(), centre.copy(), np.zeros(task.shape)
        for i in range(len(rows)):
            residual = loss.residuals(rows[i : i + 1] @ theta, data.labels[i : i + 1])
            if data.weights is not None:
                residual = residual * data.weights[i]
            move = rows[i] * residual[0] if theta.ndim == 1 else np.outer(rows[i], residual[0])
            theta = task.project(theta - eta * move)
            total += theta
        longest = float(np.linalg.norm(centre)) + eta * loss.lipschitz * len(rows)
        rounding = 4.0 * len(rows) * (task.parameters + 16) * 2.0**-52 * (1 + longest)
        return total / len(rows), 2 * loss.lipschitz * eta * (1 + 1e-12) + rounding

    def _minimum(self, data: Data, centre: Array, eta: float) -> tuple[Array, float]:
        """The regularised minimiser of a block, and how far it may move."""
        loss, strength = self.task.linear, 2 / eta
        tolerance = _TOLERANCE * loss.lipschitz
        found = minimise(data, loss, strength=strength, slope=-strength * centre, tolerance=tolerance, start=centre)
        # The linear term is rounded once, alike for both neighbours.
        return self.task.project(found), (2 * loss.lipschitz + 2 * tolerance) / strength * (1 + 1e-12)
