"""The exponential mechanism: a candidate is chosen with probability proportional to exp(ε·utility/(2Δ)).

ε-differentially private (McSherry and Talwar 2007; Dwork and Roth 2014, Theorem 3.10); with monotone utilities
exp(ε·utility/Δ) is. `epsilon` is the guarantee: the notes' exp(ε·utility/Δ) is 2ε-DP in general. Its loss has range
ε, which composes better than ε-DP does (Durfee and Rogers 2019); the event says so.

Accuracy: the chosen utility is within (2Δ/ε)(ln k + ln(1/β)) of the best with probability 1 − β (Dwork and Roth,
Theorem 3.11).

>>> m = exponential(candidates=3, sensitivity=1, epsilon=1, step=1)
>>> 0 <= m([3, 100, 2]) < 3
True
>>> m.event, round(m.error(0.95), 2)
(ExponentialMechanism(epsilon=1), 8.19)
"""

from __future__ import annotations

from fractions import Fraction

from deniable import noise
from deniable._checks import Number
from deniable.events import Event, ExponentialMechanism
from deniable.mechanisms.selection import Choice, prepared
from deniable.noise import Source
from deniable.units import Relation


class Exponential(Choice):
    """A choice by the exponential mechanism."""

    @property
    def event(self) -> Event:
        return ExponentialMechanism(self.epsilon, self.stated)

    def __call__(self, utilities: object, /, *, source: Source | None = None) -> int:
        """The position of the chosen candidate."""
        return noise.race(self.utilities(utilities), rate=self.rate, noise=noise.GUMBEL, source=source)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the best utility minus the chosen one."""
        return self.shortfall(confidence)


def exponential(
    *,
    candidates: int,
    sensitivity: Number,
    epsilon: Number,
    monotone: bool = False,
    step: Number | None = None,
    relation: Relation = Relation.ADD_REMOVE,
) -> Exponential:
    """A choice among `candidates`. `monotone=True` halves the noise where one unit moves all utilities the same way."""
    return Exponential(**prepared(candidates, sensitivity, epsilon, step, relation, monotone=monotone))  # type: ignore[arg-type]
