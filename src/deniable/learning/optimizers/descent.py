"""Noisy gradient descent on all records (`GradientDescent`) and on Poisson samples (`SGD`).

Both take steps with momentum and release the average of the last of them. Everything after the noisy sums of clipped
gradients is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable._checks import between, count, positive
from deniable._checks import rate as check_rate
from deniable._progress import Tracker, silent
from deniable.errors import InvalidArgument
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import ApproxDP
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Array, Data, Method, MethodPlan, Task, clipped_sum, gradient_grid
from deniable.learning.privacy import add_gaussian, calibrate_event, gaussian_event, multiplier
from deniable.learning.table import margin
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True)
class Descent(Method):
    """Hyper-parameters of a descent by noisy gradients; None means the default that the plan states."""

    steps: int = 100
    clip: float | None = None
    """The longest gradient that counts; default: the loss's Lipschitz constant."""

    learning_rate: float | None = None
    """The step on the average loss."""

    momentum: float = 0.9
    average: float = 0.5
    """The last part of the steps, over which θ is averaged."""

    def __post_init__(self) -> None:
        count("steps", self.steps)
        for name in ("clip", "learning_rate"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        between("momentum", self.momentum, low=0, high=1, open_high=True, expected="at least 0 and below 1")
        between("average", self.average, low=0, high=1, open_low=True, expected="above 0 and at most 1")

    def descend(self, task: Task, gradient: Callable[[Array], Array], *, rate: float, track: Tracker) -> Array:
        """The average of the last iterates; `gradient` gives a noisy average gradient of the losses at θ."""
        theta, speed, total = (np.zeros(task.shape) for _ in range(3))
        kept = max(1, round(self.steps * self.average))
        for step in track(range(self.steps)):
            speed = self.momentum * speed + gradient(theta) + (task.regularization / task.size) * theta
            theta = task.project(theta - rate * speed)
            if step >= self.steps - kept:
                total += theta
        return np.asarray(total / kept)


DRIFT = 4.0
"""How far the noise of all steps may carry θ under the default learning rate, in radii; averaging brings much back."""

CAUTION = 0.3
"""The same where noise and signal are of one size; it falls further with their ratio."""


@dataclass(frozen=True)
class GradientDescent(Descent):
    """Hyper-parameters. The default learning rate is 2/β, shortened where the noise would carry θ beyond the radius.

    Noisy projected gradient descent on the whole data, with momentum and averaging.

    Every step releases the sum of all gradients, each clipped to `clip`, with Gaussian noise; everything after that is
    post-processing. T steps of noise σ·clip are √T/σ-GDP under ADD_REMOVE and 2√T/σ-GDP under REPLACE, exactly
    (Dong–Roth–Su 2019, Theorem 2.7 and Corollary 3.3), so momentum, averaging and the step size cost nothing.

    Preconditions: δ > 0. No smoothness, no Lipschitz bound (clipping gives one), no convexity for privacy.
    Utility (clip ≥ L, no momentum, projection to radius R): E excess ≤ R√((L² + d s²)/T), s = noise of the average
    gradient. With a shorter clip the prediction is that of the clipped losses.

    >>> from deniable.guarantees import ApproxDP
    >>> from deniable.learning.losses import Logistic
    >>> plan = GradientDescent(steps=100).plan(Task(Logistic(), 10, ApproxDP(1, 1e-6), size=1000))
    >>> plan.event
    Gaussian(scale=42.2467889) * 100
    """

    name: ClassVar[str] = "gradient_descent"
    theorem: ClassVar[str] = "Gaussian composition (Dong–Roth–Su 2019, Cor. 3.3)"

    def plan(self, task: Task) -> GradientDescentPlan:
        ratio = multiplier(task.target, steps=self.steps) * task.sides
        event = gaussian_event(ratio, steps=self.steps, draws=self.steps * task.parameters, relation=task.relation)
        clip = self.clip if self.clip is not None else task.loss.lipschitz
        noise = float(ratio) * clip / task.size
        rate = self.learning_rate if self.learning_rate is not None else self._rate(task, noise)
        return GradientDescentPlan(task, event, self._risk(task, clip, noise), self, ratio, clip, rate)

    def _rate(self, task: Task, noise: float) -> float:
        """2/β (or R/(L√T) with corners), or what lets the noise of all steps carry θ no further than `DRIFT` radii.

        Where the noise's own risk R·s√(2d/T) nears the risk R·min(L, βR/2) of knowing nothing, it may carry θ less.
        """
        curved = task.loss.smoothness + task.regularization / task.size
        steady = 2 / curved if math.isfinite(curved) else task.reach / (task.loss.lipschitz * math.sqrt(self.steps))
        wander = noise * math.sqrt(2 * task.parameters * self.steps) / (1 - self.momentum)
        hopeless = min(task.loss.lipschitz, task.loss.smoothness * task.reach / 2)
        doubt = noise * math.sqrt(2 * task.parameters / self.steps) / hopeless
        return min(steady, min(DRIFT, CAUTION / doubt) * task.reach / wander)

    def _risk(self, task: Task, clip: float, noise: float) -> float:
        shaken = task.parameters * noise**2
        if not task.loss.smooth:
            return task.reach * math.sqrt((clip**2 + shaken) / self.steps)
        rate = min(1 / task.loss.smoothness, task.reach / math.sqrt(2 * self.steps * shaken))
        return task.reach**2 / (2 * rate * self.steps) + rate * shaken


@dataclass(frozen=True)
class GradientDescentPlan(MethodPlan):
    """One run."""

    method: GradientDescent
    ratio: Fraction
    clip: float
    learning_rate: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task = self.task
        unit, bound, worth = gradient_grid(self.clip)

        def gradient(theta: Array) -> Array:
            sums = clipped_sum(data, task, theta, unit=unit, bound=bound)
            return add_gaussian(sums, bound=bound, ratio=self.ratio, source=source) * (worth / task.size)

        return self.method.descend(task, gradient, rate=self.learning_rate, track=track)


COARSE = 1 << 12
"""The integer length of a gradient clipped in L1: small enough for the accountant's exact tables."""


@dataclass(frozen=True)
class SGD(Descent):
    """Hyper-parameters. `clip` is in the norm chosen; `rate` is the chance of a record to be in a batch.

    DP-SGD: noisy sums of clipped gradients over Poisson samples.

    Each step keeps every record on its own with probability `rate`, adds up their clipped gradients, adds noise, and
    divides by the *expected* batch, a constant fixed beforehand. (Dividing by the batch that came is wrong: its size is
    private, and a batch of one would be released almost bare.) An empty batch still gets its noise and its step.

    * `norm=2`: gradients clipped in L2, Gaussian noise (Abadi et al. 2016); accounted exactly by the subsampled
      Gaussian pair.
    * `norm=1`: gradients clipped in L1, discrete Laplace noise on every coordinate; accounted by the subsampled Laplace
      pair.

    The noise is inside the step: θ ← θ − η·(sum + noise)/batch.
    Preconditions: δ > 0. Neither convexity nor smoothness for privacy.
    """

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
        ratio = calibrate_event(lambda tried: self._event(task, tried), task.target)
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
class SGDPlan(MethodPlan):
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
            sums = _sum_clipped_in_l1(part, task, theta, clip=self.clip)
            drawn = noise.discrete_laplace(self.ratio * task.sides * COARSE, sums.shape, source=source)
            return noise.add(sums, drawn).astype(np.float64) * (self.clip / COARSE / batch)

        return method.descend(task, gradient, rate=self.learning_rate, track=track)


def _sum_clipped_in_l1(data: Data, task: Task, theta: Array, *, clip: float) -> NDArray[np.int64]:
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
