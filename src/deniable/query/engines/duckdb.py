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
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from deniable.errors import DataError
from deniable.query.bounding import KEY_PARAMETERS, Bounded
from deniable.query.engines import databases
from deniable.query.engines.base import totals
from deniable.query.engines.frames import prepared
from deniable.query.engines.interrupts import interruptible
from deniable.query.schema import Column, Kind, Table
from deniable.query.shortcut import PEEK
from deniable.query.totals import Totals
from deniable.query.values import quoted

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_KINDS = {
    **dict.fromkeys(_INTEGERS, Kind.INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE", "UHUGEINT"), Kind.REAL),
    "TIMESTAMP": Kind.TIMESTAMP,
    "VARCHAR": Kind.TEXT,
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
}
_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "python_scan_all_frames": "false",
}
"""Of a database of our own."""

_SETTINGS = {
    # Functions are looked up here first, so that a macro of the database cannot take the name of a built-in one.
    "search_path": "'temp'",
    "default_collation": "''",
    "pandas_analyze_sample": "0",
    # Ids and keys that are whole numbers within 2²¹ of one another are grouped in an array, three times as fast. Every
    # thread has an array of its own, so many threads get smaller ones: 2²⁴ places in all.
    "perfect_ht_threshold": str(min(21, 25 - (os.cpu_count() or 1).bit_length())),
}
"""Of every session; in a database that is shared, its owner's settings stay."""

# A line that is not well formed is left out instead of failing, and no dialect is guessed.
_CSV = (
    "auto_detect=false, header=true, delim=',', quote='\"', escape='\"', nullstr='', "
    "ignore_errors=true, strict_mode=false"
)
_GLOB = frozenset("*?[")
_LONGEST_HEADER = 1 << 20


class DuckDB:
    """One in-memory DuckDB with a private folder for what does not fit into memory, or a cursor of a shared one.

    `alike` makes it choose rows as other engines do, which takes longer.
    """

    def __init__(self, shared: duckdb.DuckDBPyConnection | None = None, *, alike: bool = False) -> None:
        self.alike = alike
        self._lock = threading.Lock()
        self._files: dict[Path, tuple[int, ...]] = {}
        self._shapes: dict[str, list[tuple[Any, ...]]] = {}
        scratch = tempfile.mkdtemp(prefix="deniable-")  # readable by this user only
        config: dict[str, Any] = {**_CONFIG, "temp_directory": scratch}
        self._tidy = weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        self._connection = _set(duckdb.connect(":memory:", config=config) if shared is None else shared.cursor())

    def add(self, name: str, data: Any, *, public: bool = False) -> Table:
        if isinstance(data, databases.Stored):
            source, untyped = databases.source(self._connection, data), frozenset[str]()
        elif isinstance(data, str | os.PathLike):
            path = Path(data).absolute()
            if not public:
                self._files[path] = _version(path)
            source, untyped = self._file(path)
        else:
            source, untyped = self._frame(name, data)
        table = replace(self._view(name, source, untyped=untyped, copied=public), public=public)
        self._shapes[name] = self._described(name)
        return table

    def _described(self, name: str) -> list[tuple[Any, ...]]:
        """The columns of a table as they are now."""
        return self._connection.execute(f"DESCRIBE SELECT * FROM temp.main.{quoted(name)}").fetchall()

    def check(self) -> None:
        self._unchanged("open it again")
        try:
            with self._lock:
                changed = any(self._described(name) != known for name, known in self._shapes.items())
        except duckdb.Error:
            changed = True
        if changed:
            raise DataError("the session is closed, or a table is gone or has other columns; open it again")

    def _unchanged(self, remedy: str) -> None:
        for path, known in self._files.items():
            if _version(path) != known:
                raise DataError(f"{path.name} has changed since the session was opened; {remedy}")

    def written(self, bounded: Bounded) -> str:
        return bounded.text

    def run(self, bounded: Bounded, *, groups: int | None, key: tuple[int, int]) -> Totals:
        try:
            with self._lock:
                found = interruptible(lambda: self._computed(bounded, key), stop=self._connection.interrupt)
        except duckdb.OutOfMemoryException:
            raise DataError("the engine ran out of memory; the charge stands, use a machine with more memory") from None
        except duckdb.Error:
            # Its message may quote rows.
            raise DataError(
                "the engine could not read the table; the charge stands, check that its file is whole"
            ) from None
        # A file is read more than once. Had it changed in between, limits would have been kept by other rows.
        self._unchanged("the charge stands, and nothing is released; open it again")
        return totals(bounded, found, groups=groups)

    def _computed(self, bounded: Bounded, key: tuple[int, int]) -> dict[str, Any]:
        """What the bounded SQL finds. In one transaction: the rows that are checked are the rows that are added up."""
        run, easy = self._connection.execute, bounded.shortcut
        given: dict[str, Any] = {name: list(texts) for name, texts in bounded.lists.items()}
        keyed = given | dict(zip(KEY_PARAMETERS, key, strict=True)) if bounded.hashed else given
        self._connection.begin()
        try:
            if easy is not None:
                beyond, rows = run(easy.peek, given).fetchall()[0]
                if not beyond and rows == PEEK:  # else these were all rows
                    beyond = run(easy.check, given).fetchall()[0][0]
                if not beyond:
                    return run(easy.plain, given).fetchnumpy()
            return run(bounded.text, keyed).fetchnumpy()
        finally:
            self._connection.rollback()

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(sql).fetchall()
        except duckdb.Error:
            raise DataError("a public table could not be read; check that its file is whole") from None

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._tidy()

    def _file(self, path: Path) -> tuple[str, frozenset[str]]:
        """A file as something to select from, and its columns without a type."""
        place = _string(str(_checked(path)))
        if path.suffix.lower() == ".parquet":
            # A text that is not UTF-8 would make the engine fail after the charge; question marks take the bad bytes.
            return f"READ_PARQUET({place}, utf8_validation='replace')", frozenset()
        names = _header(path)
        listed = ", ".join(f"{_string(name)}: 'VARCHAR'" for name in names)
        return f"READ_CSV({place}, columns={{{listed}}}, {_CSV})", frozenset(names)

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

    def _view(self, name: str, source: str, *, untyped: frozenset[str], copied: bool) -> Table:
        """A view, or a copy, that fixes the types; and its columns."""
        try:
            with self._lock:
                described = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
                if not described:
                    raise DataError(f"table {name} has no columns")
                columns = tuple(_column(str(row[0]), str(row[1]), untyped=row[0] in untyped) for row in described)
                listed = ", ".join(
                    f"{_read(column, row[1])} AS {quoted(column.name)}"
                    for column, row in zip(columns, described, strict=True)
                )
                made = "TABLE" if copied else "VIEW"
                self._connection.execute(f"CREATE TEMP {made} {quoted(name)} AS SELECT {listed} FROM {source}")
        except duckdb.Error:
            raise DataError(f"table {name} could not be read; check that it is what its name says") from None
        return Table(name, columns)


def _set(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A connection on which settings and macros of its owner's do not change what SQL means."""
    try:
        if connection.execute("SELECT current_setting('default_collation')").fetchone() != ("",):
            raise DataError(
                "the DuckDB connection has a default_collation, under which different texts are equal; here texts are "
                "compared letter by letter: RESET default_collation, if that tells the people apart"
            )
        for setting, value in _SETTINGS.items():
            connection.execute(f"SET SESSION {setting} = {value}")
    except DataError:
        connection.close()
        raise
    except duckdb.Error:
        connection.close()
        raise DataError(
            "the DuckDB connection's settings are locked (lock_configuration), so that what its SQL means cannot be "
            "made sure; give the path of its file, or a connection that is not locked"
        ) from None
    return connection


def _version(path: Path) -> tuple[int, ...]:
    """What changes when a file is written again; its columns may then be others."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _checked(path: Path) -> Path:
    """A path of a file that can be read, of a format that is known."""
    if path.suffix.lower() not in (".csv", ".parquet"):
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
    return path


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
        raise DataError(f"the first line of {path.name} must hold the column names, and a name has letters")
    folded = [name.casefold() for name in names]
    for place, name in enumerate(folded):
        if name in folded[:place]:
            # By number: if the file has no line of names, this is somebody's row.
            both = f"{folded.index(name) + 1} and {place + 1}"
            raise DataError(f"the columns {both} of {path.name} have one name, in SQL's eyes; rename one")
    return names


def _looks_like_data(name: str) -> bool:
    """Whether a name is a number, a date, or nothing."""
    try:
        float(name)
    except ValueError:
        return not any(letter.isalpha() for letter in name)
    return True


def _column(name: str, type: str, *, untyped: bool) -> Column:
    if untyped:
        return Column(name, Kind.UNTYPED, "VARCHAR")
    if type.startswith("ENUM") or type == "UUID":
        return Column(name, Kind.TEXT, "VARCHAR")
    if type.startswith("DECIMAL"):
        return Column(name, Kind.REAL, type)
    if type in ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        return Column(name, Kind.TIMESTAMP, "TIMESTAMP")
    return Column(name, _KINDS.get(type, Kind.OTHER), type)


def _read(column: Column, type: str) -> str:
    """A column of the source's type as the view gives it. A time in other units than microseconds is cast at once:
    the engine's own functions of such times fail far from our days."""
    if column.type != type:
        cast = "TRY_CAST" if column.kind is Kind.TIMESTAMP else "CAST"
        return f"{cast}({quoted(column.name)} AS {column.type})"
    return quoted(column.name)


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
