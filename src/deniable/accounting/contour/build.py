"""From canonical steps to transforms."""

from __future__ import annotations

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.atoms import discrete_laplace, randomized_response
from deniable.accounting.contour.curve import ContourCurve
from deniable.accounting.contour.direction import Direction
from deniable.accounting.contour.gaussian import Normal, discrete_gaussian
from deniable.accounting.contour.laplace import Laplacian, Spread
from deniable.accounting.contour.mixture import Mixture, Side
from deniable.accounting.contour.sampled_laplace import SampledLaplacian
from deniable.accounting.contour.transform import Transform
from deniable.accounting.fold import Folded, gaussian_squares
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Laplace,
    RandomizedResponse,
    Sampled,
)
from deniable.guarantees import PureDP
from deniable.numerics.rounding import root_of
from deniable.units import Relation

Pair = tuple[Transform, Transform]
"""The two directions of a step; the same object twice when they are alike."""

_ABSENT = Side(0.0, 1.0, 0.0)


def contour_curve(folded: Folded, *, smooth: bool = False) -> ContourCurve | None:
    """The curve of a composition, or None where a part has no transform here (leaks and Rényi promises included).

    With `smooth` it has a little Gaussian noise added and taken off again (`smoothing`): for losses with atoms.
    """
    if folded.leaks or folded.renyi or not (folded.steps or folded.mu_squared):
        return None
    try:
        pairs = [(_pair(step), count) for step, count in folded.steps]
    except NotCertified:
        return None
    if folded.mu_squared:
        normal = Normal(float(folded.mu_squared))
        pairs.append(((normal, normal), 1))
    known = [(pair, count) for pair, count in pairs if pair is not None]
    if len(known) < len(pairs):
        return None
    forward = Direction(tuple((pair[0], count) for pair, count in known), smooth)
    if all(pair[0] is pair[1] for pair, _ in known):
        return ContourCurve((forward,))
    return ContourCurve((forward, Direction(tuple((pair[1], count) for pair, count in known), smooth)))


def _pair(step: Event) -> Pair | None:
    """Both directions of one step."""
    if isinstance(step, Sampled):
        return _sampled(step)
    if isinstance(step, Laplace):
        return _alike(Laplacian(float(step.sensitivity / step.scale)))
    if isinstance(step, DiscreteLaplace):
        return _alike(discrete_laplace(step.scale, int(step.sensitivity)))
    if isinstance(step, DiscreteGaussian) and step.sensitivity.denominator == 1 and step.coordinates == 1:
        return _alike(discrete_gaussian(step.scale, int(step.sensitivity)))
    if isinstance(step, ExponentialMechanism):
        return _alike(Spread(float(step.epsilon)))
    if isinstance(step, RandomizedResponse):
        return _alike(randomized_response(step.epsilon, step.categories))
    if isinstance(step, Claimed) and isinstance(step.guarantee, PureDP):
        return _alike(randomized_response(step.guarantee.epsilon))
    return None


def _sampled(step: Sampled) -> Pair | None:
    """A Poisson-sampled step. Under REPLACE only clipped vectors: reach = sensitivity/2."""
    rate, rest = float(step.rate), float(1 - step.rate)
    squares = gaussian_squares(step.event)
    if squares is not None:
        moved, far = squares
        if step.relation is Relation.REPLACE:
            if moved != 4 * far:
                return None
            side = Side(rate, rest, root_of(far))
            return _alike(Mixture(side, side))
        side = Side(rate, rest, root_of(moved))
        return Mixture(side, _ABSENT), Mixture(_ABSENT, side)
    if isinstance(step.event, Laplace) and step.relation is not Relation.REPLACE:
        epsilon = float(step.event.sensitivity / step.event.scale)
        return (
            SampledLaplacian(epsilon, rate, rest, forward=True),
            SampledLaplacian(epsilon, rate, rest, forward=False),
        )
    return None


def _alike(transform: Transform) -> Pair:
    return transform, transform
