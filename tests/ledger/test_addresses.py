"""Addresses that may hold a password are never shown; a session that another ledger left behind is not written to."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.errors import DeniableError
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from tests.ledger.kept import OnServer

pytest.importorskip("psycopg", reason="needs psycopg; run: pip install 'deniable[postgres]'")
pytestmark = pytest.mark.xdist_group("ledger on a server")

MISTYPED = [
    "postgresql://clerk:pa#S3cret@127.0.0.1:1/hospital",
    "postgresql://clerk:pa/S3cret@127.0.0.1/hospital",
    "postgresql://clerk:12/S3cret@127.0.0.1/hospital",
    "postgresql://clerk:pa@S3cret@127.0.0.1:1/hospital",
    "postgresql://clerk:pa?S3cret@127.0.0.1:1/hospital",
    "postgresql://clerk:S3cret/hospital",
    "postgresql://clerk:S3cret",
    "postgresql://clerk:S3cret@127.0.0.1:port/hospital",
    "postgresql://clerk:%zzS3cret@127.0.0.1/hospital",
    "postgresql+psycopg://clerk:S3cret@127.0.0.1/hospital",
    "PostgreSQL://clerk:S3cret@127.0.0.1/hospital",
    " postgresql://clerk:S3cret@127.0.0.1/hospital",
    "postgresql:/clerk:S3cret@127.0.0.1/hospital",
    "postgresql:clerk:S3cret@127.0.0.1/hospital",
    "postgresql;//clerk:S3cret@127.0.0.1/hospital",
    "postgresql//clerk:S3cret@127.0.0.1/hospital",
    "clerk:S3cret@127.0.0.1/hospital",
    "//clerk:S3cret@127.0.0.1/hospital",
    "host=127.0.0.1 dbname=hospital user=clerk password=S3cret",
    "host = 127.0.0.1 dbname = hospital user = clerk password = 'S3cret'",
    "host=127.0.0.1 dbname=hospital pasword=S3cret",
    "PASSWORD=S3cret",
    "postgresql://clerk:S3cret@127.0.0.1:1/hospital?conect_timeout=3",
    "postgresql://127.0.0.1:1/hospital?user=clerk&password=S3cret&nonsense=1",
    "postgresql://127.0.0.1:1/hospital?user=clerk&password=S3cret#Visits",
    "postgresql://clerk:S3cret@127.0.0.1:1/hospital#Visits",
    "postgresql://clerk:S3cret@127.0.0.1:1/hospital#visits#more",
]
REACHED = [
    "postgresql://clerk:S3cret@127.0.0.1:1/hospital#visits",
    "postgresql://127.0.0.1:1/hospital?user=clerk&password=S3cret",
    "postgresql://clerk:S3cret%40%2F@127.0.0.1:1/hospital",
    "postgres://clerk:S3cret@[::1]:1/hospital",
]


def said_by(error: BaseException) -> str:
    """All that an error and what led to it say, printed or not."""
    words, queue, seen = [], [error], set()
    while queue:
        each = queue.pop()
        if id(each) not in seen:
            seen.add(id(each))
            words += [str(each), repr(each), repr(vars(each)), *map(repr, each.args)]
            queue += [found for found in (each.__cause__, each.__context__) if found is not None]
    words.append("".join(traceback.format_exception(error)))
    return " ".join(words)


ATTEMPTS: dict[str, Callable[[Any], object]] = {
    "open": Ledger.open,
    "of": Ledger.of,
    "create": lambda text: Ledger.create(text, unit="row", budget=PureDP(1)),
    "read": Ledger.read_export,
    "call": Ledger,
}


@pytest.mark.parametrize("address", [*MISTYPED, *REACHED])
def test_a_mistyped_address_is_refused_and_its_password_not_shown(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for attempt in ATTEMPTS.values():
        # As text, as a path, and as what is neither.
        for given in (address, Path(address), address.encode(), [address]):
            with pytest.raises(DeniableError) as refused:
                attempt(given)
            assert "S3cret" not in said_by(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", [*MISTYPED, *REACHED])
def test_no_command_shows_the_password_of_a_mistyped_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from deniable.cli import main

    monkeypatch.chdir(tmp_path)
    commands = [
        ["ledger", "create", address, "--epsilon", "1", "--unit", "row"],
        ["ledger", "show", address], ["ledger", "verify", address], ["ledger", "export", address],
        ["explain", address], ["report", address],
    ]  # fmt: skip
    for words in commands:
        monkeypatch.setattr("sys.argv", ["deniable", *words])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        assert left.value.code == 1, words
        assert "S3cret" not in shown.out + shown.err, words
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["user=ana/a.ledger", "host=7.ledger", "a=b.ledger", "me@work.ledger", "12:30.ledger"])
def test_ordinary_names_of_files_are_no_addresses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    Ledger.create(name, unit="row", budget=PureDP(1)).close()
    with Ledger.open(name) as ledger:
        assert ledger.verify().seq == 0


def test_a_session_of_another_ledger_takes_no_charge_of_this_one(place: OnServer) -> None:
    """As behind a pooler that hands a transaction to whichever session is free."""
    with (
        Ledger.create(place.address, unit="row", budget=PureDP(1)) as full,
        Ledger.create(f"{place.address}_other", unit="row", budget=PureDP(100)) as other,
    ):
        full.charge(Laplace(scale=1), purpose="all of it")
        own = full._store.connection  # type: ignore[attr-defined]
        full._store.connection = other._store._ensure_connection()  # type: ignore[attr-defined]
        try:
            with pytest.raises(DeniableError, match="budget"):
                full.charge(Laplace(scale=1), purpose="once more")
        finally:
            full._store.connection = own  # type: ignore[attr-defined]
        assert [len(list(ledger.charges())) for ledger in (full, other)] == [1, 0]
