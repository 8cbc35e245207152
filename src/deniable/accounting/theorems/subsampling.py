"""Amplification by sampling. The relation and the scheme are part of each theorem.

| scheme | relation | function |
|---|---|---|
| Poisson: every unit on its own with probability q | ADD_REMOVE, ZERO_OUT | `sample_poisson` |
| uniform batch of m of n | REPLACE | `sample_batch` |
| either, Rényi divergence | any | `sample_rdp` |
| uniform batch, trade-off function | REPLACE | `sample_fdp` |

(ε, δ) becomes (ln(1 + q(e^ε − 1)), qδ) in the first two (Balle–Barthe–Gaboardi 2018, Theorems 8 and 9). For ε = O(1)
that is about qε; for large ε it is ε − ln(1/q). Batches cut from a shuffled epoch are neither scheme.

>>> from deniable.guarantees import ApproxDP
>>> print(sample_poisson(ApproxDP(1, 1e-6), rate=0.01))
ε ≤ 0.018, δ = 1e-8, one record added or removed
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from deniable import _checks
from deniable._checks import Number
from deniable.conversions.formulas import amplified_epsilon, log_mixture
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.guarantees import FDP, RDP, ApproxDP, PureDP, TradeOff
from deniable.guarantees.tradeoff import lower_hull
from deniable.numerics.exact import short_above
from deniable.units import Relation, single

Kind = TypeVar("Kind", PureDP, ApproxDP)


def sample_poisson(guarantee: Kind, *, rate: Number) -> Kind:
    """The step on a Poisson sample, add/remove or zero-out. Upper bound, exact at the level of the curve."""
    kept = _checks.rate("rate", rate)
    if guarantee.relation is Relation.REPLACE:
        raise UnitMismatch(
            "Poisson sampling amplifies ADD_REMOVE and ZERO_OUT promises; under REPLACE the promise alone is not enough"
            " (a sampled unit may be present or absent). State it under ADD_REMOVE and move with .to_replace()."
        )
    return _sampled(guarantee, kept)


def sample_batch(guarantee: Kind, *, batch: int, population: int) -> Kind:
    """The step on a uniform batch of fixed size, REPLACE. Upper bound."""
    people = _checks.count("population", population)
    drawn = _checks.count("batch", batch)
    if drawn > people:
        raise InvalidArgument("batch", batch, f"at most the population of {people}")
    _replaced(guarantee.relation)
    return _sampled(guarantee, Fraction(drawn, people))


def sample_rdp(guarantee: RDP, *, rate: Number) -> RDP:
    """D_α ≤ ln(1 − q + q·e^{(α−1)ε})/(α − 1), for a Poisson sample or a uniform batch. Upper bound.

    e^{(α−1)D_α} is an f-divergence, so it is jointly convex: two mixtures with weights 1 − q (the unit was not drawn:
    the same law on both sides) and q (it was: divergence at most ε) are at most the mixture of 1 and e^{(α−1)ε} apart.
    It loses against `renyi.sampled_gaussian_rdp` (q against q²), and needs nothing but the promise.
    """
    kept = _checks.rate("rate", rate)
    if kept == 1:
        return guarantee
    single(guarantee.unit, doing="sample")
    beyond = guarantee.order - 1
    cost = short_above(log_mixture(beyond * guarantee.epsilon, kept) / beyond)
    return RDP(guarantee.order, min(cost, guarantee.epsilon), relation=guarantee.relation, unit=guarantee.unit)


def sample_fdp(guarantee: FDP, *, batch: int, population: int) -> FDP:
    """C_p(f) = the convex hull of min(f_p, f_p⁻¹), f_p = p·f + (1 − p)(1 − α), p = m/n. Upper bound, exact arithmetic.

    Dong–Roth–Su 2019, Theorem 4.2: uniform batch, REPLACE.
    """
    people = _checks.count("population", population)
    drawn = _checks.count("batch", batch)
    if drawn > people:
        raise InvalidArgument("batch", batch, f"at most the population of {people}")
    _replaced(guarantee.relation)
    single(guarantee.unit, doing="sample")
    operated = sampling_operator(guarantee.tradeoff.symmetrized(), Fraction(drawn, people))
    return FDP(operated, relation=guarantee.relation, unit=guarantee.unit)


def sampling_operator(function: TradeOff, rate: Fraction) -> TradeOff:
    """C_p(f). The hull of the corners of f_p and of their reflection: both are piecewise linear."""
    mixed = TradeOff([(a, rate * b + (1 - rate) * (1 - a)) for a, b in function.corners])
    return TradeOff(lower_hull([*mixed.corners, *mixed.inverse().corners]))


def _replaced(relation: Relation) -> None:
    if relation is not Relation.REPLACE:
        raise UnitMismatch(
            f"a batch of fixed size is analysed under REPLACE only; this promise is under {relation.name}."
            " Use sample_poisson, or state the promise under REPLACE."
        )


def _sampled(guarantee: Kind, kept: Fraction) -> Kind:
    if kept == 1:
        return guarantee
    single(guarantee.unit, doing="sample")
    epsilon = short_above(amplified_epsilon(guarantee.epsilon, kept))
    numbers: dict[str, Any] = {"epsilon": min(epsilon, guarantee.epsilon)}
    if isinstance(guarantee, ApproxDP):
        numbers["delta"] = kept * guarantee.delta
    return replace(guarantee, **numbers)
