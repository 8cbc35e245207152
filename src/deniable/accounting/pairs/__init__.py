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

from fractions import Fraction

import numpy as np

from deniable.accounting.fold import Folded, gather, steps_of
from deniable.accounting.pairs.bounds import bounded, renyi_profile
from deniable.accounting.pairs.law import Law, LossAtoms
from deniable.accounting.pairs.normal import NormalLaw
from deniable.accounting.pairs.sampling import Directions, product
from deniable.accounting.rules import rule_of
from deniable.events import Event
from deniable.guarantees import Guarantee
from deniable.numerics.rounding import float_above, root_of

__all__ = ["Directions", "Law", "attained", "directions", "inner_laws", "laws", "normal_law", "renyi_law"]


def laws(step: Event) -> Directions:
    """The laws of one canonical step of `fold`, as (removing, adding), or one when both are the same."""
    law: Directions = rule_of(step).laws(step)
    return law


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
    if not folded.tight or folded.renyi or folded.leaks:
        return False
    if not folded.mu_squared and len(folded.steps) == 1 and folded.steps[0][1] == 1:
        step = folded.steps[0][0]
        return rule_of(step).attained_alone(step)
    return all(rule_of(step).attained(step) for step, _ in folded.steps)


def _leak(delta: float) -> Law:
    """Nothing is learnt, or everything, with probability δ."""
    if delta >= 1:
        return LossAtoms.of([], [], infinite=1.0, vanishing=1.0)
    return LossAtoms.of([0.0], [1 - delta], infinite=delta, vanishing=delta)
