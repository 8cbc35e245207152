"""Grids: range before anything else, exact sums, exact addition of noise. 1 second."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import DataError, InvalidArgument
from deniable.noise import Grid, add

bounds = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)


@given(
    low=bounds,
    high=bounds,
    step=st.fractions(min_value=Fraction(1, 10**6), max_value=10, max_denominator=10**6),
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20),
)
def test_every_value_lands_in_the_stated_range(
    low: Fraction, high: Fraction, step: Fraction, values: list[float]
) -> None:
    low, high = min(low, high), max(low, high)
    grid = Grid(low=low, high=high, step=step)
    indices = grid.place(np.array(values, dtype=np.float64))
    assert all(grid.lowest <= i <= grid.highest for i in indices.tolist())
    assert grid.value(grid.lowest) <= low
    assert grid.value(grid.highest) >= high
    for value, index in zip(values, indices.tolist(), strict=True):
        if value == value and low <= Fraction(value if abs(value) < 1e9 else 10**9) <= high:
            assert abs(grid.value(index) - Fraction(value)) <= step * Fraction(501, 1000)


def test_rules_for_odd_values() -> None:
    grid = Grid(low=-5, high=10, step=0.5)
    assert grid.place([np.nan, np.inf, -np.inf, 1e308, -0.0, 0.24, 0.26]).tolist() == [0, 20, -10, 20, 0, 0, 1]
    assert Grid(low=3, high=10, step=1).place([np.nan]).tolist() == [3]
    assert Grid(low=-9, high=-4, step=1).place([np.nan]).tolist() == [-4]
    assert grid.place([True, False]).tolist() == [2, 0]
    assert grid.place(np.array([2**63 - 1, -(2**63)])).tolist() == [20, -10]
    assert grid.place([]).tolist() == []
    assert grid.place(["a", None, "2", [1], 10**400]).tolist() == [0, 0, 4, 0, 20]
    assert grid.place(np.array(["a", "2"])).tolist() == [0, 4]
    assert grid.place(np.array([2 + 0j, 1j])).tolist() == [4, 0]
    assert grid.place([[1, 2], [3, 4]]).shape == (2, 2)


def test_the_range_holds_where_floating_point_rounds_out_of_it() -> None:
    step, top = Fraction(729, 632), 4503599627369953
    assert np.rint(float(top * step) / float(step)) == top + 1  # what the last clamp is for
    grid = Grid(low=-top * step, high=top * step, step=step)
    assert grid.place([np.inf, -np.inf]).tolist() == [top, -top] == [grid.highest, grid.lowest]


def test_sums_are_exact() -> None:
    grid = Grid(low=-(2**52), high=2**52, step=1)
    many = np.full(5000, 2**52 - 1)
    assert grid.total(many) == 5000 * (2**52 - 1) > 2**63
    assert grid.total(-many) == -5000 * (2**52 - 1)
    mixed = np.random.default_rng(1).integers(-(2**62), 2**62, 10_000)
    assert grid.total(mixed) == sum(mixed.tolist())
    assert grid.total(np.array([], dtype=np.int64)) == 0


def test_a_sum_does_not_depend_on_the_order() -> None:
    values = np.random.default_rng(2).normal(size=10_000) * 1e3
    grid = Grid(low=-5000, high=5000, step=0.001)
    assert grid.total(grid.place(values)) == grid.total(grid.place(values[::-1]))


def test_back_to_numbers() -> None:
    grid = Grid(low=0, high=1, step=0.1)
    assert grid.value(3) == Fraction(3, 10)
    assert grid.values(np.array([[3, 10**30]], dtype=object)).tolist() == [[0.3, 1e29]]
    odd = Grid(low=0, high=1, step=Fraction(3, 7000))
    for indices in (np.arange(-3000, 3000), np.array([2**52, -(2**62)]), np.array([], dtype=np.int64)):
        assert odd.values(indices).tolist() == [float(i * odd.step) for i in indices.tolist()]


def test_addition_is_exact_whatever_the_sizes() -> None:
    near = 2**63 - 1
    assert add([1, 2], np.array([5, -7])).tolist() == [6, -5]
    assert add([1, 2], np.array([5, -7])).dtype == np.int64
    assert add(np.array([near]), np.array([near])).tolist() == [2 * near]
    assert add(np.array([near]), np.array([-near])).dtype == np.int64  # the sum is small, so the type says nothing
    assert add(np.array([1]), np.array([10**40], dtype=object)).tolist() == [10**40 + 1]
    assert add(np.array([2**64 - 1], dtype=np.uint64), -1).tolist() == [2**64 - 2]
    assert add(5, 3) == 8
    assert add(10**40, 1) == 10**40 + 1
    assert add(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).shape == (0,)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="low must be at most high=1"):
        Grid(low=2, high=1, step=1)
    with pytest.raises(InvalidArgument, match="step must be at least"):
        Grid(low=0, high=2**53, step=1)
    with pytest.raises(InvalidArgument, match="step must be a positive number"):
        Grid(low=0, high=1, step=0)
    with pytest.raises(InvalidArgument, match="between 1e-300 and 1e300"):
        Grid(low=0, high=0, step=Fraction(1, 10**301))
    with pytest.raises(InvalidArgument, match="high must be a finite number"):
        Grid(low=0, high=float("inf"), step=1)
    with pytest.raises(DataError, match="expected one value per record"):
        Grid(low=0, high=1, step=1).place({"a": 1})
    with pytest.raises(DataError, match="noise is added to whole numbers"):
        add(np.array([0.5]), np.array([1]))


def test_a_grid_prints_as_code() -> None:
    grid = Grid(low=-1, high=Fraction(1, 3), step=0.25)
    assert repr(grid) == "Grid(low=-1, high=1/3, step=0.25)"
