"""The most common value, by propose-test-release: exact when it is released at all.

The mode itself is released, so data are safe when no neighbour has another mode. With g the gap between the two
largest counts and a fixed rule for ties, the distance to unsafe data is max(0, ⌈g/2⌉ − 1) under REPLACE and max(0, g
− 1) under ADD_REMOVE. Values may come from any set, even the real numbers: none is listed beforehand.

Exercise: noisy histogram or PTR? A noisy histogram (or noisy max, which needs no more noise for k counts than for
one) must know its k keys and always answers; the winner is the true one with high probability once the gap is about
(ln k)/ε. PTR needs a gap of about 2 ln(1/δ)/ε, whatever k, and says nothing below that. `histogram_or_ptr` puts
numbers to it.

>>> m = mode(epsilon=1, delta=1e-6)
>>> m(["flu"] * 60 + ["cold"] * 10), m(["flu", "cold"])
('flu', None)
>>> m.needed(0.95)
17
>>> histogram_or_ptr(epsilon=1, delta=1e-6, keys=100).better, histogram_or_ptr(epsilon=1, delta=1e-6, keys=10**9).better
('noisy max', 'propose-test-release')
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.events import Claimed, Event
from deniable.guarantees import PureDP
from deniable.mechanisms import records
from deniable.mechanisms.additive import relation_of
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.propose_test_release import needed, passes, whole
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Mode(Mechanism):
    """The most common value, or None."""

    epsilon: Fraction
    delta: Fraction
    stated: Relation

    @property
    def event(self) -> Event:
        return Claimed(whole(PureDP(0, relation=self.stated), self.epsilon, self.delta))

    def __call__(self, values: object, /, *, source: Source | None = None) -> Hashable | None:
        """The exact mode, or None if the test failed. Missing values are left out."""
        found, gap = leader(records.keys(values))
        return found if passes(distance(gap, self.stated), self.epsilon, self.delta, source) else None

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The gap between the two largest counts from which on the mode is released with this probability."""
        far = needed(self.epsilon, self.delta, confidence)
        return 2 * far + 1 if self.stated is Relation.REPLACE else far + 1

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """0: what is released is the mode."""
        failure(confidence)
        return 0.0


def mode(*, epsilon: Number, delta: Number, relation: Relation = Relation.ADD_REMOVE) -> Mode:
    """The most common value of records with one value each."""
    relation_of(relation, Relation.ADD_REMOVE, Relation.REPLACE, why="A blanked record has no value.")
    allowed = _checks.inner_probability(
        "delta", delta, remedy="The test must be allowed to fail: for example delta=1e-6."
    )
    return Mode(_checks.positive("epsilon", epsilon), allowed, relation)


def leader(values: list[Hashable]) -> tuple[Hashable | None, int]:
    """The mode and its lead over the next. Ties go by the printed form of a value, which no other record can change."""
    ranked = sorted(records.tally(values), key=lambda pair: -pair[1])
    if not ranked:
        return None, 0
    (first, most), *others = ranked
    return first, most - (others[0][1] if others else 0)


def distance(gap: int, relation: Relation) -> int:
    """How many records must change before one more can change the mode."""
    return max(0, (gap + 1) // 2 - 1) if relation is Relation.REPLACE else max(0, gap - 1)


@dataclass(frozen=True)
class ModeComparison:
    """The gap that each way of finding the mode needs, to be right with the given probability."""

    noisy_max_gap: int
    ptr_gap: int

    @property
    def better(self) -> str:
        """The one that needs the smaller gap."""
        return "noisy max" if self.noisy_max_gap <= self.ptr_gap else "propose-test-release"


def histogram_or_ptr(
    *,
    epsilon: Number,
    delta: Number,
    keys: int,
    confidence: Number = Fraction(19, 20),
    relation: Relation = Relation.ADD_REMOVE,
) -> ModeComparison:
    """The exercise of the notes, in numbers: with a histogram of `keys` public keys or by propose-test-release?

    Noisy max with exponential noise of scale b misses if another noise exceeds the gap: (keys − 1)·e^{−gap/b} at most.
    """
    many = _checks.count("keys", keys, least=2)
    each = _checks.positive("epsilon", epsilon)
    scale = (2 if relation is Relation.REPLACE else 1) / each
    gap = math.ceil(float(scale) * math.log((many - 1) / failure(confidence)))
    return ModeComparison(max(gap, 1), mode(epsilon=epsilon, delta=delta, relation=relation).needed(confidence))
