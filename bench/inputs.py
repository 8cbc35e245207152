"""What a checked read costs: `make bench ROOM=inputs`.

A CSV file of a gigabyte: a person, a city beyond ASCII, a day, a note that is quoted in every tenth row, a cost. In
turns, in one process and with the same threads: DuckDB's own parallel reader, which reads all columns once and trusts
the file; the check alone; opening a session, which checks and copies; and a question to that session. The question to
DuckDB's reader is the same aggregate without bounds. Then the same rows as Parquet, with ids that are whole numbers,
with ids that are texts, and as `convert` writes them: opening, the question, and DuckDB's own aggregate over that file.

The machine may be busy, so processor seconds stand beside elapsed ones; ratios are of processor seconds, within one
run. The figures go to bench/results: inputs-<date>.md and the history. The files are made in a temporary folder, and
removed.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import history

import deniable as dn
from deniable.query.engines.csv_records import CsvFile

NAMES = ("person", "city", "day", "note", "cost")
ROWS = """
SELECT (i * 7919) % 2000003 AS person, ['Basel', 'Bern', 'Zürich', 'Genève'][1 + (HASH(i) % 4)::INT] AS city,
  DATE '2020-01-01' + ((i % 2000)::INT) AS day,
  CASE WHEN i % 10 = 0 THEN 'a note, with a comma "and quotes"' ELSE 'plain note ' || (i % 1000) END AS note,
  ROUND((HASH(i) % 1000000) / 100.0, 2) AS cost
FROM RANGE({}) AS r(i)
"""
SQL = "SELECT city, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY city"
OPTIONS: dict[str, Any] = {
    "epsilon": 1,
    "bounds": {"cost": (0, 10_000)},
    "keys": {"city": ["Basel", "Bern", "Genève", "Zürich"]},
    "per_unit": dn.AtMost(groups=4, rows=100),
}
EVERYTHING = "SUM(" + " + ".join(f"STRLEN({name}::VARCHAR)" for name in NAMES) + ")"
PARQUET = {
    "numbers.parquet": "ids are whole numbers",
    "texts.parquet": "ids are texts",
    "converted.parquet": "converted from CSV",
}
AGGREGATE = "city, COUNT(*), SUM(TRY_CAST(cost AS DOUBLE))"


class Time(NamedTuple):
    """Seconds of a processor, and elapsed."""

    cpu: float
    wall: float


def timed(work: Callable[[], Any]) -> Time:
    start, used = time.perf_counter(), time.process_time()
    work()
    return Time(time.process_time() - used, time.perf_counter() - start)


def median(times: list[Time]) -> Time:
    return Time(statistics.median(one.cpu for one in times), statistics.median(one.wall for one in times))


def reader(path: Path) -> str:
    columns = ", ".join(f"{name}: 'VARCHAR'" for name in NAMES)
    return f"READ_CSV('{path}', columns={{{columns}}}, auto_detect=false, header=true)"


def read(source: str, select: str) -> None:
    """One pass of DuckDB's own."""
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as connection:
        connection.execute(f"SELECT {select} FROM {source}").fetchall()


def check(path: Path) -> None:
    with CsvFile(path) as file:
        for _ in file.records():
            pass


def measure(folder: Path, *, rows: int, turns: int) -> tuple[dict[str, Time], dict[str, float]]:
    """Medians of every step, and the sizes of the files in gigabytes."""
    made = ROWS.format(rows)
    text, converted = folder / "visits.csv", folder / "converted.parquet"
    numbers, texts = folder / "numbers.parquet", folder / "texts.parquet"
    duckdb.sql(f"COPY ({made}) TO '{text}' (HEADER)")
    duckdb.sql(f"COPY ({made}) TO '{numbers}' (FORMAT parquet)")
    duckdb.sql(f"COPY (SELECT * REPLACE (person::VARCHAR AS person) FROM ({made})) TO '{texts}' (FORMAT parquet)")
    times: dict[str, list[Time]] = {}

    def note(name: str, work: Callable[[], Any]) -> None:
        times.setdefault(name, []).append(timed(work))
        print(f"{name}: {times[name][-1].cpu:.2f} s of a processor", flush=True)

    note("convert", lambda: dn.convert(text, converted))
    with dn.Ledger.create(folder / "l.ledger", unit="person", budget=dn.PureDP(10**6)) as ledger:
        for _ in range(turns):
            note("DuckDB reads", lambda: read(reader(text), EVERYTHING))
            note("DuckDB aggregates", lambda: read(f"{reader(text)} GROUP BY city", AGGREGATE))
            note("check", lambda: check(text))
            for path in (text, converted, numbers, texts):
                opened: list[dn.Session] = []
                note(f"open {path.name}", lambda: opened.append(dn.Session({"visits": path}, ledger=ledger)))  # noqa: B023
                with opened[0] as session:
                    note(f"ask {path.name}", lambda: session.sql(SQL, **OPTIONS))
                    if path is text:
                        note("ask again", lambda: session.sql(SQL, **OPTIONS))
                    else:
                        note(f"DuckDB aggregates {path.name}", lambda: read(f"'{path}' GROUP BY city", AGGREGATE))  # noqa: B023
    sizes = {path.name: path.stat().st_size / 1e9 for path in (text, converted, numbers, texts)}
    return {name: median(several) for name, several in times.items()}, sizes


def report(found: dict[str, Time], sizes: dict[str, float], *, machine: str, turns: int) -> list[str]:
    reads = found["DuckDB reads"]
    once = found["open visits.csv"].cpu + found["ask visits.csv"].cpu

    def row(what: str, time: Time, of: Time) -> str:
        return f"| {what} | {time.cpu:.2f} | {time.wall:.2f} | {time.cpu / of.cpu:.2f}× |"

    return [
        f"# Reading files, {datetime.datetime.now(datetime.UTC).date()}",
        "",
        f"{machine}; DuckDB {duckdb.__version__}; medians of {turns} turns.",
        "",
        f"## CSV, {sizes['visits.csv']:.2f} GB",
        "",
        "| | processor, s | elapsed, s | of DuckDB's parallel reader |",
        "|---|---|---|---|",
        row("DuckDB's parallel reader, all columns once", reads, reads),
        row("the same, one aggregate by city", found["DuckDB aggregates"], reads),
        row("the check alone", found["check"], reads),
        row("opening a session: check and copy", found["open visits.csv"], reads),
        row("a question to the session", found["ask visits.csv"], reads),
        row("the next question", found["ask again"], reads),
        row("`deniable convert`, once", found["convert"], reads),
        "",
        f"Opening and one question: {once / reads.cpu:.2f} times one pass of DuckDB's parallel reader.",
        "",
        "## Parquet, the same rows",
        "",
        "| | processor, s | elapsed, s | of DuckDB's own aggregate |",
        "|---|---|---|---|",
        *(
            row(f"{what}, {sizes[file]:.2f} GB: {verb}", found[f"{step} {file}"], found[f"DuckDB aggregates {file}"])
            for file, what in PARQUET.items()
            for step, verb in (
                ("DuckDB aggregates", "DuckDB's own aggregate"),
                ("open", "opening"),
                ("ask", "a question"),
            )
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="What a checked read costs.")
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the file; 20 million are a gigabyte")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="print the report, and keep nothing")
    given = parser.parse_args()
    machine = history.this_machine()  # and how busy it is
    with tempfile.TemporaryDirectory() as folder:
        found, sizes = measure(Path(folder), rows=given.rows, turns=given.turns)
    text = "\n".join(report(found, sizes, machine=machine, turns=given.turns))
    print(text)
    if given.dry_run:
        return
    print(history.keep("inputs", text))
    reads, opened, asked = (found[step].cpu for step in ("DuckDB reads", "open visits.csv", "ask visits.csv"))
    for metric, value in (
        ("check a CSV file of 1 GB", found["check"].cpu),
        ("open a CSV file of 1 GB", opened),
        ("open a CSV file of 1 GB and ask once", opened + asked),
        ("ask an open CSV file of 1 GB again", found["ask again"].cpu),
    ):
        history.add("inputs", metric, value, "s", peer="DuckDB's parallel reader", ratio=reads / value, machine=machine)
    for file, what in PARQUET.items():
        plain = found[f"DuckDB aggregates {file}"].cpu
        for metric, value in (
            (f"open Parquet, {what}", found[f"open {file}"].cpu),
            (f"ask Parquet, {what}", found[f"ask {file}"].cpu),
        ):
            history.add("inputs", metric, value, "s", peer="DuckDB's aggregate", ratio=plain / value, machine=machine)


if __name__ == "__main__":
    main()
