"""Real processes: races of workers on one budget, workers that are killed, stores that are set back.

`make soak` has the long forms: 1,000 races of 16 clients, 10,000 kills.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import deniable as dn
from deniable.errors import LedgerDamaged
from deniable.service import running
from deniable.service.settings import ServiceSettings
from deniable.service.store import KEY, ServiceStore
from tests import postgres
from tests.service.conftest import Service
from tests.service.processes import QUESTION, Client, group, make_folder, serving, supervisor

CLIENTS, FIT = 16, 3
"""Clients of a race, each for ε = 0.1, and how many of them fit what is left."""


def raise_budget(book: dn.Ledger, race: int) -> None:
    """Let three more runs in."""
    epsilon = Fraction(FIT * (race + 1), 10)
    book.raise_allotment("ana", dn.PureDP(epsilon, unit="patient_id"), decision="the next race")


def check_books(place: str) -> tuple[int, int]:
    """Charges and stored answers. Each answer has the charge of its own run, and the ledger is whole."""
    with dn.Ledger.open(place) as book:
        book.verify()
        charges = {charge.key: charge.seq for charge in book.charges()}
        assert len(charges) * Fraction(1, 10) <= book.analysts()["ana"].numbers["epsilon"]
    store = ServiceStore(place)
    answers = store.runs("id IN (SELECT run FROM service_answers)")
    store.close()
    for run in answers:
        assert charges[f"{KEY}{run.id}"] == run.charge
    assert len({run.charge for run in answers}) == len(answers)
    return len(charges), len(answers)


def race_over_http(folder: Path, *, races: int, kills: bool) -> None:
    tokens = make_folder(folder, deadline=0)
    place = ServiceSettings.read(folder).ledger_place
    with (
        serving(folder) as port,
        dn.Ledger.open(place) as book,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        clients = [Client(port, tokens["ana"]) for _ in range(CLIENTS)]

        def spend(number: int, race: int) -> int:
            """The status of a run. A service ends connections that are idle; then it is asked again by its key."""
            for _ in range(2):
                if status := clients[number].ask("POST", "/v1/runs", QUESTION, f"{race} {number}")[0]:
                    break
            return status

        for race in range(races):
            raise_budget(book, race)
            statuses = list(pool.map(spend, range(CLIENTS), [race] * CLIENTS))
            assert sorted(statuses) == [202] * FIT + [402] * (CLIENTS - FIT)
        raise_budget(book, races)
        if kills:
            kill_among_clients(folder, pool, spend, races)
        wait_for_answers(clients[0], tokens)
        for client in clients:
            client.close()
    charges, answers = check_books(place)
    if kills:
        assert FIT * races <= answers <= charges <= FIT * (races + 1)
    else:
        assert charges == answers == FIT * races


def kill_among_clients(folder: Path, pool: ThreadPoolExecutor, spend: Any, race: int) -> None:
    """Kill a worker while all ask; then all ask again under the same keys, of the worker that is left or comes."""
    service = supervisor(folder)
    workers = [pid for pid in group(service) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    asked = [pool.submit(spend, number, race) for number in range(CLIENTS)]
    time.sleep(random.Random(1).random() * 0.02)
    os.kill(workers[0], signal.SIGKILL)
    statuses = [each.result() for each in asked]
    for number in range(CLIENTS):
        for _ in range(200):
            if statuses[number]:
                break
            time.sleep(0.02)
            statuses[number] = spend(number, race)
    assert set(statuses) <= {202, 402, 409, 503}


def wait_for_answers(client: Client, tokens: dict[str, str]) -> None:
    for _ in range(500):
        listed = client.ask("GET", "/v1/runs")[1] or [{"state": "running", "id": "none"}]
        pending = [run["id"] for run in listed if run["state"] == "running"]
        if not pending:
            return
        client.ask("GET", f"/v1/runs/{pending[0]}")  # one that lost its worker ends when it is looked at
        time.sleep(0.02)
    raise AssertionError("a run has no end")


def test_races_over_http_and_a_killed_worker(tmp_path: Path) -> None:
    """Two workers, sixteen clients: three of sixteen fit, in every race; then one worker dies among them."""
    race_over_http(tmp_path, races=4, kills=True)


@pytest.mark.soak
def test_a_thousand_races_over_http(tmp_path: Path) -> None:
    race_over_http(tmp_path, races=1000, kills=False)


def race_of_processes(folder: Path, ledger: str, *, races: int) -> None:
    make_folder(folder, ledger=ledger, deadline=0)
    command = [sys.executable, "-m", "tests.service.processes", "worker", str(folder)]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    place = ServiceSettings.read(folder).ledger_place
    with dn.Ledger.open(place) as book:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "[]\n"
        for race in range(races):
            raise_budget(book, race)
            for first, worker in enumerate(workers):
                assert worker.stdin is not None
                worker.stdin.write(json.dumps([race, list(range(first, CLIENTS, 2))]) + "\n")
                worker.stdin.flush()
            states = [state for worker in workers if worker.stdout for state in json.loads(worker.stdout.readline())]
            assert sorted(states) == ["charged"] * FIT + ["refused"] * (CLIENTS - FIT)
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    assert check_books(place) == (FIT * races, FIT * races)


@pytest.fixture
def address() -> Iterator[str]:
    """Where a ledger can be, on a server that keeps what it says it keeps."""
    with postgres.running(durable=True) as server:
        parts = dict(part.split("=") for part in server.database().split())
        yield f"postgresql:///?{urlencode(parts)}#service"


def test_races_on_postgresql(tmp_path: Path, address: str) -> None:
    race_of_processes(tmp_path, address, races=4)


@pytest.mark.soak
def test_a_thousand_races_on_postgresql(tmp_path: Path, address: str) -> None:
    race_of_processes(tmp_path, address, races=1000)


def kill_many(folder: Path, *, count: int) -> None:
    make_folder(folder, deadline=0)
    with dn.Ledger.open(folder / "t.ledger") as book:
        book.raise_allotment("ana", dn.PureDP(1000, unit="patient_id"), decision="x")
    subprocess.run([sys.executable, "-m", "tests.service.processes", "kills", str(folder), str(count)], check=True)
    assert (folder / "end").exists()
    running.recover(ServiceSettings.read(folder))
    charges, answers = check_books(str(folder / "t.ledger"))
    assert 0 < answers < charges  # some were lost, and none of these is answered
    seen = defaultdict(set)
    for line in (folder / "shown").read_text().splitlines():
        if line.endswith("]"):  # the last one of a killed worker may be cut
            _, _, charge, release = json.loads(line)
            seen[charge].add(release)
    assert len(seen) > 3
    assert all(len(releases) == 1 for releases in seen.values())  # whoever asked, and whenever
    store = ServiceStore(str(folder / "t.ledger"))
    assert store.runs("state IN ('queued', 'charged')") == []
    store.close()


def test_killed_workers_leave_one_answer_for_a_charge(tmp_path: Path) -> None:
    kill_many(tmp_path, count=20)


@pytest.mark.soak
def test_ten_thousand_killed_workers(tmp_path: Path) -> None:
    kill_many(tmp_path, count=10_000)


# stores that are set back


@pytest.mark.parametrize("what", ["the file", "the ledger's tables", "the service's tables"])
def test_either_store_set_back_alone_gives_no_second_answer(service: Service, tmp_path: Path, what: str) -> None:
    service.submit("analyst", "k1", fresh=True)
    service.curator.close()
    for ending in ("", "-wal", "-shm"):
        if (path := tmp_path / f"t.ledger{ending}").exists():
            shutil.copy(path, tmp_path / f"copy{ending}")
    service.open()
    service.submit("analyst", "k2", fresh=True)
    service.clock.now += 5
    first = service.submit("analyst", "k2", fresh=True).value["release"]
    text = service.ask("analyst", "GET", f"/v1/releases/{first}").body
    store = service.curator.store
    if what == "the service's tables":
        store.ask("DELETE FROM service_runs WHERE id = ?", first)
        store.ask("DELETE FROM service_answers WHERE run = ?", first)
    elif what == "the ledger's tables":
        for (name,) in store.ask("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            store.ask(f'DROP TRIGGER "{name}"')
        store.ask("DELETE FROM rows WHERE seq = (SELECT MAX(seq) FROM rows)")
    service.curator.close()
    if what == "the file":
        for ending in ("", "-wal", "-shm"):
            (tmp_path / f"t.ledger{ending}").unlink(missing_ok=True)
            if (path := tmp_path / f"copy{ending}").exists():
                shutil.copy(path, tmp_path / f"t.ledger{ending}")
    if what == "the service's tables":
        running.recover(service.settings)
        service.open()
        assert service.submit("analyst", "k2", fresh=True).status == 409  # the key is burnt
        assert service.ask("analyst", "GET", f"/v1/releases/{first}").status == 404
        assert text not in str(service.curator.store.ask("SELECT release FROM service_answers")).encode()
    else:
        with pytest.raises(LedgerDamaged):
            running.recover(service.settings)
        service.open = lambda: None  # type: ignore[method-assign]
