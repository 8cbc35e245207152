"""Dominating pairs: for every step, the law of its loss in both directions.

`laws(step)` gives one `Law` when the two orders of the neighbours are the same, or two: removing, then adding. A
composition takes the same direction throughout and the larger result at the end.

| step | pair | attained |
|---|---|---|
| Gaussian | N(μ, 1), N(0, 1) | yes |
| Laplace, DiscreteLaplace, DiscreteGaussian (one number) | shifted, not shifted | yes |
| RandomizedResponse | two categories | yes |
| ExponentialMechanism | the worst of range ε (`laplace`) | no: the largest curve of several pairs |
| Claimed(PureDP) | randomized response | no: the worst that the promise allows |
| Rényi promises | the conversion of Canonne–Kamath–Steinke (`bounds`) | no |
| Sampled, SampledWithoutReplacement | `sampling` | where the inner pair is |
| Shuffled | clones (`shuffling`) | no |
| ForGroup, ToReplace around one of these | a path of neighbours (`bounds`) | no |

>>> from deniable.events import Laplace
>>> [law.high for law in laws(Laplace(scale=2))]
[0.5]
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from deniable.accounting.fold import Folded, gather, gaussian_squares, steps_of
from deniable.accounting.pairs.bounds import bounded, renyi_profile
from deniable.accounting.pairs.discrete import LARGEST, discrete_gaussian, discrete_laplace, randomized_response
from deniable.accounting.pairs.laplace import LaplaceLaw, RangeLaw
from deniable.accounting.pairs.law import Array, Law, LossAtoms
from deniable.accounting.pairs.normal import NormalLaw
from deniable.accounting.pairs.sampling import (
    Directions,
    farthest,
    is_placed,
    poisson,
    poisson_replaced,
    product,
    without_replacement,
)
from deniable.accounting.pairs.shuffling import shuffled
from deniable.errors import NotSupported
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Laplace,
    RandomizedResponse,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
    ToReplace,
)
from deniable.guarantees import FDP, RDP, TCDP, ZCDP, Guarantee, PureDP, TradeOff
from deniable.numerics.rounding import float_above, root_of
from deniable.units import Relation

__all__ = ["Directions", "Law", "attained", "directions", "inner_laws", "laws", "normal_law", "renyi_law"]

_RARE = Fraction(1, 10**300)


def laws(step: Event) -> Directions:
    """The laws of one canonical step of `fold`, as (removing, adding), or one when both are the same."""
    squares = gaussian_squares(step)
    if squares is not None:
        return (normal_law(squares[0]),)
    if isinstance(step, Laplace):
        return (LaplaceLaw(float(step.sensitivity / step.scale)),)
    if isinstance(step, DiscreteLaplace):
        epsilon = step.sensitivity / step.scale
        if step.sensitivity < LARGEST and epsilon < 600:
            return (discrete_laplace(float(step.scale), int(step.sensitivity)),)
        return (randomized_response(float(epsilon)),)
    if isinstance(step, DiscreteGaussian):
        shift = math.floor(step.sensitivity)
        found = (
            discrete_gaussian(float(step.scale), shift) if step.coordinates == 1 or step.sensitivity**2 < 2 else None
        )
        return (found or renyi_law(((ZCDP(step.sensitivity**2 / (2 * step.scale**2)), 1),)),)
    if isinstance(step, RandomizedResponse):
        return (randomized_response(float(step.epsilon), step.categories),)
    if isinstance(step, ExponentialMechanism):
        return (RangeLaw(float(step.epsilon)),)
    if isinstance(step, Claimed):
        return (_claimed(step.guarantee),)
    if isinstance(step, Sampled):
        inner = inner_laws(step.event)
        if step.relation is Relation.REPLACE:
            return poisson_replaced(step.event, inner, float(step.rate))
        return poisson(inner, float(step.rate))
    if isinstance(step, SampledWithoutReplacement):
        return without_replacement(inner_laws(step.event), step.batch / step.size)
    if isinstance(step, Shuffled):
        return (shuffled(step),)
    if isinstance(step, ForGroup):
        return (_path(step.event, step.members),)
    if isinstance(step, ToReplace):
        return (_path(step.event, 2),)
    raise NotSupported(f"there is no dominating pair for {type(step).__name__}")


def normal_law(mu_squared: Fraction) -> Law:
    """The law of everything Gaussian, merged."""
    return NormalLaw(root_of(mu_squared))


def renyi_law(promises: tuple[tuple[Guarantee, int], ...]) -> Law:
    """The pair of everything of which only Rényi divergences are known."""
    profile = renyi_profile(promises)
    high = 1.0
    while high < 1e12 and float(profile(np.array([high]))[0]) > 1e-300:
        high *= 2
    return bounded(profile, reach=high)


def directions(folded: Folded) -> tuple[tuple[tuple[Law, int], ...], ...]:
    """The laws of a whole composition with their counts: in one direction when both are the same, else in each."""
    parts: list[tuple[Directions, int]] = [(laws(step), count) for step, count in folded.steps]
    if folded.mu_squared:
        parts.append(((normal_law(folded.mu_squared),), 1))
    if folded.renyi:
        parts.append(((renyi_law(folded.renyi),), 1))
    parts += [((_leak(float_above(delta)),), count) for delta, count in folded.leaks]
    parts = parts or [((LossAtoms.of([0.0], [1.0]),), 1)]
    sides = max(len(found) for found, _ in parts)
    return tuple(tuple((found[min(side, len(found) - 1)], n) for found, n in parts) for side in range(sides))


def inner_laws(event: Event) -> Directions:
    """The laws of all that happens to one sample, as one step."""
    found = directions(gather(event.relation, steps_of(event)))
    return tuple(side[0][0] if len(side) == 1 and side[0][1] == 1 else product(side) for side in found)


def attained(folded: Folded) -> bool:
    """Whether every pair is one that the described step can attain, so that lower ends are about the step itself."""
    return (
        folded.tight and not folded.renyi and not folded.leaks and all(_is_attained(step) for step, _ in folded.steps)
    )


def _is_attained(step: Event) -> bool:
    if isinstance(step, Sampled):
        inner = gather(step.relation, steps_of(step.event))
        # Several steps that are not all Gaussian are put on one lattice (`products`), which costs a little.
        alone = sum(count for _, count in inner.steps) + bool(inner.mu_squared) == 1
        placed = step.relation is not Relation.REPLACE or is_placed(step.event)
        return alone and placed and attained(inner)
    return isinstance(step, Laplace | DiscreteLaplace | DiscreteGaussian | RandomizedResponse)


def _claimed(promise: Guarantee) -> Law:
    if isinstance(promise, PureDP):
        return randomized_response(float(promise.epsilon))
    if isinstance(promise, ZCDP | TCDP | RDP):
        return renyi_law(((promise, 1),))
    if isinstance(promise, FDP):
        return _tested(promise.tradeoff.symmetrized())
    raise NotSupported(f"there is no dominating pair for a promise of {type(promise).__name__}")


def _tested(tradeoff: TradeOff) -> Law:
    """The pair of a piecewise linear trade-off function: its atoms are (false positives, true positives)."""
    # A true positive too rare for a float counts as certain; so does one whose false positives are.
    told = [(false, caught) for false, caught in tradeoff.atoms if min(false, caught) > _RARE]
    sure = sum((caught for false, caught in tradeoff.atoms if min(false, caught) <= _RARE), Fraction(0))
    missed = sum((false for false, caught in tradeoff.atoms if min(false, caught) <= _RARE), Fraction(0))
    p, q = (np.array([float(pair[world]) for pair in told]) for world in (1, 0))
    return LossAtoms.paired(np.log(p / q), p, q, infinite=float_above(sure), vanishing=float_above(missed))


def _leak(delta: float) -> Law:
    """Nothing is learnt, or everything, with probability δ."""
    if delta >= 1:
        return LossAtoms.of([], [], infinite=1.0, vanishing=1.0)
    return LossAtoms.of([0.0], [1 - delta], infinite=delta, vanishing=delta)


def _path(step: Event, length: int) -> Law:
    """The pair of a path of neighbours: δ_k(kη) ≤ δ(η)(e^{kη} − 1)/(e^η − 1), with δ the larger of both orders."""
    found = inner_laws(step)

    def profile(epsilon: Array) -> Array:
        each = epsilon / length
        one = np.max([law.profile(each) for law in found], axis=0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            growth = np.where(
                each > 0, np.expm1(np.minimum(epsilon, 700.0)) / np.expm1(np.maximum(each, 1e-300)), length
            )
            log_growth = np.where(
                epsilon > 600,
                (length - 1) * each + np.log1p(-np.exp(-epsilon)) - np.log1p(-np.exp(-each)),
                np.log(growth),
            )
            return np.where(one > 0, np.exp(np.minimum(np.log(np.maximum(one, 1e-320)) + log_growth + 1e-12, 0.0)), 0.0)

    top = max(min(law.high, farthest(law)) for law in found)
    return bounded(profile, reach=length * top, peak=length * max(max(law.peak, 0.0) for law in found))
