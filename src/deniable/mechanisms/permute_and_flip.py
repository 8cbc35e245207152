"""Permute-and-flip: candidates in random order, each accepted with probability exp(ε·(utility − best)/(2Δ)).

ε-differentially private and never less accurate than the exponential mechanism (McKenna and Sheldon 2020). It is the
same choice as adding exponential noise of scale 2Δ/ε to every utility and taking the largest (Ding, Kifer et al.
2021), which is how it is drawn.

>>> m = permute_and_flip(candidates=3, sensitivity=1, epsilon=1, step=1)
>>> 0 <= m([0, -1, -4]) < 3, m.event
(True, Claimed(PureDP(epsilon=1)))
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deniable._checks import Number
from deniable.mechanisms.noisy_max import NoisyMax
from deniable.mechanisms.selection import prepared
from deniable.noise import EXPONENTIAL, Noise
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class PermuteAndFlip(NoisyMax):
    """A choice by permute-and-flip: the largest utility after exponential noise."""

    noise: Noise = field(default=EXPONENTIAL, init=False, repr=False)


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
