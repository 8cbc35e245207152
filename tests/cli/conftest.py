"""Run the command line as a person does: words in, exit code and text out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from deniable.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ran]:
    """`run("ledger", "show", ...)` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def words(*argv: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["deniable", *argv])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return words


VISITS = """patient_id,city,cost
p1,Bern,100
p1,Basel,250
p2,Bern,80.5
p3,Basel,
p4,Zurich,9000
"""


@pytest.fixture
def hospital(run: Callable[..., Ran]) -> Callable[..., Ran]:
    """The same, in a folder with a small table and a ledger of ε = 2 per patient."""
    Path("visits.csv").write_text(VISITS, encoding="utf-8")
    assert run("ledger", "create", "hospital.ledger", "--epsilon", "2", "--unit", "patient_id").code == 0
    return run
