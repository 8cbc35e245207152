"""A ledger in one SQLite file: write-ahead log, synchronous FULL, immediate transactions.

`BEGIN IMMEDIATE` takes the write lock before anything is read, so that two processes cannot both see the last of a
budget. `synchronous=FULL` flushes the log to disk before a commit returns. Opening never creates and creating never
overwrites: a new ledger is written beside its place and linked into it, and a link never replaces a file. A file that
is removed, renamed or replaced while it is open would take charges that nobody finds again: before and after every
charge, the file that is open must be the one at the path.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deniable import _files
from deniable._remedies import CREATE, OPEN, Option, Remedy
from deniable.errors import (
    FileError,
    FileExists,
    LedgerDamaged,
    LedgerError,
    LedgerExists,
    LedgerMissing,
    LedgerUnsure,
)
from deniable.ledger.exports import is_export
from deniable.ledger.stores import Balance, Row
from deniable.ledger.stores.places import shown_place
from deniable.ledger.stores.tables import Migrations, TableStore, lifting

APPLICATION = 0x64656E69
"""Marks the file as a ledger ("deni"), in SQLite's own header."""
SCHEMA = 1
"""The version of the tables; the statements of `MIGRATIONS[n]` lift a file from n to n + 1."""
MIGRATIONS: Migrations = {}
WAIT = 60.0
"""Seconds to wait for another writer before giving up."""

_TABLES = """
CREATE TABLE header (only INTEGER PRIMARY KEY CHECK (only = 1), body TEXT NOT NULL);
CREATE TABLE rows (seq INTEGER PRIMARY KEY, key TEXT UNIQUE, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE balances (owner TEXT PRIMARY KEY, seq INTEGER NOT NULL, terms TEXT NOT NULL, totals TEXT NOT NULL);
CREATE TRIGGER no_update BEFORE UPDATE ON rows BEGIN SELECT RAISE(ABORT, 'rows are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON rows BEGIN SELECT RAISE(ABORT, 'rows are never removed'); END;
"""


class SQLiteStore(TableStore):
    """A ledger's file. Safe to use from several threads and from several processes."""

    def __init__(self, path: Path) -> None:
        super().__init__(shown_place(path))
        self.path = path.absolute()  # wherever the process goes
        self._file: tuple[int, int] | None = None
        """The file that is open."""
        self._appended = False

    @property
    def address(self) -> str:
        return str(self.path)

    @classmethod
    def create(cls, path: Path, *, header: str, balance: Balance) -> SQLiteStore:
        """A new file at a path where there is nothing."""
        _refuse_remains(path)
        if not path.parent.is_dir():
            raise LedgerMissing(f"there is no folder {shown_place(path.parent)}; make it, then create the ledger.")
        try:
            with _files.replacing(path, private=True) as beside:
                try:
                    _fill(beside, path, header=header, balance=balance)
                finally:
                    for leftover in _companions(beside):
                        leftover.unlink(missing_ok=True)
        except FileExists:
            raise _exists(path) from None
        except FileError as failure:
            raise LedgerError(f"{failure} No ledger was created.") from None
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> SQLiteStore:
        """The file at a path, checked to be a ledger of a version this program knows."""
        _refuse_other(path)
        store = cls(path)
        with store.lock:
            store._connected()
        return store

    # transactions

    def append(self, row: Row, balances: list[Balance]) -> None:
        self._appended = True
        super().append(row, balances)

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self.lock:
            with self._transaction("BEGIN IMMEDIATE"):
                self._check_file()
                yield
            if _file_at(self.path) != self._file:
                raise LedgerUnsure(
                    f"the ledger at {self.place} was removed or replaced while a charge was written; the charge may be"
                    " lost, and nothing may be released. Restore its latest state, and open it again."
                )

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self.lock:
            connection = self._connected()
            self._appended = False
            with _said(self.place):
                connection.execute(begin)
            try:
                yield
                self._commit(connection)
            finally:
                # After an error of any kind, an interrupt included, nothing of the transaction may remain.
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    def _commit(self, connection: sqlite3.Connection) -> None:
        """COMMIT, whose failures are of two kinds.

        SQLite writes the pages of a transaction to the log, the commit mark last, and then has the disk take the log. A
        write that fails leaves no whole mark, and no reader ever accepts pages without one: nothing was charged. After
        any other failure the mark may be on disk, and may be found there after a crash.
        """
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._appended and not _name(error).startswith(_BEFORE_THE_MARK):
                raise LedgerUnsure(
                    f"the disk failed while a charge was written to {self.place} ({error}): it may stand. Nothing may"
                    " be released. When the disk is well again, charge once more with the same key."
                ) from error
            raise _translated(error, self.place) from error

    def _check_file(self) -> None:
        """Refuse to write where nobody would read."""
        if _file_at(self.path) != self._file:
            raise LedgerMissing(
                f"the ledger at {self.place} was removed or replaced while it was open; nothing was charged. Restore"
                " its latest state, and open it again."
            )
        _refuse_links(self.path, self.place)

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self.lock, _said(self.place):
            return self._connected().execute(statement, values).fetchall()

    def examine(self) -> None:
        # Rows are read through one tree and found by key through another: a damaged index must not go unnoticed.
        [[found]] = self.ask("PRAGMA integrity_check(1)")
        if found != "ok":
            raise LedgerDamaged(f"{self.place} is damaged ({found}); restore its latest state.")

    # connection

    def _connected(self) -> sqlite3.Connection:
        if self.connection is None:
            self._file = _file_at(self.path)
            if self._file is None:
                raise LedgerMissing(
                    f"the ledger at {self.place} is gone; restore its latest state before anything is released."
                )
            with _said(self.place):
                self.connection = _connect(self.path, self.place)
        connected: sqlite3.Connection = self.connection
        return connected

    def in_transaction(self) -> bool:
        return self.connection is not None and bool(self.connection.in_transaction)

    def close(self) -> None:
        with self.lock:
            if self.connection is not None:
                self.connection.close()
                self.connection = None


def _connect(path: Path, place: str) -> sqlite3.Connection:
    """A connection that never creates a file, with the durability that a ledger needs."""
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode=rw", uri=True, timeout=WAIT, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise LedgerDamaged(Remedy(f"{place} is not a ledger; give the path of a file that {CREATE} made.", CREATE))
        connection.execute("PRAGMA synchronous=FULL")
        _migrate(connection, place)
    except (sqlite3.Error, LedgerError):
        connection.close()
        raise
    return connection


def _fill(beside: Path, path: Path, *, header: str, balance: Balance) -> None:
    """Write a new ledger."""
    with _said(shown_place(path)):
        connection = sqlite3.connect(beside, isolation_level=None)
        try:
            connection.executescript(
                f"PRAGMA page_size=4096; PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL; BEGIN; {_TABLES}"
                f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={SCHEMA};"
            )
            connection.execute("INSERT INTO header VALUES (1, ?)", (header,))
            connection.execute("INSERT INTO balances VALUES (?, ?, ?, ?)", balance)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file is at a path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _migrate(connection: sqlite3.Connection, place: str) -> None:
    """Lift an older file to this version, in one transaction; refuse a newer one."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have lifted it meanwhile: the version is read again under the lock.
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for statement in lifting(version, known=SCHEMA, migrations=MIGRATIONS, place=place):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={SCHEMA}")
    connection.execute("COMMIT")


# words


@contextmanager
def _said(place: str) -> Iterator[None]:
    """SQLite's errors in the ledger's words. None of them leaves a charge that was not asked for."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error, place) from error


def _translated(error: sqlite3.Error, place: str) -> LedgerError:
    text, name = str(error), _name(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LedgerError(
            f"another process has been writing to {place} for {WAIT:.0f} s; nothing was charged. Try again."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
        return LedgerError(
            f"{place} cannot be written to by this user, so nothing was charged; make the file and its folder writable."
        )
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
        return LedgerError(
            f"the disk did not take the charge ({text}) for {place}; nothing was charged, and nothing may be released."
            " Free some space, or mend the disk, and try again."
        )
    if name == "SQLITE_NOTADB":
        return LedgerDamaged(
            Remedy(
                f"{place} is not a ledger, or its first bytes are damaged; give the path of a file that {CREATE} made,"
                " or restore its latest state.",
                CREATE,
            )
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_AUTH")):
        return LedgerError(
            f"{place} could not be opened by this user; the file must be readable and writable, and its folder"
            " writable, for a log is kept beside it."
        )
    return LedgerDamaged(f"{place} is damaged or is not a ledger ({text}); restore its latest state.")


_BEFORE_THE_MARK = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY")
"""Failures of a COMMIT that happen while its pages are being written, or before."""


def _name(error: sqlite3.Error) -> str:
    """SQLite's name for an error; empty for one of the driver's own."""
    return getattr(error, "sqlite_errorname", None) or ""


# what is at a path


def _refuse_other(path: Path) -> None:
    """Refuse to open what cannot be a ledger, before SQLite touches it."""
    place = shown_place(path)
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        create = Option("Ledger.create", place)
        raise LedgerMissing(Remedy(f"there is no ledger at {place}; create it once with {create}.", create)) from None
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "no file can have that name"
        raise LedgerError(f"{place} cannot be looked at: {reason}.") from None
    if stat.S_ISDIR(found.st_mode):
        raise LedgerError(f"{place} is a folder; give the path of the ledger's file in it.")
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"{place} is a device or a pipe, not the file of a ledger.")
    if is_export(path):
        raise LedgerError(
            f"{place} is an export of a ledger, which takes no charge: Ledger.read_export reads it, and so do"
            " `deniable ledger verify`, `deniable explain` and `deniable report`."
        )
    _refuse_links(path, place)


def _refuse_links(path: Path, place: str) -> None:
    """Refuse a file with two names. SQLite finds the log by the name: each name would have charges of its own."""
    for _ in range(2):  # a new ledger has the name it was written under for a moment, and may lose it meanwhile
        if path.stat().st_nlink - _names_while_written(path) <= 1:
            return
    folder = shown_place(path.parent.absolute())
    raise LedgerError(
        f"{place} has a second name, a hard link, under which the newest charges are not seen; remove that name"
        f" (`find {folder} -samefile {place}` looks for it in the folder), or copy the file. Nothing was charged."
    )


def _names_while_written(path: Path) -> int:
    """How many names of a file are those that `_files` writes under, left by a process that is at it, or was killed."""
    if path.stat().st_nlink == 1:
        return 0
    own, count = _file_at(path), 0
    for each in Path(os.path.realpath(path)).parent.glob(f"{_files.TEMPORARY}*"):
        count += _file_at(each) == own
    return count


def _companions(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal")]


def _refuse_remains(path: Path) -> None:
    """A stray log of a removed ledger would be replayed into a new one: refuse to start beside it."""
    try:
        taken = os.path.lexists(path)
        remains = [each for each in _companions(path) if os.path.lexists(each)]
    except ValueError:
        raise LedgerError(f"{shown_place(path)} cannot be the name of a file. No ledger was created.") from None
    if taken:
        raise _exists(path)
    if remains:
        raise LedgerExists(
            f"{shown_place(remains[0])} belongs to a ledger that was at {shown_place(path)}; move it away or choose"
            " another path."
        )


def _exists(path: Path) -> LedgerExists:
    if path.is_dir():
        return LedgerExists(f"there is already a folder at {shown_place(path)}; choose another path.")
    return LedgerExists(
        Remedy(f"there is already something at {shown_place(path)}; open it with {OPEN}, or choose another path.", OPEN)
    )
