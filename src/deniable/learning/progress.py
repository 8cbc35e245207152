"""How far a fit has come, for people who watch: a bar on a terminal, nothing anywhere else.

A step's number is public, because the number of steps is. Nothing about the records is shown.

>>> list(tracker("fit", progress=False)(range(3)))
[0, 1, 2]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TypeAlias

Tracker: TypeAlias = Callable[[range], Iterable[int]]


def silent(steps: range) -> Iterable[int]:
    """The steps as they are."""
    return steps


def tracker(label: str, *, progress: bool) -> Tracker:
    """What a method walks its steps through: a progress bar on stderr if that is a terminal and it was asked for."""
    if not progress or not sys.stderr.isatty():
        return silent

    def shown(steps: range) -> Iterable[int]:
        from rich.console import Console
        from rich.progress import track

        return track(steps, description=label, console=Console(stderr=True), transient=True)

    return shown
