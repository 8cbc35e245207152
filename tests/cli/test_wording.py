"""A mistake at the command line is answered with options, not with Python."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from deniable._remedies import Option, Remedy, example
from deniable.cli.wording import as_flag, as_toml
from deniable.errors import InvalidArgument, QueryError

ASK = ["query", "visits.csv", "--ledger", "hospital.ledger", "--epsilon", "0.1"]
MEAN, BY_CITY = "SELECT AVG(cost) AS c FROM visits", "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
LIMITS = ["--groups-per-unit", "1", "--rows-per-unit", "2"]

MISTAKES = {
    "no keys": ([*ASK, BY_CITY, *LIMITS], "--keys city=A,B,..."),
    "no ledger": (["ledger", "show", "none.ledger"], "deniable ledger create none.ledger --epsilon 3 --unit COLUMN"),
    "another unit": (
        ["query", "visits.csv", MEAN, "--ledger", "other.ledger", "--epsilon", "1"],
        "--public visits=FILE",
    ),
    "no head": (["ledger", "verify", "hospital.ledger", "--head", "abc"], "as deniable ledger verify gives it"),
    "semicolons": (
        ["query", "semicolons.csv", *ASK[2:], MEAN],
        "with points in numbers, or give a Parquet file",
    ),
    "another encoding": (["query", "windows.csv", *ASK[2:], MEAN], "say so: --encoding cp1252"),
    "no noise": (["account", "--delta", "1e-5"], "it is missing"),
    "no steps": (["account", "--delta", "1e-5", "--noise-multiplier", "1", "--rate", "0.1"], "--steps 1000"),
    "no rate": (
        ["account", "--delta", "1e-5", "--noise-multiplier", "1", "--steps", "9"],
        "--batch 256, --size 60000",
    ),
    "a second ledger": (
        ["ledger", "create", "hospital.ledger", "--epsilon", "1", "--unit", "patient_id"],
        "deniable ledger show",
    ),
    "nothing to explain": (["explain"], "it is missing"),
}
PYTHON = re.compile(r"dn\.|=\{|='|[a-z]\(|=None|\bper_unit\b")


@pytest.mark.parametrize("case", MISTAKES)
def test_a_remedy_can_be_typed(hospital: Callable, case: str) -> None:
    words, remedy = MISTAKES[case]
    Path("semicolons.csv").write_text("patient_id;cost\n1;2,5\n")
    Path("windows.csv").write_bytes(b"patient_id,city\n1,Z\xfcrich\n")
    assert hospital("ledger", "create", "other.ledger", "--epsilon", "1", "--unit", "doctor_id").code == 0
    ran = hospital(*words)
    assert ran.code == 1
    assert remedy in ran.err
    assert not PYTHON.search(ran.err), ran.err


def test_what_was_typed_is_left_alone() -> None:
    mistake = InvalidArgument("epsilon", -1.0, "a positive number", example("epsilon", 0.5))
    assert str(mistake) == "epsilon must be a positive number; got epsilon=-1.0. For example epsilon=0.5."
    said = "epsilon must be a positive number; got epsilon=-1.0. For example --epsilon 0.5."
    assert mistake.worded(as_flag) == said


def test_an_error_keeps_its_options_across_processes() -> None:
    option = Option("bounds", "private")
    error = QueryError(Remedy(f"give {option}", option))
    for one in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert one.options == (option,)
        assert one.worded(as_toml) == 'give bounds = "private"'
