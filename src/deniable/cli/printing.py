"""Everything that the command line prints: text, aligned tables, progress, and `--json` for machines.

Purposes, keys and names come from other people. This module prints control characters, such as escape sequences and
marks that reverse the direction of text, as visible escapes. No message shows a password. Ctrl-C prints one sentence
that says whether something was charged, and exits with code 130.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable._escapes import dump_json, printable, redacted
from deniable._progress import bar

if TYPE_CHECKING:
    from deniable.ledger import Ledger
    from deniable.query import Publication, QueryPlan, StagedPlan
    from deniable.synthesis import SynthesisPlan


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
    """Print lines of JSON unchanged, for programs. A ledger writes them in ASCII."""
    for line in lines:
        sys.stdout.write(re.sub(r"[^\x20-\x7f\n]", lambda match: json.dumps(match[0])[1:-1], line))


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Print characters that the terminal's encoding lacks as escapes, and warnings as sentences."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain(message)
        yield


def print_plan(
    plan: QueryPlan | StagedPlan | Publication | SynthesisPlan, ledger: Ledger, *, who: str | None, as_json: bool
) -> None:
    """Print a plan that is not run, and whether the ledger would pay for it now."""
    fits = ledger.fits(plan.event, who=who)
    if as_json:
        print_json({**plan.to_dict(), "fits": fits})
        return
    say(plan.explain())
    if not fits:
        remaining = ledger.remaining(who=who).figures
        say(f"It does not fit: the ledger has {remaining} left.", err=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Container[int] = ()) -> None:
    """Print aligned columns. Numbers, and the columns whose indices are in `right`, are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column, name in enumerate(header):
        numeric = column in right or (bool(lines) and all(isinstance(row[column], int | float) for row in lines))
        table.add_column(Text(printable(name)), justify="right" if numeric else "left", overflow="fold")
    for row in lines:
        table.add_row(*(Text(printable(cell)) for cell in row))  # a `Text` is not read as Rich's markup
    Console().print(table)


def print_bars(counts: Mapping[str, int], *, title: str, most: int = 30, width: int = 40) -> None:
    """Print counts as bars: the last `most` of them, the longest bar `width` wide."""
    say(title)
    longest = max(counts.values())
    for name in sorted(counts)[-most:]:
        say(f"{printable(name)}  {'█' * max(1, round(width * counts[name] / longest))} {counts[name]}")


INTERRUPTED = 130


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner with the time that passed, on a terminal."""
    with bar() as update:
        update(what, 0, 1)
        yield


@contextlib.contextmanager
def interruptible(ledger: Any, *, remedy: str = "") -> Iterator[None]:
    """On Ctrl-C, exit with a sentence that says whether something was charged."""
    before = ledger.head().seq
    try:
        yield
    except KeyboardInterrupt:
        after = ledger.head().seq
        charged = "nothing was charged" if after == before else f"the charge stands, as row {after} of the ledger"
        complain(f"interrupted; {charged}.{' ' + remedy if remedy else ''}")
        raise typer.Exit(INTERRUPTED) from None
