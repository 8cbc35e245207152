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

Place = str | os.PathLike[str]
_SERVERS = ("postgresql://", "postgres://")
_WORD = r"(?:^|\s)(?:host|hostaddr|port|dbname|user|service|sslmode)\s*="
_ADDRESS = re.compile(
    rf"://|^\s*postgres[\w+]*[:;]|(?:^|\s)(?:pass\w*|pwd)\s*=|{_WORD}.*{_WORD}|(?:^|[/\\])[^/\\]*:[^/\\]*@",
    re.IGNORECASE | re.DOTALL,
)
"""What an address looks like that was mistyped: another scheme, one slash, words of libpq, `user:password@host`."""


def created(place: Place, *, header: str, balance: Balance) -> Store:
    """A new store at a place where there is nothing."""
    if is_server(place):
        from deniable.ledger.stores.postgres import PostgresStore

        return PostgresStore.create(place, header=header, balance=balance)
    from deniable.ledger.stores.sqlite import SQLiteStore

    return SQLiteStore.create(file_at(place), header=header, balance=balance)


def opened(place: Place) -> Store:
    """The store at a place. Opening never creates."""
    if is_server(place):
        from deniable.ledger.stores.postgres import PostgresStore

        return PostgresStore.open(place)
    from deniable.ledger.stores.sqlite import SQLiteStore

    return SQLiteStore.open(file_at(place))


def is_server(place: Place) -> TypeGuard[str]:
    """Whether a place is the address of a server."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def shown_place(path: Place) -> str:
    """A path as it may be printed: whole, what would act unseen as escapes, and without a password."""
    return printable(redacted(os.fspath(path)))


def file_at(place: object) -> Path:
    """The path of a file. Another spelling of a server's address is not taken for one, and its password not shown."""
    expected = "the path of a file, or postgresql://user:password@host/database#ledger"
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        # Whatever it is, an address may be in it.
        raise InvalidArgument("path", place if place is None or isinstance(place, Number) else "...", expected)
    if _ADDRESS.search(text):
        raise InvalidArgument("path", "...", expected)
    return Path(text)
