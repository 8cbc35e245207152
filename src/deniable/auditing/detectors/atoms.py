"""Counts of keys: whole outputs, or structures.

The belief after n₁ of n rounds with a key were D′ is (n₁ + ½)/(n + 1), the estimate of Krichevsky and Trofimov; a key
never met says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from deniable.auditing.detectors.base import Floats, Worlds
from deniable.auditing.outputs import Output


class Atoms:
    """How often each key came from each world."""

    def __init__(self, key: Callable[[Output], Hashable], name: str) -> None:
        self._key, self.name = key, name
        self._counts: dict[Hashable, list[int]] = {}

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """Count."""
        for output, world in zip(outputs, worlds.tolist(), strict=True):
            self._counts.setdefault(self._key(output), [0, 0])[world] += 1

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """The smoothed share of D′ among past rounds with the same key."""
        found = np.full(len(outputs), 0.5)
        for place, output in enumerate(outputs):
            seen = self._counts.get(self._key(output))
            if seen is not None:
                found[place] = (seen[1] + 0.5) / (seen[0] + seen[1] + 1)
        return found


def whole(output: Output) -> Hashable:
    """The output itself."""
    return output.atom


def structure(output: Output) -> Hashable:
    """Types, lengths, keys, the name of an exception."""
    return output.structure
