"""What remains of a budget, and the exceptions that refuse a request. What remains is rounded down, never up."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
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


class Remainder(NamedTuple):
    """What remains: `largest` is the largest single request, `room` what the filter that takes it can still add."""

    largest: Guarantee
    room: Guarantee


def remainder_of(budget: Guarantee, filters: Filters, totals: FilterTotals) -> Remainder:
    """What remains of a budget. A fresh budget remains whole: a first request that needs all of it gets it."""
    if totals.choice == "open":
        return Remainder(budget, budget)
    best, most = Remainder(_zero(budget), _zero(budget)), None
    for family, tally in zip(families_of(filters, totals), totals.tallies, strict=True):
        delta_left = family.cap - tally.delta
        for sum_filter, amount in room_left(family, tally):
            room = _room(budget, sum_filter, amount, delta_left)
            if not isinstance(budget, ApproxDP):
                largest, epsilon = room, amount
            elif sum_filter.kind == "mu_squared":
                continue  # a filter for Gaussians takes no (ε, δ) request; `fits` speaks of it
            elif most is not None and step_cost(sum_filter, most) > amount:
                continue  # it takes less than another filter does
            else:
                epsilon = pure_within(sum_filter, amount)
                largest = ApproxDP(epsilon, delta_left)
            if most is None or epsilon > most:
                best, most = Remainder(largest, room), epsilon
    return Remainder(_about(best.largest, budget), _about(best.room, budget))


def _room(budget: Guarantee, sum_filter: SumFilter, amount: Fraction, own: Fraction) -> Guarantee:
    """One sum's room, as a guarantee of its kind."""
    match sum_filter.kind:
        case "epsilon":
            return PureDP(amount) if isinstance(budget, PureDP) else ApproxDP(amount, own)
        case "truncated":
            return TCDP(amount, sum_filter.order or 2)
        case "renyi":
            return RDP(sum_filter.order or 2, amount)
        case "mu_squared":
            return GDP(floor(sqrt_down(amount)))
        case "rho":
            return ApproxZCDP(amount, own) if isinstance(budget, ApproxZCDP) else ZCDP(amount)


def step_cost(sum_filter: SumFilter, epsilon: Fraction) -> Fraction:
    """What an ε-DP step adds to a sum, rounded up."""
    if sum_filter.kind == "epsilon":
        return epsilon
    if sum_filter.kind == "renyi" and sum_filter.order is not None:
        return ceiling(response_divergence(epsilon, sum_filter.order))
    return ceiling(pure_rho(epsilon))


@lru_cache(maxsize=1024)
def pure_within(sum_filter: SumFilter, amount: Fraction) -> Fraction:
    """The largest ε, to six figures and rounded down, whose ε-DP step a sum can still add."""
    if sum_filter.kind == "epsilon":
        return amount

    def exceeds(epsilon: Fraction) -> bool:
        return step_cost(sum_filter, epsilon) > amount

    high = enlarge(exceeds, Fraction(1), most=10**6) or Fraction(2**20)
    return short_below(bisect(exceeds, high / 2 if high > 1 else Fraction(0), high, turns=24)[0], figures=6)


def request_cost(entry: FilterEntry, budget: Guarantee) -> Guarantee | None:
    """What an entry costs, in the budget's kind; None where no finite number is known."""
    has_point = isinstance(budget, PureDP | ApproxDP) and entry.at is not None
    try:
        guarantee = entry.at if has_point else _event_cost(entry.event, budget)
    except InvalidArgument:  # a sum that has more digits than a number may have
        return None
    return None if guarantee is None else _about(guarantee, budget)


def _event_cost(event: Event, budget: Guarantee) -> Guarantee | None:
    try:
        sums = cost(event)
    except NotSupported:
        sums = Cost()
    if isinstance(budget, PureDP | ApproxDP):
        if sums.epsilon is not None:
            pure = isinstance(budget, PureDP) and not sums.delta
            return PureDP(sums.epsilon) if pure else ApproxDP(sums.epsilon, sums.delta)
        delta = budget.delta if isinstance(budget, ApproxDP) else Fraction(0)
        profile = curve(event) if delta else None
        epsilon = math.inf if profile is None else profile.epsilon(float_below(delta))
        return ApproxDP(epsilon, delta) if math.isfinite(epsilon) else None
    family = filters_for(budget).families[0]
    spent = addends(family, FilterEntry(event))
    sum_filter, amount = family.sums[0], spent.amounts[0]
    if amount is None:
        return None
    if spent.delta and not isinstance(budget, ApproxZCDP):
        # The budget has no δ. The answer shows the event's δ, because that is the reason for the refusal.
        return ApproxZCDP(amount, spent.delta) if isinstance(budget, ZCDP) else None
    return (
        GDP(ceiling(sqrt_up(amount)))
        if sum_filter.kind == "mu_squared"
        else _room(budget, sum_filter, amount, spent.delta)
    )


def refusal(requested: Guarantee | None, remainder: Remainder, *, whose: str) -> BudgetExceeded:
    """The exception, with its sentence."""
    request = "something that has no finite cost in this budget's terms" if requested is None else requested.figures
    largest, room = remainder
    remaining = room.figures if _amount(largest) else "nothing"
    more = "" if largest == room else f"; the largest request that fits is {largest.figures}"
    return BudgetExceeded(
        f"the request does not fit {whose} budget: requested {request}; remaining {remaining}{more}."
        " Nothing was charged.",
        requested=requested,
        remaining=room,
        largest=largest,
    )


def shared_refusal(
    requested: Guarantee | None, remainder: Remainder, *, who: str, what: str = "what all analysts together have left"
) -> BudgetExceeded:
    """A request fits the analyst's own budget but not one that is shared, whose remainder is kept from analysts."""
    return BudgetExceeded(
        f"the request fits {who}'s budget, but not {what}; ask whoever keeps the ledger. Nothing was charged.",
        requested=requested,
        remaining=remainder.room,
        largest=None,
    )


def allotment_refusal(own: Guarantee, common: Guarantee, *, who: str) -> BudgetExceeded:
    """The budget to allot is larger than the whole common budget."""
    return BudgetExceeded(
        f"a budget of {own.figures} for {who} does not fit the ledger's whole budget of {common.figures}: it would"
        " promise less than what is promised already. Allot at most that.",
        requested=own,
        remaining=common,
        largest=common,
    )


def late_refusal(own: Guarantee, *, who: str) -> LedgerError:
    """Earlier charges that count for an analyst do not fit the budget to allot."""
    return LedgerError(
        f"what was charged in the name of {who}, or in nobody's and so perhaps told to {who}, does not fit a budget of"
        f" {own.figures}. Allot more, or leave {who} without a budget of their own; nothing was allotted."
    )


def _amount(guarantee: Guarantee) -> Fraction:
    """The number of a guarantee that is spent."""
    amount: Fraction = next(guarantee.numbers[n] for n in ("epsilon", "rho", "mu") if n in guarantee.numbers)
    return amount


def _about(guarantee: Guarantee, budget: Guarantee) -> Guarantee:
    return replace(guarantee, relation=budget.relation, unit=budget.unit)


def _zero(budget: Guarantee) -> Guarantee:
    zeros: dict[str, Any] = {name: Fraction(0) for name in budget.numbers if name not in ("order", "omega")}
    return replace(budget, **zeros)
