"""Descent for additive models: hats where the records allow them, straight lines where not.

An additive model has six parameters where a linear one has one. It is far better where records are many and far worse
where they are few, and the number of records is private. So a hundredth of μ² buys a noisy count first (nothing where
the number is public), and hats are taken if μ × records ÷ columns is at least `ENOUGH` and every parameter has ten
records. Both ways cost the same event.

A straight line is itself a sum of hats: with knots t_k on [−1, 1], x = Σ t_k·hat_k(x). So the linear model is found on
the rows times that matrix, and told in hats: what is released has one shape whatever the count was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable._progress import Tracker, silent
from deniable.learning.optimizers.base import Array, Data, Method, MethodPlan, Solution, Task
from deniable.learning.optimizers.whitening import Whitened, WhitenedPlan
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, round_up
from deniable.learning.table import ONE, IntegerTable
from deniable.noise import Source

ENOUGH = 20.0
"""μ × records ÷ columns from which hats won on public tables; 10 to 40 score alike."""

PER_PARAMETER = 10
"""Records for each parameter from which curves are taken: with fewer they fit chance, with or without privacy."""

COUNT_SHARE = Fraction(1, 100)
"""The part of μ² for the count: its noise of 10/μ moves μn/columns by 10/columns, little beside `ENOUGH`."""


@dataclass(frozen=True)
class AdditiveDescent(Method):
    """`Whitened`, on hats or on straight lines.

    Args:
        groups: for every column, how many hats it has; 0 for a column that stays as it is.
        columns: how many declared columns there are, a group of indicators counting once.
    """

    name: ClassVar[str] = "additive"
    theorem: ClassVar[str] = "a noisy count, a noisy second moment, noisy gradients: Gaussian composition"
    counts: ClassVar[bool] = True

    groups: tuple[int, ...] = ()
    columns: int = 1

    def plan(self, task: Task) -> AdditivePlan:
        share = Fraction(0) if task.size else COUNT_SHARE
        method, mu = Whitened(part=1 - share), largest_mu(task.target)
        straight = self.straight(task.columns)
        bent, plain = method.plan(task), method.plan(replace(task, columns=straight.shape[1]))
        if bent.event != plain.event:
            raise self.refuse("the two ways have different events.")  # they do not depend on the number of columns
        ratio = Fraction(1) if task.size else round_up(1 / (mu * math.sqrt(share)) * (1 + 1e-12))
        counted = gaussian_event(ratio, draws=1, relation=task.relation, sensitivity=1)
        event = bent.event if task.size else counted + bent.event
        return AdditivePlan(task, event, math.inf, self, bent, plain, ratio, mu / task.sides)

    def straight(self, width: int) -> NDArray[np.float64]:
        """The matrix from hats to straight lines; what follows the groups (a constant) stays."""
        rest = width - sum(max(1, hats) for hats in self.groups)
        blocks = [np.linspace(-1, 1, hats)[:, None] if hats else np.eye(1) for hats in self.groups]
        matrix = np.zeros((width, len(blocks) + rest))
        start = 0
        for place, block in enumerate(blocks):
            matrix[start : start + len(block), place] = block[:, 0]
            start += len(block)
        matrix[start:, len(blocks) :] = np.eye(rest)
        return matrix


@dataclass(frozen=True)
class AdditivePlan(MethodPlan):
    """One run."""

    method: AdditiveDescent
    bent: WhitenedPlan
    plain: WhitenedPlan
    ratio: Fraction
    mu: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        return self.solve(data, source=source, track=track).theta

    def solve(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Solution:
        size = float(self.task.size) or self.count(data, source)
        if self.mu * size / self.method.columns >= ENOUGH and size >= PER_PARAMETER * self.task.columns:
            return self.bent.solve(data, source=source, track=track)
        straight = self.method.straight(self.task.columns)
        # Straight rows are no longer than the columns' norm, which is 1 here: |Σ t_k hat_k| ≤ 1 for each of them.
        lines = Data(IntegerTable.place(data.table.margins(straight), norm=1.0), data.labels, data.weights)
        found = self.plain.solve(lines, source=source, track=track)
        return replace(
            found, theta=np.asarray(straight @ found.theta), spread=found.spread and found.spread.through(straight)
        )

    def count(self, data: Data, source: Source | None) -> float:
        """The noisy number of records, each counting its weight."""
        weights = np.ones(data.table.count) if data.weights is None else data.weights
        total = np.array([int(np.trunc(weights * ONE).astype(np.int64).sum())])
        return float(add_gaussian(total, bound=ONE, ratio=self.ratio, source=source)[0]) / ONE
