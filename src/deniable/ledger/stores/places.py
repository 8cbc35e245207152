"""Which store an address means: `postgresql://…` is a server, anything else a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeGuard

from deniable.errors import InvalidArgument
from deniable.ledger.stores import Balance, Store

Place = str | os.PathLike[str]
_SERVERS = ("postgresql://", "postgres://")


def created(place: Place, *, header: str, balance: Balance) -> Store:
    """A new store at a place where there is nothing."""
    if is_server(place):
        from deniable.ledger.stores.postgres import PostgresStore

        return PostgresStore.create(place, header=header, balance=balance)
    from deniable.ledger.stores.sqlite import SQLiteStore

    return SQLiteStore.create(_file(place), header=header, balance=balance)


def opened(place: Place) -> Store:
    """The store at a place. Opening never creates."""
    if is_server(place):
        from deniable.ledger.stores.postgres import PostgresStore

        return PostgresStore.open(place)
    from deniable.ledger.stores.sqlite import SQLiteStore

    return SQLiteStore.open(_file(place))


def is_server(place: Place) -> TypeGuard[str]:
    """Whether a place is the address of a server."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def _file(place: Place) -> Path:
    # Another spelling of a server's address is not taken for a file's name, nor printed: it may hold a password.
    if isinstance(place, str) and ("://" in place or "password=" in place.lower()):
        raise InvalidArgument("path", "...", "the path of a file, or postgresql://user:password@host/database#ledger")
    if not isinstance(place, str | os.PathLike) or not os.fspath(place):
        raise InvalidArgument("path", place, "the path of a ledger's file, or a postgresql:// address")
    return Path(place)
