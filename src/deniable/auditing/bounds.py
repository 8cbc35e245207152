"""Lower bounds that may be read at any time: the betting game against every smaller claim.

For each ε of a fixed grid the wealth against the line (ε, δ) is computed from the same rounds and beliefs. The claims
grow: (ε, δ)-DP implies (ε′, δ)-DP for ε′ > ε. Walking up the grid, the bound is the last ε refuted before the first
that is not. If the mechanism is (ε*, δ)-DP, the bound exceeds ε* only if the first grid value from ε* on is refuted,
which has probability at most the level, however long the game went on. No correction is needed, and an isolated larger
refutation is never reported. The same holds for μ-GDP.

>>> import numpy as np
>>> sure = Played(np.full((1, 400), 0.999), np.ones(400, dtype=bool))
>>> lower_epsilon(sure, delta=0, level=0.01) > 4
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.betting import Wealth
from deniable.auditing.claims import Line, gaussian_lines

_CHUNK = 256
_FINEST, _LARGEST = 0.02, 40.0


@dataclass(frozen=True)
class Played:
    """The rounds of a game: beliefs (detectors, rounds) stated before, and the worlds that it was."""

    beliefs: NDArray[np.float64]
    worlds: NDArray[np.bool_]

    def refutes(self, lines: Sequence[Line], level: float) -> bool:
        """Whether a claim of these lines is refuted at some time."""
        wealth = Wealth(lines, detectors=len(self.beliefs))
        for start in range(0, len(self.worlds), _CHUNK):
            wealth.update(self.beliefs[:, start : start + _CHUNK], self.worlds[start : start + _CHUNK])
            if wealth.refuted(level):
                return True
        return False


def lower_epsilon(played: Played, *, delta: float, level: float, step: float = 1.07, claimed: float = 1.0) -> float:
    """The largest ε of a grid below which every (ε, δ) is refuted; 0 if none is. The grid goes through `claimed`."""
    return _last(lambda epsilon: played.refutes((Line(epsilon, delta),), level), step, claimed)


def lower_mu(played: Played, *, level: float, step: float = 1.07, claimed: float = 1.0) -> float:
    """The largest μ of a grid below which every μ-GDP is refuted; 0 if none is. The grid goes through `claimed`."""
    return _last(lambda mu: played.refutes(gaussian_lines(mu), level), step, claimed)


def _last(refuted: Callable[[float], bool], step: float, claimed: float) -> float:
    """The last place of the grid claimed·step^k that is refuted without a gap."""
    anchor = claimed if _FINEST < claimed < _LARGEST else 1.0
    first = math.ceil(math.log(_FINEST / anchor) / math.log(step))
    last = math.floor(math.log(_LARGEST / anchor) / math.log(step))
    found = 0.0
    for place in (anchor * step**k for k in range(first, last + 1)):
        if not refuted(place):
            break
        found = place
    return found
