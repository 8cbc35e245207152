"""Amplification: what a random sample, a shuffler, or further iterations make of a promise.

Amplification by sampling. The relation and the scheme are part of each theorem.

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

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import public
from deniable.conversions.formulas import amplified_epsilon, log_mixture
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.guarantees import FDP, RDP, ApproxDP, PureDP, TradeOff
from deniable.guarantees.tradeoff import lower_hull
from deniable.numerics.exact import short_above
from deniable.numerics.roots import border
from deniable.numerics.rounding import above, float_above, float_below, fraction_above
from deniable.units import Relation, single

if TYPE_CHECKING:
    from deniable.accounting.pairs.shuffling import Clones


Kind = TypeVar("Kind", PureDP, ApproxDP)


def sample_poisson(guarantee: Kind, *, rate: Number) -> Kind:
    """The step on a Poisson sample, add/remove or zero-out. Upper bound, exact at the level of the curve."""
    kept = _checks.rate("rate", rate)
    if guarantee.relation is Relation.REPLACE:
        raise UnitMismatch(
            "Poisson sampling amplifies ADD_REMOVE and ZERO_OUT promises; under REPLACE the promise alone is not enough"
            " (a sampled unit may be present or absent). State it under ADD_REMOVE and move with .to_replace()."
        )
    return _amplify_by_sampling(guarantee, kept)


def sample_batch(guarantee: Kind, *, batch: int, size: int) -> Kind:
    """The step on a uniform batch of fixed size, REPLACE. Upper bound."""
    people = _checks.count("size", size)
    drawn = _checks.count("batch", batch)
    if drawn > people:
        raise InvalidArgument("batch", batch, f"at most size={people}")
    _check_replace(guarantee.relation)
    return _amplify_by_sampling(guarantee, Fraction(drawn, people))


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


def sample_fdp(guarantee: FDP, *, batch: int, size: int) -> FDP:
    """C_p(f) = the convex hull of min(f_p, f_p⁻¹), f_p = p·f + (1 − p)(1 − α), p = m/n. Upper bound, exact arithmetic.

    Dong–Roth–Su 2019, Theorem 4.2: uniform batch, REPLACE.
    """
    people = _checks.count("size", size)
    drawn = _checks.count("batch", batch)
    if drawn > people:
        raise InvalidArgument("batch", batch, f"at most size={people}")
    _check_replace(guarantee.relation)
    single(guarantee.unit, doing="sample")
    operated = sampling_operator(guarantee.tradeoff.symmetrized(), Fraction(drawn, people))
    return FDP(operated, relation=guarantee.relation, unit=guarantee.unit)


def sampling_operator(function: TradeOff, rate: Fraction) -> TradeOff:
    """C_p(f). The hull of the corners of f_p and of their reflection: both are piecewise linear."""
    mixed = TradeOff([(a, rate * b + (1 - rate) * (1 - a)) for a, b in function.corners])
    return TradeOff(lower_hull([*mixed.corners, *mixed.inverse().corners]))


def _check_replace(relation: Relation) -> None:
    if relation is not Relation.REPLACE:
        raise UnitMismatch(
            f"a batch of fixed size is analysed under REPLACE only; this promise is under {relation.name}."
            " Use sample_poisson, or state the promise under REPLACE."
        )


def _amplify_by_sampling(guarantee: Kind, kept: Fraction) -> Kind:
    if kept == 1:
        return guarantee
    single(guarantee.unit, doing="sample")
    epsilon = short_above(amplified_epsilon(guarantee.epsilon, kept))
    numbers: dict[str, Any] = {"epsilon": min(epsilon, guarantee.epsilon)}
    if isinstance(guarantee, ApproxDP):
        numbers["delta"] = kept * guarantee.delta
    return replace(guarantee, **numbers)


def shuffle(local: PureDP, *, size: int, delta: Number) -> ApproxDP:
    """The promise of n shuffled ε₀-DP reports at a δ, never worse than ε₀. Upper bound.

    Amplification by shuffling: local reports whose order hides who sent which. REPLACE.

    The clones of `accounting/pairs/shuffling.py` (Feldman–McMillan–Talwar 2021), asked at one δ: p = e^{−ε₀} for any
    report. For k-ary randomized response everybody's law is at least (a + b)/(e^{ε₀} + 1), with a and b the two laws of
    the person who changes, and a + b = Q₀ + Q₁: p = 2/(e^{ε₀} + 1). That larger p for *every* ε₀-DP report (their 2022
    paper) is not used here: the argument does not give it.

    >>> print(shuffle(PureDP(1, relation=Relation.REPLACE), size=1000, delta=1e-5))
    ε ≤ 0.16, δ = 1e-5, one record replaced by another
    """
    return _amplify_by_shuffling(local, size, delta, math.exp(-float_above(local.epsilon)))


def shuffle_responses(local: PureDP, *, size: int, delta: Number) -> ApproxDP:
    """The same for reports by randomized response (any number of categories), which leaves more clones. Upper bound."""
    epsilon = float_above(local.epsilon)
    return _amplify_by_shuffling(local, size, delta, 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon)))


def shuffled_delta(epsilon: float, *, local: float, size: int, clone: float) -> float:
    """δ(ε) of the two counts, rounded up; `local` is ε₀, `clone` the probability that a report is a clone."""
    return _clones(local, size, clone).delta(epsilon)


@public
def shuffled_batches_epsilon(*, noise_multiplier: Number, steps: int, delta: Number) -> float:
    """A lower bound on the ε of one epoch of `steps` batches that are cut from a shuffled order, ZERO_OUT.

    Chua et al. 2024: let every other unit contribute −1 and the one in question 1, or 0 when it is blanked out. The sum
    of its batch is then 2, or 1, above that of all others. With noise s and the event that some sum is C or more above
    them, P = 1 − Φ((C − 2)/s) Φ(C/s)^{T−1} and Q = 1 − Φ((C − 1)/s) Φ(C/s)^{T−1}, and P ≤ e^ε Q + δ for every C. So ε
    is at least log((P − δ)/Q), whichever C is tried.

    No upper bound better than no amplification, one Gaussian step, is known. With little noise this bound meets it.

    >>> round(shuffled_batches_epsilon(noise_multiplier=0.5, steps=1000, delta=1e-6), 2)
    11.0
    """
    import numpy as np
    from scipy import special

    scale = float(_checks.positive("noise_multiplier", noise_multiplier))
    many, allowed = _checks.count("steps", steps), float_above(_checks.inner_probability("delta", delta))
    tried = np.linspace(1 - 10 * scale, 3 + 40 * scale, 20_001)
    rest = (many - 1) * special.log_ndtr(tried / scale)
    p, q = (-np.expm1(special.log_ndtr((tried - shift) / scale) + rest) for shift in (2.0, 1.0))
    # a few units of each function, and what rest adds to them
    slack = 1e-12 * (1 + np.abs(rest))
    sure = (p * (1 - slack) - allowed > 0) & (q > 1e-290)
    if not sure.any():
        return 0.0
    found = np.log((p[sure] * (1 - slack[sure]) - allowed) / (q[sure] * (1 + slack[sure])))
    return max(0.0, float(found.max()) * (1 - 1e-12))


@lru_cache(maxsize=16)
def _clones(local: float, size: int, clone: float) -> Clones:
    from deniable.accounting.pairs.shuffling import Clones

    return Clones(local, size, clone)


def _amplify_by_shuffling(local: PureDP, size: int, delta: Number, clone: float) -> ApproxDP:
    people = _checks.count("size", size)
    allowed = _checks.inner_probability("delta", delta)
    if local.relation is not Relation.REPLACE:
        raise UnitMismatch("shuffling is analysed under REPLACE only; state the local report under REPLACE.")
    single(local.unit, doing="shuffle")
    epsilon = float_above(local.epsilon)
    if epsilon > 700:  # fewer than e^{−700} of the others are clones: nothing is gained
        return ApproxDP(local.epsilon, allowed, relation=local.relation, unit=local.unit)
    under = float_below(allowed)
    amplified = border(
        lambda e: shuffled_delta(e, local=epsilon, size=people, clone=clone) <= under,
        above(epsilon, ulps=1),
        relative=1e-9,
    )[1]
    return ApproxDP(min(fraction_above(amplified), local.epsilon), allowed, relation=local.relation, unit=local.unit)


def iterate(
    order: Number,
    *,
    lipschitz: Number,
    noise: Number,
    position: int,
    steps: int,
    smoothness: Number,
    step_size: Number,
) -> RDP:
    """D_α of the last iterate for the record at `position` (1 … steps); noise is the s of Z_t. Upper bound.

    `smoothness` (β) and `step_size` (η) are asked for because the theorem needs ηβ ≤ 2; convexity is the caller's word.

    Amplification by iteration: only the last iterate of noisy gradient descent is released.

    Projected noisy SGD in one pass, x_{t+1} = Proj(x_t − η(∇f(x_t; s_t) + Z_t)), Z_t ~ N(0, s²I), over a convex set,
    with losses that are convex, L-Lipschitz and β-smooth and η ≤ 2/β, so that every step is a contraction. For the
    record used at step t of n, REPLACE,

        D_α ≤ 2αL²/(s²(n − t + 1))          (Feldman–Mironov–Talwar–Thakurta 2018, Theorem 23)

    The gradients at step t differ by at most 2L; the n − t + 1 noises from step t on each absorb an equal part of the
    shift 2ηL. The last record gets no amplification. Averages of iterates, or any other iterate, are not covered.

    >>> iterate(2, lipschitz=1, noise=10, position=1, steps=100, smoothness=1, step_size=0.5)
    RDP(order=2, epsilon=0.0004, relation=REPLACE)
    """
    alpha = _checks.order("order", order)
    slope = _checks.positive("lipschitz", lipschitz)
    scale = _checks.positive("noise", noise)
    total = _checks.count("steps", steps)
    place = _checks.count("position", position)
    if place > total:
        raise InvalidArgument("position", position, f"at most the number of steps, {total}")
    smooth, rate = _checks.nonnegative("smoothness", smoothness), _checks.positive("step_size", step_size)
    if rate * smooth > 2:
        raise InvalidArgument(
            "step_size", step_size, "at most 2/smoothness", "Beyond it a step may expand and nothing is amplified."
        )
    cost = 2 * alpha * slope**2 / (scale**2 * (total - place + 1))
    return RDP(alpha, cost, relation=Relation.REPLACE)
