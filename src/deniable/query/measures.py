"""The integers that noise is added to, and how far one unit moves them.

A *measure* is one integer per group, or a row of integers (`cells` of them): the number of rows, of people, of values,
of different values, the sum of a column's values on their grid less a public centre each, or counts in bins. After
contribution bounding a unit has at most K groups and R rows in each. Every row adds an integer between `low` and `high`
to each of `levels` cells of its group (1 but for trees of counts). With G groups in all, b = max(|low|, |high|), w =
max(high, 0) − min(low, 0) and l levels:

- **L1, a unit added, removed or blanked out**: at most K·R·b·l, in at most K·R·l places.
- **L1, a unit replaced**: a measure of one cell moves by at most R·((2K − 2t)·b + t·w), where t = max(0, 2K − G). For
  the old unit's share of one group lies between R·min(low, 0) and R·max(high, 0), as does the new one's: they differ by
  at most R·w where both have a share, and by R·b where one has. With b ≤ w ≤ 2b the worst is K groups each, as few of
  them in common as G allows: t. A measure of several cells moves by at most twice as much as when the unit is added:
  old and new rows may fall into different cells of one group.
- **L2 squared, a unit added, removed or blanked out**: K·l·(R·b)². Each of K groups moves by at most R·b in each level,
  and the squares of one level add up to at most (R·b)², because the cells of a level get non-negative shares of R rows
  (several cells), or there is one cell.
- **Cells that a row changes together** (`BoundDistances`): what it adds to them is never negative and at most b in all,
  so both bounds hold as for one level.
- **L2 squared, a unit replaced**: with s groups in common, a measure of one cell moves by at most R²·((2K − 2s)·b² +
  s·w²). That is linear in s, so the worst is s = t or s = K: R²·max(2(K − t)·b² + t·w², K·w²). The cells of a measure
  of several cells are never negative, so |u − v|² ≤ |u|² + |v|²: at most 2K·l·R².

**A limit on all rows.** With `total` = T, a unit has at most T rows over all of its groups. In L1 K·R becomes
min(K·R, T). In L2 the worst Σn² over the rows n per group, n ≤ R, Σn ≤ T, is S = q·R² + r² with q = ⌊T/R⌋ full groups
and the rest r in one more (Σn² is convex, so it is largest at a corner), and K·R² where that is less: S takes the place
of K·R². Where a unit is replaced, the shares of a group with n old and n′ new rows differ by at most n·a + n′·c, with
{a, c} = {max(high, 0), −min(low, 0)}, a + c = w, max(a, c) = b. (na + n′c)² ≤ n²·a·w + n′²·c·w, because 2nn′ ≤ n² +
n′²; over all groups that is at most 2·b·w·S. What counts a unit once in each group has at most min(K, T) of them.

This needs nothing but the limits: which rows stay is a function of the unit's own rows (see `bounding`), so nobody
else's share changes. Sums and counts are sums of the units' shares. The number of different values is not, but R rows
bring at most R new values to a group, and take as many away: the bounds hold with low = 0 and high = 1.

**Counts in bins.** Counts in bins, and in bins of bins: what ranks and quantiles are read off.

The n bins of a column are the leaves of a tree in which every node has up to b children; a row counts in one node of
each of the l levels (the root, the number of all rows, is left out). How many rows lie below an edge between two bins
is then the sum of a few nodes, so its noise stays small, whereas a flat histogram would add up half of its bins. The
tree is that of Hay, Rastogi, Miklau and Suciu (2010, section 4); b is chosen for the least noise at an edge: about
l·(b − 1) nodes of variance ∝ l² are added, so l³(b − 1) is made least over l with b = ⌈n^(1/l)⌉ (Qardaji, Yang and Li
2013 weigh the same terms). With few bins that is l = 1, the flat histogram.

Sensitivity: a row is in l nodes, so K·R·l in L1 when a unit is added or removed, and twice that when it is replaced.

>>> rows = Measure(None)
>>> move(rows, AtMost(groups=2, rows=4), groups=10, relation=Relation.REPLACE)
Move(sensitivity=16, squared=64, reach=8, coordinates=4)

>>> BinTree.of_bins(10).levels, BinTree.of_bins(2500).levels, BinTree.of_bins(2500).branching
(1, 3, 14)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.query.choice import AtMost
from deniable.query.grids import BinNumber, Distinct, Reading, Values
from deniable.units import Relation


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

    def freeze(self) -> None:
        """Let nobody write into the arrays."""
        cells = (array for found in self.cells.values() for array in found)
        several = (self.counts, self.sums, self.distincts, self.keys)
        for array in (self.rows, self.units, *cells, *(array for found in several for array in found.values())):
            array.flags.writeable = False

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


@dataclass(frozen=True)
class Measure:
    """The rows (`values` is None), the number of values, or their sum when `summed`, each less `centre` grid steps."""

    values: Values | None
    summed: bool = False
    centre: int = 0

    @property
    def reading(self) -> Reading | None:
        """What it needs of every row."""
        return self.values

    @property
    def cells(self) -> int:
        """How many integers it has per group."""
        return 1

    @property
    def levels(self) -> int:
        """To how many of them a row adds."""
        return 1

    @property
    def spread(self) -> int:
        """How many of them a row changes."""
        return self.levels

    @property
    def sees_values(self) -> bool:
        """Whether it depends on which values rows hold, and not only on how many hold one."""
        return self.summed

    @property
    def low(self) -> int:
        """The least that one row adds."""
        return self._values.low - self.centre if self.summed else 0

    @property
    def high(self) -> int:
        """The most that one row adds."""
        return self._values.high - self.centre if self.summed else 1

    @property
    def step(self) -> Fraction:
        """What one unit of the integer means."""
        return self._values.step if self.summed else Fraction(1)

    @property
    def name(self) -> str:
        """ "COUNT(*)", "COUNT(cost)", "SUM(cost)", "SUM(cost - 2500)"."""
        if self.values is None:
            return "COUNT(*)"
        column = self.values.name
        if not self.summed:
            return f"COUNT({column})"
        return f"SUM({column} - {float(self.centre * self.step):g})" if self.centre else f"SUM({column})"

    def most_rows(self, limits: AtMost) -> int:
        """How many rows of a unit count in one group."""
        return limits.rows

    def of(self, totals: Totals) -> NDArray[Any]:
        """This measure of all groups, exactly."""
        if self.values is None:
            return totals.rows
        counts = totals.counts[self.values]
        if not self.summed:
            return counts
        sums = totals.sums[self.values]
        if not self.centre:
            return sums
        furthest = largest(sums) + abs(self.centre) * largest(counts)
        if sums.dtype == np.int64 and furthest < 1 << 62:
            return np.asarray(sums - self.centre * counts)
        return np.asarray(sums.astype(object) - self.centre * counts.astype(object), dtype=object)

    @property
    def _values(self) -> Values:
        if self.values is None or self.values.grid is None:
            raise TypeError("a sum needs values on a grid")
        return self.values


@dataclass(frozen=True)
class UnitCounts(Measure):
    """The number of units in each group: however many rows a unit has there, it counts once."""

    noun: str = "unit"

    @property
    def name(self) -> str:
        return f"COUNT(DISTINCT {self.noun})"

    def most_rows(self, limits: AtMost) -> int:
        return 1

    def of(self, totals: Totals) -> NDArray[Any]:
        return totals.units


@dataclass(frozen=True)
class BoundDistances(Measure):
    """The sums of the distances of a column's values from their lower and from their upper bound, in steps.

    A row adds x − low to the one and high − x to the other, which together are high − low: a vector of two cells per
    group, never negative, that a row moves by at most high − low in L1, and so in L2.
    """

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds, in steps."""
        return self._values.low, self._values.high

    @property
    def cells(self) -> int:
        return 2

    @property
    def sees_values(self) -> bool:
        return True

    @property
    def spread(self) -> int:
        return 2

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return self.ends[1] - self.ends[0]

    @property
    def step(self) -> Fraction:
        return self._values.step

    @property
    def name(self) -> str:
        """ "SUM(cost - 0), SUM(5000 - cost)"."""
        column = self._values.name
        low, high = (f"{float(end * self.step):g}" for end in self.ends)
        return f"SUM({column} - {low}), SUM({high} - {column})"

    def of(self, totals: Totals) -> NDArray[Any]:
        values, (low, high) = self._values, self.ends
        counts, sums = totals.counts[values], totals.sums[values]
        furthest = largest(sums) + max(abs(low), abs(high)) * largest(counts)
        if sums.dtype != np.int64 or furthest >= 1 << 62:
            counts, sums = counts.astype(object), sums.astype(object)
        return np.stack([sums - low * counts, high * counts - sums], axis=1)


@dataclass(frozen=True)
class Different(Measure):
    """The number of different values of a column."""

    distinct: Distinct = field(kw_only=True)

    @property
    def reading(self) -> Reading | None:
        return self.distinct

    @property
    def name(self) -> str:
        return f"COUNT(DISTINCT {self.distinct.column.name})"

    def of(self, totals: Totals) -> NDArray[Any]:
        return totals.distincts[self.distinct]


class Move(NamedTuple):
    """How far a unit moves a measure: between neighbours in L1 and in L2, squared; from its absence; in how many
    places."""

    sensitivity: int
    squared: int
    reach: int
    coordinates: int


def move(measure: Measure, limits: AtMost, *, groups: int | None, relation: Relation) -> Move:
    """How far one unit within `limits` moves a measure over `groups` groups; None when their number is private."""
    rows, levels = measure.most_rows(limits), measure.levels
    touched = limits.groups if groups is None else min(limits.groups, groups)
    most_rows = touched * rows if limits.total is None else min(touched * rows, limits.total)
    touched = min(touched, most_rows)
    most = max(abs(measure.low), abs(measure.high))
    width = max(measure.high, 0) - min(measure.low, 0)
    full, rest = divmod(most_rows, rows)
    squares = full * rows**2 + rest**2
    reach = most_rows * most * levels
    if relation is not Relation.REPLACE:
        places = touched if measure.cells == 1 else min(most_rows * measure.spread, touched * measure.cells)
        return Move(reach, squares * levels * most**2, reach, places)
    if measure.cells > 1:
        everywhere = measure.cells * (2 * touched if groups is None else groups)
        return Move(2 * reach, 2 * squares * levels * most**2, reach, min(2 * most_rows * measure.spread, everywhere))
    shared = 0 if groups is None else max(0, 2 * touched - groups)
    apart = 2 * (touched - shared)
    sensitivity = rows * (apart * most + shared * width)
    squared = rows**2 * max(apart * most**2 + shared * width**2, touched * width**2)
    return Move(
        min(sensitivity, 2 * reach),
        min(squared, 2 * most * width * squares),
        reach,
        2 * touched if groups is None else min(2 * touched, groups),
    )


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
    def sees_values(self) -> bool:
        return True

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
