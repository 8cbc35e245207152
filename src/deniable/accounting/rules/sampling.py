"""Rules of samplings and shuffles: Poisson samples, batches of a fixed size, shuffled local reports.

Each asks the rule of the event inside. The pairs are proved in `pairs.sampling` and `pairs.shuffling`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from deniable.accounting.filters.costs import Cost, Orders, cost, pure, unknown
from deniable.accounting.fold import gather, gaussian_squares, steps_of
from deniable.accounting.rules import HUGE, TINY, Part, Rule, rule_of
from deniable.conversions import formulas
from deniable.events import Event, ForGroup, Sampled, SampledWithoutReplacement, Shuffled, ToReplace
from deniable.events.sampling import leaves
from deniable.numerics.exact import ceiling
from deniable.numerics.rounding import float_above, root_of
from deniable.units import Relation

if TYPE_CHECKING:
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.pairs.law import Law
    from deniable.accounting.proof.transforms import BallTransform

Subset = TypeVar("Subset", Sampled, SampledWithoutReplacement, Shuffled)

_NOBODY = Fraction(0)


class SubsetRule(Rule[Subset]):
    """What all of them have in common: groups stay outside, where a path of neighbours bounds them."""

    def steps(self, event: Subset, members: int, moved: bool) -> Iterator[tuple[Event, int]]:
        step = self.step_of(event)
        if moved:
            step = ToReplace(step)
        yield (step if members == 1 else ForGroup(step, members)), 1

    def step_of(self, event: Subset) -> Event:
        """The step in canonical form."""
        return event

    def is_free(self, event: Subset) -> bool:
        return rule_of(event.event).is_free(event.event)


class SampledRule(SubsetRule[Sampled]):
    """A Poisson sample."""

    def parts(self, event: Sampled) -> tuple[Part, ...] | None:
        """At rate 1 nobody is left out."""
        return (Part(event.event),) if event.rate == 1 else None

    def step_of(self, event: Sampled) -> Event:
        return Sampled(rule_of(event.event).canonical(event.event), rate=event.rate)

    def steps(self, event: Sampled, members: int, moved: bool) -> Iterator[tuple[Event, int]]:
        """Noise whose sensitivity and reach are known moves to REPLACE inside the sample."""
        inner = rule_of(event.event).replacing(event.event) if moved else None
        if inner is None:
            return super().steps(event, members, moved)
        return super().steps(Sampled(inner, rate=event.rate), members, False)

    def clamp(self, event: Sampled) -> Event:
        # A sample of a sample: a higher rate costs more. Rates that no float tells from 1 are 1.
        rate = max(event.rate, TINY)
        inner = rule_of(event.event).clamp(event.event)
        return inner if 1 - rate < Fraction(1, 2**52) else Sampled(inner, rate=rate)

    def laws(self, step: Sampled) -> tuple[Law, ...]:
        from deniable.accounting.pairs import inner_laws
        from deniable.accounting.pairs.sampling import poisson, poisson_bound, poisson_replaced

        rate = float(step.rate)
        if step.relation is not Relation.REPLACE:
            return poisson(inner_laws(step.event), rate)
        placed = self._worst_placement(step.event, rate)
        return poisson_bound(inner_laws(step.event), rate) if placed is None else poisson_replaced(placed)

    def variation(self, step: Sampled) -> float:
        """Both worlds are alike while the unit is left out."""
        return float_above(step.rate) * rule_of(step.event).variation(step.event)

    def attained_alone(self, step: Sampled) -> bool:
        from deniable.accounting.pairs import attained

        inner = gather(step.relation, steps_of(step.event))
        # Several steps that are not all Gaussian are put on one lattice (`pairs.sampling.product`), which costs a
        # little.
        single = sum(count for _, count in inner.steps) + bool(inner.mu_squared) == 1
        return (
            single
            and attained(inner)
            and (step.relation is not Relation.REPLACE or self._has_worst_placement(step.event))
        )

    def attained(self, step: Sampled) -> bool:
        """Under REPLACE the pair is the larger of two orders at every ε. In a sum one order is taken throughout, so the
        pair is attained only where both are alike: the unit and its replacement lie on opposite sides of absence.
        """
        alike = step.relation is not Relation.REPLACE or _proportions(step.event) == {Fraction(2)}
        return alike and self.attained_alone(step)

    def _worst_placement(self, event: Event, rate: float) -> Law | None:
        """The worst placement of a unit and its replacement around absence; None where absence is not described."""
        squares = gaussian_squares(event)
        if squares is not None and None not in _proportions(event):
            from deniable.accounting.pairs.normal import PlacedNormalLaw

            return PlacedNormalLaw(rate, root_of(squares[1]), root_of(squares[0]))
        return rule_of(event).worst_placement(event, rate)

    def _has_worst_placement(self, event: Event) -> bool:
        """Whether a unit and its replacement can take that placement: all noise, its reaches and sensitivities in one
        proportion, so that the vectors of all steps lie on one line.
        """
        proportions = _proportions(event)
        return len(proportions) == 1 and None not in proportions and self._worst_placement(event, 0.5) is not None

    def transforms(self, step: Sampled) -> tuple[Transform, Transform] | None:
        """Under REPLACE only clipped vectors: reach = sensitivity/2."""
        from deniable.accounting.contour.mixture import Mixture, Side

        squares = gaussian_squares(step.event)
        if squares is None:
            if step.relation is Relation.REPLACE:
                return None
            return rule_of(step.event).sampled_transforms(step.event, step.rate)
        moved, far = squares
        rate, rest, absent = float(step.rate), float(1 - step.rate), Side(0.0, 1.0, 0.0)
        if step.relation is Relation.REPLACE:
            if moved != 4 * far:
                return None
            side = Side(rate, rest, root_of(far))
            both = Mixture(side, side)
            return both, both
        side = Side(rate, rest, root_of(moved))
        return Mixture(side, absent), Mixture(absent, side)

    def balls(self, step: Sampled) -> tuple[BallTransform, BallTransform]:
        from deniable.accounting.proof.transforms import MixtureBall

        squares = gaussian_squares(step.event)
        if squares is None:
            return rule_of(step.event).sampled_balls(step.event, step.rate)
        moved, far = squares
        if step.relation is Relation.REPLACE:
            both = MixtureBall(step.rate, far, step.rate, far)
            return both, both
        return MixtureBall(step.rate, moved, _NOBODY, _NOBODY), MixtureBall(_NOBODY, _NOBODY, step.rate, moved)

    def cost(self, step: Sampled, orders: Orders) -> Cost:
        if step.relation is Relation.REPLACE:
            return _unamplified(cost(step.event, orders), step.rate, orders)
        known = rule_of(step.event).sampled_cost(step.event, step.rate, orders)
        # Balle, Barthe and Gaboardi 2018, Theorem 8: (ln(1 + q(e^ε − 1)), qδ).
        return _amplified(cost(step.event, orders), step.rate, orders) if known is None else known


class SampledWithoutReplacementRule(SubsetRule[SampledWithoutReplacement]):
    """A batch of fixed size, under REPLACE."""

    def parts(self, event: SampledWithoutReplacement) -> tuple[Part, ...] | None:
        return (Part(event.event),) if event.batch == event.size else None

    def step_of(self, event: SampledWithoutReplacement) -> Event:
        inner = rule_of(event.event).canonical(event.event)
        return SampledWithoutReplacement(inner, batch=event.batch, size=event.size)

    def clamp(self, event: SampledWithoutReplacement) -> Event:
        inner, size = rule_of(event.event).clamp(event.event), min(event.size, HUGE * event.batch)
        return SampledWithoutReplacement(inner, batch=event.batch, size=size)

    def laws(self, step: SampledWithoutReplacement) -> tuple[Law, ...]:
        from deniable.accounting.pairs import inner_laws
        from deniable.accounting.pairs.sampling import without_replacement

        return without_replacement(inner_laws(step.event), step.batch / step.size)

    def cost(self, step: SampledWithoutReplacement, orders: Orders) -> Cost:
        # Balle, Barthe and Gaboardi 2018, Theorem 9: under replacement, (ln(1 + (m/n)(e^ε − 1)), (m/n)δ).
        return _amplified(cost(step.event, orders), Fraction(step.batch, step.size), orders)


class ShuffledRule(SubsetRule[Shuffled]):
    """Local reports in an order that hides who sent which: the clones of `pairs.shuffling`."""

    def clamp(self, event: Shuffled) -> Event:
        inner = rule_of(event.event).clamp(event.event)
        local = rule_of(inner).report(inner) is not None
        return Shuffled(inner, size=event.size) if local else inner

    def laws(self, step: Shuffled) -> tuple[Law, ...]:
        from deniable.accounting.pairs.shuffling import shuffled

        epsilon, clone, names = rule_of(step.event).report(step.event) or (float("inf"), 0.0, 1.0)
        return (shuffled(epsilon, clone, names, step.size),)

    def cost(self, step: Shuffled, orders: Orders) -> Cost:
        # One local report is ε-DP and the order is chosen without looking at the data. Amplification has its own
        # analysis.
        return cost(step.event, orders)


def _proportions(event: Event) -> set[Fraction | None]:
    """sensitivity/reach of all that happens to one sample; None among them where absence is not described."""
    return {rule_of(leaf).proportion(leaf) for leaf in leaves(event)}


def _amplified(plain: Cost, rate: Fraction, orders: Orders) -> Cost:
    """(ε, δ) on a sample in which a unit is kept at this rate."""
    if plain.epsilon is None:
        return _unamplified(plain, rate, orders)
    return pure(ceiling(formulas.amplified_epsilon(plain.epsilon, rate)), orders, plain.delta * rate)


def _unamplified(plain: Cost, rate: Fraction, orders: Orders) -> Cost:
    """Sampling without amplification. Who is kept does not depend on the data, and both laws are mixtures over it.

    Rényi divergences and ε stay, by joint quasi-convexity; the differing unit is kept with probability q, so δ becomes
    qδ. Beside a δ only the ε of the split is known to survive.
    """
    if not plain.delta:
        return plain
    return unknown(orders) if plain.epsilon is None else pure(plain.epsilon, orders, plain.delta * rate)
