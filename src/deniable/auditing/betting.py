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

Lower bounds that may be read at any time: the betting game against every smaller claim.

For each ε of a fixed grid the wealth against the line (ε, δ) is computed from the same rounds and beliefs. The claims
grow: (ε, δ)-DP implies (ε′, δ)-DP for ε′ > ε. Walking up the grid, the bound is the last ε refuted before the first
that is not. If the mechanism is (ε*, δ)-DP, the bound exceeds ε* only if the first grid value from ε* on is refuted,
which has probability at most the level, however long the game went on. No correction is needed, and an isolated larger
refutation is never reported. The same holds for μ-GDP.

>>> import numpy as np
>>> sure = GameRounds(np.full((1, 400), 0.999), np.ones(400, dtype=bool))
>>> lower_epsilon(sure, delta=0, level=0.01) > 4
True
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.claims import Claim, Line, gaussian_lines
from deniable.auditing.detectors import Detector
from deniable.auditing.outputs import Output
from deniable.auditing.worlds import OutOfTime, Round
from deniable.errors import InvalidArgument

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
            both: tuple[tuple[float, float, float], ...] = ((float(line.orders[0]), float(line.orders[1]), 0.5),)
            if all(line.orders) and line.delta >= _TOLLED:
                both = ((1.0, 1.0, 0.5), (1.0, 0.0, 0.25), (0.0, 1.0, 0.25))
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
        """Bet on some rounds: `beliefs[d, t]` is detector d's P(D′ | output) at round t, `worlds[t]` that it was D′."""
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


_CHUNK = 256
_FINEST, _LARGEST = 0.02, 40.0


@dataclass(frozen=True)
class GameRounds:
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


def lower_epsilon(rounds: GameRounds, *, delta: float, level: float, step: float = 1.07, claimed: float = 1.0) -> float:
    """The largest ε of a grid below which every (ε, δ) is refuted; 0 if none is. The grid goes through `claimed`."""
    return _last_refuted(lambda epsilon: rounds.refutes((Line(epsilon, delta),), level), step, claimed)


def lower_mu(rounds: GameRounds, *, level: float, step: float = 1.07, claimed: float = 1.0) -> float:
    """The largest μ of a grid below which every μ-GDP is refuted; 0 if none is. The grid goes through `claimed`."""
    return _last_refuted(lambda mu: rounds.refutes(gaussian_lines(mu), level), step, claimed)


def _last_refuted(refuted: Callable[[float], bool], step: float, claimed: float) -> float:
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


SMALLEST, LARGEST = 8, 1024
"""Rounds between two lessons of the detectors: an eighth of the past, within these."""

_ENOUGH = 12
"""Runs in each world after which a mechanism that gave nothing is refused."""


@dataclass(frozen=True)
class AuditProgress:
    """How far an audit has come."""

    runs: int
    seconds: float
    evidence: float


@dataclass(frozen=True)
class RunBudget:
    """How many runs, and until when."""

    runs: int
    until: float | None = None

    def part(self, runs: int) -> RunBudget:
        """The same time, for so many runs."""
        return RunBudget(min(runs, self.runs), self.until)

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

    fractions: bool = False
    """Whether any output had a number that is not whole."""

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
        if not self.fractions:
            self.fractions = any((output.numbers != np.rint(output.numbers)).any() for output in outputs)
        for output, world in zip(outputs, worlds.tolist(), strict=True):
            if output.raised is not None:
                self.crashes[output.raised, world] += 1

    def _look(self, outputs: Sequence[Output], worlds: NDArray[np.bool_]) -> None:
        """Refuse a mechanism that has never given anything to look at, in either world."""
        if any(output.raised is None and not output.empty for output in outputs) or len({o.atom for o in outputs}) > 1:
            self.something = True
        seen = [*self.worlds, worlds]
        second = sum(int(each.sum()) for each in seen)
        if self.something or min(second, sum(map(len, seen)) - second) < _ENOUGH:
            return
        names = ", ".join(sorted({output.raised or output.structure for output in outputs}))
        raise InvalidArgument(
            "mechanism",
            f"<{names}>",
            "a function that runs on the neighbours and returns an output",
            "So far every run in both worlds raised, or gave None or NaN.",
        )

    def rounds(self) -> GameRounds:
        """All rounds so far, for bounds."""
        if not self.worlds:
            return GameRounds(np.zeros((len(self.detectors), 0)), np.zeros(0, dtype=bool))
        return GameRounds(np.concatenate(self.beliefs, axis=1), np.concatenate(self.worlds))

    def attack(self) -> str:
        """The detector and the line that won most."""
        detector, line = self.wealth.best()
        found = self.claim.lines[line]
        return f"{self.detectors[detector].name}, tested at ε = {found.epsilon:.4g}, δ = {found.delta:.3g}"


def bet_until(
    games: Sequence[tuple[Game, Callable[[Round], Output]]],
    run: Callable[[Sequence[tuple[int, bool]]], Sequence[Round]],
    *,
    coins: np.random.Generator,
    budget: RunBudget,
    done: int,
    stop_early: bool,
    watch: Callable[[AuditProgress], None] | None,
) -> int:
    """Bet until the first game's claim is refuted or the budget is spent; the number of runs now done.

    The first game judges outputs. Others (running times) see the same rounds in their own way, and stop nothing.
    """
    start, main, before = time.monotonic(), games[0][0], done
    while not (stop_early and main.refuted):
        pace = (time.monotonic() - start) / (done - before) if done > before else 0.0
        left = budget.left(done, pace=pace)
        if not left:
            break
        worlds = coins.random(min(left, main.next_size())) < 0.5
        try:
            rounds = run([(done + place, bool(world)) for place, world in enumerate(worlds)])
        except OutOfTime:  # rounds that are not finished count for nothing: the wealth before them is as fair
            break
        done += len(rounds)
        for game, view in games:
            game.add([view(each) for each in rounds], worlds)
        if watch is not None:
            watch(AuditProgress(done, time.monotonic() - start, main.wealth.evidence))
    return done
