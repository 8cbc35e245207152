"""What one event adds to each sum that a filter keeps: proven upper values, as exact fractions.

An event with a δ of its own is a mixture. For neighbours with output laws P and Q,

    P = (1 − δ) P′ + δ P″    and    Q = (1 − δ) Q′ + δ Q″,

and the other numbers of a `Cost` bound the pair (P′, Q′), in both orders: `epsilon` its loss, `rho` its zCDP parameter
(D_α ≤ ρα for every α > 1), `renyi` its Rényi divergences at given orders. An (ε, δ)-DP step has such a split with an
ε-DP pair: it is a post-processing of the leaky randomized response (Kairouz, Oh and Viswanath 2015, in the proof of
Theorem 3.3; Murtagh and Vadhan 2016, section 3). One event has one split, so the same δ serves every sum. None says
that no finite bound is known here.

Events are composed by `fold` alone; `rules` says what one step adds, once.

>>> from deniable.events import Laplace
>>> cost(Laplace(scale=4) * 2).epsilon
Fraction(1, 2)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from deniable.accounting.fold import Folded, fold
from deniable.accounting.rules import rule_of
from deniable.conversions import formulas
from deniable.events import Event
from deniable.guarantees import RDP, TCDP, ZCDP, Guarantee
from deniable.numerics.exact import ceiling

Orders = tuple[Fraction, ...]
"""Rényi orders, above 1. Whole ones are exact for the sampled Gaussian."""


@dataclass(frozen=True)
class Cost:
    """One event's addends. `renyi` goes with the orders that were asked for."""

    delta: Fraction = Fraction(0)
    epsilon: Fraction | None = None
    rho: Fraction | None = None
    renyi: tuple[Fraction | None, ...] = ()

    def plus(self, other: Cost, count: int = 1) -> Cost:
        """And another, count times: every number adds up (docs/ledger.md has the theorem of each sum)."""

        def add(a: Fraction | None, b: Fraction | None) -> Fraction | None:
            return None if a is None or b is None else a + b * count

        return Cost(
            self.delta + other.delta * count,
            add(self.epsilon, other.epsilon),
            add(self.rho, other.rho),
            tuple(map(add, self.renyi, other.renyi)),
        )


@lru_cache(maxsize=4096)
def cost(event: Event, orders: Orders = ()) -> Cost:
    """The addends of an event. Numbers that are not rational are rounded up to 30 decimals."""
    return total_cost(_folded(event), orders)


@lru_cache(maxsize=4096)
def mu_squared(event: Event) -> Fraction | None:
    """μ² of an event that is Gaussian through and through, exactly; None for any other.

    The filter Σμ² ≤ μ² is valid with parameters chosen adaptively (Smith and Thakurta 2022, "Fully adaptive composition
    for Gaussian differential privacy"; docs/ledger.md has a proof by a stopped Brownian motion).
    """
    found = _folded(event)
    return None if found.steps or found.leaks or found.renyi else found.mu_squared


@lru_cache(maxsize=4096)
def rho_below(event: Event, omega: Fraction) -> Fraction | None:
    """ρ with D_α ≤ ρα at the orders below ω; None when a part has no such bound, or a δ of its own."""
    found = _folded(event)
    reaching = [(g, n) for g, n in found.renyi if isinstance(g, TCDP) and g.omega >= omega]
    rest = total_cost(replace(found, renyi=tuple(each for each in found.renyi if each not in reaching)))
    if rest.delta or rest.rho is None:
        return None
    return sum((g.rho * n for g, n in reaching), rest.rho)


@lru_cache(maxsize=4096)
def _folded(event: Event) -> Folded:
    """Every sum of a ledger asks for the same event."""
    return fold(event)


def total_cost(found: Folded, orders: Orders = ()) -> Cost:
    """Everything that `fold` found, added up."""
    zero = Fraction(0)
    total = Cost(sum((delta * n for delta, n in found.leaks), zero), zero, zero, (zero,) * len(orders))
    if found.mu_squared:
        # Exact for the Gaussian: ρ = μ²/2 (Bun and Steinke 2016, Proposition 1.6); its loss is unbounded.
        total = total.plus(concentrated(found.mu_squared / 2, orders))
    for step, count in found.steps:
        total = total.plus(rule_of(step).cost(step, orders), count)
    for guarantee, count in found.renyi:
        total = total.plus(_known(guarantee, orders), count)
    return total


def pure(epsilon: Fraction, orders: Orders, delta: Fraction = Fraction(0)) -> Cost:
    """An ε-DP step, or with its δ an (ε, δ)-DP step."""
    return Cost(
        delta,
        epsilon,
        ceiling(formulas.pure_rho(epsilon)),
        tuple(ceiling(formulas.response_divergence(epsilon, order)) for order in orders),
    )


def concentrated(rho: Fraction, orders: Orders) -> Cost:
    """A ρ-zCDP step, of which no ε is known."""
    return Cost(Fraction(0), None, rho, tuple(rho * order for order in orders))


def _known(guarantee: Guarantee, orders: Orders) -> Cost:
    """What a promise about Rényi divergences says at each order."""
    match guarantee:
        case ZCDP(rho=rho):
            return concentrated(rho, orders)
        case TCDP(rho=rho, omega=omega):
            return Cost(renyi=tuple(rho * order if order < omega else None for order in orders))
        case RDP(order=known, epsilon=epsilon):
            # D_α does not decrease in α: the bound holds at every lower order.
            return Cost(renyi=tuple(epsilon if order <= known else None for order in orders))
    return unknown(orders)


def unknown(orders: Orders) -> Cost:
    """A step of which no finite bound is known."""
    return Cost(renyi=(None,) * len(orders))


def least(a: Cost, b: Cost) -> Cost:
    """The better number of two bounds on one pair, each by each."""

    def least(x: Fraction | None, y: Fraction | None) -> Fraction | None:
        return y if x is None else x if y is None else min(x, y)

    return Cost(a.delta, least(a.epsilon, b.epsilon), least(a.rho, b.rho), tuple(map(least, a.renyi, b.renyi)))
