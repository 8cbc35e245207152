"""Rules of steps that choose one of several outcomes: randomized response and the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deniable.accounting.filters.costs import Cost, Orders, concentrated, least, pure
from deniable.accounting.rules import HUGE, Rule, clamp_size
from deniable.conversions import formulas
from deniable.events import Claimed, Event, ExponentialMechanism, RandomizedResponse
from deniable.guarantees import ZCDP, PureDP
from deniable.numerics.rounding import float_above
from deniable.units import Relation

if TYPE_CHECKING:
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.pairs.law import Law
    from deniable.accounting.proof.transforms import BallTransform
    from deniable.guarantees import Curve


class RandomizedResponseRule(Rule[RandomizedResponse]):
    """k-ary randomized response: two or three losses."""

    def group(self, event: RandomizedResponse, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        """Every member sends a report of their own."""
        yield event, members

    def clamp(self, event: RandomizedResponse) -> Event:
        if event.categories > HUGE:
            return clamp_size(event.epsilon, event.relation, lambda e: Claimed(PureDP(e, relation=event.relation)))
        return clamp_size(event.epsilon, event.relation, lambda e: RandomizedResponse(e, event.categories))

    def laws(self, step: RandomizedResponse) -> tuple[Law, ...]:
        from deniable.accounting.pairs.discrete import randomized_response

        return (randomized_response(float(step.epsilon), step.categories),)

    def attained(self, step: RandomizedResponse) -> bool:
        return True

    def closed(self, step: RandomizedResponse, count: int, of_bound: str) -> Curve | None:
        from deniable.accounting.closed import response_curve

        return response_curve(step.epsilon, count, of_bound) if step.categories == 2 else None

    def transforms(self, step: RandomizedResponse) -> tuple[Transform, Transform]:
        from deniable.accounting.contour.atoms import randomized_response

        one = randomized_response(step.epsilon, step.categories)
        return one, one

    def balls(self, step: RandomizedResponse) -> tuple[BallTransform, BallTransform]:
        from deniable.accounting.proof.transforms import response_balls

        one = response_balls(step.epsilon, step.categories)
        return one, one

    def cost(self, step: RandomizedResponse, orders: Orders) -> Cost:
        return pure(step.epsilon, orders)

    def report(self, event: RandomizedResponse) -> tuple[float, float, float]:
        """A report is a fair draw from the two values in question with probability 2/(e^ε₀ + k − 1)."""
        epsilon, others = float_above(event.epsilon), event.categories - 1
        low = math.exp(-epsilon)
        return epsilon, 2 * low / (1 + others * low), min(1.0, (1 + low) / (1 + others * low))


class ExponentialMechanismRule(Rule[ExponentialMechanism]):
    """The worst pair whose loss has range ε (`pairs.laplace`)."""

    def group(self, event: ExponentialMechanism, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        """The utility moves by `members` sensitivities."""
        yield ExponentialMechanism(event.epsilon * members, relation), 1

    def clamp(self, event: ExponentialMechanism) -> Event:
        return clamp_size(event.epsilon, event.relation, lambda e: ExponentialMechanism(e, event.relation))

    def laws(self, step: ExponentialMechanism) -> tuple[Law, ...]:
        from deniable.accounting.pairs.laplace import RangeLaw

        return (RangeLaw(float(step.epsilon)),)

    def alternative(self, step: ExponentialMechanism) -> Event:
        """ε²/8-zCDP (`formulas`): better than the pair from some ten steps on.

        The pair must hold for every ε at once, and does so by taking the worst utilities anew for each.
        """
        return Claimed(ZCDP(formulas.exponential_rho(step.epsilon), relation=step.relation))

    def transforms(self, step: ExponentialMechanism) -> tuple[Transform, Transform]:
        from deniable.accounting.contour.laplace import Spread

        one = Spread(float(step.epsilon))
        return one, one

    def cost(self, step: ExponentialMechanism, orders: Orders) -> Cost:
        return least(pure(step.epsilon, orders), concentrated(formulas.exponential_rho(step.epsilon), orders))
