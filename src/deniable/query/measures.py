"""The integers that noise is added to, and how far one unit moves them.

A *measure* is one integer per group: the number of rows, the number of values of a column, or the sum of a column's
values on their grid, less a public centre each. Every row adds an integer between `low` and `high`. After
contribution bounding a unit has at most K groups and R rows in each, so with G groups in all and b = max(|low|,
|high|):

- a unit that is added, removed or blanked out moves the vector by at most K·R·b in L1, in at most K places;
- a unit that is replaced moves it by at most R·((2K − 2t)·b + t·w), where t = max(0, 2K − G) and w = max(high, 0) −
  min(low, 0). For the old unit's share of one group lies between R·min(low, 0) and R·max(high, 0), as does the new
  one's: they differ by at most R·w where both have a share, and by R·b where one has. With b ≤ w ≤ 2b the worst is
  K groups each, as few of them in common as G allows: t.

Both need nothing but the limits: which rows stay is a function of the unit's own rows (see `bounding`), so nobody
else's share changes.

>>> rows = Measure(None)
>>> move(rows, AtMost(groups=2, rows=4), groups=10, relation=Relation.REPLACE)
Move(sensitivity=16, reach=8, coordinates=4)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.noise import Grid
from deniable.query.limits import AtMost
from deniable.query.schema import Column
from deniable.units import Relation


@dataclass(frozen=True)
class Values:
    """What is read of a column in every row: its whole number on a grid, or (without a grid) whether it holds a
    value."""

    column: Column
    grid: Grid | None


@dataclass(frozen=True)
class Totals:
    """What the engine returns: per group the rows, and of every `Values` the count and the sum, all exact integers."""

    rows: NDArray[Any]
    counts: dict[Values, NDArray[Any]]
    sums: dict[Values, NDArray[Any]]


@dataclass(frozen=True)
class Measure:
    """The rows (`values` is None), the number of values, or their sum when `summed`, each less `centre` grid steps."""

    values: Values | None
    summed: bool = False
    centre: int = 0

    @property
    def low(self) -> int:
        """The least that one row adds."""
        return self._grid.lowest - self.centre if self.summed else 0

    @property
    def high(self) -> int:
        """The most that one row adds."""
        return self._grid.highest - self.centre if self.summed else 1

    @property
    def step(self) -> Fraction:
        """What one unit of the integer means."""
        return self._grid.step if self.summed else Fraction(1)

    @property
    def name(self) -> str:
        """ "COUNT(*)", "COUNT(cost)", "SUM(cost)", "SUM(cost - 2500)"."""
        if self.values is None:
            return "COUNT(*)"
        column = self.values.column.name
        if not self.summed:
            return f"COUNT({column})"
        return f"SUM({column} - {float(self.centre * self.step):g})" if self.centre else f"SUM({column})"

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
        return np.asarray(sums.astype(object) - self.centre * counts.astype(object), dtype=object)

    @property
    def _grid(self) -> Grid:
        if self.values is None or self.values.grid is None:
            raise TypeError("a sum needs values on a grid")
        return self.values.grid


class Move(NamedTuple):
    """How far a unit moves a measure: between neighbours, from its absence, and in how many groups."""

    sensitivity: int
    reach: int
    coordinates: int


def move(measure: Measure, limits: AtMost, *, groups: int, relation: Relation) -> Move:
    """How far one unit within `limits` moves a measure over `groups` groups."""
    touched = min(limits.groups, groups)
    most = max(abs(measure.low), abs(measure.high))
    reach = touched * limits.rows * most
    if relation is not Relation.REPLACE:
        return Move(reach, reach, touched)
    shared = max(0, 2 * touched - groups)
    width = max(measure.high, 0) - min(measure.low, 0)
    replaced = limits.rows * (2 * (touched - shared) * most + shared * width)
    return Move(replaced, reach, min(2 * touched, groups))
