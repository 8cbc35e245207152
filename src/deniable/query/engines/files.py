"""CSV and Parquet files, as DuckDB reads them: names from the first line, no types or dialects guessed from rows."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import duckdb

from deniable.errors import DataError

CONFIG: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "python_scan_all_frames": "false",
}
"""Of a database of our own."""

# A line that is not well formed is left out instead of failing, and no dialect is guessed.
_CSV = (
    "auto_detect=false, header=true, delim=',', quote='\"', escape='\"', nullstr='', "
    "ignore_errors=true, strict_mode=false"
)
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What a first line may hold in place of commas. Such files are not read: their numbers often have decimal commas."""
_GLOB = frozenset("*?[")
_LONGEST_HEADER = 1 << 20


def source(path: Path) -> tuple[str, frozenset[str]]:
    """A file as something to select from, and its columns without a type."""
    place = _string(str(_checked(path)))
    if path.suffix.lower() == ".parquet":
        _check_statistics(path.name, place)
        # A text that is not UTF-8 would make the engine fail after the charge; question marks take the bad bytes.
        return f"READ_PARQUET({place}, utf8_validation='replace')", frozenset()
    names = _header(path)
    listed = ", ".join(f"{_string(name)}: 'VARCHAR'" for name in names)
    return f"READ_CSV({place}, columns={{{listed}}}, {_CSV})", frozenset(names)


def version(path: Path) -> tuple[int, ...]:
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


def _check_statistics(file: str, place: str) -> None:
    """Refuse a Parquet file whose least or largest time the engine cannot decode, as is possible with milliseconds: it
    would fail on that row, after a charge. In a database of its own, which such a failure may spoil."""
    try:
        with duckdb.connect(":memory:", config=CONFIG) as connection:
            connection.execute(f"SELECT stats_min_value, stats_max_value FROM PARQUET_METADATA({place})")
    except (duckdb.ConversionException, duckdb.InternalException):
        raise DataError(
            f"{file} has a time that is too far away to be read; leave it out, or write it as missing"
        ) from None
    except duckdb.Error:
        raise DataError(f"{file} could not be read; check that it is a whole Parquet file") from None


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
    for sign, what in _SEPARATORS.items():
        if sum(name.count(sign) for name in names) >= max(len(names), 1):
            raise DataError(
                f"{path.name} is separated by {what}; save it with commas, and with points in numbers, or read it by "
                f"pandas.read_csv(..., sep={sign!r}) and give that"
            )
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


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
