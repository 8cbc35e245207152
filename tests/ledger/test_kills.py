"""kill -9 at random moments of charging and releasing. Some 200 kills in about 5 s; ten thousand under `make soak`."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import deniable
from deniable.guarantees import PureDP
from deniable.ledger import Ledger

HERE = Path(__file__).parent
recompute = runpy.run_path(str(HERE / "oracle.py"))["recompute"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(deniable.__path__[0]).parent)}


def killed(path: Path, *, rounds: int) -> None:
    """After every kill, all that was told is recorded and at most one charge more; the record verifies."""
    Ledger.create(path, unit="row", budget=PureDP(1000)).close()
    command = [sys.executable, str(HERE / "workers.py"), "kills", str(path), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    found = json.loads(done.stdout)
    assert found["torn"] == 0
    # A round waits for 0 to 3 answers: fewer charges in all would mean that the kills came too early to matter.
    assert found["paid"] > rounds
    with Ledger.open(path) as ledger:
        assert ledger.verify().seq == found["paid"]
        verdict = recompute(ledger.export())
    assert verdict["whole"]
    assert verdict["rows"] == found["paid"]


def test_killed_processes_lose_nothing_they_told(path: Path) -> None:
    killed(path, rounds=150 if isinstance(path, Path) else 40)


@pytest.mark.soak
def test_ten_thousand_kills(path: Path) -> None:
    killed(path, rounds=10_000)
