"""The checked copy of a CSV file: Parquet, written when the file is opened, and all that queries ever read of it.

`csv_records` checks the file and says where its records end. They go to small files of whole records, each of which
the engine reads from its first byte to its last, as one buffer, by one thread. So it never has to guess where a record
begins, whatever the fields hold and however many threads there are. At the end the rows that it read are as many as the
records that were checked. The copy is a snapshot: if the file changes later, nothing unchecked is read.

The columns of a CSV file have no types. The copy says so in its metadata (`UNTYPED`), so that a file that `convert`
wrote is read as the CSV file is.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb

from deniable._files import replacing
from deniable.errors import DataError
from deniable.query.engines.csv_records import CsvFile
from deniable.query.engines.files import Files
from deniable.query.engines.parquet import CONFIG, UNTYPED, ParquetSource, literal, read_parquet, text
from deniable.query.values import quoted

SHARD = 1 << 23
"""Bytes of records that are read in one piece, and one record more at most."""
_AT_ONCE = 16
"""Pieces that are read together. Twice as many are all that a copy takes of the disk beside itself."""
_ORDERED: dict[str, Any] = {**CONFIG, "preserve_insertion_order": "true"}
_NUMBERS = itertools.count()
_OPTIONS = (
    "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, DICTIONARY_SIZE_LIMIT 1000, "
    f"KV_METADATA {{deniable: '{UNTYPED}'}}"
)


def convert(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write CSV files as one checked Parquet file, which a session opens at once and reads as it would read them.

    The rows are in the order of the files. The columns are texts without types, as in the files.

    Args:
        data: a CSV file, a folder or pattern of CSV files, or a list of them; all with the same first line.
        out: the Parquet file to write. It can be read by its owner alone, and must not exist.
        encoding: how the text is written; UTF-8 if not given.
        overwrite: replace a file that is there.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "visits.csv").write_text("patient_id,city\\n1,Bern\\n2,Basel\\n")
    >>> convert(folder / "visits.csv", folder / "visits.parquet")
    """
    place, files = Path(out), Files.of(data, encoding=encoding)
    if not files.csv:
        raise DataError(f"{files.name} is Parquet already; a session reads it as it is")
    if place.suffix.lower() != ".parquet":
        raise DataError(f"{place.name} must end in .parquet, by which a session knows how to read it")
    with (
        replacing(place, overwrite=overwrite, inputs=files.paths, private=True) as beside,
        tempfile.TemporaryDirectory(prefix="deniable-") as folder,
        duckdb.connect(":memory:", config=_ORDERED) as connection,
    ):
        source = csv_source(files, Path(folder), ordered=True)
        try:
            connection.execute(f"COPY (SELECT * FROM {source.sql}) TO {text(str(beside))} ({_OPTIONS})")
        except duckdb.Error:
            raise DataError(f"{place.name} could not be written; check that there is room for it") from None


def csv_source(files: Files, folder: Path, *, ordered: bool = False) -> ParquetSource:
    """CSV files as something to select from, when they are checked and copied into a folder; `ordered` keeps their
    order."""
    known, copies = copy_csv(files.paths[0], folder, encoding=files.encoding, ordered=ordered)
    for path in files.paths[1:]:
        names, more = copy_csv(path, folder, encoding=files.encoding, ordered=ordered)
        if names != known:
            raise DataError(f"the files of {files.name} must have the same first line; {path.name} has another")
        copies += more
    return ParquetSource(read_parquet(copies), frozenset(known))


def copy_csv(
    path: Path, folder: Path, *, encoding: str | None = None, ordered: bool = False
) -> tuple[list[str], list[Path]]:
    """Write the checked copy of a CSV file into a folder. Says the column names, and the files of the copy."""
    copies: list[Path] = []
    rows, pending = 0, None
    config = _ORDERED if ordered else CONFIG
    with CsvFile(path, encoding=encoding) as file, duckdb.connect(":memory:", config=config) as connection:
        shards = _shards(file, folder)
        with ThreadPoolExecutor(max_workers=1) as pool:  # which copies some shards while the next are checked
            try:
                while some := list(itertools.islice(shards, _AT_ONCE)):
                    rows += 0 if pending is None else pending.result()
                    copies.append(_fresh(folder, "parquet"))
                    pending = pool.submit(_copied, connection, some, copies[-1], file.names)
                rows += 0 if pending is None else pending.result()
            except (OSError, duckdb.Error):
                raise DataError(
                    f"{path.name} could not be copied to the folder for temporary files; make room in "
                    f"{tempfile.gettempdir()}, or set TMPDIR to a folder that has room"
                ) from None
            except BaseException:
                connection.interrupt()
                raise
        if rows != file.number:
            raise DataError(f"{path.name} is not read as it was checked; write it as Parquet by another program")
    return file.names, copies


def _shards(file: CsvFile, folder: Path) -> Iterator[Path]:
    """The records of a file as files of whole records. Each begins with a line of names, so that the first letter of a
    record is never taken for a byte order mark."""
    records, first = file.records(), ",".join(_columns(file.names)) + ("\r\n" if file.crlf else "\n")
    block: bytes | None = b""
    while True:
        path, size = _fresh(folder, "csv"), 0
        with path.open("wb") as shard:
            shard.write(first.encode())
            while block is not None and size < SHARD:
                size += shard.write(block)
                block = next(records, None)
        yield path
        if block is None:
            return


def _copied(connection: duckdb.DuckDBPyConnection, shards: Sequence[Path], copy: Path, names: Sequence[str]) -> int:
    """Write shards as one Parquet file, and remove them. Says how many rows it has."""
    size = max(shard.stat().st_size for shard in shards) + 1
    columns = _columns(names)
    types = ", ".join(f"{column}: 'VARCHAR'" for column in columns)
    listed = ", ".join(f"{column} AS {quoted(name)}" for column, name in zip(columns, names, strict=True))
    places = ", ".join(literal(shard) for shard in shards)
    # Strict, and without options by which a line could be passed over.
    source = (
        f"READ_CSV([{places}], columns={{{types}}}, header=true, auto_detect=false, strict_mode=true, parallel=false, "
        f"delim=',', quote='\"', escape='\"', nullstr='', buffer_size={size}, max_line_size={size}, "
        "hive_partitioning=false)"
    )
    rows = connection.execute(f"COPY (SELECT {listed} FROM {source}) TO {text(str(copy))} ({_OPTIONS})").fetchall()
    for shard in shards:
        shard.unlink()
    return int(rows[0][0])


def _columns(names: Sequence[str]) -> list[str]:
    return [f"c{number}" for number in range(len(names))]


def _fresh(folder: Path, ending: str) -> Path:
    return folder / f"{next(_NUMBERS)}.{ending}"
