"""The same table on several engines: put there by their own means, and asked by the same plan.

A table is a mapping from columns to (type, values); the types are those of DuckDB.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from deniable.query.engines import DuckDB
from deniable.query.engines.base import Engine
from deniable.query.engines.remote import Copies, FetchedTable
from deniable.query.planning import QueryPlan
from deniable.query.schema import Column, ColumnKind
from deniable.units import Relation, Unit
from tests.query.conftest import NoLedger, plan_over

Data = Mapping[str, tuple[str, Sequence[Any]]]

KINDS = {
    "BIGINT": ColumnKind.INTEGER, "INTEGER": ColumnKind.INTEGER, "DOUBLE": ColumnKind.REAL, "VARCHAR": ColumnKind.TEXT,
    "BOOLEAN": ColumnKind.BOOLEAN, "DATE": ColumnKind.DATE, "TIMESTAMP": ColumnKind.TIMESTAMP,
    "DECIMAL(10, 2)": ColumnKind.REAL, "FLOAT": ColumnKind.REAL,
}  # fmt: skip
POSTGRES = {"DOUBLE": "DOUBLE PRECISION", "VARCHAR": "TEXT", "FLOAT": "REAL"}
SPARK = {"VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ", "INTEGER": "INT"}

_numbers = itertools.count(1)


class DuckDBTables(Copies):
    """DuckDB, choosing rows as the others do."""

    def __init__(self) -> None:
        super().__init__(alike=True)

    def put(self, name: str, data: Data, *, public: bool) -> Any:
        columns = tuple(Column(column, KINDS[type], type) for column, (type, _) in data.items())
        return replace(
            self.keep(name, FetchedTable(columns, [list(values) for _, values in data.values()])), public=public
        )


def in_duckdb(tables: Mapping[str, Data], public: Mapping[str, Data]) -> Engine:
    engine = DuckDBTables()
    engine.given = {name: engine.put(name, data, public=False) for name, data in tables.items()}  # type: ignore[attr-defined]
    engine.given |= {name: engine.put(name, data, public=True) for name, data in public.items()}  # type: ignore[attr-defined]
    return engine


def in_postgres(connection: Any, dsn: str, tables: Mapping[str, Data], public: Mapping[str, Data]) -> Engine:
    """Tables in a schema of their own, asked through a connection of its own."""
    from deniable.query.engines.postgres import PostgreSQL, PostgresTable

    schema = f"s{next(_numbers)}"
    connection.execute(f"CREATE SCHEMA {schema}")
    for name, data in {**tables, **public}.items():
        columns = ", ".join(f'"{column}" {POSTGRES.get(type, type)}' for column, (type, _) in data.items())
        connection.execute(f'CREATE TABLE {schema}."{name}" ({columns})')
        places = ", ".join(["%s"] * len(data))
        rows = list(zip(*(values for _, values in data.values()), strict=True))
        if rows:
            with connection.cursor() as cursor:
                cursor.executemany(f'INSERT INTO {schema}."{name}" VALUES ({places})', rows)
    home = f"{dsn} options='-csearch_path={schema}'"
    engine = PostgreSQL(home)
    engine.given = {name: engine.add(name, PostgresTable(home, name)) for name in tables}  # type: ignore[attr-defined]
    engine.given |= {name: engine.add(name, PostgresTable(home, name), public=True) for name in public}  # type: ignore[attr-defined]
    return engine


def in_spark(spark: Any, tables: Mapping[str, Data], public: Mapping[str, Data]) -> Engine:
    from deniable.query.engines.spark import Spark

    engine = Spark(spark)
    engine.given = {}  # type: ignore[attr-defined]
    for name, data in {**tables, **public}.items():
        types = ", ".join(f"`{column}` {SPARK.get(type, type)}" for column, (type, _) in data.items())
        rows = list(zip(*(values for _, values in data.values()), strict=True))
        frame = spark.createDataFrame(rows, types)
        engine.given[name] = engine.add(name, frame, public=name in public)  # type: ignore[attr-defined]
    return engine


def ask(
    engine: Any, sql: str, *, unit: str = "person", relation: Relation = Relation.ADD_REMOVE, **options: Any
) -> QueryPlan:
    """The plan of a query over the tables of an engine, which has bound it."""
    protected = Unit.of(unit)
    tables = (t if t.public else replace(t, owner=protected.column) for t in engine.given.values())
    found = plan_over(sql, tuple(tables), engine, NoLedger(protected, relation), **options)
    for statement in found.statements:
        engine.bind(statement)
    return found


def totals(found: QueryPlan, *, key: tuple[int, int] = (1, 2)) -> dict[str, Any]:
    """The exact totals of a plan, as plain values by what they are, by group."""
    got = found.engine.run(found.bounded, groups=found.groups, key=key)
    numbers = range(len(got.rows)) if got.groups is None else got.groups.tolist()
    names = [(g, *(plain(got.keys[i].tolist()[row]) for i in sorted(got.keys))) for row, g in enumerate(numbers)]
    measured: dict[str, Any] = {"rows": dict(zip(names, got.rows.tolist(), strict=True))}
    for part in found.noises:
        cells = part.measure.of(got).reshape(len(names), -1)
        measured[part.measure.name] = {
            (names[row], cell): int(cells[row, cell]) for row, cell in zip(*cells.nonzero(), strict=True)
        }
    return measured


def plain(value: Any) -> Any:
    """A key as text, in which engines agree."""
    if isinstance(value, datetime) or not isinstance(value, date | float):
        return str(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(float(value))
    return f"{value.isoformat()} 00:00:00"


__all__ = ["DuckDB", "ask", "in_duckdb", "in_postgres", "in_spark", "totals"]
