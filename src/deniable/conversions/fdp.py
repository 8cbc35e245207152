"""From trade-off functions, and to them from a curve.

f-DP speaks of both orders of every pair, so f counts as max(f, f⁻¹). The curve is its convex conjugate,
δ(ε) = sup_α {1 − f(α) − e^ε α} (Dong–Roth–Su 2019, Prop. 2.12), and the way back is
f(α) = sup over ε ≥ 0 of max(0, 1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α)).

>>> from deniable.guarantees import FDP, TradeOff
>>> print(fdp_to_approx(FDP(TradeOff([(0, 1), (0.25, 0.25), (1, 0)])), delta=0))
ε ≤ 1.10, δ = 0, one record added or removed
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from deniable import _checks
from deniable._checks import Number
from deniable.conversions.curves import exact_profile, grid, support_lines
from deniable.errors import NoConversion
from deniable.guarantees import FDP, GDP, ApproxDP, Bracket, Profile, PureDP
from deniable.guarantees.printing import small
from deniable.numerics.rounding import above, below, float_above, float_below, fraction_above


def fdp_to_profile(guarantee: FDP) -> Profile:
    """δ(ε) = sup_α {1 − f(α) − e^ε α}, f symmetrised. Exact."""
    function = guarantee.tradeoff.symmetrized()

    def delta(epsilon: float) -> Bracket:
        upper = function.delta(epsilon)
        return Bracket(max(upper - 2.0**-48, 0.0), upper)

    def smallest(delta: float) -> Bracket:
        upper = function.epsilon(delta)
        return Bracket(below(upper, ulps=64), upper)

    return exact_profile(guarantee, "convex conjugate of the trade-off function", delta, smallest)


def fdp_to_approx(guarantee: FDP, *, delta: Number) -> ApproxDP:
    """The smallest ε at a δ. Exact."""
    allowed = _checks.probability("delta", delta)
    epsilon = guarantee.tradeoff.symmetrized().epsilon(allowed)
    if epsilon == math.inf:
        fail = small(1 - guarantee.tradeoff.symmetrized()(0))
        raise NoConversion(
            f"f(0) = 1 − {fail}, so no ε reaches delta={_checks.shown(allowed)}. Ask for {fail} or more."
        )
    return ApproxDP(fraction_above(epsilon), allowed, relation=guarantee.relation, unit=guarantee.unit)


def fdp_to_pure(guarantee: FDP) -> PureDP:
    """ε = ln of the steepest slope. Exact; does not exist when f(0) < 1."""
    return PureDP(fdp_to_approx(guarantee, delta=0).epsilon, relation=guarantee.relation, unit=guarantee.unit)


def fdp_to_gdp(guarantee: FDP) -> GDP:
    """μ = max over the corners of Φ⁻¹(1 − α) − Φ⁻¹(f(α)). Exact; does not exist when f(0) < 1.

    G_μ is convex and f is straight between its corners, so G_μ ≤ f at the corners is G_μ ≤ f everywhere.
    """
    from scipy.special import ndtri

    function = guarantee.tradeoff.symmetrized()
    if function(0) < 1:
        fail = small(1 - function(0))
        raise NoConversion(
            f"f(0) = 1 − {fail}: with that probability the loss may be infinite, and G_μ(0) = 1 for every μ."
            " Use fdp_to_approx or fdp_to_profile."
        )
    mu = 0.0
    for alpha, beta in function.corners:
        if 0 < alpha < 1 and beta > 0:
            one, two = float(ndtri(float_below(alpha))), float(ndtri(float_below(beta)))
            mu = max(mu, -(one + two) + 2.0**-45 * (1 + abs(one) + abs(two)))
    return GDP(fraction_above(above(mu)), relation=guarantee.relation, unit=guarantee.unit)


def profile_to_approx(profile: Profile, *, delta: Number) -> ApproxDP:
    """One point of a curve: the proven upper end of ε at a δ. Exact up to the bracket's width."""
    epsilon = profile.epsilon(delta)
    if epsilon == math.inf:
        raise NoConversion(
            f"the curve reaches no ε at delta={delta}: its loss is infinite with more than that probability."
        )
    return ApproxDP(fraction_above(epsilon), delta, relation=profile.relation, unit=profile.unit)


def profile_to_fdp(profile: Profile, *, epsilons: Iterable[Number] | None = None) -> FDP:
    """Supporting lines at chosen ε (by default 48 up to that of δ = 1e-12). Upper bound, exact at the lines."""
    if epsilons is None:
        last = next((e for d in (1e-12, 1e-6, 1e-3, 0.1, 0.5) if (e := profile.epsilon(d)) < math.inf), 1.0)
        grid_points = grid(last)
    else:
        grid_points = [float_below(_checks.nonnegative("epsilons", e)) for e in epsilons]
    return FDP(support_lines(profile.delta, grid_points), relation=profile.relation, unit=profile.unit)


def fdp_to_tradeoff(guarantee: FDP, *, alpha: Number) -> float:
    """max(f, f⁻¹)(α), rounded down. Exact."""
    return float_below(guarantee.tradeoff.symmetrized()(alpha))


def fdp_to_total_variation(guarantee: FDP) -> float:
    """max_α {1 − α − f(α)}, rounded up. Exact."""
    return float_above(guarantee.tradeoff.symmetrized().advantage)
