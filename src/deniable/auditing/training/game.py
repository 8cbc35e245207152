"""The membership game: train with and without a canary, and guess which it was from a score.

Any training function is a mechanism, and its score is an output, so the game is an `audit`. What is added here is the
choice of the canary, on pilot runs of their own, and the promise that the audit's runs are fresh.

>>> import numpy as np
>>> from deniable.guarantees import GDP
>>> def train(values):
...     return sum(values) + np.random.normal(scale=0.5)           # for μ = 1 the scale should be 1
>>> report = membership_game(train, data=[0.0] * 9, canary=1.0, score=lambda model, canary: model, claim=GDP(1), seed=1)
>>> report.verdict
'refuted'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from deniable import _checks
from deniable.auditing.auditor import audit
from deniable.auditing.claims import Claimable
from deniable.auditing.report import AuditReport
from deniable.errors import InvalidArgument

Insert = Callable[[Any, Any], Any]


def inserted(data: Any, canary: Any) -> Any:
    """The data and one more record: for lists, and for arrays of rows."""
    if isinstance(data, np.ndarray):
        return np.concatenate([data, np.asarray(canary, dtype=data.dtype)[None]])
    if isinstance(data, list):
        return [*data, canary]
    raise InvalidArgument("data", type(data).__name__, "a list or an array, or insert= given")


def membership_game(
    train: Callable[[Any], Any],
    *,
    data: Any,
    canary: Any,
    score: Callable[[Any, Any], Any],
    claim: Claimable,
    insert: Insert = inserted,
    **settings: Any,
) -> AuditReport:
    """Audit a training function by one canary.

    train(data) gives a model; score(model, canary) gives what the attacker looks at, for example the canary's loss.
    settings are those of `audit`: confidence, runs, seconds, n_jobs, seed, progress.
    """

    def mechanism(records: Any) -> Any:
        return score(train(records), canary)

    return audit(mechanism, neighbours=(data, insert(data, canary)), claim=claim, **settings)


class Chosen(NamedTuple):
    """The canary that stood out most in pilot runs, and by how much, in standard deviations."""

    canary: Any
    place: int
    separation: float


def choose_canary(
    train: Callable[[Any], Any],
    *,
    data: Any,
    candidates: Sequence[Any],
    score: Callable[[Any, Any], float],
    pilots: int = 20,
    insert: Insert = inserted,
) -> Chosen:
    """The candidate whose score moves most when it is in the data, over `pilots` runs in either world.

    These runs are spent on choosing. An audit with the chosen canary uses fresh ones, which is what `membership_game`
    does; its confidence then needs no correction for the number of candidates.
    """
    many = _checks.count("pilots", pilots, least=2)
    if not candidates:
        raise InvalidArgument("candidates", candidates, "one canary or more")
    # One set of models without any canary serves all candidates.
    plain = [train(data) for _ in range(many)]
    best: Chosen | None = None
    for place, canary in enumerate(candidates):
        with_canary = insert(data, canary)
        out = np.array([score(model, canary) for model in plain], dtype=np.float64)
        inside = np.array([score(train(with_canary), canary) for _ in range(many)], dtype=np.float64)
        spread = float(np.sqrt((out.var() + inside.var()) / 2))
        shift = abs(float(inside.mean() - out.mean()))
        moved = shift / spread if spread else math.inf * shift if shift else 0.0
        if best is None or moved > best.separation:
            best = Chosen(canary, place, moved)
    if best is None or math.isnan(best.separation):
        raise InvalidArgument("score", math.nan, "a number for every model")
    return best
