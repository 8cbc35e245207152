"""Frames in memory, made ready for an engine: names checked, Python objects as text, one row at a time.

A frame is pandas', Polars' or Arrow's, known by its module, so that none of them is imported here.
"""

from __future__ import annotations

from typing import Any

from deniable.errors import DataError


def prepared(table: str, data: Any) -> tuple[Any, frozenset[str]]:
    """A frame that later changes of the caller's own do not reach, and its columns of Python objects."""
    module = type(data).__module__.partition(".")[0]
    if module not in ("pandas", "polars", "pyarrow") or type(data).__name__ not in ("DataFrame", "Table"):
        raise DataError(
            f"table {table} must be a path to a CSV or Parquet file, or a pandas, Polars or Arrow table; "
            f"got a {type(data).__name__}"
        )
    names = [str(column) for column in (data.column_names if module == "pyarrow" else data.columns)]
    check_names(table, names)
    if module == "pyarrow":
        return _with_readable_texts(data), frozenset()
    if module == "polars":
        return data, frozenset()
    frame = data.copy(deep=False)
    frame.columns = names
    types = dict(zip(names, frame.dtypes, strict=True))
    for name, type_ in types.items():
        if str(type_) == "object" or getattr(type_, "storage", None) == "python":
            frame[name] = frame[name].map(_readable)
    return frame, frozenset(name for name, type_ in types.items() if str(type_) == "object")


def check_names(table: str, names: list[str]) -> None:
    """Refuse names that SQL could not tell apart."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise DataError(f"table {table} has a column without a name; name it")
        if name.casefold() in seen:
            raise DataError(f"table {table} has two columns {name}, in SQL's eyes; rename one")
        seen.add(name.casefold())


def _with_readable_texts(table: Any) -> Any:
    """An Arrow table whose texts are UTF-8, which Arrow itself does not make sure of, and the engine relies on."""
    for place, column in enumerate(table.columns):
        try:
            column.validate(full=True)
        except ValueError:
            if str(column.type) not in ("string", "large_string"):
                raise DataError(f"column {table.column_names[place]} is not valid Arrow; write it again") from None
            raw = column.cast("large_binary").to_pylist()
            texts = [None if value is None else value.decode("utf-8", "replace") for value in raw]
            readable = type(table).from_pydict({"texts": texts}).column(0).cast(column.type)
            table = table.set_column(place, table.column_names[place], readable)
    return table


def _readable(value: Any) -> Any:
    """Text that UTF-8 can hold: half of a surrogate pair, which Python allows, becomes a question mark."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")
