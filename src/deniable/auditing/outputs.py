"""What a mechanism gave back, in a form that detectors can read: a structure, numbers, and labels.

The structure holds types, lengths, keys, and the name of an exception: what an observer sees before looking at a
value. A crash is an output. Numbers are the numeric leaves in order; labels are all leaves that are not numbers.

>>> read_output([("a", 1.5), None])
Output(structure='list[tuple[str,float],None]', numbers=array([1.5]), labels=('a',))
>>> read_output(float("nan")).structure
'float:nan'
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidArgument

_HUGE = 1e300


@dataclass(frozen=True)
class Output:
    """One output, taken apart."""

    structure: str
    numbers: NDArray[np.float64]
    labels: tuple[Hashable, ...] = ()

    @property
    def raised(self) -> str | None:
        """The name of the exception that came instead of an output."""
        return self.structure.removeprefix("raised ") if self.structure.startswith("raised ") else None

    @property
    def atom(self) -> Hashable:
        """The whole output as one key."""
        return self.structure, self.numbers.tobytes(), self.labels

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look at: None, or nothing but NaN."""
        return self.structure in ("None", "float:nan")


def crashed(error: BaseException) -> Output:
    """A crash, as an output. The message is not kept: it may hold a private value."""
    return Output(f"raised {type(error).__name__}", np.zeros(0))


def read_output(value: Any) -> Output:
    """Take an output apart."""
    found: list[NDArray[np.float64]] = []
    labels: list[Hashable] = []
    structure = _walk(value, found, labels)
    return Output(structure, np.concatenate(found) if found else np.zeros(0), tuple(labels))


def _walk(value: Any, found: list[NDArray[np.float64]], labels: list[Hashable]) -> str:
    """The structure of a value; its leaves are added to the two lists."""
    if value is None:
        return "None"
    if isinstance(value, Enum):
        labels.append(value.name)
        return type(value).__name__
    if isinstance(value, str | bytes):
        labels.append(value)
        return type(value).__name__
    if isinstance(value, bool | np.bool_ | numbers.Real | Decimal):
        return _number(value, found)
    if isinstance(value, complex | np.complexfloating):
        return "complex[" + ",".join(_number(part, found) for part in (value.real, value.imag)) + "]"
    if isinstance(value, np.ndarray):
        return _array(value, found, labels)
    if isinstance(value, Mapping):
        items = sorted(value.items(), key=lambda item: repr(item[0]))
        return "dict{" + ",".join(f"{key!r}:{_walk(item, found, labels)}" for key, item in items) + "}"
    if isinstance(value, set | frozenset):
        return "set{" + ",".join(sorted(map(repr, value))) + "}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{_run(value, found, labels)}]"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}[{_run((getattr(value, f.name) for f in fields(value)), found, labels)}]"
    return _foreign(value, found, labels)


def _foreign(value: Any, found: list[NDArray[np.float64]], labels: list[Hashable]) -> str:
    """Frames and tensors of libraries that this room does not import, by what they can do."""
    kind = type(value).__name__
    if hasattr(value, "detach"):  # a torch tensor, on any device
        value = value.detach().cpu()
    if hasattr(value, "columns") and hasattr(value, "__getitem__"):
        columns = [(str(name), np.asarray(value[name])) for name in value.columns]
        return kind + "{" + ",".join(f"{name!r}:{_array(column, found, labels)}" for name, column in columns) + "}"
    if hasattr(value, "__array__"):
        return f"{kind} {_array(np.asarray(value), found, labels)}"
    raise InvalidArgument(
        "mechanism",
        kind,
        "a function whose output is made of numbers, text, lists, dicts and arrays",
        "Wrap it in a function that returns what an observer would see.",
    )


def _number(value: Any, found: list[NDArray[np.float64]]) -> str:
    # NumPy's and Python's numbers look alike once they are written down.
    name = "bool" if isinstance(value, bool | np.bool_) else "int" if isinstance(value, numbers.Integral) else "float"
    try:
        number = float(value)
    except OverflowError:
        number = _HUGE if value > 0 else -_HUGE
    if math.isnan(number):
        found.append(np.zeros(1))
        return f"{name}:nan"
    found.append(np.array([min(max(number, -_HUGE), _HUGE)]))
    return f"{name}:inf" if math.isinf(number) else name


def _array(value: NDArray[Any], found: list[NDArray[np.float64]], labels: list[Hashable]) -> str:
    if value.dtype.kind in "biuf":
        flat = value.astype(np.float64).ravel()
        odd = "" if np.isfinite(flat).all() else f":{np.isnan(flat).sum()} nan,{np.isinf(flat).sum()} inf"
        found.append(np.clip(np.nan_to_num(flat, nan=0.0), -_HUGE, _HUGE))
        return f"{value.dtype}{value.shape}{odd}"
    if value.dtype.kind == "c":
        return f"complex{_array(np.stack([value.real, value.imag]), found, labels)}"
    return f"array{value.shape}[{_run(value.ravel().tolist(), found, labels)}]"


def _run(values: Iterable[Any], found: list[NDArray[np.float64]], labels: list[Hashable]) -> str:
    """The structures of several values, a repeated one written once."""
    parts: list[tuple[str, int]] = []
    for value in values:
        structure = _walk(value, found, labels)
        if parts and parts[-1][0] == structure:
            parts[-1] = (structure, parts[-1][1] + 1)
        else:
            parts.append((structure, 1))
    return ",".join(f"{structure} x{times}" if times > 1 else structure for structure, times in parts)
