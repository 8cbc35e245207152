"""DuckDB, embedded: files and frames as tables, bounded SQL as exact integers.

Types are never guessed from rows, because then one person's row could change the type of a column for everybody. A
CSV file's columns are text; so are columns of Python objects; categories are read as their text, since their
numbering depends on which categories occur. DuckDB's own messages may quote rows, so they are not passed on.

What SQL means on a DuckDB connection that has an owner: settings and functions of the owner's change nothing.

Settings that change what an expression gives, or stop a statement, are set for our cursor alone. Macros are out of its
search path. A Python function that was registered under a built-in name would be called in place of it, and may fail on
some row, after the charge; when it is removed, DuckDB removes the built-in one with it. A connection like that is
refused, when it is opened and before every charge.

Threads: a call takes a cursor that no other call has, so that queries of several threads run beside one another. Views
and frames are known to one cursor alone, so every new one is told of them. A database that has an owner is asked
through one cursor.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import duckdb

from deniable.errors import DataError
from deniable.query.bounding import Bounded
from deniable.query.choice import KEY_PARAMETERS, PEEK
from deniable.query.engines import databases
from deniable.query.engines.base import EngineLimits, RecentTotals, interruptible, stopped, totals
from deniable.query.engines.checked import csv_source
from deniable.query.engines.excel import write_csv
from deniable.query.engines.files import Files, is_path
from deniable.query.engines.frames import names_of, one_column, prepared
from deniable.query.engines.parquet import CONFIG, ParquetSource, parquet_source
from deniable.query.measures import Totals
from deniable.query.schema import Column, ColumnKind, Table, listed
from deniable.query.values import quoted

SETTINGS = {
    # Functions are looked up here first, so that a macro of the database cannot take the name of a built-in one.
    "search_path": "'temp'",
    "default_collation": "''",
    "pandas_analyze_sample": "0",
    "ieee_floating_point_ops": "true",
    "integer_division": "false",
    "default_order": "'ASC'",
    "default_null_order": "'NULLS_LAST'",
    # A limit of the owner's would stop a statement after the charge.
    "max_execution_time": "0",
    # Ids and keys that are whole numbers within 2²¹ of one another are grouped in an array, three times as fast. Every
    # thread has an array of its own, so many threads get smaller ones: 2²⁴ places in all.
    "perfect_ht_threshold": str(min(21, 25 - (os.cpu_count() or 1).bit_length())),
}
"""Of every session; in a database that is shared, its owner's settings stay."""

_STRANGE = ("GEOMETRY", "JSON", "INET", "VARIANT", "TIME ZONE", "STRUCT", "[]")
"""Types that bounded SQL does not have; extensions add functions of them to built-in names."""
_FUNCTIONS = f"""
SELECT DISTINCT function_name, types FROM (
    SELECT function_name, CONCAT_WS(', ', parameter_types::VARCHAR, varargs::VARCHAR) AS types FROM duckdb_functions()
    WHERE database_name = 'system' AND function_type IN ('scalar', 'aggregate')
) WHERE NOT ({" OR ".join(f"CONTAINS(types, '{word}')" for word in _STRANGE)})
"""


def settled(connection: duckdb.DuckDBPyConnection, *, shared: bool) -> duckdb.DuckDBPyConnection:
    """A connection on which what its owner has set does not change what SQL means; DataError where that cannot be."""
    try:
        if shared:
            check_functions(connection)
        if connection.execute("SELECT current_setting('default_collation')").fetchone() != ("",):
            raise DataError(
                "the DuckDB connection has a default_collation, under which different texts are equal; here texts are "
                "compared letter by letter: RESET default_collation, if that tells the people apart"
            )
        for setting, value in SETTINGS.items():
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


def check_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a connection on which a built-in name has another function beside its own, or has lost its own."""
    known = _built_in()
    changed = {name for name, _ in _signatures(connection) ^ known} & {name for name, _ in known}
    if changed:
        raise DataError(
            f"the DuckDB connection has other functions under built-in names ({listed(tuple(sorted(changed)))}), or "
            "has removed those; nothing was charged; give a connection without them, or the path of its file"
        )


@cache
def _built_in() -> frozenset[tuple[str, str]]:
    with duckdb.connect(":memory:") as fresh:
        return _signatures(fresh)


def _signatures(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, str]]:
    """Names of functions and types of their arguments."""
    return frozenset(connection.execute(_FUNCTIONS).fetchall())


_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_KINDS = {
    **dict.fromkeys(_INTEGERS, ColumnKind.INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE", "UHUGEINT"), ColumnKind.REAL),
    "TIMESTAMP": ColumnKind.TIMESTAMP,
    "VARCHAR": ColumnKind.TEXT,
    "BOOLEAN": ColumnKind.BOOLEAN,
    "DATE": ColumnKind.DATE,
}
_ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")
_NANOSECONDS = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
_SMALL = 18
"""Digits of decimals that are kept in 64 bits."""


class DuckDB:
    """One in-memory DuckDB with a private folder for what does not fit into memory, or a cursor of a shared one.

    `alike` makes it choose rows as other engines do, which takes longer. `steady` makes it run the same statements
    whatever the rows are: it never tries the shortcut, whose time tells whether anybody is beyond the limits.
    """

    most_cursors: ClassVar[int] = 16
    """Calls at a time in a database of our own; others wait."""

    def __init__(
        self,
        shared: duckdb.DuckDBPyConnection | None = None,
        *,
        alike: bool = False,
        steady: bool = False,
        limits: EngineLimits | None = None,
    ) -> None:
        self.alike, self.steady = alike, steady
        self._limits = limits or EngineLimits()
        self._cursors = 1 if shared is not None else self.most_cursors
        self._free = threading.BoundedSemaphore(self._cursors)
        self._lock = threading.Lock()
        """Of the lists of cursors."""
        self._busy = False
        """Whether a call has the first connection."""
        self._others: list[duckdb.DuckDBPyConnection] = []
        """Cursors that no call has."""
        self._views: dict[str, str] = {}
        self._frames: dict[str, Any] = {}
        """What every new cursor is told."""
        self._files: dict[Files, tuple[Any, ...]] = {}
        """Files of private tables, and which versions of them were opened."""
        self._shapes: dict[str, list[tuple[Any, ...]]] = {}
        self._bound: set[str] = set()
        """Statements that DuckDB has bound."""
        self._recent = None if alike or shared is not None else RecentTotals()
        """Where no table can change: files are checked, all else is a copy or attached for reading only. Analysts who
        fixed the key of the choice have it in common, and compute anew."""
        self._scratch = Path(tempfile.mkdtemp(prefix="deniable-")).absolute()  # readable by this user only
        config = {**CONFIG, **self._limits.config, "temp_directory": str(self._scratch)}
        self._tidy = weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._shared = shared is not None
        connection = duckdb.connect(":memory:", config=config) if shared is None else shared.cursor()
        self._connection = settled(connection, shared=self._shared)
        self._limit_time(self._connection)

    def _limit_time(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self._limits.seconds is not None:
            connection.execute(f"SET SESSION max_execution_time = {max(1, int(self._limits.seconds * 1000))}")

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that no other call has meanwhile."""
        with self._free:
            with self._lock:
                first, self._busy = not self._busy, True
                cursor = self._connection if first else self._others.pop() if self._others else None
            if cursor is None:
                cursor = self._new_cursor()
            try:
                yield cursor
            finally:
                with self._lock:
                    if first:
                        self._busy = False
                    else:
                        self._others.append(cursor)

    def _new_cursor(self) -> duckdb.DuckDBPyConnection:
        """One more cursor of our database, which knows all tables."""
        cursor = settled(self._connection.cursor(), shared=False)
        self._limit_time(cursor)
        for name, frame in self._frames.items():
            cursor.register(name, frame)
        for view in self._views.values():
            cursor.execute(view)
        return cursor

    def add(self, name: str, data: Any, *, public: bool = False, unit: str | None = None) -> Table:
        if self._recent is not None:
            self._recent = RecentTotals()  # what was kept is about other tables
        if isinstance(data, databases.DuckDBTable):
            source = ParquetSource(databases.source(self._connection, data))
        elif isinstance(data, Files) or is_path(data):
            source = self._opened(name, data if isinstance(data, Files) else Files.of(data), public=public, unit=unit)
        else:
            source = self._frame(name, data, unit=unit)
        table = replace(self._view(name, source, copied=public), public=public)
        self._shapes[name] = self._described(name)
        return table

    def _opened(self, name: str, files: Files, *, public: bool, unit: str | None) -> ParquetSource:
        """Files as something to select from, when they are checked."""
        version = files.version
        if files.csv or files.excel:
            folder = Path(tempfile.mkdtemp(dir=self._scratch))
            source = csv_source(_as_csv(files, folder) if files.excel else files, folder)
        else:
            source = parquet_source(self._connection, files, table=name, unit=unit, home=self._home)
        if files.version != version:
            raise DataError(f"{files.name} has changed while it was opened; open it again when it is finished")
        if not public:
            self._files[files] = version
        return source

    @property
    def _home(self) -> str:
        """Where tables of ours lie: every cursor can read them, and an owner's database has none of them."""
        return "temp.main" if self._shared else "memory.main"

    def _described(self, name: str, cursor: duckdb.DuckDBPyConnection | None = None) -> list[tuple[Any, ...]]:
        """The columns of a table as they are now."""
        described = f"DESCRIBE SELECT * FROM temp.main.{quoted(name)}"
        return (cursor or self._connection).execute(described).fetchall()

    def check(self, statements: Iterable[Bounded]) -> None:
        self._check_files(self._files, "open it again")
        try:
            with self._cursor() as cursor:
                if self._shared:
                    check_functions(cursor)
                changed = any(self._described(name, cursor) != known for name, known in self._shapes.items())
        except duckdb.Error:
            changed = True
        if changed:
            raise DataError("the session is closed, or a table is gone or has other columns; open it again")
        for bounded in statements:
            self.bind(bounded)  # in tables that are as they were, a statement is bound as it was

    def _check_files(self, some: Iterable[Files], remedy: str) -> None:
        for files in some:
            if files.version != self._files[files]:
                raise DataError(f"{files.name} has changed since the session was opened; {remedy}")

    def written(self, bounded: Bounded) -> str:
        return bounded.text

    def bind(self, bounded: Bounded) -> None:
        if not self._bound.issuperset(bounded.statements):
            self._bind(bounded)
            self._bound.update(bounded.statements)

    def _bind(self, bounded: Bounded) -> None:
        try:
            with self._cursor() as cursor:
                for text in bounded.statements:
                    cursor.execute(f"PREPARE deniable AS {text}")
                    cursor.execute("DEALLOCATE deniable")
        except duckdb.Error as failure:
            self._check_files(self._files, "open it again")
            raise DataError(f"DuckDB refused the query ({type(failure).__name__}); nothing was charged") from None

    def run(self, bounded: Bounded, *, groups: int | None, key: tuple[int, int]) -> Totals:
        if self._recent is not None and (known := self._recent.find(bounded, key=key)) is not None:
            return known
        try:
            with self._cursor() as cursor:
                found = interruptible(lambda: self._computed(bounded, key, cursor), stop=cursor.interrupt)
        except duckdb.Error:
            raise stopped("DuckDB") from None
        # A file is read more than once. Had it changed in between, limits would have been kept by other rows. Of a CSV
        # file it is the copy that is read.
        read = [files for files in self._files if not files.csv]
        self._check_files(read, "the charge stands, and nothing is released; open it again")
        exact = totals(bounded, found, groups=groups)
        if self._recent is not None:
            self._recent.keep(bounded, exact, groups=groups, key=key)
        return exact

    def _computed(self, bounded: Bounded, key: tuple[int, int], cursor: duckdb.DuckDBPyConnection) -> dict[str, Any]:
        """What the bounded SQL finds. In one transaction: the rows that are checked are the rows that are added up."""
        easy = None if self.steady else bounded.shortcut
        given = {name: list(texts) for name, texts in bounded.lists.items()}

        def run(text: str) -> duckdb.DuckDBPyConnection:
            return _executed(cursor, text, given, key=key)

        cursor.begin()
        try:
            if easy is not None:
                beyond = None if self._recent is None else self._recent.beyond(bounded, key=key)
                if beyond is None:
                    beyond, rows = run(easy.peek).fetchall()[0]
                    if not beyond and rows == PEEK:  # else these were all rows
                        beyond = run(easy.check).fetchall()[0][0]
                    if self._recent is not None:
                        self._recent.note_beyond(bounded, bool(beyond), key=key)
                if not beyond:
                    return run(easy.plain).fetchnumpy()
            return run(bounded.text).fetchnumpy()
        finally:
            cursor.rollback()

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with self._cursor() as cursor:
                return cursor.execute(sql).fetchall()
        except duckdb.Error:
            raise DataError("a public table could not be read; check that its file is whole") from None

    def close(self) -> None:
        for _ in range(self._cursors):  # whoever computes is waited for
            self._free.acquire()
        try:
            for cursor in (*self._others, self._connection):
                cursor.close()
            self._others.clear()
            self._tidy()
        finally:
            for _ in range(self._cursors):
                self._free.release()

    def _frame(self, name: str, data: Any, *, unit: str | None) -> ParquetSource:
        """A pandas, Polars or Arrow table as something to select from. Its columns of Python objects have no type."""
        frame = prepared(name, data, unit=unit)
        registered = f"{name} (frame)"
        try:
            if not self._registered(registered, frame.data):
                columns = names_of(frame.data)
                strange = [c for c in columns if not self._registered(registered, one_column(frame.data, c))]
                raise DataError(
                    f"table {name} has columns whose type cannot be read: {listed(tuple(strange))}; convert them to "
                    "numbers, texts or times, or drop them"
                )
        except ModuleNotFoundError as missing:
            raise DataError(f"table {name} needs {missing.name}; run: pip install {missing.name}") from None
        return ParquetSource(quoted(registered), frame.untyped, frame.merged)

    def _registered(self, name: str, frame: Any) -> bool:
        """Whether the engine takes a frame, which it does by its types."""
        try:
            self._connection.register(name, frame)
        except duckdb.Error:
            return False
        self._frames[name] = frame
        return True

    def _view(self, name: str, source: ParquetSource, *, copied: bool) -> Table:
        """A view, or a copy, that fixes the types; and its columns."""
        try:
            described = self._connection.execute(f"DESCRIBE SELECT * FROM {source.sql}").fetchall()
            if not described:
                raise DataError(f"table {name} has no columns")
            columns = tuple(_column(str(row[0]), str(row[1]), source) for row in described)
            listed = ", ".join(
                f"{_read(column, row[1])} AS {quoted(column.name)}"
                for column, row in zip(columns, described, strict=True)
            )
            select = f"SELECT {listed} FROM {source.sql}"
            if copied and self._cursors == 1:
                self._connection.execute(f"CREATE TEMP TABLE {quoted(name)} AS {select}")
            else:
                if copied:
                    copy = f"{self._home}.{quoted(f'{name} (copy)')}"
                    self._connection.execute(f"CREATE TABLE {copy} AS {select}")
                    select = f"SELECT * FROM {copy}"
                self._views[name] = f"CREATE TEMP VIEW {quoted(name)} AS {select}"
                self._connection.execute(self._views[name])
        except duckdb.Error:
            raise DataError(f"table {name} could not be read; check that it is what its name says") from None
        return Table(name, columns)


def _executed(
    cursor: duckdb.DuckDBPyConnection, text: str, lists: dict[str, list[str]], *, key: tuple[int, int]
) -> duckdb.DuckDBPyConnection:
    """Execute one statement, with those of the lists and of the key's halves that it has as parameters."""
    (statement,) = cursor.extract_statements(text)
    known: dict[str, Any] = lists | dict(zip(KEY_PARAMETERS, key, strict=True))
    return cursor.execute(statement, {name: known[name] for name in statement.named_parameters})


def _column(name: str, type: str, source: ParquetSource) -> Column:
    merged = source.merged.get(name)
    if name in source.untyped:
        return Column(name, ColumnKind.UNTYPED, "VARCHAR", merged=merged)
    if type.startswith("ENUM") or type == "UUID":
        return Column(name, ColumnKind.TEXT, "VARCHAR", merged=merged)
    if type.startswith("DECIMAL"):
        return Column(name, ColumnKind.REAL, type, merged=merged)
    if type in ("TIMESTAMP_S", "TIMESTAMP_MS", *_NANOSECONDS, *_ZONED):
        nano = "its times are stored in nanoseconds and read in microseconds" if type in _NANOSECONDS else merged
        return Column(name, ColumnKind.TIMESTAMP, "TIMESTAMP", merged=nano)
    return Column(name, _KINDS.get(type, ColumnKind.OTHER), type, merged=merged)


def _read(column: Column, type: str) -> str:
    """A column of the source's type as the view gives it. A time in other units than microseconds is cast at once:
    the engine's own functions of such times fail far from our days. A time with a zone is read in UTC, by its distance
    from 1970: a cast would ask for the connection's zone."""
    if type in _ZONED:
        return f"MAKE_TIMESTAMP(EPOCH_US(TRY_CAST({quoted(column.name)} AS TIMESTAMPTZ)))"
    if type.startswith("DECIMAL"):
        return _within_digits(quoted(column.name), type)
    if column.type != type:
        cast = "TRY_CAST" if column.kind is ColumnKind.TIMESTAMP else "CAST"
        return f"{cast}({quoted(column.name)} AS {column.type})"
    return quoted(column.name)


def _within_digits(column: str, type: str) -> str:
    """A column of decimals, with NULL for values of more digits than the type has. Files and frames may hold them in
    128 bits, and the engine's casts of them fail."""
    digits, places = (int(number) for number in type[len("DECIMAL(") : -1].split(","))
    if digits <= _SMALL:
        return column
    most = f"CAST('{'9' * (digits - places)}.{'9' * places}' AS {type})"
    return f"CASE WHEN {column} BETWEEN -{most} AND {most} THEN {column} END"


Pools = Mapping[str, Sequence[str | None]]
"""Texts that the values of each column are made from, by the column's name."""


class FakeDuckDB(DuckDB):
    """A DuckDB whose tables are made up."""

    most_cursors = 1
    """Its tables are known to its first connection alone."""

    def fill(self, table: Table, pools: Pools, *, rows: int) -> None:
        """A table of these columns, whose values go through each pool in a rhythm of its own.

        A text that its column's type cannot hold is NULL there.
        """
        listed, parameters = [], {}
        for number, column in enumerate(table.columns):
            pool = list(pools.get(column.name, ())) or [None]
            parameters[f"p{number}"] = pool
            # Different strides, so that columns of equal length do not move together.
            place = f"1 + CAST(HASH(i, {number}) % {len(pool)} AS BIGINT)"
            text = f"LIST_EXTRACT(CAST($p{number} AS VARCHAR[]), {place})"
            listed.append(f"TRY_CAST({text} AS {column.type}) AS {quoted(column.name)}")
        self._connection.execute(
            f"CREATE TEMP TABLE {quoted(table.name)} AS SELECT {', '.join(listed)} FROM RANGE({int(rows)}) AS r(i)",
            parameters,
        )

    def _computed(self, bounded: Bounded, key: tuple[int, int], cursor: duckdb.DuckDBPyConnection) -> dict[str, Any]:
        """Whatever the made-up rows are like, all SQL is tried."""
        easy = bounded.shortcut
        for text in () if easy is None else (easy.peek, easy.check, easy.plain):
            super()._computed(Bounded(text, bounded.lists, bounded.values), key, cursor)
        return super()._computed(replace(bounded, shortcut=None), key, cursor)


def _as_csv(files: Files, folder: Path) -> Files:
    """Excel files as CSV files in a folder of ours."""
    places = [Path(tempfile.mkdtemp(dir=folder)) for _ in files.paths]
    written = tuple(write_csv(path, place) for path, place in zip(files.paths, places, strict=True))
    return Files(written, written)
