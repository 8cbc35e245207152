"""Commands that read a private table, `deniable query`, `deniable describe` and `deniable publish`, on files as people
have them.

`mistakes.py` has the commands that read no table, and are handed one by mistake.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, Command, EntryPoint, World

Row = tuple[str, str, str]

CITIES = ("Bern", "Basel", "Zurich")
OWN: list[Row] = [(f"p{person}", CITIES[person % 3], str(10 * person % 90)) for person in range(300)]
"""So many people that no group is near the threshold of private keys."""

LIMITS = ("--groups-per-unit", "2", "--rows-per-unit", "4", "--ledger", "hospital.ledger")
BY_CITY = "SELECT city, COUNT(*) AS visits, AVG(cost) AS cost FROM visits GROUP BY city"
KEYS = ("--keys", "city=Bern,Basel,Zurich", "--bounds", "cost=0:100")
TABLES = """
title = "Visits"
ledger = "hospital.ledger"
epsilon = 2
[data]
visits = "{file}"
[tables.all]
sql = "SELECT COUNT(*) AS n, COUNT(DISTINCT city) AS cities FROM visits"
per_unit = {{groups = 1, rows = 4}}
[tables.by_city]
sql = "SELECT city, SUM(cost) AS total FROM visits GROUP BY city"
keys.city = ["Bern", "Basel", "Zurich"]
bounds.cost = [0, 100]
per_unit = {{groups = 2, rows = 4}}
diagnose = 0.1
"""

UNITS: dict[str, Any] = {
    "removed": REMOVED,
    **{f"city {label}": [("p900", text, "10")] for label, text in hostile.UTF8.items()},
    **{f"id {label}": [(text, "Bern", "10")] for label, text in hostile.UTF8.items()},
    **{f"cost {label}": [("p900", "Bern", text)] for label, text in hostile.UTF8.items()},
    **{f"cost {label}": [("p900", "Bern", text)] for label, text in hostile.NUMBER_TEXTS.items()},
    **{f"cost {label}": [("p900", "Bern", text)] for label, text in hostile.DATE_TEXTS.items()},
    "many rows": [("p900", "Bern", "10")] * hostile.MANY,
    "many keys": [("p900", f"city {number}", "10") for number in range(1000)],
    "duplicates": [("p900", "Bern", "10")] * 2,
    "everything": [("p900", text, text) for text in hostile.UTF8.values()],
}


def rows_of(unit: Any) -> list[Row]:
    """D, D without its last person, or D with the hostile rows behind its own."""
    if unit is None:
        return OWN
    return OWN[:-1] if unit is REMOVED else [*OWN, *unit]


def write_csv(world: World, unit: Any) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("patient_id", "city", "cost"), *rows_of(unit)])
    world.write("visits.csv", text.getvalue())


def write_parquet(world: World, unit: Any) -> None:
    people, cities, costs = zip(*rows_of(unit), strict=True)
    columns = {"patient_id": list(people), "city": list(cities), "cost": [_number(cost) for cost in costs]}
    pq.write_table(pa.table(columns), Path("visits.parquet"))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def describe(world: World, unit: Any) -> Command:
    """`deniable describe` with a new ledger."""
    world.ledger(path="hospital.ledger")
    write_csv(world, unit)
    return world.command("describe", "visits.csv", "--epsilon", "1", "--ledger", "hospital.ledger")


def query(write: Callable[[World, Any], None], *words: str) -> Callable[[World, Any], Command]:
    """`deniable query` with a new ledger."""

    def call(world: World, unit: Any) -> Command:
        world.ledger(path="hospital.ledger")
        write(world, unit)
        return world.command("query", *words, *LIMITS)

    return call


def publish(write: Callable[[World, Any], None], file: str, *words: str) -> Callable[[World, Any], Command]:
    """`deniable publish` with a new ledger."""

    def call(world: World, unit: Any) -> Command:
        world.ledger(path="hospital.ledger")
        write(world, unit)
        world.write("tables.toml", TABLES.format(file=file))
        return world.command("publish", "tables.toml", "--out", "release", *words)

    return call


def mix(rng: random.Random) -> list[Row]:
    """A hostile unit of several rows."""
    texts = hostile.mixed(rng, hostile.UTF8, hostile.NUMBER_TEXTS, hostile.DATE_TEXTS)
    return [("p900", rng.choice(texts), rng.choice(texts)) for _ in range(rng.randint(1, 50))]


def entry(name: str, call: Callable[[World, Any], Command], *, sample: int = 4) -> EntryPoint:
    command = " ".join(name.partition(",")[0].split()[:2])
    return EntryPoint(name, (command,), UNITS, call, mix=mix, sample=sample)


ENTRY_POINTS = [
    entry("deniable query, CSV", query(write_csv, "visits.csv", BY_CITY, "--epsilon", "1", *KEYS), sample=8),
    entry("deniable query, CSV, --json", query(write_csv, "visits.csv", BY_CITY, "--epsilon", "1", *KEYS, "--json")),
    entry(
        "deniable query, CSV, --dry-run",
        query(write_csv, "visits.csv", BY_CITY, "--epsilon", "1", *KEYS, "--dry-run"),
        sample=3,
    ),
    entry(
        "deniable query, CSV, keys of the data",
        query(
            write_csv, "visits.csv", "SELECT city, COUNT(*) AS visits FROM visits GROUP BY city",
            "--epsilon", "8", "--delta", "1e-6",
        ),
    ),
    entry(
        "deniable query, CSV, bounds of the data",
        query(
            write_csv, "visits.csv", "SELECT SUM(cost) AS total FROM visits",
            "--epsilon", "2", "--bounds", "private", "--diagnose", "0.2",
        ),
    ),
    entry(
        "deniable query, Parquet", query(write_parquet, "visits.parquet", BY_CITY, "--epsilon", "1", *KEYS), sample=5
    ),
    entry("deniable describe, CSV", describe, sample=2),
    entry("deniable publish, CSV", publish(write_csv, "visits.csv"), sample=4),
    entry("deniable publish, CSV, --json", publish(write_csv, "visits.csv", "--json"), sample=2),
    entry("deniable publish, Parquet", publish(write_parquet, "visits.parquet"), sample=2),
]  # fmt: skip
