"""A publication: one fixed event, one charge, whole files, a note that says how; and files that are refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest

from deniable.accounting import account
from deniable.errors import DataError, DeniableError
from deniable.guarantees import ApproxDP, PureDP
from deniable.query import Publication
from deniable.query.engines import DuckDB
from deniable.query.engines.duckdb import FakeDuckDB
from deniable.query.publication.publication import rehearse
from deniable.query.rehearsal import pools
from tests.query.publications import ALL, CITIES, EXACT, HEAD, _home, _publication, charges

__all__ = ["_home", "_publication"]
"""Fixtures."""


def test_a_set_of_tables_is_one_charge(home: Path, publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD + ALL + CITIES)
    assert found.cost == PureDP(1, unit="patient_id")
    assert [plan.cost.epsilon for plan in found.plans.values()] == [Fraction(3, 4), Fraction(1, 4)]
    assert found.event == reduce(add, (plan.event for plan in found.plans.values()))
    assert not charges(home), "planning is free"
    made = found.write(home / "release")
    (charge,) = charges(home)
    assert charge.event == found.event
    assert charge.purpose == "publication: Visits, 2026"
    assert sorted(path.name for path in made.iterdir()) == ["METHOD.md", "all.csv", "by_city.csv", "release.json"]
    with (made / "by_city.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["city"] for row in rows] == ["Bern", "Basel"]
    assert all(float(row["total_low"]) <= max(float(row["total"]), 0) <= float(row["total_high"]) for row in rows)
    record = json.loads((made / "release.json").read_text(encoding="utf-8"))
    assert record["charge"]["row"] == 1
    assert record["tables"]["by_city"]["cost"]["epsilon"] == 0.25


def test_the_note_says_how(home: Path, publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD + ALL + CITIES)
    note = (found.write(home / "release") / "METHOD.md").read_text(encoding="utf-8")
    (charge,) = charges(home)
    for part in (
        "# Visits, 2026: how these tables were made",
        "Protected: one patient, by the column `patient_id`.",
        "**ε ≤ 1.00, δ = 0, one patient added or removed**",
        f"row 1 of the ledger at {charge.time}; the row's hash is `{charge.hash}`",
        "Ghosh, Roughgarden and Sundararajan 2009",
        "basic composition",
        "With probability 95 % each",
        "## Costs by city",
        "- bounds: cost clamped to [0, 0.5], in steps of 1e-09",
        "| SUM(cost) | 0.225 | 8.89 | 2 |",
        "| units beyond the limits | 0.025 | 40 | 1 |",
        "- beyond limits and bounds: at most ",
        "| n | ± ",
    ):
        assert part in note


def test_an_error_sets_a_tables_part(publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD + ALL + EXACT)
    exact = found.plans["exact"]
    assert exact.error["n"]() <= 30
    assert found.plans["all"].cost.epsilon == 1 - exact.cost.epsilon


def test_errors_alone_set_the_cost(home: Path, publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD.replace("epsilon = 1", "") + EXACT)
    assert found.cost.epsilon == found.plans["exact"].cost.epsilon
    found.write(home / "release")
    assert charges(home)[0].event == found.event


def test_with_a_delta_the_composed_curve_is_charged(home: Path, publication: Callable[[str], Publication]) -> None:
    many = "".join(ALL.replace("tables.all", f"tables.t{i}").replace("weight = 3", "") for i in range(30))
    found = publication(HEAD.replace("epsilon = 1", "epsilon = 1\ndelta = 1e-7") + many)
    assert found.cost == ApproxDP(1, 1e-7, unit="patient_id")
    assert account(found.event).epsilon(1e-7) <= 1
    together = sum(plan.cost.epsilon for plan in found.plans.values())
    assert together > Fraction(11, 10), "the curve holds more than adding up"
    found.write(home / "release")
    (charge,) = charges(home)
    assert charge.at == ApproxDP(1, 1e-7)


def test_a_delta_that_buys_nothing_is_not_spent(publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD.replace("epsilon = 1", "epsilon = 1\ndelta = 1e-7") + ALL + CITIES)
    assert found.cost == PureDP(1, unit="patient_id")
    assert sum(plan.cost.epsilon for plan in found.plans.values()) == 1


def test_errors_alone_with_a_delta(publication: Callable[[str], Publication]) -> None:
    many = "".join(EXACT.replace("tables.exact", f"tables.t{i}") for i in range(40))
    found = publication(HEAD.replace("epsilon = 1", "delta = 1e-7") + many)
    assert account(found.event).epsilon(1e-7) <= found.cost.epsilon
    assert found.cost.epsilon < sum(plan.cost.epsilon for plan in found.plans.values())


def test_the_rehearsal_reads_no_row_and_charges_nothing(
    home: Path, publication: Callable[[str], Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = publication(HEAD + ALL + CITIES)
    run, engines = DuckDB.run, []

    def watched(self: DuckDB, *args: Any, **named: Any) -> Any:
        engines.append(type(self))
        return run(self, *args, **named)

    monkeypatch.setattr(DuckDB, "run", watched)
    (home / "visits.csv").write_bytes(b"")
    releases = rehearse(found)
    assert engines == [FakeDuckDB] * 4, "the answer, and the people beyond its limits, of two tables"
    assert list(releases["by_city"].columns) == ["city", "total", "total_low", "total_high"]
    assert not charges(home)


def test_made_up_rows_come_from_what_was_declared(publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD + ALL + CITIES)
    (table,) = found.session.tables
    made = pools(table, found.plans.values(), unit="patient_id")
    assert {"Bern", "Basel"} <= set(made["city"])
    assert {"0", "0.5", "0.25"} <= set(made["cost"])
    assert "7" not in made["cost"], "a value of the table"


def test_made_up_rows_are_not_empty(publication: Callable[[str], Publication]) -> None:
    """What comes out is noise of scale 16 at most around hundreds of rows; e^(−40/16·…) does not matter at this ε."""
    text = HEAD.replace("epsilon = 1", "epsilon = 1000") + ALL.replace("rows = 2", "rows = 5")
    assert rehearse(publication(text))["all"].columns["n"][0] > 50


def test_what_fails_in_the_rehearsal_costs_nothing(
    home: Path, publication: Callable[[str], Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = publication(HEAD + ALL)

    def broken(*_: Any, **__: Any) -> None:
        raise DataError("the engine could not")

    monkeypatch.setattr(FakeDuckDB, "run", broken)
    with pytest.raises(DataError, match="could not"):
        found.write(home / "release")
    assert not charges(home)
    assert not (home / "release.partial").exists()


def test_stages_and_their_findings_are_in_the_note(home: Path, publication: Callable[[str], Publication]) -> None:
    found = publication(
        HEAD
        + CITIES.replace("bounds.cost = [0, 0.5]", 'bounds = "private"\ndiagnose = 0.05').replace(
            "{groups = 2, rows = 2}", '"private"'
        )
    )
    made = found.write(home / "release")
    note = (made / "METHOD.md").read_text(encoding="utf-8")
    for part in ("found: bounds of cost", "found: limits: ", "- left out: ", "Theorem B.1"):
        assert part in note
    assert "bounds" in json.loads((made / "release.json").read_text(encoding="utf-8"))["found"]["by_city"]["found"]
    (charge,) = charges(home)
    assert charge.event == found.event


def test_looking_at_a_publication(home: Path, publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD + ALL + CITIES)
    assert "by_city" in str(found)
    assert found.explain().count("answer, if there are some\nWITH base") == 2
    assert found.to_dict()["tables"]["all"]["cost"]["epsilon"] == 0.75
    assert found.describe().guarantee == found.cost
    assert "by_city: total" in found._repr_html_()
    assert not charges(home)


def test_keys_from_the_data_and_a_public_table(home: Path, publication: Callable[[str], Publication]) -> None:
    (home / "places.csv").write_text("city,canton\nBern,BE\nBasel,BS\n", encoding="utf-8")
    found = publication(
        HEAD.replace("[data]", '[public]\nplaces = "places.csv"\n[data]')
        + """
[tables.cantons]
sql = "SELECT canton, COUNT(*) AS n FROM visits JOIN places USING (city) GROUP BY canton"
per_unit = {groups = 1, rows = 1}
[tables.cities]
sql = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
per_unit = {groups = 1, rows = 1}
delta = 1e-8
"""
    )
    assert found.cost == ApproxDP(1, 1e-8, unit="patient_id")
    made = found.write(home / "release")
    assert (made / "cantons.csv").read_text(encoding="utf-8").count("\n") == 3
    assert (made / "cities.csv").read_text(encoding="utf-8") == "city,n,n_low,n_high\n", (
        "two people are below any threshold"
    )
    assert "δ = 1e-8" in (made / "METHOD.md").read_text(encoding="utf-8")


WRONG = {
    "no delta": (HEAD + CITIES.replace('keys.city = "cities.txt"', ""), "tables.by_city.delta must be given"),
    "no such public table": (HEAD.replace("[data]", '[public]\nx = "none.csv"\n[data]') + ALL, "none.csv"),
    "not TOML": ("title = ", "not TOML"),
    "no ledger": ('[data]\nvisits = "visits.csv"' + ALL, "lacks ledger"),
    "no data": ('ledger = "hospital.ledger"\nepsilon = 1' + ALL, "lacks data"),
    "no tables": (HEAD, "lacks tables"),
    "empty tables": (HEAD + "[tables]", "a section with entries"),
    "no sql": (HEAD + "[tables.a]\nweight = 1", "tables.a lacks sql"),
    "a misspelt word": (HEAD + ALL.replace("per_unit", "per_units"), "per_units"),
    "a misspelt word above": ("epsilno = 1" + HEAD + ALL, "epsilno"),
    "no epsilon": (HEAD.replace("epsilon = 1", "") + ALL, "epsilon must be given"),
    "epsilon for nobody": (HEAD + EXACT, "left out: every table states its error"),
    "epsilon 0": (HEAD.replace("= 1", "= 0") + ALL, "epsilon must be a positive number"),
    "epsilon nan": (HEAD.replace("= 1", "= nan") + ALL, "epsilon must be a positive number"),
    "delta 1": (HEAD.replace("= 1", "= 1\ndelta = 1") + ALL, "delta must be a probability below 1"),
    "too little": (HEAD.replace("epsilon = 1", "epsilon = 0.01") + ALL + EXACT, "which the tables with an error cost"),
    "both": (HEAD + EXACT + "weight = 2", "left out where an error is given"),
    "weight 0": (HEAD + ALL.replace("= 3", "= 0"), "tables.all.weight"),
    "half of the limits": (HEAD + ALL.replace("{groups = 1, rows = 2}", "{groups = 1}"), "per_unit"),
    "bad limits": (HEAD + ALL.replace("rows = 2", "rows = 0"), "rows must be"),
    "a name that is no file": (HEAD + ALL.replace("tables.all", 'tables."../all"'), "letters, digits"),
    "a name that is taken": (HEAD + ALL.replace("tables.all", "tables.method"), "another name"),
    "names that differ by case": (HEAD + ALL + ALL.replace("tables.all", "tables.ALL"), "more than case"),
    "no such key file": (HEAD + CITIES.replace("cities.txt", "none.txt"), "none.txt"),
    "no such data": (HEAD.replace("visits.csv", "none.csv") + ALL, "none.csv"),
    "no such ledger": (HEAD.replace("hospital.ledger", "none.ledger") + ALL, "none.ledger"),
    "bad SQL": (HEAD + ALL.replace("COUNT(*)", "MAD(cost)"), "MAD"),
    "no bounds": (HEAD.replace("epsilon = 1", "") + EXACT.replace("COUNT(*)", "SUM(cost)"), "needs bounds"),
    "sql that is no text": (HEAD + "[tables.a]\nsql = 3", "tables.a.sql must be a text"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_by_name(home: Path, publication: Callable[[str], Publication], case: str) -> None:
    text, expected = WRONG[case]
    with pytest.raises(DeniableError) as caught:
        publication(text)
    assert expected in str(caught.value)
    assert not charges(home)


def test_a_file_that_is_not_there(home: Path) -> None:
    with pytest.raises(DataError, match="could not be read"):
        Publication.read(home / "none.toml")
