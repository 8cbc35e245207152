"""Gaussian noise on integer sums that costs what the continuous Gaussian costs.

The noise drawn here is the exact discrete Gaussian; the event that is emitted is a Gaussian. This is why that is
proved.

A discrete Gaussian of variance τ² + `SPREAD` is within e^{±LEAK} per number drawn of a rounding of N(0, τ²)
(`noise.discrete`), and by the lemma of `enlarge_mu` it is GDP with a μ larger by less than one part in 10¹². The noise
is larger by that part (`MARGIN`), so the event says μ exactly, and nothing is left over.

On a *sample* of the records the lemma does not apply as it stands; there, and where noise is added inside a
minimisation, `LEAK` per number drawn is added to δ.

>>> round(float(multiplier(ApproxDP(1, 1e-6), steps=100)), 2)
42.25
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.conversions.formulas import classic_rho_limit
from deniable.errors import InvalidArgument
from deniable.events import Claimed, DiscreteLaplace, Event, Gaussian
from deniable.guarantees import ApproxDP, Guarantee, Profile, PureDP
from deniable.noise import Source
from deniable.noise.discrete import LEAK, SPREAD
from deniable.numerics import normal
from deniable.numerics.exact import short_above, short_below
from deniable.numerics.rounding import float_above, float_below
from deniable.units import Relation, Unit


def enlarge_mu(mu: float, closeness: float) -> float:
    """The μ′ of a mechanism that is within e^{±closeness} of a μ-GDP one at every output, rounded up.

    Sampling almost the right law, and what it costs: a little more μ.

    *Lemma.* Let P̃ and P̃′ be the laws of a μ-GDP mechanism on neighbours, and let P and P′ be as close to them as
    e^{−c} ≤ P/P̃ ≤ e^{c}, and likewise for P′, at every output. If c ≤ μ/20 and c ≤ μ²/40, then P against P′ is μ′-GDP
    for every μ′ ≤ 2μ with μ′ ≥ μ + 6c·e^{μ′²/8}.

    *Proof.* For ε ≥ 0, P(S) − e^ε P′(S) ≤ e^c(P̃(S) − e^{ε−2c}P̃′(S)), so the curve of the pair is at most e^c δ_μ(ε −
    2c), with δ_μ(ε) = Φ(−u) − e^ε Φ(−u − μ), u = ε/μ − μ/2. Write t = ε − 2c and u_t = t/μ − μ/2. δ_μ is convex in ε
    with slope −e^ε Φ(−u − μ), and e^c − 1 ≤ 2c, so

        e^c δ_μ(t) − δ_μ(ε)  ≤  2c δ_μ(t) + 2c e^t Φ(−u_t − μ)  =  2c Φ(−u_t).

    On the other side ∂δ_μ/∂μ = φ(u), so δ_μ′(ε) − δ_μ(ε) = ∫ φ(ε/s − s/2) ds over s from μ to μ′ = μ(1 + η). Both
    orders of every pair of neighbours are meant, so ε ≥ 0 is enough (Dong–Roth–Su 2019, Prop. 2.12), and u ≥ −μ/2.

    - u < μ′/2: for such s, −μ′/2 ≤ ε/s − s/2 ≤ μ′/2, so the integral is at least μη φ(μ′/2) ≥ 2c.
    - u ≥ μ′/2: the argument ε/s − s/2 falls from u and stays above −μ/4, so the integrand is never below φ(u). From the
      middle on, s ≥ μ(1 + η/2), it is at most u(1 − η/3). Where uη/3 ≥ 2c/μ that is at most u_t, and u_t ≥ μ/4, so the
      upper half of the integral is at least (μη/2)φ(u_t). Elsewhere φ(u) ≥ e^{−12c²/(μ²η)}φ(u_t) ≥ 0.9 φ(u_t), because
      μη ≥ 6c and c ≤ μ/20. In either case the integral is at least 0.45 μη φ(u_t) ≥ 2.7c φ(u_t), and Φ(−u_t) ≤ 1.26
      φ(u_t) for u_t ≥ 0. ∎ (That c ≤ 1, which e^c − 1 ≤ 2c needs, follows from μ′ ≤ 2μ.)

    Integer noise is such a law (`privacy`), and so is a sampler whose density is known up to rounding (`exponential`).

    >>> enlarge_mu(0.5, 1e-9) - 0.5 < 1e-8
    True
    """
    if not 0 < mu <= 50:
        raise InvalidArgument("mu", mu, "above 0 and at most 50", "Choose a smaller epsilon; this one protects nobody.")
    if not 0 <= closeness <= min(mu / 20, mu * mu / 40):
        raise InvalidArgument("closeness", closeness, f"between 0 and min(mu/20, mu²/40) for mu={mu:g}")
    # Once around μ′ = μ + 6c·e^{μ′²/8}, from above: what comes out is enough if it is no more than what went in.
    start = min(2 * mu, (mu + 12 * closeness * math.exp(mu * mu / 8)) * (1 + 1e-12))
    found = (mu + 6 * closeness * math.exp(min(start * start / 8, 700.0))) * (1 + 1e-15)
    if not found <= start or start > 70:
        raise InvalidArgument("closeness", closeness, f"far smaller at mu={mu:g}")
    return found


MARGIN = 1 + Fraction(1, 10**11)
"""How much larger the noise is than its event says; pays for the distance to the continuous Gaussian."""


LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**12), Fraction(10**9)
"""The ε that a fit takes."""

MOST = 40.0
"""The largest μ that is ever used: noise of a fortieth of a record. A larger ε gets no less noise."""


def multiplier(target: Guarantee, *, steps: int = 1) -> Fraction:
    """The least noise scale, in sensitivities, at which `steps` Gaussian sums meet a target.

    `steps` Gaussians of ratio σ are √steps/σ-GDP (Dong–Roth–Su 2019, Cor. 3.3), and (ε, δ) is met by the largest μ of
    Balle–Wang 2018, Theorem 8. Rounded up to nine digits.
    """
    return round_up(math.sqrt(steps) / largest_mu(target) * (1 + 1e-12))


def largest_mu(target: Guarantee) -> float:
    """The GDP parameter that a target leaves, rounded down; no more than `MOST`."""
    if not isinstance(target, ApproxDP) or target.delta <= 0:
        raise InvalidArgument(
            "delta", getattr(target, "delta", 0), "above 0 for Gaussian noise", "For example delta=1e-6."
        )
    mu = normal.largest_mu(float_below(target.epsilon), float_below(target.delta))
    if mu <= 0:
        raise InvalidArgument("epsilon", target.epsilon, "large enough to leave room for any signal at this delta")
    return min(mu, MOST) * (1 - 1e-12)


def gaussian_event(
    ratio: Fraction,
    *,
    draws: int,
    relation: Relation,
    sensitivity: Fraction | int | None = None,
    steps: int = 1,
    rate: Fraction = Fraction(1),
) -> Event:
    """`steps` noisy sums of `draws` numbers in all, noise `ratio` times the norm of what a record contributes.

    The default sensitivity is that of vectors of norm 1; under REPLACE two of them may point apart.
    """
    far = 1 if relation is Relation.REPLACE else None
    step = Gaussian(ratio, sides(relation) if sensitivity is None else sensitivity, relation, reach=far)
    whole = math.sqrt(steps) if rate == 1 else 1.0  # on a sample the leak below pays, and the lemma is not used
    stated = float_below(step.sensitivity / ratio) * whole
    if enlarge_mu(float_above(step.sensitivity / (ratio * MARGIN)) * whole, float_above(LEAK * draws)) > stated:
        raise InvalidArgument("epsilon", "too small or too large", f"a number that noise of {draws} draws can meet")
    repeated = step.sampled(rate=rate) * steps
    return repeated if rate == 1 else repeated + leak(draws, relation)


def leak(draws: int, relation: Relation) -> Claimed:
    """What the rounding of `draws` numbers to integers may give away."""
    return Claimed(ApproxDP(0, LEAK * draws, relation=relation))


def sides(relation: Relation) -> int:
    """How many clipped vectors apart two neighbours are: 2 when one is exchanged for another."""
    return 2 if relation is Relation.REPLACE else 1


def add_gaussian(
    sums: NDArray[Any],
    *,
    bound: Fraction | int,
    ratio: Fraction,
    factor: Fraction | int = 1,
    source: Source | None = None,
) -> NDArray[np.float64]:
    """Integer sums of vectors of norm at most `bound`, plus noise of ratio·bound as `gaussian_event` states it.

    `factor` multiplies the variance, for coordinates that count 1/√factor times in the vector whose norm is bounded.
    """
    variance = (ratio * MARGIN * bound) ** 2 * factor + SPREAD
    drawn = noise.discrete_gaussian(variance=variance, size=sums.shape, source=source)
    return noise.add(sums, drawn).astype(np.float64)


def noisy_count(size: int, *, epsilon: Fraction, source: Source | None = None) -> int:
    """The number of records with discrete Laplace noise, at least 1; epsilon-DP under ADD_REMOVE."""
    return max(1, size + noise.discrete_laplace(1 / epsilon, source=source))


def count_event(epsilon: Fraction) -> Event:
    """The event of `noisy_count`."""
    return DiscreteLaplace(1 / epsilon)


def make_target(epsilon: object, delta: object, relation: Relation) -> ApproxDP | PureDP:
    """The promise that an estimator's parameters name; both numbers are exact decimals."""
    pure = PureDP(epsilon, relation=relation)  # type: ignore[arg-type]
    if not LEAST_EPSILON <= pure.epsilon <= LARGEST_EPSILON:
        wanted = f"between {float(LEAST_EPSILON):g} and {float(LARGEST_EPSILON):g}"
        raise InvalidArgument("epsilon", epsilon, wanted, "Below there is nothing but noise, above no privacy.")
    promised = ApproxDP(pure.epsilon, delta, relation=relation)  # type: ignore[arg-type]
    if promised.delta >= 1:
        raise InvalidArgument("delta", delta, "below 1", "A common choice is far below one over the number of records.")
    return promised if promised.delta else pure


def profile_of(event: Event, *, unit: Unit) -> Profile:
    """The certified curve of an event."""
    from deniable.accounting.accountant import account

    return account(event, unit=unit)


def calibrate_event(event: Callable[[Fraction], Event], target: Guarantee) -> Fraction:
    """The least noise, in sensitivities and rounded up to nine digits, at which an event meets a target."""
    from deniable.calibration import calibrate

    return round_up(float(calibrate(lambda ratio: event(round_up(float(ratio))), target).value))


def round_up(value: float, *, digits: int = 9) -> Fraction:
    """A short decimal at or above a float."""
    return short_above(_positive(value), figures=digits)


def round_down(value: float, *, digits: int = 9) -> Fraction:
    """A short decimal at or below a float."""
    return short_below(_positive(value), figures=digits)


def _positive(value: float) -> float:
    if not math.isfinite(value) or value <= 0:
        raise InvalidArgument("value", value, "a positive number")
    return value


def largest_rho(target: Guarantee) -> float:
    """The largest ρ whose zCDP reaches (ε, δ) by ε = ρ + 2√(ρ ln(1/δ)) (Bun–Steinke 2016, Prop. 1.3), rounded down."""
    if not isinstance(target, ApproxDP) or target.delta <= 0:
        raise InvalidArgument("delta", getattr(target, "delta", 0), "above 0 for concentrated privacy")
    return float_below(classic_rho_limit(target.epsilon, target.delta))
