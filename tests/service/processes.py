"""Processes that tests race and kill: a service with workers, workers without HTTP, and workers that are killed.

python -m tests.service.processes worker FOLDER        races: one line of JSON in, one out
python -m tests.service.processes kills FOLDER COUNT   forks a worker COUNT times, and kills each at a random moment
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import deniable as dn
from deniable.errors import BudgetExceeded, DeniableError
from deniable.service import access, requests
from deniable.service.curator import Curator
from deniable.service.jobs import view
from deniable.service.settings import FILE, ServiceSettings
from deniable.service.store import ServiceStore

QUESTION = {
    "sql": "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "epsilon": 0.1, "fresh": True,
    "keys": {"city": ["Bern", "Basel"]}, "per_unit": {"groups": 1, "rows": 2},
}  # fmt: skip


def make_folder(folder: Path, *, ledger: str = "t.ledger", epsilon: float = 1000, **stated: Any) -> dict[str, str]:
    """A service's folder with a small table and the analyst `ana`; tokens by account."""
    rows = "".join(f"{i},{('Bern', 'Basel')[i % 2]},{i % 50}\n" for i in range(60))
    (folder / "visits.csv").write_text("patient_id,city,cost\n" + rows)
    plain = {"planning_seconds": 0, "most_waiting": 10**6, "most_waiting_each": 10**6, "ledger": ledger, **stated}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    (folder / FILE).write_text("\n".join([*lines, "[tables]", 'visits = "visits.csv"', ""]))
    settings = ServiceSettings.read(folder)
    with dn.Ledger.create(settings.ledger_place, unit="patient_id", epsilon=epsilon) as book:
        book.allot("ana", epsilon=0.1)
    store, tokens = ServiceStore(settings.ledger_place), {}
    for name, role in (("ana", "analyst"), ("ota", "owner")):
        entry = access.Access(store, settings)
        entry.add_account(name, role, password=None, now=time.time())
        tokens[name] = entry.add_token(name, label="", days=None, now=time.time())[1]
    store.close()
    return tokens


class Client:
    """One connection to a service; opened again where it broke."""

    def __init__(self, port: int, token: str | None) -> None:
        self._port, self._token = port, token
        self._open: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        """A status and a value; status 0 where the connection broke."""
        headers = {"Idempotency-Key": key or "-"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            if self._open is None:
                self._open = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            self._open.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._open.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return 0, None
        return answer.status, json.loads(content) if content else None

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


@contextmanager
def serving(folder: Path, *, workers: int = 2) -> Iterator[int]:
    """The port of a service that runs in processes of its own: `deniable serve run`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["serve", "run", "--folder", str(folder), "--port", str(port), "--workers", str(workers)]
    with (folder / "service.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "deniable", *command], stderr=log, stdout=log, start_new_session=True
        )
    try:
        client, end = Client(port, None), time.monotonic() + 60
        while client.ask("GET", "/healthz")[0] != 200:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((folder / "service.log").read_text())
            time.sleep(0.02)
        client.close()
        yield port
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def supervisor(folder: Path) -> int:
    """The process that `serving` has started for a folder."""
    command = [b"serve", b"run", b"--folder", str(folder).encode()]
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and (path / "cmdline").read_bytes().split(b"\0")[3:7] == command:
                return int(path.name)
    raise RuntimeError("there is no such process")


def group(pid: int) -> dict[int, float]:
    """The processes of a group, each with the seconds of CPU that it has used."""
    used, ticks = {}, os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and os.getpgid(int(path.name)) == pid:
                words = (path / "stat").read_text().rpartition(")")[2].split()
                used[int(path.name)] = (int(words[11]) + int(words[12])) / ticks
    return used


# workers without HTTP


def submit(curator: Curator, key: str) -> str:
    """The state of a new run, or why it was refused."""
    try:
        return curator.jobs.submit("ana", requests.decode(json.dumps(QUESTION)), key).state
    except BudgetExceeded:
        return "refused"
    except DeniableError as failure:
        return type(failure).__name__


def _work(folder: str) -> None:
    """Races: a line has the race and the numbers of its clients; the answer is the state of each."""
    curator = Curator(ServiceSettings.read(folder))
    with ThreadPoolExecutor(8) as clients:
        print("[]", flush=True)
        for line in sys.stdin:
            race, numbers = json.loads(line)
            keys = [f"{race} {number}" for number in numbers]
            print(json.dumps(list(clients.map(submit, [curator] * len(keys), keys))), flush=True)
    curator.close()


def _kill(folder: str, count: int) -> None:
    """Fork a worker, kill it, and again. A worker asks under the last worker's keys first, and under new ones then; it
    writes down every answer that it is shown."""
    rng = random.Random(count)
    warm = Curator(ServiceSettings.read(folder))
    submit(warm, "warm")  # everything is imported before the first fork
    warm.close()
    child, start = _fork(folder, 0, asks=4)  # lives, to tell how long a worker needs
    os.waitpid(child, 0)
    long = time.monotonic() - start
    for turn in range(1, count + 1):
        child, start = _fork(folder, turn, asks=1000)
        time.sleep(rng.random() * long)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    (Path(folder) / "end").touch()


def _fork(folder: str, turn: int, *, asks: int) -> tuple[int, float]:
    """A worker, and when it began to ask."""
    child, ready = os.fork(), Path(folder) / f"ready {turn}"
    if child == 0:
        try:
            _ask_on(folder, turn, asks=asks)
        finally:
            os._exit(0)
    start = time.monotonic()
    while not ready.exists() and time.monotonic() < start + 30:
        time.sleep(0.001)
    ready.unlink()
    return child, time.monotonic()


def _ask_on(folder: str, turn: int, *, asks: int) -> None:
    curator = Curator(ServiceSettings.read(folder))
    curator.jobs.give_up_lost()
    shown = (Path(folder) / "shown").open("a", buffering=1)
    (Path(folder) / f"ready {turn}").touch()
    for key in (f"k{turn - 1} 0", *(f"k{turn} {number}" for number in range(asks - 1))):
        try:
            run = curator.jobs.submit("ana", requests.decode(json.dumps(QUESTION)), key)
            while view(curator.store.run(run.id) or run, time.time()).state == "running":
                time.sleep(0.001)
            told = curator.store.run(run.id)
            release = curator.store.answer(run.id)
            if told is not None and release is not None:
                shown.write(json.dumps([key, told.id, told.charge, release]) + "\n")
        except DeniableError:
            continue


if __name__ == "__main__":
    access.HASHER = access.argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # nobody logs in
    if sys.argv[1] == "worker":
        _work(sys.argv[2])
    else:
        _kill(sys.argv[2], int(sys.argv[3]))
