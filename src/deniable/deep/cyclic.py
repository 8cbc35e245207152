"""Cyclic Poisson batches: the units lie in b parts, and step t samples from part t mod b.

**Theorem** (Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization", section 5). Units are split into b
parts without looking at them. Step t draws every unit of part t mod b on its own with probability q. Noise is C⁻¹z with
C lower triangular, of at most b bands, and columns of length at most κ (in clips). Then the run costs no more than
⌈T/b⌉ Gaussian sums of sensitivity κ, each on a Poisson sample of rate q. With C = I (independent noise) κ = 1.

*Proof.* Let the unit lie in part p. It can be drawn only in steps p, p + b, p + 2b, …; call one of them j, and let B be
its coin there. What is released is equivalent to y_i = (C·x)_i + z_i for i = 1 … T. Column j of C is 0 outside rows j …
j + b − 1, and these windows are disjoint for different j: so given all y before row j, the rows of the window are

    y_i = h_i(y_{<i}) + B·C[i, j]·g_j + z_i,

where h_i collects everybody else and every earlier step (which reads only earlier y: the model is made of them), and
g_j, the unit's clipped gradient, is a function of y_{<j}. The map from y to w_i = y_i − h_i(y_{<i}) is one to one and
keeps volume, and is the same for both neighbours. So the window is post-processing of w = B·C[·, j]⊗g_j + z, a
Poisson-sampled Gaussian with a vector of length at most κ, and the run is an adaptive composition of one such per
window. Everybody else's coins are independent of the unit and may be given away. ∎

A unit that is replaced keeps its part and its coins: under REPLACE the two vectors are C[·, j]⊗g and C[·, j]⊗g′, each
within κ of absence.

The parts are cut from an order drawn once and independently of the data, so the number of units must be public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from deniable import _checks
from deniable.deep.draws import Indices, poisson
from deniable.deep.sampling import Sampling, Schedule
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.noise import Source
from deniable.units import AnyRelation, Relation


@dataclass(frozen=True)
class CyclicPoisson(Sampling):
    """Poisson samples from `parts` parts of the units in turn; a part is sampled at `parts` times the rate.

    >>> from deniable.events import Gaussian
    >>> step = Gaussian(scale=1, relation=Relation.ZERO_OUT)
    >>> CyclicPoisson(parts=8).event(step, Schedule(size=1000, batch=Fraction(10), steps=50))
    Gaussian(scale=1, relation=ZERO_OUT).sampled(rate=0.08) * 7
    """

    parts: int

    relations = (Relation.ZERO_OUT, Relation.REPLACE)
    ordered = True

    def __post_init__(self) -> None:
        _checks.count("parts", self.parts)

    def check(self, schedule: Schedule, relation: AnyRelation) -> None:
        relation = Relation.of(relation)
        super().check(schedule, relation)
        if self.rate(schedule) > 1:
            most = schedule.size // schedule.batch
            raise InvalidArgument("parts", self.parts, f"at most {most}: a batch must fit into one part")

    def rate(self, schedule: Schedule) -> Fraction:
        """How likely a unit of the part whose turn it is takes part."""
        return self.parts * schedule.rate

    def event(self, step: Event, schedule: Schedule) -> Event:
        return step.sampled(rate=self.rate(schedule)) * math.ceil(schedule.steps / self.parts)

    def draw(self, schedule: Schedule, *, step: int, size: int, order: Indices | None, source: Source) -> Indices:
        if order is None:
            raise InvalidArgument("order", order, "the order that was drawn when the run began")
        part = order[step % self.parts :: self.parts]
        return part[poisson(part.size, rate=self.rate(schedule), source=source)]
