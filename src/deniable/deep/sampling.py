"""How a batch is chosen, as the plan states it. Each scheme owns the event that its theorem allows, and no other.

| scheme | relation | what a step of the run costs |
|---|---|---|
| `Poisson()` | ADD_REMOVE, ZERO_OUT, REPLACE | the noisy sum on a Poisson sample (Zhu–Dong–Wang 2022, Thm 11) |
| `WithoutReplacement()` | REPLACE | the noisy sum on a uniform batch (Balle–Barthe–Gaboardi 2018, Thm 9) |
| `BallsAndBins()` | ZERO_OUT | noisy sums of which each unit is in one per epoch, in secret (`RandomAllocation`) |
| `FixedBatches()` | ZERO_OUT, REPLACE | nothing but the steps a unit takes part in; no amplification |

Batches cut from a freshly shuffled epoch are `FixedBatches` and pay as such: they are not a Poisson sample, and an
accountant that says so under-reports (Chua et al. 2024, "How private are DP-SGD implementations?"). Where every unit
draws its batch by itself, without looking at the others', the epoch is `BallsAndBins` and costs far less.

>>> from deniable.events import Gaussian
>>> Poisson().event(Gaussian(scale=1), Schedule(size=1000, batch=Fraction(10), steps=50))
Gaussian(scale=1).sampled(rate=0.01) * 50
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable.deep.draws import Indices, fixed_batch, poisson, without_replacement
from deniable.errors import InvalidArgument, NotSupported, UnitMismatch
from deniable.events import Event, Gaussian
from deniable.noise import Source
from deniable.units import AnyRelation, Relation

_LEAST_BATCH, _LARGEST_BATCH = Fraction(1, 10**30), Fraction(10**30)


@dataclass(frozen=True)
class Schedule:
    """The public numbers of a run: protected units, the (expected) batch, and steps."""

    size: int
    batch: Fraction
    steps: int

    @property
    def rate(self) -> Fraction:
        """The share of the units in a batch, on average."""
        return self.batch / self.size

    @property
    def per_epoch(self) -> int:
        """Steps in one pass over the units."""
        return math.ceil(self.size / self.batch)


@dataclass(frozen=True)
class Sampling(ABC):
    """A way to choose batches."""

    relations: ClassVar[tuple[Relation, ...]]
    """Under which the theorem holds; the first is the default."""

    ordered: ClassVar[bool] = False
    """Whether batches go by the units' places in something that is drawn when the run begins, and kept (`begin`)."""

    stepwise: ClassVar[bool] = False
    """Whether a run is the composition of its steps, so that noise and batch may change from one to the next."""

    registry: ClassVar[dict[str, type[Sampling]]] = {}

    def __init_subclass__(cls) -> None:
        Sampling.registry[cls.__name__] = cls

    def check(self, schedule: Schedule, relation: AnyRelation) -> None:
        """Refuse what the theorem does not cover."""
        relation = Relation.of(relation)
        if schedule.batch > schedule.size:
            raise InvalidArgument("batch", schedule.batch, f"at most size={schedule.size}")
        if not _LEAST_BATCH <= schedule.batch <= _LARGEST_BATCH:  # sums are divided by it, as a float
            raise InvalidArgument("batch", schedule.batch, "between 1e-30 and 1e30")
        if relation not in self.relations:
            allowed = " or ".join(each.name for each in self.relations)
            raise UnitMismatch(
                f"{self!r} is analysed under {allowed}; the plan is stated under {relation.name}. Give"
                f" relation={self.relations[0].name}, as in ApproxDP(3, 1e-5, relation=dn.{self.relations[0].name})."
            )

    @abstractmethod
    def event(self, step: Event, schedule: Schedule) -> Event:
        """The event of the whole run, from the event of one noisy sum."""

    def begin(self, schedule: Schedule, source: Source) -> Indices:
        """What is drawn when the run begins, if `ordered`: an order of all units."""
        return noise.permutation(schedule.size, source=source)

    @abstractmethod
    def draw(self, schedule: Schedule, *, step: int, size: int, order: Indices | None, source: Source) -> Indices:
        """Which of `size` units are in the batch of a step (from 0)."""


class Poisson(Sampling):
    """Every unit is in every batch with probability batch/size, on its own. Some batches are empty."""

    relations = (Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE)
    stepwise = True

    def event(self, step: Event, schedule: Schedule) -> Event:
        return step.sampled(rate=schedule.rate) * schedule.steps

    def draw(self, schedule: Schedule, *, step: int, size: int, order: Indices | None, source: Source) -> Indices:
        return poisson(size, rate=schedule.rate, source=source)


class WithoutReplacement(Sampling):
    """A batch of exactly `batch` units, uniform among all such, drawn anew for every step."""

    relations = (Relation.REPLACE,)
    stepwise = True

    def check(self, schedule: Schedule, relation: AnyRelation) -> None:
        relation = Relation.of(relation)
        super().check(schedule, relation)
        _whole(schedule.batch)

    def event(self, step: Event, schedule: Schedule) -> Event:
        one = step.sampled_without_replacement(batch=int(schedule.batch), size=schedule.size)
        return one * schedule.steps

    def draw(self, schedule: Schedule, *, step: int, size: int, order: Indices | None, source: Source) -> Indices:
        return without_replacement(size, batch=int(schedule.batch), source=source)


class BallsAndBins(Sampling):
    """Each unit is in one batch of every epoch, which it draws uniformly, on its own and anew for every epoch.

    Batches have random sizes, `batch` on average. All draws are made when the run begins, for a unit that drew a second
    time in the middle of an epoch could take part twice. A last epoch that is not finished costs as much as a whole
    one.
    """

    relations = (Relation.ZERO_OUT,)
    ordered = True

    def event(self, step: Event, schedule: Schedule) -> Event:
        if not isinstance(step, Gaussian):
            raise NotSupported(f"{self!r} has a theorem for independent Gaussian noise only; use GaussianNoise().")
        return step.allocated(steps=schedule.per_epoch) * _epochs(schedule)

    def begin(self, schedule: Schedule, source: Source) -> Indices:
        """A row per epoch: the batch of each unit."""
        many = _epochs(schedule)
        drawn = noise.uniform(schedule.per_epoch, many * schedule.size, source=source)
        return np.asarray(drawn).reshape(many, schedule.size).astype(np.int32)

    def draw(self, schedule: Schedule, *, step: int, size: int, order: Indices | None, source: Source) -> Indices:
        if order is None:
            raise InvalidArgument("order", order, "the batches that were drawn when the run began")
        epoch, place = divmod(step, schedule.per_epoch)
        return np.flatnonzero(order[epoch] == place)


class FixedBatches(Sampling):
    """The units in an order drawn once and without looking at them, cut into batches, the same in every epoch.

    A unit takes part in one step of each epoch. Given what was released before, every other step is the same for both
    neighbours, so the run costs as many noisy sums as there are epochs, begun ones included.
    """

    relations = (Relation.ZERO_OUT, Relation.REPLACE)
    ordered = True

    def check(self, schedule: Schedule, relation: AnyRelation) -> None:
        relation = Relation.of(relation)
        super().check(schedule, relation)
        _whole(schedule.batch)

    def event(self, step: Event, schedule: Schedule) -> Event:
        return step * _epochs(schedule)

    def draw(self, schedule: Schedule, *, step: int, size: int, order: Indices | None, source: Source) -> Indices:
        if order is None:
            raise InvalidArgument("order", order, "the order that was drawn when the run began")
        return fixed_batch(order, batch=int(schedule.batch), step=step)


def _epochs(schedule: Schedule) -> int:
    """Epochs, begun ones included."""
    return math.ceil(Fraction(schedule.steps, schedule.per_epoch))


def _whole(batch: Fraction) -> None:
    if batch.denominator != 1:
        raise InvalidArgument("batch", batch, "a whole number unless batches are Poisson samples")
