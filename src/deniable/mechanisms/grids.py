"""From real numbers to the integers that noise is added to, with the rounding paid for.

Records are placed on a `noise.Grid` one by one. Answers that a caller computed (a number, a vector, utilities) are
rounded half up to multiples of a step. Rounding is monotone and moves a difference by less than one step:

    |round(a) − round(b)| < |a − b| + 1    in steps,

so d rounded numbers of L1 distance Δ are less than Δ + d steps apart in L1 and Δ + √d in L2. That is what is charged;
it also covers answers computed in floating point, as long as they are off by less than a step.

Steps of answers are powers of two: dividing a float by one is exact, and so is the float that is returned.

>>> round_to_step(0.3, Fraction(1, 4)), round_to_step(float("nan"), Fraction(1, 4))
(1, 0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, _values
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.noise import Grid

CELLS = 1 << 20
"""Steps of a record's grid between its bounds."""

_EXACT = float(1 << 52)
_FARTHEST = Fraction(10**290)


def power_below(value: Fraction) -> Fraction:
    """The largest power of two that is at most a positive number."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= value else power / 2


def check_power_of_two(name: str, value: Number) -> Fraction:
    """A step that the caller chose; refused unless it is a power of two."""
    step = _checks.positive(name, value)
    if power_below(step) != step:
        raise InvalidArgument(name, value, "a power of two", f"Try {name}={_checks.shown(power_below(step))}.")
    return step


def check_sensitivity(sensitivity: Number, step: Number | None, *, remedy: str) -> tuple[Fraction, Fraction]:
    """A stated sensitivity and the step of its grid: the given one, or a millionth of the sensitivity."""
    exact = _checks.positive("sensitivity", sensitivity, remedy=remedy)
    grid = step_below(exact / CELLS) if step is None else check_power_of_two("step", step)
    if grid == 1 and exact < 1:
        raise InvalidArgument("sensitivity", sensitivity, "1 or more with step=1", "Integers that differ, differ by 1.")
    return exact, grid


def sensitivity_in_steps(sensitivity: Fraction, step: Fraction) -> int:
    """How many steps apart two rounded answers can be; answers with `step=1` are integers and are not rounded."""
    return math.floor(sensitivity) if step == 1 else math.floor(sensitivity / step) + 1


def step_below(value: Fraction) -> Fraction:
    """The default step of answers: a power of two, but never 1, which means that the answers are integers."""
    step = power_below(value)
    return step / 2 if step == 1 else step


def check_scalar(value: object) -> object:
    """Refuses a container where one answer is expected."""
    shape = _shape(value)
    if shape:
        raise DataError(f"expected one number to release; got {shape}. Take the number out of it, or state dimension=.")
    return value


def _shape(value: Any) -> str:
    """Describes a container in words; empty for a single value."""
    array = isinstance(value, np.ndarray) or hasattr(type(value), "__array__")
    if array and not isinstance(value, np.generic):
        shape = tuple(getattr(value, "shape", ("?",)))
        return f"an array of shape {shape}" if shape else ""
    contains = isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray)
    return _checks.type_of(value) if contains else ""


def round_to_step(value: object, step: Fraction) -> int:
    """An answer in steps, rounded half up. What is no finite number counts as 0: an exception would reveal it."""
    return math.floor(_values.exact(value) / step + Fraction(1, 2))


def round_vector(values: object, step: Fraction, *, size: int) -> list[int]:
    """A vector of answers in steps."""
    array = _vector(values, size)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or step > _FARTHEST:
        return [round_to_step(value, step) for value in array.tolist()]
    real = array.astype(np.float64)
    with np.errstate(all="ignore"):
        scaled = real / float(step)
    plain = np.abs(scaled) < _EXACT
    whole = np.floor(scaled, where=plain, out=np.zeros_like(scaled))
    # The part above the floor is exact where it matters, so the comparison with a half is.
    with np.errstate(all="ignore"):
        whole += plain & (scaled - whole >= 0.5)
    indices = whole.astype(np.int64).tolist()
    for position in np.flatnonzero(~plain):
        indices[position] = round_to_step(float(real[position]), step)
    return indices  # type: ignore[no-any-return]


def read_integers(values: object, *, size: int) -> list[int]:
    """A vector of integers; what is no integer counts as 0."""
    return [_values.whole(value) for value in _vector(values, size).tolist()]


def list_answers(values: object) -> list[Any]:
    """A list, array or series of answers as a list; refused by its type if it is none of these."""
    array = _values.array_of(values)
    if array is None:
        return list(_values.items(values))
    if array.ndim != 1:
        raise DataError(f"expected a list of answers; got an array of {array.ndim} dimensions")
    return array.tolist()  # type: ignore[no-any-return]


def _vector(values: object, size: int) -> NDArray[Any]:
    """An array as it is; anything else as an array of objects.

    `np.asarray` of a list has one type for all: a float beside an integer of 2**53 would round the integer.
    """
    array = _values.array_of(values)
    if array is None:
        listed = list(_values.items(values)) if _shape(values) else [values]
        array = np.empty(len(listed), dtype=object)
        for position, value in enumerate(listed):  # one by one: NumPy would look into values that are lists themselves
            array[position] = value
    if array.shape != (size,):
        raise DataError(f"expected a vector of {size} numbers; got an array of shape {array.shape}")
    return array


def check_bounds(name: str, value: object) -> tuple[Fraction, Fraction]:
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


def make_grid(bounds: object, step: Number | None) -> Grid:
    """The grid of a bounded column: 2**20 steps between the bounds unless a step is given."""
    low, high = check_bounds("bounds", bounds)
    if max(abs(low), abs(high)) > _FARTHEST or high - low < 1 / _FARTHEST:
        raise InvalidArgument("bounds", bounds, "at most 1e290 in size and at least 1e-290 apart", "Change the unit.")
    if step is None:
        # Far from 0 a float itself is coarser than that.
        width = max((high - low) / CELLS, max(abs(low), abs(high)) / (1 << 51))
    else:
        width = _checks.positive("step", step)
    return Grid(low=low, high=high, step=width)


_FURTHEST = np.finfo(np.float64).max
_LARGEST = 2**63 - 1


def nearest_float(value: Fraction | int) -> float:
    """The nearest finite float. So no data can make a release infinite."""
    try:
        return float(value)
    except OverflowError:
        return float(_FURTHEST if value > 0 else -_FURTHEST)


def from_steps(steps: Fraction, step: Fraction, unit: Fraction) -> float | int:
    """Steps times their size: an int where steps are integers of size 1, else the nearest float.

    Noisy steps are multiples of `unit`. Step and unit are public and decide the type.
    """
    return int(steps) if _integers(step, unit) else nearest_float(steps * step)


def array_from_steps(steps: list[Fraction], step: Fraction, unit: Fraction) -> NDArray[Any]:
    """Like `from_steps`, for an array: int64 (clipped to its range) or float64."""
    if _integers(step, unit):
        return np.array([max(-_LARGEST, min(int(one), _LARGEST)) for one in steps], dtype=np.int64)
    return np.array([nearest_float(one * step) for one in steps], dtype=np.float64)


def _integers(step: Fraction, unit: Fraction) -> bool:
    return step == 1 and unit.denominator == 1
