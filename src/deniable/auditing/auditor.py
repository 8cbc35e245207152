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
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable._progress import line
from deniable._signatures import public
from deniable.auditing.betting import AuditProgress, Game, GameRounds, RunBudget, bet_until, lower_epsilon, lower_mu
from deniable.auditing.claims import Claim, Claimable
from deniable.auditing.detectors import Bins, Detector, RegionTree, bit_detectors, value_detectors
from deniable.auditing.generators import generators, keeps_state, seeded
from deniable.auditing.neighbours import Pair, pair_of
from deniable.auditing.outputs import Output, read_output
from deniable.auditing.replay import Finding, Replayed, Replayer
from deniable.auditing.report import AuditReport, ChannelReport, Point
from deniable.auditing.sampling import (
    conditional_claim,
    coupled_runs,
    largest_distance,
    sampled_steps,
    sampled_worlds,
)
from deniable.auditing.search import Search
from deniable.auditing.worlds import Limits, OutOfTime, Round, RunTimedOut, Trial, Worlds, observe, run_rounds, try_out
from deniable.errors import InvalidArgument
from deniable.guarantees import read_promise

CURVE = (1e-3, 1e-2, 0.05, 0.2)
"""Where the curve of lower bounds is read, next to the claim's own δ."""

_INSIDE = 0.8
"""The share of the level that goes to the game with the record in a sample by design, where it is made."""

_PILOT = 256
"""Pilot runs for each candidate pair, at most; all of them together take a third of the budget."""


@dataclass(frozen=True)
class Games:
    """What is judged on the same rounds: the values, and beside them the low bits of floats and the running times."""

    values: Game
    bits: Game
    clock: Game | None = None

    def views(self) -> list[tuple[Game, Callable[[Round], Output]]]:
        """Each game with what it looks at."""
        beside = [] if self.clock is None else [(self.clock, _running_time)]
        return [(self.values, _output), (self.bits, _output), *beside]


@dataclass(frozen=True, kw_only=True)
class Judge:
    """The settings of an audit, and its steps."""

    mechanism: Callable[[Any], Any]
    claim: Claim
    level: float
    budget: RunBudget
    detectors: Callable[[], Sequence[Detector]]
    limits: Limits = field(default_factory=Limits)
    replay: bool = False
    timing: bool = False
    n_jobs: int | None = 1
    seed: int | None = None
    stop_early: bool = True
    watch: Callable[[AuditProgress], None] | None = None

    def pair(
        self, pair: Pair, *, done: int = 0, start: float | None = None, replayed: Replayed | None = None
    ) -> AuditReport:
        """Replay and test one pair. Replays that were already made are handed in."""
        start = time.monotonic() if start is None else start
        done += 1
        try:
            trial = try_out(self.mechanism, pair.first, self.limits)
            if replayed is None:
                replayed = self._replayed(pair, trial)
                done += replayed.runs
        except OutOfTime:
            late = Finding("time", "the time was up before the first round of the game")
            return self._report(
                self._games(()), pair, Replayed((late,), 0), runs=done, seconds=time.monotonic() - start
            )
        if trial.fragile:
            replayed = replayed.with_finding("input", "the mechanism changes its input; every run got a copy")
        judge = self
        if self.n_jobs != 1 and replayed.measured is None and self._stateful(pair, trial):
            judge = replace(self, n_jobs=1)
            told = "the mechanism keeps state between runs that cannot be reseeded, so the audit ran on one worker"
            replayed = replayed.with_finding("state", told)
        inside: Game | None = None
        if replayed.measured is None and sampled_steps(self.claim.stated) is not None:
            inside, done = self._bet_inside(pair, done=done)
            judge = judge if inside is None else replace(judge, level=self.level * (1 - _INSIDE))
        games = judge._games(replayed.leads)
        if replayed.measured is None and not (inside is not None and inside.refuted):
            done = judge._bet(games, pair, trial, done=done, budget=self.budget)
        return judge._report(games, pair, replayed, runs=done, seconds=time.monotonic() - start, inside=inside)

    def _bet_inside(self, pair: Pair, *, done: int) -> tuple[Game | None, int]:
        """For a claim about samples: bet with the canary in a sample by design, at most of the level."""
        try:
            worlds = sampled_worlds(self.mechanism, pair, self.claim, seed=self.seed, limits=self.limits)
            if worlds is None:
                return None, done
            chance, level = worlds.mask.chance, self.level * _INSIDE
            coupled = min(coupled_runs(chance, level), self.budget.left(done) // 6)
            claim = conditional_claim(self.claim, chance, distance=largest_distance(max(coupled, 1), level))
            if coupled < 8 or not claim.lines:
                return None, done
            done += 2 * coupled
            if worlds.differences(2 * 10**12, coupled):
                return None, done
        except OutOfTime:
            return None, done
        game = Game(claim, tuple(self.detectors()), level)
        done = bet_until(
            [(game, _output)],
            worlds.run_rounds,
            coins=np.random.default_rng(None if self.seed is None else [self.seed, done, 1]),
            budget=self.budget.part(done + self.budget.left(done) // 2),
            done=done,
            stop_early=True,
            watch=self.watch,
        )
        return game, done

    def search(self, pairs: Sequence[Pair]) -> AuditReport:
        """Pilot runs choose the worst pair; fresh runs test it. A proof by replay needs no choice."""
        start, done = time.monotonic(), 0
        share = max(16, min(_PILOT, self.budget.runs // (3 * len(pairs)))) if pairs else 0
        best: tuple[float, Pair, Replayed] | None = None
        refused: InvalidArgument | None = None
        for pair in pairs:
            if best is not None and self.budget.left(done) < self.budget.runs // 2:
                break  # the other half is for the test
            try:
                trial = try_out(self.mechanism, pair.first, self.limits)
                replayed = self._replayed(pair, trial)
            except OutOfTime:
                best = best or (0.0, pair, Replayed((), 0))
                break
            done += 1 + replayed.runs
            games = self._games(replayed.leads)
            if replayed.measured is not None:
                return self._report(games, pair, replayed, runs=done, seconds=time.monotonic() - start)
            try:
                done = self._bet(games, pair, trial, done=done, budget=self.budget.part(done + share))
            except InvalidArgument as problem:  # it cannot run on this pair at all
                refused = problem
                continue
            if best is None or games.values.wealth.richest > best[0]:
                best = games.values.wealth.richest, pair, replayed
        if best is None:
            raise refused or InvalidArgument("neighbours", "an empty search", "a search with at least one pair")
        return self.pair(best[1], done=done, start=start, replayed=best[2])

    def scores(self, outputs: Sequence[Any], worlds: NDArray[np.bool_]) -> AuditReport:
        """The game on outputs that are already there."""
        start, done, games = time.monotonic(), 0, self._games(())
        game = games.values
        while done < len(outputs) and not (self.stop_early and game.refuted):
            size = game.next_size()
            game.add([read_output(value) for value in outputs[done : done + size]], worlds[done : done + size])
            done += size
        done = min(done, len(outputs))
        seconds = time.monotonic() - start
        return self._report(games, Pair(None, None), Replayed((), 0), runs=done, seconds=seconds)

    def _games(self, leads: Sequence[Detector]) -> Games:
        clock = Game(self.claim, (Bins(4), Bins(16), RegionTree()), self.level) if self.timing else None
        values = Game(self.claim, (*self.detectors(), *leads), self.level)
        return Games(values, Game(self.claim, bit_detectors(), self.level), clock)

    def _replayed(self, pair: Pair, trial: Trial) -> Replayed:
        if not self.replay:
            return Replayed((), 0)
        copies = copy.deepcopy if trial.fragile else lambda data: data
        try:
            return Replayer(self.mechanism, pair, self.claim, copies, self.limits).replay()
        except RunTimedOut:
            return Replayed((Finding("time", "a replay took longer than the time-out of a run"),), 1)

    def _stateful(self, pair: Pair, trial: Trial) -> bool:
        """Whether a run changes the mechanism by more than the generators that are reseeded for every round."""
        data = copy.deepcopy(pair.first) if trial.fragile else pair.first
        held = generators(self.mechanism)

        def run() -> None:
            with seeded(0, 0, self.mechanism, held=held):
                observe(lambda: self.mechanism(data), self.limits)

        try:
            return keeps_state(self.mechanism, run)
        except (ModuleNotFoundError, OutOfTime):
            return False

    def _bet(self, games: Games, pair: Pair, trial: Trial, *, done: int, budget: RunBudget) -> int:
        worlds = Worlds(self.mechanism, pair, trial, self.seed, self.limits)
        # Coins of a pilot and of the test that follows differ: both are numbered by the runs before them.
        coins = np.random.default_rng(None if self.seed is None else [self.seed, done])
        return bet_until(
            games.views(),
            lambda rounds: run_rounds(worlds, rounds, n_jobs=self.n_jobs),
            coins=coins,
            budget=budget,
            done=done,
            stop_early=self.stop_early,
            watch=self.watch,
        )

    def _report(
        self,
        games: Games,
        pair: Pair,
        replayed: Replayed,
        *,
        runs: int,
        seconds: float,
        inside: Game | None = None,
    ) -> AuditReport:
        proved, game, claim = replayed.measured is not None, games.values, self.claim
        if inside is not None and inside.refuted:
            told = "with the record in a sample by design, outputs break the curve that is claimed for the whole"
            replayed = replayed.with_finding("sample", told)
        refuted = proved or game.refuted or (inside is not None and inside.refuted)
        confidence = 1 - (self.level if inside is None else self.level / (1 - _INSIDE))
        rounds = game.rounds()
        names = sorted({name for name, _ in game.crashes})
        crashes = tuple((name, game.crashes[name, False], game.crashes[name, True]) for name in names)
        return AuditReport(
            claim=str(claim),
            relation=claim.relation.value,
            confidence=confidence,
            verdict="refuted" if refuted else "consistent",
            by="replay" if proved else "testing" if refuted else None,
            delta=claim.delta,
            claimed=claim.epsilon,
            lower=self._lower(replayed, rounds, claim.delta, self.level, step=1.05),
            curve=self._curve(replayed, rounds),
            mu=None if claim.mu is None or proved else lower_mu(rounds, level=self.level, claimed=claim.mu),
            attack=_attack(game, inside) if not proved else replayed.findings[0].kind + " by replay",
            evidence=max(each.wealth.evidence for each in (game, inside) if each is not None),
            runs=runs,
            seconds=seconds,
            pair=pair.name,
            findings=replayed.findings + _one_sided(crashes, game),
            crashes=crashes,
            timing=None if games.clock is None else self._channel(games.clock, "running times"),
            low_bits=self._channel(games.bits, "low bits") if games.bits.fractions else None,
            guarantee=claim.guarantee if math.isfinite(claim.epsilon) else None,
        )

    def _lower(self, replayed: Replayed, rounds: GameRounds, delta: float, level: float, *, step: float) -> float:
        if replayed.measured is not None:
            return replayed.measured.epsilon(delta)
        claimed = self.claim.epsilon_at(delta)
        return lower_epsilon(rounds, delta=delta, level=level, step=step, claimed=claimed)

    def _curve(self, replayed: Replayed, rounds: GameRounds) -> tuple[Point, ...]:
        """All points at once: each takes its part of the level."""
        places = sorted({self.claim.delta, *CURVE})
        level = self.level / len(places)
        return tuple(
            Point(delta, self._lower(replayed, rounds, delta, level, step=1.15), self.claim.epsilon_at(delta))
            for delta in places
        )

    def _channel(self, game: Game, name: str) -> ChannelReport:
        rounds = game.rounds()
        lower = lower_epsilon(rounds, delta=self.claim.delta, level=self.level)
        verdict = "leaks" if game.refuted else "nothing seen"
        return ChannelReport(verdict, lower, game.wealth.evidence, len(rounds.worlds), name)


def _attack(game: Game, inside: Game | None) -> str:
    """What won, or came nearest to it."""
    if inside is not None and inside.refuted:
        return f"the record in a sample by design; {inside.attack()}"
    return game.attack()


def _output(each: Round) -> Output:
    return each.output


def _running_time(each: Round) -> Output:
    """How long a run took, as an output."""
    return Output("seconds", np.array([math.log(max(each.seconds, 1e-9))]))


def _one_sided(crashes: tuple[tuple[str, int, int], ...], game: Game) -> tuple[Finding, ...]:
    """Crashes that only one world had."""
    second = int(game.rounds().worlds.sum())
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
    neighbours: tuple[Any, Any] | Pair | Sequence[Pair] | Search,
    claim: Claimable | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    confidence: Number = 0.95,
    runs: int = 20_000,
    seconds: float | None = None,
    timeout: float | None = None,
    detectors: Callable[[], Sequence[Detector]] = value_detectors,
    replay: bool = True,
    timing: bool = False,
    stop_early: bool = True,
    n_jobs: int | None = 1,
    seed: int | None = None,
    progress: bool | Callable[[AuditProgress], None] = True,
) -> AuditReport:
    """Attack a claim about a mechanism, and report a lower bound next to it.

    Args:
        mechanism: any callable that takes one input and gives an output; what it returns is what the attacker sees.
        neighbours: two inputs that are neighbours under the claim's relation; several `Pair`s, of which the worst is
            tested (`neighbours_of` suggests them for a table); or a `Search` that finds bad ones.
        claim: a guarantee, an event or a profile; left out, it is `mechanism.event`.
        epsilon: with `delta`, the short form of a claim.
        confidence: 1 − α. A true claim is refuted with probability at most α, however long the audit runs.
        delta: where the lower bound on ε is stated; the claim's own δ unless given.
        runs: how often the mechanism may run, replays and pilot runs included.
        seconds: how long the audit may take, try-outs and replays included; what ends first ends it.
        timeout: how long one run may take; a run that takes longer is an output, "timed out".
        detectors: a function that makes fresh detectors of values.
        replay: follow the noise through both neighbours first, for a proof or a lead.
        timing: also judge running times, with a verdict of their own.
        stop_early: stop when refuted; False spends the whole budget, for a better lower bound.
        n_jobs: workers, through joblib; None takes them from `joblib.parallel_config` (Dask, Ray, Spark).
        seed: makes the audit repeatable; generators in the mechanism's reach are seeded for each run.
        progress: show the runs on a terminal or in a notebook once they take two seconds; or a function that gets
            `AuditProgress`.
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
    until = None if seconds is None else time.monotonic() + float(_checks.positive("seconds", seconds))
    longest = None if timeout is None else float(_checks.positive("timeout", timeout))
    wanted = Claim.of(stated, delta=delta)
    judge = Judge(
        mechanism=mechanism,
        claim=wanted,
        level=level,
        budget=RunBudget(most, until),
        limits=Limits(longest, until),
        detectors=detectors,
        replay=replay,
        timing=timing,
        stop_early=stop_early,
        n_jobs=n_jobs,
        seed=seed,
        watch=None if isinstance(progress, bool) else progress,
    )
    if progress is not True:
        return _judge_neighbours(judge, neighbours)
    with line() as update:

        def show(reached: AuditProgress) -> None:
            update(f"audit, evidence {reached.evidence:.1f}, runs", min(reached.runs, most), most)

        return _judge_neighbours(replace(judge, watch=show), neighbours)


def _judge_neighbours(judge: Judge, neighbours: tuple[Any, Any] | Pair | Sequence[Pair] | Search) -> AuditReport:
    """The report on one pair, or on the worst of several."""
    relation, unit = judge.claim.relation, judge.claim.unit
    if isinstance(neighbours, Search):
        return judge.search(neighbours.pairs(relation))
    if isinstance(neighbours, list | tuple) and neighbours and all(isinstance(each, Pair) for each in neighbours):
        return judge.search([each.checked(relation, unit) for each in neighbours])
    return judge.pair(pair_of(neighbours).checked(relation, unit))


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
