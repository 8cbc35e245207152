"""Processes that the fault tests start, race and kill: `python workers.py NAME PATH ...` prints one JSON line."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from deniable.errors import BudgetExceeded, LedgerError
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger, LedgerRecord
from deniable.ledger.stores import Balance, Row
from deniable.ledger.stores.sqlite import SQLiteStore
from deniable.ledger.stores.tables import TableStore


def race(path: str, scale: str, tries: str, locked: str) -> dict[str, int]:
    """Charge as often as it goes, once the parent says so. Without the lock, as a careless ledger would."""
    ledger = Ledger.open(path)
    if locked == "no":
        kind: Any = type(ledger._store)
        kind.writing = _no_lock
        kind.append = _append_anyway if kind is SQLiteStore else _append_anyway_on_a_server
        assert hasattr(LedgerRecord, "_check_vouchers")
        LedgerRecord._check_vouchers = lambda *anything: None  # type: ignore[method-assign]
    print("ready", flush=True)
    sys.stdin.readline()
    paid = refused = 0
    for _ in range(int(tries)):
        try:
            ledger.charge(Laplace(scale=int(scale)), purpose="race")
            paid += 1
        except BudgetExceeded:
            refused += 1
    return {"paid": paid, "refused": refused}


def allots(role: str) -> list[int]:
    """On each ledger that a line names: charge a twentieth ten times for ana, or allot her a quarter meanwhile."""
    done = []
    print("ready", flush=True)
    for number, path in enumerate(sys.stdin):
        count = 0
        with Ledger.open(path.strip()) as ledger:
            try:
                if role == "allot":
                    for _ in range(number):  # each time a little later in the other's charges
                        ledger.remaining()
                    ledger.allot("ana", PureDP(Fraction(1, 4)))
                    count = 1
                while role == "charge" and count < 10:
                    ledger.charge(Laplace(scale=20), purpose="race", who="ana")
                    count += 1
            except LedgerError:
                pass
        done.append(count)
        print("ready", flush=True)
    return done


@contextmanager
def _no_lock(self: object) -> Iterator[None]:
    yield


def _append_anyway(self: SQLiteStore, row: Row, balances: list[Balance]) -> None:
    """What an AUTOINCREMENT column would do: take the next number, whatever was read before."""
    connection = self._ensure_connection()
    connection.execute("BEGIN IMMEDIATE")
    # The row is written as it was computed; its number is whatever comes next.
    seq = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM rows").fetchone()[0]
    connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", (seq, row.key, row.body, row.hash))
    for balance in balances:
        connection.execute("INSERT OR REPLACE INTO balances VALUES (?, ?, ?, ?)", balance._replace(seq=seq))
    connection.execute("COMMIT")


def _append_anyway_on_a_server(self: Any, row: Row, balances: list[Balance]) -> None:
    """The same on a server: the insertion is whole, what it was computed from is old."""
    self.ask("BEGIN; LOCK TABLE balances IN EXCLUSIVE MODE")
    seq = self.ask("SELECT coalesce(max(seq), 0) + 1 FROM rows")[0][0]
    TableStore.append(self, row._replace(seq=seq), [balance._replace(seq=seq) for balance in balances])
    self.ask("COMMIT")


def kills(path: str, rounds: str) -> dict[str, int]:
    """Fork a child that charges without end, kill it at a random moment, and look at what is there. Again and again."""
    paid = interrupted = torn = 0
    pace = 0.01
    for number in range(int(rounds)):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _charge_for_ever(path, write, number)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            # A few answers first, so that slow machines are killed in the middle of charges too; then any moment.
            started = time.perf_counter()
            told = [int(pipe.readline()) for _ in range(random.randrange(4))]
            if told:
                pace = (time.perf_counter() - started) / len(told)
            time.sleep(random.random() * 2 * pace)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told += [int(word) for word in pipe.read().split()]
        # As a writer: a server may still be busy with what the dead child sent last, and holds the lock until then.
        with Ledger.open(path) as ledger, ledger._store.writing():
            end = ledger.head().seq
        # Everything the child was told is there; at most one more, whose answer the kill swallowed.
        last_told = told[-1] if told else paid
        torn += not last_told <= end <= last_told + 1
        interrupted += end - last_told
        paid = end
    return {"paid": paid, "interrupted": interrupted, "torn": torn}


def _charge_for_ever(path: str, write: int, number: int) -> None:
    ledger = Ledger.open(path)
    event = Laplace(scale=10**6)
    while True:
        made = ledger.charge(event, purpose=f"round {number}")
        # The release: told to the outside only after the charge returned.
        os.write(write, b"%d\n" % made.seq)


def small_disk(path: str, room: str) -> dict[str, object]:
    """Charge until the file may grow no more."""
    with Ledger.open(path) as ledger:
        ledger.charge(Laplace(scale=10**6), purpose="first")
        size = max(os.path.getsize(path), os.path.getsize(path + "-wal"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(room), resource.RLIM_INFINITY))
        told = 1
        try:
            while True:
                ledger.charge(Laplace(scale=10**6), purpose="until it is full")
                told += 1
        except LedgerError as error:
            text = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return {"told": told, "error": text}


def read_only(path: str) -> dict[str, object]:
    """Open and charge as a user who may only read."""
    ledger = Ledger.open(path)
    ledger.charge(Laplace(scale=10**6), purpose="while it may")
    ledger.close()
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        with Ledger.open(path) as again:
            again.charge(Laplace(scale=10**6), purpose="read only")
    except LedgerError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": None}


def another_user(path: str) -> dict[str, str | None]:
    """Open, look, charge and create as a user who owns nothing here; what is said of each."""
    os.setgid(65534)
    os.setuid(65534)
    attempts: dict[str, Callable[[], object]] = {
        "open": lambda: Ledger.open(path).close(),
        "look": lambda: Ledger.open(path).remaining(),
        "charge": lambda: Ledger.open(path).charge(Laplace(scale=10**6), purpose="q"),
        "create": lambda: Ledger.create(os.path.dirname(path) + "/b.ledger", unit="row", budget=PureDP(1)).close(),
    }
    found: dict[str, str | None] = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            found[name] = None
        except LedgerError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


WORK = {each.__name__: each for each in (race, allots, kills, small_disk, read_only, another_user)}

if __name__ == "__main__":
    found = WORK[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]
    print(json.dumps(found), flush=True)
