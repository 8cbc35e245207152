"""Every test that asks for `path` or `kept` runs twice: on a file and on a PostgreSQL server of the tests' own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.kept import InFile, Kept, OnServer
from tests.postgres import Server, running

_numbers = itertools.count(1)
# One server for all of these tests, wherever pytest runs them.
ON_SERVER = pytest.param("postgres", marks=pytest.mark.xdist_group("ledger on a server"))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that keeps what it says it keeps."""
    with running(durable=True) as found:
        yield found


@pytest.fixture(params=["sqlite", ON_SERVER])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """A place for a ledger."""
    if request.param == "sqlite":
        return InFile(tmp_path)
    return OnServer(request.getfixturevalue("server"), f"ledger_{next(_numbers)}")


@pytest.fixture
def path(kept: Kept) -> Path | str:
    """The path or address of a place where there is no ledger yet."""
    return kept.address


@pytest.fixture
def place(server: Server) -> OnServer:
    """A place on the server."""
    return OnServer(server, f"ledger_{next(_numbers)}")
