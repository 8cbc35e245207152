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

from dataclasses import dataclass, field

from deniable._checks import Number
from deniable.mechanisms.noisy_max import NoisyMax
from deniable.mechanisms.selection import prepared
from deniable.noise import GUMBEL, Noise
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Exponential(NoisyMax):
    """A choice by the exponential mechanism: the largest utility after Gumbel noise."""

    noise: Noise = field(default=GUMBEL, init=False, repr=False)


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
