"""What a ledger says when it says no, and what remains. Numbers that remain are rounded down, never up."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from deniable.accounting.filters import (
    Cost,
    Filters,
    FilterTotals,
    SumFilter,
    addends,
    cost,
    families_of,
    filters_for,
    room_left,
)
from deniable.accounting.filters.totals import FilterEntry
from deniable.conversions.formulas import pure_rho, response_divergence
from deniable.errors import BudgetExceeded, InvalidArgument, LedgerError, NotSupported
from deniable.events import Event
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger.points import curve
from deniable.numerics.exact import ceiling, floor, short_below, sqrt_down, sqrt_up
from deniable.numerics.roots import bisect, enlarge
from deniable.numerics.rounding import float_below


class Left(NamedTuple):
    """What remains: the largest single request, and the room of the filter that takes it, in that filter's kind."""

    largest: Guarantee
    room: Guarantee


def left(budget: Guarantee, filters: Filters, totals: FilterTotals) -> Left:
    """What remains of a budget. Of a fresh one, all of it: a first request that needs everything gets it."""
    if totals.choice == "open":
        return Left(budget, budget)
    found: list[tuple[Fraction, Left]] = []
    for family, tally in zip(families_of(filters, totals), totals.tallies, strict=True):
        own = family.cap - tally.delta
        for kept, amount in room_left(family, tally):
            inside = _room(budget, kept, amount, own)
            if isinstance(budget, ApproxDP) and kept.kind == "mu_squared":
                # A filter for Gaussians takes no (ε, δ) request; `fits` speaks of it.
                continue
            epsilon = pure_within(kept, amount) if isinstance(budget, ApproxDP) else amount
            found.append((epsilon, Left(ApproxDP(epsilon, own) if isinstance(budget, ApproxDP) else inside, inside)))
    best = max(found, key=lambda each: each[0])[1] if found else Left(_zero(budget), _zero(budget))
    return Left(_about(best.largest, budget), _about(best.room, budget))


def _room(budget: Guarantee, kept: SumFilter, amount: Fraction, own: Fraction) -> Guarantee:
    """One sum's room, as a guarantee of its kind."""
    match kept.kind:
        case "epsilon":
            return PureDP(amount) if isinstance(budget, PureDP) else ApproxDP(amount, own)
        case "truncated":
            return TCDP(amount, kept.order or 2)
        case "renyi":
            return RDP(kept.order or 2, amount)
        case "mu_squared":
            return GDP(floor(sqrt_down(amount)))
        case "rho":
            return ApproxZCDP(amount, own) if isinstance(budget, ApproxZCDP) else ZCDP(amount)


def pure_within(kept: SumFilter, amount: Fraction) -> Fraction:
    """The largest ε, to six figures and rounded down, whose ε-DP step a sum can still add."""
    if kept.kind == "epsilon":
        return amount

    def needed(epsilon: Fraction) -> Fraction:
        if kept.kind == "renyi" and kept.order is not None:
            return ceiling(response_divergence(epsilon, kept.order))
        return ceiling(pure_rho(epsilon))

    def exceeds(epsilon: Fraction) -> bool:
        return needed(epsilon) > amount

    high = enlarge(exceeds, Fraction(1), most=10**6) or Fraction(2**20)
    return short_below(bisect(exceeds, high / 2 if high > 1 else Fraction(0), high, turns=24)[0], figures=6)


def requested(entry: FilterEntry, budget: Guarantee) -> Guarantee | None:
    """What an entry costs, in the budget's kind; None where no finite number is known."""
    stated = isinstance(budget, PureDP | ApproxDP) and entry.at is not None
    try:
        found = entry.at if stated else _requested(entry.event, budget)
    except InvalidArgument:  # a sum that has more digits than a number may have
        return None
    return None if found is None else _about(found, budget)


def _requested(event: Event, budget: Guarantee) -> Guarantee | None:
    try:
        found = cost(event)
    except NotSupported:
        found = Cost()
    if isinstance(budget, PureDP | ApproxDP):
        if found.epsilon is not None:
            pure = isinstance(budget, PureDP) and not found.delta
            return PureDP(found.epsilon) if pure else ApproxDP(found.epsilon, found.delta)
        delta = budget.delta if isinstance(budget, ApproxDP) else Fraction(0)
        profile = curve(event) if delta else None
        epsilon = math.inf if profile is None else profile.epsilon(float_below(delta))
        return ApproxDP(epsilon, delta) if math.isfinite(epsilon) else None
    family = filters_for(budget).families[0]
    spent = addends(family, FilterEntry(event))
    kept, amount = family.sums[0], spent.amounts[0]
    if amount is None:
        return None
    if spent.delta and not isinstance(budget, ApproxZCDP):
        # The budget has no δ: that is why, whatever the rest would cost.
        return ApproxZCDP(amount, spent.delta) if isinstance(budget, ZCDP) else None
    return GDP(ceiling(sqrt_up(amount))) if kept.kind == "mu_squared" else _room(budget, kept, amount, spent.delta)


def refusal(requested: Guarantee | None, left: Left, *, whose: str) -> BudgetExceeded:
    """The exception, with its sentence."""
    asked = "something that has no finite cost in this budget's terms" if requested is None else requested.figures
    remaining = left.room.figures if _amount(left.largest) else "nothing"
    more = "" if left.largest == left.room else f"; the largest request that fits is {left.largest.figures}"
    return BudgetExceeded(
        f"the request does not fit {whose} budget: requested {asked}; remaining {remaining}{more}."
        " Nothing was charged.",
        requested=requested,
        remaining=left.room,
        largest=left.largest,
    )


def shared_refusal(requested: Guarantee | None, left: Left, *, who: str) -> BudgetExceeded:
    """The common budget does not hold what an analyst's own would. How much it holds is not the analyst's to know."""
    return BudgetExceeded(
        f"the request fits {who}'s budget, but not what all analysts together have left; ask whoever keeps the ledger."
        " Nothing was charged.",
        requested=requested,
        remaining=left.room,
        largest=None,
    )


def allotment_refusal(own: Guarantee, common: Guarantee, *, who: str) -> BudgetExceeded:
    """The whole common budget does not hold what an analyst was to get."""
    return BudgetExceeded(
        f"a budget of {own.figures} for {who} does not fit the ledger's whole budget of {common.figures}: it would"
        " promise less than what is promised already. Allot at most that.",
        requested=own,
        remaining=common,
        largest=common,
    )


def late_refusal(own: Guarantee, *, who: str) -> LedgerError:
    """An analyst was told too much already for the budget they were to get."""
    return LedgerError(
        f"what was charged in the name of {who}, or in nobody's and so perhaps told to {who}, does not fit a budget of"
        f" {own.figures}. Allot more, or leave {who} without a budget of their own; nothing was allotted."
    )


def _amount(guarantee: Guarantee) -> Fraction:
    """The number of a guarantee that is spent."""
    found: Fraction = next(guarantee.numbers[n] for n in ("epsilon", "rho", "mu") if n in guarantee.numbers)
    return found


def _about(guarantee: Guarantee, budget: Guarantee) -> Guarantee:
    return replace(guarantee, relation=budget.relation, unit=budget.unit)


def _zero(budget: Guarantee) -> Guarantee:
    zeros: dict[str, Any] = {name: Fraction(0) for name in budget.numbers if name not in ("order", "omega")}
    return replace(budget, **zeros)
