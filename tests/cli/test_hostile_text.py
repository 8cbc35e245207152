"""The terminal shows other people's words as words, and no command ever prints a password.

Over every command, found by their registration: every argument and option that takes a text gets every hostile one,
and so do the purposes and names of a ledger, the columns and keys of a table, the titles of a publication, the strings
of an event and of an audit. Nothing that is printed acts on a terminal, JSON is JSON by the standard, and a mistake is
one line.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deniable import _escapes
from deniable.auditing.replay import Finding
from deniable.events import Laplace
from deniable.ledger import Ledger
from tests.cli.test_misuse import WORKING, command, line
from tests.explaining.looking import REPORT
from tests.laws.hostile_texts import TEXTS, assert_plain, strictly

CLI = Path(_escapes.__file__).parent / "cli"
KINDS = ["closing markup", "clear the screen", "writing turned round", "a forged line", "a byte of a name"]
ALL = "".join(TEXTS.values())
TYPED = {
    **{label: TEXTS[label] for label in KINDS},
    "all at once": "".join(text for label, text in TEXTS.items() if label not in ("NUL", "half a pair")),
}
"""What a shell can hand over."""

WRITTEN = {**TYPED, "all at once": ALL}
"""What a file can hold."""

LINES = {
    **WORKING,
    "demo": {"--folder": "demo"},
    "serve init": {"--folder": "service", "--table": "visits.csv", "--unit": "patient_id"},
    "serve check": {"--folder": "none"},
    "serve run": {"--folder": "none"},
}
"""Lines to start from. No line runs a service: there is none in that folder."""


def assert_said(ran: Any, given: object) -> None:
    """Whatever happened, it was said in words."""
    assert ran.code in (0, 1, 2, 3, 4), (given, ran)
    assert "Traceback" not in ran.out + ran.err, (given, ran)
    assert_plain(ran.out)
    assert_plain(ran.err)
    if ran.code in (1, 3):
        assert ran.err.startswith("deniable: "), (given, ran.err)
        assert len(ran.err.strip().splitlines()) == 1, (given, ran.err)


@pytest.fixture(name="folder")
def _folder(hospital: Callable) -> Callable:
    """Every file that the working lines name."""
    Path("event.json").write_text(Laplace(scale=2).to_json(), encoding="utf-8")
    Path("scores.csv").write_text("world,score\n" + "".join(f"{i % 2},{i}\n" for i in range(60)), encoding="utf-8")
    Path("tables.toml").write_text(tables("t"), encoding="utf-8")
    return hospital


def tables(title: str) -> str:
    quoted = '"' + "".join(f"\\U{ord(each):08x}" for each in title) + '"'
    return (
        f'title = {quoted}\nledger = "hospital.ledger"\nepsilon = 0.1\n[data]\nvisits = "visits.csv"\n'
        f'[tables.a]\ntitle = {quoted}\nsql = "SELECT COUNT(*) AS n FROM visits"\nper_unit = {{groups = 1, rows = 2}}\n'
    )


def test_every_command_is_tried() -> None:
    from tests.house.test_commands import COMMANDS

    assert {name.removeprefix("deniable ") for name in COMMANDS} == set(LINES)


@pytest.mark.parametrize("name", [name for name in LINES if name != "demo"])
def test_whatever_is_typed_is_shown_as_words(folder: Callable, name: str) -> None:
    for parameter in command(name).params:
        word = parameter.opts[0]
        if word == "--help" or getattr(parameter, "is_flag", False):
            continue
        for label, text in TYPED.items():
            given = text if len(label) % 2 else f"x={text}"
            assert_said(folder(*line(name, LINES[name] | {word: given})), (word, label))


@pytest.mark.parametrize("name", LINES)
def test_what_is_typed_too_much_is_shown_as_words(folder: Callable, name: str) -> None:
    for label, text in TYPED.items():
        assert_said(folder(*line(name, LINES[name]), text, text), label)
        assert_said(folder(*name.split(), f"--{text}"), label)


@pytest.mark.parametrize("text", [TEXTS[kind] for kind in KINDS], ids=KINDS)
def test_names_of_files(folder: Callable, text: str) -> None:
    for name in ("hospital.ledger", "event.json", "scores.csv", "visits.csv"):
        file = Path(name)
        other = text.replace("/", "_") + file.suffix
        os.rename(name, other)
        lines = [["explain", other], ["report", other, "--out", f"{other}.html"], ["account", "--from", other]]
        lines += [["ledger", verb, other] for verb in ("show", "verify", "export", "create")]
        lines += [["audit", other, "--epsilon", "1"], ["query", other, "SELECT COUNT(*) AS n FROM visits"]]
        for words in lines:
            assert_said(folder(*words), words)
        os.rename(other, name)
    where = text.replace("/", "_")
    assert_said(folder("publish", "tables.toml", "--out", where), where)
    assert_said(folder("demo", "--folder", f"visits.csv/{where}"), where)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_purposes_and_analysts(folder: Callable, form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers refuse some of these words; a file that somebody else wrote may hold them all the same."""
    with Ledger.open("hospital.ledger") as ledger:
        charge = ledger.charge(Laplace(scale=20), purpose="p")
    charges = [charge._replace(purpose=text, who=text) for text in TEXTS.values()]
    monkeypatch.setattr(Ledger, "charges", lambda _, **__: iter(charges))
    for words in (
        ["ledger", "show", "--last", "99"],
        ["explain"],
        ["report", "--force"],
        ["ledger", "dashboard", "--force"],
    ):
        ran = folder(*words, "hospital.ledger", *form)
        assert ran.code == 0
        assert_said(ran, words)
        if form:
            found = strictly(ran.out)
            assert "show" not in words or [each["purpose"] for each in found["charges"]] == list(TEXTS.values())
        elif "show" in words:
            for text in ("[red]x[/red]", "[/]", "<script>alert(1)</script>"):
                assert text in ran.out, "Rich's markup is not read"
    assert_plain(Path("report.html").read_text(encoding="utf-8"))
    assert_plain(Path("dashboard.html").read_text(encoding="utf-8"))


def test_keys(folder: Callable) -> None:
    keys = list(dict.fromkeys(line for text in TEXTS.values() for line in text.splitlines() if encodable(line)))
    Path("visits.csv").write_text("patient_id,city\np1,Bern\n", encoding="utf-8")
    Path("keys.txt").write_text("\n".join(keys), encoding="utf-8")
    sql = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
    words = ["visits.csv", sql, "--ledger", "hospital.ledger", "--epsilon", "0.1", "--groups-per-unit", "1"]
    words += ["--rows-per-unit", "1", "--keys", "city=@keys.txt"]
    for form in ([], ["--json"]):
        ran = folder("query", *words, *form)
        assert ran.code == 0, ran
        assert_said(ran, form)
        if form:
            assert [row["city"] for row in strictly(ran.out)["rows"]] == keys


def encodable(text: str) -> bool:
    return text.encode("utf-8", "replace") == text.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_columns_and_titles(folder: Callable, text: str) -> None:
    name = text.replace("\0", "").replace("\n", " ").replace("\r", " ").encode("utf-8", "replace").decode()
    quoted = '"' + name.replace('"', '""') + '"'
    Path("visits.csv").write_bytes(f"patient_id,{quoted}\np1,x\np2,x\n".encode())
    Path("keys.txt").write_text("x\n", encoding="utf-8")
    sql = f"SELECT {quoted}, COUNT(*) AS n FROM visits GROUP BY {quoted}"
    words = ["visits.csv", sql, "--ledger", "hospital.ledger", "--epsilon", "0.1", "--groups-per-unit", "1"]
    words += ["--rows-per-unit", "1"]
    for more in (["--keys", f"{name}=@keys.txt"], ["--keys", f"{name}=@keys.txt", "--dry-run", "--json"], []):
        ran = folder("query", *words, *more)
        assert_said(ran, more)
        if "--json" in more and ran.code == 0:
            strictly(ran.out)
    Path("tables.toml").write_text(tables(text.encode("utf-8", "replace").decode()), encoding="utf-8")
    for more in (["--dry-run"], ["--json"]):
        ran = folder("publish", "tables.toml", "--out", "release", *more)
        assert_said(ran, more)
        if "--json" in more and ran.code == 0:
            strictly(ran.out)


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_events_and_audits(folder: Callable, text: str) -> None:
    finding = (Finding(text, text),)
    report = replace(REPORT, claim=text, attack=text, pair=text, findings=finding, crashes=((text, 1, 2),), by=text)
    Path("audit.json").write_text(report.to_json(), encoding="utf-8")
    event = json.loads(Laplace(scale=2).to_json())
    Path("event.json").write_text(json.dumps({**event, text: text}), encoding="utf-8")
    Path("kind.json").write_text(json.dumps(dict.fromkeys(event, text)), encoding="utf-8")
    for form in ([], ["--json"]):
        for words in (
            ["explain", "audit.json"], ["report", "audit.json", "--audit", "audit.json", "--force"],
            ["explain", "event.json"], ["explain", "kind.json"], ["account", "--from", "event.json", "--delta", "1e-5"],
            ["account", "--from", "kind.json", "--delta", "1e-5"], ["report", "kind.json"],
            ["audit", "scores.csv", "--from", "kind.json"],
        ):  # fmt: skip
            ran = folder(*words, *form)
            assert_said(ran, words)
            if form and ran.code == 0:
                strictly(ran.out)
    assert_plain(Path("report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in LINES if name not in ("serve check", "serve run")])
def test_json_is_json(folder: Callable, name: str) -> None:
    ran = folder(*line(name, LINES[name]), "--json")
    assert ran.code in (0, 4)
    strictly(ran.out)


@pytest.mark.parametrize(
    "words",
    [
        ["account", "--noise-multiplier", "1", "--rate", "0.5", "--steps", "2", "--delta", "0"],
        ["account", "--noise-multiplier", "1e-9", "--rate", "1", "--steps", "2", "--delta", "1e-5"],
        ["account", "--compare", "--noise-multiplier", "1", "--delta", "0"],
        ["explain", "--mu", "1"],
        ["explain", "--epsilon", "800"],
        ["size", "mean", "--bounds", "0:1", "--epsilon", "1e-300", "--error", "0.1"],
        ["audit", "scores.csv", "--epsilon", "0.1"],
    ],
)
def test_json_of_what_is_infinite(folder: Callable, words: list[str]) -> None:
    ran = folder(*words, "--json")
    assert_said(ran, words)
    if ran.code in (0, 4):
        strictly(ran.out)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_terminals_of_other_encodings(folder: Callable, encoding: str) -> None:
    run = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict", "PYTHONUTF8": "0"}
    for words in (["explain", "--epsilon", "1", "--unit", "zürich😀"], ["ledger", "show", "none\udcff"]):
        for form in ([], ["--json"]):
            done = subprocess.run(
                [sys.executable, "-m", "deniable", *words, *form], capture_output=True, check=False, env=run
            )
            assert done.returncode == (0 if words[0] == "explain" else 1), done.stderr
            assert b"Traceback" not in done.stderr
            if form and done.returncode == 0:
                assert "zürich😀" in str(strictly(done.stdout.decode(encoding)))


def test_warnings_are_sentences(folder: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    from deniable.cli import explain

    def warn(*_: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning("\x1b[2J postgresql://u:s3cret@h", UserWarning, "f", 1)
        return explain.GIVEN(1.0, 0.0, None, "row")  # type: ignore[attr-defined]

    monkeypatch.setattr(explain, "GIVEN", explain._promise, raising=False)
    monkeypatch.setattr(explain, "_promise", warn)
    ran = folder("explain", "--epsilon", "1")
    assert ran.code == 0
    assert ran.err == "deniable: \\x1b[2J postgresql://u:...@h\n"


# passwords

SECRET = "s3cret"
MISTYPED = [
    "postgresql://u:s3cret@localhost:1/none", "postgresql://u:s3cret@localhost:1/none#Bad Name",
    "postgres:/u:s3cret@h/db", "postgresql//u:s3cret@h/db", "postgresql:u:s3cret@h/db", "postgresql;//u:s3cret@h/db",
    "POSTGRESQL://u:s3cret@h/db", "postgre://u:s3cret@h/db", "mysql://u:s3cret@h/db", "u:s3cret@h/db",
    "postgresql://u:a/s3cret@localhost:1/db", "postgresql://u:a@s3cret@localhost:1/db", "postgresql://u:a:s3cret@h/db",
    "postgresql://u:a?s3cret@localhost:1/db", "postgresql://u:a#s3cret@localhost:1/db",
    "postgresql://u:a s3cret@localhost:1/db", "postgresql://u:%zzs3cret@localhost:1/db",
    "postgresql://u:s3cret%40localhost:1/db", "postgresql://u:s3cret#localhost:1/db",
    "postgresql://u:s3cret/localhost:1/db", "postgresql://localhost:1/db?password=s3cret",
    "postgresql://localhost:1/db?password=s3cret&nonsense=1", "host=localhost port=1 password=s3cret",
    "postgresql://u:s3cret@localhost:99999999/db", "postgresql://u:s3cret@[::1/db",
]  # fmt: skip


@pytest.mark.parametrize("address", MISTYPED)
def test_no_password_is_printed(folder: Callable, address: str) -> None:
    """Whatever is wrong with an address of a ledger or a table."""
    query = WORKING["query"]
    lines = [["explain", address], ["report", address], ["account", "--from", address, "--delta", "1e-5"]]
    lines += [["ledger", verb, address] for verb in ("show", "verify", "export")]
    lines += [["ledger", "create", address, "--epsilon", "1", "--unit", "row"], ["audit", address, "--epsilon", "1"]]
    lines += [line("query", query | {"file": text}) for text in (address, f"visits={address}")]
    lines += [line("query", query | {"--ledger": address}), line("query", query | {"--public": f"x={address}"})]
    lines += [["publish", address, "--out", "release"], ["ledger", "show", "hospital.ledger", address]]
    for name in ("hospital.ledger", "visits.csv"):
        Path(f"{name}.toml").write_text(tables("t").replace(name, address), encoding="utf-8")
        lines.append(["publish", f"{name}.toml", "--out", "release"])
    for words in lines:
        ran = folder(*words)
        assert ran.code in (1, 2), words
        assert SECRET not in ran.out + ran.err, (words, ran)
        assert_said(ran, words)


@pytest.mark.parametrize("name", WORKING)
def test_no_password_is_printed_wherever_it_is_typed(folder: Callable, name: str) -> None:
    for parameter in command(name).params:
        word = parameter.opts[0]
        if word == "--help" or getattr(parameter, "is_flag", False):
            continue
        for address in ("postgresql://u:a/s3cret@localhost:1/db", "host=localhost password=s3cret"):
            ran = folder(*line(name, WORKING[name] | {word: address}))
            assert SECRET not in ran.err, (word, ran)
            # What names a unit, an analyst, a curator or a new file is public, and is printed when all goes well.
            public = ("--unit", "--who", "who", "--title", "--curator", "--use", "--out", "sql")
            assert SECRET not in ran.out or word in public, (word, ran)


# the house


def test_one_module_of_the_command_line_prints() -> None:
    """Whoever printed by themselves would print other people's words as they are."""
    for path in CLI.glob("*.py"):
        called = {
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        }
        if path.name == "printing.py":
            continue
        printing = {"print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write", "rich.print"}
        assert not called & printing, path.name
        assert "Console" not in called or path.name == "progress.py", path.name
