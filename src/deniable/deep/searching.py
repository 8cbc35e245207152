"""Private search over trainings, charged once: `mechanisms.search` with plans as candidates.

    best = dn.deep.search(plans, train, score=accuracy_on_public_images, trials=8, delta=1e-5, ledger="run.ledger")
    best.candidate, best.output, best.score

`train(plan)` makes a model and trains it with `Trainer(model, optimizer, loss, plan)`, without a ledger: the search
pays for all its trials, before the first one. Only the best output may leave; keep no other model, log or checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from deniable import noise
from deniable._checks import Number
from deniable.deep.plan import Plan
from deniable.errors import InvalidArgument, LedgerError, UnitMismatch
from deniable.events import Event
from deniable.ledger import Ledger
from deniable.mechanisms import Best
from deniable.mechanisms import search as among


def search(
    plans: Sequence[Plan],
    train: Callable[[Plan], Any],
    *,
    score: Callable[[Any], float],
    trials: Number,
    delta: Number,
    eta: Number = 0,
    scoring: Event | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    run: str | None = None,
    who: str | None = None,
) -> Best:
    """Train some of the plans and keep the best by a score of what `train` returns.

    `trials` is the mean number of trainings. A score that looks at private data must be noisy, and `scoring` its event.
    """
    if not plans or not all(isinstance(plan, Plan) for plan in plans):
        raise InvalidArgument("plans", plans, "one dn.deep.Plan or more")
    if len({plan.unit for plan in plans}) > 1:
        raise UnitMismatch("the plans of one search must protect the same unit")
    found = among([plan.event for plan in plans], trials=trials, eta=eta, scoring=scoring)
    event = found.event(delta=delta)
    if ledger is not None:
        book = Ledger.of(ledger)
        if book.unit.column != plans[0].unit.column:
            raise UnitMismatch(f"the ledger protects {book.unit.one} and the plans {plans[0].unit.one}.")
        key = run if run is not None else f"search {noise.secure().word():016x}"
        if not book.charge(event, purpose=f"search over {len(plans)} trainings", who=who, key=key).fresh:
            raise LedgerError(f"run={key!r} is already paid for, and a charge pays for one search. Name another run.")
    return found.run(lambda place: train(plans[place]), score=score)
