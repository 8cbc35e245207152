"""A game that nobody can win in the long run while the claim is true: the random-coin e-process.

Every round a fair coin B picks the world (0: D, 1: D′), the mechanism runs once on it, and a detector that has seen
past rounds only states p, its belief that B = 1 given the output Y. Let the claim be a line P(S) ≤ e^ε Q(S) + δ, both
orders. For tests φ₁, φ₀ with values in [0, 1], fixed before the round, and a stake λ, the wealth is multiplied by

    1 + λ·( φ₁(Y)·(B − e^ε (1−B)) + φ₀(Y)·((1−B) − e^ε B) − δ ),        0 ≤ λ ≤ 1/(e^ε + δ).

Averaging over the coin, the bracket has mean ½(E₁φ₁ − e^ε E₀φ₁) + ½(E₀φ₀ − e^ε E₁φ₀) − δ ≤ 0, since a line for sets
is a line for functions into [0, 1]. So under the claim the wealth is a non-negative supermartingale that starts at 1,
whatever the detector does, and by Ville's inequality it ever reaches 1/α with probability at most α. With one of the
two tests left out, the toll is δ/2. An average of such wealths is one again: over detectors, lines and stakes.

For a stake λ with toll c and κ = 1 − λc, the expected logarithm is largest, if the belief p is right, at
φ₁ = clip((κ/λ)·(p − p₀)/p₀, 0, 1), p₀ = e^ε/(1 + e^ε), and likewise φ₀ with 1 − p. Unclipped, the factor is then
κ·p/p₀ or κ·(1 − p)/(1 − p₀): the odds of the detector against those of the claim. A small λ is a cautious test of the
set where p > p₀. docs/auditing.md has the proofs; theory: Waudby-Smith–Ramdas 2024, Grünwald–de Heide–Koolen 2024.

>>> import numpy as np
>>> wealth = Wealth((Line(1.0, 0.0),), detectors=1)
>>> worlds = np.ones(16, dtype=bool)
>>> wealth.update(np.full((1, 16), 0.99), worlds)      # always right, where e^1 : 1 are the odds allowed
>>> round(wealth.evidence, 2), wealth.refuted(0.05), wealth.rounds_to(0.05)
(1.66, True, 14)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.claims import Line

Floats = NDArray[np.float64]
Worlds = NDArray[np.bool_]

FRACTIONS = (0.98, 0.4, 0.1)
"""Stakes as shares of the largest allowed."""

_TOLLED = 1e-3
"""From this δ on, a test of one order alone is worth its own stake: it pays half the toll."""


class Stakes:
    """All stakes on some lines: a line, which orders are tested, and a share of the largest λ."""

    def __init__(self, lines: Sequence[Line], *, fractions: Sequence[float] = FRACTIONS) -> None:
        rows: list[tuple[int, float, float, float, float, float, float]] = []
        for place, line in enumerate(lines):
            both = ((1.0, 1.0, 0.5),) if line.delta < _TOLLED else ((1.0, 1.0, 0.5), (1.0, 0.0, 0.25), (0.0, 1.0, 0.25))
            total = sum(weight for *_, weight in both)
            for one, zero, weight in both:
                for fraction in fractions:
                    toll = line.delta * (one + zero) / 2
                    largest = math.exp(-line.epsilon) / (1 + toll * math.exp(-line.epsilon))
                    share = weight / total / len(fractions) / len(lines)
                    rows.append((place, line.epsilon, toll, fraction * largest, one, zero, share))
        table = np.array(rows)
        self.line = table[:, 0].astype(int)
        self.epsilon, self.toll, self.stake, self.one, self.zero, self.share = (table[:, i, None] for i in range(1, 7))
        self.odds = np.exp(self.epsilon)
        self.even = 1 / (1 + np.exp(-self.epsilon))
        self.kept = 1 - self.stake * self.toll

    def log_factors(self, beliefs: Floats, worlds: Worlds) -> Floats:
        """ln of what each stake's wealth is multiplied by: (…, stakes, rounds) for beliefs (…, rounds)."""
        right = np.where(worlds, beliefs, 1 - beliefs)[..., None, :]  # belief in the world that it was
        for_right = np.where(worlds, self.one, self.zero)
        for_wrong = np.where(worlds, self.zero, self.one)
        scale = self.kept / (self.stake * self.even)
        said_right = for_right * np.clip(scale * (right - self.even), 0, 1)
        said_wrong = for_wrong * np.clip(scale * (1 - right - self.even), 0, 1)
        found: Floats = np.log(self.kept + self.stake * (said_right - self.odds * said_wrong))
        return found


class Wealth:
    """The wealth of every (detector, stake), and their average, round by round."""

    def __init__(
        self,
        lines: Sequence[Line],
        *,
        detectors: int,
        fractions: Sequence[float] = FRACTIONS,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.lines = tuple(lines)
        self.stakes = Stakes(lines, fractions=fractions)
        shares = np.full(detectors, 1 / detectors) if weights is None else np.asarray(weights) / np.sum(weights)
        with np.errstate(divide="ignore"):
            self._logs: Floats = np.log(shares[:, None] * self.stakes.share[:, 0])
        self._start = self._logs
        self._path: list[Floats] = []
        self.highest = 0.0

    def update(self, beliefs: Floats, worlds: Worlds) -> None:
        """Play some rounds: `beliefs[d, t]` is detector d's P(D′ | output) at round t, `worlds[t]` that it was D′."""
        if not worlds.size:
            return
        # (detectors, stakes, rounds): the logarithm of every wealth after every round.
        moved = self.stakes.log_factors(beliefs, worlds).cumsum(axis=2)
        paths = self._logs[:, :, None] + moved
        top = paths.max(axis=(0, 1))
        self._path.append(top + np.log(np.exp(paths - top).sum(axis=(0, 1))))
        self._logs = paths[:, :, -1]
        self.highest = max(self.highest, float(self._path[-1].max()))

    @property
    def path(self) -> Floats:
        """ln of the average wealth after each round."""
        return np.concatenate([np.zeros(0), *self._path])

    @property
    def evidence(self) -> float:
        """log10 of the highest average wealth so far: an e-value that may be read at any time."""
        return self.highest / math.log(10)

    @property
    def richest(self) -> float:
        """ln of the richest stake's wealth now, as if it had started with 1. No e-value: for choosing only."""
        return float((self._logs - self._start).max())

    def refuted(self, level: float) -> bool:
        """Whether the claim is refuted with a chance of error of at most `level`."""
        return self.highest >= -math.log(level)

    def rounds_to(self, level: float) -> int | None:
        """The round at which that happened; None if it has not."""
        reached = np.flatnonzero(self.path >= -math.log(level))
        return int(reached[0]) + 1 if reached.size else None

    def best(self) -> tuple[int, int]:
        """The richest (detector, line) now."""
        detector, stake = np.unravel_index(int(np.argmax(self._logs)), self._logs.shape)
        return int(detector), int(self.stakes.line[stake])
