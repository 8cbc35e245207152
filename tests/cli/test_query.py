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
    assert all(0 <= row["n_low"] <= max(row["n"], 0) <= row["n_high"] for row in found["rows"])


def test_a_dry_run_shows_the_plan_and_charges_nothing(hospital: Callable) -> None:
    before = hospital("ledger", "show", "hospital.ledger").out
    ran = hospital(*MEAN, "--epsilon", "0.5", "--bounds", "cost=0:5000", *LIMITS, *LEDGER, "--dry-run")
    assert ran.code == 0
    for part in ("cost    ε ≤ 0.50", "noise scale", "± ", "WITH base"):
        assert part in ran.out
    assert hospital("ledger", "show", "hospital.ledger").out == before


def test_a_dry_run_says_whether_it_fits(hospital: Callable) -> None:
    looked = [*MEAN, "--bounds", "cost=0:5000", *LIMITS, *LEDGER, "--dry-run"]
    assert hospital(*looked, "--epsilon", "2").err == ""
    ran = hospital(*looked, "--epsilon", "2.5")
    assert ran.code == 0
    assert ran.err == "It does not fit: the ledger has ε = 2 left.\n"
    assert json.loads(hospital(*looked, "--epsilon", "2.5", "--json").out)["fits"] is False


def test_a_dry_run_never_asks_the_engine(hospital: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.query.engines import DuckDB

    monkeypatch.setattr(DuckDB, "run", None)
    private = ["--bounds", "private", "--per-unit", "private", "--diagnose", "0.05"]
    assert hospital(*MEAN, "--epsilon", "0.5", *private, *LEDGER, "--dry-run").code == 0
    ran = hospital(*MEAN, "--epsilon", "0.5", *private, *LEDGER, "--dry-run", "--json")
    assert [stage["name"] for stage in json.loads(ran.out)["stages"]] == [
        "bounds of cost",
        "rows per unit",
        "units beyond the limits",
        "rows left out",
    ]


def test_the_error_first(hospital: Callable) -> None:
    words = ["query", "visits.csv", "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits", "--bounds", "cost=0:500"]
    ran = hospital(*words, "--error", "n=30", "--error", "s=9000", *LIMITS, *LEDGER, "--dry-run")
    assert ran.code == 0
    assert "n         ± 30" in ran.out
    assert "s         ± 9,000" in ran.out
    ran = hospital(*COUNT, "--error", "30", *KEYS, *LIMITS, *LEDGER)
    assert ran.code == 0
    assert "remaining" in ran.out


def test_private_bounds_limits_and_a_diagnosis(hospital: Callable) -> None:
    ran = hospital(
        *MEAN, "--epsilon", "1", "--bounds", "cost=private", "--per-unit", "private", "--diagnose", "0.05", *LEDGER
    )
    assert ran.code == 0
    for part in ("found      bounds of cost: [", "found      limits for each patient: ", "left out", "beyond"):
        assert part in ran.out


def test_weights_and_confidence(hospital: Callable) -> None:
    words = ["query", "visits.csv", "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits", "--bounds", "cost=0:500"]
    ran = hospital(*words, "--epsilon", "1", "--weights", "n=3", "--confidence", "0.9", *LIMITS, *LEDGER, "--dry-run")
    assert "split   n 3 : s 1" in ran.out
    assert "error of the noise, 90 %" in ran.out


def test_several_tables(hospital: Callable) -> None:
    Path("stays.csv").write_text("patient_id,ward\np1,a\n", encoding="utf-8")
    Path("places.csv").write_text("city,canton\nBern,BE\nBasel,BS\n", encoding="utf-8")
    sql = "SELECT canton, COUNT(*) AS n FROM visits JOIN places USING (city) GROUP BY canton"
    ran = hospital("query", "visits.csv", sql, "--public", "places.csv", "--epsilon", "0.5", *LIMITS, *LEDGER)
    assert ran.code == 0
    assert "BE" in ran.out
    sql = "SELECT COUNT(*) AS n FROM beds"
    ran = hospital("query", "visits.csv", sql, "--table", "beds=stays.csv", "--epsilon", "0.5", *LIMITS, *LEDGER)
    assert ran.code == 0


def test_ctrl_c_says_what_stands(hospital: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.query.engines import DuckDB

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DuckDB, "run", interrupt)
    ran = hospital(*COUNT, "--epsilon", "0.5", *KEYS, *LIMITS, *LEDGER)
    assert ran.code == 130
    assert ran.err == "deniable: interrupted; the charge stands, as row 1 of the ledger.\n"
    assert hospital("ledger", "verify", "hospital.ledger").code == 0


def test_keys_may_come_from_a_file(hospital: Callable) -> None:
    Path("cities.txt").write_text("Bern\nBasel\nGeneva\n", encoding="utf-8")
    ran = hospital(*COUNT, "--epsilon", "0.5", "--keys", "city=@cities.txt", *LIMITS, *LEDGER)
    assert ran.code == 0
    assert "Geneva" in ran.out


WRONG = {
    "no bounds": ([*MEAN, "--error", "1", "--group-size", "9", *LIMITS, *LEDGER], "bounds"),
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
    "neither epsilon nor error": ([*COUNT, *KEYS, *LIMITS, *LEDGER], "epsilon must be given, or error"),
    "both epsilon and error": (
        [*COUNT, "--epsilon", "1", "--error", "5", *KEYS, *LIMITS, *LEDGER],
        "error must be left out when epsilon is given",
    ),
    "error 0": ([*COUNT, "--error", "0", *KEYS, *LIMITS, *LEDGER], "error must be a positive number"),
    "error of words": ([*COUNT, "--error", "small", *KEYS, *LIMITS, *LEDGER], "--error must be a number"),
    "error of an unknown name": ([*COUNT, "--error", "x=5", *KEYS, *LIMITS, *LEDGER], "Use the name after AS"),
    "error of an average": (
        [*MEAN, "--error", "5", "--bounds", "cost=0:500", *LIMITS, *LEDGER],
        "--group-size 1000",
    ),
    "error with private bounds": (
        [*MEAN, "--error", "5", "--bounds", "private", *LIMITS, *LEDGER],
        "not known beforehand",
    ),
    "diagnose 2": (
        [*MEAN, "--epsilon", "1", "--bounds", "cost=0:9", "--diagnose", "2", *LIMITS, *LEDGER],
        "diagnose must be a share",
    ),
    "a weight without a name": ([*COUNT, "--epsilon", "1", "--weights", "2", *KEYS, *LIMITS, *LEDGER], "NAME=NUMBER"),
    "a weight of a stranger": ([*COUNT, "--epsilon", "1", "--weights", "x=2", *KEYS, *LIMITS, *LEDGER], "about the"),
    "another word for limits": ([*COUNT, "--epsilon", "1", "--per-unit", "some", *KEYS, *LEDGER], "--per-unit must be"),
    "limits twice": (
        [*COUNT, "--epsilon", "1", "--per-unit", "private", *KEYS, *LIMITS, *LEDGER],
        "--per-unit must be",
    ),
    "a delta for declared keys": ([*COUNT, "--epsilon", "1", "--delta", "1e-9", *KEYS, *LIMITS, *LEDGER], "delta must"),
    "confidence 1": ([*COUNT, "--epsilon", "1", "--confidence", "1", *KEYS, *LIMITS, *LEDGER], "confidence must be"),
    "two tables of one name": (
        [*COUNT, "--epsilon", "1", "--table", "visits=empty.csv", *KEYS, *LIMITS, *LEDGER],
        "a table of a new name",
    ),
    "no limits": ([*COUNT, "--error", "9", *KEYS, *LEDGER], "--groups-per-unit 2 --rows-per-unit 4"),
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
        "joined to itself",
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
