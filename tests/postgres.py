"""A PostgreSQL server of the tests' own: a new cluster in a folder of its own, reached by a Unix socket, no network.

    with running() as server:
        dsn = server.database()          # a new, empty database; psycopg.connect(dsn)
        server.stop("immediate")         # as if the machine had lost power
        server.start()

`durable=True` keeps fsync on, as a ledger needs; without it a commit is much faster. PostgreSQL refuses to run as root:
then the server runs as the user `postgres`, or `nobody`.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_SETTINGS = ("listen_addresses=", "max_connections=60", "shared_buffers=64MB", "log_min_messages=fatal", "jit=off")
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class Server:
    """One cluster; `dsn` is its database `postgres`."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self.folder, self._durable, self._numbers = folder, durable, itertools.count(1)
        self._run("initdb", "-D", "data", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")

    @property
    def dsn(self) -> str:
        """How psycopg finds the server."""
        return f"host={self.folder} user=tester dbname=postgres"

    def database(self) -> str:
        """A new database, by its own connection string."""
        import psycopg

        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"host={self.folder} user=tester dbname={name}"

    def start(self) -> None:
        """Start, and wait until it accepts connections."""
        settings = [*_SETTINGS, f"unix_socket_directories={self.folder}", *(() if self._durable else _FAST)]
        self._run(
            "pg_ctl", "-D", "data", "-w", "-l", "log", "-o", " ".join(f"-c {setting}" for setting in settings), "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop: "smart" waits for its users, "fast" sends them away, "immediate" is a crash."""
        self._run("pg_ctl", "-D", "data", "-w", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_programs() / program, *arguments], cwd=self.folder, user=_user(), group=_group(), extra_groups=_groups(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"},
        )  # fmt: skip
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program}: {done.stderr}\n{log.read_text() if log.exists() else ''}")


@contextmanager
def running(*, durable: bool = False) -> Iterator[Server]:
    """A server for the time of a `with`; skips the test where PostgreSQL is not installed."""
    if _programs() is None:
        pytest.skip("needs PostgreSQL; run: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="needs psycopg; run: pip install 'deniable[postgres]'")
    # The path of a socket has at most 107 characters, and folders of pytest are longer.
    folder = Path(tempfile.mkdtemp(prefix="dn-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _user(), _group())
        server = Server(folder, durable=durable)
        server.start()
        try:
            yield server
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Any:
    """The folder with the programs of PostgreSQL; Debian keeps them out of PATH."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


def _user() -> int | None:
    return _account().pw_uid if os.geteuid() == 0 else None


def _group() -> int | None:
    return _account().pw_gid if os.geteuid() == 0 else None


def _groups() -> list[int] | None:
    return [] if os.geteuid() == 0 else None


def _account() -> pwd.struct_passwd:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")
