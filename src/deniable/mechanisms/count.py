"""How many records satisfy a condition. One unit moves a count by at most 1, under every relation.

>>> m = count(epsilon=0.5)
>>> m.event
DiscreteLaplace(scale=2)
>>> m.error(0.95)
6.0
>>> isinstance(m([True, False, None, True]), int)
True
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from deniable._checks import Number
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import records
from deniable.mechanisms.additive import Noised, Statistic, budget_of, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Count(Mechanism):
    """A count, as an integer; it may come out negative (see `postprocessing.nonnegative`)."""

    epsilon: Fraction
    delta: Fraction
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    def __call__(self, flags: object, /, *, source: Source | None = None) -> int:
        """The noisy number of records that are True (or a number but 0); missing ones are not counted."""
        return int(self.noised.release_one(int(records.flags(flags).sum()), source))

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − count|."""
        return float_above(self.noised.radius(failure(confidence)))


def count(*, epsilon: Number, delta: Number = 0, relation: Relation = Relation.ADD_REMOVE) -> Count:
    """A count with Laplace noise, or Gaussian noise if `delta` is positive."""
    found, allowed = budget_of(epsilon, delta)
    reach = 1 if relation is Relation.REPLACE else None
    (noised,) = fit([Statistic(1, reach=reach)], epsilon=found, delta=allowed, relation=relation)
    return Count(found, allowed, noised)
