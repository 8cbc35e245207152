"""From Gaussian differential privacy.

μ-GDP says that no test does better than the one between N(0, 1) and N(μ, 1): it is the whole curve of that pair.

>>> from deniable.guarantees import GDP
>>> print(gdp_to_approx(GDP(1), delta=1e-5))
ε ≤ 4.38, δ = 1e-5, one record added or removed
>>> gdp_to_zcdp(GDP(1))
ZCDP(rho=0.5)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NoReturn

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import public
from deniable.conversions.curves import exact_profile, grid, support_lines
from deniable.errors import InvalidArgument, NoConversion
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, Bracket, Profile
from deniable.numerics import normal
from deniable.numerics.rounding import below, float_above, float_below, fraction_above
from deniable.units import AnyRelation, Relation


def gdp_to_approx(guarantee: GDP, *, delta: Number | None = None, epsilon: Number | None = None) -> ApproxDP:
    """δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), solved for the one that was not given. Exact: Balle–Wang 2018, Thm. 8."""
    mu = float_above(guarantee.mu)
    if (delta is None) == (epsilon is None):
        raise InvalidArgument("delta", delta, "given, or epsilon instead", "For example delta=1e-6.")
    if epsilon is not None:
        at = _checks.nonnegative("epsilon", epsilon)
        failure = fraction_above(normal.delta_bracket(mu, float_below(at)).upper)
        return ApproxDP(at, min(failure, Fraction(1)), relation=guarantee.relation, unit=guarantee.unit)
    allowed = _checks.inner_probability("delta", delta if delta is not None else 0)
    loss = fraction_above(normal.epsilon_bracket(mu, float_below(allowed)).upper)
    return ApproxDP(loss, allowed, relation=guarantee.relation, unit=guarantee.unit)


def gdp_to_profile(guarantee: GDP) -> Profile:
    """The curve of the pair of Gaussians. Exact."""
    low, high = float_below(guarantee.mu), float_above(guarantee.mu)

    def delta(epsilon: float) -> Bracket:
        return Bracket(normal.delta_bracket(low, epsilon).lower, normal.delta_bracket(high, epsilon).upper)

    def epsilon(delta: float) -> Bracket:
        return Bracket(normal.epsilon_bracket(low, delta).lower, normal.epsilon_bracket(high, delta).upper)

    return exact_profile(guarantee, "Gaussian, closed form", delta, epsilon)


def gdp_to_fdp(guarantee: GDP, *, epsilons: Iterable[Number] | None = None) -> FDP:
    """Supporting lines of G_μ(α) = Φ(Φ⁻¹(1 − α) − μ), by default 48 on each side. Upper bound, exact at the lines."""
    mu = float_above(guarantee.mu)
    grid_points = grid(normal.epsilon_bracket(mu, 1e-12).upper) if epsilons is None else list(map(float, epsilons))
    function = support_lines(lambda epsilon: normal.delta_bracket(mu, epsilon).upper, grid_points)
    return FDP(function, relation=guarantee.relation, unit=guarantee.unit)


def gdp_to_tradeoff(guarantee: GDP, *, alpha: Number) -> float:
    """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ): false negatives at false-positive rate α, rounded down. Exact."""
    return normal.tradeoff(float_above(guarantee.mu), float_above(_checks.probability("alpha", alpha)))


def gdp_to_rdp(guarantee: GDP, *, order: Number) -> RDP:
    """D_α = αμ²/2. Exact for the Gaussian; for any μ-GDP pair an upper bound by data processing (Blackwell)."""
    alpha = _checks.order("order", order)
    return RDP(alpha, alpha * guarantee.mu**2 / 2, relation=guarantee.relation, unit=guarantee.unit)


def gdp_to_zcdp(guarantee: GDP) -> ZCDP:
    """ρ = μ²/2. Exact for the Gaussian, in exact arithmetic."""
    return ZCDP(guarantee.mu**2 / 2, relation=guarantee.relation, unit=guarantee.unit)


def gdp_to_tcdp(guarantee: GDP, *, omega: Number) -> TCDP:
    """zCDP, kept for orders below ω. Exact for the Gaussian."""
    return TCDP(guarantee.mu**2 / 2, omega, relation=guarantee.relation, unit=guarantee.unit)


def gdp_to_pure(guarantee: GDP) -> NoReturn:
    """Does not exist."""
    raise NoConversion(f"{guarantee!r} implies no PureDP: the loss of a Gaussian is unbounded. Use gdp_to_approx.")


def gaussian_claim_to_gdp(claim: ApproxDP) -> GDP:
    """The largest μ that a *Gaussian mechanism* with this (ε, δ) promise may have: what an auditor tests against.

    Not an arrow between promises: an (ε, δ) promise alone implies no μ. Exact, rounded down.
    """
    epsilon, delta = float_below(claim.epsilon), float_below(claim.delta)
    if claim.delta >= 1:
        raise NoConversion(f"{claim!r} allows every μ: delta is 1.")
    return GDP(below(normal.largest_mu(epsilon, delta), ulps=1), relation=claim.relation, unit=claim.unit)


@public
def gaussian_to_gdp(*, scale: Number, sensitivity: Number = 1, relation: AnyRelation = Relation.ADD_REMOVE) -> GDP:
    """Normal noise of standard deviation σ, L2 sensitivity Δ: μ = Δ/σ. Exact: Dong–Roth–Su 2019, Theorem 2.7."""
    relation = Relation.of(relation)
    ratio = _checks.positive("sensitivity", sensitivity) / _checks.positive("scale", scale)
    return GDP(ratio, relation=relation)


@public
def laplace_to_gdp(*, scale: Number, sensitivity: Number = 1, relation: AnyRelation = Relation.ADD_REMOVE) -> GDP:
    """μ = 2Φ⁻¹(1 − e^{−ε/2}/2), ε = Δ/b: smaller than what ε-DP alone gives. Exact: the smallest valid μ.

    Between its two straight ends the trade-off function of the Laplace pair runs through α = e^{−s}/2, β = e^{s−ε}/2
    for 0 ≤ s ≤ ε. There μ must be at least h(s) + h(ε − s) with h(s) = Φ⁻¹(1 − e^{−s}/2). h′ is the Mills ratio at h,
    which falls, so h is concave and s = ε/2 is the worst. On the straight ends the convex G_μ stays below its chords.
    """
    relation = Relation.of(relation)
    epsilon = float_above(_checks.positive("sensitivity", sensitivity) / _checks.positive("scale", scale))
    mu = normal.diagonal_mu(-math.expm1(-epsilon / 2), -epsilon / 2 - math.log(2))
    return GDP(fraction_above(mu), relation=relation)
