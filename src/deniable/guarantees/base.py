"""The base of every guarantee: a frozen value about one unit under one relation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Self

from deniable._checks import member, shown
from deniable._notebook import Shown
from deniable.guarantees.printing import figures
from deniable.units import RECORD, Relation, Unit, changed, one_relation, one_unit


@dataclass(frozen=True, init=False, eq=True, repr=False)
class Guarantee(Shown):
    """What is promised, to whom. Subclasses hold the numbers, which are exact fractions."""

    relation: Relation
    unit: Unit

    def _store(self, *, relation: Relation, unit: Unit | str, **numbers: Any) -> None:
        """Set the fields of a frozen guarantee, once, from its constructor."""
        member("relation", relation, Relation, remedy="Use ADD_REMOVE, REPLACE or ZERO_OUT.")
        for name, value in (*numbers.items(), ("relation", relation), ("unit", Unit.of(unit))):
            object.__setattr__(self, name, value)

    @property
    def numbers(self) -> dict[str, Any]:
        """The parameters alone, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("relation", "unit")}

    @property
    def figures(self) -> str:
        """ "ε = 0.5, δ = 1e-6": the numbers as one would type them, cut downwards when long."""
        return figures(self.numbers)

    @property
    def neighbours(self) -> str:
        """ "one patient added or removed"."""
        return changed(self.unit, self.relation)

    def about(self, unit: Unit | str) -> Self:
        """The same promise, said of a named unit."""
        return replace(self, unit=self.unit.named(unit, doing="restate"))

    def __le__(self, other: object) -> bool:
        """At most the other's cost, in every number. Only guarantees of one kind, unit and relation compare."""
        if not isinstance(other, Guarantee) or type(other) is not type(self):
            return NotImplemented
        one_relation(self.relation, other.relation, doing="compare")
        one_unit(other.unit, self.unit, doing="compare")
        return self._costs_at_most(other)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Guarantee) or type(other) is not type(self):
            return NotImplemented
        return self <= other and not other <= self

    def _costs_at_most(self, other: Self) -> bool:
        mine, theirs = self.numbers, other.numbers
        return all(mine[name] <= theirs[name] for name in mine)

    def __repr__(self) -> str:
        parts = [f"{n}={shown(v) if isinstance(v, Fraction) else repr(v)}" for n, v in self.numbers.items()]
        if self.relation is not Relation.ADD_REMOVE:
            parts.append(f"relation={self.relation.name}")
        if self.unit != RECORD:
            name = self.unit.column or self.unit.noun
            parts.append(f"unit={(name if self.unit.size == 1 else self.unit)!r}")
        return f"{type(self).__name__}({', '.join(parts)})"
