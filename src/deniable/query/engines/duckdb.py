"""DuckDB, embedded: files and frames as tables, bounded SQL as exact integers.

Types are never guessed from rows, because then one person's row could change the type of a column for everybody. A
CSV file's columns are text; so are columns of Python objects; categories are read as their text, since their
numbering depends on which categories occur. DuckDB's own messages may quote rows, so they are not passed on.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import duckdb

from deniable.errors import DataError
from deniable.query.bounding import KEY_PARAMETERS, Bounded
from deniable.query.engines.base import totals
from deniable.query.engines.frames import check_names, prepared
from deniable.query.measures import Totals
from deniable.query.schema import Column, Kind, Table
from deniable.query.values import quoted

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_KINDS = {
    **dict.fromkeys(_INTEGERS, Kind.INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE", "UHUGEINT"), Kind.REAL),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), Kind.TIMESTAMP),
    "VARCHAR": Kind.TEXT,
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
}
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "pandas_analyze_sample": "0",
    "python_scan_all_frames": "false",
}
# A line that is not well formed is left out instead of failing, and no dialect is guessed.
_CSV = (
    "auto_detect=false, header=true, delim=',', quote='\"', escape='\"', nullstr='', "
    "ignore_errors=true, strict_mode=false"
)
_GLOB = frozenset("*?[")
_LONGEST_HEADER = 1 << 20


class DuckDB:
    """One in-memory DuckDB with a private folder for what does not fit into memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        scratch = tempfile.mkdtemp(prefix="deniable-")  # readable by this user only
        self._connection = duckdb.connect(":memory:", config={**_SETTINGS, "temp_directory": scratch})
        self._tidy = weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)

    def add(self, name: str, data: Any) -> Table:
        source, untyped = _file(Path(data)) if isinstance(data, str | os.PathLike) else self._frame(name, data)
        return self._view(name, source, untyped=untyped)

    def run(self, bounded: Bounded, *, groups: int, key: tuple[int, int]) -> Totals:
        parameters: dict[str, Any] = {name: list(texts) for name, texts in bounded.lists.items()}
        if bounded.hashed:
            parameters |= dict(zip(KEY_PARAMETERS, key, strict=True))
        try:
            with self._lock:
                found = self._connection.execute(bounded.text, parameters).fetchnumpy()
        except duckdb.OutOfMemoryException:
            raise DataError("the engine ran out of memory; the charge stands, use a machine with more memory") from None
        except duckdb.Error:
            # Its message may quote rows.
            raise DataError(
                "the engine could not read the table; the charge stands, check that its file is whole"
            ) from None
        return totals(bounded, found, groups=groups)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._tidy()

    def _frame(self, name: str, data: Any) -> tuple[str, frozenset[str]]:
        """A pandas, Polars or Arrow table as something to select from, and its columns of Python objects."""
        frame, untyped = prepared(name, data)
        registered = f"{name} (frame)"
        try:
            self._connection.register(registered, frame)
        except ModuleNotFoundError as missing:
            raise DataError(f"table {name} needs {missing.name}; run: pip install {missing.name}") from None
        except duckdb.Error:
            raise DataError(f"table {name} has a column whose type cannot be read; convert or drop it") from None
        return quoted(registered), untyped

    def _view(self, name: str, source: str, *, untyped: frozenset[str]) -> Table:
        """A view that fixes the types, and its columns."""
        try:
            with self._lock:
                described = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
                if not described:
                    raise DataError(f"table {name} has no columns")
                columns = tuple(_column(str(row[0]), str(row[1]), untyped=row[0] in untyped) for row in described)
                listed = ", ".join(
                    f"CAST({quoted(column.name)} AS VARCHAR) AS {quoted(column.name)}"
                    if column.type != row[1]
                    else quoted(column.name)
                    for column, row in zip(columns, described, strict=True)
                )
                self._connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT {listed} FROM {source}")
        except duckdb.Error:
            raise DataError(f"table {name} could not be read; check that it is what its name says") from None
        return Table(name, columns)


def _file(path: Path) -> tuple[str, frozenset[str]]:
    """A file as something to select from, and its columns without a type."""
    format = path.suffix.lower().lstrip(".")
    if format not in ("csv", "parquet"):
        raise DataError(f"{path.name} must end in .csv or .parquet, which says how to read it")
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    if _GLOB & set(str(path)):
        raise DataError(f"{path.name} must have a path without the characters * ? [, which the engine would expand")
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path.name} is empty: not even column names; write the table again")
        with path.open("rb"):
            pass
    except OSError as failure:
        raise DataError(f"{path.name} could not be opened: {failure.strerror}") from None
    place = _string(str(path.absolute()))
    if format == "parquet":
        return f"READ_PARQUET({place})", frozenset()
    names = _header(path)
    listed = ", ".join(f"{_string(name)}: 'VARCHAR'" for name in names)
    return f"READ_CSV({place}, columns={{{listed}}}, {_CSV})", frozenset(names)


def _header(path: Path) -> list[str]:
    """The first line of a CSV file. A file without names would show a row instead, so what looks like data is
    refused."""
    with path.open("rb") as file:
        start = file.read(_LONGEST_HEADER).decode("utf-8-sig", errors="surrogateescape")
    try:
        names = next(csv.reader(io.StringIO(start, newline="")), [])
        "".join(names).encode()
    except (UnicodeEncodeError, csv.Error):
        raise DataError(f"{path.name} is not CSV in UTF-8; save it as CSV with a first line of column names") from None
    if not names or any(_looks_like_data(name) for name in names):
        raise DataError(f"the first line of {path.name} must hold the column names; a number or an empty name is none")
    check_names(path.stem, names)
    return names


def _looks_like_data(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return not name.strip()
    return True


def _column(name: str, type: str, *, untyped: bool) -> Column:
    if untyped:
        return Column(name, Kind.UNTYPED, "VARCHAR")
    if type.startswith("ENUM") or type == "UUID":
        return Column(name, Kind.TEXT, "VARCHAR")
    if type.startswith("DECIMAL"):
        return Column(name, Kind.REAL, type)
    return Column(name, _KINDS.get(type, Kind.OTHER), type)


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
