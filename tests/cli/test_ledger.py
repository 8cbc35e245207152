"""`deniable ledger`: create once, read, verify, export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

COUNT = [
    "query", "visits.csv", "SELECT COUNT(*) AS n FROM visits", "--epsilon", "0.5",
    "--groups-per-unit", "1", "--rows-per-unit", "2", "--ledger", "hospital.ledger",
]  # fmt: skip


def test_creating_says_what_is_promised_and_never_overwrites(run: Callable) -> None:
    words = ["ledger", "create", "a.ledger", "--epsilon", "3", "--delta", "1e-6", "--unit", "patient_id"]
    assert "ε ≤ 3.00, δ = 1e-6, one patient added or removed" in run(*words).out
    before = Path("a.ledger").read_bytes()
    again = run(*words)
    assert again.code == 1
    assert "a.ledger" in again.err
    assert Path("a.ledger").read_bytes() == before


def test_a_budget_that_cannot_be_meant_creates_nothing(run: Callable) -> None:
    for value in ("-1", "nan", "inf"):
        ran = run("ledger", "create", "a.ledger", "--epsilon", value, "--unit", "row")
        assert ran.code == 1
        assert f"epsilon={value.replace('-1', '-1.0')}" in ran.err
        assert not Path("a.ledger").exists()


def test_opening_never_creates(run: Callable) -> None:
    for command in ("show", "verify", "export"):
        ran = run("ledger", command, "none.ledger")
        assert ran.code == 1
        assert "none.ledger" in ran.err
        assert not Path("none.ledger").exists()


def test_show_lists_charges_and_what_remains(hospital: Callable) -> None:
    hospital(*COUNT)
    shown = hospital("ledger", "show", "hospital.ledger").out
    assert "ε = 1.5" in shown
    assert "SELECT COUNT(*) AS n FROM visits" in " ".join(shown.split())
    found = json.loads(hospital("ledger", "show", "hospital.ledger", "--json").out)
    assert [charge["purpose"] for charge in found["charges"]] == ["SELECT COUNT(*) AS n FROM visits"]


def test_verify_accepts_an_earlier_head_and_export_is_one_object_per_line(hospital: Callable) -> None:
    early = json.loads(hospital("ledger", "verify", "hospital.ledger", "--json").out)["head"]
    hospital(*COUNT)
    assert hospital("ledger", "verify", "hospital.ledger", "--head", early).code == 0
    lines = hospital("ledger", "export", "hospital.ledger").out.splitlines()
    assert len(lines) == 3
    assert [json.loads(line) for line in lines][1]["purpose"] == "SELECT COUNT(*) AS n FROM visits"


def test_show_says_how_many_more_questions_fit(hospital: Callable) -> None:
    hospital(*COUNT)
    shown = hospital("ledger", "show", "hospital.ledger").out
    assert "3 more questions like the last one" in shown
    assert "ε ≤ 0.50, δ = 0" in shown
    assert "DiscreteLaplace" not in shown
    assert "DiscreteLaplace" in hospital("ledger", "show", "hospital.ledger", "--events").out.replace("\n", "")
    found = json.loads(hospital("ledger", "show", "hospital.ledger", "--json").out)
    assert found["repeats_left"] == 3
    assert found["charges"][0]["cost"]["epsilon"] == 0.5


def test_allot_gives_an_analyst_a_budget(hospital: Callable) -> None:
    assert "ada: ε ≤ 0.80" in hospital("ledger", "allot", "hospital.ledger", "ada", "--epsilon", "0.8").out
    assert "no more questions like" not in hospital("ledger", "show", "hospital.ledger").out
    assert "made once" in hospital("ledger", "allot", "hospital.ledger", "ada", "--epsilon", "0.9").err
