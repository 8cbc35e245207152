"""Playing the coin game until the claim is refuted or the budget is spent."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.betting import Wealth
from deniable.auditing.bounds import Played
from deniable.auditing.claims import Claim
from deniable.auditing.detectors import Detector
from deniable.auditing.outputs import Output
from deniable.auditing.worlds import Round
from deniable.errors import InvalidArgument

SMALLEST, LARGEST = 8, 1024
"""Rounds between two lessons of the detectors: an eighth of the past, within these."""

_ENOUGH = 12
"""Runs in each world after which a mechanism that gave nothing is refused."""


@dataclass(frozen=True)
class Progress:
    """How far an audit has come."""

    runs: int
    seconds: float
    evidence: float


@dataclass(frozen=True)
class Budget:
    """How many runs, and until when."""

    runs: int
    until: float | None = None

    def part(self, runs: int) -> Budget:
        """The same time, for so many runs."""
        return Budget(min(runs, self.runs), self.until)

    def left(self, done: int, *, pace: float = 0.0) -> int:
        """Runs that are left at so many seconds a run; none after the time is up."""
        runs = max(0, self.runs - done)
        if self.until is None:
            return runs
        seconds = self.until - time.monotonic()
        return 0 if seconds <= 0 else min(runs, max(1, int(seconds / pace)) if pace > 0 else runs)


@dataclass
class Game:
    """Rounds against one claim: wealth, beliefs, and what was seen. `rounds` says what a list of worlds gave."""

    claim: Claim
    detectors: Sequence[Detector]
    level: float
    wealth: Wealth = field(init=False)
    beliefs: list[NDArray[np.float64]] = field(default_factory=list)
    worlds: list[NDArray[np.bool_]] = field(default_factory=list)
    crashes: Counter[tuple[str, bool]] = field(default_factory=Counter)
    something: bool = False
    """Whether any run gave something to look at."""

    def __post_init__(self) -> None:
        self.wealth = Wealth(self.claim.lines, detectors=len(self.detectors))

    @property
    def count(self) -> int:
        """Rounds so far."""
        return sum(map(len, self.worlds))

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.wealth.refuted(self.level)

    def next_size(self) -> int:
        """How many rounds come before the next lesson."""
        return max(SMALLEST, min(LARGEST, self.count // 8))

    def add(self, outputs: Sequence[Output], worlds: NDArray[np.bool_]) -> None:
        """Some more rounds: beliefs first, then the bets, then the lesson."""
        self._look(outputs, worlds)
        beliefs = np.stack([detector.posterior(outputs) for detector in self.detectors])
        self.wealth.update(beliefs, worlds)
        for detector in self.detectors:
            detector.learn(outputs, worlds)
        self.beliefs.append(beliefs)
        self.worlds.append(worlds)
        for output, world in zip(outputs, worlds.tolist(), strict=True):
            if output.raised is not None:
                self.crashes[output.raised, world] += 1

    def _look(self, outputs: Sequence[Output], worlds: NDArray[np.bool_]) -> None:
        """Refuse a mechanism that has never given anything to look at, in either world."""
        if any(output.raised is None and not output.empty for output in outputs):
            self.something = True
        seen = [*self.worlds, worlds]
        second = sum(int(each.sum()) for each in seen)
        if self.something or min(second, sum(map(len, seen)) - second) < _ENOUGH:
            return
        names = ", ".join(sorted({output.structure for output in outputs}))
        raise InvalidArgument(
            "mechanism",
            f"<{names}>",
            "a function that runs on the neighbours and returns an output",
            "So far every run in both worlds raised, or gave None or NaN.",
        )

    def played(self) -> Played:
        """The rounds, for bounds."""
        if not self.worlds:
            return Played(np.zeros((len(self.detectors), 0)), np.zeros(0, dtype=bool))
        return Played(np.concatenate(self.beliefs, axis=1), np.concatenate(self.worlds))

    def attack(self) -> str:
        """The detector and the line that won most."""
        detector, line = self.wealth.best()
        found = self.claim.lines[line]
        return f"{self.detectors[detector].name}, tested at ε = {found.epsilon:.4g}, δ = {found.delta:.3g}"


def play_game(
    games: Sequence[tuple[Game, Callable[[Round], Output]]],
    run: Callable[[Sequence[tuple[int, bool]]], Sequence[Round]],
    *,
    coins: np.random.Generator,
    budget: Budget,
    done: int,
    stop_early: bool,
    watch: Callable[[Progress], None] | None,
) -> int:
    """Play until the first game's claim is refuted or the budget is spent; the number of runs now done.

    The first game judges outputs. Others (running times) see the same rounds in their own way, and stop nothing.
    """
    start, main, before = time.monotonic(), games[0][0], done
    while not (stop_early and main.refuted):
        pace = (time.monotonic() - start) / (done - before) if done > before else 0.0
        left = budget.left(done, pace=pace)
        if not left:
            break
        worlds = coins.random(min(left, main.next_size())) < 0.5
        rounds = run([(done + place, bool(world)) for place, world in enumerate(worlds)])
        done += len(rounds)
        for game, view in games:
            game.add([view(each) for each in rounds], worlds)
        if watch is not None:
            watch(Progress(done, time.monotonic() - start, main.wealth.evidence))
    return done
