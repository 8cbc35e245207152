"""What the engine returns: exact integers per group, and nothing about single rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.query.readings import BinNumber, Distinct, Values


class Cells(NamedTuple):
    """Rows per group and bin, where there are any, by ascending group."""

    groups: NDArray[np.int64]
    bins: NDArray[np.int64]
    counts: NDArray[np.int64]

    def dense(self, groups: int, size: int) -> NDArray[np.int64]:
        """All of them, as a matrix."""
        found = np.zeros((groups, size), dtype=np.int64)
        found[self.groups, self.bins] = self.counts
        return found

    def part(self, chosen: NDArray[np.int64]) -> Cells:
        """Those of some groups, which are ascending, numbered anew."""
        places = np.searchsorted(chosen, self.groups)
        inside = places < len(chosen)
        inside[inside] = chosen[places[inside]] == self.groups[inside]
        return Cells(places[inside], self.bins[inside], self.counts[inside])


@dataclass(frozen=True)
class Totals:
    """Per group the rows and units, of every `Values` the count and the sum, of every `Distinct` how many there are, of
    every `BinNumber` the rows in each. Where keys are private there is an entry per group that was found, and `keys`
    holds
    the found keys by the place of their column in GROUP BY, from 1."""

    rows: NDArray[Any]
    counts: dict[Values, NDArray[Any]]
    sums: dict[Values, NDArray[Any]]
    units: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    distincts: Mapping[Distinct, NDArray[Any]] = field(default_factory=dict)
    cells: Mapping[BinNumber, Cells] = field(default_factory=dict)
    groups: NDArray[np.int64] | None = None
    """The number of each found group over the columns with declared keys; None when all groups are declared."""
    keys: Mapping[int, NDArray[Any]] = field(default_factory=dict)

    def part(self, chosen: NDArray[np.int64]) -> Totals:
        """The totals of some groups, which are ascending."""
        return Totals(
            self.rows[chosen],
            {values: found[chosen] for values, found in self.counts.items()},
            {values: found[chosen] for values, found in self.sums.items()},
            self.units[chosen] if len(self.units) else self.units,
            {distinct: found[chosen] for distinct, found in self.distincts.items()},
            {bins: found.part(chosen) for bins, found in self.cells.items()},
            None if self.groups is None else self.groups[chosen],
            {i: keys[chosen] for i, keys in self.keys.items()},
        )


def joined(high: NDArray[np.int64], low: NDArray[np.int64]) -> NDArray[Any]:
    """high·2³² + low, exactly: int64 where that fits, else Python integers.

    >>> joined(np.array([-1, 1 << 40]), np.array([5, 0])).tolist()
    [-4294967291, 4722366482869645213696]
    """
    if largest(high) < 1 << 29:
        return np.asarray((high << 32) + low)
    return np.asarray(high.astype(object) * (1 << 32) + low.astype(object), dtype=object)


def largest(integers: NDArray[Any]) -> int:
    """The largest absolute value; 0 if there is none."""
    return max(-int(integers.min()), int(integers.max())) if integers.size else 0
