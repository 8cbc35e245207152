"""The file of a ledger and its name: one that was moved or exchanged, or has two names, takes no charge."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import deniable
from deniable import _files
from deniable.errors import LedgerError, LedgerExists, LedgerUnsure
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.ledger.stores import sqlite

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(deniable.__path__[0]).parent)}


@pytest.fixture
def charged(tmp_path: Path) -> Path:
    """A ledger with one charge."""
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=PureDP(10)) as ledger:
        ledger.charge(Laplace(scale=10), purpose="q")
    return tmp_path / "a.ledger"


def test_a_file_stays_where_it_is_when_the_process_goes_elsewhere(
    charged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(charged.parent)
    with Ledger.open(charged.name) as ledger:
        monkeypatch.chdir("/")
        assert ledger.charge(Laplace(scale=10), purpose="q").seq == 2
        ledger.close()
        assert ledger.charge(Laplace(scale=10), purpose="q").seq == 3


@pytest.mark.parametrize("what", ["removed", "renamed", "replaced"])
def test_a_file_that_is_taken_away_while_it_is_open_takes_no_charge(charged: Path, what: str) -> None:
    """An open file goes on without its name: a charge to it would be gone with the process."""
    with Ledger.open(charged) as ledger:
        before = ledger.head()
        if what == "replaced":
            shutil.copy(charged, charged.with_name("copy"))
            charged.with_name("copy").replace(charged)
        elif what == "renamed":
            charged.rename(charged.with_name("away"))
        else:
            charged.unlink()
        for _ in range(2):
            with pytest.raises(LedgerError, match="nothing was charged"):
                ledger.charge(Laplace(scale=10), purpose="q")
        assert ledger.head() == before


def test_a_file_with_two_names_takes_no_charge(charged: Path) -> None:
    """SQLite keeps its log beside the name: each name would have charges that the other does not see."""
    other = charged.with_name("other.ledger")
    with Ledger.open(charged) as ledger:
        os.link(charged, other)
        with pytest.raises(LedgerError, match=r"a hard link.*remove that name.*Nothing was charged"):
            ledger.charge(Laplace(scale=10), purpose="q")
        for name in (charged, other):  # under one of them, what remains would be more than is true
            with pytest.raises(LedgerError, match="a hard link"):
                Ledger.open(name)
        other.unlink()
        assert ledger.charge(Laplace(scale=10), purpose="q").seq == 2


def test_a_charge_whose_file_is_taken_away_meanwhile_is_not_told(
    charged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(charged) as ledger:
        append = sqlite.SQLiteStore.append

        def interrupted(store: sqlite.SQLiteStore, *given: Any) -> None:
            append(store, *given)
            charged.unlink()

        monkeypatch.setattr(sqlite.SQLiteStore, "append", interrupted)
        with pytest.raises(LedgerUnsure, match="nothing may be released"):
            ledger.charge(Laplace(scale=10), purpose="q")


# commits that fail


class Failing:
    """A connection whose COMMIT of a row is done, or is not, and then fails by SQLite's name of an error."""

    def __init__(self, connection: sqlite3.Connection, name: str, *, done: bool, looks: bool = False) -> None:
        self._connection, self._name, self._done, self._fails = connection, name, done, looks

    def execute(self, statement: str, *values: Any) -> Any:
        self._fails |= statement.startswith("INSERT INTO rows")
        if statement != "COMMIT" or not self._fails:
            return self._connection.execute(statement, *values)
        if self._done:
            self._connection.execute(statement)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = self._name
        raise error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_IOERR_WRITE"])
def test_a_commit_that_was_not_written_charged_nothing(charged: Path, name: str) -> None:
    with Ledger.open(charged) as ledger:
        store: Any = ledger._store
        store.connection = Failing(store.connection, name, done=False)
        with pytest.raises(LedgerError, match=r"nothing was charged.*Free some space"):
            ledger.charge(Laplace(scale=10), purpose="q")
        store.connection = store.connection._connection
        assert ledger.verify().seq == 1


@pytest.mark.parametrize("name", ["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHMMAP", "SQLITE_CORRUPT"])
@pytest.mark.parametrize("done", [True, False])
def test_a_commit_that_may_have_been_written_is_unsure(charged: Path, name: str, done: bool) -> None:
    with Ledger.open(charged) as ledger:
        store: Any = ledger._store
        store.connection = Failing(store.connection, name, done=done)
        with pytest.raises(LedgerUnsure, match=r"may stand\. Nothing may be released.*same key") as unsure:
            ledger.charge(Laplace(scale=10), purpose="q", key="once")
        assert not isinstance(unsure.value, LedgerError)
        store.connection = store.connection._connection
        assert ledger.charge(Laplace(scale=10), purpose="q", key="once").fresh == (not done)
        assert ledger.verify().seq == 2


def test_a_lost_look_is_not_unsure(charged: Path) -> None:
    with Ledger.open(charged) as ledger:
        store: Any = ledger._store
        store.connection = Failing(store.connection, "SQLITE_IOERR_FSYNC", done=False, looks=True)
        with pytest.raises(LedgerError, match="disk"):
            ledger.remaining()
        store.connection = store.connection._connection


def test_nothing_was_charged_is_said_by_a_ledger_error_only() -> None:
    """Whoever catches `LedgerError` is told that nothing was charged; a charge that may stand is not one."""
    assert not issubclass(LedgerUnsure, LedgerError)
    assert "nothing" in (LedgerError.__doc__ or "")


def test_a_publication_keeps_its_key_when_a_charge_may_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import deniable as dn

    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("patient_id,city\n1,Bern\n2,Basel\n")
    Ledger.create("a.ledger", unit="patient_id", budget=PureDP(1)).close()
    Path("tables.toml").write_text(
        'title = "Visits"\nledger = "a.ledger"\nepsilon = 1\n[data]\nvisits = "visits.csv"\n[tables.all]\n'
        'sql = "SELECT COUNT(*) AS n FROM visits"\nper_unit = {groups = 1, rows = 2}\n'
    )
    with dn.Publication.read("tables.toml") as publication:
        store: Any = publication.session.ledger._store
        store._ensure_connection()
        store.connection = Failing(store.connection, "SQLITE_IOERR_FSYNC", done=True)
        with pytest.raises(LedgerUnsure):
            publication.write("release")
        store.connection = store.connection._connection
        assert Path("release.partial").is_dir()
        publication.write("release")  # the whole budget was paid once, and is not asked for again
        assert publication.session.ledger.verify().seq == 1


# sentences


def test_each_thing_that_is_no_ledger_has_its_sentence(tmp_path: Path, charged: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    export = tmp_path / "export.jsonl"
    with Ledger.open(charged) as ledger:
        export.write_text("".join(f"{line}\n" for line in ledger.export()))
    (tmp_path / "b.ledger").write_text("id,cost\n" * 500)
    sentences = {
        tmp_path: "is a folder; give the path of the ledger's file in it",
        tmp_path / "pipe": "a device or a pipe",
        Path("/dev/null"): "a device or a pipe",
        tmp_path / "none.ledger": "there is no ledger at",
        charged / "below": "there is no ledger at",
        tmp_path / ("x" * 300): "cannot be looked at: File name too long",
        Path("a\0b"): "no file can have that name",
        export: "an export of a ledger.*Ledger.read_export",
        tmp_path / "b.ledger": "is not a ledger",
    }
    for path, words in sentences.items():
        with pytest.raises(LedgerError, match=words) as refused:
            Ledger.open(path)
        assert str(refused.value).isprintable()
    created = {
        tmp_path: "there is already a folder at",
        charged: "there is already something at",
        tmp_path / "nowhere" / "a": "there is no folder",
        charged / "below": "there is no folder",
        tmp_path / ("x" * 300): "name is too long",
        Path("a\0b"): "No ledger was created",
    }
    for path, words in created.items():
        with pytest.raises(LedgerError, match=words):
            Ledger.create(path, unit="row", budget=PureDP(1))


def test_a_path_that_is_no_text_prints(charged: Path) -> None:
    """A name of bytes that are not UTF-8, and one that would move the cursor, are opened and shown as escapes."""
    for name in (os.fsdecode(b"caf\xe9.ledger"), "a\x1b[2J.ledger", "50% & more?#.ledger"):
        path = charged.with_name(name)
        with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
            ledger.charge(Laplace(scale=10), purpose="q")
            assert ledger.place.isprintable()
            ledger.place.encode()
            with pytest.raises(LedgerError) as refused:
                Ledger.create(path, unit="row", budget=PureDP(1))
            str(refused.value).encode()
        with Ledger.open(path) as ledger:
            assert ledger.verify().seq == 1


@pytest.mark.parametrize("what", ["folder", "file", "both", "no access"])
def test_a_user_who_may_not_is_told_what_to_do(what: str) -> None:
    """As another user, in a folder that belongs to root; where the tests do not run as root, as themselves."""
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "a.ledger"
        with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
            ledger.charge(Laplace(scale=10), purpose="q")
        path.chmod({"folder": 0o666, "file": 0o444, "both": 0o444, "no access": 0o600}[what])
        folder.chmod({"folder": 0o755, "file": 0o777, "both": 0o555, "no access": 0o777}[what])
        if os.getuid():
            return
        command = [sys.executable, str(Path(__file__).parent / "workers.py"), "another_user", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
        for said in json.loads(done.stdout).values():
            assert said is None or said.startswith(("LedgerError", "LedgerExists")), said
            assert said is None or "writ" in said or "already" in said, said
        with Ledger.open(path) as ledger:
            assert ledger.verify().seq == 1
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_the_name_that_a_new_ledger_is_written_under_is_no_second_one(charged: Path) -> None:
    """A creator that was killed before it took that name away, or is about to, keeps nobody out."""
    leftover = charged.with_name(f"{_files.TEMPORARY}0123456789abcdef.ledger")
    os.link(charged, leftover)
    with Ledger.open(charged) as ledger:
        ledger.charge(Laplace(scale=10), purpose="q")
        os.link(charged, charged.with_name("other.ledger"))
        with pytest.raises(LedgerError, match="a hard link"):
            ledger.charge(Laplace(scale=10), purpose="q")


def test_whoever_comes_second_opens_what_the_first_created(tmp_path: Path) -> None:
    """Created by one, opened by others the moment it is there: none of them takes it for a file with two names."""
    for number in range(20):
        path = tmp_path / f"{number}.ledger"

        def create_or_open(_: int, path: Path = path) -> int:
            try:
                ledger = Ledger.create(path, unit="row", budget=PureDP(1))
            except LedgerExists:
                ledger = Ledger.open(path)
            with ledger:
                return ledger.charge(Laplace(scale=100), purpose="q").seq

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(create_or_open, range(4))) == [1, 2, 3, 4]
