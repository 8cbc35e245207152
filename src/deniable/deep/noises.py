"""What is added to the clipped sums, as the plan states it: a kind of noise, the norm it needs, and its event.

| noise | clipped in | one step is | drawn |
|---|---|---|---|
| `GaussianNoise()` | L2 | `Gaussian` | floating point, from a cryptographic generator, CPU or GPU |
| `LaplaceNoise()` | L1 | `Laplace` | the same |
| `GridNoise()` | L2 | `Gaussian`, and a leak below 10⁻²⁸⁰ | exact integers, on the CPU |

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
from deniable.deep.sampling import Sampling, Schedule
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event, Gaussian, Laplace
from deniable.guarantees import ApproxDP
from deniable.units import Relation

LEAK = Fraction(2, 10**308)
"""What one integer of discrete Gaussian noise of variance σ² + `SPREAD` may give away beyond N(0, σ²)."""

SPREAD = 36
"""Added to the variance of grid noise, in squared steps; it makes `LEAK` so small."""

MOST_PARAMETERS = 10**12
"""The number of parameters for which the leak of grid noise is stated; a trainer refuses more."""


@dataclass(frozen=True)
class StepNoise(ABC):
    """A kind of noise. Plain kinds are independent from step to step."""

    norm: ClassVar[str] = "l2"
    registry: ClassVar[dict[str, type[StepNoise]]] = {}

    def __init_subclass__(cls) -> None:
        StepNoise.registry[cls.__name__] = cls

    @abstractmethod
    def step(self, multiplier: Fraction, relation: Relation) -> Event:
        """One noisy sum, in units of the clipping norm."""

    def event(self, multiplier: Fraction, relation: Relation, sampling: Sampling, schedule: Schedule) -> Event:
        """The whole run."""
        return sampling.event(self.step(multiplier, relation), schedule)


class GaussianNoise(StepNoise):
    """Normal noise on sums clipped in L2."""

    def step(self, multiplier: Fraction, relation: Relation) -> Event:
        far = 1 if relation is Relation.REPLACE else None
        return Gaussian(multiplier, _apart(relation), relation, reach=far)


class LaplaceNoise(StepNoise):
    """Laplace noise on sums clipped in L1: pure privacy per step."""

    norm = "l1"

    def step(self, multiplier: Fraction, relation: Relation) -> Event:
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

    def event(self, multiplier: Fraction, relation: Relation, sampling: Sampling, schedule: Schedule) -> Event:
        leak = LEAK * MOST_PARAMETERS * schedule.steps
        return super().event(multiplier, relation, sampling, schedule) + Claimed(ApproxDP(0, leak, relation=relation))


def _apart(relation: Relation) -> int:
    """How many clipping norms apart the sums of two neighbours are."""
    return 2 if relation is Relation.REPLACE else 1
