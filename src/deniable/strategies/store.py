"""A cache of optimal strategies on disk, so that the same plan made again is identical and immediate.

A file holds a strategy and no promise: sensitivities are computed from its numbers whenever it is read, and a plan
refuses a strategy whose inverse grows. So a damaged or changed file can cost accuracy, never privacy. This is a file of
its own because it is the only part of the room that reads and writes files.

    strategy = strategies.stored(strategies.optimal_banded, strategies.once(2048), bands=64)
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deniable import _files
from deniable.errors import FileError, InvalidArgument
from deniable.strategies.base import FORMAT, Strategy
from deniable.strategies.sensitivity import Participation


def stored(
    find: Callable[..., Strategy], participation: Participation, *, folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Strategy:  # fmt: skip
    """The strategy that `find(participation, **options)` returns, read from a cache if it is there.

    Args:
        find: `optimal_banded`, `optimal_toeplitz` or another optimiser of this room.
        participation: in which of the steps one unit may take part.
        folder: the cache; the user's own cache if left out.
        options: the options of `find`.
    """
    option_texts = {name: repr(value) for name, value in options.items()}
    request = {"format": FORMAT, "find": find.__name__, "participation": asdict(participation), "options": option_texts}
    key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]
    home = Path(folder) if folder is not None else cache()
    path = home / f"{find.__name__}-{participation.steps}-{key}.json"
    if folder is not None:
        _files.make_folder(home)
        _files.check_target(path, overwrite=True)
    try:
        strategy = Strategy.from_json(path.read_text(encoding="ascii"))
        if strategy.steps == participation.steps:
            return strategy
    except (OSError, UnicodeDecodeError, InvalidArgument):
        pass  # not there, or not readable: it is computed below
    strategy = find(participation, **options)
    try:
        _files.make_folder(home)
        # The name holds a hash of the request, so an unreadable file of that name is an older one of ours.
        _files.write_text(path, strategy.to_json(), overwrite=True)
    except FileError as refused:
        warnings.warn(f"the strategy is not kept for the next time: {refused}", stacklevel=2)
    return strategy


def cache() -> Path:
    """The folder of this user's factors."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "deniable" / "strategies"
