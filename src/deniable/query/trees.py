"""Counts in bins, and in bins of bins: what ranks and quantiles are read off.

The n bins of a column are the leaves of a tree in which every node has up to b children; a row counts in one node of
each of the l levels (the root, the number of all rows, is left out). How many rows lie below an edge between two bins
is then the sum of a few nodes, so its noise stays small, whereas a flat histogram would add up half of its bins. The
tree is that of Hay, Rastogi, Miklau and Suciu (2010, section 4); b is chosen for the least noise at an edge: about
l·(b − 1) nodes of variance ∝ l² are added, so l³(b − 1) is made least over l with b = ⌈n^(1/l)⌉ (Qardaji, Yang and Li
2013 weigh the same terms). With few bins that is l = 1, the flat histogram.

Sensitivity: a row is in l nodes, so K·R·l in L1 when a unit is added or removed, and twice that when it is replaced.

>>> BinTree.of_bins(10).levels, BinTree.of_bins(2500).levels, BinTree.of_bins(2500).branching
(1, 3, 14)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.query.measures import Measure, Totals
from deniable.query.readings import BinNumber, Reading


@dataclass(frozen=True)
class BinTree:
    """The shape of a tree over `size` bins."""

    size: int
    branching: int
    levels: int

    @classmethod
    def of_bins(cls, size: int) -> BinTree:
        """The shape with the least noise at an edge."""
        shapes = [cls(size, _root(size, levels), levels) for levels in range(1, max(2, size.bit_length() + 1))]
        return min(shapes, key=lambda shape: shape.levels**3 * (shape.branching - 1))

    @classmethod
    def flat(cls, size: int) -> BinTree:
        """One level: a histogram."""
        return cls(size, size, 1)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The number of nodes of each level, from the top."""
        return tuple(-(-self.size // self.branching ** (self.levels - level)) for level in range(1, self.levels + 1))

    @property
    def nodes(self) -> int:
        """The number of nodes of all levels."""
        return sum(self.widths)

    def totals(self, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """All nodes, level after level, from a matrix of leaves with a row per group."""
        levels = [leaves]
        for width in reversed(self.widths[:-1]):
            below = levels[0]
            padded = np.zeros((len(below), width * self.branching), dtype=below.dtype)
            padded[:, : below.shape[1]] = below
            levels.insert(0, padded.reshape(len(below), width, self.branching).sum(axis=2))
        return np.concatenate(levels, axis=1)

    def below(self, nodes: NDArray[Any]) -> NDArray[np.float64]:
        """At the edges 0 … size: the rows below, as the sum of the fewest nodes."""
        found = np.zeros((len(nodes), self.size + 1))
        for level, part in enumerate(self._levels(nodes), start=1):
            found[:, :-1] += self._spread(np.cumsum(part, axis=2) - part, level)
            if level == 1:
                found[:, -1] = part.sum(axis=(1, 2))
        return found

    def above(self, nodes: NDArray[Any]) -> NDArray[np.float64]:
        """At the edges 0 … size: the rows above, as the sum of nodes that `below` does not use."""
        found = np.zeros((len(nodes), self.size + 1))
        for level, part in enumerate(self._levels(nodes), start=1):
            rest = np.cumsum(part[:, :, ::-1], axis=2)[:, :, ::-1]
            # Above the lower edge of a leaf is the leaf itself; of a higher node, only what comes after it.
            found[:, :-1] += self._spread(rest if level == self.levels else rest - part, level)
        return found

    @cached_property
    def used(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many nodes are added below, and above, at each edge."""
        ones = np.ones((1, self.nodes), dtype=np.int64)
        return self.below(ones)[0].astype(np.int64), self.above(ones)[0].astype(np.int64)

    def _levels(self, nodes: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        """The nodes of each level, siblings together: group × parent × child."""
        start = 0
        for width in self.widths:
            parents = -(-width // self.branching)
            part = np.zeros((len(nodes), parents * self.branching))
            part[:, :width] = nodes[:, start : start + width]
            start += width
            yield part.reshape(len(nodes), parents, self.branching)

    def _spread(self, part: NDArray[np.float64], level: int) -> NDArray[np.float64]:
        """What belongs to a node, at each of its leaves."""
        flat = part.reshape(len(part), part.shape[1] * part.shape[2])
        return np.repeat(flat, self.branching ** (self.levels - level), axis=1)[:, : self.size]


@dataclass(frozen=True)
class NodeCounts(Measure):
    """The rows in every node of a tree over bins."""

    bins: BinNumber = field(kw_only=True)
    tree: BinTree = field(kw_only=True)

    @property
    def reading(self) -> Reading | None:
        return self.bins

    @property
    def cells(self) -> int:
        return self.tree.nodes

    @property
    def levels(self) -> int:
        return self.tree.levels

    @property
    def name(self) -> str:
        """ "COUNT(cost) in 2,500 bins, 3 levels"."""
        more = f", {self.levels} levels" if self.levels > 1 else ""
        return f"COUNT({self.bins.column.name}) in {self.tree.size:,} bins{more}"

    def of(self, totals: Totals) -> NDArray[Any]:
        return self.tree.totals(totals.cells[self.bins].dense(len(totals.rows), self.tree.size))


def _root(size: int, levels: int) -> int:
    """The least b with b^levels ≥ size."""
    guess = max(1, int(size ** (1 / levels)) - 1)
    while pow(guess, levels) < size:
        guess += 1
    return guess
