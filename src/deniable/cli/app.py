"""The commands, assembled. Every command imports its room when it runs, so that `--help` is quick."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deniable.cli import account, audit, demo, explain, ledger, query, serve, synthesize
from deniable.cli.printing import say


class Commands(TyperGroup):
    """A group whose help shows the first sentence of each command whole, where Typer would cut it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(limit=500))
                    for name, command in commands
                    if command and not command.hidden
                ]
            )


app = typer.Typer(
    name="deniable",
    cls=Commands,
    help="Differential privacy in one place: ask tables, account for every step, keep the budget.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: loading Rich for it takes longer than all the rest
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from deniable import __version__

        say(f"deniable {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differential privacy in one place: ask tables, account for every step, keep the budget."""


app.add_typer(ledger.app, name="ledger", cls=Commands)
app.command("query")(query.query)
app.command("describe")(query.describe)
app.command("convert")(query.convert)
app.command("publish")(query.publish)
app.command("synthesize")(synthesize.synthesize)
app.add_typer(serve.app, name="serve", cls=Commands)
app.command("account")(account.account)
app.command("calibrate")(account.calibrate)
app.command("size")(account.size)
app.command("audit")(audit.audit)
app.command("explain")(explain.explain)
app.command("report")(explain.report)
app.command("demo")(demo.demo)


@cache
def command() -> Any:
    """Build the parser of all commands. Typer would build it again for every call in a process."""
    return typer.main.get_command(app)
