"""Where on its privacy curve an event enters the basic filter.

The basic filter adds up (ε, δ). A step that is not ε-DP, or whose curve lies far below the sum of its parts, enters at
one point of its certified curve. Any point is sound, as long as it is fixed before the step runs; the ledger stores it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from deniable._checks import exact
from deniable.accounting.filters import FilterEntry, Filters, FilterTotals, cost, families_of, room_left
from deniable.errors import InvalidArgument, NotSupported
from deniable.events import Event
from deniable.guarantees import ApproxDP, Profile, PureDP
from deniable.numerics.exact import ceiling
from deniable.numerics.rounding import float_below

_STEP = 10**12


def basic_room(filters: Filters, totals: FilterTotals, *, alone: bool = False) -> ApproxDP | None:
    """What the basic filter can still add.

    With `alone`, and before the first charge: what it could add if the first charge chose the basic filter alone.
    """
    if alone and totals.choice == "open" and filters.alone is not None:
        return ApproxDP(filters.alone.sums[0].limit, filters.alone.cap)
    for family, tally in zip(families_of(filters, totals), totals.tallies, strict=True):
        for sum_filter, amount in room_left(family, tally):
            if sum_filter.kind == "epsilon":
                return ApproxDP(amount, family.cap - tally.delta)
    return None


def entry_within(event: Event, rooms: Iterable[ApproxDP | None]) -> FilterEntry | None:
    """The event at the point of its curve that fits every room with the least ε; None when no point fits."""
    all_rooms = list(rooms)
    known_rooms = [room for room in all_rooms if room is not None]
    if not known_rooms or len(known_rooms) < len(all_rooms):
        return None
    epsilon, delta = min(r.epsilon for r in known_rooms), min(r.delta for r in known_rooms)
    if not delta:
        # Without a δ only the loss itself counts, and the plain sum of ε is its bound.
        return None
    profile = curve(event)
    if profile is None or not _keeps(profile, epsilon, delta):
        return None
    least = profile.epsilon(float_below(delta))
    if math.isfinite(least):
        epsilon = min(epsilon, ceiling(Fraction(least), grid=_STEP))
    return FilterEntry(event, ApproxDP(epsilon, delta))


def entry_at(event: Event, at: ApproxDP | PureDP) -> FilterEntry:
    """The event entered at the (ε, δ) of the caller, after a check that the event keeps that promise."""
    point = at if isinstance(at, ApproxDP) else ApproxDP(at.epsilon, 0)
    if _is_plain(event, point):
        return FilterEntry(event, ApproxDP(point.epsilon, point.delta))
    profile = curve(event)
    if profile is None or not _keeps(profile, point.epsilon, point.delta):
        raise InvalidArgument("at", at, "a promise that the event keeps", "account(event).epsilon(delta) gives one.")
    return FilterEntry(event, ApproxDP(point.epsilon, point.delta))


def _is_plain(event: Event, point: ApproxDP) -> bool:
    """Whether the sums of the event's parts already keep the promise."""
    try:
        sums = cost(event)
    except NotSupported:
        return False
    return sums.epsilon is not None and sums.epsilon <= point.epsilon and sums.delta <= point.delta


def _keeps(profile: Profile, epsilon: Fraction, delta: Fraction) -> bool:
    if not delta:
        # A δ too small for a float is not 0: only the largest loss itself proves a pure promise.
        least = profile.epsilon(0)
        return math.isfinite(least) and max(Fraction(least), exact(least)) <= epsilon
    # The curve falls in ε and its value is a proven upper end: a float ε that is not above the exact one is sound.
    return Fraction(profile.delta(float_below(epsilon))) <= delta


@lru_cache(maxsize=256)
def curve(event: Event) -> Profile | None:
    """The certified curve of an event; None when the accountant has none for it."""
    from deniable.accounting.accountant import account

    try:
        return account(event)
    except NotSupported:
        return None
