"""Rules of sums, repetitions, groups and the move to REPLACE.

`fold` takes them apart by their `parts`. What stays around a step that cannot speak of groups itself, `ForGroup` or
`ToReplace`, is bounded along a path of neighbours (`pairs.bounds.path`). The group of a Poisson-sampled Gaussian step
has an exact pair instead (`components`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from deniable.accounting.filters.costs import Cost, Orders, concentrated, cost, least, pure, unknown
from deniable.accounting.rules import HUGE, Part, Rule, revealing, rule_of
from deniable.accounting.rules.mixtures import group_components
from deniable.conversions import formulas
from deniable.events import Composed, Event, ForGroup, Repeated, ToReplace
from deniable.numerics.exact import ceiling

if TYPE_CHECKING:
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.pairs.law import Law

Path = TypeVar("Path", ForGroup, ToReplace)


class ComposedRule(Rule[Composed]):
    """A sum."""

    def parts(self, event: Composed) -> tuple[Part, ...]:
        return tuple(map(Part, event.parts))

    def is_free(self, event: Composed) -> bool:
        return all(rule_of(part).is_free(part) for part in event.parts)

    def squares(self, event: Composed) -> tuple[Fraction, Fraction] | None:
        known = [squares for part in event.parts if (squares := rule_of(part).squares(part)) is not None]
        if len(known) < len(event.parts):
            return None
        return sum((s for s, _ in known), Fraction(0)), sum((r for _, r in known), Fraction(0))

    def clamp(self, event: Composed) -> Event:
        return Composed(rule_of(part).clamp(part) for part in event.parts)

    def replacing(self, event: Composed) -> Event | None:
        parts = [moved for part in event.parts if (moved := rule_of(part).replacing(part)) is not None]
        return Composed(parts) if len(parts) == len(event.parts) else None


class RepeatedRule(Rule[Repeated]):
    """The same event several times."""

    def parts(self, event: Repeated) -> tuple[Part, ...]:
        return (Part(event.event, times=event.count),)

    def is_free(self, event: Repeated) -> bool:
        return rule_of(event.event).is_free(event.event)

    def squares(self, event: Repeated) -> tuple[Fraction, Fraction] | None:
        inner = rule_of(event.event).squares(event.event)
        return None if inner is None else (inner[0] * event.count, inner[1] * event.count)

    def clamp(self, event: Repeated) -> Event:
        inner = rule_of(event.event).clamp(event.event)
        return revealing(event.relation) if event.count > HUGE else Repeated(inner, event.count)

    def replacing(self, event: Repeated) -> Event | None:
        inner = rule_of(event.event).replacing(event.event)
        return None if inner is None else inner * event.count


class PathRule(Rule[Path], ABC):
    """A step that is known for neighbours, along a path of `_length` of them."""

    def described(self, step: Path) -> bool:
        return False

    @abstractmethod
    def _length(self, event: Path) -> int:
        """How many neighbours the path passes."""

    def is_free(self, event: Path) -> bool:
        return rule_of(event.event).is_free(event.event)

    def laws(self, step: Path) -> tuple[Law, ...]:
        from deniable.accounting.pairs import inner_laws
        from deniable.accounting.pairs.bounds import path

        return (path(inner_laws(step.event), self._length(step)),)

    def cost(self, step: Path, orders: Orders) -> Cost:
        plain, length = cost(step.event, orders), self._length(step)
        if plain.epsilon is not None:
            delta = ceiling(formulas.group_delta(plain.epsilon, plain.delta, length))
            return pure(plain.epsilon * length, orders, delta)
        if plain.rho is not None and not plain.delta:
            # Bun and Steinke 2016, Proposition 1.9.
            return concentrated(plain.rho * length**2, orders)
        return unknown(orders)


class ForGroupRule(PathRule[ForGroup]):
    """k units, one after the other."""

    def parts(self, event: ForGroup) -> tuple[Part, ...]:
        return (Part(event.event, members=event.members),)

    def clamp(self, event: ForGroup) -> Event:
        inner = rule_of(event.event).clamp(event.event)
        return revealing(event.relation) if event.members > HUGE else ForGroup(inner, event.members)

    def _length(self, event: ForGroup) -> int:
        return event.members

    # A Poisson-sampled Gaussian step has a pair of its own (`components`); every other step stays a path.

    def described(self, step: ForGroup) -> bool:
        return group_components(step) is not None

    def attained(self, step: ForGroup) -> bool:
        """By members whose contributions are equal."""
        return group_components(step) is not None

    def variation(self, step: ForGroup) -> float:
        shape = group_components(step)
        return 1.0 if shape is None else shape.variation()

    def laws(self, step: ForGroup) -> tuple[Law, ...]:
        shape = group_components(step)
        return super().laws(step) if shape is None else shape.laws()

    def transforms(self, step: ForGroup) -> tuple[Transform, Transform] | None:
        shape = group_components(step)
        return None if shape is None else shape.transforms()

    def cost(self, step: ForGroup, orders: Orders) -> Cost:
        shape = group_components(step)
        along = super().cost(step, orders)
        return along if shape is None else least(along, shape.cost(orders))


class ToReplaceRule(PathRule[ToReplace]):
    """Remove one unit, add another: a path of two."""

    def parts(self, event: ToReplace) -> tuple[Part, ...]:
        return (Part(event.event, moved=True),)

    def clamp(self, event: ToReplace) -> Event:
        return ToReplace(rule_of(event.event).clamp(event.event))

    def _length(self, event: ToReplace) -> int:
        return 2
