"""What one event adds to each sum that a filter keeps: proven upper values, as exact fractions.

An event with a δ of its own is a mixture. For neighbours with output laws P and Q,

    P = (1 − δ) P′ + δ P″    and    Q = (1 − δ) Q′ + δ Q″,

and the other numbers of a `Cost` bound the pair (P′, Q′), in both orders: `epsilon` its loss, `rho` its zCDP parameter
(D_α ≤ ρα for every α > 1), `renyi` its Rényi divergences at given orders. An (ε, δ)-DP step has such a split with an
ε-DP pair: it is a post-processing of the leaky randomized response (Kairouz, Oh and Viswanath 2015, in the proof of
Theorem 3.3; Murtagh and Vadhan 2016, section 3). One event has one split, so the same δ serves every sum. None says
that no finite bound is known here.

Events are composed by `fold` alone; a rule below speaks of one step, once.

>>> from deniable.events import Laplace
>>> cost(Laplace(scale=4) * 2).epsilon
Fraction(1, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from deniable.accounting.fold import Folded, fold
from deniable.conversions import formulas
from deniable.errors import NotSupported
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Gaussian,
    Laplace,
    RandomizedResponse,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
    ToReplace,
)
from deniable.guarantees import RDP, TCDP, ZCDP, Guarantee, PureDP
from deniable.numerics.exact import ceiling
from deniable.units import Relation

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
    return _total(_folded(event), orders)


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
    rest = _total(replace(found, renyi=tuple(each for each in found.renyi if each not in reaching)), ())
    if rest.delta or rest.rho is None:
        return None
    return sum((g.rho * n for g, n in reaching), rest.rho)


@lru_cache(maxsize=4096)
def _folded(event: Event) -> Folded:
    """Every sum of a ledger asks for the same event."""
    return fold(event)


def _total(found: Folded, orders: Orders) -> Cost:
    """Everything that `fold` found, added up."""
    zero = Fraction(0)
    total = Cost(sum((delta * n for delta, n in found.leaks), zero), zero, zero, (zero,) * len(orders))
    if found.mu_squared:
        # Exact for the Gaussian: ρ = μ²/2 (Bun and Steinke 2016, Proposition 1.6); its loss is unbounded.
        total = total.plus(concentrated(found.mu_squared / 2, orders))
    for step, count in found.steps:
        total = total.plus(_step(step, orders), count)
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
    return _unknown(orders)


def _unknown(orders: Orders) -> Cost:
    return Cost(renyi=(None,) * len(orders))


def _step(step: Event, orders: Orders) -> Cost:
    """The addends of one step."""
    rule = _RULES.get(type(step))
    if rule is None:
        raise NotSupported(
            f"no filter knows {type(step).__name__}; charge it as Claimed(guarantee) with a proven guarantee."
        )
    return rule(step, orders)


def _claimed(step: Claimed, orders: Orders) -> Cost:
    guarantee = step.guarantee
    return pure(guarantee.epsilon, orders) if isinstance(guarantee, PureDP) else _unknown(orders)


def _laplace(step: Laplace | DiscreteLaplace, orders: Orders) -> Cost:
    return pure(step.sensitivity / step.scale, orders)


def _discrete_gaussian(step: DiscreteGaussian, orders: Orders) -> Cost:
    # Canonne, Kamath and Steinke 2020, Theorem 4: an upper bound, met at whole orders.
    return concentrated((step.sensitivity / step.scale) ** 2 / 2, orders)


def _chosen(step: ExponentialMechanism, orders: Orders) -> Cost:
    return _least(pure(step.epsilon, orders), concentrated(formulas.exponential_rho(step.epsilon), orders))


def _sampled(step: Sampled, orders: Orders) -> Cost:
    inner, rate = step.event, step.rate
    if isinstance(inner, Gaussian) and step.relation is not Relation.REPLACE:
        # Mironov, Talwar and Zhang 2019, sections 3.1 to 3.3: exact at whole orders, and the larger of both directions.
        ratio = (inner.sensitivity / inner.scale) ** 2
        return Cost(renyi=tuple(ceiling(formulas.sampled_gaussian_divergence(ratio, rate, order)) for order in orders))
    plain = cost(inner, orders)
    if plain.epsilon is not None and step.relation is not Relation.REPLACE:
        # Balle, Barthe and Gaboardi 2018, Theorem 8: (ln(1 + q(e^ε − 1)), qδ).
        return pure(ceiling(formulas.amplified_epsilon(plain.epsilon, rate)), orders, plain.delta * rate)
    return _mixed(plain, rate, orders)


def _without_replacement(step: SampledWithoutReplacement, orders: Orders) -> Cost:
    plain, rate = cost(step.event, orders), Fraction(step.batch, step.size)
    if plain.epsilon is not None:
        # Balle, Barthe and Gaboardi 2018, Theorem 9: under replacement, (ln(1 + (m/n)(e^ε − 1)), (m/n)δ).
        return pure(ceiling(formulas.amplified_epsilon(plain.epsilon, rate)), orders, plain.delta * rate)
    return _mixed(plain, rate, orders)


def _mixed(plain: Cost, rate: Fraction, orders: Orders) -> Cost:
    """Sampling without amplification. Who is kept does not depend on the data, and both laws are mixtures over it.

    Rényi divergences and ε stay, by joint quasi-convexity; the differing unit is kept with probability q, so δ becomes
    qδ. Beside a δ only the ε of the split is known to survive.
    """
    if not plain.delta:
        return plain
    return _unknown(orders) if plain.epsilon is None else pure(plain.epsilon, orders, plain.delta * rate)


def _group(step: ForGroup, orders: Orders) -> Cost:
    plain, size = cost(step.event, orders), step.members
    if plain.epsilon is not None:
        delta = ceiling(formulas.group_delta(plain.epsilon, plain.delta, size))
        return pure(plain.epsilon * size, orders, delta)
    if plain.rho is not None and not plain.delta:
        # Bun and Steinke 2016, Proposition 1.9.
        return concentrated(plain.rho * size**2, orders)
    return _unknown(orders)


def _least(a: Cost, b: Cost) -> Cost:
    """The better number of two bounds on one pair, each by each."""

    def least(x: Fraction | None, y: Fraction | None) -> Fraction | None:
        return y if x is None else x if y is None else min(x, y)

    return Cost(a.delta, least(a.epsilon, b.epsilon), least(a.rho, b.rho), tuple(map(least, a.renyi, b.renyi)))


_RULES: dict[type[Event], Callable[..., Cost]] = {
    Laplace: _laplace,
    DiscreteLaplace: _laplace,
    DiscreteGaussian: _discrete_gaussian,
    RandomizedResponse: lambda step, orders: pure(step.epsilon, orders),
    ExponentialMechanism: _chosen,
    Claimed: _claimed,
    Sampled: _sampled,
    SampledWithoutReplacement: _without_replacement,
    # One local report is ε-DP and the order is chosen without looking at the data. Amplification has its own analysis.
    Shuffled: lambda step, orders: cost(step.event, orders),
    ForGroup: _group,
    # Remove one, add another: a path of two neighbouring steps, so the bound of a group of two.
    ToReplace: lambda step, orders: _group(ForGroup(step.event, 2), orders),
}
