"""`deniable publish`: one charge, one folder; Ctrl-C leaves both right; every wrong input gets one sentence."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TABLES = """
title = "Visits"
ledger = "hospital.ledger"
epsilon = 1
[data]
visits = "visits.csv"
[tables.all]
sql = "SELECT COUNT(*) AS n FROM visits"
per_unit = {groups = 1, rows = 2}
[tables.by_city]
sql = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
keys.city = ["Bern", "Basel"]
per_unit = {groups = 2, rows = 2}
"""
PUBLISH = ["publish", "tables.toml", "--out", "release"]


@pytest.fixture(name="press")
def _press(hospital: Callable) -> Callable:
    Path("tables.toml").write_text(TABLES, encoding="utf-8")
    return hospital


def test_a_release_is_made_once(press: Callable) -> None:
    ran = press(*PUBLISH)
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "release: METHOD.md, all.csv, by_city.csv, release.json"
    assert "cost       ε ≤ 1.00, δ = 0, one patient added or removed" in ran.out
    assert "remaining  ε = 1" in ran.out
    assert Path("release/by_city.csv").read_text(encoding="utf-8").startswith("city,n,n_low,n_high\nBern,")
    before = press("ledger", "export", "hospital.ledger").out
    again = press(*PUBLISH)
    assert again.code == 1
    assert "never overwritten" in again.err
    assert press("ledger", "export", "hospital.ledger").out == before


def test_json(press: Callable) -> None:
    found = json.loads(press(*PUBLISH, "--json").out)
    assert found["files"] == ["METHOD.md", "all.csv", "by_city.csv", "release.json"]


def test_a_dry_run_shows_everything_and_touches_nothing(press: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.query.engines import DuckDB

    monkeypatch.setattr(DuckDB, "run", None)
    before = press("ledger", "export", "hospital.ledger").out
    ran = press(*PUBLISH, "--dry-run")
    assert ran.code == 0
    for part in ("cost    ε ≤ 1.00", "all      0.5", "n ± ", "WITH base", "keys    city: 2 declared"):
        assert part in ran.out
    found = json.loads(press(*PUBLISH, "--dry-run", "--json").out)
    assert found["tables"]["all"]["cost"]["epsilon"] == 0.5
    assert found["fits"]
    assert press("ledger", "export", "hospital.ledger").out == before
    assert not list(Path().glob("release*"))


def test_progress_is_shown_on_a_terminal_only(press: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert press(*PUBLISH).err == ""
    shown = Terminal()
    with monkeypatch.context() as terminal:
        terminal.setattr(sys, "stderr", shown)
        terminal.setenv("TERM", "xterm")
        ran = press("publish", "tables.toml", "--out", "again")
    assert ran.code == 0
    assert "method note" in shown.getvalue()
    assert ran.out.startswith("again: METHOD.md")


INTERRUPTED = """
import signal, sys
from deniable.cli import main
from deniable.query.publication import publication as publishing
compute, plans = publishing.compute, []

def slow(plan):
    plans.append(plan)
    if len(plans) == {table}:
        print("here", flush=True)
        signal.pause()
    return compute(plan)

publishing.compute = slow
sys.argv = ["deniable", "publish", "tables.toml", "--out", "release"]
main()
"""


@pytest.mark.parametrize("table", [1, 2])
def test_ctrl_c_leaves_ledger_and_files_right(press: Callable, table: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(table=table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err == (
        "deniable: interrupted; the charge stands, as row 1 of the ledger. "
        "Run the same command again to finish release; it is not charged twice.\n"
    )
    assert not Path("release").exists()
    written = {path.name: path.read_bytes() for path in Path("release.partial").glob("*.csv")}
    assert len(written) == table - 1
    assert press("ledger", "verify", "hospital.ledger").code == 0
    before = press("ledger", "export", "hospital.ledger").out

    assert press(*PUBLISH).code == 0
    assert press("ledger", "export", "hospital.ledger").out == before, "not charged twice"
    for name, content in written.items():
        assert Path("release", name).read_bytes() == content, "not drawn twice"
    assert sorted(path.name for path in Path("release").iterdir()) == [
        "METHOD.md",
        "all.csv",
        "by_city.csv",
        "release.json",
    ]
    assert not Path("release.partial").exists()


def test_ctrl_c_before_the_charge_says_so(press: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.query.publication import publication as publishing

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "rehearse", interrupt)
    ran = press(*PUBLISH)
    assert ran.code == 130
    assert "nothing was charged" in ran.err
    assert not list(Path().glob("release*"))


WRONG = {
    "no file": (["publish", "none.toml", "--out", "release"], "", "none.toml could not be read"),
    "no folder for it": (["publish", "tables.toml", "--out", "none/release"], "", "there is no folder none"),
    "not TOML": (PUBLISH, "[[", "is not TOML"),
    "unknown column": (PUBLISH, "COUNT(*)>COUNT(price)", "price"),
    "unknown word": (PUBLISH, "epsilon = 1>epsilon = 1\nepsilonn = 2", "epsilonn"),
    "another unit": (PUBLISH, "hospital.ledger>other.ledger", "doctor_id"),
    "no such table": (PUBLISH, "visits.csv>none.csv", "none.csv"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_gets_one_sentence_and_charges_nothing(press: Callable, case: str) -> None:
    words, change, expected = WRONG[case]
    assert press("ledger", "create", "other.ledger", "--epsilon", "1", "--unit", "doctor_id").code == 0
    old, arrow, new = change.partition(">")
    Path("tables.toml").write_text(TABLES.replace(old, new) if arrow else change or TABLES, encoding="utf-8")
    before = press("ledger", "export", "hospital.ledger").out
    ran = press(*words)
    assert ran.code == 1
    assert ran.err.startswith("deniable: ")
    assert expected in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert "Traceback" not in ran.err + ran.out
    assert press("ledger", "export", "hospital.ledger").out == before
    assert not list(Path().glob("release*"))


def test_a_budget_that_refuses(press: Callable) -> None:
    Path("tables.toml").write_text(TABLES.replace("epsilon = 1", "epsilon = 2.5"), encoding="utf-8")
    ran = press(*PUBLISH)
    assert ran.code == 3
    assert "remaining ε = 2" in ran.err
    assert not list(Path().glob("release*"))
