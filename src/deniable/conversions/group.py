"""Moves between promises: from one unit to groups of k, from one relation to another, through post-processing.

**Groups.** What a promise about one unit implies for k units.

Neighbours that differ in k units are joined by a path of k single changes. A group of 1 is the promise itself.

| kind | k units | mark |
|---|---|---|
| ε | kε | exact |
| (ε, δ) | (kε, δ(e^{kε} − 1)/(e^ε − 1)) | upper bound |
| ρ-zCDP | k²ρ | upper bound (Bun–Steinke 2016, Prop. 1.9) |
| (ρ, ω)-tCDP | (k²ρ, ω/k) | upper bound (proof below) |
| (α, ε)-RDP, k ≤ 2^c, α ≥ 2^{c+1} | (α/2^c, 3^c ε) | upper bound (Mironov 2017, Prop. 2) |
| μ-GDP | kμ | exact (Dong–Roth–Su 2019, Theorem 2.14) |
| f-DP | 1 − (1 − f)^{∘k} | upper bound (the same theorem) |

tCDP. Hölder gives D_α(P‖Q) ≤ kα/(kα − 1)·D_{(kα−1)/(k−1)}(P‖R) + D_{kα}(R‖Q). If R is one step from Q and k − 1 steps
from P, induction bounds the first divergence by (k − 1)²ρ·(kα − 1)/(k − 1) as long as (k − 1)·(kα − 1)/(k − 1) < ω, and
the second by ρkα as long as kα < ω; they add up to k²ρα.

>>> from deniable.guarantees import ApproxDP, GDP
>>> print(for_group(GDP(0.5), 3))
μ ≤ 1.50, a group of 3 records added or removed
>>> print(for_group(ApproxDP(0.5, 1e-6), 4))
ε ≤ 2.00, δ = 9.9e-6, a group of 4 records added or removed

**Relations.** Add/remove becomes replace, and there is no way back. Replacing a unit is removing it and adding another:
a path of two steps through the data without it. So a promise about one unit added or removed becomes the promise for a
group of two, under REPLACE. The same path through the blanked-out unit leads from ZERO_OUT to REPLACE. A direct
analysis under REPLACE is often better.

| added or removed | replaced |
|---|---|
| ε | 2ε |
| (ε, δ) | (2ε, (1 + e^ε)δ) |
| ρ-zCDP | 4ρ |
| (ρ, ω)-tCDP | (4ρ, ω/2) |
| (α, ε)-RDP, α ≥ 4 | (α/2, 3ε) |
| μ-GDP | 2μ |
| f-DP | 1 − (1 − f)∘(1 − f) |

>>> from deniable.guarantees import PureDP
>>> add_remove_to_replace(PureDP(1))
PureDP(epsilon=2, relation=REPLACE)

**Post-processing.** Nothing computed from a private result, without the data, costs anything. For any randomised F that
does not touch the data, every divergence and trade-off function obeys the data-processing inequality: D(F(P)‖F(Q)) ≤
D(P‖Q), T(F(P), F(Q)) ≥ T(P, Q). So every kind of promise survives unchanged (Dwork–Roth 2014, Prop. 2.1; Dong–Roth–Su
2019, Prop. 2.8; van Erven–Harremoës 2014).

>>> from deniable.guarantees import GDP
>>> post_processed(GDP(1))
GDP(mu=1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from deniable import _checks
from deniable.conversions.formulas import group_delta
from deniable.errors import NoConversion, UnitMismatch
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.numerics.exact import short_above
from deniable.units import Relation

Kind = TypeVar("Kind", bound=Guarantee)

_LINES = 128
"""How many lines the trade-off function of a large group keeps."""


def for_group(guarantee: Kind, size: int) -> Kind:
    """The promise for `size` units at once, of the same kind, under the same relation."""
    units = _checks.count("size", size)
    rule = _RULES.get(type(guarantee))
    if rule is None:
        raise NoConversion(f"there is no group rule for {type(guarantee).__name__}")
    return guarantee if units == 1 else replace(rule(guarantee, units), unit=guarantee.unit.group(units))


def pure_for_group(guarantee: PureDP, size: int) -> PureDP:
    """kε. Exact."""
    return PureDP(size * guarantee.epsilon, relation=guarantee.relation, unit=guarantee.unit)


def approx_for_group(guarantee: ApproxDP, size: int) -> ApproxDP:
    """(kε, δ(1 + e^ε + … + e^{(k−1)ε})). Upper bound: apply the definition k times."""
    delta = min(short_above(group_delta(guarantee.epsilon, guarantee.delta, size)), Fraction(1))
    return ApproxDP(size * guarantee.epsilon, delta, relation=guarantee.relation, unit=guarantee.unit)


def zcdp_for_group(guarantee: ZCDP, size: int) -> ZCDP:
    """k²ρ. Upper bound."""
    return ZCDP(size**2 * guarantee.rho, relation=guarantee.relation, unit=guarantee.unit)


def approx_zcdp_for_group(guarantee: ApproxZCDP, size: int) -> ApproxZCDP:
    """Does not exist here for δ > 0: the good events of the k steps are different events."""
    if guarantee.delta:
        raise NoConversion(
            f"{guarantee!r} has no group rule here: each step of the path conditions on an event of its own."
            " Convert it with approx_zcdp_to_approx first."
        )
    return ApproxZCDP(size**2 * guarantee.rho, 0, relation=guarantee.relation, unit=guarantee.unit)


def tcdp_for_group(guarantee: TCDP, size: int) -> TCDP:
    """(k²ρ, ω/k). Upper bound."""
    omega = guarantee.omega / size
    if omega <= 1:
        raise NoConversion(
            f"{guarantee!r} says nothing about groups of {size}: no order above 1 is left of omega/{size}."
        )
    return TCDP(size**2 * guarantee.rho, omega, relation=guarantee.relation, unit=guarantee.unit)


def rdp_for_group(guarantee: RDP, size: int) -> RDP:
    """(α/2^c, 3^c ε) for the smallest c with size ≤ 2^c, when α ≥ 2^{c+1}. Upper bound."""
    doublings = (size - 1).bit_length()
    if guarantee.order < 2 ** (doublings + 1):
        raise NoConversion(
            f"{guarantee!r} says nothing about groups of {size}: an order of {2 ** (doublings + 1)} or more is needed."
        )
    order, cost = guarantee.order / 2**doublings, 3**doublings * guarantee.epsilon
    return RDP(order, cost, relation=guarantee.relation, unit=guarantee.unit)


def gdp_for_group(guarantee: GDP, size: int) -> GDP:
    """kμ. Exact."""
    return GDP(size * guarantee.mu, relation=guarantee.relation, unit=guarantee.unit)


def fdp_for_group(guarantee: FDP, size: int) -> FDP:
    """1 − (1 − f)^{∘k}. Upper bound; exact arithmetic up to 128 lines, beyond that the function is lowered a little."""
    step = guarantee.tradeoff.symmetrized()
    total, power, remaining = TradeOff.perfect(), step, size
    while remaining:
        if remaining % 2:
            total = chain(total, power).simplify(_LINES)
        remaining //= 2
        power = chain(power, power).simplify(_LINES) if remaining else power
    return FDP(total, relation=guarantee.relation, unit=guarantee.unit)


def chain(first: TradeOff, second: TradeOff) -> TradeOff:
    """1 − (1 − f)∘(1 − g): the trade-off over two steps of a path (Dong–Roth–Su 2019, proof of Theorem 2.14), exactly.

    If T(P, R) ≥ f and T(R, Q) ≥ g then a test of level α under P has power at most 1 − f(α) under R, which is its level
    there, and so power at most 1 − g(1 − f(α)) under Q: the result is g(1 − f(α)).
    """
    levels = {alpha for alpha, _ in first.corners}
    back = first.inverse()
    for level, _ in second.corners:
        # 1 − f(α) = level at α = f⁻¹(1 − level), as far as f reaches that low.
        if 1 - level <= first.corners[0][1]:
            levels.add(back(1 - level))
    return TradeOff([(alpha, second(1 - first(alpha))) for alpha in sorted(levels)])


_RULES: dict[type[Guarantee], Callable[[Any, int], Any]] = {
    PureDP: pure_for_group,
    ApproxDP: approx_for_group,
    ZCDP: zcdp_for_group,
    ApproxZCDP: approx_zcdp_for_group,
    TCDP: tcdp_for_group,
    RDP: rdp_for_group,
    GDP: gdp_for_group,
    FDP: fdp_for_group,
}


def add_remove_to_replace(guarantee: Kind) -> Kind:
    """Two steps: one unit leaves, another enters. Upper bound."""
    _check_relation(guarantee, Relation.ADD_REMOVE)
    return replace(for_group(guarantee, 2), relation=Relation.REPLACE, unit=guarantee.unit)


def zero_out_to_replace(guarantee: Kind) -> Kind:
    """Two steps: one unit is blanked out, another takes its place. Upper bound."""
    _check_relation(guarantee, Relation.ZERO_OUT)
    return replace(for_group(guarantee, 2), relation=Relation.REPLACE, unit=guarantee.unit)


def replace_to_add_remove(guarantee: Guarantee) -> NoReturn:
    """Does not exist: publishing the exact number of units is free under one relation and fatal under the other."""
    raise NoConversion(
        f"{guarantee!r} says nothing about adding or removing: publishing the exact number of units is free under"
        " REPLACE, where it is public, and reveals everything under ADD_REMOVE. State the sensitivity under ADD_REMOVE."
    )


def _check_relation(guarantee: Guarantee, relation: Relation) -> None:
    if guarantee.relation is not relation:
        raise UnitMismatch(f"expected a promise under {relation.name}; this one is under {guarantee.relation.name}.")


def post_processed(guarantee: Kind) -> Kind:
    """The promise of any function of the result that uses public data and fresh randomness only. Exact."""
    _checks.member("guarantee", guarantee, Guarantee)
    return guarantee
