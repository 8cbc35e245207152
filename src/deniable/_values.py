"""Reads private values one at a time, by rules that no value can break.

A value that made a call raise or warn, or that changed the type of its result, would reveal its record. A rule that
looked at a whole column (parse it as numbers if that works for all) would let one record change how every other is
read, and no sensitivity would bound that. The dtype of a column is such a rule: one text among numbers makes NumPy
write all of them as text. So no dtype is refused here, and a text that reads as a number is that number.

| a value that is | as a number |
|---|---|
| a number of Python, NumPy, `decimal` or `fractions` | itself, exactly |
| True, False | 1, 0 |
| a text that reads as a number ("7", "1e3", "True") | that number |
| a complex number without imaginary part, an array of no dimension | the number in it |
| ±inf, a number beyond a float | ±inf as a float |
| anything else: None, NaN, NA, a date, a list, an object | missing: NaN as a float, 0 as an exact answer |

>>> [number(value) for value in (1, None, "7", "seven", 10**400, True, 3 + 0j)]
[1.0, nan, 7.0, nan, inf, 1.0, 3.0]
>>> exact(0.5), exact(float("nan")), whole(3.0), whole(3.5)
(Fraction(1, 2), 0, 3, 0)
"""

from __future__ import annotations

import math
import numbers as kinds
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import DataError

_WORDS = {"True": 1, "False": 0, "true": 1, "false": 0}
_DIGITS = 400
"""A decimal with more places than this, before or after the point, is beyond a float."""


def number(value: object) -> float:
    """A value as a float: NaN if it is no number, ±inf if it is beyond a float."""
    plain = _plain(value)
    try:
        return float(plain)
    except OverflowError:
        return math.inf if plain > 0 else -math.inf


def exact(value: object) -> int | Fraction:
    """A value as an exact number; 0 if it is no finite number."""
    plain = _plain(value)
    if isinstance(plain, float):
        return Fraction(plain) if math.isfinite(plain) else 0
    return plain


def whole(value: object) -> int:
    """A value as an integer; 0 if it is no whole number."""
    fraction = exact(value)
    return fraction.numerator if fraction.denominator == 1 else 0


def floats(array: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers of an array of any dtype, each as `number` reads it."""
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # a wider float that is too large becomes ±inf
            return np.asarray(array, dtype=np.float64)
    if array.dtype.kind == "c":
        with np.errstate(all="ignore"):
            return np.where(array.imag == 0, array.real, np.nan).astype(np.float64)
    if array.dtype.kind in "mM":
        return np.full(array.shape, np.nan)
    return np.array([number(value) for value in array.reshape(-1).tolist()], dtype=np.float64).reshape(array.shape)


def array_of(values: object) -> NDArray[Any] | None:
    """An array, or an object that converts to one, as an array; None for anything else. Masked values become None."""
    if isinstance(values, np.ma.MaskedArray):
        hidden, cells = np.ma.getmaskarray(values), values.data.astype(object)
        cells[hidden] = None
        return cells
    if isinstance(values, np.ndarray):
        return values
    if not hasattr(values, "__array__"):
        return None
    try:
        return np.asarray(values)
    except Exception:  # noqa: BLE001  libraries raise what they like here: a tensor on a device, one with gradients
        raise DataError(f"no array can be made of this {type(values).__name__}: convert it with NumPy first") from None


def items(values: object) -> Iterable[Any]:
    """The values of a list or a generator. Other types, such as text and mappings, are refused by their type."""
    if isinstance(values, str | bytes | bytearray | Mapping) or not isinstance(values, Iterable):
        raise DataError(f"expected one value per record; got a {type(values).__name__}: give a list or an array")
    return values


def _plain(value: object) -> int | float | Fraction:
    """A number as one of Python's own, without loss; NaN for what is no number."""
    if type(value) is float or type(value) is int:
        return value
    try:
        return _read(value)
    except Exception:  # noqa: BLE001  a record's own methods may raise anything, and whether they do is private
        return math.nan


def _read(value: Any) -> int | float | Fraction:
    if isinstance(value, str | bytes | bytearray):
        text = value if isinstance(value, str) else value.decode("ascii")
        return _WORDS[text] if text in _WORDS else float(text)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return math.nan
    if isinstance(value, kinds.Integral | np.bool_):
        return int(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, kinds.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, np.longdouble) and np.isfinite(value):
        return Fraction(*value.as_integer_ratio())  # wider than a float, so kept as it is
    if isinstance(value, kinds.Real):
        return float(value)
    if isinstance(value, kinds.Complex):
        return _read(value.real) if value.imag == 0 else math.nan
    if getattr(value, "shape", None) == () and not isinstance(value, np.generic):
        return _read(value.item())
    return math.nan


def _decimal(value: Decimal) -> float | Fraction:
    """A decimal exactly, but never a power of ten that memory would not hold."""
    if not value.is_finite() or not value:
        return math.nan if value.is_nan() else float(value)
    if abs(value.adjusted()) > _DIGITS:
        return 0.0 if value.adjusted() < 0 else math.copysign(math.inf, value)
    return Fraction(value)
