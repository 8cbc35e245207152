"""Sessions on every kind of input: files, folders, frames and databases, with one hostile record among ordinary ones.

A record is a row of `visits`: its own person, a city and a cost, of which one value is hostile. CSV files are written
by Python's csv module, so a hostile record is well formed; a file that is not is refused as a whole, which
`tests/query/test_csv.py` tries.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from deniable.query import AtMost, Session, convert
from deniable.query import open as open_tables
from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, EntryPoint, World

CITIES = ["Basel", "Bern", "Zurich"]
ROWS: list[dict[str, Any]] = [
    {"patient_id": f"p{number}", "city": CITIES[number % 3], "cost": 10.0 * number, "day": number * 10**12, "paid": 100}
    for number in range(12)
]
LIMITS = AtMost(groups=1, rows=2)
SAMPLE = 3
"""Hostile records of an ordinary run, where another kind of input tries them all."""


def neighbour(unit: Any) -> list[dict[str, Any]]:
    """D, D without its last person, or D with hostile records."""
    if unit is None:
        return ROWS
    return ROWS[:-1] if unit is REMOVED else [*ROWS, *unit]


def record(column: str, value: Any) -> dict[str, Any]:
    return {"patient_id": "evil", "city": "Bern", "cost": 5.0, "day": 0, "paid": 0, column: value}


def units(**kinds: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Hostile records by label: for each column, values of some kinds."""
    found = {
        f"{column}: {label}": [record(column, value)]
        for column, several in kinds.items()
        for kind in several
        for label, value in kind.items()
    }
    many = {"many rows": [record("cost", float(number)) for number in range(hostile.MANY)]}
    return {"removed": REMOVED, **found, **many, "duplicates": [record("cost", 1.0)] * 2}


def mix(pools: Mapping[str, tuple[Mapping[str, Any], ...]]) -> Callable[[random.Random], Any]:
    """Several hostile records at random, for the soak."""

    def pick(rng: random.Random) -> Any:
        return [
            {"patient_id": f"evil{number % 3}", "city": "Bern", "cost": 5.0, "day": 0, "paid": 0}
            | {
                column: hostile.mixed(rng, *several, most=1)[0]
                for column, several in pools.items()
                if rng.random() < 0.6
            }
            for number in range(rng.randint(1, 8))
        ]

    return pick


def ask(world: World, data: Any, *, times: bool = False, **options: Any) -> Any:
    """Open a session and ask about every column."""
    with Session(data, ledger=world.ledger(), **options) as session:
        first = session.sql(
            "SELECT city, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY city",
            epsilon=1, keys={"city": CITIES}, bounds={"cost": (0, 100)}, per_unit=LIMITS,
        )  # fmt: skip
        more = ", COUNT(day) AS days, SUM(paid) AS paid, COUNT(CAST(paid AS TEXT)) AS texts" if times else ""
        plan = session.plan(
            f"SELECT COUNT(DISTINCT patient_id) AS patients, COUNT(city) AS cities{more} FROM visits "
            "WHERE cost >= 0 OR city LIKE '%a%' OR patient_id <> 'x'",
            epsilon=1, bounds={"paid": (0, 100)} if times else None, per_unit=LIMITS,
        )  # fmt: skip
        second = plan.run()
        return [table.columns for table in session.tables], first.columns, second.columns, str(second) != ""


# CSV

TEXTS = dict.fromkeys(("patient_id", "city", "cost"), (hostile.UTF8, hostile.NUMBER_TEXTS, hostile.DATE_TEXTS))


def csv_text(unit: Any, *, end: str = "\n") -> str:
    out = io.StringIO(newline="")
    lines = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    lines.writerow(["patient_id", "city", "cost"])
    lines.writerows([row["patient_id"], row["city"], row["cost"]] for row in neighbour(unit))
    return out.getvalue()


def csv_file(world: World, unit: Any) -> Any:
    return ask(world, world.write("visits.csv", csv_text(unit)))


def opened(world: World, unit: Any) -> Any:
    """`dn.open`: the ledger is created beside the file."""
    file = world.write("visits.csv", csv_text(unit))
    with open_tables(file, unit="patient_id", epsilon=5) as session:
        world.watch(session.ledger)
        release = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit=LIMITS)
        return release.columns, str(session.ledger.budget)


def windows_file(world: World, unit: Any) -> Any:
    """A CSV file in an encoding of one byte per letter, in which any bytes are text."""
    text = csv_text([{**row, "city": row["city"]} for row in unit] if isinstance(unit, list) else unit, end="\r\n")
    return ask(world, world.write("visits.csv", text.encode("latin-1")), encoding="latin-1")


def packed_file(world: World, unit: Any) -> Any:
    return ask(world, world.write("visits.csv.gz", gzip.compress(csv_text(unit).encode(), mtime=0)))


def csv_folder(world: World, unit: Any) -> Any:
    world.write("visits/a.csv", csv_text(None))
    world.write("visits/b.csv", csv_text(unit))
    return ask(world, "visits")


def converted(world: World, unit: Any) -> Any:
    world.write("visits.csv", csv_text(unit))
    convert("visits.csv", "visits.parquet")
    return ask(world, "visits.parquet")


def command(world: World, unit: Any) -> Any:
    world.write("visits.csv", csv_text(unit))
    world.ledger()
    sql = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
    options = ["--epsilon", "1", "--keys", "city=Basel,Bern,Zurich", "--groups-per-unit", "1", "--rows-per-unit", "2"]
    return [
        world.command("convert", "visits.csv", "visits.parquet"),
        world.command("query", "visits.csv", sql, "--ledger", "study.ledger", *options),
        world.command("query", "visits.parquet", sql, "--ledger", "study.ledger", *options, "--json"),
    ]


# Arrow and Parquet

STORED: dict[str, tuple[Mapping[str, Any], ...]] = {
    "patient_id": (hostile.BYTES, {label: text.encode() for label, text in hostile.UTF8.items()}),
    "city": (hostile.BYTES, {label: text.encode() for label, text in hostile.UTF8.items()}),
    "cost": (hostile.FLOATS,),
    "day": (
        {"latest": 2**63 - 1, "earliest": -(2**63), "minus infinity": -(2**63) + 1, "year 9999": 253402300799 * 10**6},
    ),
    "paid": ({"2^127-1": 2**127 - 1, "-2^127": -(2**127), "10^38": 10**38, "10^38-1": 10**38 - 1},),
}
"""Values as they are stored: bytes of texts, numbers of microseconds, digits of decimals."""


def arrow_table(unit: Any, *, day: pa.DataType | None = None) -> pa.Table:
    rows = neighbour(unit)

    def text(column: str) -> pa.Array:
        values = [row[column].encode() if isinstance(row[column], str) else row[column] for row in rows]
        return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())

    def number(column: str, type_: pa.DataType) -> pa.Array:
        stored = b"".join(row[column].to_bytes(type_.bit_width // 8, "little", signed=True) for row in rows)
        return pa.Array.from_buffers(type_, len(rows), [None, pa.py_buffer(stored)])

    texts = text("city")
    return pa.table(
        {
            "patient_id": text("patient_id"),
            "city": texts,
            "cost": pa.array([row["cost"] for row in rows], pa.float64()),
            "day": number("day", day or pa.timestamp("us")),
            "paid": number("paid", pa.decimal128(38, 2)),
            "tags": pa.ListArray.from_arrays(pa.array(range(len(rows) + 1), pa.int32()), texts),
        }
    )


def arrow(world: World, unit: Any) -> Any:
    return ask(world, {"visits": arrow_table(unit)}, times=True)


def arrow_rare(world: World, unit: Any) -> Any:
    """Columns of types that few tables have: maps, decimals of 32 and 64 bits."""
    rows = neighbour(unit)
    ids = pa.array([row["patient_id"] for row in rows])
    columns: dict[str, Any] = {"patient_id": ids}
    for name, type_ in (("fee", pa.decimal32(4, 2)), ("price", pa.decimal64(12, 2))):
        stored = b"".join(row.get(name, 1).to_bytes(type_.bit_width // 8, "little", signed=True) for row in rows)
        columns[name] = pa.Array.from_buffers(type_, len(rows), [None, pa.py_buffer(stored)])
    maps = [row.get("notes", [("a", 1)]) for row in rows]
    columns["notes"] = pa.array(maps, pa.map_(pa.string(), pa.int64()))
    columns["tags"] = pa.array([[one] for one in maps], pa.list_(columns["notes"].type))
    sql = "SELECT COUNT(notes) AS a, COUNT(tags) AS b, SUM(fee) AS c, SUM(price) AS d FROM visits"
    with Session({"visits": pa.table(columns)}, ledger=world.ledger()) as session:
        found = session.sql(sql, epsilon=1, bounds={"fee": (0, 9), "price": (0, 9)}, per_unit=LIMITS)
        return [table.columns for table in session.tables], found.columns


RARE: dict[str, tuple[Mapping[str, Any], ...]] = {
    "notes": ({"a key twice": [("a", 1), ("a", 2)], "nothing": None, "empty": [], "no value": [("a", None)]},),
    "fee": ({"2^31-1": 2**31 - 1, "-2^31": -(2**31), "five digits": 10**4},),
    "price": ({"2^63-1": 2**63 - 1, "-2^63": -(2**63)},),
}


def arrow_seconds(world: World, unit: Any) -> Any:
    return ask(world, {"visits": arrow_table(unit, day=pa.timestamp("s", "Asia/Tokyo"))}, times=True)


def pandas_arrow(world: World, unit: Any) -> Any:
    columns = {
        name: pd.Series(pd.arrays.ArrowExtensionArray(column))
        for name, column in zip(arrow_table(None).column_names, arrow_table(unit).columns, strict=True)
    }
    return ask(world, {"visits": pd.DataFrame(columns)}, times=True)


def parquet(world: World, unit: Any) -> Any:
    pq.write_table(arrow_table(unit), "visits.parquet")
    return ask(world, "visits.parquet", times=True)


def parquet_without_statistics(world: World, unit: Any) -> Any:
    pq.write_table(arrow_table(unit), "visits.parquet", write_statistics=False, row_group_size=5)
    return ask(world, "visits.parquet", times=True)


def parquet_folder(world: World, unit: Any) -> Any:
    world.write("visits/_SUCCESS", "")
    pq.write_table(arrow_table(None), "visits/a.parquet")
    pq.write_table(arrow_table(unit), "visits/b.parquet")
    return ask(world, "visits/*.parquet", times=True)


# pandas, Polars and DuckDB

OBJECTS: dict[str, tuple[Mapping[str, Any], ...]] = dict.fromkeys(("patient_id", "city", "cost"), (hostile.ANY,))
VALID: dict[str, tuple[Mapping[str, Any], ...]] = {
    "patient_id": (hostile.UTF8,),
    "city": (hostile.UTF8,),
    "cost": (hostile.FLOATS,),
    "day": STORED["day"],
}


GAPS: Mapping[str, Any] = {"gap": None, "NaN": float("nan")}


def objects(world: World, unit: Any) -> Any:
    names = ("patient_id", "city", "cost")
    columns = {}
    for name in names:
        column = pd.Series([None] * len(rows := neighbour(unit)), dtype=object)
        for place, row in enumerate(rows):
            column.array[place] = row[name]
        columns[name] = column
    return ask(world, {"visits": pd.DataFrame(columns)})


def categories(world: World, unit: Any) -> Any:
    """Categories of texts, and of whole numbers with a gap or without."""
    rows = neighbour(unit)
    frame = pd.DataFrame(
        {
            "patient_id": pd.Categorical([row["patient_id"] for row in rows]),
            "city": pd.Categorical([row["city"] for row in rows]),
            "cost": pd.Categorical([row["cost"] for row in rows], categories=range(hostile.MANY)),
        }
    )
    return ask(world, {"visits": frame})


def polars_frame(unit: Any) -> pl.DataFrame:
    rows = neighbour(unit)
    days = pl.Series("day", [row["day"] for row in rows], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    columns = {name: [row[name] for row in rows] for name in ("patient_id", "city", "cost")}
    paid = pl.Series("paid", [row["paid"] for row in rows], dtype=pl.Int64)
    return pl.DataFrame({**columns, "day": days, "paid": paid})


def polars(world: World, unit: Any) -> Any:
    return ask(world, {"visits": polars_frame(unit)}, times=True)


def duckdb_file(world: World, unit: Any) -> Any:
    frame = polars_frame(unit).with_columns(pl.col("day").dt.replace_time_zone(None))
    with duckdb.connect("clinic.duckdb") as connection:
        connection.register("given", frame.to_arrow())
        connection.execute("CREATE TABLE visits AS FROM given")
    return ask(world, "clinic.duckdb", times=True)


def duckdb_connection(world: World, unit: Any) -> Any:
    with duckdb.connect() as connection:
        connection.register("given", polars_frame(unit).to_arrow())
        connection.execute("CREATE TABLE visits AS FROM given")
        return ask(world, connection, times=True)


SESSION = (
    "deniable.query.Session",
    "deniable.query.Session.plan",
    "deniable.query.Session.sql",
    "deniable.query.QueryPlan.run",
)


def entry(
    name: str, call: Any, kinds: Mapping[str, Any], *, sample: int | None = SAMPLE, covers: tuple[str, ...] = SESSION
) -> EntryPoint:
    return EntryPoint(
        f"Session, {name}" if covers == SESSION else name,
        covers=covers,
        hostile=units(**kinds),
        call=call,
        mix=mix(kinds),
        sample=sample,
    )


BYTE_TEXTS = {
    column: ({label: value.decode("latin-1") for label, value in hostile.BYTES.items()},)
    for column in ("patient_id", "city")
}

ENTRY_POINTS = [
    entry("CSV file", csv_file, TEXTS, sample=12),
    entry("CSV file, latin-1", windows_file, BYTE_TEXTS, sample=4),
    entry("open", opened, TEXTS, covers=("deniable.query.open",)),
    entry("CSV file, gzip", packed_file, TEXTS),
    entry("CSV folder", csv_folder, TEXTS),
    entry("convert", converted, TEXTS, covers=("deniable.query.convert",)),
    entry("deniable convert, deniable query", command, TEXTS, sample=3, covers=("deniable convert", "deniable query")),
    entry("Arrow", arrow, STORED, sample=8),
    entry("Arrow, maps and short decimals", arrow_rare, RARE, sample=None),
    entry("Arrow, seconds with a zone", arrow_seconds, STORED),
    entry("pandas, Arrow types", pandas_arrow, STORED),
    entry("Parquet file", parquet, STORED, sample=8),
    entry("Parquet file without statistics", parquet_without_statistics, STORED),
    entry("Parquet pattern", parquet_folder, STORED),
    entry("pandas, objects", objects, OBJECTS, sample=12),
    entry("pandas, categories", categories, {"cost": (GAPS,), "city": (hostile.UTF8,)}),
    entry("Polars", polars, VALID),
    entry("DuckDB file", duckdb_file, VALID),
    entry("DuckDB connection", duckdb_connection, VALID),
]
