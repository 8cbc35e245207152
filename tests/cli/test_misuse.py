"""Whatever a person types, no stack trace: every argument and option of every command gets what cannot be meant.

One line that works per command; one of its words at a time is replaced. About 7 seconds of processor time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.cli.app import command as parser
from tests.cli.parameters import kind

QUERY = ["visits.csv", "SELECT city, AVG(cost) AS cost FROM visits GROUP BY city"]
WORKING: dict[str, dict[str, str | None]] = {
    "ledger create": {"file": "new.ledger", "--epsilon": "1", "--unit": "patient_id"},
    "ledger allot": {"file": "hospital.ledger", "who": "ada", "--epsilon": "1"},
    "ledger show": {"file": "hospital.ledger"},
    "ledger dashboard": {"file": "hospital.ledger", "--out": "dashboard.html"},
    "ledger verify": {"file": "hospital.ledger"},
    "ledger export": {"file": "hospital.ledger"},
    "query": {
        "file": QUERY[0], "sql": QUERY[1], "--ledger": "hospital.ledger", "--epsilon": "0.01", "--bounds": "cost=0:10",
        "--keys": "city=Bern", "--groups-per-unit": "1", "--rows-per-unit": "1", "--dry-run": None,
    },
    "describe": {
        "file": QUERY[0], "table": "visits", "--ledger": "hospital.ledger", "--epsilon": "0.01", "--dry-run": None,
    },
    "convert": {"file": "visits.csv", "out": "new.parquet", "--force": None},
    "publish": {"file": "tables.toml", "--out": "release", "--dry-run": None},
    "synthesize": {
        "file": QUERY[0], "out": "made.csv", "--ledger": "hospital.ledger", "--epsilon": "0.01", "--delta": "1e-9",
        "--keys": "city=Bern", "--bins": "cost=0:10:5", "--rows-per-unit": "1", "--dry-run": None,
    },
    "account": {"--delta": "1e-5", "--noise-multiplier": "1", "--rate": "0.5", "--steps": "2"},
    "calibrate": {"--epsilon": "1", "--delta": "1e-5", "--rate": "0.5", "--steps": "2"},
    "size": {"what": "mean", "--bounds": "0:1", "--epsilon": "1", "--error": "0.1"},
    "audit": {"target": "scores.csv", "--epsilon": "1", "--runs": "40"},
    "explain": {"--epsilon": "1"},
    "report": {"file": "event.json"},
}  # fmt: skip

NUMBERS = ["-1", "0", "nan", "1e308", "abc"]
FILES = ["none", "folder", "empty", "binary", "list.json", "deep.json", "half.ledger", "x" * 300, ""]
STEP = {"query": 2, "synthesize": 6}  # it has twenty-odd words; test_query.py has its own mistakes
FREE = {"--curator", "--use", "--title", "who"}  # any text can be meant
TEXTS = ["", "=", "cost=nan:1", "city=@binary", "DROP TABLE visits", "raises:f", "wrong:f"]


@pytest.fixture(name="folder")
def _folder(hospital: Callable) -> Callable:
    """A folder with files of every broken kind."""
    from deniable.events import Laplace

    Path("folder").mkdir()
    Path("empty").touch()
    Path("binary").write_bytes(bytes(range(256)))
    Path("broken.json").write_text("{", encoding="utf-8")
    Path("list.json").write_text('[["a", 2, 3]]', encoding="utf-8")
    Path("deep.json").write_text("[" * 100_000, encoding="utf-8")
    Path("half.ledger").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    Path("event.json").write_text(Laplace(scale=2).to_json(), encoding="utf-8")
    Path("scores.csv").write_text("world,score\n" + "".join(f"{i % 2},{i}\n" for i in range(60)), encoding="utf-8")
    Path("raises.py").write_text("1 / 0\n", encoding="utf-8")
    Path("wrong.py").write_text("def (\n", encoding="utf-8")
    Path("tables.toml").write_text(
        'title = "t"\nledger = "hospital.ledger"\nepsilon = 0.1\n[data]\nvisits = "visits.csv"\n'
        '[tables.a]\nsql = "SELECT COUNT(*) AS n FROM visits"\nper_unit = {groups = 1, rows = 2}\n',
        encoding="utf-8",
    )
    return hospital


def command(name: str) -> Any:
    """The command of that name."""
    found = parser()
    for word in name.split():
        found = found.commands[word]
    return found


def line(name: str, words: dict[str, str | None]) -> list[str]:
    """The words as typed: arguments first; an option without a value is a flag."""
    arguments = [value for key, value in words.items() if value is not None and not key.startswith("--")]
    options = [[key] if value is None else [key, value] for key, value in words.items() if key.startswith("--")]
    return [*name.split(), *arguments, *(part for option in options for part in option)]


def values(parameter: Any) -> list[str]:
    """What cannot be meant, for a parameter's type."""
    if "path" in kind(parameter) or parameter.name in ("file", "ledger", "target"):
        return [*FILES, "postgresql://nobody@localhost:1/none"] if parameter.name in ("file", "ledger") else FILES
    return NUMBERS if "float" in kind(parameter) or "int" in kind(parameter) else TEXTS


def test_every_command_is_misused() -> None:
    commands = {name for name in parser().commands if name not in ("demo", "ledger", "serve")}
    assert commands <= set(WORKING)


@pytest.mark.parametrize("name", WORKING)
def test_no_stack_trace(folder: Callable, name: str) -> None:
    assert folder(*line(name, WORKING[name])).code in (0, 4), "the line to start from works"
    charged = folder("ledger", "export", "hospital.ledger").out
    for parameter in command(name).params:
        word = parameter.opts[0]
        if word in {"--help", *FREE} or getattr(parameter, "is_flag", False):
            continue
        for value in values(parameter)[:: STEP.get(name, 1)]:
            given = WORKING[name] | {word: value}
            ran = folder(*line(name, given))
            assert ran.code in (0, 1, 2, 4), (name, word, value, ran)
            assert "Traceback" not in ran.err + ran.out
            if ran.code == 1:
                assert ran.err.startswith("deniable: "), (name, word, value, ran.err)
                assert len(ran.err.strip().splitlines()) == 1, (name, word, value, ran.err)
    assert folder("ledger", "export", "hospital.ledger").out == charged
