"""What is added to the clipped sums, as the plan states it: a kind of noise, the norm it needs, and its event.

| noise | clipped in | one step is | drawn |
|---|---|---|---|
| `GaussianNoise()` | L2 | `Gaussian` | floating point, from a cryptographic generator, CPU or GPU |
| `LaplaceNoise()` | L1 | `Laplace` | the same |
| `GridNoise()` | L2 | `Gaussian`, and a leak below 10⁻²⁸⁰ | exact integers, on the CPU |
| `NoiseShares()` | L2 | `Gaussian` of the honest shares | floating point, a share on each of several workers |

`noise_multiplier` is the scale in units of the clipping norm. Under REPLACE two clipped gradients may point apart, so
the sensitivity is two clipping norms while a unit's reach from its absence is one.

A kind with memory (correlated noise) overrides `event`, which sees the whole plan.

>>> LaplaceNoise().step(Fraction(3), Relation.REPLACE)
Laplace(scale=3, sensitivity=2, relation=REPLACE, reach=1)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from deniable import _checks
from deniable.deep.sampling import Poisson, Sampling, Schedule
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event, Gaussian, Laplace
from deniable.guarantees import ApproxDP
from deniable.noise.discrete import LEAK
from deniable.numerics.exact import root_below
from deniable.units import AnyRelation, Relation

MOST_PARAMETERS = 10**12
"""The number of parameters for which the leak of grid noise is stated; a trainer refuses more."""


@dataclass(frozen=True)
class StepNoise(ABC):
    """A kind of noise. Plain kinds are independent from step to step."""

    norm: ClassVar[str] = "l2"
    sampling: ClassVar[Sampling] = Poisson()
    """How batches are drawn when a plan does not say."""

    stepwise: ClassVar[bool] = True
    """Whether the noise of one step is independent of that of others, so that its scale may change."""

    beside: ClassVar[bool] = False
    """Whether measures can be released beside the sums, for a share of the noise (`deniable.deep.measures`)."""

    registry: ClassVar[dict[str, type[StepNoise]]] = {}

    def __init_subclass__(cls) -> None:
        StepNoise.registry[cls.__name__] = cls

    @abstractmethod
    def step(self, multiplier: Fraction, relation: AnyRelation) -> Event:
        """One noisy sum, in units of the clipping norm."""

    def event(self, multiplier: Fraction, relation: AnyRelation, sampling: Sampling, schedule: Schedule) -> Event:
        """The whole run."""
        relation = Relation.of(relation)
        return sampling.event(self.step(multiplier, relation), schedule)


class GaussianNoise(StepNoise):
    """Normal noise on sums clipped in L2."""

    beside = True

    def step(self, multiplier: Fraction, relation: AnyRelation) -> Event:
        relation = Relation.of(relation)
        far = 1 if relation is Relation.REPLACE else None
        return Gaussian(multiplier, _apart(relation), relation, reach=far)


class LaplaceNoise(StepNoise):
    """Laplace noise on sums clipped in L1: pure privacy per step."""

    norm = "l1"

    def step(self, multiplier: Fraction, relation: AnyRelation) -> Event:
        relation = Relation.of(relation)
        far = 1 if relation is Relation.REPLACE else None
        return Laplace(multiplier, _apart(relation), relation, reach=far)


@dataclass(frozen=True)
class GridNoise(GaussianNoise):
    """Exact integer noise: every clipped gradient is cut to whole multiples of clip·2^(−bits), sums are exact integers,
    and the noise is the exact discrete Gaussian of variance (multiplier·2^bits)² + 36.

    Cutting is towards 0, so it shortens every gradient and the integers' length stays at most 2^bits: the rounding is
    inside the sensitivity. That noise is a post-processing of N(0, (multiplier·2^bits)²) with a leak of at most `LEAK`
    per number: rounding N(x, τ²) at random to the integers, with weights ∝ exp(−(k − Y)²/(2·36)), gives the discrete
    Gaussian up to the factor (1 ± η)/(1 ± η), η = 2 Σ exp(−2π²·36·j²), by Poisson summation (docs/learning.md has the
    same argument).
    """

    bits: int = 20

    def __post_init__(self) -> None:
        if not 4 <= _checks.count("bits", self.bits) <= 30:
            raise InvalidArgument("bits", self.bits, "between 4 and 30: squares of integers must fit 64 bits")

    def event(self, multiplier: Fraction, relation: AnyRelation, sampling: Sampling, schedule: Schedule) -> Event:
        relation = Relation.of(relation)
        leak = LEAK * MOST_PARAMETERS * schedule.steps
        return super().event(multiplier, relation, sampling, schedule) + Claimed(ApproxDP(0, leak, relation=relation))


@dataclass(frozen=True)
class NoiseShares(GaussianNoise):
    """Every one of several workers holds data of its own and adds a share of the noise, of scale multiplier/√workers.

    The sum of the shares is the plan's noise. The event is what remains against `dishonest` workers, who know their
    shares or leave them out: the honest ones alone, of scale multiplier·√((workers − dishonest)/workers). It promises
    for the units of honest workers, each of which draws its own Poisson sample, which nobody else learns. What is
    promised is about the *totals*: where a worker sees what another sends, only dishonest=workers − 1 covers it.

    >>> NoiseShares(workers=4, dishonest=3).step(Fraction(3), Relation.ADD_REMOVE)
    Gaussian(scale=1.5)
    """

    beside = False

    workers: int
    dishonest: int

    def __post_init__(self) -> None:
        _checks.count("workers", self.workers)
        whole = isinstance(self.dishonest, int) and not isinstance(self.dishonest, bool)
        if not whole or not 0 <= self.dishonest < self.workers:
            raise InvalidArgument("dishonest", self.dishonest, f"a whole number from 0 to {self.workers - 1}")

    def step(self, multiplier: Fraction, relation: AnyRelation) -> Event:
        relation = Relation.of(relation)
        honest = Fraction(self.workers - self.dishonest, self.workers)
        return super().step(multiplier * root_below(honest, decimals=6), relation)

    def event(self, multiplier: Fraction, relation: AnyRelation, sampling: Sampling, schedule: Schedule) -> Event:
        relation = Relation.of(relation)
        if type(sampling) is not Poisson:
            raise InvalidArgument(
                "sampling", sampling, "Poisson() where workers hold data of their own", "Each draws by itself."
            )
        return super().event(multiplier, relation, sampling, schedule)

    @property
    def share(self) -> Fraction:
        """The part of the noise multiplier that each worker adds, rounded up: 1/√workers."""
        return Fraction(1) / (self.workers * root_below(Fraction(1, self.workers), decimals=18))


def _apart(relation: Relation) -> int:
    """How many clipping norms apart the sums of two neighbours are."""
    return 2 if relation is Relation.REPLACE else 1
