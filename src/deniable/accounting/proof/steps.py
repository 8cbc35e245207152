"""From canonical steps to transforms in balls."""

from __future__ import annotations

from fractions import Fraction

from deniable.accounting.certificate import NotCertified
from deniable.accounting.fold import Folded, gaussian_squares
from deniable.accounting.proof.transforms import (
    BallTransform,
    DiscreteGaussianBall,
    LaplaceBall,
    MixtureBall,
    NormalBall,
    SampledLaplaceBall,
    discrete_laplace_balls,
    response_balls,
)
from deniable.events import Claimed, DiscreteGaussian, DiscreteLaplace, Event, Laplace, RandomizedResponse, Sampled
from deniable.guarantees import PureDP
from deniable.units import Relation

__all__ = ["BallTransform", "ball_pairs"]

_NONE = Fraction(0)


def ball_pairs(folded: Folded) -> list[tuple[tuple[BallTransform, BallTransform], int]]:
    """Both directions of every step, with its count."""
    pairs = [(_pair(step), count) for step, count in folded.steps]
    if folded.mu_squared:
        normal = NormalBall(folded.mu_squared)
        pairs.append(((normal, normal), 1))
    return pairs


def _pair(step: Event) -> tuple[BallTransform, BallTransform]:
    if isinstance(step, Sampled):
        return _sampled(step)
    one: BallTransform
    if isinstance(step, Laplace):
        one = LaplaceBall(step.sensitivity / step.scale)
    elif isinstance(step, DiscreteLaplace):
        one = discrete_laplace_balls(step.scale, int(step.sensitivity))
    elif isinstance(step, DiscreteGaussian):
        one = DiscreteGaussianBall(step.scale, int(step.sensitivity))
    elif isinstance(step, RandomizedResponse):
        one = response_balls(step.epsilon, step.categories)
    elif isinstance(step, Claimed) and isinstance(step.guarantee, PureDP):
        one = response_balls(step.guarantee.epsilon, 2)
    else:
        raise NotCertified(f"no ball transform for {type(step).__name__}")
    return one, one


def _sampled(step: Sampled) -> tuple[BallTransform, BallTransform]:
    squares = gaussian_squares(step.event)
    if squares is None:
        if not isinstance(step.event, Laplace):
            raise NotCertified(f"no ball transform for a sampled {type(step.event).__name__}")
        epsilon = step.event.sensitivity / step.event.scale
        return SampledLaplaceBall(epsilon, step.rate, True), SampledLaplaceBall(epsilon, step.rate, False)
    moved, far = squares
    if step.relation is Relation.REPLACE:
        both = MixtureBall(step.rate, far, step.rate, far)
        return both, both
    return MixtureBall(step.rate, moved, _NONE, _NONE), MixtureBall(_NONE, _NONE, step.rate, moved)
