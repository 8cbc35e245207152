"""Frames in memory, made ready for an engine: names checked, Python objects as text, one row at a time.

A frame is pandas', Polars' or Arrow's, known by its module, so that none of them is imported here.
"""

from __future__ import annotations

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


def prepared(table: str, data: Any) -> tuple[Any, frozenset[str]]:
    """A frame that later changes of the caller's own do not reach, and its columns of Python objects."""
    module = type(data).__module__.partition(".")[0]
    if module not in ("pandas", "polars", "pyarrow") or type(data).__name__ not in ("DataFrame", "Table"):
        remedy = _REMEDIES.get(type(data).__name__, "pandas.DataFrame makes a table of many things")
        raise DataError(
            f"table {table} must be a path to a CSV or Parquet file, or a pandas, Polars or Arrow table; "
            f"got {type_of(data)}; {remedy}"
        )
    names = names_of(data)
    check_names(table, names)
    if module == "pyarrow":
        return _in_utc_arrow(_with_readable_texts(data)), frozenset()
    if module == "polars":
        return _in_utc_polars(data), frozenset()
    frame = data.copy(deep=False)
    frame.columns = names
    for name in names:
        plain = _in_utc_pandas(column := frame[name])
        if plain is not column:
            frame[name] = plain
    types = dict(zip(names, frame.dtypes, strict=True))
    for name, type_ in types.items():
        if str(type_) == "object" or getattr(type_, "storage", None) == "python":
            # As objects: pandas would choose a type by the values, and one person's would decide how all are written.
            held = [_readable(value) for value in frame[name]]
            frame[name] = type(frame[name])(held, index=frame.index, dtype=type_)
        elif getattr(type_, "storage", None) == "pyarrow" or type(type_).__name__ == "ArrowDtype":
            texts = _repaired(name, frame[name].array.__arrow_array__())
            if texts is not None:
                frame[name] = type(frame[name])(texts, index=frame.index, dtype=type_)
    return frame, frozenset(name for name, type_ in types.items() if str(type_) == "object")


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


def _in_utc_arrow(table: Any) -> Any:
    """An Arrow table whose times have no zone: what is stored is UTC. The engine fails to read times with a zone that
    are far from our days, in other units than microseconds."""
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if _is_coded_time(column.type):
            column = column.cast(column.type.value_type)
        if getattr(column.type, "tz", None) is not None:
            table = table.set_column(place, name, column.cast(f"timestamp[{column.type.unit}]"))
    return table


def _in_utc_pandas(column: Any) -> Any:
    """The same of a column of pandas."""
    type_ = column.dtype
    arrow = getattr(type_, "pyarrow_dtype", type_)
    if _is_coded_time(arrow):
        return _in_utc_pandas(column.astype(type(type_)(arrow.value_type)))
    return column if getattr(arrow, "tz", None) is None else column.dt.tz_convert(None)


def _is_coded_time(type_: Any) -> bool:
    """Whether Arrow keeps times as places in a dictionary."""
    return str(type_).startswith("dictionary<values=timestamp")


def _in_utc_polars(frame: Any) -> Any:
    """The same of a Polars table."""
    zoned = [column for column in frame.iter_columns() if getattr(column.dtype, "time_zone", None) is not None]
    return frame.with_columns([c.to_physical().cast(type(c.dtype)(c.dtype.time_unit)).alias(c.name) for c in zoned])


def _with_readable_texts(table: Any) -> Any:
    """An Arrow table whose texts are UTF-8."""
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        texts = _repaired(name, column)
        if texts is not None:
            readable = type(table).from_pydict({"texts": texts}).column(0).cast(column.type)
            table = table.set_column(place, name, readable)
    return table


def _repaired(name: str, column: Any) -> list[str | None] | None:
    """The texts of an Arrow column where they are not UTF-8, which Arrow itself does not make sure of, and the engine
    relies on; with question marks in place of what is wrong."""
    try:
        column.validate(full=True)
    except ValueError:
        if str(column.type) not in ("string", "large_string"):
            raise DataError(f"column {name} is not valid Arrow; write it again") from None
        raw = column.cast("large_binary").to_pylist()
        return [None if value is None else value.decode("utf-8", "replace") for value in raw]
    return None


def _readable(value: Any) -> Any:
    """A Python object as the engine can write it down: texts that UTF-8 can hold, with a question mark for half of a
    surrogate pair; numbers, times and the like. Others are no value: writing them would run code of their own, which
    may fail."""
    if isinstance(value, str):
        return value if str.isascii(value) else str.encode(value, "utf-8", "replace").decode("utf-8")
    if type(value) is int:
        return value if value.bit_length() <= _LONGEST_INTEGER else None
    plain = type(value) in _PLAIN or (isinstance(value, np.generic) and not isinstance(value, np.void))
    return value if plain or type(value).__module__.partition(".")[0] == "pandas" else None
