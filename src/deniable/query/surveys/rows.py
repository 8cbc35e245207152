"""The rows that count, as the surveys see them: the same rows that the answer is computed from, before any limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deniable.query import bounding
from deniable.query.keys import Keys
from deniable.query.reading import ParsedQuery
from deniable.query.readings import Values
from deniable.query.schema import Column
from deniable.units import Relation


@dataclass(frozen=True)
class SurveyRows:
    """A question, its keys, and the column that says whose a row is (None when every row is a unit)."""

    question: ParsedQuery
    keys: tuple[Keys, ...]
    unit: Column | None
    relation: Relation

    @property
    def people(self) -> bool:
        """Whether a unit may own several rows."""
        return self.unit is not None

    def base(self, values: Sequence[Values]) -> str:
        """A step `base` with the unit u, the group, and v1, v2, … of the values, on their grids."""
        return bounding.base(self.question, self.keys, values, unit=self.unit).step

    @property
    def group(self) -> str:
        """The columns of `base` that name a group."""
        return ", ".join(bounding.base(self.question, self.keys, (), unit=self.unit).by)

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """The keys, as parameters of the SQL."""
        return bounding.lists(self.keys)
