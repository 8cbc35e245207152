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

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.claims import Claim, Claimable
from deniable.auditing.detectors import Detector, default_detectors, value_detectors
from deniable.auditing.judging import Judge
from deniable.auditing.neighbours import Pair, pair_of
from deniable.auditing.report import AuditReport
from deniable.auditing.search import Search
from deniable.auditing.testing import Budget, Progress
from deniable.errors import InvalidArgument

_END = object()


def audit(
    mechanism: Callable[[Any], Any],
    *,
    neighbours: tuple[Any, Any] | Pair | Search,
    claim: Claimable | None = None,
    confidence: Number = 0.99,
    delta: Number | None = None,
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

    mechanism: any callable that takes one input and gives an output; what it returns is what the attacker sees.
    neighbours: two inputs that are neighbours under the claim's relation, or a `Search` that finds bad ones.
    claim: a guarantee, an event or a profile; left out, it is `mechanism.event`.
    confidence: 1 − α. A true claim is refuted with probability at most α, however long the audit runs.
    delta: where the lower bound on ε is stated; the claim's own δ unless given.
    runs, seconds: the budget, replays and pilot runs included; what ends first ends the audit.
    detectors: a function that makes fresh detectors.
    replay: compare both neighbours on the same recorded randomness first.
    timing: also judge running times, with a verdict of their own.
    stop_early: stop when refuted; False spends the whole budget, for a better lower bound.
    n_jobs: workers, through joblib; None takes them from `joblib.parallel_config` (Dask, Ray, Spark).
    seed: makes the audit repeatable; generators in the mechanism's reach are seeded for each run.
    progress: True prints a line to standard error; or a function that gets `Progress`.
    """
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
        budget=Budget(most, limit),
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


def audit_scores(
    without: Any,
    with_: Any,
    *,
    claim: Claimable,
    confidence: Number = 0.99,
    delta: Number | None = None,
    stop_early: bool = True,
    seed: int = 0,
    detectors: Callable[[], Sequence[Detector]] = value_detectors,
) -> AuditReport:
    """Attack a claim with outputs that are already there: independent runs on D (`without`) and on D′ (`with_`).

    Fair coins, drawn here, decide which world's next output is looked at, until one world is used up. The outputs of a
    world must be independent runs in an order that does not depend on their values. Scores are the attacker's own
    arithmetic, so their low bits are not looked at unless `detectors` says so.
    """
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
        budget=Budget(len(queue)),
        detectors=detectors,
        stop_early=stop_early,
    )
    return judge.scores(queue, coins)


def _printed(progress: Progress) -> None:
    """One line on standard error, written over itself."""
    sys.stderr.write(f"\r{progress.runs} runs, {progress.seconds:.0f} s, evidence {progress.evidence:.1f} ")
    sys.stderr.flush()
