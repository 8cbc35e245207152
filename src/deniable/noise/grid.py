"""Real numbers as whole multiples of a step, so that sums and noise are exact integers.

Floating-point sums depend on their order and have gaps that depend on their size; noise added to them leaks (Mironov
2012; Casacuberta, Shoemate, Vadhan and Wagaman 2022). On a grid the data are integers before anything is added up, each
record contributes an integer between `lowest` and `highest`, and sensitivities are differences of those, exactly.

A value is clamped to [low, high] and rounded to the nearest multiple of the step. The clamp is repeated in integers
after the rounding, so the range holds whatever the rounding did. A value that is not a number becomes the point of the
range nearest to 0. Each rule reads one record at a time, so none of them changes the sensitivity.

>>> cents = Grid(low=0, high=100, step=0.01)
>>> cents.place([12.345, -3, float("inf"), float("nan")]).tolist()
[1234, 0, 10000, 0]
>>> cents.total(cents.place([0.1, 0.2])) == 30, cents.value(30)
(True, Fraction(3, 10))
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable import _values
from deniable._checks import Number, number, positive, shown
from deniable.errors import DataError, InvalidArgument

_FINEST = 1 << 52
"""Indices up to this are exact in a float64, so rounding there is to the nearest whole number."""

_EXACT = 1 << 53
_SMALLEST, _LARGEST = Fraction(1, 10**300), Fraction(10**300)
_FITS = 1 << 62


@dataclass(frozen=True, init=False, repr=False)
class Grid:
    """The multiples of `step` that cover [low, high].

    Args:
        low: the least value; smaller ones are clamped to it.
        high: the largest value; larger ones are clamped to it.
        step: the distance of two points.
    """

    low: Fraction
    high: Fraction
    step: Fraction

    def __init__(self, *, low: Number, high: Number, step: Number) -> None:
        object.__setattr__(self, "low", number("low", low))
        object.__setattr__(self, "high", number("high", high))
        object.__setattr__(self, "step", positive("step", step))
        if self.low > self.high:
            raise InvalidArgument("low", low, f"at most high={high}", "Swap the bounds.")
        if max(abs(self.lowest), abs(self.highest)) > _FINEST:
            raise InvalidArgument("step", step, "at least 2**-52 of the largest bound", "Take a coarser step.")
        if not _SMALLEST <= self.step <= _LARGEST or max(abs(self.low), abs(self.high)) > _LARGEST:
            raise InvalidArgument("step", step, "between 1e-300 and 1e300, as are the bounds", "Change the unit.")

    def __repr__(self) -> str:
        return f"Grid(low={shown(self.low)}, high={shown(self.high)}, step={shown(self.step)})"

    @property
    def lowest(self) -> int:
        """The smallest index a record can get, rounded outwards."""
        return self.low // self.step

    @property
    def highest(self) -> int:
        """The largest index a record can get, rounded outwards."""
        return -(-self.high // self.step)

    def place(self, values: ArrayLike) -> NDArray[np.int64]:
        """The index of each value on the grid. `deniable._values` reads each value by itself."""
        real = np.clip(_values.floats(_array_of_values(values)), float(self.low), float(self.high))
        home = min(max(0, self.lowest), self.highest)
        indices = np.where(np.isnan(real), home, np.rint(real / float(self.step)))
        return np.clip(indices, self.lowest, self.highest).astype(np.int64)

    def total(self, indices: NDArray[np.int64]) -> int:
        """The exact sum. The halves of 32 bits are added separately, so that nothing overflows."""
        flat = np.asarray(indices, dtype=np.int64).reshape(-1)
        sums = 0
        for start in range(0, flat.size, 1 << 30):
            part = flat[start : start + (1 << 30)]
            sums += (int((part >> 32).sum()) << 32) + int((part & 0xFFFFFFFF).sum())
        return sums

    def value(self, index: int) -> Fraction:
        """The real number that an index stands for, exactly."""
        return index * self.step

    def values(self, indices: NDArray[Any]) -> NDArray[np.float64]:
        """The nearest floats to the numbers that indices stand for, for display; rounding a release is free."""
        top, bottom = self.step.numerator, self.step.denominator
        if indices.dtype == np.int64 and bottom < _EXACT and (not indices.size or _magnitude(indices) * top < _EXACT):
            return np.asarray(indices * top / bottom)  # both exact as floats, so their quotient is the nearest float
        return np.array([float(int(i) * self.step) for i in indices.reshape(-1)]).reshape(indices.shape)


def add(values: ArrayLike, noise: NDArray[Any] | int) -> NDArray[Any]:
    """Integers plus integer noise, exactly: int64 if every sum stays below 2**62, else Python integers.

    The type of the result depends on the sums alone, never on the noise by itself, so it reveals nothing else.
    """
    one, other = np.asarray(values), np.asarray(noise)
    for part in (one, other):
        if part.dtype.kind not in "iuO":
            raise DataError(f"noise is added to whole numbers; got an array of {part.dtype}: place it on a Grid first")
    if all(part.dtype == np.int64 and (not part.size or _magnitude(part) < _FITS >> 1) for part in (one, other)):
        return np.asarray(one + other)
    sums = np.asarray(one.astype(object) + other.astype(object), dtype=object)
    small = all(-_FITS < int(s) < _FITS for s in sums.reshape(-1))
    return sums.astype(np.int64) if small else sums


def _array_of_values(values: object) -> NDArray[Any]:
    """Values as an array. The elements of a list keep their types; rows of one length make two dimensions."""
    array = _values.array_of(values)
    if array is not None:
        return array
    if isinstance(values, numbers.Number):
        return np.array(values, dtype=object)
    listed = list(_values.items(values))
    try:
        return np.array(listed, dtype=object)
    except Exception:  # noqa: BLE001  rows of different lengths, or a value whose own methods raise
        cells = np.empty(len(listed), dtype=object)
        for index, value in enumerate(listed):
            cells[index] = value
        return cells


def _magnitude(part: NDArray[np.int64]) -> int:
    return max(-int(part.min()), int(part.max()))
