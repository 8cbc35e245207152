"""The first question: a ledger is offered, the cost is shown, nothing is charged before a yes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import deniable as dn
from deniable.cli import asking
from deniable.errors import InvalidArgument
from deniable.ledger import Ledger

COUNT = ["query", "visits.csv", "SELECT COUNT(*) AS n FROM visits", "--groups-per-unit", "1", "--rows-per-unit", "2"]


@pytest.fixture
def table(run: Callable) -> Callable:
    """A table without a ledger."""
    rows = "".join(f"p{n},{'Bern' if n % 3 else 'Basel'}\n" for n in range(300))
    Path("visits.csv").write_text(f"patient_id,city\n{rows}", encoding="utf-8")
    return run


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Somebody who types these lines at a terminal."""

    def typed(*lines: str) -> None:
        monkeypatch.setattr(asking, "at_terminal", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return typed


def test_three_words_and_three_decisions(table: Callable, answers: Callable) -> None:
    answers("patient_id", "2", "0.5", "y")
    ran = table(*COUNT)
    assert ran.code == 0, ran.err
    assert "There is no ledger yet" in ran.err
    assert "ε ≤ 0.50" in ran.err  # the plan, before it is charged
    assert "n_low" in ran.out
    with Ledger.open("visits.ledger") as ledger:
        assert ledger.budget == dn.ApproxDP(2, 1e-6, unit="patient_id")
        assert len(list(ledger.charges())) == 1


def test_the_defaults_are_offered(table: Callable, answers: Callable) -> None:
    answers("patient_id", "", "", "")
    assert table(*COUNT).code == 0
    with Ledger.open("visits.ledger") as ledger:
        assert ledger.budget == dn.ApproxDP(3, 1e-6, unit="patient_id")
        [charge] = ledger.charges()
    assert dn.account(charge.event).epsilon(1e-6) <= 0.3


def test_no_charges_nothing(table: Callable, answers: Callable) -> None:
    answers("patient_id", "2", "0.5", "n")
    ran = table(*COUNT)
    assert ran.code == 1
    assert "nothing was charged" in ran.err
    with Ledger.open("visits.ledger") as ledger:
        assert list(ledger.charges()) == []


def test_without_a_terminal_nothing_is_asked(table: Callable) -> None:
    ran = table(*COUNT, "--epsilon", "0.5")
    assert ran.code == 1
    assert "deniable ledger create visits.ledger --unit COLUMN" in ran.err
    assert not Path("visits.ledger").exists()
    first = table(*COUNT, "--epsilon", "0.5", "--unit", "patient_id", "--budget", "2")
    assert first.code == 0, first.err
    again = table(*COUNT, "--epsilon", "0.5")  # the ledger beside the file
    assert again.code == 0
    with Ledger.open("visits.ledger") as ledger:
        assert len(list(ledger.charges())) == 2


def test_another_budget_is_refused(table: Callable) -> None:
    assert table(*COUNT, "--epsilon", "0.5", "--unit", "patient_id", "--budget", "2").code == 0
    ran = table(*COUNT, "--epsilon", "0.5", "--unit", "patient_id", "--budget", "9")
    assert ran.code == 1
    assert "fixed once" in ran.err


def test_a_mistyped_unit_can_be_typed_again(table: Callable) -> None:
    assert table(*COUNT, "--epsilon", "0.5", "--unit", "pateint_id", "--budget", "2").code == 1
    assert table(*COUNT, "--epsilon", "0.5", "--unit", "patient_id", "--budget", "2").code == 0


def test_what_is_for_a_new_ledger_is_not_ignored(table: Callable) -> None:
    assert table("ledger", "create", "a.ledger", "--epsilon", "1", "--unit", "patient_id").code == 0
    for words in (["--unit", "city"], ["--budget", "9"]):
        ran = table(*COUNT, "--epsilon", "0.5", "--ledger", "a.ledger", *words)
        assert ran.code == 1
        assert "for a new ledger" in ran.err


def test_a_chart_on_a_terminal(table: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    ran = table(*COUNT, "--epsilon", "0.5", "--unit", "patient_id", "--budget", "2")
    assert "█" in ran.out


def test_open_creates_once_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("patient_id\n1\n2\n", encoding="utf-8")
    limits = dn.AtMost(groups=1, rows=1)
    for n in range(2):
        with dn.open(file, unit="patient_id", epsilon=1, delta=0) as session:
            assert session.ledger.head().seq == n
            session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.25, per_unit=limits)
    with pytest.raises(InvalidArgument, match="fixed once"):
        dn.open(file, unit="patient_id", epsilon=2, delta=0)
    with pytest.raises(InvalidArgument, match="ledger"):
        dn.open({"visits": file}, unit="patient_id", epsilon=2)


def test_a_mistyped_unit_leaves_no_ledger(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("patient_id\n1\n2\n", encoding="utf-8")
    with pytest.raises(dn.errors.DeniableError, match="pateint_id"):
        dn.open(file, unit="pateint_id", epsilon=1)
    assert not list(tmp_path.glob("*.ledger*"))
    dn.open(file, unit="patient_id", epsilon=1).close()
