"""Permute-and-flip: candidates in random order, each accepted with probability exp(ε·(utility − best)/(2Δ)).

ε-differentially private and never less accurate than the exponential mechanism (McKenna and Sheldon 2020). It is the
same choice as adding exponential noise of scale 2Δ/ε to every utility and taking the largest (Ding, Kifer et al.
2021), which is how it is drawn.

>>> m = permute_and_flip(candidates=3, sensitivity=1, epsilon=1, step=1)
>>> 0 <= m([0, -1, -4]) < 3, m.event
(True, Claimed(PureDP(epsilon=1)))
"""

from __future__ import annotations

from fractions import Fraction

from deniable import noise
from deniable._checks import Number
from deniable.events import Claimed, Event
from deniable.guarantees import PureDP
from deniable.mechanisms.selection import Choice, prepared
from deniable.noise import Source
from deniable.units import Relation


class PermuteAndFlip(Choice):
    """A choice by permute-and-flip."""

    @property
    def event(self) -> Event:
        return Claimed(PureDP(self.epsilon, relation=self.stated))

    def __call__(self, utilities: object, /, *, source: Source | None = None) -> int:
        """The position of the chosen candidate."""
        return noise.race(self.utilities(utilities), rate=self.rate, noise=noise.EXPONENTIAL, source=source)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the best utility minus the chosen one."""
        return self.shortfall(confidence)


def permute_and_flip(
    *,
    candidates: int,
    sensitivity: Number,
    epsilon: Number,
    monotone: bool = False,
    step: Number | None = None,
    relation: Relation = Relation.ADD_REMOVE,
) -> PermuteAndFlip:
    """A choice among `candidates`. `monotone=True` halves the noise where one unit moves all utilities the same way."""
    return PermuteAndFlip(**prepared(candidates, sensitivity, epsilon, step, relation, monotone=monotone))  # type: ignore[arg-type]
