"""From real numbers to the integers that noise is added to, with the rounding paid for.

Records are placed on a `noise.Grid` one by one. Answers that a caller computed (a number, a vector, utilities) are
rounded half up to multiples of a step. Rounding is monotone and moves a difference by less than one step:

    |round(a) − round(b)| < |a − b| + 1    in steps,

so d rounded numbers of L1 distance Δ are less than Δ + d steps apart in L1 and Δ + √d in L2. That is what is charged;
it also covers answers computed in floating point, as long as they are off by less than a step.

Steps of answers are powers of two: dividing a float by one is exact, and so is the float that is returned.

>>> nearest(0.3, Fraction(1, 4)), nearest(float("nan"), Fraction(1, 4))
(1, 0)
>>> root_above(Fraction(9, 4)), float(root_above(Fraction(2)) ** 2) >= 2
(Fraction(3, 2), True)
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.noise import Grid

CELLS = 1 << 20
"""Steps of a record's grid between its bounds."""

_EXACT = float(1 << 52)


def power_below(value: Fraction) -> Fraction:
    """The largest power of two that is at most a positive number."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= value else power / 2


def power_of_two(name: str, value: Number) -> Fraction:
    """A step that was asked for."""
    step = _checks.positive(name, value)
    if power_below(step) != step:
        raise InvalidArgument(name, value, "a power of two", f"Try {name}={_checks.shown(power_below(step))}.")
    return step


def root_above(value: Fraction) -> Fraction:
    """A rational number that is at least the square root, exact for squares, else within one part in 2**40."""
    product = value.numerator * value.denominator
    root = math.isqrt(product)
    if root * root == product:
        return Fraction(root, value.denominator)
    shift = max(0, 42 - product.bit_length() // 2)
    return Fraction(math.isqrt(product << (2 * shift)) + 1, value.denominator << shift)


def nearest(value: object, step: Fraction) -> int:
    """An answer in steps, rounded half up. One that is no finite number is 0: raising would tell."""
    if value is None:
        return 0
    if not isinstance(value, numbers.Real | Decimal) and not isinstance(value, np.bool_):
        raise DataError(f"expected a number to release; got a {type(value).__name__}")
    if isinstance(value, numbers.Integral | np.bool_):
        exact = Fraction(int(value))
    elif isinstance(value, Fraction):
        exact = value
    else:
        finite = value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)
        exact = Fraction(value) if finite else Fraction(0)  # type: ignore[arg-type]
    return math.floor(exact / step + Fraction(1, 2))


def nearest_all(values: object, step: Fraction, *, size: int) -> list[int]:
    """A vector of answers in steps."""
    array = _vector(values, size)
    if array.dtype.kind not in "biufO":
        raise DataError(f"expected a vector of numbers; got an array of {array.dtype}")
    if array.dtype != np.float64:
        return [nearest(value, step) for value in array.tolist()]
    with np.errstate(over="ignore"):
        scaled = array / float(step)
    plain = np.abs(scaled) < _EXACT
    whole = np.floor(scaled, where=plain, out=np.zeros_like(scaled))
    # The part above the floor is exact where it matters, so the comparison with a half is.
    whole += plain & (scaled - whole >= 0.5)
    found = whole.astype(np.int64).tolist()
    for place in np.flatnonzero(~plain):
        found[place] = nearest(float(array[place]), step)
    return found  # type: ignore[no-any-return]


def whole(value: object) -> int:
    """An answer that is an integer by type. None is 0."""
    if value is None:
        return 0
    if not isinstance(value, numbers.Integral | np.bool_):
        raise DataError(f"step=1 releases integers; got a {type(value).__name__}: leave step out for real numbers")
    return int(value)


def whole_all(values: object, *, size: int) -> list[int]:
    """A vector of integers by type."""
    array = _vector(values, size)
    if array.dtype.kind not in "biuO":
        raise DataError(f"step=1 releases integers; got an array of {array.dtype}: leave step out for real numbers")
    return [whole(value) for value in array.tolist()]


def _vector(values: object, size: int) -> NDArray[Any]:
    """An array as it is; of anything else each number by itself, whatever the others are.

    An array of a list has one type for all: a float beside an integer of 2**53 would round it.
    """
    if hasattr(values, "__array__"):
        array = np.asarray(values)
    else:
        listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else [values]
        array = np.empty(len(listed), dtype=object)
        array[:] = listed
    if array.shape != (size,):
        raise DataError(f"expected a vector of {size} numbers; got an array of shape {array.shape}")
    return array


def bounds_of(name: str, value: object) -> tuple[Fraction, Fraction]:
    """Two finite bounds, the lower one first and below the other."""
    remedy = f"For example {name}=(0, 100)."
    try:
        low, high = tuple(value)  # type: ignore[arg-type, var-annotated]
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, "a pair (low, high)", remedy) from None
    bottom = _checks.number(name, low, expected="a pair of finite numbers", remedy=remedy)
    top = _checks.number(name, high, expected="a pair of finite numbers", remedy=remedy)
    if bottom >= top:
        raise InvalidArgument(
            name, (low, high), "a pair with low below high", f"Try {name}=({high}, {low})." if top < bottom else ""
        )
    return bottom, top


def record_grid(bounds: object, step: Number | None) -> Grid:
    """The grid of a bounded column: 2**20 steps between the bounds unless a step is given."""
    low, high = bounds_of("bounds", bounds)
    if step is None:
        # Far from 0 a float itself is coarser than that.
        width = max((high - low) / CELLS, max(abs(low), abs(high)) / (1 << 51))
    else:
        width = _checks.positive("step", step)
    return Grid(low=low, high=high, step=width)


def value_of(steps: Fraction, step: Fraction) -> float | int:
    """What a number of steps stands for: an int on the grid of integers, else the nearest float."""
    found = steps * step
    if step == 1 and found.denominator == 1:
        return found.numerator
    try:
        return float(found)
    except OverflowError:
        return math.inf if found > 0 else -math.inf


def values_of(steps: list[Fraction], step: Fraction) -> NDArray[Any]:
    """What numbers of steps stand for: integers on the grid of integers, else floats."""
    if step == 1 and all(one.denominator == 1 for one in steps):
        small = all(abs(one) < 1 << 62 for one in steps)
        return np.array([one.numerator for one in steps], dtype=np.int64 if small else object)
    return np.array([value_of(one, step) for one in steps], dtype=np.float64)
