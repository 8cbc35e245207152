"""Spark: DataFrames and tables of a catalog, asked where they are. Only aggregates leave it.

Every query is one SQL statement in a Spark session of our own, which shares the context, and so the cluster, with the
one it was given, but not its settings: times are in UTC, SQL is ANSI. DataFrames are known to it by global temporary
views of random names, which `close` drops. What is assumed of a DataFrame is said in docs/engines.md: reading it twice
gives the same rows, and no row makes it fail. Spark's messages may quote rows, so they are not passed on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deniable import noise
from deniable.errors import DataError, MissingExtra
from deniable.query.bounding import Bounded
from deniable.query.choice import KEY_PARAMETERS
from deniable.query.engines import base
from deniable.query.engines.base import interruptible, stopped, totals
from deniable.query.engines.frames import check_names
from deniable.query.engines.remote import FetchedTable, Remote, arrays, check_size
from deniable.query.engines.spark_sql import SparkWriter, Step
from deniable.query.measures import Totals
from deniable.query.schema import Column, ColumnKind, Table

PREFIX = "spark:"
"""`spark:clinic.visits` is a table of the catalog of the Spark session that runs, or that is started."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    # In a text, ${name} is what it says, not a setting or a variable of the environment.
    "spark.sql.variable.substitute": "false",
    # What a cluster sets for all of its sessions.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.legacy.nullInEmptyListBehavior": "false",
}
_COLUMNS = {
    "tinyint": (ColumnKind.INTEGER, "TINYINT"),
    "smallint": (ColumnKind.INTEGER, "SMALLINT"),
    "int": (ColumnKind.INTEGER, "INTEGER"),
    "bigint": (ColumnKind.INTEGER, "BIGINT"),
    "float": (ColumnKind.REAL, "FLOAT"),
    "double": (ColumnKind.REAL, "DOUBLE"),
    "string": (ColumnKind.TEXT, "VARCHAR"),
    "boolean": (ColumnKind.BOOLEAN, "BOOLEAN"),
    "date": (ColumnKind.DATE, "DATE"),
    **dict.fromkeys(("timestamp_ntz", "timestamp"), (ColumnKind.TIMESTAMP, "TIMESTAMP")),
}
"""What columns hold, by Spark's name of their type. `timestamp` is a time with a zone, and read in UTC."""

_SHIPPED = {"VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ"}


class SparkTable(base.StoredTable):
    """A table of a Spark session's catalog."""


def is_spark(data: Any) -> bool:
    """Whether data are Spark's: a session, a DataFrame, or `spark:table`."""
    if isinstance(data, str):
        return data.startswith(PREFIX)
    return type(data).__module__.startswith("pyspark.sql")


def is_session(data: Any) -> bool:
    """Whether data are a session of Spark."""
    return is_spark(data) and type(data).__name__ == "SparkSession"


def started() -> Any:
    """The Spark session that runs, or a local one."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise MissingExtra("pyspark", "spark") from None
    try:
        return SparkSession.builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError):
        raise DataError(
            "Spark could not be started, which mostly means that Java is missing; run: apt-get install "
            "default-jre-headless"
        ) from None


def session_of(data: Any) -> Any:
    """The session that data belong to."""
    if isinstance(data, str):
        return started()
    if isinstance(data, SparkTable):
        return data.home
    return data if is_session(data) else data.sparkSession


class Spark(Remote):
    """One session of our own, beside the one it was given."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        if not hasattr(session, "newSession") or "connect" in type(session).__module__:
            raise DataError("Spark Connect is not supported; give a session that runs in this process's Java")
        self._owner, self._session = session, session.newSession()
        for setting, value in _SETTINGS.items():
            self._session.conf.set(setting, value)
        (number,) = noise.secure().words(1).tolist()
        self._name = f"deniable_{number:016x}"
        self._views: list[str] = []
        self._named: dict[str, Any] = {}
        """Private tables that a catalog holds under a name."""
        self._texts: dict[str, list[Step]] = {}

    def check(self, statements: Iterable[Bounded]) -> None:
        """Views keep the columns they were made with. A table of a catalog is looked up once more; what changes in the
        files beneath is Spark's to notice."""
        for name, data in self._named.items():
            if _columns(name, self._frame(name, data)) != self._tables[name].columns:
                raise DataError(f"table {name} has changed since the session was opened; open it again")
        for bounded in statements:
            self.bind(bounded)  # in tables that are as they were, a statement is bound as it was

    def written(self, bounded: Bounded) -> str:
        writer = SparkWriter(self._tables, self._sources)
        shown = ((step.name, writer.text(step.tree, pretty=True)) for step in self._write(bounded))
        return "\n\n".join(f"-- {name}\n{text}" if name else text for name, text in shown)

    def _bind(self, bounded: Bounded) -> None:
        kept: list[Any] = []
        with self._lock:
            try:
                # The whole plan: constants are computed when Spark optimizes.
                self._statement(bounded, kept, key=(0, 0))._jdf.queryExecution().executedPlan()
            except _errors() as failure:
                raise DataError(f"Spark refused the query ({_kind(failure)}); nothing was charged") from None
            finally:
                _forget(kept)

    def run(self, bounded: Bounded, *, groups: int | None, key: tuple[int, int]) -> Totals:
        context = self._session.sparkContext

        def work() -> tuple[list[str], list[Any]]:
            context.setJobGroup(self._name, "a bounded query", interruptOnCancel=True)
            kept: list[Any] = []
            try:
                frame = self._statement(bounded, kept, key=key)
                return list(frame.columns), frame.collect()
            finally:
                _forget(kept)

        try:
            with self._lock:
                columns, rows = interruptible(work, stop=lambda: context.cancelJobGroup(self._name))
        except _errors():
            raise stopped("Spark") from None
        return totals(bounded, arrays(columns, rows), groups=groups)

    def close(self) -> None:
        with self._lock:
            for view in self._views:
                self._session.catalog.dropGlobalTempView(view)
            self._sources.clear()
            self._views.clear()
        self._copies.close()

    def _write(self, bounded: Bounded) -> list[Step]:
        if bounded.text not in self._texts:
            self._texts[bounded.text] = SparkWriter(self._tables, self._sources).steps(bounded.text)
        return self._texts[bounded.text]

    def _statement(self, bounded: Bounded, kept: list[Any], *, key: tuple[int, int]) -> Any:
        """The last statement as a DataFrame, with its lists of keys and its steps as views; what Spark is told to keep
        once it is computed goes to `kept`."""
        for name, texts in bounded.lists.items():
            self._session.createDataFrame(list(enumerate(texts)), "i BIGINT, k STRING").createOrReplaceTempView(name)
        halves = {name: str(half) for name, half in zip(KEY_PARAMETERS, key, strict=True)}
        for step in self._write(bounded):
            frame = self._session.sql(step.text, args={name: halves[name] for name in step.parameters})
            if step.name:
                kept.append(frame.persist())
                frame.createOrReplaceTempView(step.name)
        return frame

    def _frame(self, name: str, data: Any) -> Any:
        wanted = data.table if isinstance(data, SparkTable) else data
        if not isinstance(wanted, str):
            return wanted
        home = session_of(data)
        wanted = wanted.removeprefix(PREFIX)
        try:
            return home.table(wanted)
        except _errors():
            raise DataError(f"Spark has no table {wanted}; name it as in {PREFIX}schema.{name}") from None

    def _view(self, frame: Any) -> str:
        """A view of a DataFrame, as something to select from. Times with a zone are cast there, by our session's SQL:
        in the DataFrame it would be its owner's zone."""
        view = f"{self._name}_{len(self._views)}"
        frame.createGlobalTempView(view)
        self._views.append(view)
        place = f"{self._session.conf.get('spark.sql.globalTempDatabase')}.{view}"
        zoned = [field.name for field in frame.schema.fields if field.dataType.simpleString() == "timestamp"]
        if not zoned:
            return place
        listed = (_in_utc(column) if column in zoned else f"`{_escaped(column)}`" for column in frame.columns)
        return f"(SELECT {', '.join(listed)} FROM {place})"

    def _private(self, name: str, data: Any) -> Table:
        if not is_spark(data) and not isinstance(data, SparkTable):
            raise DataError(f"table {name} must be Spark's, like the other private tables")
        frame = self._frame(name, data)
        if frame is not data:
            self._named[name] = data
        if not frame._jdf.queryExecution().analyzed().deterministic():
            raise DataError(
                f"table {name} has other rows each time it is read, as rand() makes them, so limits would be kept by "
                "other rows than those that count; write it to a table, and give that"
            )
        self._sources[name] = self._view(frame)
        return Table(name, _columns(name, frame))

    def _fetched_rows(self, name: str, data: Any) -> FetchedTable | None:
        if not is_spark(data) and not isinstance(data, SparkTable):
            return None
        given = self._frame(name, data)
        columns = _columns(name, given)
        frame = self._session.sql(f"SELECT * FROM {self._view(given)}")
        check_size(name, frame.count())
        return FetchedTable.of(columns, frame.collect())

    def _ship(self, name: str, rows: FetchedTable) -> None:
        types = ", ".join(f"`{_escaped(c.name)}` {_SHIPPED.get(c.type, c.type)}" for c in rows.columns)
        frame = self._session.createDataFrame(list(zip(*rows.values, strict=True)), types)
        self._sources[name] = self._view(frame)


def _forget(kept: list[Any]) -> None:
    for frame in kept:
        frame.unpersist()


def _columns(table: str, frame: Any) -> tuple[Column, ...]:
    check_names(table, list(frame.columns))
    if not frame.columns:
        raise DataError(f"table {table} has no columns")
    return tuple(_column(field) for field in frame.schema.fields)


def _column(field: Any) -> Column:
    type = field.dataType.simpleString()
    if type.startswith("decimal"):
        return Column(field.name, ColumnKind.REAL, type.upper())
    if type.startswith(("char(", "varchar(")):
        return Column(field.name, ColumnKind.TEXT, "VARCHAR")
    return Column(field.name, *_COLUMNS.get(type, (ColumnKind.OTHER, type)))


def _in_utc(column: str) -> str:
    return f"CAST(`{_escaped(column)}` AS TIMESTAMP_NTZ) AS `{_escaped(column)}`"


def _escaped(name: str) -> str:
    return name.replace("`", "``")


def _errors() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def _kind(failure: Exception) -> str:
    """The class of an error, which Spark numbers; its message may quote rows."""
    condition = getattr(failure, "getCondition", None)
    return str(condition() if callable(condition) else None) or type(failure).__name__
