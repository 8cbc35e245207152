"""`deniable demo`: a hospital asks, learns, is attacked, and explains itself; the ledger keeps count."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from deniable.cli.printing import Json, print_json, say

BOUNDED = ["--groups-per-unit", "2", "--rows-per-unit", "4", "--ledger", "hospital.ledger"]
CITIES = ["--keys", "city=Basel,Bern,Geneva,Lausanne,Zurich"]
WARDS = ["--keys", "ward=cardiology,maternity,oncology,surgery"]
COSTS = ["--bounds", "cost=0:2500"]
FILES = (
    "visits.csv", "patients.csv", "hospital.ledger", "hospital.ledger-wal", "hospital.ledger-shm", "audit.json",
    "broken.json", "broken.svg", "report.html", "report.registry.json",
)  # fmt: skip
"""What the demo writes."""
WIDTH = 100


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Where to put the demo's files; a new temporary folder if left out.")
    ] = None,
    json: Json = False,
) -> None:
    """Private answers, a private model, an audit and a report, on a made-up hospital.

    Every step prints the command or the code that a person would type. With --json the story goes to standard error.

    Example: deniable demo
    """
    import tempfile

    place = folder or Path(tempfile.mkdtemp(prefix="deniable-demo-"))
    _check_folder(place)
    with contextlib.redirect_stdout(sys.stderr if json else sys.stdout), contextlib.chdir(place):
        _ask(place)
        _learn_and_audit()
        _explain()
        _narrate(f"The files are in {place}. Open {place / 'report.html'} in a browser.")
    if json:
        print_json(
            {"folder": str(place), "report": str(place / "report.html"), "ledger": str(place / "hospital.ledger")}
        )


def _check_folder(place: Path) -> None:
    """Refuse a folder that holds a file of the demo's names, before any is written."""
    from deniable._files import check_place, make_folder, shown
    from deniable.errors import FileError

    make_folder(place)
    there = [name for name in FILES if os.path.lexists(place / name)]
    if there:
        raise FileError(
            place, f"the folder {shown(place)} already holds {', '.join(there)}, which the demo writes; choose another."
        )
    check_place(place / FILES[0])


def _ask(place: Path) -> None:
    from deniable.cli.hospital import PATIENTS, write_patients, write_visits

    _chapter("Ask")
    _narrate(f"A hospital keeps its visits in {place / 'visits.csv'}.")
    rows = write_visits(Path("visits.csv"))
    write_patients(Path("patients.csv"))
    say(f"{rows} visits by {PATIENTS} made-up patients: patient_id, city, ward, age, cost.")

    _narrate("It promises each patient ε ≤ 3 over everything that will ever be published, and writes the promise down.")
    _type("ledger", "create", "hospital.ledger", "--epsilon", "3", "--delta", "1e-5", "--unit", "patient_id")

    _narrate("How many visits does each city see? Looking at the plan is free and reads no data.")
    count = ["query", "visits.csv", "SELECT city, COUNT(*) AS visits FROM visits GROUP BY city", "--epsilon", "0.5"]
    _type(*count, *CITIES, *BOUNDED, "--dry-run", lines=11)

    _narrate("An error of ± 48 will do. Now it costs: the ledger is charged first, then the table is read.")
    _type(*count, *CITIES, *BOUNDED)

    _narrate("What does a visit cost, by ward? Bounds come from the price list, never from the data.")
    by_ward = "SELECT ward, AVG(cost) AS cost FROM visits GROUP BY ward"
    _type("query", "visits.csv", by_ward, "--epsilon", "0.8", *COSTS, *WARDS, *BOUNDED)

    _narrate("A third question asks for more than is left. It is refused, and says what would fit.")
    older = ["query", "visits.csv", "SELECT SUM(cost) AS total FROM visits WHERE age >= 65", *COSTS, *BOUNDED]
    _type(*older, "--epsilon", "3")

    _narrate("So it asks for less.")
    _type(*older, "--epsilon", "0.3")


def _learn_and_audit() -> None:
    from deniable.cli import story

    names: dict[str, Any] = {}
    _chapter("Learn")
    _narrate(
        "Who comes back within a year? A private model, charged to the same ledger, beside its twin without privacy."
    )
    if not _run(story.MODEL, names):
        return
    _chapter("Attack")
    _narrate("Why should anybody believe that? An auditor trains it hundreds of times, with and without one patient.")
    _run(story.AUDIT, names)
    _narrate("A colleague's version adds too little noise. A few runs on the same randomness prove it.")
    _run(story.BROKEN, names)
    _type("explain", "broken.json", "--picture", "broken.svg", lines=5)


def _explain() -> None:
    _chapter("Explain")
    _narrate("What does the promise mean for a patient?")
    _type("explain", "hospital.ledger", "--prior", "0.1")
    _narrate("Everything that was charged is in the record, the record verifies, and there is a page to show.")
    _type("ledger", "show", "hospital.ledger")
    _type("ledger", "verify", "hospital.ledger")
    audits = ["--audit", "audit.json"] if Path("audit.json").exists() else []
    _type("report", "hospital.ledger", *audits, "--curator", "the hospital", "--use", "planning")


def _chapter(name: str) -> None:
    say(f"\n━━ {name} " + "━" * (WIDTH - 4 - len(name)), fg=typer.colors.GREEN)


def _narrate(line: str) -> None:
    say(f"\n{line}", bold=True)


def _type(*words: str, lines: int | None = None) -> None:
    """Print a command as a person would type it, run it in this process, print its refusal if it is refused."""
    import io

    from deniable.cli.app import app
    from deniable.errors import DeniableError

    say(_wrapped(words) + (f" | head -n {lines}" if lines else ""), fg=typer.colors.CYAN)
    shown = io.StringIO() if lines else sys.stdout
    try:
        with contextlib.redirect_stdout(shown):
            app(list(words), standalone_mode=False)
    except DeniableError as refusal:
        say(f"deniable: {refusal}")
    if isinstance(shown, io.StringIO):
        say("\n".join(shown.getvalue().splitlines()[:lines]))


def _wrapped(words: tuple[str, ...]) -> str:
    """The command in lines that fit a terminal; an option stays with its value."""
    found, line = [], "$ deniable"
    pieces = [shlex.quote(word) for word in words]
    while pieces:
        value = len(pieces) > 1 and pieces[0].startswith("--") and not pieces[1].startswith("--")
        piece = " ".join(pieces[: 1 + value])
        pieces = pieces[1 + value :]
        if len(line) + len(piece) + 3 > WIDTH:
            found.append(line + " \\")
            line = "   "
        line += " " + piece
    return "\n".join([*found, line])


def _run(code: str, names: dict[str, Any]) -> bool:
    """Print a piece of Python and run it; where an extra is missing, say how to install it."""
    from deniable.errors import MissingExtra

    say(code.rstrip(), fg=typer.colors.CYAN)
    try:
        exec(compile(code, "<demo>", "exec"), names)
    except MissingExtra as missing:
        say(f"deniable: {missing}")
        return False
    except ModuleNotFoundError as missing:
        say(f"deniable: {missing}; run: pip install 'deniable[learn]'")
        return False
    return True
