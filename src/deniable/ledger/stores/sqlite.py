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
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deniable.errors import LedgerDamaged, LedgerError, LedgerExists, LedgerMissing, LedgerUnsure
from deniable.ledger.stores import Balance
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
        super().__init__(str(path))
        self.path = path.absolute()  # wherever the process goes
        self._file: tuple[int, int] | None = None
        """The file that is open."""

    @property
    def address(self) -> str:
        return str(self.path)

    @classmethod
    def create(cls, path: Path, *, header: str, balance: Balance) -> SQLiteStore:
        """A new file at a path where there is nothing."""
        _refuse_remains(path)
        if not path.parent.is_dir():
            raise LedgerMissing(f"there is no folder {path.parent}; make it, then create the ledger.")
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        os.close(handle)
        beside = Path(name)
        try:
            with _said(path), sqlite3.connect(beside, isolation_level=None) as connection:
                connection.executescript(
                    f"PRAGMA page_size=4096; PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL; BEGIN; {_TABLES}"
                    f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={SCHEMA};"
                )
                connection.execute("INSERT INTO header VALUES (1, ?)", (header,))
                connection.execute("INSERT INTO balances VALUES (?, ?, ?, ?)", balance)
                connection.execute("COMMIT")
                connection.execute("PRAGMA journal_mode=WAL")
            connection.close()
            try:
                os.link(beside, path)
            except FileExistsError:
                raise _exists(path) from None
        finally:
            for leftover in (beside, *_companions(beside)):
                leftover.unlink(missing_ok=True)
        _flush_folder(path.parent)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> SQLiteStore:
        """The file at a path, checked to be a ledger of a version this program knows."""
        if not path.exists():
            raise LedgerMissing(f"there is no ledger at {path}; create it once with Ledger.create({str(path)!r}, ...).")
        store = cls(path)
        with store.lock:
            store._connected()
        return store

    # transactions

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self.lock:
            with self._transaction("BEGIN IMMEDIATE"):
                self._check_file()
                yield
            if _file_at(self.path) != self._file:
                raise LedgerUnsure(
                    f"the ledger at {self.path} was removed or replaced while a charge was written; the charge may be"
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
            with _said(self.path):
                connection.execute(begin)
            try:
                yield
                with _said(self.path):
                    connection.execute("COMMIT")
            finally:
                # After an error of any kind, an interrupt included, nothing of the transaction may remain.
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    def _check_file(self) -> None:
        """Refuse to write where nobody would read."""
        if _file_at(self.path) != self._file:
            raise LedgerMissing(
                f"the ledger at {self.path} was removed or replaced while it was open; nothing was charged. Restore"
                " its latest state, and open it again."
            )
        if self.path.stat().st_nlink > 1:
            # SQLite finds the log by the file's name: under another one, the last charges would not be seen.
            raise LedgerError(
                f"{self.path} has a second name, a hard link, under which the last charges may not be seen; remove it."
                " Nothing was charged."
            )

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self.lock, _said(self.path):
            return self._connected().execute(statement, values).fetchall()

    def examine(self) -> None:
        # Rows are read through one tree and found by key through another: a damaged index must not go unnoticed.
        [[found]] = self.ask("PRAGMA integrity_check(1)")
        if found != "ok":
            raise LedgerDamaged(f"{self.path} is damaged ({found}); restore its latest state.")

    # connection

    def _connected(self) -> sqlite3.Connection:
        if self.connection is None:
            self._file = _file_at(self.path)
            with _said(self.path):
                self.connection = _connect(self.path)
        connected: sqlite3.Connection = self.connection
        return connected

    def in_transaction(self) -> bool:
        return self.connection is not None and bool(self.connection.in_transaction)

    def close(self) -> None:
        with self.lock:
            if self.connection is not None:
                self.connection.close()
                self.connection = None


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that never creates a file, with the durability that a ledger needs."""
    if not path.exists():
        raise LedgerMissing(f"the ledger at {path} is gone; restore its latest state before anything is released.")
    connection = sqlite3.connect(
        f"file:{_quoted(path)}?mode=rw", uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False
    )
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise LedgerDamaged(f"{path} is not a ledger; give the path of a file that Ledger.create made.")
        connection.execute("PRAGMA synchronous=FULL")
        _migrate(connection, path)
    except (sqlite3.Error, LedgerError):
        connection.close()
        raise
    return connection


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file is at a path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Lift an older file to this version, in one transaction; refuse a newer one."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have lifted it meanwhile: the version is read again under the lock.
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for statement in lifting(version, known=SCHEMA, migrations=MIGRATIONS, place=str(path)):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={SCHEMA}")
    connection.execute("COMMIT")


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """SQLite's errors in the ledger's words. None of them leaves a charge that was not asked for."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error, path) from error


def _translated(error: sqlite3.Error, path: Path) -> LedgerError:
    text = str(error)
    if isinstance(error, sqlite3.OperationalError) and "locked" in text:
        return LedgerError(
            f"another process has been writing to {path} for {WAIT:.0f} s; nothing was charged. Try again."
        )
    if "readonly" in text or "read-only" in text:
        return LedgerError(
            f"{path} cannot be written to, so nothing can be charged; make the file and its folder writable."
        )
    if "full" in text or "I/O" in text or "too large" in text:
        return LedgerError(
            f"the disk did not take the charge ({text}) for {path}; nothing may be released. Free some space."
        )
    if "not a database" in text:
        return LedgerDamaged(
            f"{path} is not a ledger, or its first bytes are damaged; give the path of a file that Ledger.create made,"
            " or restore its latest state."
        )
    if "unable to open" in text:
        return LedgerError(
            f"{path} could not be opened ({text}); its folder must be writable, for a log is kept beside it."
        )
    return LedgerDamaged(f"{path} is damaged or is not a ledger ({text}); restore its latest state.")


def _companions(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal")]


def _refuse_remains(path: Path) -> None:
    """A stray log of a removed ledger would be replayed into a new one: refuse to start beside it."""
    if os.path.lexists(path):
        raise _exists(path)
    for remains in _companions(path):
        if os.path.lexists(remains):
            raise LedgerExists(
                f"{remains} belongs to a ledger that was at {path}; move it away or choose another path."
            )


def _exists(path: Path) -> LedgerExists:
    return LedgerExists(f"there is already something at {path}; open it with Ledger.open, or choose another path.")


def _quoted(path: Path) -> str:
    """A path for a file: URI."""
    from urllib.parse import quote

    return quote(os.fspath(path.absolute()))


def _flush_folder(folder: Path) -> None:
    """Make a new name survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
