"""Which store an address means: `postgresql://…` is a server, anything else a file."""

from __future__ import annotations

import os
import re
from numbers import Number
from pathlib import Path
from typing import TypeGuard

from deniable._escapes import printable, redacted
from deniable.errors import InvalidArgument
from deniable.ledger.stores import Balance, Store

Location = str | os.PathLike[str]
_SERVERS = ("postgresql://", "postgres://")
_WORD = r"(?:^|\s)(?:host|hostaddr|port|dbname|user|service|sslmode)\s*="
_ADDRESS = re.compile(
    rf"://|^\s*postgres[\w+]*[:;]|(?:^|\s)(?:pass\w*|pwd)\s*=|{_WORD}.*{_WORD}|(?:^|[/\\])[^/\\]*:[^/\\]*@",
    re.IGNORECASE | re.DOTALL,
)
"""Matches a mistyped address: another scheme, one slash, words of libpq, `user:password@host`."""


def create_store(location: Location, *, header: str, balance: Balance) -> Store:
    """A new store at a place where there is nothing."""
    if is_server(location):
        from deniable.ledger.stores.postgres import PostgresStore

        return PostgresStore.create(location, header=header, balance=balance)
    from deniable.ledger.stores.sqlite import SQLiteStore

    return SQLiteStore.create(file_at(location), header=header, balance=balance)


def open_store(location: Location) -> Store:
    """The store at a place. Opening never creates."""
    if is_server(location):
        from deniable.ledger.stores.postgres import PostgresStore

        return PostgresStore.open(location)
    from deniable.ledger.stores.sqlite import SQLiteStore

    return SQLiteStore.open(file_at(location))


def is_server(location: Location) -> TypeGuard[str]:
    """Whether a place is the address of a server."""
    return isinstance(location, str) and location.startswith(_SERVERS)


def printable_location(path: Location) -> str:
    """A path in printable form: control characters escaped, passwords removed."""
    return printable(redacted(os.fspath(path)))


def shown_location(location: Location) -> str:
    """A place as the messages of its store name it."""
    if not is_server(location):
        return printable_location(location)
    from deniable.ledger.stores.postgres import Address

    return Address.parse(location).shown


def file_at(location: object) -> Path:
    """The path of a file. A mistyped address of a server is refused, without showing its password."""
    expected = "the path of a file, or postgresql://user:password@host/database#ledger"
    text = os.fspath(location) if isinstance(location, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        # Objects are not shown: they may hold an address.
        raise InvalidArgument("path", location if location is None or isinstance(location, Number) else "...", expected)
    if _ADDRESS.search(text):
        raise InvalidArgument("path", "...", expected)
    return Path(text)
