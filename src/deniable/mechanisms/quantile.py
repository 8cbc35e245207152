"""Quantiles of a bounded column, by the exponential mechanism on the points of a public grid.

A point t of the grid has below it L(t) records and at most R(t) at or below it. Its utility is minus the distance of
the wanted rank q·n from the interval [L(t), R(t)]: 0 exactly where t is a q-quantile, ties included. Adding or
removing a record moves it by at most max(q, 1 − q), replacing one by at most 1.

Between two neighbouring values all points have the same utility, so each stretch is one choice with as many copies as
it has points, and a uniform point within it follows: the exponential mechanism on all points, exactly.

Accuracy: the rank of the answer is within (2Δ/ε)(ln points + ln(1/β)) of q·n with probability 1 − β.

>>> m = quantile(bounds=(0, 100), q=0.5, epsilon=1)
>>> m.event
ExponentialMechanism(epsilon=1)
>>> round(m.error(0.95), 1)      # in ranks
16.9
>>> [0 <= value <= 100 for value in quantile(bounds=(0, 100), q=[0.25, 0.75], epsilon=1)([3, 50, 80])]
[True, True]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Event, ExponentialMechanism
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import relation_of
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Grid, Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Quantile(Mechanism):
    """One or more quantiles; each costs the same share of the budget."""

    q: tuple[Fraction, ...]
    epsilon: Fraction
    grid: Grid
    single: bool
    stated: Relation

    @property
    def each(self) -> Fraction:
        """The ε of one quantile."""
        return self.epsilon / len(self.q)

    @property
    def event(self) -> Event:
        return ExponentialMechanism(self.each, self.stated) * len(self.q)

    @property
    def points(self) -> int:
        """The number of points of the grid."""
        return self.grid.highest - self.grid.lowest + 1

    def __call__(self, values: object, /, *, source: Source | None = None) -> float | list[float]:
        """The noisy quantiles of the values that are there, in the order of `q`; missing ones are left out."""
        found = records.numbers(values)
        indices = np.sort(self.grid.place(found[~np.isnan(found)]))
        stretches = Stretches.of(indices, self.grid)
        chosen = [self._choose(stretches, len(indices), q, source) for q in self.q]
        if self.single:
            return float(chosen[0] * self.grid.step)
        # Quantiles are in order; putting the noisy ones in the order of q is free.
        places = sorted(range(len(self.q)), key=lambda i: self.q[i])
        ordered = dict(zip(places, sorted(chosen), strict=True))
        return [float(ordered[i] * self.grid.step) for i in range(len(chosen))]

    def _choose(self, stretches: Stretches, n: int, q: Fraction, source: Source | None) -> int:
        rate = self.each / (2 * sensitivity(q, self.stated))
        miss = stretches.misses(q * n)
        place = int(noise.categorical([-rate * far for far in miss], multiples=stretches.sizes, source=source))
        within = noise.uniform(stretches.sizes[place], source=source)
        return stretches.starts[place] + int(within)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound, for every quantile, on how far the rank of the answer is from q·n."""
        worst = max(sensitivity(q, self.stated) for q in self.q)
        nats = math.log(self.points * len(self.q) / failure(confidence)) * (1 + 1e-12)
        return float_above(2 * worst / self.each * Fraction(nats))


@dataclass(frozen=True)
class Stretches:
    """The grid in stretches of constant rank: first point, number of points, records below, records up to there."""

    starts: list[int]
    sizes: list[int]
    below: list[int]
    upto: list[int]

    @classmethod
    def of(cls, indices: NDArray[np.int64], grid: Grid) -> Stretches:
        """From sorted indices: every different value, and the gaps before, between and after them."""
        values, counts = np.unique(indices, return_counts=True)
        found = cls([], [], [], [])
        start, seen = grid.lowest, 0
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            found._add(start, value - start, seen, seen)
            found._add(value, 1, seen, seen + count)
            start, seen = value + 1, seen + count
        found._add(start, grid.highest - start + 1, seen, seen)
        return found

    def _add(self, start: int, size: int, below: int, upto: int) -> None:
        if size > 0:
            self.starts.append(start)
            self.sizes.append(size)
            self.below.append(below)
            self.upto.append(upto)

    def misses(self, rank: Fraction) -> list[Fraction]:
        """How far a rank is from each stretch's interval of ranks."""
        zero = Fraction(0)
        return [max(zero, low - rank, rank - high) for low, high in zip(self.below, self.upto, strict=True)]


def sensitivity(q: Fraction, relation: Relation) -> Fraction:
    """How far one record moves the utility of any point."""
    return Fraction(1) if relation is Relation.REPLACE else max(q, 1 - q)


def quantile(
    *,
    bounds: tuple[Number, Number],
    q: Number | Iterable[Number],
    epsilon: Number,
    relation: Relation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> Quantile:
    """One quantile (a number `q`) or several (a list), which cost ε together. Answers are multiples of `step`."""
    single = not isinstance(q, Iterable)
    listed = list(q) if isinstance(q, Iterable) else [q]
    wanted = tuple(_checks.probability("q", one) for one in listed)
    if not wanted:
        raise InvalidArgument("q", q, "one quantile or more")
    relation_of(relation, Relation.ADD_REMOVE, Relation.REPLACE, why="A blanked record has no rank.")
    return Quantile(
        q=wanted,
        epsilon=_checks.positive("epsilon", epsilon),
        grid=grids.record_grid(bounds, step),
        single=single,
        stated=relation,
    )
