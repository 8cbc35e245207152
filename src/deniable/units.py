"""Who is protected, and what it means for two data sets to be neighbours.

A privacy promise is about a *unit* (a row, or a person who owns many rows) and a *relation* (what may change between
two neighbouring data sets). Numbers under different units or relations are never added or compared; the moves that
exist are explicit: `event.for_group(k)`, and `event.to_replace()` for two steps of adding or removing.

>>> print(change_text(Unit.of("patient_id"), Relation.ADD_REMOVE))
one patient added or removed
>>> print(change_text(Unit.of("patient_id").group(3), Relation.REPLACE))
a group of 3 patients replaced by others
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from deniable._checks import count
from deniable._escapes import printable
from deniable.errors import InvalidArgument, UnitMismatch


class Relation(Enum):
    """What may change between neighbouring data sets."""

    ADD_REMOVE = "add_remove"
    """One unit is in one data set and absent from the other; the number of units is itself private."""

    REPLACE = "replace"
    """One unit's data are exchanged for any other; the number of units is public."""

    ZERO_OUT = "zero_out"
    """One unit's contribution is replaced by nothing; the number of units is public."""

    @classmethod
    def of(cls, relation: AnyRelation) -> Relation:
        """A relation from the constant or its name: `REPLACE`, `"REPLACE"` and `"replace"` are one."""
        try:
            return relation if isinstance(relation, Relation) else cls(relation.lower())
        except (AttributeError, ValueError):
            raise InvalidArgument(
                "relation", relation, "one of ADD_REMOVE, REPLACE and ZERO_OUT", "The constant, or its name in quotes."
            ) from None

    @property
    def verb(self) -> str:
        """The relation in words, after the unit: "one patient *added or removed*"."""
        return {"add_remove": "added or removed", "replace": "replaced by another", "zero_out": "blanked out"}[
            self.value
        ]

    def __repr__(self) -> str:
        return self.name


AnyRelation: TypeAlias = Relation | str
"""A relation as a caller may write it: the constant, or its name."""

ADD_REMOVE = Relation.ADD_REMOVE
"""One unit is added or removed: `Relation.ADD_REMOVE`."""
REPLACE = Relation.REPLACE
"""One unit's data are exchanged for other data: `Relation.REPLACE`."""
ZERO_OUT = Relation.ZERO_OUT
"""One unit's contribution is replaced by nothing: `Relation.ZERO_OUT`."""


@dataclass(frozen=True)
class Unit:
    """Who is protected: one row, or one person named by an id column; or a group of these."""

    column: str | None = None
    """The id column; None when every row is a unit of its own."""

    noun: str = "row"
    """The word for one unit, in sentences."""

    members: int = 1
    """How many of them at once. A promise about a group holds for every smaller one."""

    def __post_init__(self) -> None:
        count("members", self.members)
        # The word comes from a column's name, and goes into sentences.
        object.__setattr__(self, "noun", printable(self.noun))

    @classmethod
    def of(cls, unit: Unit | str) -> Unit:
        """A unit from a column name: `"patient_id"` is a patient, `"row"` is a row."""
        if isinstance(unit, Unit):
            return unit
        if not isinstance(unit, str) or not unit.strip():
            raise InvalidArgument(
                "unit", unit, "a column name or 'row'", "Name the column that says who a row is about."
            )
        if unit == "row":
            return ROW
        return cls(column=unit, noun=_noun(unit))

    @property
    def one(self) -> str:
        """ "one patient", or "a group of 3 patients"."""
        if self.members == 1:
            return f"one {self.noun}"
        many = "people" if self.noun == "person" else f"{self.noun}s"
        return f"a group of {self.members} {many}"

    def group(self, members: int) -> Unit:
        """A group of `members` of these."""
        return replace(self, members=self.members * members)

    def named(self, unit: Unit | str, *, doing: str) -> Unit:
        """The same number of units, by name."""
        name = Unit.of(unit)
        return one_unit(self, name if name.members > 1 else replace(name, members=self.members), doing=doing)

    @property
    def plain(self) -> dict[str, str | int | None]:
        """The fields, for JSON; `Unit.from_plain` reads them back."""
        fields: dict[str, str | int | None] = {"column": self.column, "noun": self.noun}
        return fields if self.members == 1 else {**fields, "size": self.members}

    @classmethod
    def from_plain(cls, fields: dict[str, Any]) -> Unit:
        """The unit that `plain` described. JSON says "size" for the members of a group."""
        return cls(**{"members" if name == "size" else name: value for name, value in fields.items()})


def change_text(unit: Unit, relation: Relation) -> str:
    """What may change between neighbours, in words: "one patient added or removed"."""
    verb = "replaced by others" if relation is Relation.REPLACE and unit.members > 1 else relation.verb
    return f"{unit.one} {verb}"


def _noun(column: str) -> str:
    """The word in a column's name: `patient_id`, `PatientID` and `patient-key` are about a patient."""
    words = column.replace("-", "_").replace(" ", "_").strip("_")
    for ending in ("_identifier", "_number", "_uuid", "_key", "_id", "_no"):
        if words.lower().endswith(ending) and len(words) > len(ending):
            words = words[: -len(ending)]
            break
    else:
        if words.endswith(("ID", "Id")) and len(words) > 2:
            words = words[:-2]
        elif words.lower() in ("id", "uuid", "key", "identifier"):
            words = "person"
    return words.replace("_", " ").strip().lower() or "person"


ROW = Unit()
"""Every row is protected on its own."""

RECORD = Unit(noun="record")
"""The unit of a promise made before any table is in sight."""


def one_relation(first: Relation, second: Relation, *, doing: str) -> Relation:
    """The common relation of two promises, or `UnitMismatch` with the moves that exist."""
    if first is second:
        return first
    if {first, second} == {Relation.ADD_REMOVE, Relation.REPLACE}:
        remedy = "An add/remove promise becomes a replace promise with .to_replace(); the way back does not exist."
    else:
        remedy = "State both under one relation."
    raise UnitMismatch(f"cannot {doing} a promise for {first.name} with one for {second.name}. {remedy}")


def one_unit(first: Unit, second: Unit, *, doing: str) -> Unit:
    """The unit of the first promise, which the second must cover; the nameless record agrees with any.

    A promise for a group covers a smaller group, and not the other way round.
    """
    one, other = replace(first, members=1), replace(second, members=1)
    if second.members >= first.members and (one == other or RECORD in (one, other)):
        return replace(other if one == RECORD else one, members=first.members)
    remedy = "State both for the same unit." if second.members >= first.members else f"Use .for_group({first.members})."
    raise UnitMismatch(f"cannot {doing} a promise for {first.one} with one for {second.one}. {remedy}")


def single(unit: Unit, *, doing: str) -> None:
    """Refuse a group where a theorem is about one unit at a time: the others of the group may be anywhere."""
    if unit.members > 1:
        raise UnitMismatch(f"cannot {doing} a promise for {unit.one}. {doing.capitalize()} first, then use for_group.")
