"""Files as tables: one CSV, Parquet or Excel file, or several with the same columns as one table.

Several files are given as a folder, as a pattern (`visits/*.parquet`) or as a list. A table is named by its file, and a
table of several files by the folder they are in. Which files there are, and which columns they have, is public.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from deniable._checks import type_of
from deniable._remedies import MORE, Option, Remedy
from deniable.errors import DataError
from deniable.query.engines import csv_records

NAMED = Option("data", {"visits": [MORE]})
"""A table by a name."""

_ENDINGS = {".csv": "CSV", ".csv.gz": "CSV", ".parquet": "Parquet", ".xlsx": "Excel"}
"""How files are read, by what their names end in."""
_KNOWN = ".csv, .csv.gz, .parquet or .xlsx"


@dataclass(frozen=True)
class Files:
    """Files that are one table. All are CSV, all are Parquet, or all are Excel."""

    given: Path | tuple[Path, ...]
    """A file, a folder, a pattern, or a list of files."""
    paths: tuple[Path, ...]
    encoding: str | None = None
    """How the text of CSV files is written; None is UTF-8."""

    @classmethod
    def of(cls, given: Any, *, encoding: str | None = None) -> Self:
        """The files that a path, a folder, a pattern or a list stands for, each of which can be read."""
        if is_list(given):
            return cls(listed := _listed(given), tuple(map(_file, listed)), encoding)._checked()
        _check_local(given)
        path = Path(given).absolute()
        if path.is_dir():
            found = _inside(path)
        elif is_pattern(path):
            found = _matching(path)
        else:
            found = (_file(path),)
        return cls(path, found, encoding)._checked()

    @property
    def csv(self) -> bool:
        """Whether the files are CSV."""
        return _ENDINGS[ending_of(self.paths[0])] == "CSV"

    @property
    def excel(self) -> bool:
        """Whether the files are Excel workbooks."""
        return _ENDINGS[ending_of(self.paths[0])] == "Excel"

    @property
    def name(self) -> str:
        """How messages call the files."""
        return self.paths[0].name if len(self.paths) == 1 else self.paths[0].parent.name

    @property
    def version(self) -> tuple[Any, ...]:
        """What changes when a file is written again, or when there are more or fewer of them."""
        try:
            again = type(self).of(self.given, encoding=self.encoding).paths
            return again, *((found.st_ino, found.st_size, found.st_mtime_ns) for found in map(os.stat, again))
        except (OSError, DataError):
            return ()

    def _checked(self) -> Self:
        kinds = {_ENDINGS[ending_of(path)] for path in self.paths}
        if len(kinds) > 1:
            raise DataError(
                f"the files of {self.name} must be all CSV or all Parquet; some are the one, some the other"
            )
        first: dict[tuple[int, int], Path] = {}
        for path in self.paths:
            found = path.stat()
            same = first.setdefault((found.st_dev, found.st_ino), path)
            if same is not path:  # every row of it would be there twice
                raise DataError(f"{same.name} and {path.name} of {self.name} are one file; give it once")
        if self.encoding is not None and self.csv:
            csv_records.check_encoding(self.encoding)
        return self


def _check_local(given: Any) -> None:
    """Refuse an address in a network, with the way to it: DuckDB's own extensions."""
    if not isinstance(given, str) or not re.match(r"[a-z][a-z0-9+.-]+://", given, re.IGNORECASE):
        return
    scheme = given.partition(":")[0].lower()
    extension = "azure" if scheme in ("az", "azure", "abfss") else "httpfs"
    raise DataError(
        f"{scheme}:// addresses are read through DuckDB's extension {extension}, by a connection of your own: "
        f"connection.execute(\"INSTALL {extension}; LOAD {extension}; CREATE TABLE visits AS FROM '{scheme}://…'\"), "
        "and then Session(connection, …); or download the file"
    )


def is_path(data: Any) -> bool:
    """Whether data are given by where they are: by a path, or by a list of paths."""
    return isinstance(data, str | os.PathLike) or is_list(data)


def is_list(data: Any) -> bool:
    """Whether data are several files."""
    return isinstance(data, list | tuple)


def is_pattern(path: Path) -> bool:
    """Whether a path has wildcards, and is no file of that very name."""
    return glob.has_magic(str(path)) and not path.exists()


def table_name(given: Any) -> str:
    """How the table in files is called: a file's by its name without the ending, that of several by their folder."""
    if is_list(given):
        folders = {path.parent for path in _listed(given)}
        if len(folders) > 1:
            raise DataError(Remedy(f"files of several folders are a table without a name; give {NAMED}", NAMED))
        return _folder_name(folders.pop())
    path = Path(given).absolute()
    if path.is_dir():
        return _folder_name(path)
    if is_pattern(path):
        first = next(place for place, part in enumerate(path.parts) if glob.has_magic(part))
        return _folder_name(Path(*path.parts[:first]))
    _check_local(given)
    return path.name[: -len(ending_of(path))] if ending_of(path) else path.stem


def ending_of(path: Path) -> str:
    """The ending that says how to read a file; empty where none does."""
    return next((ending for ending in _ENDINGS if path.name.lower().endswith(ending)), "")


def _listed(given: Sequence[Any]) -> tuple[Path, ...]:
    for one in given:
        if not isinstance(one, str | os.PathLike):
            raise DataError(f"a list of files must hold paths; it holds {type_of(one)}")
    if not given:
        raise DataError("a list of files must not be empty")
    return tuple(Path(one).absolute() for one in given)


def _folder_name(folder: Path) -> str:
    if not (name := folder.resolve().name):
        raise DataError(Remedy(f"the files are in a folder without a name; give {NAMED}", NAMED))
    return name


def _inside(folder: Path) -> tuple[Path, ...]:
    """The files of a folder. Those that begin with . or _ are notes of the programs that wrote it."""
    try:
        found = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    except OSError as failure:
        raise DataError(f"{folder} could not be opened: {failure.strerror}") from None
    for path in found:
        if path.is_dir():
            raise DataError(
                f"{folder} holds a folder, {path.name}, and names of folders are not read as columns; if all is in the "
                f"files, give a pattern, as in {folder.name}/*/*.parquet"
            )
    if not found:
        raise DataError(f"{folder} holds no files that end in {_KNOWN}")
    return tuple(map(_file, found))


def _matching(pattern: Path) -> tuple[Path, ...]:
    found = sorted(Path(path) for path in glob.glob(str(pattern), recursive=True) if not os.path.isdir(path))
    if not found:
        raise DataError(f"there is no file that fits the pattern {pattern}")
    return tuple(map(_file, found))


def _file(path: Path) -> Path:
    """The full path of a file that can be read, of a format that is known."""
    if not ending_of(path):
        raise DataError(f"{path.name} must end in {_KNOWN}, which says how to read it")
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path.name} is empty: not even column names; write the table again")
        with path.open("rb"):
            pass
    except OSError as failure:
        raise DataError(f"{path.name} could not be opened: {failure.strerror}") from None
    return path
