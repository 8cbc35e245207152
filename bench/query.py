"""What bounding costs: `make bench ROOM=query`.

Ten million rows of a million people in a Parquet file, and the question `count, sum and mean by group`, with at most K
groups and R rows in each of every person. In turns, in one process and with the same threads: the unbounded aggregate;
the same rule written by hand in DuckDB SQL in three ways (a window, `arg_min` with a list, the K-th smallest hash
joined back), and the last without a limit of rows, which is a weaker rule; and ours, from the charge to the release. By
hand means the least that can be written: floats are added as they are, without grid, bounds or noise. The number of
rows per person alone says what any limit costs at least, on top of the unbounded aggregate.

Then a million groups with private keys; OpenDP with Polars, PipelineDP and Tumult on a million rows, each in a virtual
environment of its own; and, with --big, a hundred million rows on disk. --far has one more case alone: a sum where
nearly everybody is beyond 2 rows in a group, asked twice in one session, and by a new one. The machine may be busy, so
processor seconds stand beside elapsed ones; ratios are of processor seconds, within one run.

The figures go to bench/results: query-<date>.md and the history.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import history
import numpy as np

import deniable as dn

HERE = Path(__file__).resolve().parent
PEERS = {"opendp-polars": ("OpenDP with Polars", 3), "pipelinedp": ("PipelineDP", 20), "tumult": ("Tumult", 50)}
PATIENCE = 900
"""Seconds until a peer is given up; its ratio is then a lower bound."""

GROUPS = 1000
WIDE, ONE = dn.AtMost(groups=2, rows=4), dn.AtMost(groups=2, rows=40)
SQL = "SELECT grp, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a FROM visits GROUP BY grp"


class Time(NamedTuple):
    """Seconds of a processor, and elapsed."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu:.2f} | {self.wall:.2f}"


def timed(work: Callable[[], Any]) -> Time:
    start, used = time.perf_counter(), time.process_time()
    work()
    return Time(time.process_time() - used, time.perf_counter() - start)


def median(times: list[Time]) -> Time:
    return Time(statistics.median(t.cpu for t in times), statistics.median(t.wall for t in times))


def fill(path: Path, *, rows: int, one: bool = False) -> None:
    """Rows of rows/10 people in random order; a person is in about ten of 1,000 groups, or in one."""
    group = "HASH(person)" if one else "HASH(i * 11 + 3)"
    person = f"CAST(HASH(i * 7 + 1) % {rows // 10} AS BIGINT)"
    cost = "CAST((HASH(i * 13 + 5) % 500000) / 100.0 AS DOUBLE)"
    made = f"SELECT i, {person} AS person, {cost} AS cost FROM RANGE({rows}) AS r(i)"
    with duckdb.connect(config={"preserve_insertion_order": "false", "memory_limit": "4GB"}) as connection:
        columns = f"person, CAST({group} % {GROUPS} AS INTEGER) AS grp, cost"
        connection.execute(f"COPY (SELECT {columns} FROM ({made})) TO '{path}' (FORMAT parquet)")


def by_hand(path: Path, limits: dn.AtMost) -> dict[str, str]:
    """The rule in SQL, as one would write it."""
    most, rows, t = limits.groups, limits.rows, f"'{path}'"
    group, row = "HASH(person, grp, 4711)", "HASH(person, grp, cost, 4711)"
    totals = "SELECT grp, COUNT(*), SUM(cost), AVG(cost) FROM"
    placed = f"ROW_NUMBER() OVER (PARTITION BY person, grp ORDER BY {row}) <= {rows}"
    edges = (
        f"WITH edges AS (SELECT person, MIN({group}, {most})[-1] AS edge "
        f"FROM (SELECT DISTINCT person, grp FROM {t}) GROUP BY person) "
    )
    kept = f"SELECT grp, cost FROM {t} JOIN edges USING (person) WHERE {group} <= edge"
    return {
        "unbounded": f"{totals} {t} GROUP BY grp",
        "rows per person alone": f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM {t} GROUP BY person)",
        "by hand: window": (
            f"{totals} (SELECT grp, cost FROM (SELECT *, {placed} AS kept, "
            f"DENSE_RANK() OVER (PARTITION BY person ORDER BY {group}) AS d FROM {t}) "
            f"WHERE d <= {most} AND kept) GROUP BY grp"
        ),
        "by hand: arg_min": (
            f"WITH chosen AS (SELECT person, UNNEST(ARG_MIN(grp, {group}, {most})) AS grp "
            f"FROM (SELECT DISTINCT person, grp FROM {t}) GROUP BY person) "
            f"{totals} (SELECT grp, UNNEST(ARG_MIN(cost, {row}, {rows})) AS cost FROM {t} SEMI JOIN chosen "
            "USING (person, grp) GROUP BY person, grp) GROUP BY grp"
        ),
        "by hand: smallest hashes joined back": f"{edges}{totals} ({kept} QUALIFY {placed}) GROUP BY grp",
        "the same without the limit of rows": f"{edges}{totals} ({kept}) GROUP BY grp",
    }


def plan(folder: Path, path: Path, limits: dn.AtMost) -> Any:
    """Ours, ready to run."""
    ledger = folder / f"{path.stem}-{time.monotonic_ns()}.ledger"
    dn.Ledger.create(ledger, unit="person", budget=dn.PureDP(1000))
    session = dn.Session({"visits": path}, ledger=ledger)
    return session.plan(SQL, epsilon=1, bounds={"cost": (0, 5000)}, keys={"grp": range(GROUPS)}, per_unit=limits)


def bounding(folder: Path, path: Path, limits: dn.AtMost, *, rounds: int, slow: bool) -> dict[str, Time]:
    """Medians over rounds, in turns; the slowest way by hand once, and only if asked for."""
    connection = duckdb.connect(config={"preserve_insertion_order": "false"})
    hand = by_hand(path, limits)
    ours = plan(folder, path, limits)
    found: dict[str, list[Time]] = {}
    for i in range(rounds):
        for name, sql in hand.items():
            if "arg_min" not in name or (slow and i == 0):
                answer = partial(lambda text: connection.execute(text).fetchall(), sql)
                found.setdefault(name, []).append(timed(answer))
        found.setdefault("ours", []).append(timed(ours.run))
    connection.close()
    return {name: median(times) for name, times in found.items()}


def table(found: dict[str, Time]) -> list[str]:
    plain, best = found["unbounded"].cpu, min(t.cpu for name, t in found.items() if name.startswith("by hand"))
    lines = ["| | processor, s | elapsed, s | of unbounded | of the best by hand |", "|---|---|---|---|---|"]
    return lines + [f"| {name} | {t} | {t.cpu / plain:.1f}× | {t.cpu / best:.2f}× |" for name, t in found.items()]


def private_keys(folder: Path) -> str:
    """A million groups that are found in the data: what noise and threshold take after the engine."""
    path, ledger = folder / "many.parquet", folder / "many.ledger"
    with duckdb.connect() as connection:
        columns = "i AS person, 'ward ' || (i % 1000000) AS grp, CAST(i * 7919 % 5000 AS DOUBLE) AS cost"
        connection.execute(f"COPY (SELECT {columns} FROM RANGE(4000000) AS r(i)) TO '{path}' (FORMAT parquet)")
    dn.Ledger.create(ledger, unit="person", budget=dn.ApproxDP(1000, 1e-3))
    session = dn.Session({"visits": path}, ledger=ledger)
    limits = dn.AtMost(groups=1, rows=1)
    asked = session.plan(SQL, epsilon=40, delta=1e-6, bounds={"cost": (0, 5000)}, per_unit=limits)
    engine, run, inside = session._engine, session._engine.run, []

    def watched(*given: Any, **named: Any) -> Any:
        found = []
        inside.append(timed(lambda: found.append(run(*given, **named))))
        return found[0]

    engine.run = watched  # type: ignore[method-assign]
    released: list[Any] = []
    whole = timed(lambda: released.append(asked.run().columns))
    groups = len(released[0]["grp"])
    return (
        f"Private keys: {groups:,} of 1,000,000 groups released from 4,000,000 rows; the engine takes "
        f"{inside[0].cpu:.1f} processor seconds, charge, noise, threshold, intervals and columns "
        f"{whole.cpu - inside[0].cpu:.2f} ({whole.wall - inside[0].wall:.2f} elapsed; goal ≤ 2)."
    )


def lists(folder: Path) -> list[str]:
    """IN with lists of constants over a million rows: planning and running, with plain DuckDB beside them."""
    path, ledger, connection = folder / "codes.parquet", folder / "codes.ledger", duckdb.connect()
    number = "CAST(HASH(i * 3 + 5) % 1000000 AS BIGINT)"
    columns = f"CAST(HASH(i * 7 + 1) % 100000 AS BIGINT) AS person, {number} AS code, 'c' || {number} AS name"
    connection.execute(f"COPY (SELECT {columns} FROM RANGE(1000000) AS r(i)) TO '{path}' (FORMAT parquet)")
    dn.Ledger.create(ledger, unit="person", budget=dn.PureDP(10**6))
    session = dn.Session({"codes": path}, ledger=ledger)
    lines = ["| IN with | DuckDB, CPU s | ours, CPU s | of DuckDB | planning, CPU s |", "|---|---|---|---|---|"]
    for size in (10, 1000, 10_000, 100_000):
        for kind, column, text in (("numbers", "code", "{}"), ("texts", "name", "'c{}'")):
            where = f"WHERE {column} IN ({', '.join(text.format(7 * i) for i in range(size))})"
            rounds, plans = range(2 if size > 10_000 else 15), list[Any]()
            plain = f"SELECT COUNT(*) FROM '{path}' {where}"
            theirs = median([timed(lambda sql=plain: connection.execute(sql).fetchall()) for _ in rounds])  # type: ignore[misc]

            def planned(sql: str = f"SELECT COUNT(*) AS n FROM codes {where}", plans: list[Any] = plans) -> None:
                plans.append(session.plan(sql, epsilon=1, per_unit=dn.AtMost(groups=1, rows=20), cover=0))

            planning = timed(planned)
            ours = median([timed(plans[0].run) for _ in rounds])
            history.add("query", f"IN, {size:,} {kind}", ours.cpu, "CPU s", peer="DuckDB", ratio=theirs.cpu / ours.cpu)
            took = f"{theirs.cpu:.3f} | {ours.cpu:.3f} | {ours.cpu / theirs.cpu:.1f}× | {planning.cpu:.2f}"
            lines.append(f"| {size:,} {kind} | {took} |")
    return lines


FAR = dn.AtMost(groups=5, rows=2)


def far(folder: Path, *, rows: int) -> list[str]:
    """A sum where nearly everybody is beyond the limits: a first question, and others of the same session."""
    lines = [
        "| | first, CPU s | elapsed | of unbounded | asked again, CPU s | of unbounded | counting people beyond, too |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for groups, people in ((3, rows // 10), (6, rows // 30), (20, rows // 100)):
        path, ledger = folder / f"far-{groups}.parquet", folder / f"far-{groups}.ledger"
        columns = f"HASH(i * 7 + 1) % {people} AS person, HASH(i * 11 + 3) % {groups} AS grp"
        cost = "CAST((HASH(i * 13 + 5) % 500000) / 100.0 AS DOUBLE) AS cost"
        with duckdb.connect(config={"preserve_insertion_order": "false"}) as connection:
            connection.execute(f"COPY (SELECT {columns}, {cost} FROM RANGE({rows}) AS r(i)) TO '{path}'")
            sql = f"SELECT grp, SUM(cost) FROM '{path}' GROUP BY grp"
            plain = median([timed(lambda sql=sql: connection.execute(sql).fetchall()) for _ in range(5)])  # type: ignore[misc]
        dn.Ledger.create(ledger, unit="person", budget=dn.PureDP(10**6))
        stated = {"bounds": {"cost": (0, 5000)}, "keys": {"grp": range(groups)}, "per_unit": FAR, "epsilon": 1}

        def ask(session: dn.Session, form: str, cover: float | None, stated: Any = stated) -> Time:
            plan = session.plan(f"SELECT grp, {form}(cost) AS c FROM visits GROUP BY grp", **stated, cover=cover)
            return timed(plan.run)

        firsts, seconds, covered = [], [], []
        for _ in range(3):
            with dn.Session({"visits": path}, ledger=ledger) as session:
                firsts.append(ask(session, "SUM", 0))
                seconds.append(ask(session, "AVG", 0))
                covered.append(ask(session, "SUM", None))
        first, again, more = median(firsts), median(seconds), median(covered)
        history.add(
            "query", f"sum, all beyond, {groups} groups", first.cpu, "CPU s", peer="DuckDB", ratio=plain.cpu / first.cpu
        )
        lines.append(
            f"| {people:,} people, {groups} groups | {first.cpu:.2f} | {first.wall:.2f} | {first.cpu / plain.cpu:.0f}× "
            f"| {again.cpu:.3f} | {again.cpu / plain.cpu:.2f}× | {more.cpu:.2f} |"
        )
        path.unlink()
    return lines


def peers(folder: Path, names: list[str]) -> list[str]:
    """A million rows, with each peer that installs."""
    path = folder / "visits.parquet"
    fill(path, rows=1_000_000)
    columns = duckdb.sql(f"FROM '{path}'").fetchnumpy()
    np.savez(folder / "visits.npz", **{name: np.asarray(column) for name, column in columns.items()})
    lines = ["| a million rows | elapsed, s | ours, s, just after | ratio | goal |", "|---|---|---|---|---|"]
    for name, (title, goal) in ((name, PEERS[name]) for name in names):
        try:
            found = elsewhere(name, folder)
        except subprocess.TimeoutExpired:
            found = {"version": "", "seconds": PATIENCE, "more": "> "}
        except subprocess.CalledProcessError as failure:
            lines.append(f"| {title} | failed, exit code {failure.returncode} | | | ≥ {goal}× |")
            continue
        ours = median([timed(plan(folder, path, WIDE).run) for _ in range(3)])
        more, seconds = found.get("more", ""), found["seconds"]
        ratio = f"{more}{seconds / ours.wall:.0f}×"
        if not more:
            history.add("query", "a million rows", ours.wall, "s", peer=title, ratio=seconds / ours.wall)
        lines.append(f"| {title} {found['version']} | {more}{seconds:.1f} | {ours.wall:.2f} | {ratio} | ≥ {goal}× |")
    return lines


def elsewhere(name: str, folder: Path) -> Any:
    """What a peer prints, in its own environment, which the first run creates."""
    home = HERE / "peers" / ".venvs" / name
    if not (home / "bin" / "pip").exists():
        venv.create(home, with_pip=True)
    wanted = HERE / "peers" / f"{name}.txt"
    subprocess.run(
        [str(home / "bin" / "pip"), "install", "--quiet", "-r", str(wanted)], check=True, capture_output=True
    )
    command = [str(home / "bin" / "python"), str(HERE / "peers" / "query.py"), name, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    return json.loads(done.stdout.splitlines()[-1])


def big(folder: Path) -> str:
    """A hundred million rows on disk, in a process of its own so that its peak memory is the peak."""
    path = folder / "big.parquet"
    fill(path, rows=100_000_000)
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(path)], check=True, capture_output=True, text=True, cwd=folder
    )
    found = json.loads(done.stdout)
    path.unlink()
    return (
        f"100,000,000 rows of 10,000,000 people on disk: {found['cpu']:.0f} processor seconds, {found['wall']:.0f} "
        f"elapsed, at most {found['memory']:.1f} GB of memory (goal < 8)."
    )


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return (
        f"{os.cpu_count()} cores, {model}, {platform.system()}; Python {platform.python_version()}, "
        f"DuckDB {duckdb.__version__}; load average {os.getloadavg()[0]:.1f} at the start"
    )


def report(given: argparse.Namespace) -> str:
    lines = [f"# Asking tables, {datetime.date.today()}", "", f"{machine()}.", ""]
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        if given.lists:
            return "\n".join([*lines, *lists(folder), ""])
        if given.far:
            title = f"## A sum where nearly everybody is beyond {FAR}, {given.rows:,} rows"
            return "\n".join([*lines, title, "", *far(folder, rows=given.rows), ""])
        for title, limits, one in (
            (f"Everybody in about ten groups, {WIDE}", WIDE, False),
            (f"Everybody in one group, {ONE}: nothing is cut", ONE, True),
        ):
            path = folder / f"visits-{one}.parquet"
            fill(path, rows=given.rows, one=one)
            lines += [f"## {title}, {given.rows:,} rows", ""]
            found = bounding(folder, path, limits, rounds=given.rounds, slow=not given.quick)
            best = min(t.cpu for name, t in found.items() if name.startswith("by hand"))
            ours = found["ours"].cpu
            case = f"{'one group' if one else 'ten groups'}, {given.rows:,} rows"
            history.add("query", case, ours, "CPU s", peer="the best by hand", ratio=best / ours)
            lines += [*table(found), ""]
            path.unlink()
        lines += [private_keys(folder), "", *lists(folder), ""]
        lines += [*peers(folder, given.peers), ""] if given.peers else []
        lines += [big(folder), ""] if given.big else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="without the slowest way by hand")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--lists", action="store_true", help="lists of constants alone")
    parser.add_argument("--far", action="store_true", help="a sum where nearly everybody is beyond the limits, alone")
    parser.add_argument("--big", action="store_true", help="a hundred million rows on disk as well")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        taken = timed(plan(Path.cwd(), given.one, WIDE).run)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(json.dumps({"cpu": taken.cpu, "wall": taken.wall, "memory": peak}))
        return
    text = report(given)
    print(text)
    history.keep("lists" if given.lists else "far" if given.far else "query", text)


if __name__ == "__main__":
    main()
