"""The running totals of a list of filters, and the one decision: does the next event fit?

Totals only grow. A filter accepts to the end exactly when its final total is within its limit, so the rule is: charge
an event when, after adding it to *every* total, at least one sum is within its limit and its family's own δ within its
cap. A sum to which an event cannot be added (no finite value) is spent for good, and so is a sum that passed its limit
while another one still accepted. A refused event adds nothing.

>>> from deniable.events import Laplace
>>> from deniable.guarantees import PureDP
>>> from deniable.accounting.filters.lists import filters_for
>>> filters = filters_for(PureDP(0.3))
>>> totals = nothing(filters)
>>> for _ in range(3):
...     totals = after(filters, totals, FilterEntry(Laplace(scale=10)))
>>> accepts(filters, totals), accepts(filters, after(filters, totals, FilterEntry(Laplace(scale=10))))
(True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from deniable._checks import read_fraction
from deniable.accounting.filters.costs import Cost, cost, mu_squared, rho_below
from deniable.accounting.filters.lists import Family, Filters, SumFilter
from deniable.errors import NotSupported
from deniable.events import Event
from deniable.guarantees import ApproxDP
from deniable.numerics.exact import ceiling

LONGEST = 1024
"""A total whose denominator has more bits than this is rounded up to a multiple of 1/ROUNDED: totals stay short."""
ROUNDED = 10**60


@dataclass(frozen=True)
class FilterEntry:
    """An event, and the (ε, δ) at which it enters the basic filter when that is not its own."""

    event: Event
    at: ApproxDP | None = None


@dataclass(frozen=True)
class Tally:
    """One family's totals: the events' own δ, and every sum; None for a sum that no event can be added to any more."""

    delta: Fraction
    amounts: tuple[Fraction | None, ...]

    def __add__(self, other: Tally) -> Tally:
        return Tally(_short(self.delta + other.delta), tuple(map(_add, self.amounts, other.amounts)))

    def shorten(self) -> Tally:
        """The same, with long fractions rounded up."""
        return Tally(_short(self.delta), tuple(None if a is None else _short(a) for a in self.amounts))

    def times(self, count: int) -> Tally:
        """The same addends, count times."""
        return Tally(self.delta * count, tuple(None if a is None else a * count for a in self.amounts))


@dataclass(frozen=True)
class FilterTotals:
    """All tallies. `choice` is what the first event chose: the families of the list, or the one that stands alone."""

    tallies: tuple[Tally, ...]
    choice: Literal["open", "list", "alone"] = "open"

    def shorten(self) -> FilterTotals:
        """The same, with long fractions rounded up."""
        return FilterTotals(tuple(tally.shorten() for tally in self.tallies), self.choice)

    def to_plain(self) -> dict[str, Any]:
        """As JSON: fractions are strings."""
        tallies = [[str(t.delta), [None if a is None else str(a) for a in t.amounts]] for t in self.tallies]
        return {"choice": self.choice, "tallies": tallies}

    @staticmethod
    def from_plain(found: dict[str, Any]) -> FilterTotals:
        """What `to_plain` wrote."""
        tallies = tuple(
            Tally(read_fraction(delta), tuple(None if a is None else read_fraction(a) for a in amounts))
            for delta, amounts in found["tallies"]
        )
        return FilterTotals(tallies, found["choice"])


def nothing(filters: Filters) -> FilterTotals:
    """The totals before the first event."""
    return FilterTotals(tuple(_empty(f) for f in filters.families))


def replay(
    filters: Filters, entries: Sequence[tuple[FilterEntry, int]], *, choice: Literal["list", "alone"] | None = None
) -> FilterTotals:
    """The totals of entries that were charged, each so many times, in exact fractions; the first one made the choice.

    They are what `admitted` would have added up one by one, but for the rounding of long fractions. Totals only grow:
    every step was admitted exactly when `accepts` says yes to the end.

    >>> from deniable.events import Laplace
    >>> from deniable.guarantees import PureDP
    >>> from deniable.accounting.filters.lists import filters_for
    >>> replay(filters_for(PureDP(1)), [(FilterEntry(Laplace(scale=4)), 3)]).tallies[0].amounts
    (Fraction(3, 4),)
    """
    if not entries:
        return nothing(filters)
    if choice is None:
        first = admitted(filters, nothing(filters), entries[0][0])
        choice = "alone" if first is not None and first.choice == "alone" else "list"
    tallies = []
    for family in families_of(filters, FilterTotals((), choice)):
        delta: Fraction = Fraction(0)
        amounts: list[Fraction | None] = [Fraction(0)] * len(family.sums)
        for entry, count in entries:
            each = addends(family, entry).times(count)
            delta += each.delta
            amounts = [None if a is None or b is None else a + b for a, b in zip(amounts, each.amounts, strict=True)]
        tallies.append(Tally(delta, tuple(amounts)))
    return FilterTotals(tuple(tallies), choice)


def families_of(filters: Filters, totals: FilterTotals) -> tuple[Family, ...]:
    """The families that are being kept."""
    return (filters.alone,) if totals.choice == "alone" and filters.alone is not None else filters.families


def admitted(filters: Filters, totals: FilterTotals, entry: FilterEntry) -> FilterTotals | None:
    """The totals with the entry added, or None when it does not fit. The first entry also makes the choice."""
    next_ones = after(filters, totals, entry)
    if accepts(filters, next_ones):
        return next_ones
    if totals.choice == "open" and filters.alone is not None:
        alone = FilterTotals((addends(filters.alone, entry),), "alone")
        return alone if accepts(filters, alone) else None
    return None


def after(filters: Filters, totals: FilterTotals, entry: FilterEntry) -> FilterTotals:
    """Every total with the entry added, fitting or not."""
    families = families_of(filters, totals)
    tallies = tuple(tally + addends(family, entry) for family, tally in zip(families, totals.tallies, strict=True))
    return FilterTotals(tallies, "list" if totals.choice == "open" else totals.choice)


def accepts(filters: Filters, totals: FilterTotals) -> bool:
    """Whether some sum is within its limit, and its family's own δ within its cap."""
    families = families_of(filters, totals)
    return any(room_left(family, tally) for family, tally in zip(families, totals.tallies, strict=True))


def room_left(family: Family, tally: Tally) -> tuple[tuple[SumFilter, Fraction], ...]:
    """The sums of a family that accept, each with how much it can still add; empty when the family is spent."""
    if tally.delta > family.cap:
        return ()
    pairs = zip(family.sums, tally.amounts, strict=True)
    return tuple((s, s.limit - amount) for s, amount in pairs if amount is not None and amount <= s.limit)


def addends(family: Family, entry: FilterEntry) -> Tally:
    """What an entry adds to one family."""
    if family.sums[0].kind == "epsilon" and entry.at is not None:
        return Tally(entry.at.delta, (entry.at.epsilon,))
    try:
        found = cost(entry.event, family.orders)
    except NotSupported:
        return Tally(Fraction(0), (None,) * len(family.sums))
    by_order = dict(zip(family.orders, found.renyi, strict=True))
    amounts = tuple(_amount(s, entry.event, found, by_order) for s in family.sums)
    delta = Fraction(0) if family.sums[0].kind == "mu_squared" else found.delta
    return Tally(delta, amounts)


def _amount(s: SumFilter, event: Event, found: Cost, by_order: dict[Fraction, Fraction | None]) -> Fraction | None:
    match s.kind:
        case "epsilon":
            return found.epsilon
        case "rho":
            return found.rho
        case "renyi":
            return None if s.order is None else by_order[s.order]
        case "truncated":
            return None if s.order is None else rho_below(event, s.order)
        case "mu_squared":
            return mu_squared(event)


def _empty(family: Family) -> Tally:
    return Tally(Fraction(0), (Fraction(0),) * len(family.sums))


def _add(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else _short(a + b)


def _short(total: Fraction) -> Fraction:
    return total if total.denominator.bit_length() <= LONGEST else ceiling(total, grid=ROUNDED)
