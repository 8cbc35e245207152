"""`deniable serve`: make, check and run a service for analysts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deniable._files import show_path
from deniable.cli import options
from deniable.cli.printing import Json, print_json, say
from deniable.errors import InvalidArgument

Folder = Annotated[Path, typer.Option(help="The service's folder.")]
app = typer.Typer(help="Run a service: analysts ask over HTTP, the tables and the ledger stay here.")


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    """Run a service: analysts ask over HTTP, the tables and the ledger stay here."""
    if context.invoked_subcommand is None:
        run()


@app.command()
def run(
    folder: Folder = Path("service"),
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where to listen.")] = 8360,
    workers: Annotated[int, typer.Option(help="Processes that answer.")] = 2,
    certificate: Annotated[str | None, typer.Option(help="A TLS certificate; else a proxy has one.")] = None,
    certificate_key: Annotated[str | None, typer.Option(help="The file with its key.")] = None,
    proxies: Annotated[str | None, typer.Option(help="Addresses of proxies whose headers are believed.")] = None,
    json: Json = False,
) -> None:
    """Run a service, until it is interrupted. `deniable serve` alone is the same.

    Example: deniable serve run --folder service
    """
    from deniable.service import running

    def announce(url: str) -> None:
        if json:
            print_json({"url": url})
        else:
            say(url, err=True)

    running.serve(
        folder, host=host, port=port, workers=workers, certificate=certificate, certificate_key=certificate_key,
        proxies=proxies, on_start=announce,
    )  # fmt: skip


@app.command()
def init(
    folder: Folder = Path("service"),
    table: Annotated[list[str] | None, typer.Option(help="A private table: FILE, or NAME=FILE.")] = None,
    unit: Annotated[str | None, typer.Option(help="The column that says who a row is about, or 'row'.")] = None,
    epsilon: Annotated[float, typer.Option(help="The ε of everything that will ever be asked.")] = 3,
    delta: Annotated[float | None, typer.Option(help="Its δ.")] = 1e-6,
    ledger: Annotated[str | None, typer.Option(help="A ledger that is there, in place of a new one.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Add a made-up table, and an analyst.")] = False,
    json: Json = False,
) -> None:
    """Make a service's folder, with its ledger and the owner's token, which is shown once.

    Example: deniable serve init --folder service --table visits.csv --unit patient_id
    """
    from deniable.service import running

    tables = options.tables(table or (), option="--table")
    if not tables and not demo:
        raise InvalidArgument("--table", None, "given", "--demo makes up a table.")
    if unit is None and ledger is None and not demo:
        raise InvalidArgument("--unit", None, "given: who is protected")
    service = running.initialize(
        folder, tables={name: str(path) for name, path in tables.items()}, unit=unit, ledger=ledger, epsilon=epsilon,
        delta=delta, demo=demo,
    )  # fmt: skip
    if json:
        print_json({"folder": str(service.folder), "tokens": dict(service.tokens)})
        return
    say(f"{show_path(service.folder)}: ready; run: deniable serve run --folder {show_path(folder)}")
    for name, token in service.tokens.items():
        say(f"token of {name}, shown this once: {token}")


@app.command()
def check(
    folder: Folder = Path("service"),
    host: Annotated[str, typer.Option(help="Where it would listen.")] = "127.0.0.1",
    json: Json = False,
) -> None:
    """Say what is open or missing: modes of files, addresses without TLS, heads that are not kept.

    Example: deniable serve check --folder service
    """
    from deniable.service import running

    open_ends = running.check(folder, host=host)
    if json:
        print_json({"open": open_ends})
    else:
        say("\n".join(open_ends) or "nothing is open")
    if open_ends:
        raise typer.Exit(1)
