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
from deniable.ledger.stores.locations import printable_location
from deniable.ledger.stores.tables import Migrations, TableStore, migration_statements

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
        super().__init__(printable_location(path))
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
            raise LedgerMissing(
                f"there is no folder {printable_location(path.parent)}; make it, then create the ledger."
            )
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
            store._ensure_connection()
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
            connection = self._ensure_connection()
            self._appended = False
            with _translate_errors(self.place):
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
        """Commit, and tell two kinds of failure apart.

        SQLite writes the pages of a transaction to the log, the commit mark last, and then flushes the log to disk. If
        a write fails, there is no whole mark, and readers ignore pages without one: nothing was charged. After any
        other failure the mark may be on disk, and the charge may stand.
        """
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._appended and not _name(error).startswith(_BEFORE_THE_MARK):
                raise LedgerUnsure(
                    f"the disk failed while a charge was written to {self.place} ({error}): it may stand. Nothing may"
                    " be released. When the disk is well again, charge once more with the same key."
                ) from error
            raise _translate(error, self.place) from error

    def _check_file(self) -> None:
        """Refuse to write to a file that is no longer the one at the path."""
        if _file_at(self.path) != self._file:
            raise LedgerMissing(
                f"the ledger at {self.place} was removed or replaced while it was open; nothing was charged. Restore"
                " its latest state, and open it again."
            )
        _refuse_links(self.path, self.place)

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self.lock, _translate_errors(self.place):
            return self._ensure_connection().execute(statement, values).fetchall()

    def examine(self) -> None:
        # Rows are read through one tree and found by key through another: a damaged index must not go unnoticed.
        [[verdict]] = self.ask("PRAGMA integrity_check(1)")
        if verdict != "ok":
            raise LedgerDamaged(f"{self.place} is damaged ({verdict}); restore its latest state.")

    # connection

    def _ensure_connection(self) -> sqlite3.Connection:
        if self.connection is None:
            self._file = _file_at(self.path)
            if self._file is None:
                raise LedgerMissing(
                    f"the ledger at {self.place} is gone; restore its latest state before anything is released."
                )
            _files.expect_locks(self._file)
            with _translate_errors(self.place):
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


def _connect(path: Path, location: str) -> sqlite3.Connection:
    """A connection that never creates a file, with the durability that a ledger needs."""
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode=rw", uri=True, timeout=WAIT, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise LedgerDamaged(
                Remedy(f"{location} is not a ledger; give the path of a file that {CREATE} made.", CREATE)
            )
        connection.execute("PRAGMA synchronous=FULL")
        _migrate(connection, location)
    except (sqlite3.Error, LedgerError):
        connection.close()
        raise
    return connection


def _fill(beside: Path, path: Path, *, header: str, balance: Balance) -> None:
    """Write a new ledger."""
    with _translate_errors(printable_location(path)):
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
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _migrate(connection: sqlite3.Connection, location: str) -> None:
    """Lift an older file to this version, in one transaction; refuse a newer one."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have lifted it meanwhile: the version is read again under the lock.
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for statement in migration_statements(version, current=SCHEMA, migrations=MIGRATIONS, location=location):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={SCHEMA}")
    connection.execute("COMMIT")


# words


@contextmanager
def _translate_errors(location: str) -> Iterator[None]:
    """SQLite's errors in the ledger's words. None of them leaves a charge that was not asked for."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, location) from error


def _translate(error: sqlite3.Error, location: str) -> LedgerError:
    text, name = str(error), _name(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LedgerError(
            f"another process has been writing to {location} for {WAIT:.0f} s; nothing was charged. Try again."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
        return LedgerError(
            f"{location} cannot be written to by this user, so nothing was charged; make the file and its folder"
            " writable."
        )
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
        return LedgerError(
            f"the disk did not take the charge ({text}) for {location}; nothing was charged, and nothing may be"
            " released. Free some space, or mend the disk, and try again."
        )
    if name == "SQLITE_NOTADB":
        return LedgerDamaged(
            Remedy(
                f"{location} is not a ledger, or its first bytes are damaged; give the path of a file that {CREATE}"
                " made, or restore its latest state.",
                CREATE,
            )
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_AUTH")):
        return LedgerError(
            f"{location} could not be opened by this user; the file must be readable and writable, and its folder"
            " writable, for a log is kept beside it."
        )
    return LedgerDamaged(f"{location} is damaged or is not a ledger ({text}); restore its latest state.")


_BEFORE_THE_MARK = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY")
"""Failures of a COMMIT that happen while its pages are being written, or before."""


def _name(error: sqlite3.Error) -> str:
    """SQLite's name for an error; empty for one of the driver's own."""
    return getattr(error, "sqlite_errorname", None) or ""


# what is at a path


def _refuse_other(path: Path) -> None:
    """Refuse to open what cannot be a ledger, before SQLite touches it."""
    location = printable_location(path)
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        create = Option("Ledger.create", location)
        raise LedgerMissing(
            Remedy(f"there is no ledger at {location}; create it once with {create}.", create)
        ) from None
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "no file can have that name"
        raise LedgerError(f"{location} cannot be looked at: {reason}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise LedgerError(f"{location} is a folder; give the path of the ledger's file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"{location} is a device or a pipe, not the file of a ledger.")
    if is_export(path):
        raise LedgerError(
            f"{location} is an export of a ledger, which takes no charge: Ledger.read_export reads it, and so do"
            " `deniable ledger verify`, `deniable explain` and `deniable report`."
        )
    _refuse_links(path, location)


def _refuse_links(path: Path, location: str) -> None:
    """Refuse a file with two names. SQLite names the log after the file, so each name would have its own charges."""
    for _ in range(2):  # a new ledger has the name it was written under for a moment, and may lose it meanwhile
        if path.stat().st_nlink - _count_temporary_names(path) <= 1:
            return
    folder = printable_location(path.parent.absolute())
    raise LedgerError(
        f"{location} has a second name, a hard link, under which the newest charges are not seen; remove that name"
        f" (`find {folder} -samefile {location}` looks for it in the folder), or copy the file. Nothing was charged."
    )


def _count_temporary_names(path: Path) -> int:
    """How many names of a file are temporary names of `_files`, from a process that is writing or was killed."""
    if path.stat().st_nlink == 1:
        return 0
    own, count = _file_at(path), 0
    for each in Path(os.path.realpath(path)).parent.glob(f"{_files.TEMPORARY}*"):
        count += _file_at(each) == own
    return count


def _companions(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal")]


def _refuse_remains(path: Path) -> None:
    """Refuse to create a ledger beside the log of a removed one: SQLite would replay that log into the new file."""
    try:
        exists = os.path.lexists(path)
        remains = [each for each in _companions(path) if os.path.lexists(each)]
    except ValueError:
        raise LedgerError(f"{printable_location(path)} cannot be the name of a file. No ledger was created.") from None
    if exists:
        raise _exists(path)
    if remains:
        raise LedgerExists(
            f"{printable_location(remains[0])} belongs to a ledger that was at {printable_location(path)}; move it away"
            " or choose another path."
        )


def _exists(path: Path) -> LedgerExists:
    if path.is_dir():
        return LedgerExists(f"there is already a folder at {printable_location(path)}; choose another path.")
    return LedgerExists(
        Remedy(
            f"there is already something at {printable_location(path)}; open it with {OPEN}, or choose another path.",
            OPEN,
        )
    )
