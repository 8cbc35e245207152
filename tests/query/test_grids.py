"""The grid of a sum in SQL: whatever a row holds, it gets a whole number between the ends of the grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deniable.noise import Grid
from deniable.query.grids import grid_index
from deniable.query.schema import Column, ColumnKind

X = Column("x", ColumnKind.REAL, "DOUBLE")
CONNECTION = duckdb.connect()
parts = st.integers(1, 1 << 54) | st.sampled_from([1, 3, 7, 10, 10**9, 1 << 53, (1 << 53) + 1])


@example(first=0, size=4299594240614639, off=Fraction(0), up=100_000, down=1, values=[])  # floats go beyond the end
@example(first=-3027202047037949, size=9, off=Fraction(0), up=7, down=3, values=[])
@settings(max_examples=100, deadline=None)
@given(
    first=st.integers(-(1 << 52), 1 << 52),
    size=st.integers(1, 1 << 52) | st.integers(1, 9),
    off=st.fractions(0, 1),
    up=parts,
    down=parts,
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
)
def test_every_value_lands_on_the_grid(
    first: int, size: int, off: Fraction, up: int, down: int, values: list[float]
) -> None:
    """Bounds on the grid and off it, steps that are floats and others; values at the ends and next to them."""
    step = Fraction(down, up)
    last = min(first + size, 1 << 52)
    low, high = first * step, max(first, last - off) * step
    if low >= high:
        return
    grid, ends = Grid(low=low, high=high, step=step), [float(low), float(high), float((low + high) / 2)]
    near = [math.nextafter(end, away) for end in ends for away in (math.inf, -math.inf)]
    finite = [*ends, *near, *values, 0.0, -0.0, 1e308, -1e308, 5e-324]
    found = placed([*finite, math.inf, -math.inf, math.nan, None], grid)
    assert all(grid.lowest <= whole <= grid.highest for whole in found[:-2])
    assert found[-2:] == [None, None]
    for value, whole in zip(finite, found, strict=False):
        index = min(max(Fraction(value), low), high) / step
        assert abs(whole - index) <= Fraction(1, 2) + abs(index) * Fraction(4, 1 << 53)


def placed(values: list[float | None], grid: Grid) -> list[Any]:
    CONNECTION.register("t", pa.table({"x": pa.array(values, type=pa.float64())}))
    return [row[0] for row in CONNECTION.execute(f"SELECT {grid_index(X, grid)} FROM t").fetchall()]
