"""The odometer against an adversary who chooses every event and the moment to stop, and against 120-digit numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import mpmath
import pytest

from deniable.accounting import account
from deniable.accounting.filters import FilterEntry, Odometer
from deniable.accounting.filters.odometer import ORDERS, WEIGHT
from deniable.accounting.filters.totals import Tally
from deniable.events import Claimed, Event, Gaussian, Laplace, RandomizedResponse, dpsgd
from deniable.guarantees import ApproxDP, PureDP
from tests.accounting.filters.exact import real

Menu = tuple[tuple[Fraction, Fraction], ...]
Reading = Callable[[tuple[int, ...]], float]
TENTH, FIFTH, HALF = Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)


def worst_excess(menu: Menu, rounds: int, reading: Reading) -> float:
    """sup over strategies and stopping times of P(S) − E_Q[e^reading; S], by backward induction.

    Every answer is a leaky randomized response, the worst step of its (ε, δ); a reading depends on how often each item
    of the menu was charged.
    """
    answers = []
    for epsilon, delta in menu:
        odds, kept = math.exp(epsilon), 1 - float(delta)
        answers.append([(kept * odds / (1 + odds), kept / (1 + odds)), (kept / (1 + odds), kept * odds / (1 + odds)),
                        (float(delta), 0.0), (0.0, float(delta))])  # fmt: skip
    read = cache(reading)

    @cache
    def value(counts: tuple[int, ...], p: float, q: float) -> float:
        if not p:
            return 0.0
        level = read(counts)
        best = 0.0 if level == math.inf else max(0.0, p - math.exp(level) * q)
        if sum(counts) == rounds:
            return best
        for place, outcomes in enumerate(answers):
            grown = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            best = max(best, sum(value(grown, round(p * a, 14), round(q * b, 14)) for a, b in outcomes))
        return best

    return value((0,) * len(menu), 1.0, 1.0)


def read_odometer(menu: Menu, delta: Fraction) -> Reading:
    def reading(counts: tuple[int, ...]) -> float:
        odometer = Odometer.start(delta)
        for (epsilon, own), count in zip(menu, counts, strict=True):
            odometer = odometer.after(FilterEntry(Claimed(ApproxDP(epsilon, own))), count)
        return math.inf if odometer.epsilon is None else float(odometer.epsilon)

    return reading


GAMES: list[tuple[Menu, int, Fraction]] = [
    (((HALF, Fraction(0)), (FIFTH, Fraction(0))), 9, Fraction(3, 10)),
    (((Fraction(1), Fraction(0)), (Fraction(1, 4), Fraction(0))), 8, Fraction(1, 20)),
    (((TENTH, Fraction(1, 50)), (Fraction(1, 4), Fraction(0))), 7, FIFTH),
    (((Fraction(2), Fraction(1, 25)), (TENTH, Fraction(0))), 6, Fraction(2, 5)),
]


@pytest.mark.parametrize(("menu", "rounds", "delta"), GAMES)
def test_no_strategy_and_no_moment_to_stop_gets_more_than_delta(menu: Menu, rounds: int, delta: Fraction) -> None:
    assert worst_excess(menu, rounds, read_odometer(menu, delta)) <= float(delta) + 1e-9


def test_the_curve_of_what_was_charged_is_no_odometer() -> None:
    """The negative control: composing the charged events at the same δ after each round is beaten by stopping."""
    menu: Menu = ((HALF, Fraction(0)),)

    def composed(counts: tuple[int, ...]) -> float:
        return account(RandomizedResponse(HALF) * counts[0]).epsilon(0.05) if counts[0] else 0.0

    assert worst_excess(menu, 10, composed) > 0.06
    assert worst_excess(menu, 10, read_odometer(menu, Fraction(1, 20))) <= 0.05


def test_own_deltas_beyond_the_cap_end_the_odometer() -> None:
    """Half of δ is theirs, and the other half is no use to them."""
    odometer = Odometer.start(TENTH).after(FilterEntry(Claimed(ApproxDP(HALF, Fraction(1, 20)))))
    assert odometer.epsilon is not None
    assert odometer.after(FilterEntry(Claimed(ApproxDP(HALF, Fraction(1, 10**9))))).epsilon is None


@pytest.mark.parametrize(
    ("scales", "lost", "power"),
    [([3], None, 6), ([1, "0.2"], 0, 1), (["0.01"], None, 9), ([40, 40], 23, 12), ([2], 7, 3)],
)
def test_the_reading_is_the_least_that_the_mixture_allows(scales: list[float], lost: int | None, power: int) -> None:
    """1 − e^(ε−y) ≤ δ′M(y) for every y: the least such ε is the maximum of y + ln(1 − δ′M(y)), a concave function."""
    odometer = Odometer.start(Fraction(1, 10**power))
    for scale in scales:
        odometer = odometer.after(FilterEntry(Gaussian(Fraction(scale))))
    amounts = tuple(None if place == lost else amount for place, amount in enumerate(odometer.totals.amounts[1:]))
    reading = Odometer(odometer.delta, Tally(Fraction(0), (None, *amounts))).epsilon
    known = [(order - 1, amount) for order, amount in zip(ORDERS, amounts, strict=True) if amount is not None]
    with mpmath.workdps(30):
        terms = [(real(rate), real(amount)) for rate, amount in known]
        share = real(odometer.delta / 2 * WEIGHT)

        def slope(y: mpmath.mpf) -> mpmath.mpf:
            return 1 - share * sum((1 + rate) * mpmath.exp(rate * (y - amount)) for rate, amount in terms)

        low, high = mpmath.mpf(0), min(amount - mpmath.log(share) / rate for rate, amount in terms)
        for _ in range(70):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        mixture = sum(mpmath.exp(rate * (low - amount)) for rate, amount in terms)
        least = low + mpmath.log1p(-share * mixture)
        assert reading is not None
        assert least <= real(reading) <= least * (1 + mpmath.mpf(10) ** -9)


@pytest.mark.parametrize(
    ("event", "count", "looser"),
    [
        (Gaussian(scale=10), 100, 1.25),
        (Laplace(scale=10), 100, 1.25),
        (dpsgd(noise_multiplier=1.1, rate=0.004, steps=1000), 14, 1.25),
        (Gaussian(scale=1), 100, 1.15),
    ],
)
def test_the_odometer_is_near_the_curve_of_a_run_that_was_planned(event: Event, count: int, looser: float) -> None:
    """It may not be below it: a fixed plan is one of the strategies."""
    reading = Odometer.start(Fraction(1, 10**6)).after(FilterEntry(event), count).epsilon
    assert reading is not None
    planned = account(event * count).epsilon_bracket(1e-6)
    assert planned.lower <= float(reading) <= looser * planned.upper


def test_without_a_delta_it_adds_up_epsilon() -> None:
    odometer = Odometer.start(Fraction(0)).after(FilterEntry(Laplace(scale=4)), 3)
    assert odometer.epsilon == Fraction(3, 4)
    assert odometer.after(FilterEntry(Gaussian(scale=4))).epsilon is None


def test_an_event_without_divergences_enters_at_its_point() -> None:
    event = Claimed(PureDP(1)).for_group(2) + Claimed(ApproxDP(1, 1e-3)).for_group(3)
    at = ApproxDP(6, Fraction(1, 20))
    assert Odometer.start(TENTH).after(FilterEntry(event, at)).epsilon is not None
