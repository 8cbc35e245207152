"""Noisy projected gradient descent on the whole data, with momentum and averaging.

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

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from deniable.learning.optimizers.base import Array, Data, Plan, Task, clipped_sum, gradient_grid
from deniable.learning.optimizers.descent import Descent
from deniable.learning.privacy import add_gaussian, gaussian_event, multiplier
from deniable.learning.progress import Tracker, silent
from deniable.noise import Source

DRIFT = 4.0
"""How far the noise of all steps may carry θ under the default learning rate, in radii; averaging brings much back."""

CAUTION = 0.3
"""The same where noise and signal are of one size; it falls further with their ratio."""


@dataclass(frozen=True)
class GradientDescent(Descent):
    """Hyper-parameters. The default learning rate is 2/β, shortened where the noise would carry θ beyond the radius."""

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
class GradientDescentPlan(Plan):
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
