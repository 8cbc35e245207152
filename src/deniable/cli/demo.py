"""`deniable demo`: a hospital asks about its visits, and the ledger keeps count."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

BOUNDED = ["--groups-per-unit", "2", "--rows-per-unit", "4", "--ledger", "hospital.ledger"]
CITIES = ["--keys", "city=Basel,Bern,Geneva,Lausanne,Zurich"]
WARDS = ["--keys", "ward=cardiology,maternity,oncology,surgery"]


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Where to put the demo's files; a new temporary folder if left out.")
    ] = None,
) -> None:
    """A private question from end to end, on a made-up hospital; every step prints the command a person would type.

    Example: deniable demo
    """
    import contextlib
    import tempfile

    from deniable.cli.hospital import PATIENTS, write_visits

    place = folder or Path(tempfile.mkdtemp(prefix="deniable-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(place):
        _say(f"A hospital keeps its visits in {place / 'visits.csv'}.")
        rows = write_visits(Path("visits.csv"))
        typer.echo(f"{rows} visits by {PATIENTS} made-up patients: patient_id, city, ward, age, cost.")

        _say("It promises each patient ε ≤ 2 over everything that will ever be published, and writes the promise down.")
        _type("ledger", "create", "hospital.ledger", "--epsilon", "2", "--unit", "patient_id")

        _say("How many visits does each city see? Looking at the plan is free and reads no data.")
        count = ["query", "visits.csv", "SELECT city, COUNT(*) AS visits FROM visits GROUP BY city", "--epsilon", "0.5"]
        _type(*count, *CITIES, *BOUNDED, "--dry-run")

        _say("The plan is fine. Now it costs: the ledger is charged first, then the table is read.")
        _type(*count, *CITIES, *BOUNDED)

        _say("What does a visit cost, by ward? Bounds come from the price list, never from the data.")
        _type(
            "query", "visits.csv", "SELECT ward, AVG(cost) AS cost FROM visits GROUP BY ward", "--epsilon", "1",
            "--bounds", "cost=0:2500", *WARDS, *BOUNDED,
        )  # fmt: skip

        _say("A third question asks for more than is left. It is refused, and says what would fit.")
        refused = [
            "query",
            "visits.csv",
            "SELECT SUM(cost) AS total FROM visits WHERE age >= 65",
            "--bounds",
            "cost=0:2500",
        ]
        _type(*refused, "--epsilon", "1", *BOUNDED)

        _say("So it asks for what fits.")
        _type(*refused, "--epsilon", "0.5", *BOUNDED)

        _say("Everything that was charged is in the record, and the record verifies.")
        _type("ledger", "show", "hospital.ledger")
        _type("ledger", "verify", "hospital.ledger")
    _say(f"The files are in {place}.")


def _say(line: str) -> None:
    typer.secho(f"\n{line}", bold=True)


def _type(*words: str) -> None:
    """Print a command as a person would type it, run it in this process, print its refusal if it is refused."""
    from deniable.cli.app import app
    from deniable.errors import DeniableError

    typer.secho(f"$ deniable {shlex.join(words)}", fg=typer.colors.CYAN)
    try:
        app(list(words), standalone_mode=False)
    except DeniableError as refusal:
        typer.echo(f"deniable: {refusal}")
