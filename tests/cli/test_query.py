"""`deniable query`: answers, and every wrong input gets one sentence, a non-zero exit code, no stack trace, no
charge.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

COUNT = ["query", "visits.csv", "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"]
MEAN = ["query", "visits.csv", "SELECT AVG(cost) AS cost FROM visits"]
KEYS = ["--keys", "city=Bern,Basel"]
LIMITS = ["--groups-per-unit", "2", "--rows-per-unit", "2"]
LEDGER = ["--ledger", "hospital.ledger"]


def test_a_count_has_an_interval_on_every_value_and_one_line_of_cost(hospital: Callable) -> None:
    ran = hospital(*COUNT, "--epsilon", "0.5", *KEYS, *LIMITS, *LEDGER)
    assert ran.code == 0
    assert ran.out.splitlines()[0].split() == ["city", "n", "n_low", "n_high"]
    assert "cost       ε ≤ 0.50, δ = 0, one patient added or removed" in ran.out
    assert ran.out.count("Bern") == ran.out.count("Basel") == 1
    assert "Zurich" not in ran.out, "an undeclared key may not appear"


def test_json_holds_the_same_release(hospital: Callable) -> None:
    ran = hospital(*COUNT, "--epsilon", "0.5", *KEYS, *LIMITS, *LEDGER, "--json")
    found = json.loads(ran.out)
    assert [row["city"] for row in found["rows"]] == ["Bern", "Basel"]
    assert all(row["n_low"] <= row["n"] <= row["n_high"] for row in found["rows"])


def test_a_dry_run_shows_the_plan_and_charges_nothing(hospital: Callable) -> None:
    before = hospital("ledger", "show", "hospital.ledger").out
    ran = hospital(*MEAN, "--epsilon", "0.5", "--bounds", "cost=0:5000", *LIMITS, *LEDGER, "--dry-run")
    assert ran.code == 0
    assert "noise" in ran.out
    assert hospital("ledger", "show", "hospital.ledger").out == before


def test_keys_may_come_from_a_file(hospital: Callable) -> None:
    Path("cities.txt").write_text("Bern\nBasel\nGeneva\n", encoding="utf-8")
    ran = hospital(*COUNT, "--epsilon", "0.5", "--keys", "city=@cities.txt", *LIMITS, *LEDGER)
    assert ran.code == 0
    assert "Geneva" in ran.out


WRONG = {
    "no bounds": ([*MEAN, "--epsilon", "1", *LIMITS, *LEDGER], "bounds"),
    "bounds the wrong way round": (
        [*MEAN, "--epsilon", "1", "--bounds", "cost=5:1", *LIMITS, *LEDGER],
        "low below high",
    ),
    "bounds that are no numbers": (
        [*MEAN, "--epsilon", "1", "--bounds", "cost=a:b", *LIMITS, *LEDGER],
        "COLUMN=LOW:HIGH",
    ),
    "bounds without a span": ([*MEAN, "--epsilon", "1", "--bounds", "cost", *LIMITS, *LEDGER], "COLUMN=LOW:HIGH"),
    "unknown column": (
        ["query", "visits.csv", "SELECT SUM(price) FROM visits", "--epsilon", "1", *LIMITS, *LEDGER],
        "price",
    ),
    "unknown table": (
        ["query", "visits.csv", "SELECT COUNT(*) FROM stays", "--epsilon", "1", *LIMITS, *LEDGER],
        "stays",
    ),
    "undeclared key": ([*COUNT, "--epsilon", "1", *LIMITS, *LEDGER], "keys"),
    "no such key file": ([*COUNT, "--epsilon", "1", "--keys", "city=@none.txt", *LIMITS, *LEDGER], "none.txt"),
    "epsilon 0": ([*COUNT, "--epsilon", "0", *KEYS, *LIMITS, *LEDGER], "epsilon must be a positive number"),
    "epsilon -1": ([*COUNT, "--epsilon", "-1", *KEYS, *LIMITS, *LEDGER], "epsilon must be a positive number"),
    "epsilon nan": ([*COUNT, "--epsilon", "nan", *KEYS, *LIMITS, *LEDGER], "epsilon must be a positive number"),
    "epsilon inf": ([*COUNT, "--epsilon", "inf", *KEYS, *LIMITS, *LEDGER], "epsilon must be a positive number"),
    "no limits": ([*COUNT, "--epsilon", "1", *KEYS, *LEDGER], "per_unit"),
    "half of the limits": ([*COUNT, "--epsilon", "1", *KEYS, *LEDGER, "--rows-per-unit", "2"], "--groups-per-unit"),
    "zero groups": (
        [*COUNT, "--epsilon", "1", *KEYS, *LEDGER, "--rows-per-unit", "2", "--groups-per-unit", "0"],
        "groups",
    ),
    "no ledger there": ([*COUNT, "--epsilon", "1", *KEYS, *LIMITS, "--ledger", "none.ledger"], "none.ledger"),
    "no file there": (
        ["query", "none.csv", "SELECT COUNT(*) FROM none", "--epsilon", "1", *LIMITS, *LEDGER],
        "none.csv",
    ),
    "empty file": (
        ["query", "empty.csv", "SELECT COUNT(*) FROM empty", "--epsilon", "1", *LIMITS, *LEDGER],
        "empty.csv",
    ),
    "another unit": ([*COUNT, "--epsilon", "1", *KEYS, *LIMITS, "--ledger", "other.ledger"], "doctor_id"),
    "not a ledger": ([*COUNT, "--epsilon", "1", *KEYS, *LIMITS, "--ledger", "visits.csv"], "visits.csv"),
    "a join": (
        [
            "query",
            "visits.csv",
            "SELECT COUNT(*) FROM visits JOIN visits AS v ON 1=1",
            "--epsilon",
            "1",
            *LIMITS,
            *LEDGER,
        ],
        "JOIN",
    ),
    "rows": (["query", "visits.csv", "SELECT * FROM visits", "--epsilon", "1", *LIMITS, *LEDGER], "SELECT *"),
    "not SQL": (["query", "visits.csv", "how many?", "--epsilon", "1", *LIMITS, *LEDGER], "SQL"),
    "not a query": (["query", "visits.csv", "DROP TABLE visits", "--epsilon", "1", *LIMITS, *LEDGER], "SELECT"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_gets_one_sentence_and_charges_nothing(hospital: Callable, case: str) -> None:
    Path("empty.csv").touch()
    assert hospital("ledger", "create", "other.ledger", "--epsilon", "1", "--unit", "doctor_id").code == 0
    before = hospital("ledger", "export", "hospital.ledger").out
    words, expected = WRONG[case]
    ran = hospital(*words)
    assert ran.code == 1
    assert ran.err.startswith("deniable: ")
    assert expected in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert "Traceback" not in ran.err + ran.out
    assert hospital("ledger", "export", "hospital.ledger").out == before


def test_a_spent_ledger_refuses_with_what_fits(hospital: Callable) -> None:
    assert hospital(*COUNT, "--epsilon", "1.7", *KEYS, *LIMITS, *LEDGER).code == 0
    ran = hospital(*COUNT, "--epsilon", "0.5", *KEYS, *LIMITS, *LEDGER)
    assert ran.code == 3
    assert "requested ε = 0.5; remaining ε = 0.3" in ran.err
    assert hospital(*COUNT, "--epsilon", "0.3", *KEYS, *LIMITS, *LEDGER).code == 0


def test_missing_options_are_usage_errors(hospital: Callable) -> None:
    assert hospital("query", "visits.csv").code == 2
    assert hospital("nothing").code == 2
