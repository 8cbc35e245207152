"""What the stores share: the three tables of a ledger, how they are read, and how an older one is lifted.

`rows` has one line per charge and is only ever added to; `header` has what the ledger was created with; `balances` has
the running totals of every owner. SQLite and PostgreSQL both understand the statements; a question mark stands for a
value.

Forks: a connection must not be used or closed in a forked child. So every open store of this process is closed before a
fork, and opens again in the process that uses it next. The lock of every store is held across the fork, so that no
transaction is under way in another thread.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from deniable.errors import LedgerDamaged, LedgerError
from deniable.ledger.stores import Balance, Row


class Forkable(Protocol):
    """A store with a lock and one connection."""

    lock: threading.RLock
    connection: Any

    def in_transaction(self) -> bool:
        """Whether the connection is in the middle of something."""

    def close(self) -> None:
        """Close the connection."""


def register(store: Forkable) -> None:
    """Look after a store from now on."""
    _stores.add(store)


_stores: weakref.WeakSet[Forkable] = weakref.WeakSet()
_locked_stores: list[Forkable] = []
_abandoned: list[Any] = []


def _before_fork() -> None:
    for store in list(_stores):
        store.lock.acquire()
        _locked_stores.append(store)
        if store.connection is not None and not store.in_transaction():
            store.close()


def _after_fork_in_parent() -> None:
    while _locked_stores:
        _locked_stores.pop().lock.release()


def _after_fork_in_child() -> None:
    # The child has one thread, and it is not the owner the locks remember: fresh locks take their place.
    while _locked_stores:
        store = _locked_stores.pop()
        store.lock = threading.RLock()
        if store.connection is not None:
            # Forked from inside a transaction: the parent's connection may be neither used nor closed here.
            _abandoned.append(store.connection)
            store.connection = None


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


PAGE = 1000
"""Rows fetched at a time, so that reading a long record holds no lock."""

Migrations = Mapping[int, tuple[str, ...]]
"""The statements that lift tables from version n to n + 1, by n."""

_ROW = "SELECT seq, key, body, hash FROM rows"
_BALANCE = "SELECT owner, seq, terms, totals FROM balances"
_ADD_ROW = "INSERT INTO rows (seq, key, body, hash) VALUES (?, ?, ?, ?)"
_SET_BALANCE = (
    "INSERT INTO balances (owner, seq, terms, totals) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq, terms = excluded.terms, totals = excluded.totals"
)


class TableStore(ABC):
    """A ledger in three tables, reached by one connection under one lock."""

    def __init__(self, place: str) -> None:
        self.place = place
        """Where it is, in words that may be printed."""
        self.lock = threading.RLock()
        self.connection: Any = None
        register(self)

    @property
    @abstractmethod
    def address(self) -> str:
        """What `Ledger.open` takes to find it again; it holds no password."""

    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether the connection is in the middle of a transaction."""

    @abstractmethod
    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement; what it returns."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; a later call opens it again."""

    def header(self) -> str:
        lines = self.ask("SELECT body FROM header")
        if not lines:
            raise LedgerDamaged(f"{self.place} has no header; restore it from a copy of its latest state.")
        return str(lines[0][0])

    def last(self) -> Row | None:
        return self._row(f"{_ROW} ORDER BY seq DESC LIMIT 1")

    def row(self, seq: int) -> Row | None:
        return self._row(f"{_ROW} WHERE seq = ?", seq)

    def by_key(self, key: str) -> Row | None:
        return self._row(f"{_ROW} WHERE key = ?", key)

    def _row(self, statement: str, *values: object) -> Row | None:
        lines = self.ask(statement, *values)
        return Row(*lines[0]) if lines else None

    def rows(self, *, start: int = 1, stop: int | None = None) -> Iterator[Row]:
        end = (1 << 63) - 1 if stop is None else stop
        while page := self.ask(f"{_ROW} WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?", start, end, PAGE):
            yield from map(Row._make, page)
            start = page[-1][0] + 1

    def balance(self, owner: str) -> Balance | None:
        lines = self.ask(f"{_BALANCE} WHERE owner = ?", owner)
        return Balance(*lines[0]) if lines else None

    def balances(self) -> list[Balance]:
        return [Balance(*line) for line in self.ask(f"{_BALANCE} ORDER BY owner")]

    def examine(self) -> None:  # noqa: B027  a database server looks after its own pages
        """Refuse a place whose own structure is damaged."""

    def where(self, seq: int | None) -> str:
        if seq is None:
            return ""
        return f"row {seq} of the ledger" if seq else "the ledger's header"

    def append(self, row: Row, balances: list[Balance]) -> None:
        self.ask(_ADD_ROW, *row)
        for balance in balances:
            self.ask(_SET_BALANCE, *balance)


def migration_statements(version: int, *, current: int, migrations: Migrations, location: str) -> Iterator[str]:
    """The statements that lift tables from a version to the current one; a newer version is refused."""
    if version > current:
        raise LedgerError(
            f"{location} has schema {version}, written by a newer deniable; this one knows {current}. Upgrade."
        )
    for step in range(version, current):
        if step not in migrations:
            raise LedgerDamaged(f"{location} has schema {version}, from which there is no way to {current}.")
        yield from migrations[step]
