"""The registry of broken mechanisms: each claims more privacy than it has, and the auditor must say so.

`by="replay"`: the noise is followed through every operation, and that is a proof. `by="testing"`: the game wins on
outputs; `best` is the probability of the most telling event in each world, where it is known, for comparison with a
fixed-sample test. `by="low bits"`: the values keep the claim, the low bits of floats do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deniable.auditing import Pair
from deniable.auditing.claims import Claimable


@dataclass(frozen=True)
class Broken:
    """A mechanism, two neighbours that show its fault, and what it claims."""

    name: str
    mechanism: Callable[[Any], Any]
    neighbours: tuple[Any, Any] | Pair
    claim: Claimable
    by: str
    runs: int
    best: tuple[float, float] | None


ZOO: dict[str, Broken] = {}


def broken(
    neighbours: tuple[Any, Any] | Pair,
    claim: Claimable,
    *,
    by: str = "replay",
    runs: int = 4000,
    best: tuple[float, float] | None = None,
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Put a mechanism into the zoo."""

    def keep(mechanism: Callable[[Any], Any]) -> Callable[[Any], Any]:
        name = mechanism.__name__
        ZOO[name] = Broken(name, mechanism, neighbours, claim, by, runs, best)
        return mechanism

    return keep
