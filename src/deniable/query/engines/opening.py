"""Which engine data need: Spark's and PostgreSQL's are asked where they are, everything else by DuckDB.

All private tables of a session are on one engine, since one statement reads them. Public tables are copied, from that
engine or from files and data frames.

**Ibis.** Ibis tables as data: each is asked through the connection it has, on DuckDB, PostgreSQL or Spark.

A table must be one of its database. An expression over tables is refused: it is not ours, and the engine would compute
it anew, and perhaps fail on a row, after the charge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deniable.errors import DataError, InvalidArgument
from deniable.query.engines import databases, postgres, spark
from deniable.query.engines.base import Engine, EngineLimits
from deniable.query.engines.duckdb import DuckDB
from deniable.query.engines.files import Files, is_path, table_name


def expanded(data: Any, *, encoding: str | None = None) -> Any:
    """A database as the mapping of its tables, a mapping with its databases and files as tables, files as a mapping of
    one table; anything else as it is. `encoding` is that of CSV files."""
    data = unwrapped(data) if is_ibis(data) else data
    data = dataset_files(data) if is_dataset(data) else data
    if isinstance(data, databases.DuckDBTable | postgres.PostgresTable | spark.SparkTable):
        return {data.table.rpartition(".")[2]: data}
    if postgres.is_database(data):
        home = postgres.address(data)
        return {table: postgres.PostgresTable(home, table) for table in postgres.tables_of(home)}
    if spark.is_session(data):
        raise DataError("a Spark session has many tables; name those to ask, as in {'visits': spark}")
    if isinstance(data, str) and spark.is_spark(data):
        return {data.removeprefix(spark.PREFIX).rpartition(".")[2]: data}
    if isinstance(data, Mapping):
        return {name: _table(name, given, encoding) for name, given in data.items()}
    if is_path(data) and not databases.is_database(data):
        return {table_name(data): Files.of(data, encoding=encoding)}
    return databases.expanded(data)


def opened(
    private: Iterable[Any],
    public: Iterable[Any],
    *,
    alike: bool = False,
    steady: bool = False,
    limits: EngineLimits | None = None,
) -> Engine:
    """The engine that holds private tables, before any table is added; `alike` makes it choose rows as all can,
    `steady` run the same statements whatever the rows are."""
    tables, others = list(private), list(public)
    on_postgres = {given.home for given in tables if isinstance(given, postgres.PostgresTable)}
    sessions = {id(home): home for home in (_spark_session(given) for given in tables) if home is not None}
    if len(on_postgres) > 1 or len(sessions) > 1 or (on_postgres and sessions):
        raise DataError("the private tables are in several databases; one statement must reach them all, so use one")
    here = "PostgreSQL" if on_postgres else "Spark" if sessions else _DUCKDB
    for there in (_home(given) for given in others):
        if there not in ("", here):
            raise DataError(
                f"a public table is in {there}, and the private tables are not; give it as a file, or as a pandas, "
                "Polars or Arrow table"
            )
    connection = databases.shared([*tables, *others])
    if limits is not None and limits != EngineLimits() and (on_postgres or sessions or connection is not None):
        stated = next(name for name in ("memory", "threads", "seconds") if getattr(limits, name) is not None)
        raise InvalidArgument(
            stated, getattr(limits, stated), "left out where the tables are in a database of yours",
            "Its owner limits it.",
        )  # fmt: skip
    if on_postgres:
        return postgres.PostgreSQL(on_postgres.pop())
    if sessions:
        return spark.Spark(next(iter(sessions.values())))
    return DuckDB(connection, alike=alike, steady=steady, limits=limits)


_DUCKDB = "an open DuckDB connection"


def _home(given: Any) -> str:
    """Where alone a table can be read; nothing for files and data frames, which can be read anywhere."""
    if isinstance(given, postgres.PostgresTable):
        return "PostgreSQL"
    if isinstance(given, spark.SparkTable) or spark.is_spark(given):
        return "Spark"
    return _DUCKDB if databases.shared([given]) is not None else ""


def _table(name: Any, given: Any, encoding: str | None) -> Any:
    """One table of a mapping, whose key names it where a database is given."""
    given = unwrapped(given) if is_ibis(given) else given
    given = dataset_files(given) if is_dataset(given) else given
    if postgres.is_database(given):
        return postgres.PostgresTable(postgres.address(given), str(name))
    if spark.is_session(given):
        return spark.SparkTable(given, str(name))
    if databases.is_database(given):
        return databases.DuckDBTable(given, str(name))
    if isinstance(given, str) and spark.is_spark(given):
        return given
    return Files.of(given, encoding=encoding) if is_path(given) else given


def _spark_session(given: Any) -> Any:
    return spark.session_of(given) if isinstance(given, spark.SparkTable) or spark.is_spark(given) else None


def is_dataset(data: Any) -> bool:
    """Whether data are a data set of pyarrow."""
    return type(data).__module__ == "pyarrow._dataset" and hasattr(data, "schema")


def dataset_files(data: Any) -> list[str]:
    """The files of a data set of pyarrow: local Parquet files, all of whose rows and columns it has."""
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet

    local = isinstance(getattr(data, "filesystem", None), pyarrow.fs.LocalFileSystem)
    parquet = isinstance(getattr(data, "format", None), pyarrow.dataset.ParquetFileFormat)
    if not local or not parquet or not data.files:
        raise DataError("a data set must be of local Parquet files; its to_table() makes a table of any other")
    if getattr(data, "_scan_options", None):
        raise DataError("a data set with a filter cannot be asked; give the data set itself, and write WHERE")
    if data.schema.names != pyarrow.parquet.read_schema(data.files[0]).names:
        raise DataError(
            "a data set whose columns are not those of its files cannot be asked: names of folders are not read as "
            "columns; its to_table() makes a table of it"
        )
    return list(data.files)


def is_ibis(data: Any) -> bool:
    """Whether data are an Ibis table or connection."""
    return type(data).__module__.partition(".")[0] == "ibis"


def unwrapped(data: Any) -> Any:
    """What an Ibis table or connection stands for, as the engines know it."""
    if not hasattr(data, "op"):
        return _connection(data)
    node = data.op()
    if type(node).__name__ != "DatabaseTable":
        raise DataError(
            f"an Ibis {type(node).__name__} is not a table of its database; give the table, and ask about it in SQL"
        )
    backend, schema = data.get_backend(), getattr(node.namespace, "database", None)
    if backend.name == "duckdb":
        return databases.DuckDBTable(_connection(backend), node.name)
    if backend.name == "postgres":
        return postgres.PostgresTable(postgres.address(_connection(backend), schema=schema), node.name)
    home = _connection(backend)
    return spark.SparkTable(home, f"{schema}.{node.name}" if schema else node.name)


def _connection(backend: Any) -> Any:
    """The connection of an Ibis backend."""
    if getattr(backend, "name", None) in ("duckdb", "postgres"):
        return backend.con
    if getattr(backend, "name", None) == "pyspark":
        return backend._session
    raise DataError(
        f"Ibis on {getattr(backend, 'name', type(backend).__name__)} is not supported; use DuckDB, PostgreSQL or Spark"
    )
