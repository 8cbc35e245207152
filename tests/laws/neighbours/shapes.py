"""The shape of what was released: everything about it but the noisy values.

Types, lengths, keys and their order, column names, dtypes, and whether numbers are finite. A number's value is noise
and is left out; that it is NaN or infinite is not noise, and stays. Of a text, numbers are left out and words stay.
What is public by construction (events, guarantees, units, descriptions) stays as it is printed. A class of this folder
may say its own shape by `__shape__`.

>>> shape_of({"a": 1, "b": [0.5, 0.25]}) == shape_of({"a": 7, "b": [0.1, 0.2]})
True
>>> shape_of(0.5) == shape_of(float("nan"))
False
>>> words("12 rows,  of them 1.5e-3 % late")
'# rows, of them # % late'
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import ModuleType
from typing import Any

import numpy as np

Shape = Any
"""A nest of tuples and texts, to be compared and printed."""

_NUMBER = re.compile(r"[-−+]?\d[\d,._]*(?:[eE][-+−]?\d+)?(?:\s?[×·]\s?10[⁻⁺⁰¹²³⁴-⁹]+)?")
_HASH = re.compile(r"(?<![\w.])(?=\d*[a-f])[0-9a-f]{16,}\b")
_SPACE = re.compile(r"[\s│┃|─━═┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┡┩╇╈╞╡╪-]+")
_PUBLIC = ("deniable.events", "deniable.guarantees", "deniable.units", "deniable.descriptions")


def words(text: str) -> str:
    """A text without its numbers and hashes, and without the lines and spaces of a table."""
    masked = _NUMBER.sub("#", _HASH.sub("#", text))
    return re.sub(r"#(?:[ ,]*#)+", "#", _SPACE.sub(" ", masked)).strip()


def shape_of(result: object) -> Shape:
    """The observable shape of any release."""
    return _shape(result, seen=())


def kind_of(result: object) -> Shape:
    """Only the type: for a release whose length and keys are noise themselves."""
    return type(result).__name__


def chain_of(error: BaseException) -> tuple[tuple[str, str], ...]:
    """Type and message of an exception and of everything it came from, notes included."""
    found, seen = [], set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        notes = "".join(f"\n{note}" for note in getattr(link, "__notes__", ()))
        found.append((type(link).__name__, f"{link}{notes}"))
        link = link.__cause__ or link.__context__
    return tuple(found)


def _shape(result: object, seen: tuple[int, ...]) -> Shape:
    if id(result) in seen:
        return "itself"
    seen = (*seen, id(result))
    kind = type(result).__name__
    if hasattr(type(result), "__shape__"):
        return type(result).__shape__(result)
    if isinstance(result, type | ModuleType) or (callable(result) and hasattr(result, "__qualname__")):
        return getattr(result, "__qualname__", kind)
    if result is None or isinstance(result, bool | np.bool_):
        return kind
    if isinstance(result, numbers.Number | Decimal):
        return kind if _finite(result) else f"{kind}, not finite"
    if isinstance(result, str):
        return kind, words(result)
    if isinstance(result, bytes | bytearray):
        return kind
    if isinstance(result, PurePath):
        return kind, result.name
    if isinstance(result, BaseException):
        return chain_of(result)
    if type(result).__module__.startswith(_PUBLIC):
        return kind, repr(result)
    return _container(result, kind, seen)


def _container(result: Any, kind: str, seen: tuple[int, ...]) -> Shape:
    if isinstance(result, np.ndarray):
        return kind, str(result.dtype), result.shape, _cells(result, seen)
    if hasattr(result, "columns") and hasattr(result, "dtypes"):  # pandas, Polars
        return kind, tuple(result.shape), tuple((str(c), str(result[c].dtype)) for c in result.columns)
    if hasattr(result, "schema") and hasattr(result, "num_rows"):  # Arrow
        return kind, result.num_rows, str(result.schema)
    if hasattr(result, "detach") and hasattr(result, "dtype"):  # a tensor
        finite = bool(result.detach().isfinite().all()) if result.numel() else True
        return kind, str(result.dtype), tuple(result.shape), "finite" if finite else "not finite"
    if hasattr(result, "state_dict"):
        return kind, _shape(dict(result.state_dict()), seen)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return kind, tuple((name, _shape(getattr(result, name), seen)) for name in result._fields)
    if isinstance(result, Mapping):
        return kind, tuple((repr(key), _shape(value, seen)) for key, value in result.items())
    if isinstance(result, list | tuple):
        return kind, len(result), _collapsed(_shape(value, seen) for value in result)
    if isinstance(result, set | frozenset):
        return kind, len(result)
    if is_dataclass(result):
        return kind, tuple((f.name, _shape(getattr(result, f.name), seen)) for f in fields(result))
    public = {name: value for name, value in vars(result).items() if not name.startswith("_")}
    return kind, tuple((name, _shape(value, seen)) for name, value in sorted(public.items()))


def _cells(array: np.ndarray[Any, Any], seen: tuple[int, ...]) -> Shape:
    if array.dtype.kind in "fc":
        return "finite" if np.isfinite(array).all() else "not finite"
    if array.dtype.kind == "O":
        return _collapsed(_shape(value, seen) for value in array.ravel().tolist())
    return ""


def _collapsed(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Neighbouring shapes that are the same, once: the length is said beside them."""
    found: list[Shape] = []
    for shape in shapes:
        if not found or found[-1] != shape:
            found.append(shape)
    return tuple(found)


def _finite(value: Any) -> bool:
    if isinstance(value, int | np.integer | Fraction):
        return True
    if isinstance(value, Decimal):
        return value.is_finite()
    if isinstance(value, complex | np.complexfloating):
        return bool(np.isfinite(value))
    return math.isfinite(value)
