"""A ledger as the first version wrote it opens, verifies with the same hashes, and its charges mean what they meant.

`written.sql` is never changed. A new format or schema adds a file of its own beside it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from deniable.events import Claimed, Gaussian, Laplace
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger import Ledger

SQL = Path(__file__).with_name("written.sql")
HASHES = [
    "e63759f59317f84ee5c07a4667130c57bfbb28178a706099b6ce7de5d347db78",
    "20ea682a37faa6e123eeccd2b45c4c43b26aae4a574a9ae26246575a7b5c1c8a",
    "eb2568bd9ddfa4a500ad28db64185e295057cbaa413f68a397e6a8b701df9f41",
    "4192cb1f26db674e734843475a84a3fd6c0cc30437ef536360854f18f7239884",
]
CHARGES = {
    "visits by city": Laplace(10),
    "a model": Claimed(PureDP(0.25)),
    "three sums": Gaussian(20) * 3,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file as it lay on a disk then."""
    path = tmp_path / "written.ledger"
    connection = sqlite3.connect(path)
    connection.executescript(SQL.read_text(encoding="utf-8"))
    connection.close()
    path.chmod(0o600)
    return path


def test_it_verifies_with_the_hashes_of_then(file: Path) -> None:
    with Ledger.open(file) as ledger:
        assert ledger.verify().seq >= len(HASHES)
        assert (ledger.unit.column, ledger.budget) == ("patient_id", ApproxDP(3, 1e-6, unit="patient_id"))
    connection = sqlite3.connect(file)
    assert [found for (found,) in connection.execute("SELECT hash FROM rows ORDER BY seq LIMIT 4")] == HASHES
    connection.close()


def test_its_charges_mean_what_they_meant(file: Path) -> None:
    with Ledger.open(file) as ledger:
        charges = {charge.purpose: charge for charge in ledger.charges() if charge.purpose in CHARGES}
        assert {purpose: charge.event for purpose, charge in charges.items()} == CHARGES
        assert [charge.who for charge in charges.values()] == [None, None, "ann"]


def test_what_was_spent_stays_spent(file: Path) -> None:
    """ε = 0.35 of pure charges and three Gaussian sums: the basic sum has no room for the latter, other filters do."""
    with Ledger.open(file) as ledger:
        assert 2 < ledger.remaining().epsilon < 3 - 0.35
        assert 0 < ledger.remaining(who="ann").epsilon < 1
        before = ledger.head()
        ledger.charge(Claimed(PureDP(0.25)), purpose="a model", key="k1")
        assert ledger.head() == before, "a key that paid then pays no more"
