"""The rule of steps of which only a guarantee is known.

An (ε, δ) promise is an ε promise and a leak of δ. A promise about Rényi divergences is added up order by order. An FDP
promise is a leak and a trade-off function from 1. The pair is the worst that the promise allows, so it is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from deniable.accounting.certificate import NotCertified
from deniable.accounting.filters.costs import Cost, Orders, pure, unknown
from deniable.accounting.rules import HUGE, TINY, Rule, Shares
from deniable.conversions.group import for_group
from deniable.errors import NotSupported
from deniable.events import Claimed, Event, ForGroup, ToReplace
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.numerics.rounding import float_above
from deniable.units import RECORD, Relation

if TYPE_CHECKING:
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.pairs.law import Law
    from deniable.accounting.proof.transforms import BallTransform
    from deniable.guarantees import Curve

_SIZES = ("epsilon", "delta", "rho", "mu")
_ORDERS = ("order", "omega")


class ClaimedRule(Rule[Claimed]):
    """A promise, by its kind."""

    def described(self, step: Claimed) -> bool:
        return False

    def group(self, event: Claimed, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        """kε, k²ρ, kμ, and (kε, δ(e^{kε} − 1)/(e^ε − 1)); other promises keep their wrapping."""
        promise = event.guarantee
        if members == 1:
            yield Claimed(_under(promise, relation)), 1
        elif isinstance(promise, PureDP | ZCDP | GDP | ApproxDP):
            yield Claimed(_under(for_group(promise, members), relation)), 1
        elif promise.relation is relation:
            yield ForGroup(event, members), 1
        else:
            yield (ToReplace(event) if members == 2 else ForGroup(ToReplace(event), members // 2)), 1

    def is_free(self, event: Claimed) -> bool:
        """A promise of nothing at all."""
        promise = event.guarantee
        if isinstance(promise, FDP):
            return promise.tradeoff == TradeOff.perfect()
        # At an order above 1, a Rényi divergence of 0 is equality.
        return not any(value for name, value in promise.numbers.items() if name not in _ORDERS)

    def squares(self, event: Claimed) -> tuple[Fraction, Fraction] | None:
        promise = event.guarantee
        return (promise.mu**2, promise.mu**2) if isinstance(promise, GDP) else None

    def shares(self, step: Claimed, relation: Relation) -> Shares:
        match step.guarantee:
            case ApproxDP(epsilon=epsilon, delta=delta):
                rest = (Claimed(PureDP(epsilon, relation=relation)),) if epsilon else ()
                return Shares(steps=rest, leak=delta)
            case ApproxZCDP(rho=rho, delta=delta):
                return Shares(leak=delta, renyi=(ZCDP(rho, relation=relation),) if rho else ())
            case FDP(tradeoff=tradeoff):
                leak, inside = _without_leak(tradeoff.symmetrized())
                told = inside != TradeOff.perfect()
                return Shares(steps=(Claimed(FDP(inside, relation=relation)),) if told else (), leak=leak)
            case ZCDP() | TCDP() | RDP():
                return Shares(renyi=(step.guarantee,))
        return super().shares(step, relation)

    def clamp(self, event: Claimed) -> Event:
        return Claimed(clamp_promise(event.guarantee))

    def laws(self, step: Claimed) -> tuple[Law, ...]:
        from deniable.accounting.pairs import normal_law, renyi_law
        from deniable.accounting.pairs.bounds import tradeoff_law
        from deniable.accounting.pairs.discrete import randomized_response

        match step.guarantee:
            case PureDP(epsilon=epsilon):
                return (randomized_response(float(epsilon)),)
            case GDP(mu=mu):
                return (normal_law(mu**2),)
            case ZCDP() | TCDP() | RDP():
                return (renyi_law(((step.guarantee, 1),)),)
            case FDP(tradeoff=tradeoff):
                return (tradeoff_law(tradeoff.symmetrized()),)
        raise NotSupported(f"there is no dominating pair for a promise of {type(step.guarantee).__name__}")

    def closed(self, step: Claimed, count: int, of_bound: str) -> Curve | None:
        from deniable.accounting.closed import response_curve

        promise = step.guarantee
        return response_curve(promise.epsilon, count, of_bound) if isinstance(promise, PureDP) else None

    def transforms(self, step: Claimed) -> tuple[Transform, Transform] | None:
        from deniable.accounting.contour.atoms import randomized_response

        promise = step.guarantee
        one = randomized_response(promise.epsilon) if isinstance(promise, PureDP) else None
        return None if one is None else (one, one)

    def balls(self, step: Claimed) -> tuple[BallTransform, BallTransform]:
        from deniable.accounting.proof.transforms import response_balls

        if not isinstance(step.guarantee, PureDP):
            raise NotCertified(f"no ball transform for a promise of {type(step.guarantee).__name__}")
        one = response_balls(step.guarantee.epsilon, 2)
        return one, one

    def cost(self, step: Claimed, orders: Orders) -> Cost:
        promise = step.guarantee
        return pure(promise.epsilon, orders) if isinstance(promise, PureDP) else unknown(orders)

    def report(self, event: Claimed) -> tuple[float, float, float] | None:
        """Of any ε₀-DP report a share of e^−ε₀ are clones."""
        if not isinstance(event.guarantee, PureDP):
            return None
        epsilon = float_above(event.guarantee.epsilon)
        return epsilon, math.exp(-epsilon), 1.0


def clamp_promise(promise: Guarantee) -> Guarantee:
    """A promise with each of its sizes within the range; 0 stays 0. A promise at an order is one at all lower ones."""
    sizes = {name: value for name, value in promise.numbers.items() if name in _SIZES and value}
    if any(value > HUGE for value in sizes.values()):
        return ApproxDP(0, 1, relation=promise.relation)
    orders = {name: min(value, HUGE) for name, value in promise.numbers.items() if name in _ORDERS}
    return replace(promise, **orders, **{name: max(value, TINY) for name, value in sizes.items()})


def _without_leak(tradeoff: TradeOff) -> tuple[Fraction, TradeOff]:
    """A symmetric trade-off function as a leak of 1 − f(0) and what is left: every corner over f(0)."""
    kept = tradeoff.corners[0][1]
    if not kept:
        return Fraction(1), TradeOff.perfect()
    inside = [(a / kept, b / kept) for a, b in tradeoff.corners if a <= kept]
    return 1 - kept, TradeOff(inside)


def _under(promise: Guarantee, relation: Relation) -> Guarantee:
    """The same numbers for the nameless unit, under a relation."""
    return replace(promise, relation=relation, unit=RECORD)
