"""Every kind of question on one input, and the publication of many: keys, bounds and limits that are found privately,
diagnoses, quantiles, joins, GoogleSQL, a plan that is run, and a run that was cut short and is finished.

`inputs.py` tries every kind of input with two plain questions, `engines.py` the engines elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deniable.query import AtMost, Publication, Session
from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, EntryPoint, World

Row = tuple[str | None, str | None, float | None, str | None]

CITIES = ("Basel", "Bern", "Zurich")
OWN: list[Row] = [
    (f"p{visit % 150}", CITIES[visit % 150 % 3], float(visit % 90), f"2026-{visit % 9 + 1:02d}-11")
    for visit in range(300)
]
"""So many people that no group is near the threshold of private keys, and private bounds are found."""

KINDS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "patient_id": (hostile.UTF8, {"None": None}),
    "city": (hostile.UTF8, {"None": None}),
    "cost": (hostile.FLOATS, {"None": None}),
    "day": (hostile.UTF8, hostile.DATE_TEXTS, {"None": None}),
}
NAMES = tuple(KINDS)


def row(**values: Any) -> Row:
    """A row of one more person."""
    found = {"patient_id": "p900", "city": "Bern", "cost": 12.0, "day": "2026-05-05", **values}
    return found["patient_id"], found["city"], found["cost"], found["day"]


UNITS: dict[str, Any] = {
    "removed": REMOVED,
    **{
        f"{column}: {label}": [row(**{column: value})]
        for column, kinds in KINDS.items()
        for kind in kinds
        for label, value in kind.items()
    },
    "many rows": [row(cost=float(number)) for number in range(hostile.MANY)],
    "many keys": [row(city=f"city {number}") for number in range(1000)],
    "duplicates": [row()] * 2,
    "everything": [row(city=text, day=text) for text in hostile.UTF8.values()],
}


def mix(rng: random.Random) -> list[Row]:
    """Several hostile rows of one person or of a few."""

    def pick(column: str) -> Any:
        return hostile.mixed(rng, *KINDS[column], most=1)[0]

    return [
        row(patient_id=f"p90{rng.randrange(3)}", **{name: pick(name) for name in NAMES[1:] if rng.random() < 0.6})
        for _ in range(rng.randint(1, 8))
    ]


def table(unit: Any) -> pa.Table:
    """D, D without one person, or D with hostile rows."""
    rows = OWN if unit is None else [r for r in OWN if r[0] != "p7"] if unit is REMOVED else [*OWN, *unit]
    types = (pa.string(), pa.string(), pa.float64(), pa.string())
    columns = list(zip(*rows, strict=True))
    return pa.table({name: pa.array(columns[i], types[i]) for i, name in enumerate(NAMES)})


LIMITS = AtMost(groups=2, rows=3)
STAGED = ("deniable.query.Session.plan", "deniable.query.StagedPlan.run")
PLAIN = ("deniable.query.Session.plan", "deniable.query.QueryPlan.run")
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "keys of the data": ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", {"delta": 1e-6}),
    "keys of the data, joined": (
        "SELECT canton, SUM(cost) AS c FROM visits JOIN cantons USING (city) GROUP BY canton",
        {"bounds": {"cost": (0, 100)}},
    ),
    "bounds of the data": ("SELECT SUM(cost) AS c, AVG(cost) AS a FROM visits", {"bounds": "private"}),
    "limits of the data": ("SELECT COUNT(*) AS n FROM visits", {"per_unit": "private"}),
    "everything of the data": (
        "SELECT city, SUM(cost) AS c FROM visits GROUP BY city",
        {"bounds": "private", "per_unit": "private", "keys": {"city": CITIES}, "diagnose": 0.2},
    ),
    "nothing stated": (
        "SELECT city, COUNT(*) AS n, AVG(cost) AS c, MEDIAN(cost) AS m FROM visits GROUP BY city",
        {"per_unit": None, "delta": 1e-6},
    ),
    "left out": (
        "SELECT city, SUM(cost) AS c FROM visits GROUP BY city",
        {"bounds": {"cost": (0, 50)}, "keys": {"city": CITIES}, "leave_out": True},
    ),
    "noise alone": ("SELECT SUM(cost) AS c FROM visits", {"bounds": {"cost": (0, 50)}, "cover": 0}),
    "diagnosis": ("SELECT AVG(cost) AS c FROM visits", {"bounds": {"cost": (0, 50)}, "diagnose": 0.2}),
    "an error in place of ε": ("SELECT COUNT(*) AS n FROM visits", {"error": 5, "epsilon": None}),
    "quantiles": (
        "SELECT MEDIAN(cost) AS m, MIN(cost) AS low, QUANTILE_CONT(cost, 0.9) AS high FROM visits",
        {"bounds": {"cost": (0, 100)}},
    ),
    "spreads": ("SELECT STDDEV(cost) AS s, VAR_POP(cost) AS v FROM visits", {"bounds": {"cost": (0, 100)}}),
    "mode and distinct": (
        "SELECT MODE(city) AS m, COUNT(DISTINCT day) AS d, COUNT(DISTINCT patient_id) AS p FROM visits",
        {"keys": {"city": CITIES}},
    ),
    "expressions": (
        "SELECT SUM(LN(cost) / cost) AS a, SUM(LENGTH(city || day)) AS b, COUNT_IF(city LIKE '%e_n%') AS c FROM visits "
        "WHERE UPPER(day) <> 'X' OR SQRT(cost) > 1",
        {"bounds": {"LN(cost) / cost": (0, 1), "LENGTH(city || day)": (0, 20)}},
    ),
    "months": (
        "SELECT MONTH(TRY_CAST(day AS DATE)) AS month, COUNT(*) AS n FROM visits GROUP BY 1 HAVING n > 0 ORDER BY n",
        {},
    ),
    "computed of what is released": (
        "SELECT city, SUM(cost) / COUNT(*) AS r, CASE WHEN COUNT(*) > 9 THEN 1 ELSE SQRT(SUM(cost)) END AS c "
        "FROM visits GROUP BY city HAVING COUNT(DISTINCT patient_id) > -1000 ORDER BY AVG(cost) DESC",
        {"bounds": {"cost": (0, 100)}, "keys": {"city": CITIES}},
    ),
    "one number per person": (
        "WITH p AS (SELECT patient_id, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a FROM visits GROUP BY patient_id "
        "HAVING MIN(cost) < 50) SELECT AVG(n) AS n, SUM(s * a) AS s FROM p",
        {"bounds": {"n": (0, 9), "s * a": (-99, 99)}, "per_unit": None},
    ),
    "unions and people": (
        "SELECT COUNT(*) AS n, COUNT(DISTINCT c, d) AS d FROM (SELECT city AS c, day AS d FROM visits WHERE patient_id "
        "IN (SELECT patient_id FROM visits GROUP BY 1 HAVING COUNT(*) > 1) UNION ALL SELECT day, city FROM visits) "
        "AS u WHERE c ILIKE '%e%' OR d LIKE '!%%' ESCAPE '!'",
        {},
    ),
    "GoogleSQL": (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=30, delta=1e-6, max_groups_contributed=2, "
        "privacy_unit_column=patient_id) city, SUM(cost, contribution_bounds_per_group => (0, 200)) AS c "
        "FROM visits GROUP BY city",
        {"epsilon": None, "per_unit": None},
    ),
}


def question(sql: str, options: dict[str, Any]) -> Callable[[World, Any], Any]:
    def call(world: World, unit: Any) -> Any:
        cantons = pa.table({"city": CITIES, "canton": ("BS", "BE", "ZH")})
        with Session({"visits": table(unit)}, ledger=world.ledger(), public={"cantons": cantons}) as session:
            given = {"epsilon": 30, "per_unit": LIMITS, **options}
            plan = session.plan(sql, **{name: value for name, value in given.items() if value is not None})
            release = plan.run()
            # HAVING and ORDER BY decide by noisy numbers which groups are shown, MODE which category is.
            chosen = "HAVING" in sql or "MODE" in sql
            shown = list(release.columns) if chosen else {"columns": release.columns, "text": str(release)}
            return plan.to_json(), plan.explain(), release.event, release.describe(), shown

    return call


def description(world: World, unit: Any) -> Any:
    with Session({"visits": table(unit)}, ledger=world.ledger()) as session:
        found = session.describe("visits", epsilon=30)
        return str(found), found.to_dict(), found.event


TABLES = """
title = "Visits"
ledger = "study.ledger"
epsilon = 30
[data]
visits = "visits.parquet"
[tables.all]
sql = "SELECT COUNT(*) AS n, COUNT(DISTINCT city) AS cities FROM visits"
per_unit = {groups = 1, rows = 3}
[tables.by_city]
sql = "SELECT city, SUM(cost) AS total FROM visits GROUP BY city"
keys.city = ["Basel", "Bern", "Zurich"]
bounds.cost = [0, 100]
per_unit = {groups = 2, rows = 3}
[tables.found]
sql = "SELECT AVG(cost) AS cost FROM visits"
bounds = "private"
per_unit = {groups = 1, rows = 3}
diagnose = 0.2
"""


def publication(world: World, unit: Any) -> Any:
    pq.write_table(table(unit), world.input("visits.parquet"))
    world.ledger()
    world.write("tables.toml", TABLES)
    with Publication.read("tables.toml") as found:
        told = str(found), found.explain(), found.to_json(), found.describe(), found.event
        return told, found.write("release")


def resumed(world: World, unit: Any) -> Any:
    """A run that is cut short behind its first table, and finished."""
    pq.write_table(table(unit), world.input("visits.parquet"))
    world.ledger()
    world.write("tables.toml", TABLES)

    class Interruption(Exception):
        """Somebody pulled the plug."""

    def interrupt(name: str, done: int, of: int) -> None:
        seen.append((name, done, of))
        if done == 2:
            raise Interruption

    seen: list[Any] = []
    with Publication.read("tables.toml") as found:
        try:
            found.write("release", progress=interrupt)
        except Interruption:
            seen.append("interrupted")
    with Publication.read("tables.toml") as found:
        return str(seen), found.write("release")


PUBLICATION = tuple(
    f"deniable.query.Publication{name}" for name in ("", ".describe", ".explain", ".read", ".to_json", ".write")
)
ENTRY_POINTS = [
    *(
        EntryPoint(
            f"Session.plan, {name}",
            PLAIN if options.get("cover") == 0 else STAGED,
            UNITS,
            question(sql, options),
            mix=mix,
            sample=3,
        )
        for name, (sql, options) in QUESTIONS.items()
    ),
    EntryPoint("Session.describe", ("deniable.query.Session.describe",), UNITS, description, mix=mix, sample=3),
    EntryPoint("Publication", PUBLICATION, UNITS, publication, mix=mix, sample=3),
    EntryPoint("Publication, finished later", PUBLICATION, UNITS, resumed, mix=mix, sample=2),
]
