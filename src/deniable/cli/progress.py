"""Progress on a terminal, and Ctrl-C: what is left behind is said in one sentence, exit code 130."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer

from deniable._escapes import printable
from deniable.cli.printing import complain

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
