"""`deniable explain` and `deniable report`, and how they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deniable import Ledger, PureDP
from deniable.cli.app import app
from deniable.errors import DeniableError
from deniable.events import DiscreteLaplace, Laplace
from tests.explaining.looking import REPORT


def run(*words: object) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "visits.ledger"
    with Ledger.create(path, unit="patient_id", budget=PureDP(1)) as made:
        made.charge(DiscreteLaplace(scale=10), purpose="how many visits", who="ann")
    return path


def test_a_ledger_is_explained_by_its_budget(ledger: Path) -> None:
    text = run("explain", ledger)
    assert "ledger visits.ledger" in text
    assert "27 of 100" in text  # 1/(1 + e): the budget, not the tenth that was charged
    assert "73 of 100" in text


def test_an_event_by_its_own_curve(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(Laplace(scale=2).to_json(), encoding="utf-8")
    assert "39 of 100" in run("explain", file)


def test_an_event_for_a_group_speaks_of_the_group(tmp_path: Path) -> None:
    event, picture = tmp_path / "event.json", tmp_path / "odds.svg"
    event.write_text(Laplace(scale=2).for_group(3).to_json(), encoding="utf-8")
    assert "a group of 3 records" in run("explain", event, "--picture", picture)
    assert "with your group" in picture.read_text(encoding="utf-8")


def test_json_and_picture(tmp_path: Path) -> None:
    picture = tmp_path / "odds.svg"
    found = json.loads(run("explain", "--epsilon", 1, "--delta", 1e-6, "--json", "--picture", picture))
    assert found["odds"] == {"without": 27, "with_you": 73, "of": 100, "give_or_take": 0}
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_the_report_lists_what_was_charged(ledger: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert json.loads(run("report", ledger, "--out", out, "--json")) == {
        "page": str(out),
        "registry": str(out.with_name("page.registry.json")),
    }
    assert "how many visits" in out.read_text(encoding="utf-8")
    assert json.loads(out.with_name("page.registry.json").read_text(encoding="utf-8"))["releases"] == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["explain"], "one of them"),
        (["explain", "--epsilon", "1", "--mu", "1"], "one of them"),
        (["explain", "--epsilon", "-1"], "epsilon"),
        (["explain", "--epsilon", "1", "--prior", "2"], "prior"),
        (["explain", "missing.ledger"], r"a ledger .* or a JSON file"),
        (["report", "missing.ledger"], r"a ledger .* or a JSON file"),
    ],
)
def test_mistakes_are_sentences(words: list[str], sentence: str) -> None:
    with pytest.raises(DeniableError, match=sentence):
        CliRunner().invoke(app, words, catch_exceptions=False)


def test_a_file_of_something_else(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(DeniableError):
        CliRunner().invoke(app, ["explain", str(file)], catch_exceptions=False)


def test_a_ledger_at_an_address_is_not_taken_for_a_file(monkeypatch: pytest.MonkeyPatch, ledger: Path) -> None:
    asked: list[str] = []
    opened = Ledger.open

    def elsewhere(place: str) -> Ledger:
        asked.append(place)
        return opened(ledger)

    monkeypatch.setattr(Ledger, "open", elsewhere)
    address = "postgresql://clerk:secret@db.example.org/hospital#visits"
    assert "73 of 100" in run("explain", address)
    run("report", address, "--out", ledger.with_name("page.html"))
    assert set(asked) == {address}


def test_an_audit_is_drawn_and_a_refuted_one_says_so(tmp_path: Path) -> None:
    report, picture = tmp_path / "audit.json", tmp_path / "audit.svg"
    report.write_text(REPORT.to_json(), encoding="utf-8")
    text = run("explain", report, "--picture", picture)
    assert text.index("has refuted this promise") < text.index("possible reports")
    assert "audited: ε ≥ 1.50 at δ = 0" in picture.read_text(encoding="utf-8")


def test_a_table_given_by_mistake_is_not_quoted(hospital: Callable) -> None:
    """A message never shows rows, not even those of a file that is no event."""
    for words in (["explain", "visits.csv"], ["account", "--from", "visits.csv", "--delta", "1e-5"]):
        ran = hospital(*words)
        assert ran.code == 1
        assert "Bern" not in ran.err
        assert "patient_id" not in ran.err
