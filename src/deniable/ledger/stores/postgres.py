"""A ledger in PostgreSQL, for several hosts: one schema of a database holds the three tables.

A writer first takes the table `balances` in EXCLUSIVE mode, which lets one writer in at a time and lets readers pass,
and only then reads. Under READ COMMITTED every statement sees what was committed before it began, so a writer sees
everything that the writers before it wrote (docs/ledger.md has the argument). A commit returns when it is on disk.

*A connection that is lost.* Before COMMIT is sent the server forgets the transaction: nothing was charged. While COMMIT
is under way nobody here knows. Then the store connects again, takes the lock, which the lost transaction holds until
it has ended one way or the other, and looks whether its row is there.

    postgresql://clerk:secret@db.example.org/hospital#visits        the ledger `visits` in the database `hospital`
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from deniable._escapes import printable, redacted
from deniable._remedies import CREATE, OPEN, Remedy
from deniable.errors import (
    InvalidArgument,
    LedgerDamaged,
    LedgerError,
    LedgerExists,
    LedgerMissing,
    LedgerUnsure,
    MissingExtra,
)
from deniable.ledger.stores import Balance, Row
from deniable.ledger.stores.tables import Migrations, TableStore, migration_statements

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ModuleNotFoundError as error:
    raise MissingExtra("psycopg", "postgres") from error

SCHEMA = 1
"""The version of the tables; the statements of `MIGRATIONS[n]` lift a ledger from n to n + 1."""
MIGRATIONS: Migrations = {}
NAME = "deniable"
"""The schema of a ledger whose address names none."""
WAIT = 60
"""Seconds to wait for another writer; a writer that says nothing for half as long is sent away by the server."""

_DEFAULTS = {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_RIGHTS = (
    "to look it needs USAGE on the schema and SELECT on its tables; to charge, also INSERT on rows, and INSERT and"
    " UPDATE on balances"
)
_LOCK = "LOCK TABLE balances IN EXCLUSIVE MODE"
_TABLES = """
CREATE TABLE about (application TEXT PRIMARY KEY CHECK (application = 'deniable ledger'), schema INTEGER NOT NULL);
CREATE TABLE header (one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1), body TEXT NOT NULL);
CREATE TABLE rows (seq BIGINT PRIMARY KEY, key TEXT UNIQUE, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE balances (owner TEXT PRIMARY KEY, seq BIGINT NOT NULL, terms TEXT NOT NULL, totals TEXT NOT NULL);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'rows are never changed or removed'; END $$;
CREATE TRIGGER no_change BEFORE UPDATE OR DELETE ON rows FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON rows FOR EACH STATEMENT EXECUTE FUNCTION refuse();
"""


@dataclass(frozen=True)
class Address:
    """Where a ledger is: how libpq connects, which may hold a password, and the schema."""

    connection: str = field(repr=False)
    name: str
    shown: str
    bare: str
    """The same address without any password: libpq takes that from PGPASSWORD or ~/.pgpass."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """`postgresql://user:password@host/database#ledger`; the part behind # may be left out."""
        before, _, name = text.partition("#")
        try:
            parts = conninfo_to_dict(before)
            connection = make_conninfo(**{**_DEFAULTS, **{key: str(value) for key, value in parts.items()}})
        except psycopg.Error:
            # Its complaint is dropped, and not even the context of another: it may quote a password.
            parts, connection = {}, ""
        misread = re.search("[@/#?]", f"{parts.get('dbname') or ''}") or "@" in f"{parts.get('host') or ''}"
        named = re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name or NAME)
        if not connection or not named or misread or not re.fullmatch(r"[\d,]*", f"{parts.get('port') or ''}"):
            # The text may hold a password, unescaped too, and so may any part of it: none is shown.
            raise InvalidArgument(
                "path", "postgresql://...", "postgresql://user:password@host/database#ledger",
                "The ledger's name has small letters, digits and _. Write @ / # : ? in a password as"
                " %40 %2F %23 %3A %3F.",
            )  # fmt: skip
        user = f"{parts['user']}@" if parts.get("user") else ""
        host = quote(str(parts.get("host") or ""), safe=",:[].")
        port = f":{parts['port']}" if parts.get("port") else ""
        shown = f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}#{name or NAME}"
        open_parts = {key: str(value) for key, value in parts.items() if key not in _SECRETS}
        bare = f"postgresql:///?{urlencode(open_parts, quote_via=quote)}#{name or NAME}"
        return cls(connection, name or NAME, shown, bare)


class PostgresStore(TableStore):
    """A ledger's schema in a database. Safe to use from several threads, processes and hosts."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.shown)
        self._address = address
        self._inside = False
        self._appended: Row | None = None
        # Said again in every transaction: behind a pooler the session may be one that another ledger left behind.
        self._own = f'SET LOCAL search_path = "{address.name}", pg_temp; SET LOCAL synchronous_commit = on'

    @property
    def address(self) -> str:
        return self._address.bare

    @classmethod
    def create(cls, text: str, *, header: str, balance: Balance) -> PostgresStore:
        """A new schema in an existing database, whole or not at all."""
        store = cls(Address.parse(text))
        name = store._address.name
        with store._translate_errors(), store._connect() as connection:
            try:
                connection.execute(f'BEGIN; CREATE SCHEMA "{name}"; {_TABLES}')
            except (psycopg.errors.DuplicateSchema, psycopg.errors.UniqueViolation):
                raise LedgerExists(
                    Remedy(
                        f"there is already something at {store.place}; open it with {OPEN}, or choose another name.",
                        OPEN,
                    )
                ) from None
            except psycopg.errors.InsufficientPrivilege:
                raise LedgerError(
                    f"this role may not create a ledger at {store.place}: it needs CREATE on the database. Nothing was"
                    " created."
                ) from None
            connection.execute("INSERT INTO about VALUES ('deniable ledger', %s)", (SCHEMA,))
            connection.execute("INSERT INTO header (body) VALUES (%s)", (header,))
            connection.execute("INSERT INTO balances VALUES (%s, %s, %s, %s)", balance)
            connection.execute("COMMIT")
        return store

    @classmethod
    def open(cls, text: str) -> PostgresStore:
        """The schema at an address, checked to be a ledger of a version this program knows."""
        store = cls(Address.parse(text))
        with store.lock, store._translate_errors():
            store._ensure_connection()
        return store

    # transactions

    def append(self, row: Row, balances: list[Balance]) -> None:
        self._appended = row
        super().append(row, balances)

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._transaction(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {self._own}; {_LOCK}"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._transaction(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._own}"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self.lock:
            self._appended = None
            try:
                self.ask(begin)
                self._inside = True
                yield
                self._commit()
            finally:
                self._inside = False
                # After an error of any kind, an interrupt included, nothing of the transaction may remain.
                if self.in_transaction():
                    try:
                        self.connection.execute("ROLLBACK")
                    except psycopg.Error:
                        self.close()  # and the server forgets it

    def _commit(self) -> None:
        try:
            done = self.connection.execute("COMMIT").statusmessage
        except psycopg.Error as error:
            if not self.connection.closed:
                raise self._translate(error) from error
            if self._appended is not None:
                self._check_commit(self._appended)
            return
        if done != "COMMIT":
            raise LedgerError(f"the server at {self.place} did not commit ({done}); nothing was charged.")

    def _check_commit(self, row: Row) -> None:
        """Look for the row after the connection was lost during COMMIT; raise if it is not there."""
        try:
            connection = self._ensure_connection()
            connection.execute(f"BEGIN; {self._own}; {_LOCK}")
            line = connection.execute("SELECT hash FROM rows WHERE seq = %s", (row.seq,)).fetchone()
            connection.execute("ROLLBACK")
        except (psycopg.Error, LedgerError) as error:
            raise LedgerUnsure(
                f"the connection to {self.place} was lost while a charge was written, and the server cannot be asked:"
                " it may stand. Nothing may be released. When the server is back, charge again with the same key."
            ) from error
        if line is None or line[0] != row.hash:
            raise LedgerError(
                f"the connection to {self.place} was lost and the charge with it; nothing was charged. Try again."
            )

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        text = statement.replace("?", "%s")
        with self.lock, self._translate_errors():
            # In the middle of a transaction a new connection would know nothing of it, and hold no lock.
            connection = self.connection if self._inside else self._ensure_connection()
            if connection is None:
                raise LedgerError(f"the process forked in the middle of a charge to {self.place}; charge again.")
            try:
                cursor = connection.execute(text, values)
            except psycopg.Error:
                if self._inside or not connection.closed:
                    raise
                cursor = self._ensure_connection().execute(text, values)  # it died while it was idle
            return cursor.fetchall() if cursor.description else []

    # connection

    def in_transaction(self) -> bool:
        if self.connection is None or self.connection.closed:
            return False
        return bool(self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE)

    def close(self) -> None:
        with self.lock:
            if self.connection is not None:
                with suppress(psycopg.Error):
                    self.connection.close()
                self.connection = None

    def _ensure_connection(self) -> Any:
        if self.connection is None or self.connection.closed:
            self.connection = None
            connection = self._connect()
            try:
                self._check(connection)
            except (psycopg.Error, LedgerError):
                connection.close()
                raise
            self.connection = connection
            # A store that nobody holds any more lets go of its connection, in the process that made it.
            weakref.finalize(self, _close_own, connection, os.getpid()).atexit = False
        return self.connection

    def _connect(self) -> Any:
        """A connection with the durability that a ledger needs."""
        connection, reason = None, ""
        try:
            connection = psycopg.connect(self._address.connection, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            reason = _first_line(error)
        if connection is None:
            # Not from the driver's error, which holds the password.
            raise LedgerError(f"{self.place} cannot be reached: {reason}")
        try:
            settings = {
                "search_path": f'"{self._address.name}", pg_temp',
                "client_encoding": "UTF8",
                "lock_timeout": f"{WAIT}s",
                "idle_in_transaction_session_timeout": f"{WAIT // 2}s",
                # Fail rather than pass over rows that a policy hides.
                "row_security": "off",
            }
            for setting, value in settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
            durability = connection.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")
            fsync, waits = durability.fetchone() or ("off", "off")
            if fsync != "on":
                raise LedgerError(
                    f"the server at {self.place} runs with fsync=off and may forget charges; turn fsync on."
                )
            if waits in ("off", "local"):
                connection.execute("SELECT set_config('synchronous_commit', 'on', false)")
        except (psycopg.Error, LedgerError):
            connection.close()
            raise
        return connection

    def _check(self, connection: Any) -> None:
        """Refuse what is not a ledger; lift an older one to this version, in one transaction."""
        usage = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
        usable = connection.execute(usage, (self._address.name,)).fetchone()
        if usable is None:
            raise LedgerMissing(Remedy(f"there is no ledger at {self.place}; create it once with {CREATE}.", CREATE))
        if not usable[0]:
            raise LedgerError(f"this role may not look into the ledger at {self.place}: {_RIGHTS}.")
        version = self._version(connection)
        if version == SCHEMA:
            return
        for statement in ("BEGIN", _LOCK):
            connection.execute(statement)
        # Another process may have lifted it meanwhile: the version is read again under the lock.
        version = self._version(connection)
        for statement in migration_statements(version, current=SCHEMA, migrations=MIGRATIONS, location=self.place):
            connection.execute(statement)
        connection.execute("UPDATE about SET schema = %s", (SCHEMA,))
        connection.execute("COMMIT")

    def _version(self, connection: Any) -> int:
        try:
            line = connection.execute("SELECT application, schema FROM about").fetchone()
        except psycopg.errors.UndefinedTable:
            line = None
        if line is None or line[0] != "deniable ledger":
            raise LedgerDamaged(
                Remedy(f"{self.place} is not a ledger; give the address of one that {CREATE} made.", CREATE)
            )
        return int(line[1])

    # errors

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """The server's errors in the ledger's words. None of them leaves a charge that was not asked for."""
        try:
            yield
        except psycopg.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: psycopg.Error) -> LedgerError:
        text = _first_line(error)
        match error:
            case psycopg.errors.LockNotAvailable():
                return LedgerError(
                    f"another process has been writing to {self.place} for {WAIT} s; nothing was charged. Try again."
                )
            case psycopg.errors.InsufficientPrivilege():
                return LedgerError(
                    f"this role may not do that at {self.place} ({text}), so nothing was charged: {_RIGHTS}."
                )
            case psycopg.errors.ReadOnlySqlTransaction():
                return LedgerError(
                    f"the server at {self.place} only reads ({text}), so nothing was charged; connect to the primary."
                )
            case psycopg.OperationalError() | psycopg.errors.IdleInTransactionSessionTimeout():
                return LedgerError(
                    f"the server at {self.place} did not take the charge ({text}); nothing was charged, and nothing"
                    " may be released."
                )
            case psycopg.DataError():
                return LedgerError(f"{self.place} cannot hold that text ({text}); nothing was charged.")
            case _:
                return LedgerDamaged(f"{self.place} is damaged or is not a ledger ({text}); restore its latest state.")


def _close_own(connection: Any, process: int) -> None:
    if os.getpid() == process:
        connection.close()


def _first_line(error: psycopg.Error) -> str:
    return printable(redacted((str(error).strip() or type(error).__name__).splitlines()[0]))
