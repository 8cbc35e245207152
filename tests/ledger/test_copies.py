"""A ledger object is copied and pickled as its address: every copy charges one record, and none holds a password."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from tests.ledger.kept import OnServer


def test_copies_charge_one_record(path: Path | str) -> None:
    ledger = Ledger.create(path, unit="row", budget=PureDP(1))
    copies = [copy.deepcopy(ledger), copy.copy(ledger), copy.deepcopy({"ledger": ledger})["ledger"]]
    copies.append(pickle.loads(pickle.dumps(ledger)))
    for number, one in enumerate(copies):
        one.charge(Laplace(scale=10), purpose=f"copy {number}")
        assert one.head() == ledger.head()
    assert [charge.purpose for charge in ledger.charges()] == [f"copy {number}" for number in range(4)]
    for one in (ledger, *copies):
        one.close()


def test_a_pickle_finds_a_file_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger.create("visits.ledger", unit="row", budget=PureDP(1)) as ledger:
        text = pickle.dumps(ledger)
    (tmp_path / "text").write_bytes(text)
    code = (
        "import pickle, sys; ledger = pickle.load(open(sys.argv[1], 'rb'));"
        "from deniable.events import Laplace; ledger.charge(Laplace(scale=10), purpose='elsewhere')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "text")], cwd=os.sep, check=True)
    with Ledger.open(tmp_path / "visits.ledger") as again:
        assert [charge.purpose for charge in again.charges()] == ["elsewhere"]


@pytest.mark.xdist_group("ledger on a server")
def test_neither_pickle_nor_repr_holds_a_password(server: object) -> None:
    place = OnServer(server, "ledger_with_password")  # type: ignore[arg-type]
    address = str(place.address).replace("tester@", "tester:correct%20horse@").replace("#", "?sslmode=disable#")
    ledger = Ledger.create(address, unit="row", budget=PureDP(1))
    text = pickle.dumps(ledger)
    for hidden in (text, repr(ledger).encode(), repr(vars(ledger)).encode()):
        assert b"horse" not in hidden
    assert b"sslmode=disable" in text
    again = pickle.loads(text)
    again.charge(Laplace(scale=10), purpose="again")
    assert ledger.head() == again.head()
    ledger.close()
    again.close()
