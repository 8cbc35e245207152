"""The rule of Gaussian noise under a random number of shifts: stated mixtures, and groups under Poisson sampling.

`components` proves the pair. Its Rényi divergences have no closed form in both orders; they are read off the contour
engine's certified transform M, as (α − 1) D_α = log M(α − 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from deniable.accounting.filters.costs import Cost, Orders, least, unknown
from deniable.accounting.rules import HUGE, TINY, Rule, revealing
from deniable.events import Event, ForGroup, Gaussian, GaussianMixture, Sampled, ToReplace
from deniable.numerics.exact import short_above
from deniable.numerics.rounding import float_above
from deniable.units import Relation

if TYPE_CHECKING:
    from deniable.accounting.components import Components
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.pairs.law import Law

LARGEST_GROUP = 512
"""Members of a group up to which all counts are kept apart; a larger group is bounded along a path of neighbours."""


@dataclass(frozen=True)
class Shape:
    """Weights and shifts in units of the noise, ascending from 0; `mirrored` when both worlds are shifted, REPLACE."""

    weights: tuple[Fraction, ...]
    shifts: tuple[Fraction, ...]
    mirrored: bool

    def _components(self) -> Components:
        from deniable.accounting.components import Components

        return Components.of(self.weights, [float(shift) for shift in self.shifts])

    def laws(self) -> tuple[Law, ...]:
        """Of both orders."""
        from deniable.accounting.components import ComponentsLaw

        return ComponentsLaw(self._components(), self.mirrored).directions

    def transforms(self) -> tuple[Transform, Transform]:
        """Of both orders."""
        from deniable.accounting.contour.mixture import Mixture, Side

        parts, absent = self._components(), Side(0.0, 1.0, 0.0)
        if self.mirrored:
            both = Mixture(parts, parts)
            return both, both
        return Mixture(parts, absent), Mixture(absent, parts)

    def variation(self) -> float:
        """That of the parts, with their weights: N(a) and N(−b) are (a + b)/2 apart at most (Pinsker)."""
        each = 2 if self.mirrored else 1
        parts = zip(self.weights, self.shifts, strict=True)
        return float_above(sum((weight * min(each * shift / 2, Fraction(1)) for weight, shift in parts), Fraction(0)))

    def cost(self, orders: Orders) -> Cost:
        """Rényi divergences at any order, the larger of both directions; no ε."""
        pair = self.transforms()
        return Cost(renyi=tuple(divergence(pair, order) for order in orders))


def divergence(pair: tuple[Transform, Transform], order: Fraction) -> Fraction | None:
    """D_α in the worse direction, rounded up to twelve figures so that no two machines differ; None if not certified.

    K(λ) = log M(λ) grows in λ > 0, so λ may be rounded up.
    """
    from deniable.accounting.certificate import NotCertified

    tilt = float_above(order - 1)
    try:
        lines = [side.tilted(tilt, reach=0.0, digits=40.0) for side in dict.fromkeys(pair)]
    except NotCertified:
        return None
    most = max(Fraction(line.logarithm) + Fraction(line.error) for line in lines)
    return short_above(max(most, Fraction(0)) / (order - 1), figures=12)


@lru_cache(maxsize=256)
def group_components(step: ForGroup) -> Shape | None:
    """The pair of a group under Poisson sampling of one Gaussian step, where it is exact; None elsewhere.

    Under REPLACE only for clipped vectors, reach = sensitivity/2. Several steps on one sample are not covered: their
    vectors may be chosen one after the other, and the theorem is about one choice.
    """
    from deniable.accounting.components import binomial_weights

    inner, members = step.event, step.members
    if not isinstance(inner, Sampled) or not isinstance(inner.event, Gaussian) or members > LARGEST_GROUP:
        return None
    noise = inner.event
    mirrored = noise.relation is Relation.REPLACE
    reach = noise.reach if mirrored else noise.sensitivity
    if reach is None or (mirrored and 2 * reach != noise.sensitivity):
        return None
    if not TINY <= reach / noise.scale <= HUGE or inner.rate < TINY:  # beyond floats a path of neighbours bounds it
        return None
    shifts = tuple(j * reach / noise.scale for j in range(members + 1))
    return Shape(tuple(binomial_weights(members, inner.rate)), shifts, mirrored)


class GaussianMixtureRule(Rule[GaussianMixture]):
    """A stated mixture. Groups, and the move to REPLACE, go along a path of neighbours."""

    def steps(self, event: GaussianMixture, members: int, moved: bool) -> Iterator[tuple[Event, int]]:
        step: Event = ToReplace(event) if moved else event
        yield (step if members == 1 else ForGroup(step, members)), 1

    def clamp(self, event: GaussianMixture) -> Event:
        shifts = [far / event.scale for far in event.sensitivities]
        if max(shifts) > HUGE:
            return revealing(event.relation)
        # A smaller shift is raised, and so is a smaller probability of a shift: the weight comes from shift 0.
        raised = [(max(shift, TINY) if shift else shift) for shift in shifts]
        if raised == shifts and TINY <= event.scale <= HUGE and min(event.probabilities) >= TINY**2:
            return event
        weights = [max(weight, TINY**2) for weight in event.probabilities]
        total = sum(weights)
        if total > 1 and shifts[0] == 0 and weights[0] > total - 1:
            weights[0] -= total - 1
        elif total > 1:
            return revealing(event.relation)
        return GaussianMixture(1, raised, weights, event.relation)

    def attained(self, step: GaussianMixture) -> bool:
        return True

    def variation(self, step: GaussianMixture) -> float:
        return _stated(step).variation()

    def laws(self, step: GaussianMixture) -> tuple[Law, ...]:
        return _stated(step).laws()

    def transforms(self, step: GaussianMixture) -> tuple[Transform, Transform] | None:
        return _stated(step).transforms()

    def cost(self, step: GaussianMixture, orders: Orders) -> Cost:
        from deniable.accounting.filters.costs import concentrated

        # Joint quasi-convexity: no order costs more than the largest shift for certain.
        far = step.sensitivities[-1] / step.scale
        certain = concentrated(far**2 / 2, orders)
        if far < TINY:  # the transform computes in floats
            return certain
        return least(_stated(step).cost(orders), certain) if far**2 / 2 <= HUGE else unknown(orders)


def _stated(step: GaussianMixture) -> Shape:
    """With a weight of 0 at shift 0 left out."""
    return Shape(step.probabilities, tuple(far / step.scale for far in step.sensitivities), False)
