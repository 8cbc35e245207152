"""From Rényi differential privacy, at one order or along a curve of orders.

With L the loss under P, E e^{(α−1)L} = e^{(α−1)D_α}. For every ε, 1 − e^{ε−l} ≤ c·e^{(α−1)(l−ε)} with
c = (1 − 1/α)^{α−1}/α, equality at e^{ε−l} = 1 − 1/α; taking means,

    δ(ε) = E(1 − e^{ε−L})₊ ≤ c·e^{(α−1)(D_α − ε)}          (Canonne–Kamath–Steinke 2020, Prop. 12)

which is the conversion below; c ≤ 1 gives the classic one (Mironov 2017, Prop. 3). A curve is a list of `RDP`
guarantees at different orders, all of which hold; the best order may be chosen after looking, because all of them do.

>>> from deniable.guarantees import RDP
>>> print(rdp_to_approx([RDP(4, 0.3), RDP(8, 0.5)], delta=1e-5))
ε ≤ 1.72, δ = 1e-5, one record added or removed
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NoReturn

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import public
from deniable.conversions.curves import bound_profile, grid, support_lines
from deniable.errors import InvalidArgument, NoConversion
from deniable.guarantees import FDP, RDP, TCDP, ZCDP, ApproxDP, Profile
from deniable.numerics.rounding import MACHINE_EPSILON, above, exp_above, float_above, float_below, fraction_above
from deniable.units import RECORD, AnyRelation, Relation, Unit, one_relation, one_unit

_FAR = 1e300
"""Exponents are cut here, so that none is infinite."""


def rdp_to_approx(curve: RDP | Iterable[RDP], *, delta: Number) -> ApproxDP:
    """ε = D_α + ln(1 − 1/α) − ln(αδ)/(α − 1), at least 0, at the best order. Upper bound."""
    orders = rdp_curve(curve)
    allowed = _checks.inner_probability("delta", delta)
    log_delta = math.log(float_below(allowed))
    epsilon = min(renyi_epsilon(a, d, log_delta) for a, d in _floats(orders))
    return _approx(epsilon, allowed, orders)


def rdp_to_approx_classic(curve: RDP | Iterable[RDP], *, delta: Number) -> ApproxDP:
    """ε = D_α + ln(1/δ)/(α − 1), at the best order. Upper bound: Mironov 2017, Prop. 3."""
    orders = rdp_curve(curve)
    allowed = _checks.inner_probability("delta", delta)
    log_delta = math.log(float_below(allowed))
    epsilon = min(above(d - log_delta / (a - 1)) if a > 1 else math.inf for a, d in _floats(orders))
    return _approx(epsilon, allowed, orders)


def rdp_to_profile(curve: RDP | Iterable[RDP]) -> Profile:
    """The conversion at every ε. Upper bound."""
    orders = rdp_curve(curve)
    pairs = _floats(orders)
    return bound_profile(
        orders[0],
        "Rényi divergences at the best order",
        lambda epsilon: min(exp_above(min(renyi_log_delta(a, d, epsilon) for a, d in pairs)), 1.0),
        lambda delta: _smallest_epsilon(pairs, delta),
    )


def rdp_to_fdp(curve: RDP | Iterable[RDP], *, epsilons: Iterable[Number] | None = None) -> FDP:
    """Supporting lines of the curve. Upper bound."""
    orders = rdp_curve(curve)
    profile = rdp_to_profile(orders)
    grid_points = grid(profile.epsilon(1e-12)) if epsilons is None else list(map(float, epsilons))
    return FDP(support_lines(profile.delta, grid_points), relation=orders[0].relation, unit=orders[0].unit)


def rdp_to_tcdp(curve: RDP | Iterable[RDP]) -> TCDP:
    """ρ = max of D_{α_i}/α_{i−1} with α₀ = 1, ω = the largest order. Upper bound: D_α does not decrease in α."""
    orders = rdp_curve(curve)
    starts = [Fraction(1), *(r.order for r in orders[:-1])]
    rho = max(r.epsilon / start for r, start in zip(orders, starts, strict=True))
    return TCDP(rho, orders[-1].order, relation=orders[0].relation, unit=orders[0].unit)


def rdp_to_zcdp(curve: RDP | Iterable[RDP]) -> NoReturn:
    """Does not exist from finitely many orders; see `linear_rdp_to_zcdp`."""
    orders = rdp_curve(curve)
    raise NoConversion(
        f"RDP at {len(orders)} orders implies no ZCDP: nothing is known beyond order {_checks.shown(orders[-1].order)}."
        " Use rdp_to_tcdp, or linear_rdp_to_zcdp when D_α ≤ slope·α is known for every α > 1."
    )


@public
def linear_rdp_to_zcdp(
    slope: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD
) -> ZCDP:
    """D_α ≤ slope·α for *every* α > 1 is slope-zCDP. Exact: the definition, ρ = sup D_α/α."""
    relation = Relation.of(relation)
    return ZCDP(slope, relation=relation, unit=unit)


def rdp_to_pure(curve: RDP | Iterable[RDP]) -> NoReturn:
    """Does not exist."""
    orders = rdp_curve(curve)
    raise NoConversion(
        f"RDP up to order {_checks.shown(orders[-1].order)} implies no PureDP: that is the order ∞. Use rdp_to_approx."
    )


def rdp_to_gdp(curve: RDP | Iterable[RDP]) -> NoReturn:
    """Does not exist."""
    rdp_curve(curve)
    raise NoConversion("RDP implies no GDP: no finite μ in general. Use rdp_to_profile or rdp_to_fdp.")


def rdp_curve(curve: RDP | Iterable[RDP]) -> list[RDP]:
    """The guarantees of a curve, by order, about one unit under one relation."""
    guarantees = [curve] if isinstance(curve, RDP) else list(curve)
    if not guarantees or not all(isinstance(r, RDP) for r in guarantees):
        raise InvalidArgument("curve", guarantees, "one RDP guarantee or more")
    for r in guarantees[1:]:
        one_relation(guarantees[0].relation, r.relation, doing="combine")
        one_unit(guarantees[0].unit, r.unit, doing="combine")
    return sorted(guarantees, key=lambda r: r.order)


def interpolated_rdp(curve: Iterable[RDP], *, order: Number) -> RDP:
    """D_α between two known orders. Upper bound: (α − 1)D_α is ln E_P e^{(α−1)L}, convex in α.

    The chord of (α − 1)D_α lies above it; that of D_α itself need not. Below the first order, D_1 ≤ D_α is used with
    (α − 1)D_α = 0 at α = 1.
    """
    orders = rdp_curve(curve)
    alpha = _checks.order("order", order)
    if alpha > orders[-1].order:
        raise NoConversion(
            f"order {_checks.shown(alpha)} lies beyond the last known order {_checks.shown(orders[-1].order)}."
        )
    above_it = next(r for r in orders if r.order >= alpha)
    under = [r for r in orders if r.order < alpha]
    left = (under[-1].order, (under[-1].order - 1) * under[-1].epsilon) if under else (1, 0)
    right = (above_it.order, (above_it.order - 1) * above_it.epsilon)
    height = left[1] + (right[1] - left[1]) * (alpha - left[0]) / (right[0] - left[0])
    return RDP(alpha, height / (alpha - 1), relation=above_it.relation, unit=above_it.unit)


def renyi_epsilon(order: float, divergence: float, log_delta: float) -> float:
    """ε at one order, rounded up, at least 0; infinite at order 1."""
    if order <= 1:
        return math.inf
    parts = (divergence, _log_below_one(order), -(log_delta + math.log(order)) / (order - 1))
    total = math.fsum(parts)
    return max(total + 8 * MACHINE_EPSILON * sum(map(abs, parts)), 0.0) if total < math.inf else math.inf


def renyi_log_delta(order: float, divergence: float, epsilon: float) -> float:
    """ln δ at one order, rounded up, at most 0."""
    if order <= 1 or (order - 1) * divergence > _FAR:
        return 0.0
    fallen = min((order - 1) * epsilon, _FAR)
    parts = ((order - 1) * divergence, -fallen, (order - 1) * _log_below_one(order), -math.log(order))
    total = math.fsum(parts) + 8 * MACHINE_EPSILON * sum(map(abs, parts))
    return min(total, 0.0)


def _log_below_one(order: float) -> float:
    """ln(1 − 1/α). Near α = 1 the difference α − 1 is exact, and 1 − 1/α is not."""
    return math.log((order - 1) / order) if order < 2 else math.log1p(-1 / order)


def _floats(orders: list[RDP]) -> list[tuple[float, float]]:
    """Orders and divergences as floats. D_α does not decrease in α, so an order is rounded down."""
    return [(float_below(r.order), float_above(r.epsilon)) for r in orders]


def _approx(epsilon: float, delta: Fraction, orders: list[RDP]) -> ApproxDP:
    if epsilon == math.inf:
        raise NoConversion(f"{orders[-1]!r} is at an order too close to 1 to reach delta={_checks.shown(delta)}.")
    return ApproxDP(fraction_above(epsilon), delta, relation=orders[0].relation, unit=orders[0].unit)


def _smallest_epsilon(pairs: list[tuple[float, float]], delta: float) -> float:
    if delta >= 1:
        return 0.0
    if delta == 0:
        return math.inf if any(d > 0 for _, d in pairs) else 0.0
    return min(renyi_epsilon(a, d, math.log(delta)) for a, d in pairs)
