"""A ledger in one SQLite file: write-ahead log, synchronous FULL, immediate transactions.

`BEGIN IMMEDIATE` takes the write lock before anything is read, so that two processes cannot both see the last of a
budget. `synchronous=FULL` flushes the log to disk before a commit returns. Opening never creates and creating never
overwrites: a new ledger is written beside its place and linked into it, and a link never replaces a file.

SQLite must not be carried across a fork, not even to be closed there. Every open store of this process is therefore
closed before a fork, and opens again in whichever process uses it next.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deniable.errors import LedgerDamaged, LedgerError, LedgerExists, LedgerMissing
from deniable.ledger.stores import Balance, Row

APPLICATION = 0x64656E69
"""Marks the file as a ledger ("deni"), in SQLite's own header."""
SCHEMA = 1
"""The version of the tables; the statements of `MIGRATIONS[n]` lift a file from n to n + 1."""
MIGRATIONS: dict[int, tuple[str, ...]] = {}
WAIT = 60.0
"""Seconds to wait for another writer before giving up."""
PAGE = 1000
"""Rows fetched at a time, so that reading a long record holds no lock."""

_TABLES = """
CREATE TABLE header (only INTEGER PRIMARY KEY CHECK (only = 1), body TEXT NOT NULL);
CREATE TABLE rows (seq INTEGER PRIMARY KEY, key TEXT UNIQUE, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE balances (owner TEXT PRIMARY KEY, seq INTEGER NOT NULL, terms TEXT NOT NULL, totals TEXT NOT NULL);
CREATE TRIGGER no_update BEFORE UPDATE ON rows BEGIN SELECT RAISE(ABORT, 'rows are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON rows BEGIN SELECT RAISE(ABORT, 'rows are never removed'); END;
"""


class SQLiteStore:
    """A ledger's file. Safe to use from several threads and from several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        _open_stores.add(self)

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
        with store._lock:
            store._connected()
        return store

    # rows

    def header(self) -> str:
        found = self._one("SELECT body FROM header WHERE only = 1")
        if found is None:
            raise LedgerDamaged(f"{self.path} has no header; restore it from a copy of its latest state.")
        return str(found[0])

    def last(self) -> Row | None:
        found = self._one("SELECT seq, key, body, hash FROM rows ORDER BY seq DESC LIMIT 1")
        return None if found is None else Row(*found)

    def row(self, seq: int) -> Row | None:
        found = self._one("SELECT seq, key, body, hash FROM rows WHERE seq = ?", seq)
        return None if found is None else Row(*found)

    def by_key(self, key: str) -> Row | None:
        found = self._one("SELECT seq, key, body, hash FROM rows WHERE key = ?", key)
        return None if found is None else Row(*found)

    def rows(self, *, start: int = 1, stop: int | None = None) -> Iterator[Row]:
        end = (1 << 63) - 1 if stop is None else stop
        page = self._all(
            "SELECT seq, key, body, hash FROM rows WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?", start, end, PAGE
        )
        while page:
            yield from (Row(*found) for found in page)
            page = self._all(
                "SELECT seq, key, body, hash FROM rows WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                page[-1][0],
                end,
                PAGE,
            )

    def balance(self, owner: str) -> Balance | None:
        found = self._one("SELECT owner, seq, terms, totals FROM balances WHERE owner = ?", owner)
        return None if found is None else Balance(*found)

    def balances(self) -> list[Balance]:
        return [Balance(*found) for found in self._all("SELECT owner, seq, terms, totals FROM balances ORDER BY owner")]

    def append(self, row: Row, balances: list[Balance]) -> None:
        with _said(self.path):
            connection = self._connected()
            connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", row)
            for balance in balances:
                connection.execute("INSERT OR REPLACE INTO balances VALUES (?, ?, ?, ?)", balance)

    # transactions

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock:
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

    def _one(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        found = self._all(statement, *values)
        return found[0] if found else None

    def _all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, _said(self.path):
            return self._connected().execute(statement, values).fetchall()

    # connection

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            with _said(self.path):
                self._connection = _connect(self.path)
        return self._connection

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


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


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Lift an older file to this version, in one transaction; refuse a newer one."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA:
        raise LedgerError(
            f"{path} has schema {version}, written by a newer deniable; this one knows {SCHEMA}. Upgrade."
        )
    if version == SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have lifted it meanwhile: the version is read again under the lock.
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for step in range(version, SCHEMA):
        if step not in MIGRATIONS:
            raise LedgerDamaged(f"{path} has schema {version}, from which there is no way to {SCHEMA}.")
        for statement in MIGRATIONS[step]:
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


# Forks. The lock of every store is held across the fork, so that no transaction is under way in another thread.

_open_stores: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()
_held: list[SQLiteStore] = []
_abandoned: list[sqlite3.Connection] = []


def _before_fork() -> None:
    for store in list(_open_stores):
        store._lock.acquire()
        _held.append(store)
        if store._connection is not None and not store._connection.in_transaction:
            store.close()


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop()._lock.release()


def _after_fork_in_child() -> None:
    # The child has one thread, and it is not the owner the locks remember: fresh locks take their place.
    while _held:
        store = _held.pop()
        store._lock = threading.RLock()
        if store._connection is not None:
            # Forked from inside a transaction: the parent's connection may be neither used nor closed here.
            _abandoned.append(store._connection)
            store._connection = None


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
