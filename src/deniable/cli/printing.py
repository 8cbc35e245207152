"""One look for everything the command line prints: aligned tables, colour only on a terminal, `--json` for machines.

Purposes, keys, names of columns and files are other people's words. Everything goes to the terminal through this
module, which shows what would act there, escape sequences and signs that turn the writing round, as plain escapes. No
message shows a password.

Progress on a terminal, and Ctrl-C: what is left behind is said in one sentence, exit code 130.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable._escapes import dump_json, printable, redacted

if TYPE_CHECKING:
    from deniable.ledger import Ledger
    from deniable.query import Publication, QueryPlan, StagedPlan


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
"""The option that every command has."""


Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there. What is read is never replaced.")]
"""The option of every command that writes a file."""


def say(text: object = "", *, err: bool = False, **style: Any) -> None:
    """Print a text of one or more lines."""
    typer.secho(printable(text, lines=True), err=err, **style)


def complain(sentence: object) -> None:
    """Print one sentence to standard error, on one line, without passwords."""
    say(f"deniable: {printable(redacted(sentence))}", err=True)


def print_json(value: Any) -> None:
    """One JSON object on standard output; exact numbers as text."""
    unicode = str(getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    typer.echo(dump_json(value, indent=2, ascii_only=not unicode))


def print_record(lines: Iterable[str]) -> None:
    """Lines of JSON that programs read, each with its end, as they are: a ledger writes them in ASCII."""
    for line in lines:
        sys.stdout.write(re.sub(r"[^\x20-\x7f\n]", lambda found: json.dumps(found[0])[1:-1], line))


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Print whatever the terminal's encoding has no character for as its escape, and warnings as sentences."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain(message)
        yield


def print_plan(plan: QueryPlan | StagedPlan | Publication, ledger: Ledger, *, who: str | None, as_json: bool) -> None:
    """A plan that is not run: its words, and whether the ledger would pay for it now."""
    fits = ledger.fits(plan.event, who=who)
    if as_json:
        print_json({**plan.to_dict(), "fits": fits})
        return
    say(plan.explain())
    if not fits:
        left = ledger.remaining(who=who).figures
        say(f"It does not fit: the ledger has {left} left.", err=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Container[int] = ()) -> None:
    """Columns aligned; numbers, and the columns named in `right`, to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(header):
        numeric = place in right or (bool(lines) and all(isinstance(row[place], int | float) for row in lines))
        table.add_column(Text(printable(name)), justify="right" if numeric else "left", overflow="fold")
    for row in lines:
        table.add_row(*(Text(printable(cell)) for cell in row))  # a `Text` is not read as Rich's markup
    Console().print(table)


def print_bars(counts: Mapping[str, int], *, title: str, most: int = 30, width: int = 40) -> None:
    """A picture of counts over time: the last `most` of them, the longest bar `width` wide."""
    say(title)
    longest = max(counts.values())
    for name in sorted(counts)[-most:]:
        say(f"{printable(name)}  {'█' * max(1, round(width * counts[name] / longest))} {counts[name]}")


INTERRUPTED = 130


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error, if that is a terminal; otherwise nothing is shown."""
    if not sys.stderr.isatty():
        yield lambda name, done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def told(name: str, done: int, of: int) -> None:
            bar.update(task, description=printable(name), completed=done, total=of)

        yield told


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner with the time that passed, on a terminal."""
    with progress() as told:
        told(what, 0, 1)
        yield


@contextlib.contextmanager
def interruptible(ledger: Any, *, remedy: str = "") -> Iterator[None]:
    """Ctrl-C ends with a sentence that says whether something was charged; the record itself is always whole."""
    before = ledger.head().seq
    try:
        yield
    except KeyboardInterrupt:
        after = ledger.head().seq
        charged = "nothing was charged" if after == before else f"the charge stands, as row {after} of the ledger"
        complain(f"interrupted; {charged}.{' ' + remedy if remedy else ''}")
        raise typer.Exit(INTERRUPTED) from None
