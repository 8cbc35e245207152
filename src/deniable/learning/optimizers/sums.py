"""The mean of points: their sum with noise once, divided by the number of records.

Points of norm at most 1 are integers; their sum gets discrete Gaussian noise (δ > 0), or discrete Laplace noise for the
L1 sensitivity √d (δ = 0). Under REPLACE two points may be 2 apart. Half the squared distance is minimised by the
mean, so the excess risk is half the squared noise, d·(sides/(nμ))²/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import PureDP
from deniable.learning.losses import HalfSquare
from deniable.learning.optimizers.base import Array, Data, Method, Plan, Task
from deniable.learning.privacy import add_gaussian, gaussian_event, multiplier
from deniable.learning.progress import Tracker, silent
from deniable.learning.table import ONE
from deniable.noise import Source
from deniable.numerics.exact import whole_root_above


@dataclass(frozen=True)
class NoisySum(Method):
    """One noisy sum."""

    name: ClassVar[str] = "sum"
    theorem: ClassVar[str] = "the Gaussian or Laplace mechanism"

    def plan(self, task: Task) -> NoisySumPlan:
        if not isinstance(task.loss, HalfSquare):
            raise self.refuse("the sum determines the mean only.")
        d = task.columns
        if isinstance(task.target, PureDP):
            bound = _laplace_bound(task)
            ratio = 1 / task.target.epsilon
            event: Event = DiscreteLaplace(bound * ratio, bound, task.relation, coordinates=d)
            length = math.sqrt(2 * d) * float(bound * ratio) / (ONE * ONE)
        else:
            ratio = multiplier(task.target) * task.sides
            event = gaussian_event(ratio, draws=d, relation=task.relation)
            length = math.sqrt(d) * float(ratio)
        return NoisySumPlan(task, event, (length / task.size) ** 2 / 2, ratio)


def _laplace_bound(task: Task) -> int:
    """The L1 sensitivity of the integer sum: √d, rounded up, times its L2 sensitivity."""
    return task.sides * ONE * ONE * whole_root_above(task.columns)


@dataclass(frozen=True)
class NoisySumPlan(Plan):
    """One run."""

    ratio: Fraction

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task, d = self.task, self.task.columns
        weights = np.ones(data.table.count) if data.weights is None else data.weights
        sums = data.table.sums(np.trunc(weights * (1 << 16)).astype(np.int64))  # |row|·weight ≤ 2³²
        if isinstance(task.target, PureDP):
            drawn = noise.discrete_laplace(_laplace_bound(task) * self.ratio, d, source=source)
            noisy = noise.add(sums, drawn).astype(np.float64)
        else:
            noisy = add_gaussian(sums, bound=ONE * ONE, ratio=self.ratio, source=source)
        return task.project(noisy / (ONE * ONE * task.size))
