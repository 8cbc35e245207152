"""Follow the regularised leader with noisy prefix sums: DP-FTRL, in one pass.

The records, in their order, are cut into T batches. θ_{t+1} = argmin over |θ| ≤ R of ⟨S̃_t, θ⟩ + (λ/2)|θ|², where S̃_t
estimates the sum of the average gradients of batches 1 … t; the average of θ_1 … θ_T, each counted by the size of its
batch, is returned. The sums of gradients, exact integers, are measured in the nodes of a binary tree
(`strategies.Tree`), each with discrete Gaussian noise, and S̃_t is Honaker's estimate from these measurements alone. No
sampling is assumed. A record is in one batch, its batch in at most ⌊log₂ T⌋ + 1 nodes: one `TreeGaussian` (Kairouz et
al. 2021, "Practical and private (deep) learning without sampling or shuffling").

*Regret.* Let g_t be the gradient that was added at θ_t, |g_t| ≤ L (for batches of one size), and ν_t the noise of S̃_t.
For every θ with |θ| ≤ R

    Σ_t ⟨g_t, θ_t − θ⟩  ≤  λR²/2 + Σ_t |g_t|²/(2λ) + (L/λ)·Σ_t |ν_{t−1}|.

Without noise the first two terms are the regret of following the leader with a λ-strongly convex regulariser (McMahan
2017, Theorem 1). A projection brings points no further apart, so noise moves θ_t by at most |ν_{t−1}|/λ: the third
term. For convex losses the left side bounds Σ_t f_t(θ_t) − f_t(θ). With E|ν_t| ≤ √(d·v_t)·s, s the noise of one node
and v_t Honaker's variance, the best λ gives an average regret, and for independent records an expected excess risk, of
at most

    R·√((L² + 2L·V)/T),   V = s·√d·(1/T)·Σ_t √v_{t−1}.

Preconditions: REPLACE (the order and number of records are public); convex; |gradient| ≤ L (clipped to it); a radius; δ
> 0; no regularization.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable._progress import Tracker, silent
from deniable.errors import InvalidArgument
from deniable.events import TreeGaussian
from deniable.learning.optimizers.base import (
    Array,
    BallMethod,
    Data,
    MethodPlan,
    Task,
    clipped_sum,
    counted,
    exchanged,
    gradient_grid,
)
from deniable.learning.privacy import MARGIN, add_gaussian, enlarge_mu, largest_mu, round_up
from deniable.noise import Source
from deniable.noise.discrete import LEAK
from deniable.numerics.rounding import float_above, float_below
from deniable.strategies import Tree

NEAR = 1.02
"""More batches are not taken once the bound is so near the one for a batch per record."""


@dataclass(frozen=True)
class FTRL(BallMethod):
    """One pass in `steps` batches; default: as few as leave the bound within 2 % of its best."""

    name: ClassVar[str] = "ftrl"
    theorem: ClassVar[str] = "DP-FTRL by tree aggregation (Kairouz et al. 2021)"

    def plan(self, task: Task) -> FTRLPlan:
        exchanged(task, self)
        task, radius = self.inside(task)
        mu = largest_mu(task.target)
        if self.steps is not None and self.steps > task.size:
            raise self.refuse(f"it needs a record in each of its {self.steps} batches, and there are fewer.")
        steps = self.steps if self.steps is not None else _steps(task, radius, mu)
        tree = Tree(steps)
        ratio = _ratio(tree, task, mu)
        event = TreeGaussian(ratio, steps, relation=task.relation)
        moved = task.sides * math.sqrt(event.nodes)
        leaked = float_above(LEAK * tree.rows * task.parameters)
        if enlarge_mu(moved * (1 + 1e-15) / float(ratio * MARGIN), leaked) > float_below(Fraction(moved) / ratio):
            raise InvalidArgument("epsilon", "too small or too large", "a number that noise of so many draws can meet")
        risk = _bound(task, radius, tree, ratio)
        return FTRLPlan(task, event, risk, steps, ratio, risk * steps / radius**2)


@dataclass(frozen=True)
class FTRLPlan(MethodPlan):
    """One run."""

    steps: int
    ratio: Fraction
    strength: float
    """λ."""

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        total = np.zeros(self.task.shape)
        edges = cuts(self.task.size, self.steps)
        for step, theta in enumerate(self.iterates(data, source=source, track=track)):
            total += theta * (edges[step + 1] - edges[step])
        return np.asarray(total / self.task.size)

    def iterates(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Iterator[Array]:
        """θ_1 … θ_T, each before its batch is read."""
        counted(self.task, data)
        unit, bound, worth = gradient_grid(self.task.loss.lipschitz)
        stream, sums = Tree(self.steps).stream(), PrefixNodes()
        theta, leader = np.zeros(self.task.shape), np.zeros(self.task.shape)
        edges = cuts(self.task.size, self.steps)
        for step in track(range(self.steps)):
            yield theta
            batch = data.take(np.arange(edges[step], edges[step + 1]))
            found: NDArray[Any] = clipped_sum(batch, self.task, theta, unit=unit, bound=bound)
            if self.task.size * bound >= 1 << 62:
                found = found.astype(object)  # the nodes above may not wrap around
            nodes = sums.ended(found, stream.draws())
            measured = [add_gaussian(node, bound=bound, ratio=self.ratio, source=source) for node in nodes]
            # What the stream makes of the measurements is the batch's gradient with its noise.
            leader = leader + stream.next(measured) * (worth * self.steps / self.task.size)
            theta = self.task.project(-leader / self.strength)


class PrefixNodes:
    """Exact sums in the nodes of a binary tree, as they end."""

    def __init__(self) -> None:
        self._open: list[NDArray[Any]] = []

    def ended(self, leaf: NDArray[Any], count: int) -> list[NDArray[Any]]:
        """The sums of the `count` nodes that end with a leaf, the leaf first."""
        found = [leaf]
        for _ in range(count - 1):
            found.append(self._open.pop() + found[-1])
        self._open.append(found[-1])
        return found


def cuts(size: int, steps: int) -> list[int]:
    """The edges of `steps` batches of `size` records, as equal as can be."""
    return [size * step // steps for step in range(steps + 1)]


def _ratio(tree: Tree, task: Task, mu: float) -> Fraction:
    """The noise of a node, in record norms: μ = sides·√nodes/ratio."""
    return round_up(task.sides * math.sqrt(tree.steps.bit_length()) / mu * (1 + 1e-12))


def _noise(task: Task, tree: Tree, ratio: Fraction) -> float:
    """V: the average length of the noise of a prefix sum of average gradients."""
    each = float(ratio) * task.loss.lipschitz * tree.steps / task.size
    before = np.concatenate([[0.0], tree.variances()[:-1]])
    return each * math.sqrt(task.parameters) * float(np.mean(np.sqrt(before)))


def _bound(task: Task, radius: float, tree: Tree, ratio: Fraction) -> float:
    """R·√((L² + 2L·V)/T); the best λ is T/R² times that. Batches that differ by one record count as the larger."""
    long = task.loss.lipschitz * tree.steps * -(-task.size // tree.steps) / task.size
    return radius * math.sqrt((long**2 + 2 * long * _noise(task, tree, ratio)) / tree.steps)


def _steps(task: Task, radius: float, mu: float) -> int:
    """The fewest batches, a power of two or one per record, whose bound is near the best."""
    tried = [1 << k for k in range(task.size.bit_length())]
    bounds = [_bound(task, radius, Tree(steps), _ratio(Tree(steps), task, mu)) for steps in tried]
    near = [steps for steps, bound in zip(tried, bounds, strict=True) if bound <= NEAR * min(bounds)]
    return near[0]
