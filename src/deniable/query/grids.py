"""Bounds, the grid of whole numbers on which values are added up, and what is read of every row.

A value x of a column with bounds (low, high) enters a sum as the whole number round(clamp(x) / step), clamped once
more in whole numbers where floats could leave the grid (see `place`), so a row adds an integer in [grid.lowest,
grid.highest]. The step is public. It is 1 for a column of whole numbers with whole bounds; else the smallest power of
ten that keeps the grid within a billion points and its indices exact in a float64; or the third entry of the bounds,
when given.

NULL and NaN are no values: SUM, AVG and COUNT(column) pass over them. ±inf is clamped.

>>> cost = Column("cost", ColumnKind.REAL, "DOUBLE")
>>> choose(cost, (0, 5000)).step
Fraction(1, 100000)
>>> age = Column("age", ColumnKind.INTEGER, "INTEGER")
>>> grid_index(age, choose(age, (0, 120)))
'CASE WHEN t."age" IS NULL THEN NULL ELSE CAST(LEAST(GREATEST(t."age", 0), 120) AS BIGINT) END'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from deniable import _checks
from deniable._checks import Number
from deniable._remedies import Remedy, example
from deniable.errors import DataError, InvalidArgument, QueryError
from deniable.noise import Grid
from deniable.query.expressions import named_column
from deniable.query.ranges import Range
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import Scope
from deniable.query.values import column_as, double, name

POINTS = 10**9
"""How fine a grid is when the step is not given: at most this many points between the bounds."""

BINS = 4096
"""How many bins quantiles are read off, at most."""

_EXACT = 1 << 52
_SURE = 1 << 50


def choose(column: Column, bounds: Sequence[Number]) -> Grid:
    """The grid of a column's bounds: (low, high) or (low, high, step)."""
    what = f"bounds[{column.name!r}]"
    remedy = example("bounds", {column.name: (0, 100)})
    if not isinstance(bounds, tuple | list) or len(bounds) not in (2, 3):
        raise InvalidArgument(what, bounds, "a pair (low, high), or (low, high, step)", remedy)
    low, high = (_checks.number(what, end, expected="a pair of finite numbers", remedy=remedy) for end in bounds[:2])
    if low >= high:
        remedy = Remedy("Swap the bounds.") if low > high else remedy
        raise InvalidArgument(what, tuple(bounds), "a pair (low, high) with low below high", remedy)
    step = _checks.positive(f"{what} step", bounds[2]) if len(bounds) == 3 else _step(column, low, high)
    grid = Grid(low=low, high=high, step=step)
    if grid.lowest >= grid.highest:
        raise InvalidArgument(f"{what} step", step, "smaller than the distance of the bounds")
    return grid


def declared(given: object) -> dict[str | Column, Range]:
    """What stated bounds say about columns and expressions, before it is known which table they are of."""
    if not isinstance(given, Mapping):
        return {}
    found: dict[str | Column, Range] = {}
    for key, ends in given.items():
        if isinstance(key, str | Column) and isinstance(ends, tuple | list) and len(ends) in (2, 3):
            try:
                found[key] = (_checks.exact(ends[0]), _checks.exact(ends[1]))
            except (TypeError, ValueError):
                continue  # `collect` says what is wrong with them
    return found


def collect(scope: Scope, given: Mapping[Any, Any] | str | None) -> dict[str, Grid]:
    """The grids of all declared bounds, by the SQL of the column or expression they are for."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgument(
            "bounds", given, "a mapping from column to (low, high)", example("bounds", {"cost": (0, 5000)})
        )
    grids = {}
    for key, bounds in (given or {}).items():
        column, here = _column_of(scope, key)
        if not column.kind.numeric:
            raise QueryError(f"bounds are for numbers; column {column.name} holds {column.kind.value}")
        if name(column) in grids:
            raise InvalidArgument("bounds", str(key), "given once for each column", "Two names mean this one.")
        grid = choose(column, bounds)
        if here:  # those of a column within a subquery have been read with it
            grids[name(column)] = grid
    return grids


def _column_of(scope: Scope, key: Any) -> tuple[Column, bool]:
    """The column that bounds are for, and whether it is one of the outermost query."""
    try:
        return named_column(scope, key), True
    except (DataError, QueryError):
        for inner in scope.within:
            with suppress(DataError, QueryError):
                return named_column(inner, key), False
        raise


def find(column: Column, grids: Mapping[str, Grid]) -> Grid | None:
    """The grid of a column: of its own bounds, or of those that follow from the bounds of its inputs."""
    if name(column) in grids:
        return grids[name(column)]
    if column.low is None or column.high is None:
        return None
    low, high = column.low, column.high
    if low == high:  # a constant, where there is a value at all
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    return choose(column, (low, high if low < high else low + 1))


def coarse(column: Column, grid: Grid) -> Grid:
    """The grid of a column's quantiles: at most `BINS` points, 1, 2 or 5 times a power of ten apart."""
    step = Fraction(1)
    while _points(grid, step) <= BINS:
        step /= 10
    while _points(grid, step) > BINS:
        digit = step / Fraction(10) ** _power(step)
        step *= Fraction(5, 2) if digit == 2 else 2
    return Grid(low=grid.low, high=grid.high, step=max(step, grid.step))


def grid_index(column: Column, grid: Grid) -> str:
    """SQL that gives a row's whole number on the grid, or NULL; no row can make it fail.

    LEAST and GREATEST pass over NULL, so NULL is taken out first. The cast to a whole number takes the nearest one, and
    of two the even one. Where the parts of the step are floats, an index is off by three roundings, 3·2⁻⁵³ of itself:
    up to 2⁵⁰ less than a half, so that none lies beyond the ends of the grid. Elsewhere it is clamped once more.
    """
    low, high = grid.lowest, grid.highest
    if column.kind is ColumnKind.INTEGER and grid.step == 1:
        inner = f"LEAST(GREATEST({name(column)}, {low}), {high})"
        return f"CASE WHEN {name(column)} IS NULL THEN NULL ELSE CAST({inner} AS BIGINT) END"
    value = name(column) if column.type == "DOUBLE" else f"TRY_CAST({name(column)} AS DOUBLE)"
    index = f"LEAST(GREATEST({value}, {double(float(grid.low))}), {double(float(grid.high))})"
    up, down = grid.step.denominator, grid.step.numerator
    index += f" * {double(float(up))}" if up > 1 else ""
    index += f" / {double(float(down))}" if down > 1 else ""
    whole = f"TRY_CAST({index} AS BIGINT)"
    if max(-low, high) > _SURE or max(up, down) > _EXACT:
        whole = f"LEAST(GREATEST({whole}, {low}), {high})"
    return f"CASE WHEN {value} IS NULL OR ISNAN({value}) THEN NULL ELSE {whole} END"


def wider(grid: Grid) -> Grid:
    """The grid with one more step at either end: a value that lies elsewhere on it is outside of the bounds."""
    ends = (max((grid.lowest - 1), -_EXACT), min((grid.highest + 1), _EXACT))
    return Grid(low=ends[0] * grid.step, high=ends[1] * grid.step, step=grid.step)


def presence(column: Column) -> str:
    """SQL that is 1 where a column holds a value, else NULL."""
    if column.kind is ColumnKind.REAL:
        value = name(column) if column.type == "DOUBLE" else f"TRY_CAST({name(column)} AS DOUBLE)"
        return f"CASE WHEN {value} IS NULL OR ISNAN({value}) THEN NULL ELSE 1 END"
    return f"CASE WHEN {name(column)} IS NULL THEN NULL ELSE 1 END"


def _step(column: Column, low: Fraction, high: Fraction) -> Fraction:
    furthest = max(abs(low), abs(high))
    whole = low.denominator == high.denominator == 1
    if column.kind is ColumnKind.INTEGER and whole and furthest <= _EXACT:
        return Fraction(1)
    step = Fraction(1)
    while (high - low) / step > POINTS or furthest / step > _EXACT:
        step *= 10
    while (high - low) / (step / 10) <= POINTS and furthest / (step / 10) <= _EXACT:
        step /= 10
    return step


def _points(grid: Grid, step: Fraction) -> int:
    return -(-grid.high // step) - grid.low // step + 1


def _power(step: Fraction) -> int:
    """The power of ten at or below a step of 1, 2 or 5 times one."""
    power = 0
    while step >= 10:
        step, power = step / 10, power + 1
    while step < 1:
        step, power = step * 10, power - 1
    return power


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
        whole = grid_index(self.column, self.grid)
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
        return place if self.grid is None else f"{grid_index(self.column, self.grid)} - {self.grid.lowest}"


Reading: TypeAlias = Values | Distinct | BinNumber
