"""What a charge costs: `make bench ROOM=ledger`.

Beside every round of charges, in the same run and on the same disk, bare SQLite inserts one row of the same size per
transaction with the same durability (write-ahead log, synchronous FULL), with one process and with eight. Then the same
charge against ten entries and against a million, and what it takes to open, read, verify and export the million, and to
verify the export. Last, to verify entries that all differ, of which each is costed anew.

The figures go to bench/results: ledger-<date>.md and the history.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import history

from deniable.accounting.filters import FilterEntry, replay
from deniable.events import Laplace
from deniable.guarantees import ApproxDP
from deniable.ledger import Ledger, records
from deniable.ledger.accounts import COMMON, Account, read
from deniable.ledger.stores import Row

HERE = Path(__file__).resolve().parent
SECONDS = 3.0
ROUNDS = 3
MANY = 1_000_000
DIFFERENT = 10_000
EVENT = Laplace(scale=10**6)
BUDGET = ApproxDP(3, 1e-6)


def charge_for(path: str, seconds: float) -> int:
    """How many charges one process makes in some seconds."""
    made, end = 0, time.perf_counter() + seconds
    with Ledger.open(path) as ledger:
        while time.perf_counter() < end:
            ledger.charge(EVENT, purpose="how many visits")
            made += 1
    return made


def insert_for(path: str, seconds: float) -> int:
    """How many bare inserts one process makes in some seconds."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    body, made, end = "x" * 420, 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (body) VALUES (?)", (body,))
        connection.execute("COMMIT")
        made += 1
    connection.close()
    return made


WORK = {"charge": charge_for, "insert": insert_for}


def rate(kind: str, folder: Path, processes: int) -> float:
    """Commits per second of some processes on one new file."""
    path = folder / f"{kind}-{time.monotonic_ns()}"
    if kind == "charge":
        Ledger.create(path, unit="row", budget=BUDGET).close()
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE rows (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        connection.close()
    command = [sys.executable, str(HERE / "ledger.py"), "--work", kind, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(int(each.communicate()[0]) for each in running) / SECONDS


def filled(path: Path, size: int) -> Ledger:
    """A ledger with many entries that are alike."""
    return bulk(path, [(FilterEntry(EVENT), size)])


def various(path: Path, size: int) -> Ledger:
    """A ledger with many entries that all differ."""
    return bulk(path, [(FilterEntry(Laplace(scale=10**6 + number)), 1) for number in range(size)])


def bulk(path: Path, entries: list[tuple[FilterEntry, int]]) -> Ledger:
    """A ledger written in bulk: the spelling, the chain and the totals that charges would make."""
    ledger = Ledger.create(path, unit="row", budget=BUDGET)
    store, size = ledger._store, sum(count for _, count in entries)
    account = read(store, COMMON)
    if account is None:
        raise SystemExit("a new ledger without an account")
    after = Account(COMMON, account.terms, replay(account.terms.filters, entries).shorten())
    voucher = records.voucher(after.balance(size))
    prev = records.digest(store.header())
    made: list[Row] = []
    ledger.close()
    for what in (text for entry, count in entries for text in [records.charge_ending(entry, None)] * count):
        row = records.make_row(
            seq=len(made) + 1,
            prev=prev,
            totals={COMMON: voucher},
            time=records.now(),
            purpose="how many visits",
            key=None,
            what=what,
        )
        made.append(row)
        prev = row.hash
    connection = sqlite3.connect(path)
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", made)
    connection.execute("INSERT OR REPLACE INTO balances VALUES (?, ?, ?, ?)", after.balance(size))
    connection.commit()
    connection.close()
    return Ledger.open(path)


def milliseconds(ledger: Ledger, charges: int = 60) -> float:
    """The median time of a charge."""
    taken = []
    for _ in range(charges):
        start = time.perf_counter()
        ledger.charge(EVENT, purpose="how many visits")
        taken.append(time.perf_counter() - start)
    return 1000 * statistics.median(taken)


def reading(many: Ledger, folder: Path) -> list[str]:
    """What it takes to read a long record: a table of times, on the clock and on the processor."""
    export, differing = folder / "many.jsonl", various(folder / "various", DIFFERENT)
    many.close()
    tasks: dict[str, Callable[[], object]] = {
        f"open {MANY:,} entries": lambda: Ledger.open(folder / "many").close(),
        f"the last 20 charges of {MANY:,}": lambda: list(many.charges(last=20)),
        f"charges() of {MANY:,}": lambda: sum(1 for _ in many.charges()),
        f"verify {MANY:,} entries": many.verify,
        f"export {MANY:,} entries": lambda: export.write_text("".join(f"{line}\n" for line in many.export())),
        f"verify an export of {MANY:,}": lambda: Ledger.read_export(export),
        f"charges() of {DIFFERENT:,} different ones": lambda: [charge.event for charge in differing.charges()],
        f"verify {DIFFERENT:,} different entries": differing.verify,
    }
    lines = ["| | seconds | on the processor |", "|---|---|---|"]
    for name, task in tasks.items():
        start, worked = time.perf_counter(), time.process_time()
        task()
        taken, worked = time.perf_counter() - start, time.process_time() - worked
        history.add("ledger", name, taken, "s")
        lines.append(f"| {name} | {taken:.3g} | {worked:.3g} |")
    differing.close()
    load = f"The machine's load was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    return [*lines, "", f"{load} Targets: charges() in seconds, verify ≤ 15 s on an idle machine."]


def main() -> None:
    """Measure, print and write down."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        lines = ["| processes | bare inserts / s | charges / s | ratio (target ≥ 0.5) |", "|---|---|---|---|"]
        for processes in (1, 8):
            pairs = [(rate("insert", folder, processes), rate("charge", folder, processes)) for _ in range(ROUNDS)]
            bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(charged / inserted for inserted, charged in pairs)
            history.add("ledger", f"{processes} processes", ours, "charges/s", peer="bare inserts", ratio=ratio)
            lines.append(f"| {processes} | {bare:.0f} | {ours:.0f} | {ratio:.2f} |")
        few, many = filled(folder / "few", 10), filled(folder / "many", MANY)
        # In turns, so that both meet the same state of the disk.
        turns = [(milliseconds(few), milliseconds(many)) for _ in range(5)]
        small, large = (statistics.median(column) for column in zip(*turns, strict=True))
        lines += [
            "",
            f"A charge against 10 entries takes {small:.2f} ms, against {MANY:,} {large:.2f} ms (medians of 300,"
            f" in turns; ratio {large / small:.2f}).",
            "",
            *reading(many, folder),
        ]
        few.close()
        many.close()
    report = "\n".join(lines)
    print(report)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {versions}"
    history.keep("ledger", f"# Ledger, {today}\n\n{machine}\n\n{report}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", nargs=2, metavar=("KIND", "PATH"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        print(WORK[asked.work[0]](asked.work[1], SECONDS))
    else:
        main()
