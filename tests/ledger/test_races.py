"""Eight processes, and eight threads, race for the last of a budget. About 8 s."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import deniable
from deniable.errors import BudgetExceeded
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger

HERE = Path(__file__).parent
recompute = runpy.run_path(str(HERE / "oracle.py"))["recompute"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(deniable.__path__[0]).parent)}


def raced(path: Path, *, locked: str, processes: int = 8) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Let processes race for 5 in steps of 1/10, ask the oracle about the export."""
    Ledger.create(path, unit="row", budget=PureDP(5)).close()
    command = [sys.executable, str(HERE / "workers.py"), "race", str(path), "10", "20", locked]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        for _ in range(processes)
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [json.loads(each.communicate()[0]) for each in running]
    with Ledger.open(path) as ledger:
        return told, recompute(ledger.export())


def test_eight_processes_share_exactly_the_budget(path: Path) -> None:
    told, found = raced(path, locked="yes")
    assert sum(each["paid"] for each in told) == 50
    assert sum(each["refused"] for each in told) == 8 * 20 - 50
    assert found["epsilon"] == "5"
    assert found["rows"] == 50
    assert found["whole"]
    assert not found["overspent"]
    with Ledger.open(path) as ledger:
        assert ledger.verify().seq == 50


def test_without_the_lock_the_same_race_overspends(path: Path) -> None:
    """The negative control: a store that forgets the lock is caught by the same oracle."""
    told, found = raced(path, locked="no")
    assert found["overspent"]
    assert not found["whole"]
    assert sum(each["paid"] for each in told) > 50


def test_an_allotment_beside_charges_holds_all_of_them_or_is_refused(tmp_path: Path) -> None:
    """One process charges ten twentieths in an analyst's name while another allots that analyst a quarter."""
    paths = [tmp_path / f"{number}.ledger" for number in range(20)]
    for path in paths:
        Ledger.create(path, unit="row", budget=PureDP(1)).close()
    command = [sys.executable, str(HERE / "workers.py"), "allots"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    running: list[Any] = [subprocess.Popen([*command, role], **pipes) for role in ("charge", "allot")]
    for path in paths:
        assert [each.stdout.readline() for each in running] == ["ready\n"] * 2
        for each in running:
            each.stdin.write(f"{path}\n")
            each.stdin.flush()
    charged, allotted = (json.loads(each.communicate()[0].removeprefix("ready\n")) for each in running)
    for path, charges, allotment in zip(paths, charged, allotted, strict=True):
        assert charges == (5 if allotment else 10)
        with Ledger.open(path) as ledger:
            assert ledger.verify().seq == charges + allotment
            if allotment:
                assert ledger.remaining(who="ana").numbers["epsilon"] == 0


def test_eight_threads_share_exactly_the_budget(path: Path) -> None:
    ledger = Ledger.create(path, unit="row", budget=PureDP(1))

    def attempt(_: int) -> bool:
        try:
            ledger.charge(Laplace(scale=20), purpose="thread")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(60))) == 20
    assert recompute(ledger.export())["epsilon"] == "1"
    ledger.verify()
    ledger.close()


def test_a_ledger_survives_a_fork_on_both_sides(path: Path) -> None:
    ledger = Ledger.create(path, unit="row", budget=PureDP(1))
    ledger.charge(Laplace(scale=100), purpose="before")
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(10):
                    ledger.charge(Laplace(scale=100), purpose="child")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    for _ in range(10):
        ledger.charge(Laplace(scale=100), purpose="parent")
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]
    assert ledger.verify().seq == 51
    assert Fraction(recompute(ledger.export())["epsilon"]) == Fraction(51, 100)
    ledger.close()
