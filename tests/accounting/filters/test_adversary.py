"""The filters against an adversary who plays perfectly.

Every answer is a (leaky) randomized response, the worst step of its cost; the next request may depend on all answers.
Backward induction finds the largest hockey-stick divergence over all strategies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import pytest

from deniable.accounting.filters import (
    FilterEntry,
    Filters,
    FilterTotals,
    accepts,
    admitted,
    after,
    filters_for,
    nothing,
)
from deniable.events import Claimed
from deniable.guarantees import ApproxDP

Menu = tuple[tuple[Fraction, Fraction], ...]
Step = Callable[[Filters, FilterTotals, FilterEntry], FilterTotals | None]


def worst_delta(budget: ApproxDP, menu: Menu, rounds: int, decide: Step) -> float:
    """sup over strategies of P(S) − e^ε Q(S), for the ledger that `decide` runs."""
    filters = filters_for(budget)
    threshold = math.exp(budget.epsilon)

    def outcomes(epsilon: Fraction, delta: Fraction) -> list[tuple[float, float]]:
        odds, kept = math.exp(epsilon), 1 - float(delta)
        return [(kept * odds / (1 + odds), kept / (1 + odds)), (kept / (1 + odds), kept * odds / (1 + odds)),
                (float(delta), 0.0), (0.0, float(delta))]  # fmt: skip

    @cache
    def next_totals(totals: FilterTotals, epsilon: Fraction, delta: Fraction) -> FilterTotals | None:
        return decide(filters, totals, FilterEntry(Claimed(ApproxDP(epsilon, delta))))

    @cache
    def value(totals: FilterTotals, left: int, p: float, q: float) -> float:
        best = max(0.0, p - threshold * q)
        if left == 0 or q == 0.0 or p == 0.0:
            return best
        for epsilon, delta in menu:
            reached = next_totals(totals, epsilon, delta)
            if reached is not None:
                best = max(best, sum(value(reached, left - 1, p * a, q * b) for a, b in outcomes(epsilon, delta)))
        return best

    return value(nothing(filters), rounds, 1.0, 1.0)


GAMES = [
    (ApproxDP(1, 0.3), ((Fraction(1, 2), Fraction(0)), (Fraction(1, 5), Fraction(0)), (Fraction(1), Fraction(0))), 6),
    (ApproxDP(0.5, 0.2), ((Fraction(1, 10), Fraction(1, 50)), (Fraction(1, 4), Fraction(0))), 6),
    (ApproxDP(0.5, 0.4), ((Fraction(1, 3), Fraction(1, 25)), (Fraction(1, 10), Fraction(0))), 6),
    (ApproxDP(0.3, 0.5), ((Fraction(1, 3), Fraction(0)), (Fraction(1, 10), Fraction(1, 20))), 7),
]


@pytest.mark.parametrize(("budget", "menu", "rounds"), GAMES)
def test_no_strategy_gets_more_than_the_budget(budget: ApproxDP, menu: Menu, rounds: int) -> None:
    assert worst_delta(budget, menu, rounds, admitted) <= float(budget.delta) + 1e-12


def test_the_adversary_beats_a_ledger_that_forgets_what_other_filters_let_through() -> None:
    """The negative control: a filter that does not count the charges that another one accepted."""

    def forgetful(filters: Filters, totals: FilterTotals, entry: FilterEntry) -> FilterTotals | None:
        reached = after(filters, totals, entry)
        for index in range(len(reached.tallies)):
            one = Filters((filters.families[index],))
            if accepts(one, FilterTotals((reached.tallies[index],), "list")):
                kept = list(totals.tallies)
                kept[index] = reached.tallies[index]
                return FilterTotals(tuple(kept), "list")
        return None

    budget, menu, rounds = ApproxDP(0.3, 0.02), ((Fraction(3, 10), Fraction(0)), (Fraction(1, 10), Fraction(0))), 6
    assert worst_delta(budget, menu, rounds, admitted) <= 0.02 + 1e-12
    assert worst_delta(budget, menu, rounds, forgetful) > 0.02


@pytest.mark.parametrize("first", [0.3, 0.6, 0.9])
def test_adaptive_gaussians_stay_within_the_gaussian_filter(first: float) -> None:
    """Two Gaussian answers with Σμ² ≤ 1, the second asked only when the first looks revealing: never above N(0, 1)."""
    second = math.sqrt(1 - first * first)
    epsilon = 0.7

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    def delta_of(mu: float, level: float) -> float:
        """∫ (p − e^level q)_+ for N(μ, 1) against N(0, 1)."""
        return tail(level / mu - mu / 2) - math.exp(level) * tail(level / mu + mu / 2)

    def value(threshold: float) -> float:
        total, step, y = 0.0, 0.005, -12.0
        while y < 12.0:
            p = math.exp(-((y - first) ** 2) / 2) / math.sqrt(2 * math.pi)
            loss = first * y - first * first / 2
            gain = delta_of(second, epsilon - loss) if y > threshold else max(0.0, 1 - math.exp(epsilon - loss))
            total += step * p * gain
            y += step
        return total

    whole = delta_of(1.0, epsilon)
    for threshold in (-12.0, -1.0, 0.0, 0.5, 1.0, 2.0, 12.0):
        assert value(threshold) <= whole + 1e-6
    assert value(-12.0) == pytest.approx(whole, abs=1e-5)
