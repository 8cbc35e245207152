"""Factors that were found once are kept on disk, so that a plan made again tomorrow is the same and immediate.

A file holds a strategy and nothing that is promised: sensitivities are computed from its numbers whenever it is read,
and a plan refuses one whose inverse grows. A file that is damaged or changed can cost accuracy, never privacy.

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
    """What `find(participation, **options)` gives, from the folder if it is there (default: the user's cache)."""
    chosen = {name: repr(value) for name, value in options.items()}
    asked = {"format": FORMAT, "find": find.__name__, "participation": asdict(participation), "options": chosen}
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]
    home = Path(folder) if folder is not None else cache()
    path = home / f"{find.__name__}-{participation.steps}-{key}.json"
    if folder is not None:
        _files.make_folder(home)
        _files.check_place(path, overwrite=True)
    try:
        found = Strategy.from_json(path.read_text(encoding="ascii"))
        if found.steps == participation.steps:
            return found
    except (OSError, UnicodeDecodeError, InvalidArgument):
        pass  # not there, or not readable: found again below
    found = find(participation, **options)
    try:
        _files.make_folder(home)
        # The name holds a hash of what was asked for: a file of that name which cannot be read is an older one of ours.
        _files.write_text(path, found.to_json(), overwrite=True)
    except FileError as refused:
        warnings.warn(f"the strategy is not kept for the next time: {refused}", stacklevel=2)
    return found


def cache() -> Path:
    """The folder of this user's factors."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "deniable" / "strategies"
