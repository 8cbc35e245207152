"""Commands that read a ledger take its export as well, and refuse one that was cut or edited."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from tests.ledger.test_exports import filled, write


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export of eight rows whose ledger is gone."""
    with filled(tmp_path / "gone.ledger") as ledger:
        path = write(ledger, tmp_path / "hospital.jsonl")
    (tmp_path / "gone.ledger").unlink()
    return path


def test_commands_take_an_export(exported: Path, run: Callable[..., Any]) -> None:
    shown = run("ledger", "verify", str(exported))
    assert shown.code == 0
    assert "8 rows verified, head 8:" in shown.out
    head = json.loads(run("ledger", "verify", str(exported), "--json").out)["head"]
    assert run("ledger", "verify", str(exported), "--head", head).code == 0
    assert run("ledger", "verify", str(exported), "--head", head.replace("8:", "9:")).code == 1
    assert "q3" in run("ledger", "show", str(exported)).out
    assert "q3" in run("ledger", "show", str(exported), "--who", "who").out
    assert run("ledger", "export", str(exported)).out == exported.read_text()
    assert "hospital.jsonl" in run("explain", str(exported)).out
    out = exported.with_name("report.html")
    assert run("report", str(exported), "--out", str(out)).code == 0
    assert "visits per city" in out.read_text()


def test_commands_refuse_an_edited_export_with_its_line(exported: Path, run: Callable[..., Any]) -> None:
    exported.write_text(exported.read_text().replace("visits per city", "visits per town"))
    out = exported.with_name("report.html")
    for words in (["ledger", "verify"], ["ledger", "show"], ["ledger", "export"], ["explain"], ["report"]):
        ran = run(*words, str(exported), *(["--out", str(out)] if words == ["report"] else []))
        assert ran.code == 1
        assert "line 2" in ran.err
        assert not ran.out
    assert not out.exists()


def test_an_export_is_written_whole_and_over_nothing(tmp_path: Path, run: Callable[..., Any]) -> None:
    filled(tmp_path / "a.ledger").close()
    words = ["ledger", "export", str(tmp_path / "a.ledger"), "--out"]
    out = tmp_path / "a.jsonl"
    assert run(*words, str(out)).code == 0
    assert Ledger.read_export(out).head().seq == 8
    assert run(*words, str(out)).code == 1
    assert run(*words, str(out), "--force").code == 0
    assert run(*words, str(tmp_path / "a.ledger"), "--force").code == 1
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        assert ledger.verify().seq == 8


def test_show_pages_through_a_long_record(tmp_path: Path, run: Callable[..., Any]) -> None:
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=PureDP(1)) as ledger:
        for number in range(45):
            ledger.charge(Laplace(scale=1000), purpose=f"q{number}", who="ana" if number % 2 else "bob")

    def numbers(*words: str) -> tuple[list[int], bool]:
        found = json.loads(run("ledger", "show", "a.ledger", "--json", *words).out)
        assert found["rows"] == 45
        return [charge["seq"] for charge in found["charges"]], found["older"]

    assert numbers() == (list(range(26, 46)), True)
    assert numbers("--page", "2") == (list(range(6, 26)), True)
    assert numbers("--page", "3") == (list(range(1, 6)), False)
    assert numbers("--page", "4") == ([], False)
    assert numbers("--last", "45") == (list(range(1, 46)), False)
    assert numbers("--last", "7", "--page", "2") == (list(range(32, 39)), True)
    shown = run("ledger", "show", "a.ledger").out
    assert "q25 " in shown
    assert "q24 " not in shown
    assert "--page 2" in shown
    assert "45 rows" in shown
    assert "--page" not in run("ledger", "show", "a.ledger", "--last", "45").out
    assert run("ledger", "show", "a.ledger", "--last", "0").code == 2
