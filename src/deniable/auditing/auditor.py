"""`audit`: replay, then bet, then say what was found.

>>> import numpy as np
>>> from deniable.guarantees import PureDP
>>> def noisy_count(rows):
...     return len(rows) + np.random.laplace(0, 0.5)       # for ε = 1 the scale should be 1
>>> report = audit(noisy_count, neighbours=([1, 2, 3], [1, 2]), claim=PureDP(1))
>>> report.verdict, report.by, round(report.lower, 3)
('refuted', 'replay', 2.0)
"""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import public
from deniable.auditing.betting import Game, GameRounds, Progress, RunBudget, lower_epsilon, lower_mu, play_game
from deniable.auditing.claims import Claim, Claimable
from deniable.auditing.detectors import Bins, Detector, Tree, default_detectors, value_detectors
from deniable.auditing.neighbours import Pair, pair_of
from deniable.auditing.outputs import Output, read_output
from deniable.auditing.replay import Finding, Replayed, replay_pair
from deniable.auditing.report import AuditReport, Point, TimingReport
from deniable.auditing.search import Search
from deniable.auditing.worlds import Round, Trial, Worlds, play, try_out
from deniable.errors import InvalidArgument
from deniable.guarantees import read_promise

CURVE = (1e-3, 1e-2, 0.05, 0.2)
"""Where the curve of lower bounds is read, next to the claim's own δ."""

_PILOT = 256
"""Pilot runs for each candidate pair, at most; all of them together take a third of the budget."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """The settings of an audit, and its steps."""

    mechanism: Callable[[Any], Any]
    claim: Claim
    level: float
    budget: RunBudget
    detectors: Callable[[], Sequence[Detector]]
    replay: bool = False
    timing: bool = False
    n_jobs: int | None = 1
    seed: int | None = None
    stop_early: bool = True
    watch: Callable[[Progress], None] | None = None

    def pair(
        self, pair: Pair, *, done: int = 0, start: float | None = None, replayed: Replayed | None = None
    ) -> AuditReport:
        """Replay and test one pair. Replays that were already made are handed in."""
        start = time.monotonic() if start is None else start
        trial = try_out(self.mechanism, pair.first)
        done += 1
        if replayed is None:
            replayed = self._replayed(pair, trial)
            done += replayed.runs
        if trial.fragile:
            copied = Finding("input", "the mechanism changes its input; every run got a copy")
            replayed = replace(replayed, findings=(*replayed.findings, copied))
        game = self._game()
        clock = Game(self.claim, (Bins(4), Bins(16), Tree()), self.level) if self.timing else None
        if replayed.measured is None:
            done = self._tested(game, clock, pair, trial, done=done, budget=self.budget)
        return self._report(game, clock, pair, replayed, runs=done, seconds=time.monotonic() - start)

    def search(self, pairs: Sequence[Pair]) -> AuditReport:
        """Pilot runs choose the worst pair; fresh runs test it. A proof by replay needs no choice."""
        start, done = time.monotonic(), 0
        share = max(16, min(_PILOT, self.budget.runs // (3 * len(pairs)))) if pairs else 0
        best: tuple[float, Pair, Replayed] | None = None
        refused: InvalidArgument | None = None
        for pair in pairs:
            if best is not None and self.budget.left(done) < self.budget.runs // 2:
                break  # the other half is for the test
            trial = try_out(self.mechanism, pair.first)
            replayed = self._replayed(pair, trial)
            done += 1 + replayed.runs
            pilot = self._game()
            if replayed.measured is not None:
                return self._report(pilot, None, pair, replayed, runs=done, seconds=time.monotonic() - start)
            try:
                done = self._tested(pilot, None, pair, trial, done=done, budget=self.budget.part(done + share))
            except InvalidArgument as problem:  # it cannot run on this pair at all
                refused = problem
                continue
            if best is None or pilot.wealth.richest > best[0]:
                best = pilot.wealth.richest, pair, replayed
        if best is None:
            raise refused or InvalidArgument("neighbours", "an empty search", "a search with at least one pair")
        return self.pair(best[1], done=done, start=start, replayed=best[2])

    def scores(self, outputs: Sequence[Any], worlds: NDArray[np.bool_]) -> AuditReport:
        """The game on outputs that are already there."""
        start, done, game = time.monotonic(), 0, self._game()
        while done < len(outputs) and not (self.stop_early and game.refuted):
            size = game.next_size()
            game.add([read_output(value) for value in outputs[done : done + size]], worlds[done : done + size])
            done += size
        done = min(done, len(outputs))
        seconds = time.monotonic() - start
        return self._report(game, None, Pair(None, None), Replayed((), 0), runs=done, seconds=seconds)

    def _game(self) -> Game:
        return Game(self.claim, tuple(self.detectors()), self.level)

    def _replayed(self, pair: Pair, trial: Trial) -> Replayed:
        if not self.replay:
            return Replayed((), 0)
        copies = copy.deepcopy if trial.fragile else lambda data: data
        return replay_pair(self.mechanism, pair, self.claim, copies=copies)

    def _tested(self, game: Game, clock: Game | None, pair: Pair, trial: Trial, *, done: int, budget: RunBudget) -> int:
        worlds = Worlds(self.mechanism, pair, trial, self.seed)
        games: list[tuple[Game, Callable[[Round], Output]]] = [(game, lambda each: each.output)]
        if clock is not None:
            games.append((clock, _running_time))
        # Coins of a pilot and of the test that follows differ: both are numbered by the runs before them.
        coins = np.random.default_rng(None if self.seed is None else [self.seed, done])
        return play_game(
            games,
            lambda rounds: play(worlds, rounds, n_jobs=self.n_jobs),
            coins=coins,
            budget=budget,
            done=done,
            stop_early=self.stop_early,
            watch=self.watch,
        )

    def _report(
        self,
        game: Game,
        clock: Game | None,
        pair: Pair,
        replayed: Replayed,
        *,
        runs: int,
        seconds: float,
    ) -> AuditReport:
        proved = replayed.measured is not None
        refuted = proved or game.refuted
        played = game.played()
        names = sorted({name for name, _ in game.crashes})
        crashes = tuple((name, game.crashes[name, False], game.crashes[name, True]) for name in names)
        claim = self.claim
        return AuditReport(
            claim=str(claim),
            relation=claim.relation.value,
            confidence=1 - self.level,
            verdict="refuted" if refuted else "consistent",
            by="replay" if proved else "testing" if refuted else None,
            delta=claim.delta,
            claimed=claim.epsilon,
            lower=self._lower(replayed, played, claim.delta, self.level, step=1.05),
            curve=self._curve(replayed, played),
            mu=None if claim.mu is None or proved else lower_mu(played, level=self.level, claimed=claim.mu),
            attack=replayed.findings[0].kind + " by replay" if proved else game.attack(),
            evidence=game.wealth.evidence,
            runs=runs,
            seconds=seconds,
            pair=pair.name,
            findings=replayed.findings + _one_sided(crashes, game),
            crashes=crashes,
            timing=None if clock is None else self._timing(clock),
            guarantee=claim.guarantee if math.isfinite(claim.epsilon) else None,
        )

    def _lower(self, replayed: Replayed, played: GameRounds, delta: float, level: float, *, step: float) -> float:
        if replayed.measured is not None:
            return 0.0 if replayed.given else replayed.measured.epsilon(delta)
        claimed = self.claim.epsilon_at(delta)
        return lower_epsilon(played, delta=delta, level=level, step=step, claimed=claimed)

    def _curve(self, replayed: Replayed, played: GameRounds) -> tuple[Point, ...]:
        """All points at once: each takes its part of the level."""
        places = sorted({self.claim.delta, *CURVE})
        level = self.level / len(places)
        return tuple(
            Point(delta, self._lower(replayed, played, delta, level, step=1.15), self.claim.epsilon_at(delta))
            for delta in places
        )

    def _timing(self, clock: Game) -> TimingReport:
        lower = lower_epsilon(clock.played(), delta=self.claim.delta, level=self.level)
        return TimingReport(
            "leaks" if clock.refuted else "nothing seen", lower, clock.wealth.evidence, len(clock.played().worlds)
        )


def _running_time(each: Round) -> Output:
    """How long a run took, as an output."""
    return Output("seconds", np.array([math.log(max(each.seconds, 1e-9))]))


def _one_sided(crashes: tuple[tuple[str, int, int], ...], game: Game) -> tuple[Finding, ...]:
    """Crashes that only one world had."""
    second = int(game.played().worlds.sum())
    counts = game.count - second, second
    found = []
    for name, one, two in crashes:
        if not one or not two:
            world, times, total = ("D", one, counts[0]) if one else ("D′", two, counts[1])
            found.append(Finding("crash", f"{name} was raised on {world} only, in {times} of {total} runs"))
    return tuple(found)


_END = object()


@public
def audit(
    mechanism: Callable[[Any], Any],
    *,
    neighbours: tuple[Any, Any] | Pair | Search,
    claim: Claimable | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    confidence: Number = 0.95,
    runs: int = 20_000,
    seconds: float | None = None,
    detectors: Callable[[], Sequence[Detector]] = default_detectors,
    replay: bool = True,
    timing: bool = False,
    stop_early: bool = True,
    n_jobs: int | None = 1,
    seed: int | None = None,
    progress: bool | Callable[[Progress], None] = False,
) -> AuditReport:
    """Attack a claim about a mechanism, and report a lower bound next to it.

    Args:
        mechanism: any callable that takes one input and gives an output; what it returns is what the attacker sees.
        neighbours: two inputs that are neighbours under the claim's relation, or a `Search` that finds bad ones.
        claim: a guarantee, an event or a profile; left out, it is `mechanism.event`.
        epsilon: with `delta`, the short form of a claim.
        confidence: 1 − α. A true claim is refuted with probability at most α, however long the audit runs.
        delta: where the lower bound on ε is stated; the claim's own δ unless given.
        runs: how often the mechanism may run, replays and pilot runs included.
        seconds: how long the audit may take; what ends first ends it.
        detectors: a function that makes fresh detectors.
        replay: compare both neighbours on the same recorded randomness first.
        timing: also judge running times, with a verdict of their own.
        stop_early: stop when refuted; False spends the whole budget, for a better lower bound.
        n_jobs: workers, through joblib; None takes them from `joblib.parallel_config` (Dask, Ray, Spark).
        seed: makes the audit repeatable; generators in the mechanism's reach are seeded for each run.
        progress: True prints a line to standard error; or a function that gets `Progress`.
    """
    if epsilon is not None:
        claim = read_promise("claim", claim, epsilon=epsilon, delta=delta)
    stated = getattr(mechanism, "event", None) if claim is None else claim
    if stated is None:
        raise InvalidArgument("claim", claim, "given, as the mechanism has no .event", "For example claim=PureDP(1).")
    if not callable(mechanism):
        raise InvalidArgument("mechanism", type(mechanism).__name__, "a function of one input")
    if timing and n_jobs != 1:
        raise InvalidArgument("n_jobs", n_jobs, "1 with timing=True: workers disturb one another's clocks")
    level = float(1 - _checks.inner_probability("confidence", confidence, remedy="For example 0.99."))
    most = _checks.count("runs", runs)
    limit = None if seconds is None else time.monotonic() + float(_checks.positive("seconds", seconds))
    wanted = Claim.of(stated, delta=delta)
    judge = Judge(
        mechanism=mechanism,
        claim=wanted,
        level=level,
        budget=RunBudget(most, limit),
        detectors=detectors,
        replay=replay,
        timing=timing,
        stop_early=stop_early,
        n_jobs=n_jobs,
        seed=seed,
        watch=_printed if progress is True else progress or None,
    )
    if isinstance(neighbours, Search):
        return judge.search(neighbours.pairs(wanted.relation))
    return judge.pair(pair_of(neighbours).checked(wanted.relation, wanted.unit))


@public
def audit_scores(
    without: Any,
    with_: Any,
    *,
    claim: Claimable | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    confidence: Number = 0.95,
    stop_early: bool = True,
    seed: int = 0,
    detectors: Callable[[], Sequence[Detector]] = value_detectors,
) -> AuditReport:
    """Attack a claim with outputs that are already there: independent runs on D (`without`) and on D′ (`with_`).

    Fair coins, drawn here, decide which world's next output is looked at, until one world is used up. The outputs of a
    world must be independent runs in an order that does not depend on their values. Scores are the attacker's own
    arithmetic, so their low bits are not looked at unless `detectors` says so.
    """
    if claim is None or epsilon is not None:
        claim = read_promise("claim", claim, epsilon=epsilon, delta=delta)
    level = float(1 - _checks.inner_probability("confidence", confidence, remedy="For example 0.99."))
    worlds = [list(without), list(with_)]
    if min(map(len, worlds)) < 8:
        raise InvalidArgument("scores", f"{len(worlds[0])} and {len(worlds[1])}", "8 or more from each world")
    coins = np.random.default_rng(seed).random(2 * min(map(len, worlds))) < 0.5
    streams = [iter(world) for world in worlds]
    queue = []
    for place, coin in enumerate(coins):
        found = next(streams[int(coin)], _END)
        if found is _END:
            coins = coins[:place]
            break
        queue.append(found)
    judge = Judge(
        mechanism=queue.__getitem__,
        claim=Claim.of(claim, delta=delta),
        level=level,
        budget=RunBudget(len(queue)),
        detectors=detectors,
        stop_early=stop_early,
    )
    return judge.scores(queue, coins)


def _printed(progress: Progress) -> None:
    """One line on standard error, written over itself."""
    sys.stderr.write(f"\r{progress.runs} runs, {progress.seconds:.0f} s, evidence {progress.evidence:.1f} ")
    sys.stderr.flush()
