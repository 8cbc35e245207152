"""What gradient descent and DP-SGD share: steps with momentum, and the average of the last of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deniable._checks import between, count, positive
from deniable.learning.optimizers.base import Array, Method, Task
from deniable.learning.progress import Tracker


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
