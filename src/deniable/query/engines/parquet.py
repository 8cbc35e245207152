"""Parquet files: what their metadata say, and what has to be made sure of before a charge.

Once a charge is made no row may make the engine fail, and two ids may never become one. The types say where that could
happen. Times in milliseconds may be too far away for the engine's microseconds: such a column is read once at the
opening, unless its statistics show its ends. Texts may not be UTF-8: the engine writes question marks for what it
cannot read, and two ids with broken bytes would be one text. So an id column of texts is read once at the opening, and
rows whose id is broken are left out, as rows without an id are. Other columns are read when a query asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from deniable.errors import DataError
from deniable.query.engines.files import Files
from deniable.query.engines.frames import check_names
from deniable.query.values import quoted

CONFIG: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "python_scan_all_frames": "false",
}
"""Of a database of our own."""

UNTYPED = "columns without types"
"""The value of the key `deniable` in the metadata of a file whose texts come from a CSV file."""

_SCHEMA = """
SELECT file_name, name, num_children, type, COALESCE(converted_type, ''), COALESCE(logical_type, ''), duckdb_type
FROM PARQUET_SCHEMA([{}]) ORDER BY file_name, column_id
"""
_ENDS_UNKNOWN = """
SELECT COUNT(*) FROM PARQUET_METADATA([{}]) WHERE path_in_schema IN ({})
AND (stats_min_value IS NULL OR stats_max_value IS NULL) AND stats_null_count IS DISTINCT FROM num_values
"""
_MILLISECONDS = ("TIMESTAMP_MILLIS", "MILLIS=MilliSeconds")
"""Parquet's names of times in milliseconds, old and new."""
_ROW = "file_row_number"
"""DuckDB's name of the number of a row within its file."""


@dataclass(frozen=True)
class ParquetSource:
    """A table as something to select from, and what is known of its columns beside their types."""

    sql: str
    untyped: frozenset[str] = frozenset()
    """Columns without a type."""
    merged: Mapping[str, str] = field(default_factory=dict)
    """Columns of which two values that differ may be read as one, and why."""


@dataclass(frozen=True)
class Field:
    """A column of a Parquet file."""

    name: str
    type: str
    """DuckDB's name of the type it is read as."""
    physical: str | None
    """How values are stored; None for lists and structs."""
    meaning: str
    """Parquet's names of what they mean."""

    @property
    def merged(self) -> str | None:
        """Why two values that differ may be read as one."""
        if self.physical == "INT96":
            return "its times are stored in nanoseconds and read in microseconds"
        if "DECIMAL" in self.meaning.upper() and not self.type.startswith("DECIMAL"):
            return "its decimals have more than 38 digits and are read as floats"
        return None


def parquet_source(
    connection: duckdb.DuckDBPyConnection, files: Files, *, table: str, unit: str | None = None, home: str
) -> ParquetSource:
    """Parquet files as something to select from, when they are made sure of; `unit` is the column of the ids."""
    try:
        with _probe() as probe:
            fields = _fields(probe, files)
            untyped = {one.name for one in fields if one.type == "VARCHAR"} if _is_untyped(probe, files) else set()
        _check_times(files, fields)
        ids = next((one for one in fields if unit is not None and one.name.casefold() == unit.casefold()), None)
        texts = ids is not None and ids.type == "VARCHAR"
        if texts and any(one.name.casefold() == _ROW for one in fields):  # whether or not an id is broken
            raise DataError(f"a column of table {table} is called {_ROW}, as DuckDB calls a row's number; rename it")
        broken = ids is not None and texts and _is_broken(files.paths, ids.name)
    except duckdb.Error:
        raise DataError(f"{files.name} could not be read; check that it is whole, and Parquet") from None
    sql = read_parquet(files.paths)
    if broken and ids is not None:
        sql = _without_broken(connection, files.paths, fields, ids, beside=f"{home}.{quoted(f'{table} (broken)')}")
    return ParquetSource(sql, frozenset(untyped), {one.name: one.merged for one in fields if one.merged is not None})


def read_parquet(paths: Sequence[Path], *, validation: str = "replace", file: str = "") -> str:
    """Files in SQL. Names of folders are not columns, and a text that is not UTF-8 fails no query. `file` names a
    column for the file that a row is from, if there is to be one."""
    more = f", filename={text(file)}" if file else ""
    return f"READ_PARQUET([{_list(paths)}], utf8_validation='{validation}', hive_partitioning=false{more})"


def text(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def literal(path: Path) -> str:
    """A path in SQL. DuckDB takes * ? [ for wildcards, but in brackets for themselves."""
    return text("".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path)))


def _fields(probe: duckdb.DuckDBPyConnection, files: Files) -> list[Field]:
    """The columns, which must be the same in all files."""
    found: dict[str, list[Field]] = {}
    left = 0
    """Rows of the schema that are about parts of a column."""
    for file, name, children, physical, converted, logical, type_ in probe.execute(
        _SCHEMA.format(_list(files.paths))
    ).fetchall():
        if file not in found:  # its first row is about the whole
            found[file], left = [], 0
            continue
        if not left:
            found[file].append(Field(name, type_, physical, f"{converted} {logical}".strip()))
        left = max(left - 1, 0) + (children or 0)
    first, *others = found.values()
    if any(other != first for other in others):
        raise DataError(f"the files of {files.name} must have the same columns, of the same types and in one order")
    check_names(files.name, [one.name for one in first])  # the engine would rename one of two
    return first


def _is_untyped(probe: duckdb.DuckDBPyConnection, files: Files) -> bool:
    """Whether all files say that their texts come from CSV files."""
    sql = f"SELECT file_name FROM PARQUET_KV_METADATA([{_list(files.paths)}]) WHERE key = 'deniable'::BLOB"
    return len(probe.execute(f"{sql} AND value = {text(UNTYPED)}::BLOB").fetchall()) == len(files.paths)


def _check_times(files: Files, fields: Iterable[Field]) -> None:
    """Refuse files with a time that the engine cannot decode."""
    names = [
        one.name
        for one in fields
        if one.type.startswith("TIMESTAMP") and any(word in one.meaning for word in _MILLISECONDS)
    ]
    if not names:
        return
    try:
        with _probe() as probe:
            unknown = probe.execute(_ENDS_UNKNOWN.format(_list(files.paths), ", ".join(map(text, names)))).fetchall()
    except (duckdb.ConversionException, duckdb.InternalException):
        unknown = []  # the ends of some column cannot be decoded, perhaps of another one
    if unknown == [(0,)]:
        return
    try:
        with _probe() as probe:
            _read_once(probe, files.paths, names)
    except (duckdb.ConversionException, duckdb.InternalException):
        raise DataError(
            f"{files.name} has a time that is too far away to be read; leave it out, or write it as missing"
        ) from None


def _is_broken(paths: Sequence[Path], name: str) -> bool:
    """Whether some text of a column is not UTF-8."""
    try:
        with _probe() as probe:
            _read_once(probe, paths, [name], validation="strict")
    except duckdb.InvalidInputException:
        with _probe() as probe:
            _read_once(probe, paths, [name])  # or else it is the file that is broken
        return True
    return False


def _probe() -> duckdb.DuckDBPyConnection:
    """A database for one look, which a failure may spoil."""
    return duckdb.connect(":memory:", config=CONFIG)


def _read_once(
    probe: duckdb.DuckDBPyConnection, paths: Sequence[Path], names: Sequence[str], *, validation: str = "replace"
) -> None:
    columns = ", ".join(f"MAX(HASH({quoted(name)}))" for name in names)
    probe.execute(f"SELECT {columns} FROM {read_parquet(paths, validation=validation)}").fetchall()


def _without_broken(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], fields: Iterable[Field], ids: Field, *, beside: str
) -> str:
    """Files in SQL, with NULL for ids that are not UTF-8: they are those that differ when what is broken is replaced
    and when it is left out. Their rows are listed once, in the table `beside`."""
    file = "file"
    while any(one.name.casefold() == file for one in fields):
        file += "_"
    column = quoted(ids.name)
    kept, cut = (read_parquet(paths, validation=how, file=file) for how in ("replace", "ignore"))
    connection.execute(
        f"CREATE TABLE {beside} AS SELECT kept.{file}, kept.{_ROW} AS row FROM {kept} AS kept JOIN {cut} AS cut "
        f"ON kept.{file} = cut.{file} AND kept.{_ROW} = cut.{_ROW} WHERE kept.{column} IS DISTINCT FROM cut.{column}"
    )
    return (
        f"(SELECT every.* EXCLUDE ({file}) REPLACE (CASE WHEN broken.row IS NULL THEN every.{column} END AS {column}) "
        f"FROM {kept} AS every LEFT JOIN {beside} AS broken "
        f"ON every.{file} = broken.{file} AND every.{_ROW} = broken.row)"
    )


def _list(paths: Sequence[Path]) -> str:
    return ", ".join(literal(path) for path in paths)
