"""Commands that are handed a table by mistake: what they say is the same whatever the table holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, Command, EntryPoint, World

TEXTS: Mapping[str, bytes] = {
    **{label: text.encode("utf-8", "surrogatepass") for label, text in hostile.TEXTS.items()},
    **hostile.BYTES,
    "a word of ours": b'{"deniable": 1, "verdict": "refuted"}',
    "JSON": b"[[1.0, 0.1, 5]]",
    "a number": b"7",
}


def command(*arguments: str) -> Callable[[World, Any], Command]:
    """A command with `visits.csv` among its arguments. The hostile text is a field of the last row."""

    def call(world: World, unit: Any) -> Command:
        rows = [b"id,city", b"1,Bern", b"2,Basel"]
        if unit is not None:
            rows = rows[:-1] if unit is REMOVED else [*rows, b"3," + unit]
        world.write("visits.csv", b"\n".join(rows) + b"\n")
        return world.command(*arguments)

    return call


COMMANDS = {
    "deniable account": ("account", "--from", "visits.csv", "--delta", "1e-6"),
    "deniable audit": ("audit", "--scores", "visits.csv", "--epsilon", "1"),
    "deniable explain": ("explain", "visits.csv"),
    "deniable ledger export": ("ledger", "export", "visits.csv"),
    "deniable ledger show": ("ledger", "show", "visits.csv"),
    "deniable ledger verify": ("ledger", "verify", "visits.csv"),
    "deniable report": ("report", "visits.csv"),
    "deniable publish": ("publish", "visits.csv", "--out", "release"),
}
ENTRY_POINTS = [
    EntryPoint(f"{name}, a table by mistake", (name,), {"removed": REMOVED, **TEXTS}, command(*arguments), sample=8)
    for name, arguments in COMMANDS.items()
]
