"""Who is let in: sums that were passed stay spent, and only a first request may choose."""

from __future__ import annotations

from fractions import Fraction

from deniable.accounting.filters import FilterEntry, FilterTotals, accepts, admitted, after, basic, filters_for, nothing
from deniable.events import Claimed, Gaussian, Laplace
from deniable.guarantees import ApproxDP, PureDP


def test_totals_are_text_and_back() -> None:
    filters = filters_for(ApproxDP(3, 1e-6))
    totals = after(filters, nothing(filters), FilterEntry(Gaussian(scale=3) + Laplace(scale=7)))
    assert FilterTotals.from_plain(totals.to_plain()) == totals


def test_a_sum_that_was_passed_stays_spent() -> None:
    filters = filters_for(ApproxDP(1, 1e-3))
    totals = admitted(filters, nothing(filters), FilterEntry(Laplace(scale=1000) * 1500))
    assert totals is not None
    assert totals.tallies[0].amounts == (Fraction(3, 2),)
    # The basic filter is spent, although this request alone would fit it.
    assert admitted(filters, totals, FilterEntry(Claimed(PureDP(0.99)))) is None
    assert admitted(filters, totals, FilterEntry(Laplace(scale=1000))) is not None


def test_an_event_that_cannot_be_added_ends_its_sum_for_good() -> None:
    filters = filters_for(ApproxDP(1, 1e-6))
    totals = admitted(filters, nothing(filters), FilterEntry(Gaussian(scale=50)))
    assert totals is not None
    assert totals.tallies[0].amounts == (None,)
    totals = after(filters, totals, FilterEntry(Laplace(scale=50)))
    assert totals.tallies[0].amounts == (None,)
    assert totals.tallies[1].amounts == (None,)
    assert accepts(filters, totals)


def test_only_a_first_request_may_choose_the_basic_filter_alone() -> None:
    filters = filters_for(ApproxDP(1, 1e-6))
    large = FilterEntry(Claimed(ApproxDP(0.5, 1e-6)))
    chosen = admitted(filters, nothing(filters), large)
    assert chosen is not None
    assert chosen.choice == "alone"
    later = admitted(filters, chosen, FilterEntry(Laplace(scale=2)))
    assert later is not None
    assert later.tallies[0].amounts == (Fraction(1),)
    first = admitted(filters, nothing(filters), FilterEntry(Laplace(scale=1000)))
    assert first is not None
    assert first.choice == "list"
    assert admitted(filters, first, large) is None


def test_the_events_own_delta_is_capped() -> None:
    filters = basic(ApproxDP(1, 1e-6))
    totals = admitted(filters, nothing(filters), FilterEntry(Claimed(ApproxDP(0.1, 1e-6))))
    assert totals is not None
    assert admitted(filters, totals, FilterEntry(Claimed(ApproxDP(0.1, 1e-20)))) is None
    assert admitted(filters, totals, FilterEntry(Laplace(scale=10))) is not None
