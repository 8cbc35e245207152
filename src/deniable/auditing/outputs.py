"""What a run showed, in one canonical form: two outputs have equal encodings if and only if nobody can tell them apart.

An encoding is a tree of leaves (None, bool, int, float, text, bytes) and named nodes, written as bytes. The order of
dict keys and of rows counts, and so do types, dtypes, shapes, index and column labels; the order of a set does not, nor
which NaN it is, nor whether a 64-bit number is NumPy's or Python's. `decode` reads an encoding back; what is not made
of Python's own types comes back as a `Node`, which encodes to the same bytes.

For detectors the tree is also taken apart: a *structure* (types, lengths, keys, dtypes), the *numbers* in order, those
in texts included, and *labels*, which are texts with their numbers cut out.

>>> found = read_output([("a", 1.5), None])
>>> found.structure, found.numbers.tolist(), found.labels
('list[tuple[str,float],None]', [1.5], ('a',))
>>> decode(found.encoding)
[('a', 1.5), None]
>>> read_output({"a": 1, "b": 2}).atom == read_output({"b": 2, "a": 1}).atom
False
"""

from __future__ import annotations

import datetime
import hashlib
import math
import numbers
import re
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidArgument

_HUGE = 1e300
_EXACT = 1 << 53
"""Whole numbers below this are floats without loss; of larger ones the low word is a second number."""

_WORD = (1 << 32) - 1
_DEEPEST = 60
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_BYTES = 32
"""Of bytes the first few are also read as numbers."""


@dataclass(frozen=True)
class Node:
    """A named part of an encoding that is none of Python's own types."""

    name: str
    parts: tuple[Any, ...]


class Word(str):
    """A name from a library, such as a dtype: part of the structure, and no label."""


@dataclass(frozen=True)
class Output:
    """One output, taken apart."""

    structure: str
    numbers: NDArray[np.float64]
    labels: tuple[Hashable, ...] = ()
    encoding: bytes = field(default=b"", repr=False)

    @property
    def raised(self) -> str | None:
        """The name of the exception that came instead of an output."""
        name = self.structure.partition(";")[0]
        return name.removeprefix("raised ") if name.startswith("raised ") else None

    @cached_property
    def atom(self) -> Hashable:
        """The whole output as one key."""
        if not self.encoding:  # made by hand
            return self.structure, self.numbers.tobytes(), self.labels
        return self.encoding if len(self.encoding) <= 64 else hashlib.blake2b(self.encoding).digest()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look at: None, or nothing but NaN."""
        return self.structure in ("None", "float:nan")


def read_output(value: Any, **beside: Any) -> Output:
    """Encode an output, with what was seen beside it: warnings, printed text, files."""
    reader = _Reader()
    structure = reader.read(value)
    for name, seen in beside.items():
        if seen:
            structure += f";{name} {reader.read(seen)}"
    found = np.concatenate(reader.numbers) if reader.numbers else np.zeros(0)
    return Output(structure, found, tuple(reader.labels), b"".join(reader.parts))


def crashed(error: BaseException, **beside: Any) -> Output:
    """A crash, as an output. Its text is seen by detectors, and stays out of every report: it may be private."""
    return read_output(_Crash(type(error).__name__, str(error)), **beside)


@dataclass(frozen=True)
class _Crash:
    name: str
    text: str


class _Reader:
    """One pass over a value: its encoding, numbers and labels; `read` gives the structure."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.numbers: list[NDArray[np.float64]] = []
        self.labels: list[Hashable] = []
        self._open: dict[int, int] = {}

    def read(self, value: Any) -> str:
        """The structure of a value; the rest is kept."""
        if value is None:
            self.parts.append(b"0")
            return "None"
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is Node:
            return self._node(value.name, value.parts)
        if kind is Word:
            self._leaf(b"s", value.encode(errors="surrogatepass"))
            return str(value)
        if isinstance(value, Enum):
            return self._node(f"{kind.__qualname__}.{value.name}", ())
        if isinstance(value, bool | np.bool_ | numbers.Real | Decimal):
            return self._number(value)
        if isinstance(value, _Crash):
            self._head("raised", 2)
            self._leaf(b"s", value.name.encode())
            return f"raised {value.name};{self._text(value.text)}"
        if id(value) in self._open or len(self._open) > _DEEPEST:
            return self._node("loop", (self._open.get(id(value), -1),))
        self._open[id(value)] = len(self._open)
        try:
            return self._compound(value, kind)
        finally:
            del self._open[id(value)]

    def _compound(self, value: Any, kind: type) -> str:
        if isinstance(value, str):
            return self._node(kind.__qualname__, (str(value),))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value), kind.__name__)
        if isinstance(value, complex | np.complexfloating):
            return self._node(_name(value), (value.real, value.imag))
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return self._array(np.asarray(value))
        if kind is dict:
            return self._mapping("dict", value)
        if isinstance(value, Mapping):
            return self._mapping(kind.__qualname__, value)
        if isinstance(value, set | frozenset):
            return self._set(value, kind.__name__)
        if kind in (list, tuple):
            return self._sequence(kind.__name__, value)
        if isinstance(value, list | tuple):
            names = getattr(value, "_fields", ())
            return self._sequence(f"{kind.__qualname__}({','.join(names)})", value)
        if isinstance(value, range):
            return self._node("range", (value.start, value.stop, value.step))
        if isinstance(value, datetime.date | datetime.time | datetime.timedelta | datetime.tzinfo):
            return self._date(value)
        if is_dataclass(value) and not isinstance(value, type):
            return self._mapping(kind.__qualname__, {f.name: getattr(value, f.name) for f in fields(value)})
        return self._foreign(value, kind)

    # Leaves.
    def _leaf(self, tag: bytes, payload: bytes) -> None:
        self.parts.append(b"%c%d:%b" % (tag, len(payload), payload))

    def _head(self, name: str, count: int) -> None:
        self._leaf(b"n", name.encode(errors="surrogatepass"))
        self.parts.append(b"%d," % count)

    def _text(self, text: str) -> str:
        self._leaf(b"s", text.encode(errors="surrogatepass"))
        found = _NUMBER.findall(text)
        if not found:
            self.labels.append(text)
            return "str"
        self.labels.append(_NUMBER.sub("#", text))
        self.numbers.append(np.clip(np.array([float(each) for each in found]), -_HUGE, _HUGE))
        return f"str#{len(found)}"

    def _bytes(self, value: bytes, name: str) -> str:
        if name == "bytes":
            self._leaf(b"b", value)
        else:
            self._head(name, 1)
            self._leaf(b"b", value)
        self.labels.append(value)
        self.numbers.append(np.frombuffer(value[:_BYTES], dtype=np.uint8).astype(np.float64))
        return f"{name}({len(value)})"

    def _number(self, value: Any) -> str:
        # NumPy's and Python's numbers look alike once they are written down.
        if isinstance(value, bool | np.bool_):
            self._leaf(b"t", b"1" if value else b"0")
            self.numbers.append(np.array([float(value)]))
            return "bool"
        if isinstance(value, numbers.Integral):
            return self._whole(int(value), _name(value))
        name = _name(value)
        number = self._float(value, name)
        if math.isnan(number):
            self.numbers.append(np.zeros(1))
            return f"{name}:nan"
        self.numbers.append(np.array([min(max(number, -_HUGE), _HUGE)]))
        return f"{name}:inf" if math.isinf(number) else name

    def _whole(self, value: int, name: str) -> str:
        if name != "int":
            self._head(name, 1)
        self._leaf(b"i", b"%d" % value if abs(value) < 10**4000 else hex(value).encode())
        if abs(value) < _EXACT:
            self.numbers.append(np.array([float(value)]))
            return name
        large = float(value) if value.bit_length() < 990 else _HUGE if value > 0 else -_HUGE
        self.numbers.append(np.array([large, float(value & _WORD)]))
        return f"{name}:large"

    def _float(self, value: Any, name: str) -> float:
        """The number, encoded exactly."""
        if name == "float":
            number = float(value)
            self._leaf(b"f", struct.pack(">d", math.nan if math.isnan(number) else number))
            return number
        self._head(name, 1)
        exact = f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else str(value)
        self._leaf(b"s", exact.encode())
        try:
            return float(value)
        except OverflowError:
            return _HUGE if value > 0 else -_HUGE

    # Nodes.
    def _node(self, name: str, parts: Iterable[Any]) -> str:
        given = tuple(parts)
        self._head(name, len(given))
        return f"{name}[{self._run(given)}]" if given else name

    def _sequence(self, name: str, values: Any) -> str:
        self._head(name, len(values))
        return f"{name}[{self._run(values)}]"

    def _mapping(self, name: str, value: Mapping[Any, Any]) -> str:
        """Keys are part of the structure, in their order."""
        self._head(name, 2 * len(value))
        shown = []
        for key, item in value.items():
            counts = len(self.numbers), len(self.labels)
            self.read(key)
            del self.numbers[counts[0] :], self.labels[counts[1] :]
            shown.append(f"{key!r}:{self.read(item)}")
        return f"{name}{{{','.join(shown)}}}"

    def _set(self, value: Any, name: str) -> str:
        """A set has no order: its members are sorted by what they are."""
        members = sorted((read_output(member) for member in value), key=lambda member: member.encoding)
        self._head(name, len(members))
        for member in members:
            self.parts.append(member.encoding)
            self.numbers.append(member.numbers)
            self.labels += member.labels
        return f"{name}{{{','.join(member.structure for member in members)}}}"

    def _array(self, value: NDArray[Any]) -> str:
        shape = f"{value.shape}"
        if value.dtype.kind == "O":
            self._head(f"array{shape}", value.size)
            return f"array{shape}[{self._run(value.ravel().tolist())}]"
        if value.dtype.kind in "SU" or value.dtype.names is not None:
            self._head(f"array {value.dtype}{shape}", value.size)
            return f"array {value.dtype}{shape}[{self._run(value.ravel().tolist())}]"
        flat = np.ascontiguousarray(value).ravel()
        if value.dtype.kind in "fc" and flat.size and np.isnan(flat).any():
            flat = np.where(np.isnan(flat), flat.dtype.type(np.nan), flat)  # which NaN it is nobody sees
        self._head(f"array {value.dtype}{shape}", 1)
        self._leaf(b"b", flat.tobytes())
        if value.dtype.kind == "V":
            return f"array {value.dtype}{shape}"
        if value.dtype.kind == "c":
            flat = np.stack([flat.real, flat.imag]).ravel()
        return f"{value.dtype}{shape}{self._flat(flat)}"

    def _flat(self, flat: NDArray[Any]) -> str:
        """Numbers of an array; what is odd about them is said beside the shape."""
        if flat.dtype.kind in "Mm":
            flat = flat.view(np.int64)
        floats = flat.astype(np.float64)
        odd = "" if np.isfinite(floats).all() else f":{np.isnan(floats).sum()} nan,{np.isinf(floats).sum()} inf"
        self.numbers.append(np.clip(np.nan_to_num(floats, nan=0.0), -_HUGE, _HUGE))
        if flat.dtype.kind in "iu" and flat.size and np.abs(floats).max() >= _EXACT:
            self.numbers.append((flat & flat.dtype.type(_WORD)).astype(np.float64))
            odd += ":large"
        return odd

    def _date(self, value: Any) -> str:
        name = type(value).__name__
        if isinstance(value, datetime.tzinfo):
            return self._node(f"tz {value}", ())
        self._head(name, 1)
        self._leaf(b"s", repr(value).encode())
        self.numbers.append(_microseconds(value))
        zone = getattr(value, "tzinfo", None)
        return name if zone is None else f"{name} {zone}"

    def _foreign(self, value: Any, kind: type) -> str:
        """Frames, tensors and objects of libraries that this room does not import, by what they can do."""
        name = f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
        parts = _parts(value)
        if parts is None:
            raise InvalidArgument(
                "mechanism",
                kind.__name__,
                "a function whose output is made of numbers, text, lists, dicts, arrays and tables",
                "Wrap it in a function that returns what an observer would see.",
            )
        return self._mapping(name, parts)

    def _run(self, values: Iterable[Any]) -> str:
        """The structures of several values, a repeated one written once."""
        parts: list[tuple[str, int]] = []
        for value in values:
            structure = self.read(value)
            if parts and parts[-1][0] == structure:
                parts[-1] = (structure, parts[-1][1] + 1)
            else:
                parts.append((structure, 1))
        return ",".join(f"{structure} x{times}" if times > 1 else structure for structure, times in parts)


def _name(value: Any) -> str:
    """The type of a number; Python's and NumPy's 64-bit ones are the same."""
    kind = type(value)
    if kind in (int, float, complex):
        return kind.__name__
    if isinstance(value, np.generic):
        return {"int64": "int", "float64": "float", "complex128": "complex"}.get(value.dtype.name, value.dtype.name)
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return f"Decimal({exponent})"
    return kind.__qualname__


def _microseconds(value: Any) -> NDArray[np.float64]:
    if isinstance(value, datetime.timedelta):
        return np.array([value / datetime.timedelta(microseconds=1)])
    if isinstance(value, datetime.datetime):
        since = value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)
        return np.array([since / datetime.timedelta(microseconds=1)])
    if isinstance(value, datetime.date):
        return np.array([float(value.toordinal())])
    return np.array([((value.hour * 60 + value.minute) * 60 + value.second) * 1e6 + value.microsecond])


def _parts(value: Any) -> dict[Any, Any] | None:
    """What an observer sees of a foreign object; None where nothing is known of it."""
    module = type(value).__module__.partition(".")[0]
    reading = _LIBRARIES.get(module)
    found = reading(value) if reading is not None else None
    if found is not None:
        return found
    if hasattr(value, "detach"):  # a tensor of a library like torch
        value = value.detach().cpu()
    if hasattr(value, "columns") and hasattr(value, "__getitem__"):
        return {str(name): np.asarray(value[name]) for name in value.columns}
    if hasattr(value, "__array__"):
        return {"array": np.asarray(value)}
    if callable(value) or isinstance(value, type) or hasattr(value, "__next__"):
        return None
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    attributes = {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}
    return attributes or None


def _torch_parts(value: Any) -> dict[Any, Any] | None:
    if hasattr(value, "state_dict") and not hasattr(value, "detach"):
        return {"state": dict(value.state_dict())}
    if not hasattr(value, "detach"):
        return {"text": str(value)} if type(value).__name__ in ("dtype", "device", "Size") else None
    tensor = value.detach().cpu()
    kind = {name: Word(getattr(value, name)) for name in ("dtype", "layout", "requires_grad")}
    if tensor.layout is not sys_torch().strided:
        tensor = tensor.to_sparse_coo().coalesce()
        return {**kind, "shape": tuple(tensor.shape), "indices": tensor.indices(), "values": tensor.values()}
    if not tensor.is_floating_point() or str(tensor.dtype) in ("torch.float64", "torch.float32", "torch.float16"):
        return {**kind, "values": tensor.resolve_conj().resolve_neg().numpy()}
    return {**kind, "values": tensor.float().numpy()}  # bfloat16 and smaller fit into float32


def sys_torch() -> Any:
    """torch, which whoever holds a tensor has loaded."""
    import sys

    return sys.modules["torch"]


def _pandas_parts(value: Any) -> dict[Any, Any] | None:
    kind = type(value).__name__
    if hasattr(value, "columns"):
        columns = [_column(value.iloc[:, place]) for place in range(value.shape[1])]
        labels = {"columns": value.columns, "index": value.index, "attrs": dict(value.attrs)}
        return {**labels, "values": columns}
    if kind == "Series":
        return {"name": value.name, "index": value.index, "values": _column(value)}
    if kind == "RangeIndex":
        return {"name": value.name, "range": (value.start, value.stop, value.step)}
    if hasattr(value, "nlevels"):
        return {"names": list(value.names), "values": _column(value)}
    if hasattr(value, "isoformat"):
        return {"text": value.isoformat(), "value": getattr(value, "value", 0)}
    return {"text": str(value)} if kind in ("NAType", "NaTType", "Period", "Interval") else None


def _column(column: Any) -> Any:
    """A pandas column: its dtype, and values as an array or a list."""
    kind = Word(column.dtype)
    if kind == "category":
        return [kind, list(column.array.categories), bool(column.array.ordered), np.asarray(column.array.codes)]
    values = np.asarray(column)
    return [kind, values] if values.dtype.kind in "biufcMm" else [kind, list(column)]


def _polars_parts(value: Any) -> dict[Any, Any] | None:
    if hasattr(value, "collect"):
        value = value.collect()
    if hasattr(value, "columns"):
        return {name: _polars_parts(value[name]) for name in value.columns}
    if hasattr(value, "to_list"):
        plain = value.dtype.is_numeric() and value.null_count() == 0
        return {
            "name": value.name,
            "dtype": Word(value.dtype),
            "values": value.to_numpy() if plain else value.to_list(),
        }
    return {"text": str(value)}


def _arrow_parts(value: Any) -> dict[Any, Any] | None:
    if hasattr(value, "column_names"):
        schema = value.schema.to_string(show_schema_metadata=True)
        return {"schema": schema, "columns": [value.column(place) for place in range(value.num_columns)]}
    if hasattr(value, "to_pylist"):
        return {"type": Word(value.type), "values": value.to_pylist()}
    if hasattr(value, "as_py"):
        return {"type": Word(value.type), "value": value.as_py()}
    return {"text": str(value)}


def _scipy_parts(value: Any) -> dict[Any, Any] | None:
    if not hasattr(value, "tocoo"):
        return None
    spread = value.tocoo()
    return {
        "format": Word(value.format),
        "shape": value.shape,
        "row": spread.row,
        "column": spread.col,
        "data": spread.data,
    }


_LIBRARIES: dict[str, Callable[[Any], dict[Any, Any] | None]] = {
    "torch": _torch_parts,
    "pandas": _pandas_parts,
    "polars": _polars_parts,
    "pyarrow": _arrow_parts,
    "scipy": _scipy_parts,
}


def decode(encoding: bytes) -> Any:
    """The value behind an encoding; what is none of Python's own types is a `Node`."""
    value, end = _decode(encoding, 0)
    if end != len(encoding):
        raise InvalidArgument("encoding", "…", "what `read_output` wrote")
    return value


def _decode(encoding: bytes, at: int) -> tuple[Any, int]:
    tag = encoding[at : at + 1]
    if tag == b"0":
        return None, at + 1
    colon = encoding.index(b":", at)
    end = colon + 1 + int(encoding[at + 1 : colon])
    payload = encoding[colon + 1 : end]
    if tag != b"n":
        return _LEAVES[tag](payload), end
    comma = encoding.index(b",", end)
    count, end = int(encoding[end:comma]), comma + 1
    parts = []
    for _ in range(count):
        part, end = _decode(encoding, end)
        parts.append(part)
    name = payload.decode(errors="surrogatepass")
    made = _NODES.get(name)
    return (made(parts) if made is not None else Node(name, tuple(parts))), end


_LEAVES: dict[bytes, Any] = {
    b"t": lambda payload: payload == b"1",
    b"i": lambda payload: int(payload, 16) if b"x" in payload else int(payload),
    b"f": lambda payload: struct.unpack(">d", payload)[0],
    b"s": lambda payload: payload.decode(errors="surrogatepass"),
    b"b": bytes,
}
_NODES: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "dict": lambda parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "set": set,
    "frozenset": frozenset,
}
