"""How far long work has come, for people who watch: a bar on a terminal, a line in a notebook, nothing in a pipe.

A step's number is public, because the number of steps is. Nothing about the records is shown.

>>> list(tracker("fit", progress=False)(range(3)))
[0, 1, 2]
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from deniable._escapes import printable

Tracker: TypeAlias = Callable[[range], Iterable[int]]
Update: TypeAlias = Callable[[str, int, int], None]
"""Told what is done, how many parts are finished, and of how many."""

SECONDS_BETWEEN_LINES = 0.5
"""How often the line in a notebook is written again."""

SECONDS_OF_SILENCE = 2.0
"""Work that takes no longer than this is not shown where nobody asked."""


def silent(steps: range) -> Iterable[int]:
    """The steps as they are."""
    return steps


def tracker(label: str, *, progress: bool) -> Tracker:
    """What a method walks its steps through: shown if it was asked for and somebody watches."""
    if not progress or not (sys.stderr.isatty() or in_notebook()):
        return silent

    def shown(steps: range) -> Iterable[int]:
        with bar() as update:
            for done, step in enumerate(steps):
                update(label, done, len(steps))
                yield step
            update(label, len(steps), len(steps))

    return shown


@contextlib.contextmanager
def bar() -> Iterator[Update]:
    """A bar with the time that passed and the time that is left, on standard error if that is a terminal."""
    if in_notebook():
        yield _line_writer()
    elif not sys.stderr.isatty():
        yield lambda name, done, of: None
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        name_column = TextColumn("{task.description}", markup=False)
        columns = (name_column, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
            task = drawn.add_task("", total=None)
            yield lambda name, done, of: drawn.update(task, description=printable(name), completed=done, total=of)


@contextlib.contextmanager
def line(*, after: float = SECONDS_OF_SILENCE) -> Iterator[Update]:
    """One line that is written over itself once work has taken `after` seconds, and wiped at the end.

    It starts no thread: what runs between two updates may have its streams watched, as the runs of an audit have.
    """
    start, write, wide = time.monotonic(), _line_writer(), False
    watched = in_notebook() or sys.stderr.isatty()

    def update(name: str, done: int, of: int) -> None:
        nonlocal wide
        if watched and time.monotonic() - start >= after and done < of:
            wide = True
            write(name, done, of)

    try:
        yield update
    finally:
        if wide:
            sys.stderr.write("\r" + " " * 78 + "\r")
            sys.stderr.flush()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _line_writer() -> Update:
    """Writes one line over itself, at most twice a second."""
    start, last = time.monotonic(), 0.0

    def update(name: str, done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done < of and now - last < SECONDS_BETWEEN_LINES:
            return
        last = now
        left = f", about {(now - start) * (of - done) / done:.0f} s left" if 0 < done < of else ""
        sys.stderr.write(f"\r{printable(name)}: {done:,} of {of:,}{left}   " + ("\n" if done == of else ""))
        sys.stderr.flush()

    return update
