"""How much of ε each table of a publication gets.

Tables with an error cost what that error takes. The others share the rest in proportion to their weights:

- With δ = 0 the tables' ε add up (basic composition, exact fractions), and so do the δ of keys found in the data.
- With δ > 0 all tables are one event for the accountant. `calibrate` finds the largest common factor of the weights
  with which that event keeps (ε, δ)-DP by its certified curve. Where this gains less than 2 %, as it does for a few
  tables, the ε add up instead and δ stays unspent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from operator import add

from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.numerics.exact import short_above, short_below
from deniable.query.publication.draft import Draft, DraftTable
from deniable.query.session import Session
from deniable.query.staging import Plan

WORTH = Fraction(51, 50)
"""δ is spent where it makes ε go at least this much further."""

_PARTS = 100
"""More measurements than a table has."""

Plans = dict[str, Plan]


def allot(draft: Draft, session: Session) -> tuple[Plans, PureDP | ApproxDP]:
    """Every table's plan, and what all cost together."""
    fixed = {table.name: _plan(table, session, None) for table in draft.tables if table.weight is None}
    spent = sum((plan.cost.epsilon for plan in fixed.values()), Fraction(0))
    if draft.epsilon is None:
        return fixed, _tightest(fixed, draft.delta)
    shared = [table for table in draft.tables if table.weight is not None]
    weight = sum((table.weight or Fraction(0) for table in shared), Fraction(0))
    if spent >= draft.epsilon and not draft.delta:
        raise InvalidArgument(
            "epsilon", draft.epsilon, f"above {float(spent):.6g}, which the tables with an error cost",
            "Raise epsilon, or the errors.",
        )  # fmt: skip

    def at(factor: float | Fraction) -> Plans:
        made = {table.name: _plan(table, session, factor * (table.weight or 1)) for table in shared}  # type: ignore[arg-type]
        return {table.name: {**fixed, **made}[table.name] for table in draft.tables}

    plain = (draft.epsilon - spent) / weight
    if not draft.delta:
        plans = at(plain)
        return plans, _sum(plans.values())
    from deniable.calibration import calibrate  # loads scipy, as the accountant does

    target = ApproxDP(draft.epsilon, draft.delta, relation=session.ledger.relation, unit=session.ledger.unit)
    if plain > 0 and _epsilon(at(_down(plain * WORTH)), draft.delta) > draft.epsilon:
        plans = at(plain)
        return plans, _sum(plans.values())
    start = float(plain * WORTH if plain > 0 else draft.epsilon / weight / 1000)
    # k steps of ε/k each cost about √(2 ln(1/δ)/k)·ε at δ, so the factor grows by less than √k.
    end = float(draft.epsilon / weight) * (2 + math.sqrt(len(draft.tables) * _PARTS))
    found = calibrate(
        lambda factor: _composed(at(_down(factor))), target, within=(start, end), tolerance=Fraction(1, 1000)
    )
    return at(_down(found.value)), target


def _tightest(plans: Plans, delta: Fraction) -> PureDP | ApproxDP:
    """What fixed plans cost together: their sum, or a point of their composed curve where that is lower."""
    summed = _sum(plans.values())
    least = _epsilon(plans, delta) if delta else math.inf
    if not math.isfinite(least) or Fraction(least) * WORTH >= summed.epsilon:
        return summed
    return ApproxDP(short_above(least, figures=6), delta, relation=summed.relation, unit=summed.unit)


def _epsilon(plans: Plans, delta: Fraction) -> float:
    """What plans cost together at δ, by the accountant."""
    from deniable.accounting import account

    return account(_composed(plans)).epsilon(delta)


def _composed(plans: Plans) -> Event:
    return reduce(add, (plan.event for plan in plans.values()))


def _sum(plans: Iterable[Plan]) -> PureDP | ApproxDP:
    """The tables' ε and δ, added up."""
    costs = [plan.cost for plan in plans]
    epsilon = sum((cost.epsilon for cost in costs), Fraction(0))
    delta = sum((cost.delta for cost in costs if isinstance(cost, ApproxDP)), Fraction(0))
    relation, unit = costs[0].relation, costs[0].unit
    if not delta:
        return PureDP(epsilon, relation=relation, unit=unit)
    return ApproxDP(epsilon, delta, relation=relation, unit=unit)


def _plan(table: DraftTable, session: Session, epsilon: Fraction | None) -> Plan:
    plan = session.plan(table.sql, epsilon=epsilon, **table.options)
    if isinstance(plan.cost, ApproxDP) and table.options["delta"] is None:
        # A share of what the ledger has left would be another one when a run is resumed.
        raise InvalidArgument(
            f"tables.{table.name}.delta",
            None,
            "given: keys that are found in the data cost δ",
            "For example delta = 1e-8.",
        )
    return plan


def _down(value: float | Fraction) -> Fraction:
    """A factor to six digits, rounded down: the same decimal in the search, in the plan and in print."""
    return short_below(value, figures=6)
