"""Filters: when to stop, if every next step may be chosen in the light of all answers so far.

A filter keeps running sums and says, before a step touches data, whether it fits. `filters_for(budget)` makes the list
that a ledger stores; `admitted` is the one decision. Everything is an exact fraction, and every number that is not
rational was rounded to the safe side. `Odometer` reads, at every time, an upper bound on what was charged so far. The
theorems stand in docs/ledger.md.

>>> from deniable.events import Laplace
>>> from deniable.guarantees import ApproxDP
>>> filters = filters_for(ApproxDP(3, 1e-6))
>>> totals = nothing(filters)
>>> for _ in range(3):
...     totals = admitted(filters, totals, FilterEntry(Laplace(scale=1)))
>>> admitted(filters, totals, FilterEntry(Laplace(scale=1))) is None
True
"""

from deniable.accounting.filters.costs import Cost, cost
from deniable.accounting.filters.lists import Family, Filters, SumFilter, basic, certify, filters_for
from deniable.accounting.filters.odometer import Odometer
from deniable.accounting.filters.totals import (
    FilterEntry,
    FilterTotals,
    Tally,
    accepts,
    addends,
    admitted,
    after,
    families_of,
    nothing,
    replay,
    room_left,
)

__all__ = [
    "Cost",
    "Family",
    "FilterEntry",
    "FilterTotals",
    "Filters",
    "Odometer",
    "SumFilter",
    "Tally",
    "accepts",
    "addends",
    "admitted",
    "after",
    "basic",
    "certify",
    "cost",
    "families_of",
    "filters_for",
    "nothing",
    "replay",
    "room_left",
]
