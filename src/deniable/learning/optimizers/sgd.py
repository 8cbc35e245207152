"""DP-SGD: noisy sums of clipped gradients over Poisson samples.

Each step keeps every record on its own with probability `rate`, adds up their clipped gradients, adds noise, and
divides by the *expected* batch, a constant fixed beforehand. (Dividing by the batch that came is wrong: its size is
private, and a batch of one would be released almost bare.) An empty batch still gets its noise and its step.

* `norm=2`: gradients clipped in L2, Gaussian noise (Abadi et al. 2016); accounted exactly by the subsampled Gaussian
  pair.
* `norm=1`: gradients clipped in L1, discrete Laplace noise on every coordinate; accounted by the subsampled Laplace
  pair.

The noise is inside the step: θ ← θ − η·(sum + noise)/batch.
Preconditions: δ > 0. Neither convexity nor smoothness for privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable._checks import rate as check_rate
from deniable.errors import InvalidArgument
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import ApproxDP
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Array, Data, Plan, Task, clipped_sum, gradient_grid
from deniable.learning.optimizers.descent import Descent
from deniable.learning.privacy import add_gaussian, calibrated, gaussian_event
from deniable.learning.progress import Tracker, silent
from deniable.learning.table import margin
from deniable.noise import Source
from deniable.units import Relation

COARSE = 1 << 12
"""The integer length of a gradient clipped in L1: small enough for the accountant's exact tables."""


@dataclass(frozen=True)
class SGD(Descent):
    """Hyper-parameters. `clip` is in the norm chosen; `rate` is the chance of a record to be in a batch."""

    name: ClassVar[str] = "sgd"
    theorem: ClassVar[str] = "DP-SGD (Abadi et al. 2016), certified accountant"

    steps: int = 200
    rate: float = 0.05
    norm: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate("rate", self.rate)
        if self.norm not in (1, 2):
            raise InvalidArgument("norm", self.norm, "1 (Laplace noise) or 2 (Gaussian noise)")

    def plan(self, task: Task) -> SGDPlan:
        if not isinstance(task.target, ApproxDP):
            raise self.refuse("its composition needs delta > 0.")
        clip = self.clip if self.clip is not None else task.loss.lipschitz
        ratio = calibrated(lambda tried: self._event(task, tried), task.target)
        longest = clip * (1 + float(ratio) * math.sqrt(task.parameters) / (self.rate * task.size))
        curved = task.loss.smoothness + task.regularization / task.size
        steady = 1 / curved if math.isfinite(curved) else math.inf
        best = min(steady, task.reach / (longest * math.sqrt(self.steps)) / (1 - self.momentum))
        rate = self.learning_rate if self.learning_rate is not None else best
        event = self._event(task, ratio)
        return SGDPlan(task, event, task.reach * longest / math.sqrt(self.steps), self, ratio, clip, rate)

    def _event(self, task: Task, ratio: Fraction) -> Event:
        rate = check_rate("rate", self.rate)
        if self.norm == 2:
            return gaussian_event(
                ratio * task.sides,
                steps=self.steps,
                draws=self.steps * task.parameters,
                relation=task.relation,
                rate=rate,
            )
        step = DiscreteLaplace(
            ratio * task.sides * COARSE, task.sides * COARSE, task.relation,
            reach=COARSE if task.relation is Relation.REPLACE else None, coordinates=task.parameters,
        )  # fmt: skip
        return step.sampled(rate=rate) * self.steps


@dataclass(frozen=True)
class SGDPlan(Plan):
    """One run."""

    method: SGD
    ratio: Fraction
    clip: float
    learning_rate: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task, method = self.task, self.method
        unit, bound, worth = gradient_grid(self.clip)
        kept_rate = check_rate("rate", method.rate)
        batch = method.rate * task.size

        def gradient(theta: Array) -> Array:
            sample = noise.bernoulli(kept_rate, data.table.count, source=source)
            part = data.take(np.flatnonzero(sample))
            if method.norm == 2:
                sums = clipped_sum(part, task, theta, unit=unit, bound=bound)
                return add_gaussian(sums, bound=bound, ratio=self.ratio * task.sides, source=source) * (worth / batch)
            sums = _clipped_in_l1(part, task, theta, clip=self.clip)
            drawn = noise.discrete_laplace(self.ratio * task.sides * COARSE, sums.shape, source=source)
            return noise.add(sums, drawn).astype(np.float64) * (self.clip / COARSE / batch)

        return method.descend(task, gradient, rate=self.learning_rate, track=track)


def _clipped_in_l1(data: Data, task: Task, theta: Array, *, clip: float) -> NDArray[np.int64]:
    """The exact sum of gradients in whole steps of clip/4096, each of L1 length at most 4096."""
    table = data.table
    if isinstance(task.loss, LinearLoss):
        residuals = data.weighted(task.loss.residuals(table.margins(theta), data.labels))
        outer = table.points()[:, :, None] * residuals.reshape(table.count, 1, task.linear.outputs)
        real = outer.reshape(table.count, task.parameters)
    else:
        real = data.weighted(task.loss.gradients(theta, table.points()))
    real = np.nan_to_num(real * (COARSE / clip))
    lengths = np.zeros(table.count)
    for column in real.T:
        lengths += np.abs(column)
    shorter = np.minimum(1.0, COARSE * margin(task.parameters) / np.maximum(lengths, 1.0))
    return np.asarray(np.trunc(real * shorter[:, None]).astype(np.int64).sum(axis=0)).reshape(theta.shape)
