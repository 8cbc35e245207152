"""What every method shares: the task (all that is public), the data, and the plan that owns its event.

A method is a frozen object with hyper-parameters. `method.plan(task)` checks the preconditions of its theorem, sets the
noise, and gives a `MethodPlan`: its event is charged, and `plan.run(data)` does what the event says. Nothing private
enters a plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable._checks import count, positive
from deniable._progress import Tracker, silent
from deniable.errors import DataError, NotSupported
from deniable.events import Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning.losses.base import LinearLoss, PointLoss
from deniable.learning.optimizers.intervals import CoefficientSpread
from deniable.learning.privacy import sides
from deniable.learning.table import ONE, IntegerTable, exact_sum, margin, parts, unit_of
from deniable.noise import Source
from deniable.units import Relation

Array = NDArray[Any]

_BLOCK = 1 << 17
"""Gradients per sum: so many integers of length 2³⁵ add up below 2⁵³."""

FURTHEST = 1e100
"""Steps that are far too long carry θ beyond floating point; it goes no further than this."""

NOMINAL_RADIUS = 4.0
"""How far from 0 an unconstrained minimiser is taken to be when risks are predicted. It changes no guarantee."""


@dataclass(frozen=True)
class Task:
    """Minimise Σ loss + (regularization/2)|θ|² over |θ| ≤ radius, under a promise. All fields are public."""

    loss: LinearLoss | PointLoss
    columns: int
    target: ApproxDP | PureDP
    size: int
    """How many records, as publicly known: declared, or counted with noise; 0 where the method is to count them."""

    regularization: float = 0.0
    radius: float | None = None
    constant: float = 0.0
    """The last column, where it is the same in all rows: a linear model's intercept."""

    @property
    def linear(self) -> LinearLoss:
        """The loss, where it is one of a linear model."""
        if not isinstance(self.loss, LinearLoss):
            raise NotSupported(f"{type(self.loss).__name__} is not the loss of a linear model.")
        return self.loss

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of θ."""
        many = self.loss.outputs if isinstance(self.loss, LinearLoss) else 1
        return (self.columns,) if many == 1 else (self.columns, many)

    @property
    def parameters(self) -> int:
        """How many numbers θ has."""
        return math.prod(self.shape)

    @property
    def relation(self) -> Relation:
        return self.target.relation

    @property
    def sides(self) -> int:
        """How many records' gradients two neighbours differ by."""
        return sides(self.relation)

    @property
    def delta(self) -> float:
        return float(self.target.delta) if isinstance(self.target, ApproxDP) else 0.0

    @property
    def reach(self) -> float:
        """The radius, or a nominal one: where the loss's own constants hold, or `NOMINAL_RADIUS`."""
        return self.radius if self.radius is not None else float(getattr(self.loss, "reach", NOMINAL_RADIUS))

    def project(self, theta: Array) -> Array:
        """The nearest point of the ball; without a ball, the nearest with entries up to `FURTHEST`. NaN becomes 0."""
        theta = np.clip(np.nan_to_num(theta, nan=0.0), -FURTHEST, FURTHEST)
        if self.radius is None:
            return theta
        length = float(np.linalg.norm(theta))
        return theta if length <= self.radius else theta * (self.radius / length)


@dataclass(frozen=True, eq=False)
class Data:
    """The private records: rows, labels (none for points), and weights in [0, 1] (None for 1)."""

    table: IntegerTable
    labels: Array = field(default_factory=lambda: np.empty(0))
    weights: Array | None = None

    def weighted(self, values: Array) -> NDArray[np.float64]:
        """Values of the records, each times its weight."""
        if self.weights is None:
            return values
        return np.asarray(values * self.weights.reshape(-1, *(1,) * (values.ndim - 1)))

    def weighted_at(self, index: int, values: Any) -> Any:
        """One record's values, times its weight."""
        return values if self.weights is None else values * self.weights[index]

    def take(self, kept: Array) -> Data:
        """Some of the records."""
        return Data(
            self.table.take(kept),
            self.labels[kept] if self.labels.size else self.labels,
            None if self.weights is None else self.weights[kept],
        )


@dataclass(frozen=True)
class Solution:
    """What a run releases: θ, and what a method measured with noise on the way."""

    theta: Array
    size: float | None = None
    """The number of records, with noise."""

    noise_number: float | None = None
    """The noise of the descent against the signal: effective dimension over μ times the number of records."""

    moments: Any = None
    """The noisy second moment of the rows, where there is one."""

    spread: CoefficientSpread | None = None
    """How far θ may be from the truth, where there is one margin."""


@dataclass(frozen=True)
class MethodPlan(ABC):
    """One run of one method, with its event."""

    task: Task
    event: Event
    risk: float
    """The predicted excess of the average loss over its minimum, by the method's own bound; inf where there is none."""

    @abstractmethod
    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        """θ, computed as the event says. Methods that take steps walk them through `track`."""

    def solve(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Solution:
        """θ, with what else was released on the way."""
        return Solution(self.run(data, source=source, track=track))


@dataclass(frozen=True)
class Method(ABC):
    """A way to minimise privately."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    size_free: ClassVar[bool] = True
    """Whether the event is the same whatever the number of records."""

    counts: ClassVar[bool] = False
    """Whether it measures the number of records itself, as a part of its event."""

    limited: ClassVar[bool] = False
    """Whether it applies up to some number of records only."""

    @abstractmethod
    def plan(self, task: Task) -> MethodPlan:
        """The run that meets the task's target, or an error that names the precondition that fails."""

    def refuse(self, why: str) -> NotSupported:
        """An error that names the method and what it lacks."""
        return NotSupported(f"solver {self.name!r} does not apply: {why}")


@dataclass(frozen=True)
class BallMethod(Method):
    """A method that takes steps inside a ball."""

    size_free: ClassVar[bool] = False

    steps: int | None = None
    """T; default: what its theorem says."""

    radius: float | None = None
    """Of the ball, where rows have norm at most 1; default: the task's own."""

    def __post_init__(self) -> None:
        if self.steps is not None:
            count("steps", self.steps)
        if self.radius is not None:
            positive("radius", self.radius)

    def inside(self, task: Task) -> tuple[Task, float]:
        """The task within the ball, and its radius; refused without one, and with a regularization."""
        unpenalised(task, self)
        radius = self.radius if self.radius is not None else task.radius
        if radius is None:
            raise self.refuse("it needs a bounded set: give its radius.")
        return replace(task, radius=radius), radius


def linear(task: Task, method: Method) -> LinearLoss:
    """The loss, if it is one of a linear model."""
    if not isinstance(task.loss, LinearLoss):
        raise method.refuse(f"{type(task.loss).__name__} is not the loss of a linear model.")
    return task.loss


def smooth(task: Task, method: Method, *, width: float) -> Task:
    """The task with the corners of its loss rounded off within `width`, where it has some."""
    loss = linear(task, method)
    return task if loss.smooth else replace(task, loss=loss.smoothed(width))


def steady(task: Task, method: Method) -> LinearLoss:
    """The loss, if its constants hold for every θ and it is smooth."""
    loss = linear(task, method)
    if not loss.everywhere:
        raise method.refuse(f"{type(loss).__name__} is Lipschitz on a bounded set only. Use Huber, or another solver.")
    if not loss.smooth:
        raise method.refuse(f"{type(loss).__name__} has corners: it is not smooth.")
    return loss


def unpenalised(task: Task, method: Method) -> None:
    """Refuse a regularization that the method would ignore."""
    if task.regularization > 0:
        raise method.refuse("it minimises the losses alone; leave the regularization (C, alpha) out.")


def exchanged(task: Task, method: Method) -> None:
    """Refuse every relation but REPLACE."""
    if task.relation is not Relation.REPLACE:
        raise method.refuse("it is stated for relation='replace', where the number of records is public.")


def counted(task: Task, data: Data) -> None:
    """Refuse data of another size than was planned for; only where the size is public."""
    if data.table.count != task.size:
        raise DataError(f"this plan is for {task.size} records; the data have another number of them")


def clipped_sum(data: Data, task: Task, theta: Array, *, unit: float, bound: int) -> NDArray[np.int64]:
    """The exact sum of the records' gradients, each cut to whole numbers of length at most `bound`."""
    table = data.table
    if isinstance(task.loss, LinearLoss):
        residuals = data.weighted(task.loss.residuals(table.margins(theta), data.labels))
        return table.sums(table.clipped(residuals, unit=unit, bound=bound))
    gradients = data.weighted(task.loss.gradients(theta, table.points()))
    whole = _cut(gradients, unit=unit, bound=bound)
    return exact_sum(whole[part].sum(axis=0) for part in parts(table.count, _BLOCK))


def _cut(gradients: Array, *, unit: float, bound: int) -> NDArray[np.int64]:
    """Whole multiples of 1/(unit·2¹⁶), each row of length at most `bound`."""
    real = np.nan_to_num(gradients * (unit * ONE))
    squares = np.zeros(len(real))
    for column in real.T:
        squares += column * column
    shorter = np.minimum(1.0, bound * margin(real.shape[1]) / np.maximum(np.sqrt(squares), 1.0))
    return np.asarray(np.trunc(real * shorter[:, None])).astype(np.int64)


def gradient_grid(clip: float) -> tuple[float, int, float]:
    """The grid for a clipping norm: residual unit, integer bound, and what one integer step is worth."""
    unit, bound = unit_of(clip)
    return unit, bound, 1 / (unit * ONE)
