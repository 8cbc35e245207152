"""Correlated noise in a plan: a strategy from `deniable.strategies`, and the samplings that its theorems allow.

| sampling | the strategy needs | the run is |
|---|---|---|
| `FixedBatches()` | nothing | one `MatrixGaussian`, its sensitivity for batches in a fixed order |
| `CyclicPoisson(parts=b)` | a square C with at most b bands | ⌈steps/b⌉ Gaussian sums on Poisson samples (`cyclic`) |

Everything else is refused: a Poisson or uniform sample may draw a unit in any step, and no theorem here covers that.

>>> from deniable.deep.plan import Plan
>>> from deniable.strategies import Toeplitz
>>> Plan(size=1000, batch=10, epochs=1, clip=1, noise=Toeplitz.square_root(100), noise_multiplier=4).event
MatrixGaussian(scale=4, sensitivity=1.59102235, steps=100, separation=100)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.deep.cyclic import CyclicPoisson
from deniable.deep.noises import GaussianNoise, StepNoise
from deniable.deep.sampling import FixedBatches, Sampling, Schedule
from deniable.errors import InvalidArgument, NotSupported
from deniable.events import Event, Gaussian
from deniable.strategies import Strategy, once, ordered
from deniable.units import AnyRelation, Relation

LARGEST_GROWTH = 2.0**10
"""How much larger the noise of a step may be than independent noise for the same sensitivity (`Strategy.growth`).

n_t = (z_t − Σ_k C[t, t−k]·n_{t−k})/C[t, t] is kept in 24 bits. C[t, t] is at most the length of its column, so what
z_t adds is at least 1/growth of the deviation of n_t: with growth ≤ 2¹⁰, 14 bits of it are left. Rounding is then what
it is for a sum over a thousand units. Where C⁻¹ grows without bound, as for 1, 2, 0, 0, …, z_t is rounded away within
some 24 steps, and sums are released without fresh noise. The strategies of `deniable.strategies.optima` have a growth
of 1 to 10, and a tree at most 2·(log₂ of its steps + 1): nothing of use is refused."""


@dataclass(frozen=True, init=False)
class CorrelatedNoise(StepNoise):
    """Noise C⁻¹z of a strategy; `noise_multiplier` is the deviation of z in clips."""

    strategy: Strategy

    sampling = FixedBatches()
    stepwise = False

    def __init__(self, strategy: Strategy | dict[str, Any]) -> None:
        given = Strategy.from_plain(strategy) if isinstance(strategy, dict) else strategy
        if not isinstance(given, Strategy):
            raise InvalidArgument("strategy", strategy, "a strategy", "For example dn.strategies.Tree(steps).")
        growth = given.growth()
        if not growth <= LARGEST_GROWTH:  # also what is not a number
            raise InvalidArgument(
                "strategy", given, f"one whose inverse does not grow; a step's noise would be {growth:.3g} times"
                " independent noise", "Its floating-point numbers would round fresh noise away.",
            )  # fmt: skip
        object.__setattr__(self, "strategy", given)

    def step(self, multiplier: Fraction, relation: AnyRelation) -> Event:
        """What one step adds to C·x: a column of C."""
        relation = Relation.of(relation)
        longest = self.strategy.sensitivity(once(self.strategy.steps)).value
        if relation is Relation.REPLACE:
            return Gaussian(multiplier, 2 * longest, relation, reach=longest)
        return Gaussian(multiplier, longest, relation)

    def event(self, multiplier: Fraction, relation: AnyRelation, sampling: Sampling, schedule: Schedule) -> Event:
        relation = Relation.of(relation)
        if self.strategy.steps != schedule.steps:
            raise InvalidArgument(
                "noise", self.strategy, f"a strategy for the {schedule.steps} steps of the plan",
                "Make it for as many, or give the plan steps= instead of epochs=.",
            )  # fmt: skip
        if isinstance(sampling, FixedBatches):
            return self.strategy.event(
                multiplier, ordered(schedule.steps, period=schedule.per_epoch), relation=relation
            )
        if isinstance(sampling, CyclicPoisson):
            self._check_bands(sampling.parts)
            return sampling.event(self.step(multiplier, relation), schedule)
        raise NotSupported(
            f"{sampling!r} and correlated noise do not belong together: it may draw a unit in any step. Use"
            " FixedBatches(), or CyclicPoisson(parts=...) with a strategy of at most so many bands."
        )

    def _check_bands(self, parts: int) -> None:
        """The precondition of `cyclic`: what one draw adds is over before the unit can be drawn again."""
        if self.strategy.rows != self.strategy.steps or self.strategy.bands > parts:
            raise NotSupported(
                f"{self.strategy!r} has {self.strategy.bands} bands, and CyclicPoisson(parts={parts}) may draw a unit"
                f" again after {parts} steps. Use a strategy of at most {parts} bands, more parts, or FixedBatches()."
            )

    def separation(self, sampling: Sampling, schedule: Schedule) -> int:
        """Steps between two participations of one unit."""
        return sampling.parts if isinstance(sampling, CyclicPoisson) else schedule.per_epoch


def noise_of(given: StepNoise | Strategy | None) -> StepNoise:
    """The kind of noise that a plan's argument names."""
    if isinstance(given, Strategy):
        return CorrelatedNoise(given)
    return GaussianNoise() if given is None else given
