"""Report noisy max: every utility gets independent noise, and only the position of the largest is released.

| noise, of scale 2Δ/ε (Δ/ε if monotone) | the choice is | its event |
|---|---|---|
| `LAPLACE` | report noisy max (Dwork and Roth 2014, Claim 3.9) | ε-DP |
| `EXPONENTIAL` | permute-and-flip | ε-DP |
| `GUMBEL` | the exponential mechanism | range ε |

Scale Δ/ε is right for monotone utilities only, such as counts when a record is added or removed. The noisy value of
the winner is not released: that would need noise and budget of its own.

>>> from deniable.noise import GUMBEL, LAPLACE
>>> noisy_max(candidates=10, sensitivity=1, epsilon=1, step=1, noise=LAPLACE, monotone=True).rate
Fraction(1, 1)
>>> noisy_max(candidates=10, sensitivity=1, epsilon=1, step=1, noise=GUMBEL).event
ExponentialMechanism(epsilon=1)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from deniable import _checks
from deniable import noise as samplers
from deniable._checks import Number
from deniable.events import Claimed, Event, ExponentialMechanism
from deniable.guarantees import PureDP
from deniable.mechanisms.selection import Choice, prepared
from deniable.noise import EXPONENTIAL, GUMBEL, LAPLACE, Noise, Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class NoisyMax(Choice):
    """The position of the largest noisy utility."""

    noise: Noise = EXPONENTIAL

    @property
    def event(self) -> Event:
        if self.noise is GUMBEL:
            return ExponentialMechanism(self.epsilon, self.stated)
        return Claimed(PureDP(self.epsilon, relation=self.stated))

    def __call__(self, utilities: object, /, *, source: Source | None = None) -> int:
        """The position of the winner."""
        return samplers.race(self.utilities(utilities), rate=self.rate, noise=self.noise, source=source)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the best utility minus the chosen one; twice as wide where noise can hurt the best one too."""
        return self.shortfall(confidence, width=2 if self.noise is LAPLACE else 1)


def noisy_max(
    *,
    candidates: int,
    sensitivity: Number,
    epsilon: Number,
    noise: Noise = EXPONENTIAL,
    monotone: bool = False,
    step: Number | None = None,
    relation: Relation = Relation.ADD_REMOVE,
) -> NoisyMax:
    """A choice among `candidates` by one of the noises of `deniable.noise`: LAPLACE, EXPONENTIAL or GUMBEL."""
    _checks.member("noise", noise, Noise, remedy="Use deniable.noise.EXPONENTIAL, LAPLACE or GUMBEL.")
    fields = prepared(candidates, sensitivity, epsilon, step, relation, monotone=monotone)
    return NoisyMax(**fields, noise=noise)  # type: ignore[arg-type]
