"""A survey: whole numbers to which every unit adds a little, released with noise.

A unit adds, over all cells of the vector, at most `most` ones (`Survey.most`), as a function of its own rows alone.
So the vector moves by at most D = most in L1 when a unit is added, removed or blanked out, and by at most D = 2·most
when one is replaced. Discrete Laplace noise of scale D/ε in every cell is ε-DP (Ghosh, Roughgarden and Sundararajan
2009). What is read off the noisy cells is post-processing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from deniable import noise
from deniable.events import DiscreteLaplace
from deniable.query import bounding
from deniable.query.bounding import Bounded
from deniable.query.engines.base import Engine
from deniable.query.keys import Keys
from deniable.query.reading import ParsedQuery
from deniable.query.readings import Values
from deniable.query.schema import Column
from deniable.units import Relation


@dataclass(frozen=True)
class SurveyRows:
    """A question, its keys, and the column that says whose a row is (None when every row is a unit).

    The rows that count, as the surveys see them: the same rows that the answer is computed from, before any limit.
    """

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


@dataclass(frozen=True)
class Survey(ABC):
    """One noisy vector; `sql` counts it, `epsilon` pays for it. Every field is public."""

    sql: Bounded
    epsilon: Fraction
    relation: Relation

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many numbers are released."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The most that one unit adds, over all cells."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it finds, in a plan's table: "bounds of cost"."""

    @property
    def event(self) -> DiscreteLaplace:
        """What taking it does to the data."""
        replaced = self.relation is Relation.REPLACE
        moved = 2 * self.most if replaced else self.most
        return DiscreteLaplace(
            moved / self.epsilon,
            moved,
            self.relation,
            reach=self.most if replaced else None,
            coordinates=min(moved, self.cells),
        )

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in every cell."""
        return self.event.scale

    def take(self, engine: Engine) -> NDArray[Any]:
        """The noisy cells. The caller has charged the event."""
        found = engine.run(self.sql, groups=self.cells, key=(0, 0)).rows
        return noise.add(found, noise.discrete_laplace(self.scale, self.cells))
