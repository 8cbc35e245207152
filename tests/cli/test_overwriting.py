"""No command replaces a file unless told, and none its own input, whatever it is told.

The law runs over every option that names a place to write, found by its type: an option of a new command fails here
until it is listed as one that reads or one that writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.events import Laplace
from deniable.guarantees import ApproxDP
from deniable.ledger import Ledger
from tests.cli.parameters import kind
from tests.explaining.looking import REPORT
from tests.house.test_commands import COMMANDS

READS = {
    ("deniable account", "--from"), ("deniable audit", "--from"), ("deniable report", "--audit"),
    ("deniable publish", "file"), ("deniable serve run", "--folder"), ("deniable serve check", "--folder"),
}  # fmt: skip
"""Paths that a command reads."""

FOLDERS = {("deniable publish", "--out"), ("deniable demo", "--folder"), ("deniable serve init", "--folder")}
"""Places where a command makes a folder or fills one; they have their own tests."""

SYNTHESIZE = [
    "synthesize", "visits.csv", "--ledger", "wide.ledger", "--epsilon", "0.1",
    "--keys", "city=Bern,Basel", "--rows-per-unit", "1", "--sql", "SELECT city FROM visits",
]  # fmt: skip
AUDIT = ["audit", "scores.csv", "--epsilon", "1", "--delta", "0.1"]
WRITES: dict[tuple[str, str], list[tuple[list[str], list[str]]]] = {
    ("deniable explain", "--picture"): [
        (["explain", "hospital.ledger"], ["hospital.ledger"]),
        (["explain", "audit.json"], ["audit.json"]),
        (["explain", "event.json"], ["event.json"]),
        (["explain", "--epsilon", "1"], []),
    ],
    ("deniable report", "--out"): [
        (["report", "hospital.ledger", "--audit", "audit.json"], ["hospital.ledger", "audit.json"]),
        (["report", "audit.json"], ["audit.json"]),
        (["report", "event.json"], ["event.json"]),
    ],
    ("deniable ledger dashboard", "--out"): [(["ledger", "dashboard", "hospital.ledger"], ["hospital.ledger"])],
    ("deniable ledger export", "--out"): [(["ledger", "export", "hospital.ledger"], ["hospital.ledger"])],
    ("deniable audit", "--plot"): [(AUDIT, ["scores.csv"]), ([*AUDIT[:2], "--from", "event.json"], ["event.json"])],
    ("deniable convert", "out"): [(["convert", "visits.csv"], ["visits.csv"])],
    ("deniable synthesize", "out"): [(SYNTHESIZE, ["visits.csv", "wide.ledger"])],
    ("deniable synthesize", "--page"): [([*SYNTHESIZE, "new.csv"], ["visits.csv", "wide.ledger"])],
    ("deniable account", "--plot"): [(["account", "--compare", "--epsilon", "0.1", "--delta", "1e-6"], [])],
}
"""Options and arguments that name a file to write: lines that work without them, and what those lines read."""

LINES = [(option, words, read) for (_, option), lines in WRITES.items() for words, read in lines]
IDS = [" ".join([*words[:2], option]) for option, words, _ in LINES]
ENDING = {"--plot": ".svg", "--picture": ".svg", "--out": ".html", "out": ".parquet", "--page": ".html"}
THEIRS = b"what was there"


def typed(option: str, value: str) -> list[str]:
    """A place to write as it is typed: behind its option, or as the last argument."""
    return [option, value] if option.startswith("--") else [value]


def test_every_place_of_every_command_is_listed() -> None:
    paths = {
        (name, parameter.opts[0])
        for name, command in COMMANDS.items()
        for parameter in command.params
        if "path" in kind(parameter)
    }
    assert paths, "the search finds options by their type"
    assert paths <= READS | FOLDERS | set(WRITES), "is it read, or written?"
    for name, option in WRITES:
        options = {each for parameter in COMMANDS[name].params for each in parameter.opts}
        assert {option, "--force"} <= options, name


@pytest.fixture(name="folder")
def _folder(hospital: Callable) -> Callable:
    """A folder with something of every kind that commands read."""
    Path("event.json").write_text(Laplace(scale=2).to_json(), encoding="utf-8")
    Ledger.create("wide.ledger", unit="patient_id", budget=ApproxDP(9, 1e-3)).close()
    Path("audit.json").write_text(REPORT.to_json(), encoding="utf-8")
    Path("scores.csv").write_text("world,score\n" + "".join(f"{i % 2},{i}\n" for i in range(60)), encoding="utf-8")
    return hospital


def state() -> dict[str, bytes]:
    """Every file and its content; the logs of a ledger come and go."""
    paths = [path for path in Path().rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize(("option", "words", "read"), LINES, ids=IDS)
def test_nothing_is_replaced_unless_told(folder: Callable, option: str, words: list[str], read: list[str]) -> None:
    out = f"theirs{ENDING[option]}"
    Path(out).write_bytes(THEIRS)
    before = state()
    ran = folder(*words, *typed(option, out))
    assert ran.code == 1
    assert f"{out} exists already" in ran.err
    assert "--force" in ran.err
    assert ran.out == ""
    assert state() == before
    assert folder(*words, *typed(option, out), "--force").code in (0, 4)
    assert Path(out).read_bytes() != THEIRS
    after = state()
    assert {name: after[name] for name in before if name != out} == {n: b for n, b in before.items() if n != out}


def names_of(path: str) -> list[str]:
    """Other names of one file: by another spelling, by a link, by a hard link; and the logs beside it."""
    spelt, linked = f"./x/../{path}", f"link{Path(path).suffix}"
    Path("x").mkdir(exist_ok=True)
    Path(linked).symlink_to(path)
    return [path, spelt, str(Path(path).absolute()), linked, f"{path}-wal", f"{path}-journal"]


@pytest.mark.parametrize(("option", "words", "read"), LINES, ids=IDS)
def test_no_input_is_ever_replaced(folder: Callable, option: str, words: list[str], read: list[str]) -> None:
    for path in read:
        for name in names_of(path):
            before = state()
            for force in ([], ["--force"]):
                ran = folder(*words, *typed(option, name), *force)
                assert ran.code == 1, (name, force, ran)
                assert len(ran.err.splitlines()) == 1
                assert state() == before, (name, force)
        Path(f"link{Path(path).suffix}").unlink()
        hard = f"hard{Path(path).suffix}"
        os.link(path, hard)
        before = state()
        assert folder(*words, *typed(option, hard), "--force").code == 1
        assert state() == before
        Path(hard).unlink()


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_ledger_is_never_replaced(folder: Callable, force: list[str]) -> None:
    """Not even one that has nothing to do with the command."""
    before = state()
    for option, words, _ in LINES:
        for name in ("hospital.ledger", "hospital.ledger-wal", "hospital.ledger-shm"):
            assert folder(*words, *typed(option, name), *force).code == 1
    assert state() == before
    assert folder("ledger", "verify", "hospital.ledger").code == 0


def test_side_files_have_names_of_their_own(folder: Callable) -> None:
    """A page about audit.json that is called audit.html leaves audit.json alone."""
    for out in ("audit.html", "event", "event.json.html", "x.registry.json"):
        before = state()
        assert folder("report", "audit.json", "--out", out).code == 0
        assert len(state()) == len(before) + 2
        assert {name: state()[name] for name in before} == before


def test_a_side_file_that_is_there_keeps_the_page_from_being_written(folder: Callable) -> None:
    Path("page.registry.json").write_bytes(THEIRS)
    before = state()
    ran = folder("report", "event.json", "--out", "page.html")
    assert ran.code == 1
    assert "page.registry.json exists already" in ran.err
    assert state() == before


def test_a_side_file_that_is_read_is_not_replaced(folder: Callable) -> None:
    Path("page.registry.json").write_bytes(Path("audit.json").read_bytes())
    before = state()
    for words in (["event.json", "--audit", "page.registry.json"], ["page.registry.json"]):
        assert folder("report", *words, "--out", "page.html", "--force").code == 1
    assert state() == before


@pytest.mark.parametrize("there", ["visits.csv", "patients.csv", "hospital.ledger", "audit.json", "report.html"])
@pytest.mark.parametrize("link", [False, True])
def test_the_demo_refuses_a_folder_that_holds_its_names(run: Callable, there: str, link: bool) -> None:
    Path("mine").mkdir()
    place = Path("mine", there)
    if link:
        place.symlink_to("nowhere")
    else:
        place.write_bytes(THEIRS)
    ran = run("demo", "--folder", "mine")
    assert ran.code == 1
    assert f"already holds {there}" in ran.err
    assert [path.name for path in Path("mine").iterdir()] == [there]
    assert link or place.read_bytes() == THEIRS


def test_the_demo_writes_no_other_names(run: Callable) -> None:
    from deniable.cli.demo import FILES

    assert run("demo", "--folder", "here").code == 0
    assert {path.name for path in Path("here").iterdir()} <= set(FILES)


@pytest.mark.parametrize(("option", "words", "read"), LINES, ids=IDS)
@pytest.mark.parametrize("place", ["nowhere/a", "folder", "x" * 300, "file/a", ""])
def test_a_place_that_cannot_be_written_is_one_sentence_before_anything_is_done(
    folder: Callable, option: str, words: list[str], read: list[str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deniable import auditing, explaining
    from deniable.explaining.report import Report

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing is computed for a place that cannot be written")

    monkeypatch.setattr(auditing, "audit_scores", refuse)
    monkeypatch.setattr(explaining, "explain", refuse)
    monkeypatch.setattr(Report, "to_html", refuse)
    Path("folder" + ENDING[option]).mkdir()
    Path("file").touch()
    before = state()
    ran = folder(*words, *typed(option, place and place + ENDING[option]))
    assert ran.code == 1
    assert ran.err.startswith("deniable: ")
    assert len(ran.err.splitlines()) == 1
    assert state() == before
