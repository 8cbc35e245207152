"""Amplification by shuffling: local reports whose order hides who sent which. REPLACE.

The clones of `pairs/shuffling.py` (Feldman–McMillan–Talwar 2021), asked at one δ: p = e^{−ε₀} for any report. For k-ary
randomized response everybody's law is at least (a + b)/(e^{ε₀} + 1), with a and b the two laws of the person who
changes, and a + b = Q₀ + Q₁: p = 2/(e^{ε₀} + 1). That larger p for *every* ε₀-DP report (their 2022 paper) is not used
here: the argument does not give it.

>>> print(shuffle(PureDP(1, relation=Relation.REPLACE), population=1000, delta=1e-5))
ε ≤ 0.16, δ = 1e-5, one record replaced by another
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from deniable import _checks
from deniable._checks import Number
from deniable.errors import UnitMismatch
from deniable.guarantees import ApproxDP, PureDP
from deniable.numerics.roots import border
from deniable.numerics.rounding import above, float_above, float_below, fraction_above
from deniable.units import Relation, single

if TYPE_CHECKING:
    from deniable.accounting.pairs.shuffling import Clones


def shuffle(local: PureDP, *, population: int, delta: Number) -> ApproxDP:
    """The promise of n shuffled ε₀-DP reports at a δ, never worse than ε₀. Upper bound."""
    return _shuffled(local, population, delta, math.exp(-float_above(local.epsilon)))


def shuffle_responses(local: PureDP, *, population: int, delta: Number) -> ApproxDP:
    """The same for reports by randomized response (any number of categories), which leaves more clones. Upper bound."""
    epsilon = float_above(local.epsilon)
    return _shuffled(local, population, delta, 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon)))


def shuffled_delta(epsilon: float, *, local: float, population: int, clone: float) -> float:
    """δ(ε) of the two counts, rounded up; `local` is ε₀, `clone` the probability that a report is a clone."""
    return _clones(local, population, clone).delta(epsilon)


@lru_cache(maxsize=16)
def _clones(local: float, population: int, clone: float) -> Clones:
    from deniable.accounting.pairs.shuffling import Clones

    return Clones(local, population, clone)


def _shuffled(local: PureDP, population: int, delta: Number, clone: float) -> ApproxDP:
    people = _checks.count("population", population)
    allowed = _checks.inner_probability("delta", delta)
    if local.relation is not Relation.REPLACE:
        raise UnitMismatch("shuffling is analysed under REPLACE only; state the local report under REPLACE.")
    single(local.unit, doing="shuffle")
    epsilon = float_above(local.epsilon)
    if epsilon > 700:  # fewer than e^{−700} of the others are clones: nothing is gained
        return ApproxDP(local.epsilon, allowed, relation=local.relation, unit=local.unit)
    under = float_below(allowed)
    amplified = border(
        lambda e: shuffled_delta(e, local=epsilon, population=people, clone=clone) <= under,
        above(epsilon, ulps=1),
        relative=1e-9,
    )[1]
    return ApproxDP(min(fraction_above(amplified), local.epsilon), allowed, relation=local.relation, unit=local.unit)
