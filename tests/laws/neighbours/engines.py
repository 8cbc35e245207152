"""Tables that are asked where they are: PostgreSQL, Spark, and Ibis in front of DuckDB.

A hostile row is stored with the engine's own literals, so that it holds what only that engine can: infinite times, a
NUMERIC of a thousand digits, years that Python does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from deniable.query import AtMost, Session
from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import EVERYTHING, REMOVED, EntryPoint, World

CITIES = ["Basel", "Bern", "Zurich"]
LIMITS = AtMost(groups=2, rows=2)
COVERS = (
    "deniable.query.Session",
    "deniable.query.Session.plan",
    "deniable.query.Session.sql",
    "deniable.query.QueryPlan.run",
)


def ask(world: World, data: Any) -> Any:
    """Two questions that read every column, and one whose keys are found in the data."""
    with Session(data, ledger=world.ledger()) as session:
        first = session.sql(
            "SELECT city, COUNT(*) AS n, AVG(cost) AS cost, SUM(paid) AS paid FROM visits "
            "WHERE seen < TIMESTAMP '2027-01-01 00:00:00' OR cost >= 0 GROUP BY city",
            epsilon=30, keys={"city": CITIES}, bounds={"cost": (0, 100), "paid": (0, 10)}, per_unit=LIMITS,
        )  # fmt: skip
        second = session.sql(
            "SELECT YEAR(seen) AS year, COUNT(DISTINCT patient_id) AS n, MEDIAN(cost) AS m FROM visits GROUP BY year",
            epsilon=30, keys={"year": [2025, 2026]}, bounds={"cost": (0, 100)}, per_unit=LIMITS,
        )  # fmt: skip
        third = session.sql(
            "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon=30, delta=1e-6, per_unit=LIMITS
        )
        return [table.names for table in session.tables], [
            (one.columns, str(one), one.event) for one in (first, second, third)
        ]


def literal(value: Any) -> str:
    """A value as SQL: text is quoted, everything else is a literal already."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else value.sql


class Sql:
    """A literal of an engine."""

    def __init__(self, sql: str) -> None:
        self.sql = sql


Row = tuple[Any, Any, Any, Any, Any]


def rows_of(unit: Any) -> list[Row]:
    """D, D without one person, or D with hostile rows."""
    own: list[Row] = [
        (
            f"p{n % 60}",
            CITIES[n % 60 % 3],
            Sql(f"{n % 90}"),
            Sql(f"{n % 7}"),
            Sql(f"TIMESTAMP '2026-01-{n % 28 + 1:02}'"),
        )
        for n in range(120)
    ]
    if unit is None:
        return own
    return [row for row in own if row[0] != "p7"] if unit is REMOVED else [*own, *unit]


def units(**kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Hostile rows by label: for each column, literals of an engine."""
    names = ("patient_id", "city", "cost", "paid", "seen")
    plain: Row = ("evil", "Bern", Sql("5"), Sql("1"), Sql("TIMESTAMP '2026-05-05 08:00:00'"))
    found = {
        f"{column}: {label}": [tuple(value if name == column else plain[i] for i, name in enumerate(names))]
        for column, values in kinds.items()
        for label, value in values.items()
    }
    found |= {"many rows": [plain] * 2000, "duplicates": [plain] * 2}
    return {"removed": REMOVED, **found, EVERYTHING: [row for rows in found.values() for row in rows]}


STORABLE = {label: text for label, text in hostile.UTF8.items() if "\0" not in text}
TEXTS: Mapping[str, Any] = {**STORABLE, "NULL": Sql("NULL")}


# PostgreSQL


def typed(type_: str, *values: str) -> dict[str, Any]:
    """Literals of a type by what they say, and NULL."""
    return {**{value: Sql(f"'{value}'::{type_}") for value in values}, "NULL": Sql("NULL")}


POSTGRES = units(
    patient_id=TEXTS,
    city=TEXTS,
    cost=typed("float8", "NaN", "Infinity", "-Infinity", "-0.0", "1e308", "5e-324"),
    paid=typed("numeric", "NaN", "Infinity", "-Infinity", "1e1000", "1e-1000", str(2**64 - 1)),
    seen=typed("timestamp", "infinity", "-infinity", "294276-12-31", "4713-01-01 BC", "0001-01-01"),
)


def postgres(*, by_address: bool) -> Callable[[World, Any], Any]:
    def call(world: World, unit: Any) -> Any:
        import psycopg

        server = world.fixtures["postgres"]
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows_of(unit))
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS visits")
            columns = "patient_id TEXT, city TEXT, cost DOUBLE PRECISION, paid NUMERIC, seen TIMESTAMP"
            connection.execute(f"CREATE TABLE visits ({columns})")
            connection.execute(f"INSERT INTO visits VALUES {values}".encode())
            address = f"postgresql:///postgres?host={server.folder}&user=tester"
            return ask(world, {"visits": address if by_address else connection})

    return call


# Spark

MICROSECONDS = 1_767_254_400_000_000
SPARK_PLAIN: Row = ("evil", "Bern", 5.0, Decimal(1), MICROSECONDS)
SPARK: dict[str, Any] = {
    "removed": REMOVED,
    **{
        f"{column}: {label}": [(*SPARK_PLAIN[:place], value, *SPARK_PLAIN[place + 1 :])]
        for place, (column, values) in enumerate(
            {
                "patient_id": {**hostile.UTF8, "None": None},
                "city": {**hostile.UTF8, "None": None},
                "cost": {**hostile.FLOATS, "None": None},
                "paid": {"largest": Decimal("9" * 36 + ".99"), "None": None},
                "seen": {"earliest": -(2**63) + 1, "latest": 2**63 - 1, "None": None},
            }.items()
        )
        for label, value in values.items()
    },
    "many rows": [SPARK_PLAIN] * 2000,
    "duplicates": [SPARK_PLAIN] * 2,
}
SPARK[EVERYTHING] = [row for rows in SPARK.values() if rows is not REMOVED for row in rows]


def spark(world: World, unit: Any) -> Any:
    rows: list[Row] = [
        (f"p{n % 60}", CITIES[n % 60 % 3], float(n % 90), Decimal(n % 7), MICROSECONDS + n) for n in range(120)
    ]
    if unit is not None:
        rows = [row for row in rows if row[0] != "p7"] if unit is REMOVED else [*rows, *unit]
    types = "patient_id STRING, city STRING, cost DOUBLE, paid DECIMAL(38, 2), micros BIGINT"
    frame = world.fixtures["spark"].createDataFrame(rows, types)
    return ask(world, {"visits": frame.selectExpr("* EXCEPT (micros)", "TIMESTAMP_MICROS(micros) AS seen")})


# Ibis

IBIS = units(
    patient_id=TEXTS,
    city=TEXTS,
    cost=typed("DOUBLE", "NaN", "inf", "-inf", "1e308"),
    paid=typed("DECIMAL(18, 2)", "9" * 16 + ".99"),
    seen=typed("TIMESTAMP", "infinity", "-infinity", "290309-12-22 (BC) 00:00:00"),
)


def ibis(world: World, unit: Any) -> Any:
    import ibis as library

    backend = library.duckdb.connect()
    try:
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows_of(unit))
        columns = "patient_id TEXT, city TEXT, cost DOUBLE, paid DECIMAL(18, 2), seen TIMESTAMP"
        backend.raw_sql(f"CREATE TABLE visits ({columns})")
        backend.raw_sql(f"INSERT INTO visits VALUES {values}")
        return ask(world, {"visits": backend.table("visits")})
    finally:
        backend.disconnect()


ENTRY_POINTS = [
    EntryPoint(f"Session, {name}", COVERS, hostile_units, call, sample=sample, needs=needs)
    for name, hostile_units, call, sample, needs in (
        ("PostgreSQL, by its address", POSTGRES, postgres(by_address=True), 1, ("postgres",)),
        ("PostgreSQL, by a connection", POSTGRES, postgres(by_address=False), 0, ("postgres",)),
        ("Spark", SPARK, spark, 0, ("spark",)),
        ("Ibis", IBIS, ibis, 0, ()),
    )
]
