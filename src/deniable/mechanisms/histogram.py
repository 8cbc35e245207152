"""Counts of every key in a public list.

A record has one key, so one unit moves one count by 1 if it is added, removed or blanked out (L1 = L2 = 1), and two
counts by 1 if it is replaced (L1 = 2, L2 = √2). Noise of scale Δ₁/ε in each of k counts strays by at most about
(Δ₁/ε)(ln k + t) in all of them with probability 1 − e^−t; `error` says it exactly. Keys that are not in the list
count nowhere; for keys that are not known beforehand there is `stability_histogram`.

>>> m = histogram(keys=["A", "B", "O"], epsilon=1)
>>> sorted(m(["A", "A", "O", "X", None])) == ["A", "B", "O"]
True
>>> m.error(0.95), histogram(keys=["A", "B", "O"], epsilon=1, relation=Relation.REPLACE).event
(4.0, DiscreteLaplace(scale=2, sensitivity=2, relation=REPLACE, reach=1, coordinates=2))
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import records
from deniable.mechanisms.additive import Noised, Statistic, budget_of, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Histogram(Mechanism):
    """One noisy count per key of a public list."""

    epsilon: Fraction
    delta: Fraction
    keys: tuple[Hashable, ...]
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    def __call__(self, values: object, /, *, source: Source | None = None) -> dict[Hashable, int]:
        """The noisy count of each key, in the order of the list. Counts may come out negative."""
        noisy = self.noised.release(records.counts(values, self.keys), source)
        return {key: int(value) for key, value in zip(self.keys, noisy, strict=True)}

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any count."""
        return float_above(self.noised.radius(failure(confidence)))


def histogram(
    *, keys: Iterable[Hashable], epsilon: Number, delta: Number = 0, relation: Relation = Relation.ADD_REMOVE
) -> Histogram:
    """A histogram with Laplace noise, or Gaussian noise if `delta` is positive."""
    found, allowed = budget_of(epsilon, delta)
    cells = distinct("keys", keys)
    (noised,) = fit([partition(len(cells), relation)], epsilon=found, delta=allowed, relation=relation)
    return Histogram(found, allowed, cells, noised)


def partition(cells: int, relation: Relation, *, times: int = 1) -> Statistic:
    """Counts over `cells` disjoint cells, or over `times` partitions of the records into so many cells altogether."""
    if relation is not Relation.REPLACE:
        return Statistic(1, cells, times, Fraction(times), times)
    if cells == times:  # a single cell each: leaving it for nowhere is all that can happen
        return Statistic(1, cells, times, Fraction(times), times, reach=times)
    # A vector of `times` ones has L1 norm `times` and a smaller L2 norm: the larger one is a reach for both.
    return Statistic(1, cells, 2 * times, Fraction(2 * times), 2 * times, reach=times)


def distinct(name: str, values: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """A public list of different keys."""
    if isinstance(values, str):
        raise InvalidArgument(name, values, "a list of keys", f"For one key write {name}=[{values!r}].")
    if not isinstance(values, Iterable):
        raise InvalidArgument(name, values, "a list of keys")
    found = tuple(values)
    usable = all(key is not None for key in records.keys(found))
    if not found or not usable or len(set(found)) != len(found):
        raise InvalidArgument(name, list(found), "one or more different keys, none of them None, NaN or unhashable")
    return found
