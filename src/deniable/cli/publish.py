"""`deniable publish`: a set of tables, one charge, one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deniable.cli.printing import Json, print_json, print_plan, say
from deniable.cli.progress import interruptible, progress, waiting


def publish(
    file: Annotated[Path, typer.Argument(help="A TOML file that describes the tables.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder to make; it must not exist.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its SQL; charge nothing.")] = False,
    json: Json = False,
) -> None:
    """Make several tables under one charge: CSV files with intervals, and a note on the method.

    A run that was cut short is finished by the same command, without a second charge.

    Example: deniable publish tables.toml --out release
    """
    from deniable.query import Publication

    with waiting("opening"):
        opened = Publication.read(file)
    with opened as publication:
        if dry_run:
            print_plan(publication, publication.session.ledger, who=publication.draft.who, as_json=json)
            return
        ledger = publication.session.ledger
        again = f"Run the same command again to finish {out}; it is not charged twice."
        with interruptible(ledger, remedy=again), progress() as told:
            made = publication.write(out, progress=told)
        files = sorted(path.name for path in made.iterdir() if not path.name.startswith("."))
        if json:
            print_json({"folder": str(made), "files": files, "cost": str(publication.cost)})
        else:
            say(f"{made}: {', '.join(files)}")
            say(f"cost       {publication.cost}")
            say(f"remaining  {ledger.remaining(who=publication.draft.who).figures}")
