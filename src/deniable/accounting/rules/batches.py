"""Rules of batches as people draw them: random allocation, and Poisson samples that are cut to a capacity.

**Truncated Poisson samples** (ADD_REMOVE). m of the other units are sampled, a number that does not depend on the unit
in question. If m < B, the unit joins with probability q and moves the sum by at most Δ: a Poisson sample. If m ≥ B, the
batch is a uniform B-subset either way; the unit is in it with probability qB/(m + 1) < q, and then one of the others,
drawn uniformly, is not (couple the two subsets): the sum moves by at most 2Δ. Let m's side be given away. With β =
P[Bin(n − 1, q) ≥ B], n the largest number of units,

    (1 − β) × (Poisson sample of rate q, Δ)  +  β × (Poisson sample of rate q, 2Δ)

dominates: the second is larger than the first at every ε, and it grows with its rate, so that fewer units and larger
m cost less. Losses of a mixture whose side is known mix, so both curves and e^{(α−1)D_α} are averages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from deniable.accounting.filters.costs import Cost, Orders, cost, least
from deniable.accounting.rules import TINY, Part, Rule, rule_of
from deniable.events import Event, ForGroup, Gaussian, RandomAllocation, Sampled, ToReplace, TruncatedSampled
from deniable.numerics.exact import exp_up, log_up, short_above
from deniable.numerics.rounding import float_above

if TYPE_CHECKING:
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.pairs.law import Law
    from deniable.guarantees import Curve

Batches = TypeVar("Batches", RandomAllocation, TruncatedSampled)

_MOST_STEPS = 10**5
"""More steps in an epoch than this count as this many: fewer steps cost more."""

_MOST_UNITS = 10**12
"""With more units than this a batch counts as full."""

_MOST_ORDER = 256


class BatchesRule(Rule[Batches]):
    """Groups and the move to REPLACE stay outside, where a path of neighbours bounds them."""

    def steps(self, event: Batches, members: int, moved: bool) -> Iterator[tuple[Event, int]]:
        step: Event = ToReplace(event) if moved else event
        yield (step if members == 1 else ForGroup(step, members)), 1


class RandomAllocationRule(BatchesRule[RandomAllocation]):
    """The pair of `pairs.allocation`, of one participation; several are several epochs of fewer steps."""

    def parts(self, event: RandomAllocation) -> tuple[Part, ...] | None:
        """k blocks of ⌊t/k⌋ or ⌈t/k⌉ steps, one participation in each; where k = t, a unit is in every step."""
        if event.steps == event.participations:
            return (Part(event.event, times=event.steps),)
        if event.participations == 1:
            return None
        short, longer = divmod(event.steps, event.participations)
        blocks = ((short, event.participations - longer), (short + 1, longer))
        return tuple(Part(RandomAllocation(event.event, steps), times) for steps, times in blocks if times)

    def clamp(self, event: RandomAllocation) -> Event:
        inner, steps = rule_of(event.event).clamp(event.event), min(event.steps, _MOST_STEPS)
        return RandomAllocation(inner, steps) if isinstance(inner, Gaussian) else inner

    def laws(self, step: RandomAllocation) -> tuple[Law, ...]:
        from deniable.accounting.pairs import normal_law
        from deniable.accounting.pairs.allocation import allocation

        square = _square(step.event)
        return allocation(float_above(square), step.steps) if _is_ordinary(square) else (normal_law(square),)

    def alternative(self, step: RandomAllocation) -> Event | None:
        """Without amplification a unit takes part in one Gaussian step."""
        return step.event

    def closed(self, step: RandomAllocation, count: int, of_bound: str) -> Curve | None:
        """One epoch: the smaller of its pair and of the Gaussian step."""
        if count > 1:
            return None
        from deniable.accounting.accountant import LeastOf
        from deniable.accounting.closed import GaussianCurve, SingleCurve

        single = SingleCurve(self.laws(step), f"closed form (one epoch){of_bound}")
        return LeastOf(single, GaussianCurve(_square(step.event), "closed form (Gaussian) of the bound"))

    def cost(self, step: RandomAllocation, orders: Orders) -> Cost:
        """Removing has a closed form at whole orders, adding a certified quadrature."""
        plain = cost(step.event, orders)
        return least(plain, Cost(renyi=tuple(_allocated(step, order) for order in orders)))


def _square(event: Event) -> Fraction:
    """(sensitivity/scale)² of the one Gaussian step inside."""
    squares = rule_of(event).squares(event)
    return squares[0] if squares is not None else Fraction(0)


def _is_ordinary(square: Fraction) -> bool:
    """Outside of this range no lattice is good, and no amplification is claimed."""
    return Fraction(1, 10**6) <= square <= 40


def _allocated(step: RandomAllocation, order: Fraction) -> Fraction | None:
    """D_α in both directions, rounded up. D_α grows with α, so an order is rounded up to a whole one."""
    from deniable.accounting.pairs.allocation import adding_divergence, divergence

    square, whole = _square(step.event), math.ceil(order)
    if not _is_ordinary(square) or whole > _MOST_ORDER:
        return None
    a, steps = float_above(square), min(step.steps, _MOST_STEPS)
    worst = max(divergence(a, steps, whole), adding_divergence(a, steps, float_above(order)))
    return short_above(Fraction(worst), figures=12) if math.isfinite(worst) else None


class TruncatedSampledRule(BatchesRule[TruncatedSampled]):
    """The mixture above."""

    def parts(self, event: TruncatedSampled) -> tuple[Part, ...] | None:
        """A capacity for all is none."""
        return (Part(Sampled(event.event, event.rate)),) if event.capacity >= event.size else None

    def clamp(self, event: TruncatedSampled) -> Event:
        inner = rule_of(event.event).clamp(event.event)
        if not isinstance(inner, Gaussian):
            return inner
        if event.size > _MOST_UNITS:
            return Sampled(_doubled(inner), max(event.rate, TINY))
        return TruncatedSampled(inner, max(event.rate, TINY), event.capacity, event.size)

    def laws(self, step: TruncatedSampled) -> tuple[Law, ...]:
        from deniable.accounting.pairs.sampling import blend

        full = _full(step)
        one, two = (rule_of(sampled).laws(sampled) for sampled in _sides(step))
        return tuple(blend([(1 - full, a), (full, b)]) for a, b in zip(one, two, strict=True))

    def variation(self, step: TruncatedSampled) -> float:
        one, two = (rule_of(sampled).variation(sampled) for sampled in _sides(step))
        return one + _full(step) * two

    def transforms(self, step: TruncatedSampled) -> tuple[Transform, Transform] | None:
        from deniable.accounting.contour.blend import MeanTransform

        one, two = (rule_of(sampled).transforms(sampled) for sampled in _sides(step))
        full = _full(step)
        if one is None or two is None or not 0 < full < 1:
            return two
        return MeanTransform(((1 - full, one[0]), (full, two[0]))), MeanTransform(((1 - full, one[1]), (full, two[1])))

    def cost(self, step: TruncatedSampled, orders: Orders) -> Cost:
        (one, two), full = (cost(sampled, orders) for sampled in _sides(step)), Fraction(_full(step))
        each = zip(one.renyi, two.renyi, orders, strict=True)
        return Cost(renyi=tuple(_mean(full, a, b, order) for a, b, order in each))


def _doubled(event: Event) -> Gaussian:
    """A Gaussian step whose answer moves twice as far, in units of its sensitivity."""
    return Gaussian(1, 2 * event.sensitivity / event.scale)  # type: ignore[attr-defined]


def _sides(step: TruncatedSampled) -> tuple[Event, Event]:
    """The step when there is room, and when the batch is full."""
    return step.event.sampled(rate=step.rate), _doubled(step.event).sampled(rate=step.rate)


def _full(step: TruncatedSampled) -> float:
    """β, rounded up."""
    from scipy import special

    if step.size > _MOST_UNITS:
        return 1.0
    tail = float(special.betainc(step.capacity, step.size - step.capacity, float_above(step.rate)))
    return min(1.0, tail * (1 + 1e-9) + 1e-300)


def _mean(full: Fraction, one: Fraction | None, two: Fraction | None, order: Fraction) -> Fraction | None:
    """log((1 − β)e^{(α−1)D} + β e^{(α−1)D′})/(α − 1), rounded up."""
    if one is None or two is None or (order - 1) * two > 2000:
        return two
    mean = (1 - full) * exp_up((order - 1) * one) + full * exp_up((order - 1) * two)
    return short_above(log_up(mean) / (order - 1), figures=12)
