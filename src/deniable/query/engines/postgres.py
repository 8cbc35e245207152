"""PostgreSQL: tables of a database, asked where they are. Only aggregates leave it.

A connection of our own runs one read-only statement per query, under settings that fix what SQL means: functions are
looked up in `pg_catalog` alone, times are in UTC, texts are compared letter by letter ("C"). Views, foreign tables,
tables with a partition or child that is foreign, and tables of which a row-security policy hides a part are refused:
what computes their rows is not ours, and may fail on some row, or hide rows, after the charge. Messages of the server
may quote rows, so they are not passed on.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

from sqlglot import exp

from deniable.errors import DataError, MissingExtra
from deniable.query.bounding import Bounded
from deniable.query.choice import KEY_PARAMETERS
from deniable.query.engines import base
from deniable.query.engines.base import interruptible, stopped, totals
from deniable.query.engines.frames import check_names
from deniable.query.engines.postgres_sql import PostgresWriter
from deniable.query.engines.remote import FetchedTable, Remote, arrays, check_size
from deniable.query.measures import Totals
from deniable.query.schema import Column, ColumnKind, Table, listed
from deniable.query.values import quoted

_URLS = ("postgresql://", "postgres://")
_SETTINGS = {
    "search_path": "pg_catalog",
    "timezone": "UTC",
    "datestyle": "ISO",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    # Keys are sent with all of their digits.
    "extra_float_digits": "3",
    # Fail rather than pass over rows that a policy hides.
    "row_security": "off",
    # What a role or a database sets for its statements may stop ours after the charge.
    **dict.fromkeys(
        ("statement_timeout", "lock_timeout", "transaction_timeout", "idle_in_transaction_session_timeout"), "0"
    ),
}

_COLUMNS: dict[str, tuple[ColumnKind, str]] = {
    "int2": (ColumnKind.INTEGER, "SMALLINT"),
    "int4": (ColumnKind.INTEGER, "INTEGER"),
    "int8": (ColumnKind.INTEGER, "BIGINT"),
    "float4": (ColumnKind.REAL, "FLOAT"),
    "float8": (ColumnKind.REAL, "DOUBLE"),
    "numeric": (ColumnKind.REAL, "DECIMAL(38, 10)"),
    "bool": (ColumnKind.BOOLEAN, "BOOLEAN"),
    "date": (ColumnKind.DATE, "DATE"),
    **dict.fromkeys(("timestamp", "timestamptz"), (ColumnKind.TIMESTAMP, "TIMESTAMP")),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid"), (ColumnKind.TEXT, "VARCHAR")),
}
"""What columns of PostgreSQL's types hold, by the type's name; texts and enums are read as text."""

_TABLES = """
SELECT c.oid, n.nspname, c.relname, row_security_active(c.oid), has_table_privilege(c.oid, 'SELECT')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname = ANY(current_schemas(false)) ORDER BY c.relname
"""
_ATTRIBUTES = """
SELECT a.attname, CASE WHEN t.typtype = 'd' THEN b.typname ELSE t.typname END,
  t.typtype = 'e' OR coalesce(b.typtype = 'e', false)
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid LEFT JOIN pg_type AS b ON b.oid = t.typbasetype
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v' ORDER BY a.attnum
"""
"""Without virtual columns: what computes them is not ours, and may fail on some row, as in a view."""
_FOREIGN = """
WITH RECURSIVE below AS (
  SELECT $1::oid AS oid UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN below ON i.inhparent = below.oid
)
SELECT 1 FROM below JOIN pg_class AS c ON c.oid = below.oid WHERE c.relkind = 'f' LIMIT 1
"""
"""Whether a part of a table is foreign: a partition, or a child, of its own or of its parts."""
_NO_RIGHT = "42501"
_LOST = ("08", "57P")
"""How the SQLSTATE of a connection that is lost begins."""
_ARRAYS = {"BIGINT": "BIGINT[]", "DOUBLE": "DOUBLE PRECISION[]", "VARCHAR": "TEXT[]"}


class PostgresTable(base.StoredTable):
    """A table of a PostgreSQL database, which is known by how to connect to it."""


def is_database(data: Any) -> bool:
    """Whether data are a PostgreSQL database: its URL, or an open connection of psycopg."""
    if isinstance(data, str):
        return data.startswith(_URLS)
    return type(data).__module__.startswith("psycopg") and hasattr(data, "pgconn")


def address(data: Any, *, schema: str | None = None) -> str:
    """How to connect to a database. A connection is not used itself: what its owner does in it is not ours."""
    psycopg = _library()
    given = data if isinstance(data, str) else data.info.dsn
    more = {} if isinstance(data, str) else {"password": data.info.password or None}
    path = {} if schema is None else {"options": f"-csearch_path={quoted(schema)}"}
    return str(psycopg.conninfo.make_conninfo(given, **more, **path)) if more or path else given


def tables_of(home: str) -> list[str]:
    """The names of a database's tables."""
    psycopg = _library()
    try:
        with _connected(home) as connection:
            return [str(row[2]) for row in connection.execute(_TABLES).fetchall()]
    except psycopg.Error as failure:
        raise _refused(failure, lost=isinstance(failure, psycopg.OperationalError)) from None


class PostgreSQL(Remote):
    """One connection to one database."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self._known: dict[int, list[Any]] = {}
        self._shipped: dict[str, FetchedTable] = {}
        self._texts: dict[str, _Statement] = {}
        self._settings = "SELECT"
        self._connection = _connected(home)
        try:
            if self._fetched("SELECT current_setting('server_encoding')", ()) != [("UTF8",)]:
                raise DataError(
                    "the database is not in UTF8, so that texts are not what they are elsewhere; convert it"
                )
            self._places = self._fetched(_TABLES, ())
            there = {name for (name,) in self._fetched("SELECT name FROM pg_catalog.pg_settings", ())}
            self._settings = "SELECT " + ", ".join(
                f"pg_catalog.set_config('{setting}', '{value}', true)"
                for setting, value in _SETTINGS.items()
                if setting in there
            )
            self._fetched("SELECT md5('')", ())  # which a server in FIPS mode refuses
        except DataError:
            self._connection.close()
            raise

    def check(self, statements: Iterable[Bounded]) -> None:
        for oid, known in self._known.items():
            if self._fetched(_ATTRIBUTES, (oid,)) != known or self._fetched(_FOREIGN, (oid,)):
                raise DataError("a table has changed since the session was opened; open it again")
        for bounded in statements:
            self._bind(bounded)

    def written(self, bounded: Bounded) -> str:
        return PostgresWriter(self._tables, self._sources).text(self._write(bounded).tree, pretty=True)

    def _bind(self, bounded: Bounded) -> None:
        statement = self._write(bounded)
        self._fetched(f"EXPLAIN {statement.text}", self._values(statement.parameters, bounded, key=(0, 0)))

    def run(self, bounded: Bounded, *, groups: int | None, key: tuple[int, int]) -> Totals:
        text, _, parameters = self._write(bounded)
        values = self._values(parameters, bounded, key=key)
        psycopg = _library()
        try:
            with self._lock:
                columns, rows = interruptible(lambda: self._rows(text, values), stop=self._stop)
        except psycopg.Error:
            raise stopped("PostgreSQL") from None
        return totals(bounded, arrays(columns, rows), groups=groups)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
        self._copies.close()

    def _stop(self) -> None:
        self._connection.cancel_safe()

    def _private(self, name: str, data: Any) -> Table:
        if not isinstance(data, PostgresTable):
            raise DataError(f"table {name} must be one of the PostgreSQL database, like the other private tables")
        oid, place, columns, values = self._described(data.table)
        self._known[oid] = self._fetched(_ATTRIBUTES, (oid,))
        self._sources[name] = f"(SELECT {', '.join(values)} FROM {place})"
        return Table(name, columns)

    def _fetched_rows(self, name: str, data: Any) -> FetchedTable | None:
        if not isinstance(data, PostgresTable):
            return None
        # From its own database and search path: what bears this name in ours may be private.
        with closing(PostgreSQL(data.home)) as home:
            return home._all(name, data.table)

    def _ship(self, name: str, rows: FetchedTable) -> None:
        if any("\0" in value for column in rows.values for value in column if isinstance(value, str)):
            raise DataError(f"table {name} has a text with the character 0, which PostgreSQL cannot hold")
        self._shipped[name] = rows

    def _all(self, name: str, wanted: str) -> FetchedTable:
        """All rows of a public table."""
        _, place, columns, values = self._described(wanted)
        (size,) = self._fetched(f"SELECT COUNT(*) FROM {place}", ())[0]
        check_size(name, size)
        return FetchedTable.of(columns, self._fetched(f"SELECT {', '.join(values)} FROM {place}", ()))

    def _described(self, wanted: str) -> tuple[int, str, tuple[Column, ...], list[str]]:
        """A table: its number, its place, its columns, and how each is read."""
        found = [place for place in self._places if place[2].casefold() == wanted.casefold()]
        if not found:
            known = listed(tuple(place[2] for place in self._places))
            raise DataError(
                f"the database has no table {wanted} on its search path; its tables are {known}; views and foreign "
                "tables cannot be asked"
            )
        exact = [place for place in found if place[2] == wanted] or found
        if len(exact) > 1:
            raise DataError(f"the database has several tables {wanted} on its search path; set the search path to one")
        oid, schema, table, hidden, allowed = exact[0]
        if not allowed:
            raise DataError(f"the right to SELECT from {wanted} is missing; run: GRANT SELECT ON {wanted} TO …")
        if hidden:
            raise DataError(f"a row-security policy hides rows of {wanted} from this role; use one that sees them all")
        if self._fetched(_FOREIGN, (oid,)):
            raise DataError(
                f"a partition or child of {wanted} is a foreign table, whose rows come from elsewhere; copy them to a "
                "table of this database, or ask where they are"
            )
        attributes = self._fetched(_ATTRIBUTES, (oid,))
        if not attributes:
            raise DataError(f"table {wanted} has no columns")
        check_names(wanted, [str(row[0]) for row in attributes])
        columns = tuple(_column(*row) for row in attributes)
        place = f"{quoted(schema)}.{quoted(table)}"
        return oid, place, columns, [_read(column) for column in columns]

    def _write(self, bounded: Bounded) -> _Statement:
        if bounded.text not in self._texts:
            writer = _Writer(self._tables, self._sources, self._shipped)
            tree = writer.tree(bounded.text)
            self._texts[bounded.text] = _Statement(writer.text(tree), tree, writer.parameters)
        statement = self._texts[bounded.text]
        if "\0" in statement.text or any("\0" in key for keys in bounded.lists.values() for key in keys):
            raise DataError("a text in the query or its keys has the character 0, which PostgreSQL cannot hold")
        return statement

    def _values(self, names: list[str], bounded: Bounded, *, key: tuple[int, int]) -> list[Any]:
        """The parameters of a statement, in their order."""
        known: dict[str, Any] = {name: list(texts) for name, texts in bounded.lists.items()}
        known |= {name: str(half) for name, half in zip(KEY_PARAMETERS, key, strict=True)}
        for table, rows in self._shipped.items():
            known |= {_shipped_name(table, i): values for i, values in enumerate(rows.values)}
        return [known[name] for name in names]

    def _fetched(self, sql: str, values: Any) -> list[Any]:
        """Rows about tables, or of public ones."""
        psycopg = _library()
        try:
            with self._lock:
                return self._rows(sql, values)[1]
        except psycopg.Error as failure:
            raise _refused(failure, lost=isinstance(failure, psycopg.OperationalError)) from None

    def _rows(self, sql: str, values: Any) -> tuple[list[str], list[Any]]:
        """The names of columns, and the rows. Settings hold for the statement's own transaction: between a pooler and
        the server, another one may be on another connection."""
        with self._connection.transaction():
            self._connection.execute(self._settings)
            cursor = self._connection.execute(sql, values)
            return [column.name for column in cursor.description], cursor.fetchall()


class _Statement(NamedTuple):
    """The SQL as it runs, its tree, and the names of its parameters in their order."""

    text: str
    tree: exp.Expr
    parameters: list[str]


class _Writer(PostgresWriter):
    """Writes over private tables where they are, and public ones that travel."""

    def __init__(self, tables: dict[str, Table], sources: dict[str, str], shipped: dict[str, FetchedTable]) -> None:
        super().__init__(tables, sources)
        self._shipped = shipped

    def source(self, table: Table) -> str:
        if table.name not in self._shipped:
            return super().source(table)
        lists = ", ".join(
            f"CAST(${self.number(_shipped_name(table.name, i))} AS {_ARRAYS.get(c.type, c.type + '[]')})"
            for i, c in enumerate(table.columns)
        )
        names = ", ".join(quoted(column.name) for column in table.columns)
        read = ", ".join(_read(column) for column in table.columns)
        return f"(SELECT {read} FROM UNNEST({lists}) AS q({names}))"


def _shipped_name(table: str, column: int) -> str:
    return f"public {table} {column}"


def _column(name: str, type: str, enum: bool) -> Column:
    kind, known = (ColumnKind.TEXT, "VARCHAR") if enum else _COLUMNS.get(type, (ColumnKind.OTHER, type))
    return Column(name, kind, known)


def _read(column: Column) -> str:
    """A column as the bounded SQL sees it."""
    plain = quoted(column.name)
    if column.type.startswith("DECIMAL"):  # which has no NaN elsewhere
        return f"NULLIF({plain}, CAST('NaN' AS NUMERIC)) AS {plain}"
    if column.kind is ColumnKind.TIMESTAMP:  # one with a zone is read in UTC, the connection's own
        return f"CAST({plain} AS TIMESTAMP) AS {plain}"
    return f'CAST({plain} AS TEXT) COLLATE "C" AS {plain}' if column.kind is ColumnKind.TEXT else plain


def _refused(failure: Any, *, lost: bool) -> DataError:
    """What PostgreSQL says before anything is charged, in a sentence of ours: its own may quote rows."""
    state = failure.sqlstate or ""
    if state == _NO_RIGHT:
        return DataError(
            "PostgreSQL does not let this role read a table (SQLSTATE 42501); nothing was charged; run: GRANT SELECT "
            "ON … TO …, and GRANT USAGE ON SCHEMA … TO …"
        )
    if (lost and not state) or state.startswith(_LOST):
        return DataError("the connection to PostgreSQL is lost; nothing was charged; open the session again")
    return DataError(f"PostgreSQL refused the query (SQLSTATE {state or 'none'}); nothing was charged")


def _library() -> Any:
    try:
        import psycopg
    except ModuleNotFoundError:
        raise MissingExtra("psycopg", "postgres") from None
    return psycopg


def _connected(home: str) -> Any:
    """A connection whose transactions read one state of the database, and only read. Its statements are not prepared on
    the server: behind a pooler they would be on another connection."""
    psycopg = _library()
    try:
        found = psycopg.connect(
            home, autocommit=True, cursor_factory=psycopg.RawCursor, client_encoding="UTF8", prepare_threshold=None
        )
    except psycopg.Error:
        # Its message may hold the password.
        raise DataError("PostgreSQL could not be reached; check host, port, user and password in its URL") from None
    found.read_only, found.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
    return found
