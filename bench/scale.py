"""What asking elsewhere costs: `make bench ROOM=scale`, or one engine: `python bench/scale.py --only postgres`.

Ten million rows of a million people, 1,000 groups, and the question `count, sum and mean by group`, with at most 2
groups and 4 rows in each of every person. On PostgreSQL and on Spark, in turns: the unbounded aggregate; the same rule
written by hand in the engine's own SQL, with windows over random numbers or over a keyed hash; and ours, from charge to
release. By hand means the least that can be written: floats are added as they are, without bounds, grid or
noise, and rows that are alike have one hash. It is written in two ways: rows first and groups after, as most would; and
groups first, in the order of our own SQL, which leaves a fifth of the rows to the second window. What ours takes beyond
the latter is the price of the grid, of exact sums and of numbering rows that are alike.

Processor seconds are of the engine's process (PostgreSQL without parallel workers, Spark's Java), so that a busy
machine matters less; ratios are of them, within one run. Java is slow at first: on Spark the first round warms up, and
does not count.

PostgreSQL is started in a temporary folder (tests/postgres.py). The figures go to bench/results: the history, and
scale-<date>.md, with what a billion rows would take by them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import history

import deniable as dn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

GROUPS, LIMITS = 1000, dn.AtMost(groups=2, rows=4)
SQL = "SELECT grp, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a FROM visits GROUP BY grp"
PLAIN = "SELECT grp, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY grp"
BY_HAND = """
WITH placed AS (
  SELECT person, grp, cost, ROW_NUMBER() OVER (
    PARTITION BY person, grp ORDER BY {row}) AS place FROM visits),
shares AS (SELECT person, grp, COUNT(*) AS n, SUM(cost) AS s FROM placed WHERE place <= 4 GROUP BY person, grp),
ranked AS (SELECT grp, n, s, ROW_NUMBER() OVER (PARTITION BY person ORDER BY {group}) AS place FROM shares)
SELECT grp, SUM(n), SUM(s), SUM(s) / SUM(n) FROM ranked WHERE place <= 2 GROUP BY grp
"""
GROUPS_FIRST = """
WITH ranked AS (
  SELECT person, grp, cost, DENSE_RANK() OVER (PARTITION BY person ORDER BY {group}) AS place FROM visits),
placed AS (
  SELECT person, grp, cost, ROW_NUMBER() OVER (PARTITION BY person, grp ORDER BY {row}) AS place
  FROM ranked WHERE place <= 2)
SELECT grp, COUNT(*), SUM(cost), SUM(cost) / COUNT(*) FROM placed WHERE place <= 4 GROUP BY grp
"""
HASHED = {
    "row": "MD5('key|' || CAST(person AS {text}) || '|' || CAST(grp AS {text}) || '|' || CAST(cost AS {text}))",
    "group": "MD5('key|' || CAST(person AS {text}) || '|' || CAST(grp AS {text}))",
}
BASE = "by hand, by a keyed hash"
DRAWN = {"row": "RANDOM()", "group": "RANDOM()"}


class Time(NamedTuple):
    """Seconds of the engine's processor, and elapsed."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu:.1f} | {self.wall:.1f}"


def used(process: int) -> float:
    """Processor seconds of a process, so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], Any], process: int) -> Time:
    start, before = time.perf_counter(), used(process)
    work()
    return Time(used(process) - before, time.perf_counter() - start)


def fill(path: Path, *, rows: int) -> None:
    """Rows of rows/10 people in random order; a person is in about ten of 1,000 groups."""
    person, group = f"CAST(HASH(i * 7 + 1) % {rows // 10} AS BIGINT)", f"CAST(HASH(i * 11 + 3) % {GROUPS} AS INTEGER)"
    cost = "CAST((HASH(i * 13 + 5) % 500000) / 100.0 AS DOUBLE)"
    form = "FORMAT csv, HEADER false" if path.suffix == ".csv" else "FORMAT parquet"
    with duckdb.connect(config={"preserve_insertion_order": "false", "memory_limit": "4GB"}) as connection:
        made = f"SELECT {person} AS person, {group} AS grp, {cost} AS cost FROM RANGE({rows}) AS r(i)"
        connection.execute(f"COPY ({made}) TO '{path}' ({form})")


def plan(session: dn.Session) -> Any:
    return session.plan(SQL, epsilon=1, bounds={"cost": (0, 5000)}, keys={"grp": range(GROUPS)}, per_unit=LIMITS)


def by_hand(run: Callable[[str], Any], *, text: str) -> dict[str, Callable[[], Any]]:
    """What is written by hand, as work of an engine with this name for texts."""
    hashed = {name: sql.format(text=text) for name, sql in HASHED.items()}
    written = {
        "unbounded": PLAIN,
        "by hand, by random()": BY_HAND.format(**DRAWN),
        BASE: BY_HAND.format(**hashed),
        "by hand, groups first": GROUPS_FIRST.format(**hashed),
    }
    return {name: partial(run, sql) for name, sql in written.items()}


def rounds(work: dict[str, Callable[[], Any]], process: int, *, times: int, warming: int = 0) -> dict[str, Time]:
    """The median of each, taken in turns, after some rounds that do not count."""
    found: dict[str, list[Time]] = {name: [] for name in work}
    for number in range(-warming, times):
        for name, each in work.items():
            taken = timed(each, process)
            found[name] += [taken] if number >= 0 else []
            print(f"  {name}: {taken}{'' if number >= 0 else ' (warming up)'}", flush=True)
    return {
        name: Time(statistics.median(t.cpu for t in each), statistics.median(t.wall for t in each))
        for name, each in found.items()
    }


def on_postgres(folder: Path, *, rows: int, times: int) -> dict[str, Time]:
    import psycopg

    from tests.postgres import running

    fill(folder / "visits.csv", rows=rows)
    with running() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_parallel_workers_per_gather = 0")
        connection.execute("ALTER SYSTEM SET work_mem = '512MB'")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE UNLOGGED TABLE visits (person BIGINT, grp INT, cost DOUBLE PRECISION)")
        with (
            connection.cursor().copy("COPY visits FROM STDIN (FORMAT csv)") as copy,
            (folder / "visits.csv").open("rb") as file,
        ):
            while block := file.read(1 << 20):
                copy.write(block)
        connection.execute("VACUUM ANALYZE visits")
        with (
            psycopg.connect(server.dsn, autocommit=True) as other,
            dn.Session({"visits": other}, ledger=folder / "ledger") as session,
        ):
            ours = session._engine._connection  # type: ignore[attr-defined]
            found = plan(session)

            def run(sql: str) -> Any:
                return ours.execute(sql.replace("visits", "public.visits")).fetchall()

            return rounds({**by_hand(run, text="TEXT"), "ours": found.run}, ours.info.backend_pid, times=times)


def on_spark(folder: Path, *, rows: int, times: int, cores: int) -> dict[str, Time]:
    from pyspark.sql import SparkSession

    fill(folder / "visits.parquet", rows=rows)
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "6g")
    for setting, value in {"ui.enabled": "false", "ui.showConsoleProgress": "false", "log.level": "ERROR"}.items():
        builder = builder.config(f"spark.{setting}", value)
    spark = builder.config("spark.sql.shuffle.partitions", str(4 * cores)).getOrCreate()
    frame = spark.read.parquet(str(folder / "visits.parquet"))
    frame.createOrReplaceTempView("visits")
    with dn.Session({"visits": frame}, ledger=folder / "ledger") as session:
        found = plan(session)

        def run(sql: str) -> Any:
            return spark.sql(sql).collect()

        work = {**by_hand(run, text="STRING"), "ours": found.run}
        measured = rounds(work, spark.sparkContext._gateway.proc.pid, times=times, warming=1)
    spark.stop()
    return measured


def table(name: str, found: dict[str, Time], *, rows: int) -> list[str]:
    base = found[BASE]
    lines = [
        f"## {name}, {rows:,} rows",
        "",
        "| | processor s | elapsed s | to the rule by hand |",
        "|---|---|---|---|",
    ]
    lines += [f"| {what} | {each} | ×{each.cpu / base.cpu:.2f} |" for what, each in found.items()]
    ours, each = found["ours"], found["ours"].cpu / rows * 1e6
    ratio = ours.cpu / base.cpu
    lines += ["", f"Goal: at most ×1.20. Ours: ×{ratio:.2f}, {'met' if ratio <= 1.2 else 'not met'}."]
    lines += [
        f"A row costs {each:.2f} µs of one processor; a billion rows, {each * 1000 / 3600:.2f} processor hours.",
        "",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["postgres", "spark"])
    parser.add_argument("--dry", action="store_true", help="write no results")
    given = parser.parse_args()
    lines = ["# Engines elsewhere", "", f"{datetime.date.today()}, {os.cpu_count()} cores, {platform.machine()}", ""]
    for name in ("postgres", "spark"):
        if given.only in (None, name):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                dn.Ledger.create(folder / "ledger", unit="person", budget=dn.PureDP(100))
                print(name, flush=True)
                if name == "postgres":
                    found = on_postgres(folder, rows=given.rows, times=given.rounds)
                else:
                    found = on_spark(folder, rows=given.rows, times=given.rounds, cores=os.cpu_count() or 1)
            lines += table({"postgres": "PostgreSQL", "spark": "Spark"}[name], found, rows=given.rows)
            if not given.dry:
                ours, hand = found["ours"].cpu, found[BASE].cpu
                case = f"{name}, {given.rows:,} rows"
                history.add("scale", case, ours, "CPU s", peer="the rule by hand", ratio=hand / ours)
    text = "\n".join(lines)
    print(text)
    if not given.dry and given.only is None:
        history.keep("scale", text)


if __name__ == "__main__":
    main()
