"""Frames in memory, made ready for an engine: names checked, Python objects as text, one row at a time.

A frame is pandas', Polars' or Arrow's, known by its module, so that none of them is imported before it is used.

What a column is read as follows from its type, never from its values: one value must not decide how others are read,
or whether a table can be opened. A value that its type does not allow (a text that is not UTF-8, a decimal with too
many digits) becomes a question mark for what is broken, or no value. In the column of the ids it is no value, and other
than texts Python objects are written with a mark of their type: two ids that differ are never read as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from deniable._checks import type_of
from deniable.errors import DataError

_PLAIN = {float, bool, Decimal, date, datetime, time, timedelta, UUID, bytes}
"""Types whose values can be written down, beside texts and whole numbers."""

_REMEDIES = {
    "LazyFrame": "its collect() computes it",
    "Series": "its to_frame() makes a table of it",
    "RecordBatch": "pyarrow.Table.from_batches([...]) makes a table of it",
    "RecordBatchReader": "its read_all() makes a table of it",
    "Dataset": "its to_table() makes a table of it",
}
"""What makes a table of what is nearly one, by the type's name. Computing it is not for us: it may fail on some row."""

_LONGEST_INTEGER = 1 << 12
"""Bits of a whole number, at most; Python refuses to write down very long ones."""

_IDS: tuple[tuple[type, Callable[[Any], str | None]], ...] = (
    (bool, str),
    (int, lambda value: str(value) if value.bit_length() <= _LONGEST_INTEGER else None),
    (float, lambda value: None if value != value else repr(value + 0.0)),
    (complex, repr),
    (Decimal, lambda value: None if value.is_nan() else str(value)),
    (date, date.isoformat),
    (datetime, datetime.isoformat),
    (time, time.isoformat),
    (timedelta, lambda value: f"{value.days}d {value.seconds}s {value.microseconds}us"),
    (UUID, str),
    (bytes, bytes.hex),
    (np.longdouble, lambda value: None if value != value else repr(value)),
    (np.datetime64, lambda value: None if np.isnat(value) else str(value)),
    (np.timedelta64, lambda value: None if np.isnat(value) else str(value)),
)
"""How ids that are no texts are written, by their type: different values in different texts, which do not begin with a
space."""


@dataclass(frozen=True)
class Frame:
    """A frame that later changes of the caller's own do not reach, and what is known of its columns."""

    data: Any
    untyped: frozenset[str] = frozenset()
    """Columns of Python objects."""
    merged: Mapping[str, str] = field(default_factory=dict)
    """Columns of which two values that differ may be read as one, and why."""


def prepared(table: str, data: Any, *, unit: str | None = None) -> Frame:
    """A frame that an engine can read; `unit` is the column of the ids."""
    module = type(data).__module__.partition(".")[0]
    if module not in ("pandas", "polars", "pyarrow") or type(data).__name__ not in ("DataFrame", "Table"):
        remedy = _REMEDIES.get(type(data).__name__, "pandas.DataFrame makes a table of many things")
        raise DataError(
            f"table {table} must be a path to a CSV or Parquet file, or a pandas, Polars or Arrow table; "
            f"got {type_of(data)}; {remedy}"
        )
    names = names_of(data)
    check_names(table, names)
    ids = {name for name in names if unit is not None and name.casefold() == unit.casefold()}
    if module == "pyarrow":
        return _from_arrow(data, ids)
    return Frame(_in_utc_polars(data)) if module == "polars" else _from_pandas(data, names, ids)


def names_of(frame: Any) -> list[str]:
    """The names of a frame's columns."""
    return [str(column) for column in (frame.column_names if hasattr(frame, "column_names") else frame.columns)]


def one_column(frame: Any, name: str) -> Any:
    """A prepared frame with one of its columns."""
    return frame.select([name]) if hasattr(frame, "select") else frame[[name]]


def check_names(table: str, names: list[str]) -> None:
    """Refuse names that SQL could not tell apart."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise DataError(f"table {table} has a column without a name; name it")
        if name.casefold() in seen:
            raise DataError(f"table {table} has two columns {name}, in SQL's eyes; rename one")
        seen.add(name.casefold())


# Polars


def _in_utc_polars(frame: Any) -> Any:
    """A Polars table whose times have no zone: what is stored is UTC."""
    zoned = [column for column in frame.iter_columns() if getattr(column.dtype, "time_zone", None) is not None]
    return frame.with_columns([c.to_physical().cast(type(c.dtype)(c.dtype.time_unit)).alias(c.name) for c in zoned])


# pandas


def _from_pandas(data: Any, names: list[str], ids: set[str]) -> Frame:
    frame = data.copy(deep=False)
    frame.columns = names
    untyped: set[str] = set()
    merged: dict[str, str] = {}
    for name in names:
        column = frame[name]
        plain = _uncoded(column)
        storage = getattr(plain.dtype, "storage", "")
        if str(plain.dtype) == "object":
            write = _id_text if name in ids else _readable
            # As objects: pandas would choose a type by the values, and one person's would decide how all are written.
            plain = type(plain)([write(value) for value in plain], index=frame.index, dtype=object)
            untyped.add(name)
        elif storage == "python":
            written = [_stored_text(value, ids=name in ids) for value in plain]
            plain = type(plain)(written, index=frame.index, dtype=plain.dtype)
        elif storage == "pyarrow" or type(plain.dtype).__name__ == "ArrowDtype":
            arrow = _chunked(plain.array.__arrow_array__())
            merged |= _merged(name, arrow.type)
            if (found := _plain_arrow(name, arrow, ids=name in ids)) is not arrow:
                plain = type(plain)(_extension_array(found), index=frame.index)
        elif getattr(plain.dtype, "tz", None) is not None:
            plain = plain.dt.tz_convert(None)
        if plain is not column:
            frame[name] = plain
    return Frame(frame, frozenset(untyped), merged)


def _uncoded(column: Any) -> Any:
    """A column without categories, of their type, which has room for missing values whether there are any or not."""
    if str(column.dtype) != "category":
        return column
    type_ = column.dtype.categories.dtype
    wide = {"i": "Int64", "u": "UInt64", "b": "boolean"}.get(getattr(type_, "kind", ""), type_)
    return column.astype(wide if isinstance(type_, np.dtype) else type_)


def _extension_array(column: Any) -> Any:
    from pandas.arrays import ArrowExtensionArray

    return ArrowExtensionArray(column)


def _total(write: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """A way to write values down that gives none where an object's own code fails: whether it does is private. What an
    object says of itself may be of a type of its own, so a text is copied as a plain one."""

    def attempt(value: Any) -> str | None:
        try:
            found = write(value)
            return None if found is None else str.__str__(found)
        except Exception:  # noqa: BLE001  a record's own methods may raise anything
            return None

    return attempt


@_total
def _readable(value: Any) -> str | None:
    """A Python object as text, as the engine would write it down: texts that UTF-8 can hold, numbers, times and the
    like. Others are no value: writing them would run code of their own. The engine gets texts alone, since it would
    call every object's own `__str__` after the charge."""
    if isinstance(value, str):
        return _utf8_text(value, ids=False)
    if type(value) is int:
        return str(value) if value.bit_length() <= _LONGEST_INTEGER else None
    if isinstance(value, float | np.floating):
        return None if value != value else str(value)
    plain = type(value) in _PLAIN or (isinstance(value, np.generic) and not isinstance(value, np.void))
    if plain or type(value).__module__.partition(".")[0] == "pandas":
        return None if _is_missing(value) else _utf8_text(str(value), ids=False)
    return None


def _is_missing(value: Any) -> bool:
    """Whether a value is pandas' or NumPy's word for none."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


@_total
def _id_text(value: Any) -> str | None:
    """A Python object as an id: a text as it is, others behind a number of spaces that their type has, by which 1 and
    "1" are two ids. The spaces do not keep a number from being compared with numbers."""
    if isinstance(value, str):
        found = _utf8_text(value, ids=True)
        return found if found is None or not found.startswith(" ") else " " * (len(_IDS) + 2) + found
    if isinstance(value, np.generic) and type(value) not in (np.longdouble, np.datetime64, np.timedelta64, np.void):
        value = value.item()
    for place, (type_, write) in enumerate(_IDS, start=1):
        if type(value) is type_:
            written = write(value)
            return None if written is None else " " * place + written
    own = type(value).__module__.partition(".")[0] == "pandas" and type(value).__name__ in ("Timestamp", "Timedelta")
    return " " * (len(_IDS) + 1) + str(value) if own else None


def _utf8_text(value: str, *, ids: bool) -> str | None:
    """A text that UTF-8 can hold. Half of a surrogate pair becomes a question mark; an id that has one is no id."""
    plain = str.__str__(value)
    if plain.isascii():
        return plain
    whole = plain.encode("utf-8", "replace").decode("utf-8")
    return None if ids and whole != plain else whole


def _stored_text(value: Any, *, ids: bool) -> str | None:
    """A value of a column of texts; what is no text is missing."""
    return _utf8_text(value, ids=ids) if isinstance(value, str) else None


# Arrow


def _from_arrow(table: Any, ids: set[str]) -> Frame:
    merged: dict[str, str] = {}
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        merged |= _merged(name, column.type)
        plain = _plain_arrow(name, column, ids=name in ids)
        if plain is not column:
            table = table.set_column(place, name, plain)
    return Frame(table, merged=merged)


def _merged(name: str, type_: Any) -> dict[str, str]:
    """Why two values that differ may be read as one, as far as the engine's own type does not show it."""
    return {name: "its dates are stored in milliseconds and read in days"} if "date64" in str(type_) else {}


def _plain_arrow(name: str, column: Any, *, ids: bool) -> Any:
    """A column whose values the engine can read, whatever they are. What is refused is not a value, but a column whose
    offsets or codes point outside of its memory."""
    import pyarrow as pa

    if getattr(getattr(column.type, "value_type", None), "unit", None) is not None and _is_coded(column.type):
        column = _decoded(column)  # the engine knows no codes for times
    if getattr(column.type, "tz", None) is not None:
        # What is stored is UTC. The engine fails on times with a zone that are far away, unless in microseconds.
        return column.cast(pa.timestamp(column.type.unit))
    try:
        column.validate(full=True)
    except ValueError:
        pass
    else:
        if "map<" not in str(column.type):  # Arrow allows a key twice in one map, and the engine fails on it
            return column
    try:
        column.validate()
        kind = column.type
        if _is_coded(kind) and _is_text(kind.value_type):
            return _rebuilt(column, lambda chunk: _texts_of_codes(chunk, ids=ids), pa.large_string())
        column = _decoded(column) if _is_coded(kind) else column
        if pa.types.is_decimal(kind := column.type):
            return _rebuilt(column, _within_precision, kind)
        if _is_text(kind):
            return _rebuilt(column, lambda chunk: pa.array(_texts(chunk, ids=ids), kind), kind)
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            return _rebuilt(column, _emptied, kind)
    except (ValueError, IndexError):
        raise DataError(f"column {name} is not valid Arrow; write it again") from None
    return column  # a date or a time of day that its type does not allow, which the engine reads as another


def _is_coded(type_: Any) -> bool:
    """Whether Arrow keeps values as codes, or as runs of one value."""
    return str(type_).startswith(("dictionary<", "run_end_encoded<"))


def _decoded(column: Any) -> Any:
    """A column without codes."""
    import pyarrow as pa
    from pyarrow import compute

    def decode(chunk: Any) -> Any:
        if str(chunk.type).startswith("run_end_encoded<"):
            return compute.run_end_decode(chunk)
        ends = compute.min_max(chunk.indices)
        if ends["min"].is_valid and not 0 <= ends["min"].as_py() <= ends["max"].as_py() < len(chunk.dictionary):
            raise IndexError
        return chunk.dictionary_decode()

    found = [decode(chunk) for chunk in column.chunks]
    return pa.chunked_array(found, column.type.value_type)


def _rebuilt(column: Any, rebuild: Callable[[Any], Any], type_: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([rebuild(chunk) for chunk in column.chunks], type_)


def _is_text(type_: Any) -> bool:
    return str(type_) in ("string", "large_string", "string_view")


def _texts(chunk: Any, *, ids: bool) -> list[str | None]:
    """Texts that are UTF-8, with question marks for what is broken; an id that is broken is no id."""
    import pyarrow as pa

    binary = chunk.cast(pa.binary_view() if str(chunk.type) == "string_view" else pa.large_binary())
    binary.validate(full=True)
    return [_utf8(value, ids=ids) for value in binary.to_pylist()]


def _texts_of_codes(chunk: Any, *, ids: bool) -> Any:
    import pyarrow as pa

    known = [*_texts(chunk.dictionary, ids=ids), None]
    codes = [len(known) - 1 if code is None else code for code in chunk.indices.to_pylist()]
    if any(code < 0 for code in codes):
        raise IndexError
    return pa.array([known[code] for code in codes], pa.large_string())


def _within_precision(chunk: Any) -> Any:
    """Decimals with as many digits as their type has; no value for others."""
    import pyarrow as pa

    size, limit = chunk.type.byte_width, 10**chunk.type.precision
    raw = bytearray(memoryview(chunk.buffers()[1])[chunk.offset * size : (chunk.offset + len(chunk)) * size])
    there = chunk.is_valid().to_pylist()
    for row, at in enumerate(range(0, len(raw), size)):
        if not -limit < int.from_bytes(raw[at : at + size], "little", signed=True) < limit:
            there[row], raw[at : at + size] = False, bytes(size)
    bits = np.packbits(np.array(there, dtype=np.bool_), bitorder="little").tobytes()
    return pa.Array.from_buffers(chunk.type, len(chunk), [pa.py_buffer(bits), pa.py_buffer(bytes(raw))])


def _emptied(chunk: Any) -> Any:
    """A list or struct that is there, or is not. Nothing else is ever asked of it."""
    import pyarrow as pa

    kind = chunk.type
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(_emptied(chunk.storage))
    if pa.types.is_struct(kind):
        some: Any = {}
    elif pa.types.is_fixed_size_list(kind):
        some = [None] * kind.list_size
    else:
        some = [] if pa.types.is_nested(kind) else "null"
    return pa.array([some if there else None for there in chunk.is_valid().to_pylist()], kind)


def _utf8(value: bytes | None, *, ids: bool) -> str | None:
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None if ids else value.decode("utf-8", "replace")


def _chunked(array: Any) -> Any:
    import pyarrow as pa

    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
