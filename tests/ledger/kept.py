"""The two places where a ledger is kept, and what an administrator can do to them behind the ledger's back."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from tests.postgres import Server

TABLES = {"rows": "seq, key, body, hash", "balances": "owner, seq, terms, totals", "header": "body"}


class Kept(Protocol):
    """A place where there is no ledger yet."""

    address: Path | str

    def edit(self, *statements: str) -> None:
        """Change a ledger that nobody has open, triggers and all."""

    def copy(self) -> Any:
        """A copy of the ledger as it is."""

    def restore(self, copy: Any) -> None:
        """Put a copy in the ledger's place."""

    def lifted(self, version: int) -> None:
        """Say that the tables have another version."""


def address_of(folder: Path, name: str) -> str:
    """The address of a ledger on the server whose socket is in a folder."""
    return f"postgresql://tester@{quote(str(folder), safe='')}/postgres#{name}"


class InFile:
    """SQLite."""

    def __init__(self, folder: Path) -> None:
        self.address: Path | str = folder / "visits.ledger"

    def edit(self, *statements: str) -> None:
        connection = sqlite3.connect(self.address)
        connection.executescript("DROP TRIGGER no_update; DROP TRIGGER no_delete;" + ";".join(statements))
        connection.commit()
        connection.close()

    def copy(self) -> bytes:
        return Path(self.address).read_bytes()

    def restore(self, copy: bytes) -> None:
        Path(self.address).write_bytes(copy)

    def lifted(self, version: int) -> None:
        self.edit(f"PRAGMA user_version={version}")


class OnServer:
    """PostgreSQL: a schema of its own in the tests' database."""

    def __init__(self, server: Server, name: str) -> None:
        self._dsn, self.name = server.dsn, name
        self.address: Path | str = address_of(server.folder, name)

    def run(self, *statements: str) -> list[Any]:
        """As the administrator; what the last statement returns."""
        import psycopg

        with psycopg.connect(self._dsn) as connection:
            connection.execute(f"SET search_path TO {self.name}".encode())
            cursor = None
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor is not None and cursor.description else []

    def edit(self, *statements: str) -> None:
        self.run("ALTER TABLE rows DISABLE TRIGGER ALL", *statements, "ALTER TABLE rows ENABLE TRIGGER ALL")

    def copy(self) -> dict[str, list[Any]]:
        return {table: self.run(f"SELECT {columns} FROM {table}") for table, columns in TABLES.items()}

    def restore(self, copy: dict[str, list[Any]]) -> None:
        import psycopg

        with psycopg.connect(self._dsn) as connection:
            connection.execute(f"SET search_path TO {self.name}; ALTER TABLE rows DISABLE TRIGGER ALL".encode())
            for table, rows in copy.items():
                connection.execute(f"DELETE FROM {table}".encode())
                for row in rows:
                    places = ", ".join(["%s"] * len(row))
                    connection.execute(f"INSERT INTO {table} ({TABLES[table]}) VALUES ({places})".encode(), row)

    def lifted(self, version: int) -> None:
        self.run(f"UPDATE about SET schema = {version}")
