"""A contingency table: counts of every combination of the values of several public attributes.

Every record falls into one cell, or nowhere if one of its values is not in the declared list, so the sensitivities
are those of a histogram whatever the number of attributes. Its margins are free: sums of noisy cells.

>>> m = contingency(attributes={"sex": ["f", "m"], "smoker": [False, True]}, epsilon=1)
>>> m({"sex": ["f", "m", "m"], "smoker": [True, True, None]}).shape
(2, 2)
>>> m.event
DiscreteLaplace(scale=1)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import Noised, budget_of, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.histogram import distinct, partition
from deniable.noise import Source
from deniable.units import Relation

Attributes: TypeAlias = tuple[tuple[str, tuple[Hashable, ...]], ...]

MOST_CELLS = 1 << 24
"""Cells a table may have."""


@dataclass(frozen=True, repr=False)
class Contingency(Mechanism):
    """A table with one axis per attribute, in the order given, and one noisy count per cell."""

    epsilon: Fraction
    delta: Fraction
    attributes: Attributes
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        return self.noised.noise

    def __call__(self, table: object, /, *, source: Source | None = None) -> NDArray[np.int64]:
        """The noisy counts of a table given by columns: a mapping from attribute to values, or a data frame."""
        columns = dict(zip(self._names, records.columns(table, self._names), strict=True))
        cells = tabulate(columns, self.attributes)
        noisy = self.noised.release(cells.reshape(-1).tolist(), source)
        return grids.values_of(noisy, Fraction(1), self.noised.unit).reshape(cells.shape)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.attributes)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any cell."""
        return float_above(self.noised.radius(failure(confidence)))


def contingency(
    *,
    attributes: Mapping[str, Iterable[Hashable]],
    epsilon: Number,
    delta: Number = 0,
    relation: Relation = Relation.ADD_REMOVE,
) -> Contingency:
    """A contingency table with Laplace noise, or Gaussian noise if `delta` is positive."""
    found, allowed = budget_of(epsilon, delta)
    domain = declared(attributes)
    cells = size_of(domain)
    (noised,) = fit([partition(cells, relation)], epsilon=found, delta=allowed, relation=relation)
    return Contingency(found, allowed, domain, noised)


def declared(attributes: Mapping[str, Iterable[Hashable]]) -> Attributes:
    """Attributes with their public lists of values."""
    if not isinstance(attributes, Mapping) or not attributes:
        raise InvalidArgument("attributes", attributes, "a mapping from attribute to its list of values")
    return tuple((name, distinct(f"attributes[{name!r}]", values)) for name, values in attributes.items())


def size_of(domain: Attributes) -> int:
    """The number of cells, refused if memory would not hold them."""
    cells = prod(len(values) for _, values in domain)
    if cells > MOST_CELLS:
        raise InvalidArgument("attributes", cells, f"at most {MOST_CELLS} cells", "Ask for marginals instead.")
    return cells


def tabulate(columns: Mapping[str, list[Hashable]], domain: Attributes) -> NDArray[np.int64]:
    """Exact counts of every cell. A record with an undeclared value in one of the attributes counts nowhere."""
    shape = tuple(len(values) for _, values in domain)
    flat = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
    inside = np.ones_like(flat, dtype=np.bool_)
    for name, values in domain:
        found = records.places_of(columns[name], values)
        inside &= found >= 0
        flat = flat * len(values) + found
    return np.bincount(flat[inside], minlength=prod(shape)).reshape(shape)
