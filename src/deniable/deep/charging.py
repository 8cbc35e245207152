"""Paying for a run: once, before its first step, for the whole plan."""

from __future__ import annotations

import os

from deniable.deep.plan import Plan
from deniable.errors import InvalidArgument, LedgerError, UnitMismatch
from deniable.ledger import Ledger
from deniable.ledger.records import Charge


def check_charge(
    plan: Plan, ledger: Ledger | str | os.PathLike[str] | None, *, run: str, who: str | None, secure: bool, new: bool
) -> None:
    """Refuse, before anything is charged, what `charge` would refuse: for a new run also a plan that does not fit."""
    if ledger is None:
        return
    book = Ledger.of(ledger)
    if not secure:
        raise InvalidArgument(
            "generator", "insecure", "secure where a ledger is charged", "Leave it out to use the secure one."
        )
    if book.unit.column != plan.unit.column:
        raise UnitMismatch(
            f"the ledger protects {book.unit.one} and the plan {plan.unit.one}."
            + (f' Plan with unit="{book.unit.column}", counting people.' if book.unit.column else "")
        )
    if new and not book.fits(plan.event, who=who):
        charge(plan, book, run=run, who=who, secure=secure, resumed=False)  # raises, and says what would fit


def charge(
    plan: Plan,
    ledger: Ledger | str | os.PathLike[str] | None,
    *,
    run: str,
    who: str | None,
    secure: bool,
    resumed: bool,
) -> Charge | None:
    """Charge a plan under a run's key. A paid key lets that run be resumed; it never lets a second one begin."""
    check_charge(plan, ledger, run=run, who=who, secure=secure, new=False)
    if ledger is None:
        return None
    paid = Ledger.of(ledger).charge(plan.event, purpose=f"training: {plan.steps} steps", who=who, key=run)
    if not paid.fresh and not resumed:
        raise LedgerError(
            f"run={run!r} is already paid for (row {paid.seq}), and a charge pays for one run. Go on with it by"
            " Trainer.resume and its checkpoint, or name another run."
        )
    return paid
