"""What a service does for 16 clients at a time, and what its clock tells: `make bench ROOM=service`.

Speed: a service with two workers in processes of their own, asked over HTTP by 16 threads of this process, on the same
cores. Plans (with a child that can be killed, as it runs by default), stored releases, and runs with one worker on one
core against two on two. A plan of the library alone, in this process, stands beside.

Time: one look is how long an answer takes from the question until it is shown. Four pairs of neighbouring tables, and
a pair in which one of the two always fails after its charge, are asked in turns. The AUC says how well one look tells
the neighbours apart: 1/2 is chance. Its upper end is at 95 %. The control is the same question without a deadline and
without `steady`.

    python bench/service.py [--seconds 5] [--looks 2000] [--only speed|time]

The figures go to bench/results: service-<date>.md and the history.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import history
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import deniable as dn
from deniable.service import jobs, requests
from deniable.service.access import Access
from deniable.service.curator import Curator
from deniable.service.settings import FILE, ServiceSettings
from deniable.service.store import ServiceStore
from tests.service.processes import Client, group, make_folder, serving, supervisor

CLIENTS = 16
CITIES = ["Basel", "Bern", "Geneva", "Lausanne", "Zurich"]
QUESTION: dict[str, Any] = {
    "sql": "SELECT city, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY city", "epsilon": 0.1,
    "bounds": {"cost": [0, 1000]}, "keys": {"city": CITIES}, "per_unit": {"groups": 1, "rows": 4},
}  # fmt: skip


# speed


def percentile(times: list[float], share: float) -> float:
    """A percentile of times, in milliseconds."""
    return sorted(times)[min(len(times) - 1, math.ceil(share * len(times)) - 1)] * 1000


def load(
    port: int, tokens: list[str], ask: Callable[[Client, int], int], *, clients: int, seconds: float
) -> list[float]:
    """How long each request took, of clients that ask one after the other for some seconds."""
    times: list[list[float]] = [[] for _ in range(clients)]
    end = time.perf_counter() + seconds

    def go(number: int) -> None:
        client, turn = Client(port, tokens[number]), number
        while (start := time.perf_counter()) < end:
            status = ask(client, turn)
            if status not in (200, 202):
                raise SystemExit(f"the service answered {status}")
            times[number].append(time.perf_counter() - start)
            turn += clients
        client.close()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(go, range(clients)))
    return [each for listed in times for each in listed]


def plan(client: Client, turn: int) -> int:
    return client.ask("POST", "/v1/plans", QUESTION)[0]


def run(client: Client, turn: int) -> int:
    asked = {**QUESTION, "fresh": True, "epsilon": 1e-4}
    status, told = client.ask("POST", "/v1/runs", asked, f"{turn} {time.monotonic_ns()}")
    while status < 300 and told["state"] == "running":
        status, told = client.ask("GET", f"/v1/runs/{told['id']}")
    return status


def fill(folder: Path, *, rows: int, **stated: Any) -> list[str]:
    """A service over made-up visits; the tokens of its analysts, one for each client."""
    folder.mkdir()
    make_folder(folder, epsilon=10**6, **stated)
    lines = [f"{i % (rows // 3)},{CITIES[i % (rows // 3) % 5]},{i * 7919 % 900}" for i in range(rows)]
    (folder / "visits.csv").write_text("patient_id,city,cost\n" + "\n".join(lines) + "\n")
    settings, tokens = ServiceSettings.read(folder), []
    store = ServiceStore(settings.ledger_place)
    access = Access(store, settings)
    with dn.Ledger.open(settings.ledger_place) as book:
        for number in range(CLIENTS):
            name = f"analyst {number}"
            access.add_account(name, "analyst", password=None, now=time.time())
            tokens.append(access.add_token(name, label="", days=None, now=time.time())[1])
            book.allot(name, epsilon=10**4)
    store.close()
    return tokens


def measure_speed(folder: Path, seconds: float) -> list[str]:
    """Plans, stored releases and runs."""
    lines = ["| what | 1 client | 16 clients | CPU of the service for each | goal |", "|---|---|---|---|---|"]
    tokens = fill(folder / "a", rows=3000, deadline=0, planning_seconds=1.0)
    curator = Curator(ServiceSettings.of(folder / "a", {"ledger": "t.ledger", "tables": {"visits": "visits.csv"},
                                                        "planning_seconds": 0}))  # fmt: skip
    alone, text, cpu_start = [], json.dumps(QUESTION), time.process_time()
    for _ in range(100):
        start = time.perf_counter()
        requests.summary(requests.make_plan(curator.session.as_("analyst 0"), requests.decode(text), curator.settings))
        alone.append(time.perf_counter() - start)
    cpu_alone = (time.process_time() - cpu_start) / len(alone)
    curator.close()
    with serving(folder / "a") as port:
        client = Client(port, tokens[0])
        for _ in range(20):
            plan(client, 0)
        used = CPU(folder / "a")
        one, many = (load(port, tokens, plan, clients=clients, seconds=seconds) for clients in (1, CLIENTS))
        added = percentile(one, 0.5) - percentile(alone, 0.5)
        lines.append(told("plan", one, many, seconds, used, "≥ 300/s, p99 ≤ 100 ms"))
        lines.append(
            f"| plan in the library alone | p50 {percentile(alone, 0.5):.1f} ms | | {cpu_alone * 1000:.2f} ms | |"
        )
        lines.append(f"| the service adds | {added:.1f} ms | | | ≤ 5 ms |")
        history.add("service", "plans, 16 clients", len(many) / seconds, "/s")
        history.add("service", "plan p99, 16 clients", percentile(many, 0.99), "ms")
        history.add("service", "added to a plan", added, "ms")
        client.close()  # the service has ended it meanwhile
        run(client, 0)
        id = client.ask("GET", "/v1/releases")[1][0]["id"]

        def read(client: Client, turn: int) -> int:
            return client.ask("GET", f"/v1/releases/{id}")[0]

        own, used = [tokens[0]] * CLIENTS, CPU(folder / "a")
        one, many = (load(port, own, read, clients=clients, seconds=seconds) for clients in (1, CLIENTS))
        lines.append(told("stored release", one, many, seconds, used, "≥ 3,000/s"))
        history.add("service", "stored releases, 16 clients", len(many) / seconds, "/s")
    rates = {}
    for cores in (1, 2):
        tokens = fill(folder / f"r{cores}", rows=3000, deadline=0)
        whole = os.sched_getaffinity(0)
        os.sched_setaffinity(0, set(sorted(whole)[:cores]))
        try:
            with serving(folder / f"r{cores}", workers=cores) as port:
                load(port, tokens, run, clients=4, seconds=1)
                rates[cores] = len(load(port, tokens, run, clients=CLIENTS, seconds=seconds)) / seconds
        finally:
            os.sched_setaffinity(0, whole)
    ratio = rates[2] / rates[1]
    lines.append(f"| runs, 1 core and 1 worker | | {rates[1]:.1f}/s | | |")
    lines.append(f"| runs, 2 cores and 2 workers | | {rates[2]:.1f}/s, {ratio:.2f} times as many | | ≥ 1.8 |")
    history.add("service", "runs from one core to two", ratio, "times")
    return lines


class CPU:
    """The CPU that a service uses from now on."""

    def __init__(self, folder: Path) -> None:
        self._service = supervisor(folder)
        self._before = sum(group(self._service).values())

    def for_each(self, requests: int) -> float:
        """Milliseconds for each of some requests."""
        return (sum(group(self._service).values()) - self._before) * 1000 / requests


def told(name: str, one: list[float], many: list[float], seconds: float, used: CPU, goal: str) -> str:
    """One line of the table."""
    cells = [
        f"{len(times) / seconds:.0f}/s, p50 {percentile(times, 0.5):.1f}, p99 {percentile(times, 0.99):.1f} ms"
        for times in (one, many)
    ]
    each = used.for_each(len(one) + len(many))
    history.add("service", f"{name}: CPU for each", each, "ms")
    return f"| {name} | {cells[0]} | {cells[1]} | {each:.2f} ms | {goal} |"


# time


def auc(left: list[float], right: list[float]) -> tuple[float, float]:
    """How well one look tells two apart, whichever way, and the upper end of that at 95 % (Hanley and McNeil)."""
    both = np.concatenate([left, right])
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    m, n = len(left), len(right)
    area = float((ranks[m:].sum() - n * (n + 1) / 2) / (m * n))
    area = max(area, 1 - area)
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (n - 1) * (first - area**2) + (m - 1) * (second - area**2)
    return area, min(1.0, area + 1.645 * math.sqrt(spread / (m * n)))


COUNT = {**QUESTION, "sql": "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "bounds": None, "fresh": True}
Rows = list[tuple[int, str]]


def pairs(people: int) -> Iterator[tuple[str, Rows, Rows, dict[str, Any]]]:
    """Neighbouring tables, and what is asked of them."""
    base = [(person, CITIES[person % 5]) for person in range(people) for _ in range(4)]
    yield "one person over the limit", base, base + [(people, "Bern")] * 5, COUNT
    yield "one rare key", base, base + [(people, "Chur")] * 4, {**COUNT, "keys": None, "delta": 1e-8}
    chur = {**COUNT, "sql": "SELECT COUNT(*) AS n FROM visits WHERE city = 'Chur'", "keys": None}
    yield "an empty group", base, base + [(people, "Chur")] * 4, chur
    yield "one person with as many rows as all others", base, base + [(people, "Bern")] * len(base), COUNT


def write_rows(folder: Path, rows: Rows) -> None:
    import duckdb

    (folder / "rows.csv").write_text("patient_id,city\n" + "".join(f"{person},{city}\n" for person, city in rows))
    duckdb.sql(f"COPY (FROM read_csv('{folder}/rows.csv')) TO '{folder}/visits.parquet' (FORMAT parquet)")


class Neighbour:
    """One of two tables, behind a service."""

    def __init__(self, folder: Path, rows: Rows, *, deadline: float, fails: bool = False) -> None:
        folder.mkdir()
        write_rows(folder, rows)
        (folder / FILE).touch()
        book = dn.Ledger.create(folder / "t.ledger", unit="patient_id", epsilon=10**6, delta=0.5)
        book.close()
        stated = {"ledger": "t.ledger", "tables": {"visits": "visits.parquet"}, "planning_seconds": 0, "runners": 1,
                  "deadline": deadline, "most_waiting": 10**6, "most_waiting_each": 10**6}  # fmt: skip
        self.curator = Curator(ServiceSettings.of(folder, stated))
        self.deadline = deadline
        if fails:
            self.curator.jobs._pool.submit = self._fail  # type: ignore[method-assign]

    def _fail(self, work: Any, *given: Any) -> Any:
        from concurrent.futures import Future

        broken: Future[Any] = Future()
        threading.Timer(0, broken.set_exception, [RuntimeError()]).start()
        return broken

    def look(self, request: requests.PlanRequest, key: str) -> float:
        """How long an answer takes to be shown. Who looks knows the deadline, and looks often from then on."""
        start = time.time()
        asked = self.curator.jobs.submit("ana", request, key)
        time.sleep(max(0.0, start + self.deadline - time.time() - 0.005))
        while True:
            run = self.curator.jobs.look(asked.id)
            if run is not None and jobs.view(run, time.time()).state in (jobs.DONE, jobs.FAILED):
                return time.time() - start
            time.sleep(0.001)


def measure_time(folder: Path, *, looks: int, deadline: float, people: int, together: int) -> list[str]:
    """The AUC of every pair, and of the control."""
    lines = ["| pair | looks | AUC of one look | upper end | goal |", "|---|---|---|---|---|"]
    listed = [(*pair, False) for pair in pairs(people)]
    listed.append(("one of the two always fails after the charge", *listed[0][1:4], True))
    for number, (name, left, right, question, fails) in enumerate(listed):
        sides = [
            Neighbour(folder / f"{number} {side}", rows, deadline=deadline, fails=fails and side == 1)
            for side, rows in enumerate((left, right))
        ]
        seen: tuple[list[float], list[float]] = ([], [])
        text = json.dumps({**question, "epsilon": 1e-3})

        def one(turn: int) -> tuple[int, float]:
            return turn % 2, sides[turn % 2].look(requests.decode(text), f"{turn}")  # noqa: B023  used up at once

        with ThreadPoolExecutor(together) as pool:
            for side, took in pool.map(one, range(looks)):
                seen[side].append(took)
        late = [sum(took > 2 * deadline - 0.001 for took in each) for each in seen]
        for side in sides:
            side.curator.close()
        area, end = auc(*(each[together // 2 :] for each in seen))
        lines.append(f"| {name} (late: {late[0]} and {late[1]}) | {looks} | {area:.3f} | {end:.3f} | ≤ .55 |")
        history.add("service", f"AUC of one look: {name}", area, "")
        print(lines[-1], flush=True)
    lines.append(control(folder, people=people, looks=max(40, looks // 20)))
    return lines


def control(folder: Path, *, people: int, looks: int) -> str:
    """The first pair, as it would be without a deadline and without `steady`."""
    _, left, right, question = next(pairs(people))
    sessions = []
    for side, rows in enumerate((left, right)):
        place = folder / f"control {side}"
        place.mkdir()
        write_rows(place, rows)
        book = dn.Ledger.create(place / "l.ledger", unit="patient_id", epsilon=10**6)
        sessions.append(dn.Session(place / "visits.parquet", ledger=book))
    walls: tuple[list[float], list[float]] = ([], [])
    cpus: tuple[list[float], list[float]] = ([], [])
    limits = dn.AtMost(groups=1, rows=4)
    for turn in range(looks + 8):
        wall, cpu = time.perf_counter(), time.process_time()
        sessions[turn % 2].sql(question["sql"], epsilon=1e-3, keys=question["keys"], per_unit=limits)
        walls[turn % 2].append(time.perf_counter() - wall)
        cpus[turn % 2].append(time.process_time() - cpu)
    (area, _), (quiet, _) = (auc(*(each[4:] for each in seen)) for seen in (walls, cpus))
    history.add("service", "AUC of one look: control without deadline", area, "")
    name = "control: the first pair without deadline and `steady`"
    return f"| {name} (by CPU time, which other programs do not move: {quiet:.3f}) | {looks} | {area:.3f} | | ≥ .9 |"


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--looks", type=int, default=2000)
    parser.add_argument("--deadline", type=float, default=0.5)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--together", type=int, default=8, help="looks at a time: few, or they are late")
    parser.add_argument("--only", choices=["speed", "time"])
    given = parser.parse_args()
    parts = []
    with tempfile.TemporaryDirectory(prefix="dn-bench-") as name:
        if given.only != "time":
            (Path(name) / "speed").mkdir()
            parts.append("\n".join(measure_speed(Path(name) / "speed", given.seconds)))
            print(parts[-1], flush=True)
        if given.only != "speed":
            (Path(name) / "time").mkdir()
            lines = measure_time(
                Path(name) / "time", looks=given.looks, deadline=given.deadline, people=given.people,
                together=given.together,
            )  # fmt: skip
            words = f"Deadline {given.deadline:g} s, {given.people:,} people of four rows, {given.together} at a time."
            parts.append("\n".join([words, "", *lines]))
            print(lines[-1], flush=True)
    busy = " ".join(f"{each:.1f}" for each in os.getloadavg())
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; load average {busy}"
    today = time.strftime("%Y-%m-%d", time.gmtime())
    history.keep("service", f"# Service, {today}\n\n{machine}\n\n" + "\n\n".join(parts))


if __name__ == "__main__":
    main()
