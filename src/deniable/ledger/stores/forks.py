"""Connections and forks: a connection must not be carried across a fork, not even to be closed there.

Every open store of this process is closed before a fork, and opens again in whichever process uses it next. The lock
of every store is held across the fork, so that no transaction is under way in another thread.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol


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
_held: list[Forkable] = []
_abandoned: list[Any] = []


def _before_fork() -> None:
    for store in list(_stores):
        store.lock.acquire()
        _held.append(store)
        if store.connection is not None and not store.in_transaction():
            store.close()


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().lock.release()


def _after_fork_in_child() -> None:
    # The child has one thread, and it is not the owner the locks remember: fresh locks take their place.
    while _held:
        store = _held.pop()
        store.lock = threading.RLock()
        if store.connection is not None:
            # Forked from inside a transaction: the parent's connection may be neither used nor closed here.
            _abandoned.append(store.connection)
            store.connection = None


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
