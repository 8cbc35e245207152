"""What is read of every row: the SQL of `read` gives a value or NULL, and no row can make it fail.

`Values` are whole numbers to be counted and added up, `Distinct` anything to be told apart, `BinNumber` the number of a
cell in which rows are counted. Readings are public; the engine answers with totals of them (see `totals`). `place` is
the SQL of a row's place in a list, for a reading that is looked up in one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from deniable.noise import Grid
from deniable.query.grids import place as on_grid
from deniable.query.grids import presence
from deniable.query.schema import Column, ColumnKind
from deniable.query.values import column_as, name


@dataclass(frozen=True)
class Values:
    """A column's whole number on a grid, the square of its distance from the middle, or (without a grid) whether it
    holds a value."""

    column: Column
    grid: Grid | None
    squared: bool = False

    @property
    def middle(self) -> int:
        """The middle of the grid, in steps."""
        return (self._ends[0] + self._ends[1]) // 2

    @property
    def low(self) -> int:
        """The least whole number."""
        return 0 if self.squared else self._ends[0]

    @property
    def high(self) -> int:
        """The largest whole number."""
        low, high = self._ends
        return max(high - self.middle, self.middle - low) ** 2 if self.squared else high

    @property
    def step(self) -> Fraction:
        """What 1 means."""
        step = self.grid.step if self.grid is not None else Fraction(1)
        return step**2 if self.squared else step

    @property
    def name(self) -> str:
        """ "cost", "(cost - 2500)²"."""
        if not self.squared or self.grid is None:
            return self.column.name
        return f"({self.column.name} - {float(self.middle * self.grid.step):g})²"

    def read(self, place: str = "") -> str:
        """The whole number of a row."""
        if self.grid is None:
            return presence(self.column)
        whole = on_grid(self.column, self.grid)
        return f"({whole} - {self.middle}) * ({whole} - {self.middle})" if self.squared else whole

    @property
    def _ends(self) -> tuple[int, int]:
        return (0, 1) if self.grid is None else (self.grid.lowest, self.grid.highest)


@dataclass(frozen=True)
class Distinct:
    """A column's value, to be told from others."""

    column: Column

    def read(self, place: str = "") -> str:
        """The value; NaN is none, and −0.0 is 0."""
        if self.column.kind is ColumnKind.REAL:
            value = column_as(self.column, "DOUBLE")
            return f"CASE WHEN ISNAN({value}) THEN NULL ELSE {value} + 0 END"
        return name(self.column)


@dataclass(frozen=True)
class BinNumber:
    """The number of a row's bin, from 0: a point of a grid, or the place of a declared category."""

    column: Column
    grid: Grid | None = None
    categories: tuple[Any, ...] = ()
    texts: tuple[str, ...] = ()
    """The categories as text in `type`, in which they are compared."""
    type: str = "VARCHAR"

    @property
    def size(self) -> int:
        """How many bins there are."""
        return len(self.categories) if self.grid is None else self.grid.highest - self.grid.lowest + 1

    def read(self, place: str = "") -> str:
        """The number of a row's bin: on the grid, or the place of its category in the list."""
        return place if self.grid is None else f"{on_grid(self.column, self.grid)} - {self.grid.lowest}"


Reading: TypeAlias = Values | Distinct | BinNumber
