"""DuckDB databases as data: the tables of a file, or of a connection that is open.

A file is attached for reading only. A connection is used through a cursor of its own, so that nothing of ours appears
in it. Views are left out: the expressions in a view are not ours, and one that fails on some row would fail after the
charge. So are tables with generated columns, since one that is drawn at random is another one at each reading; and with
a collation, under which one row would have several keys, or several ids be one person's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from deniable.errors import DataError
from deniable.query.engines import base
from deniable.query.schema import listed
from deniable.query.values import quoted

ENDINGS = (".duckdb", ".ddb", ".db")
"""What the names of database files end in."""

_TABLES = (
    "SELECT database_name, schema_name, table_name, sql FROM duckdb_tables() "
    "WHERE NOT internal AND NOT temporary AND database_name = {} ORDER BY table_name"
)

_STRANGE = {
    " GENERATED ALWAYS AS": "that is generated",
    " COLLATE ": "with a collation, and texts are compared as they are",
}
"""Words in DuckDB's definition of a table that cannot be asked."""


class DuckDBTable(base.StoredTable):
    """A table of a DuckDB database: of a file, or of an open connection."""


def expanded(data: Any) -> Any:
    """A database as the mapping of its tables; anything else as it is."""
    return {table: DuckDBTable(data, table) for table in tables_of(data)} if is_database(data) else data


def is_database(data: Any) -> bool:
    """Whether data are a database: an open connection, or a path to a file of one."""
    if isinstance(data, str | os.PathLike):
        return Path(data).suffix.lower() in ENDINGS
    return isinstance(data, duckdb.DuckDBPyConnection)


def tables_of(home: Any) -> list[str]:
    """The names of a database's tables."""
    if isinstance(home, duckdb.DuckDBPyConnection):
        with home.cursor() as cursor:
            return [row[2] for row in _listed(cursor, "current_database()")]
    path = _checked(Path(home))
    try:
        with duckdb.connect(":memory:") as connection:
            connection.execute(_attaching(path, "database"))
            return [row[2] for row in _listed(connection, "'database'")]
    except duckdb.Error:
        raise _unreadable(path) from None


def shared(data: Iterable[Any]) -> Any:
    """The connection that the tables of a session share with its owner; None when there is none."""
    found = {id(given.home): given.home for given in data if isinstance(given, DuckDBTable)}
    connections = [home for home in found.values() if isinstance(home, duckdb.DuckDBPyConnection)]
    if len(connections) > 1:
        raise DataError("data must be of one DuckDB connection, not of several; attach the databases to one of them")
    return connections[0] if connections else None


def source(connection: duckdb.DuckDBPyConnection, stored: DuckDBTable) -> str:
    """A stored table as something to select from; a file is attached, once."""
    if isinstance(stored.home, duckdb.DuckDBPyConnection):
        with stored.home.cursor() as owner:
            tables = _listed(owner, "current_database()")
    else:
        path = _checked(Path(stored.home))
        alias = f"file {path.absolute()}"
        database = "'" + alias.replace("'", "''") + "'"
        try:
            known = connection.execute("SELECT database_name FROM duckdb_databases()").fetchall()
            if (alias,) not in known:
                connection.execute(_attaching(path, alias))
        except duckdb.Error:
            raise _unreadable(path) from None
        tables = _listed(connection, database)
    found = [place for place in tables if place[2].casefold() == stored.table.casefold()]
    if not found:
        raise DataError(
            f"the database has no table {stored.table}; its tables are {listed(tuple(place[2] for place in tables))}; "
            "views cannot be asked"
        )
    if len(found) > 1:
        raise DataError(f"the database has a table {stored.table} in several schemas; rename one")
    *place, sql = found[0]
    for words, what in _STRANGE.items():
        if words in sql:
            raise DataError(f"table {stored.table} has a column {what}; make a copy of the table with a plain column")
    return ".".join(quoted(part) for part in place)


def _listed(connection: duckdb.DuckDBPyConnection, database: str) -> list[tuple[str, str, str, str]]:
    with contextlib.suppress(duckdb.Error):  # locked settings are refused, in words, where the others are made
        connection.execute("SET SESSION max_execution_time = 0")  # an owner's may be too short for a busy machine
    return connection.execute(_TABLES.format(database)).fetchall()


def _attaching(path: Path, alias: str) -> str:
    return f"ATTACH '{str(path.absolute()).replace(chr(39), chr(39) * 2)}' AS {quoted(alias)} (READ_ONLY)"


def _checked(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    return path


def _unreadable(path: Path) -> DataError:
    return DataError(
        f"{path.name} could not be opened as a DuckDB database; if it is open, give its connection instead"
    )
