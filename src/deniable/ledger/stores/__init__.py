"""Stores: where a ledger is kept. A store orders and keeps rows; the ledger gives them their meaning.

A `RecordSource` can be read: the header, the rows, the totals. An export is one (`deniable.ledger.exports`).

A `Store` is a source that also takes rows. It promises four things: rows are only ever appended; `writing()` lets one
writer in at a time, across threads and processes; when `writing()` ends without an error its rows survive a crash of
the process and of the machine; when it ends with an error nothing of it remains (where a connection is lost at the
wrong moment and nobody can be asked, the error is `LedgerUnsure`). SQLite keeps these promises on a local disk
(`sqlite.py`), PostgreSQL for several hosts (`postgres.py`); both are `tables.py`. Another store is another class with
these methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol


class Row(NamedTuple):
    """One line of the record: its number from 1, its idempotency key, its canonical JSON and the SHA-256 of that."""

    seq: int
    key: str | None
    body: str
    hash: str


class Balance(NamedTuple):
    """One owner's terms and running totals, as of a row; "" owns the budget that everybody shares."""

    owner: str
    seq: int
    terms: str
    totals: str


class RecordSource(Protocol):
    """A record that can be read."""

    place: str
    """Where it is, in words that may be printed."""

    def header(self) -> str:
        """The first line: what the ledger is about, as it was created."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """A context in which all reads see the same state."""
        ...

    def last(self) -> Row | None:
        """The newest row."""
        ...

    def row(self, seq: int) -> Row | None:
        """The row with a number."""
        ...

    def rows(self, *, start: int = 1, stop: int | None = None) -> Iterator[Row]:
        """Rows in order, from `start` up to and with `stop`."""
        ...

    def balance(self, owner: str) -> Balance | None:
        """An owner's running totals."""
        ...

    def balances(self) -> list[Balance]:
        """All running totals."""
        ...

    def examine(self) -> None:
        """Refuse a place whose own structure, its indexes included, is damaged."""
        ...

    def where(self, seq: int | None) -> str:
        """Where a row is, in words: row 7 of the ledger, line 8 of a file. 0 is the header, None the totals."""
        ...

    def close(self) -> None:
        """Let go of files; a later call opens them again."""
        ...


class Store(RecordSource, Protocol):
    """A source that also takes rows."""

    @property
    def address(self) -> str:
        """What `Ledger.open` takes to find it again from another process; it holds no password."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """A context with one writer at a time. When it ends without an error, its rows are durable."""
        ...

    def by_key(self, key: str) -> Row | None:
        """The row with an idempotency key."""
        ...

    def append(self, row: Row, balances: list[Balance]) -> None:
        """One more row and the totals after it; inside `writing()` only."""
        ...
