"""Detectors that know from the first round on where to look, because a replay showed it.

A lead comes from runs before the game, so it is fixed before every round, and a wrong one costs a share of the wealth
and nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from deniable.auditing.additive import Laws
from deniable.auditing.detectors import Floats, Worlds
from deniable.auditing.outputs import Output

_SURE = 0.999
_BOUND = 30.0


class Likelihood:
    """The odds of two laws that a fit suggested: f + c·noise in either world."""

    name = "likelihood of the laws that replays suggest"

    def __init__(self, laws: Laws) -> None:
        self._laws = laws

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """Nothing: the laws are as they were before the game."""

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """Bayes' rule at even odds; ½ for outputs that have no such numbers."""
        found = np.full(len(outputs), 0.5)
        most = int(self._laws.places.max(initial=0))
        places = [i for i, output in enumerate(outputs) if len(output.numbers) > most]
        if places:
            numbers = np.stack([outputs[i].numbers[: most + 1] for i in places])
            with np.errstate(over="ignore", invalid="ignore"):
                odds = np.clip(np.nan_to_num(self._laws.log_odds(numbers)), -_BOUND, _BOUND)
            found[places] = 1 / (1 + np.exp(-odds))
        return np.clip(found, 1 - _SURE, _SURE) if len(found) else found


class UnvaryingOutput:
    """An output that one world gave in every replay, and the other in none."""

    name = "the output that did not vary"

    def __init__(self, atom: Hashable, *, second: bool) -> None:
        self._atom, self._second = atom, second

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """Nothing."""

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """Nearly sure where it is that output, and for the other world where it is not."""
        same = np.array([output.atom == self._atom for output in outputs], dtype=bool)
        return np.where(same == self._second, _SURE, 1 - _SURE)
