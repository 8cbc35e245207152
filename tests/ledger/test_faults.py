"""What a machine and its people can do to a file: fill the disk, cut it, edit it, set it back, lock it. About 5 s."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deniable
from deniable.accounting import filters
from deniable.errors import LedgerDamaged, LedgerError, LedgerExists, LedgerMissing
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger, accounts, records
from deniable.ledger.stores import postgres, sqlite
from tests.ledger.kept import InFile, Kept

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(deniable.__path__[0]).parent)}


def worker(*words: object) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "workers.py"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def with_charges(kept: Kept) -> Kept:
    """A closed ledger with 40 charges."""
    with Ledger.create(kept.address, unit="row", budget=PureDP(10)) as ledger:
        for number in range(40):
            ledger.charge(Laplace(scale=10), purpose=f"question {number}", key=f"k{number}")
    return kept


@pytest.fixture
def place(kept: Kept) -> Kept:
    """A ledger with 40 charges, in a file and on a server."""
    return with_charges(kept)


@pytest.fixture
def charged(tmp_path: Path) -> Path:
    """A ledger with 40 charges, in a file."""
    return Path(with_charges(InFile(tmp_path)).address)


def test_nothing_is_told_that_a_full_disk_did_not_take(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    Ledger.create(path, unit="row", budget=PureDP(10)).close()
    found = worker("small_disk", path, 40_000)
    assert "disk" in found["error"]
    assert "nothing may be released" in found["error"]
    with Ledger.open(path) as ledger:
        # At most one charge more than was told: the one whose answer was an error.
        assert found["told"] <= ledger.verify().seq <= found["told"] + 1
        ledger.charge(Laplace(scale=10), purpose="after space was made")


def test_a_full_database_refuses_and_rolls_back(charged: Path) -> None:
    with Ledger.open(charged) as ledger:
        store = ledger._store
        assert isinstance(store, sqlite.SQLiteStore)
        pages = store._ensure_connection().execute("PRAGMA page_count").fetchone()[0]
        store._ensure_connection().execute(f"PRAGMA max_page_count={pages}")
        told = ledger.head().seq

        def fill() -> None:
            nonlocal told
            while True:
                told = ledger.charge(Laplace(scale=10**6), purpose="x" * 500).seq

        with pytest.raises(LedgerError, match="disk"):
            fill()
        assert ledger.head().seq == told
        ledger.verify()


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_noticed(charged: Path, part: float) -> None:
    size = charged.stat().st_size
    os.truncate(charged, int(size * part))
    with pytest.raises(LedgerError), Ledger.open(charged) as ledger:
        ledger.verify()


EDITS = {
    "a purpose": "UPDATE rows SET body = replace(body, 'question 7', 'question 8') WHERE seq = 8",
    "a cost": """UPDATE rows SET body = replace(body, '"scale":"10"', '"scale":"99"') WHERE seq = 20""",
    "a hash": "UPDATE rows SET hash = substr(hash, 2) || '0' WHERE seq = 30",
    "a key": "UPDATE rows SET key = 'another' WHERE seq = 9",
    "a missing row": "DELETE FROM rows WHERE seq = 15",
    "the last row missing": "DELETE FROM rows WHERE seq = 40",
    "two rows exchanged": (
        "UPDATE rows SET seq = -1 WHERE seq = 3; UPDATE rows SET seq = 3 WHERE seq = 4;"
        " UPDATE rows SET seq = 4 WHERE seq = -1"
    ),
    "the header": """UPDATE header SET body = replace(body, '"epsilon":"10"', '"epsilon":"99"')""",
    "the totals": """UPDATE balances SET totals = replace(totals, '"4"', '"1"')""",
    "the limit": """UPDATE balances SET terms = replace(terms, '"limit":"10"', '"limit":"99"')""",
    "no totals": "DELETE FROM balances",
    "another owner": "INSERT INTO balances SELECT 'eve', seq, terms, totals FROM balances",
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_noticed(place: Kept, name: str) -> None:
    place.edit(*EDITS[name].split(";"))
    with pytest.raises(LedgerDamaged), Ledger.open(place.address) as ledger:
        ledger.verify()


@pytest.mark.parametrize("name", ["the totals", "the limit", "no totals", "the last row missing"])
def test_edited_totals_are_noticed_by_the_next_charge_already(place: Kept, name: str) -> None:
    place.edit(EDITS[name])
    with pytest.raises(LedgerDamaged), Ledger.open(place.address) as ledger:
        ledger.charge(Laplace(scale=10), purpose="next")


def test_rows_cannot_be_changed_by_accident(charged: Path) -> None:
    connection = sqlite3.connect(charged)
    for statement in ("UPDATE rows SET body = ''", "DELETE FROM rows"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()


def test_a_ledger_set_back_is_noticed_by_a_kept_head(place: Kept) -> None:
    old = place.copy()
    with Ledger.open(place.address) as ledger:
        ledger.charge(Laplace(scale=10), purpose="later")
        kept = ledger.head()
    place.restore(old)
    with Ledger.open(place.address) as ledger:
        # By itself the old copy is whole: only something kept elsewhere can tell.
        assert ledger.verify().seq == 40
        with pytest.raises(LedgerDamaged, match="set back"):
            ledger.verify(kept)
        with pytest.raises(LedgerDamaged, match="set back"):
            ledger.verify(str(kept))
        # Spending again after it was set back does not hide it.
        ledger.charge(Laplace(scale=10), purpose="another history")
        with pytest.raises(LedgerDamaged, match="replaced"):
            ledger.verify(kept)


def test_an_old_head_still_verifies_in_a_longer_record(place: Kept) -> None:
    with Ledger.open(place.address) as ledger:
        kept = ledger.head()
        ledger.charge(Laplace(scale=10), purpose="later")
        assert ledger.verify(kept) == ledger.head()


def test_the_clock_may_go_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(["2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", "1999-01-01T00:00:00Z", "2026-01-01T00:00:00Z"])
    monkeypatch.setattr(records, "now", lambda: next(times))
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        for _ in range(3):
            ledger.charge(Laplace(scale=4), purpose="q")
        assert [charge.seq for charge in ledger.charges()] == [1, 2, 3]
        assert [charge.time[:4] for charge in ledger.charges()] == ["2026", "1999", "2026"]
        assert ledger.verify().seq == 3
        assert ledger.remaining() == PureDP(0.25, unit="row")


def test_a_file_that_may_only_be_read_is_not_charged() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "a.ledger"
        Ledger.create(path, unit="row", budget=PureDP(1)).close()
        path.chmod(0o444)
        folder.chmod(0o555)
        if os.getuid():
            with pytest.raises(LedgerError, match="writ"), Ledger.open(path) as ledger:
                ledger.charge(Laplace(scale=10), purpose="q")
        else:
            found = worker("read_only", path)
            assert found["error"].startswith("LedgerError")
            assert "writ" in found["error"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_second_ledger_on_the_same_path_is_refused(charged: Path) -> None:
    before = charged.read_bytes()
    with pytest.raises(LedgerExists, match="already something"):
        Ledger.create(charged, unit="row", budget=PureDP(99))
    assert charged.read_bytes() == before
    assert [path.name for path in charged.parent.iterdir()] == ["visits.ledger"]


def test_creating_races_are_won_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something appears at the path after it was seen free: it is not replaced."""
    path = tmp_path / "a.ledger"
    look = sqlite._refuse_remains

    def look_then_lose(where: Path) -> None:
        look(where)
        where.write_text("somebody else's")

    monkeypatch.setattr(sqlite, "_refuse_remains", look_then_lose)
    with pytest.raises(LedgerExists):
        Ledger.create(path, unit="row", budget=PureDP(1))
    assert path.read_text() == "somebody else's"
    assert [each.name for each in tmp_path.iterdir()] == ["a.ledger"]


def test_the_log_of_a_removed_ledger_is_not_replayed_into_a_new_one(charged: Path) -> None:
    ledger = Ledger.open(charged)
    ledger.charge(Laplace(scale=10), purpose="still in the log")
    log = charged.with_name(charged.name + "-wal")
    kept = log.read_bytes()
    ledger.close()
    charged.unlink()
    log.write_bytes(kept)
    with pytest.raises(LedgerExists, match="move it away"):
        Ledger.create(charged, unit="row", budget=PureDP(1))


def test_opening_never_creates(tmp_path: Path) -> None:
    with pytest.raises(LedgerMissing, match="no ledger"):
        Ledger.open(tmp_path / "none.ledger")
    with pytest.raises(LedgerMissing, match="no folder"):
        Ledger.create(tmp_path / "nowhere" / "a.ledger", unit="row", budget=PureDP(1))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_vanishes_while_it_is_opened_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_refuse_other", lambda path: None)
    monkeypatch.setattr(sqlite, "_file_at", lambda path: (1, 2))
    with pytest.raises(LedgerError, match="could not be opened"):
        Ledger.open(tmp_path / "none.ledger")
    assert os.listdir(tmp_path) == []


def test_a_ledger_that_disappears_is_not_made_again(charged: Path) -> None:
    ledger = Ledger.open(charged)
    ledger.close()
    charged.unlink()
    with pytest.raises(LedgerMissing, match="gone"):
        ledger.charge(Laplace(scale=10), purpose="q")
    assert not charged.exists()


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"id,cost\n1,2\n" * 1000),
        lambda path: path.write_bytes(b"SQLite format 3\0" + b"\0" * 5000),
        lambda path: sqlite3.connect(path).execute("CREATE TABLE header (body TEXT)").connection.close(),
        lambda path: path.mkdir(),
    ],
)
def test_what_is_not_a_ledger_is_refused(tmp_path: Path, write: Callable[[Path], object]) -> None:
    path = tmp_path / "a.ledger"
    write(path)
    with pytest.raises(LedgerError):
        Ledger.open(path)


def test_a_ledger_of_a_newer_program_is_refused(place: Kept) -> None:
    place.lifted(99)
    with pytest.raises(LedgerError, match="newer"):
        Ledger.open(place.address)


def test_an_older_schema_is_lifted(place: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = sqlite if isinstance(place, InFile) else postgres
    version = kind.SCHEMA
    monkeypatch.setattr(kind, "SCHEMA", version + 1)
    with pytest.raises(LedgerDamaged, match="no way"):
        Ledger.open(place.address)
    monkeypatch.setattr(kind, "MIGRATIONS", {version: ("CREATE TABLE added (x INTEGER)",)})
    for _ in range(2):  # the second time there is nothing to lift
        with Ledger.open(place.address) as ledger:
            assert ledger.verify().seq == 40
            assert ledger._store.ask("SELECT count(*) FROM added") == [(0,)]  # type: ignore[attr-defined]


def test_new_rules_recount_what_was_charged(place: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(place.address) as ledger:
        before = ledger.remaining()
    monkeypatch.setattr(records, "RULES", records.RULES + 1)
    with Ledger.open(place.address) as ledger:
        assert ledger.remaining() == before
        assert ledger.head().seq == 41
        assert len(list(ledger.charges())) == 40
        ledger.verify()
    with Ledger.open(place.address) as ledger:
        assert ledger.head().seq == 41


def test_an_error_inside_a_charge_leaves_nothing(place: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(place.address) as ledger:
        before = ledger.head()

        def fail(*anything: object, **more: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(records, "charge_of", fail)
            patch.setattr(type(ledger._store), "append", fail)
            with pytest.raises(KeyboardInterrupt):
                ledger.charge(Laplace(scale=10), purpose="q")
        assert ledger.head() == before
        ledger.charge(Laplace(scale=10), purpose="q")
        ledger.verify()


def test_an_overspent_record_does_not_verify(place: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that forgot to refuse writes a whole chain with honest totals; verifying still says no."""
    with Ledger.open(place.address) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(accounts, "admitted", filters.after)
            ledger.charge(Laplace(scale=0.1), purpose="ten at once")
        with pytest.raises(LedgerDamaged, match="overspent"):
            ledger.verify()


def test_totals_that_forget_a_charge_do_not_verify(place: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that forgot to add writes totals that its own rows vouch for; the recomputed sum gives it away."""
    with Ledger.open(place.address) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(accounts, "admitted", lambda filters, totals, entry: totals)
            ledger.charge(Laplace(scale=10), purpose="for nothing")
        with pytest.raises(LedgerDamaged, match="not the sum"):
            ledger.verify()


def test_a_damaged_index_does_not_verify(charged: Path) -> None:
    connection = sqlite3.connect(charged)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    [(size,)] = connection.execute("PRAGMA page_size")
    roots = [root for (root,) in connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'")]
    connection.close()
    whole = charged.read_bytes()
    for root in roots:
        end = root * size
        charged.write_bytes(whole[: end - 64] + bytes(64) + whole[end:])
        with pytest.raises(LedgerDamaged), Ledger.open(charged) as ledger:
            ledger.verify()
    assert roots
