"""The file of a ledger and its name: one that was moved or exchanged, or has two names, takes no charge."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from deniable.errors import LedgerError, LedgerUnsure
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.ledger.stores import sqlite


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
        with pytest.raises(LedgerError, match=r"a hard link.*Nothing was charged"):
            ledger.charge(Laplace(scale=10), purpose="q")
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
