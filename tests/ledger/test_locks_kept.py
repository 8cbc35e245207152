"""Looking at a ledger's file never drops the locks of a connection that is open in the same process.

A process that closes any handle of a file loses all its locks on it. Then another process that closes the ledger takes
itself for the last one, and removes the log into which the first still writes: charges would be lost.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from deniable import _files
from deniable.errors import LedgerError
from deniable.events import Laplace
from deniable.ledger import Ledger
from deniable.ledger.exports import is_export

ELSEWHERE = """
import sys
from deniable.events import Laplace
from deniable.ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    ledger.charge(Laplace(scale=2), purpose="elsewhere")
"""


def suppress_refusal(look: Callable[[], object]) -> None:
    with suppress(LedgerError):
        look()


LOOKS: dict[str, Callable[[Path], object]] = {
    "opened twice": lambda path: Ledger.open(path),
    "opened and closed": lambda path: Ledger.open(path).close(),
    "an export?": is_export,
    "a ledger?": lambda path: _files.check_target(path.with_name("page.html"), inputs=[path]),
    "a ledger, by its log's name?": _files.is_ledger,
    "read as an export": lambda path: suppress_refusal(lambda: Ledger.read_export(path)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_no_charge_is_lost_to_another_process(tmp_path: Path, look: Callable[[Path], object]) -> None:
    path = tmp_path / "people.ledger"
    ledger = Ledger.create(path, unit="row", epsilon=10)
    ledger.charge(Laplace(scale=2), purpose="here")
    kept = look(path)
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(path)], check=True)
    ledger.charge(Laplace(scale=2), purpose="here again")
    told = subprocess.run(
        [sys.executable, "-m", "deniable", "ledger", "verify", str(path)], check=True, capture_output=True, text=True
    ).stdout
    assert "3 rows verified" in told
    ledger.close()
    with Ledger.open(path) as again:
        assert [charge.purpose for charge in again.charges()] == ["here", "elsewhere", "here again"]
        again.verify()
    del kept
