"""Ibis tables as data: each is asked through the connection it has, on DuckDB, PostgreSQL or Spark.

A table must be one of its database. An expression over tables is refused: it is not ours, and the engine would compute
it anew, and perhaps fail on a row, after the charge.
"""

from __future__ import annotations

from typing import Any

from deniable.errors import DataError
from deniable.query.engines import databases, postgres, spark


def is_ibis(data: Any) -> bool:
    """Whether data are an Ibis table or connection."""
    return type(data).__module__.partition(".")[0] == "ibis"


def unwrapped(data: Any) -> Any:
    """What an Ibis table or connection stands for, as the engines know it."""
    if not hasattr(data, "op"):
        return _home(data)
    node = data.op()
    if type(node).__name__ != "DatabaseTable":
        raise DataError(
            f"an Ibis {type(node).__name__} is not a table of its database; give the table, and ask about it in SQL"
        )
    backend, schema = data.get_backend(), getattr(node.namespace, "database", None)
    if backend.name == "duckdb":
        return databases.DuckDBTable(_home(backend), node.name)
    if backend.name == "postgres":
        return postgres.PostgresTable(postgres.address(_home(backend), schema=schema), node.name)
    home = _home(backend)
    return spark.SparkTable(home, f"{schema}.{node.name}" if schema else node.name)


def _home(backend: Any) -> Any:
    """The connection of an Ibis backend."""
    if getattr(backend, "name", None) in ("duckdb", "postgres"):
        return backend.con
    if getattr(backend, "name", None) == "pyspark":
        return backend._session
    raise DataError(
        f"Ibis on {getattr(backend, 'name', type(backend).__name__)} is not supported; use DuckDB, PostgreSQL or Spark"
    )
