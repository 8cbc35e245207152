"""All k-way marginals of a table: for every k of its d attributes, the counts of their combinations.

A record falls into one cell of each of the T = C(d, k) tables, so adding it changes T counts by 1 (L1 = T, L2 = √T)
and replacing it changes 2T (L1 = 2T, L2 = √(2T)). Pure ε needs noise that grows with T; with δ > 0 Gaussian noise
grows with √T. The means of d columns, the "one-way marginals" of numbers in [0, 1], are `column_means`.

>>> attributes = {name: [0, 1] for name in "abcd"}
>>> pure = marginals(attributes=attributes, ways=2, epsilon=1)
>>> pure.event
DiscreteLaplace(scale=6, sensitivity=6, coordinates=6)
>>> sorted(pure({name: [0, 1, 1] for name in "abcd"}))[0]
('a', 'b')
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import Noised, budget_of, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.contingency import MOST_CELLS, Attributes, declared, tabulate
from deniable.mechanisms.histogram import partition
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Marginals(Mechanism):
    """A noisy table for every `ways` attributes. The tables need not agree: see `postprocessing.consistent`."""

    epsilon: Fraction
    delta: Fraction
    attributes: Attributes
    ways: int
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The attributes of each table."""
        return tuple(combinations((name for name, _ in self.attributes), self.ways))

    def __call__(self, table: object, /, *, source: Source | None = None) -> dict[tuple[str, ...], NDArray[np.int64]]:
        """The noisy counts, by the attributes of each table."""
        names = tuple(name for name, _ in self.attributes)
        columns = dict(zip(names, records.columns(table, names), strict=True))
        domain = dict(self.attributes)
        exact = [tabulate(columns, tuple((name, domain[name]) for name in chosen)) for chosen in self.tables]
        flat = [int(count) for cells in exact for count in cells.reshape(-1)]
        noisy = grids.values_of(self.noised.release(flat, source), Fraction(1), self.noised.unit)
        ends = np.cumsum([cells.size for cells in exact])[:-1]
        parts = np.split(noisy, ends)
        return {
            chosen: part.reshape(cells.shape) for chosen, part, cells in zip(self.tables, parts, exact, strict=True)
        }

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any cell of any table."""
        return float_above(self.noised.radius(failure(confidence)))


def marginals(
    *,
    attributes: Mapping[str, Iterable[Hashable]],
    ways: int = 1,
    epsilon: Number,
    delta: Number = 0,
    relation: Relation = Relation.ADD_REMOVE,
) -> Marginals:
    """All marginals of `ways` attributes with Laplace noise, or Gaussian noise if `delta` is positive."""
    found, allowed = budget_of(epsilon, delta)
    domain = declared(attributes)
    way = _checks.count("ways", ways)
    if way > len(domain):
        raise InvalidArgument("ways", ways, f"at most the {len(domain)} attributes")
    sizes = [prod(len(values) for _, values in chosen) for chosen in combinations(domain, way)]
    if sum(sizes) > MOST_CELLS:
        raise InvalidArgument("attributes", sum(sizes), f"at most {MOST_CELLS} cells altogether", "Take fewer ways.")
    (noised,) = fit(
        [partition(sum(sizes), relation, times=len(sizes))], epsilon=found, delta=allowed, relation=relation
    )
    return Marginals(found, allowed, domain, way, noised)
