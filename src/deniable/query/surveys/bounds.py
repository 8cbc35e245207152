"""Bounds from the data, privately: `bounds="private"`.

Every unit adds two ones to a histogram over public cells: one at its lowest value and one at its highest (a single row
is its own lowest and highest and adds one). The cells are 1–2–5 steps on both sides of 0, to a billion: from 1 for
whole numbers, from a millionth for others. Values beyond are counted at the ends. The bounds are the outer edges of
the outermost cells whose noisy count reaches a threshold that empty cells reach, all together, once in ten thousand
times; where no cell does, those of the cell with the largest count.

The choice reads noisy counts only. Clamping a few units in cells below the threshold is the point: their noise would
cost everybody more than their values are worth. This is the histogram of Dwork and Lei (2009, their scale estimate),
over cells that are fixed beforehand, so that it needs no δ.

>>> [float(edge) for edge in edges(0)], [float(edge) for edge in edges(1)], [float(edge) for edge in edges(-6)]
([0.0, 0.0], [1.0, 2.0], [-100.0, -50.0])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.noise import Grid
from deniable.numerics.discrete import laplace_radius
from deniable.query.bounding import Bounded
from deniable.query.readings import Values
from deniable.query.schema import Column, ColumnKind
from deniable.query.surveys.base import Survey, SurveyRows

FURTHEST = 10**9
"""Bounds that are found lie within this of 0; every plan that can be made with wider ones can be made with them."""

STRAY = Fraction(1, 10_000)
"""The probability that any empty cell reaches the threshold."""


def widest(column: Column) -> Grid:
    """The grid on which a column is surveyed: in steps of 1 for whole numbers, of a millionth for others."""
    return Grid(low=-FURTHEST, high=FURTHEST, step=1 if column.kind is ColumnKind.INTEGER else Fraction(1, 10**6))


def variants(columns: Sequence[Column]) -> list[dict[str | Column, tuple[Fraction, Fraction]]]:
    """Bounds that can be found, with which SQL takes every form that it can take with others: a grid is in steps below
    1, of 1, and above 1, of whole numbers and of others, for sums and for quantiles."""
    few: list[dict[str | Column, tuple[Fraction, Fraction]]] = [
        {column: (Fraction(0), widest(column).step) for column in columns}
    ]
    for low, high in ((-1000, 2000), (0, FURTHEST), (-FURTHEST, FURTHEST)):
        few.append(dict.fromkeys(columns, (Fraction(low), Fraction(high))))
    return few


def side(column: Column) -> int:
    """The number of cells of each sign: three for every power of ten."""
    return 3 * (len(str(widest(column).highest)) - 1)


def edges(cell: int) -> tuple[Fraction, Fraction]:
    """The ends of a cell, in steps: 0 is 0; 1, 2, 3, 4, … are [1, 2), [2, 5), [5, 10), …; −1, −2, … mirror them."""
    if cell < 0:
        low, high = edges(-cell)
        return -high, -low
    if cell == 0:
        return Fraction(0), Fraction(0)
    decade, place = divmod(cell - 1, 3)
    return Fraction((1, 2, 5)[place] * 10**decade), Fraction((2, 5, 10)[place] * 10**decade)


@dataclass(frozen=True)
class BoundsSurvey(Survey):
    """The bounds of one column."""

    column: Column
    people: bool
    """Whether a unit may own several rows."""

    @property
    def cells(self) -> int:
        return 2 * side(self.column) + 1

    @property
    def most(self) -> int:
        return 2 if self.people else 1

    @property
    def name(self) -> str:
        return f"bounds of {self.column.name}"

    @property
    def threshold(self) -> int:
        """The smallest count that an empty cell hardly reaches: Pr[X ≥ t] ≤ one cell's share of `STRAY`."""
        return laplace_radius(self.scale, 2 * STRAY / self.cells) + 1

    def read(self, noisy: NDArray[Any]) -> tuple[Fraction, Fraction]:
        """The bounds that noisy counts suggest."""
        (full,) = np.nonzero(noisy >= self.threshold)
        first, last = (int(full[0]), int(full[-1])) if full.size else (int(np.argmax(noisy)),) * 2
        step, middle = widest(self.column).step, side(self.column)
        low, high = edges(first - middle)[0] * step, edges(last - middle)[1] * step
        return (low, high) if low < high else (low, low + step)


def survey(rows: SurveyRows, column: Column, *, epsilon: Fraction) -> BoundsSurvey:
    """The survey of one column over the rows that count."""
    wide = Values(column, widest(column))
    ends = "SELECT UNNEST([MIN(v1), MAX(v1)]) AS v FROM base GROUP BY u" if rows.people else "SELECT v1 AS v FROM base"
    text = (
        f"WITH {rows.base([wide])},\n"
        f"ends AS (\n  {ends}\n),\n"
        f"cells AS (\n  SELECT {_cell(side(column))} AS g FROM ends WHERE v IS NOT NULL\n)\n"
        "SELECT g, COUNT(*) AS n FROM cells GROUP BY g"
    )
    return BoundsSurvey(Bounded(text, rows.lists, ()), epsilon, rows.relation, column, rows.people)


def _cell(middle: int) -> str:
    """SQL of the number of a value's cell, from 0; what floating point does near an edge stays within the cells."""
    size = "CAST(ABS(v) AS DOUBLE)"
    decade = f"FLOOR(LOG10(GREATEST({size}, 1)))"
    lead = f"{size} / POW(10, {decade})"
    place = f"CASE WHEN {lead} < 2 THEN 1 WHEN {lead} < 5 THEN 2 ELSE 3 END"
    number = f"LEAST(CAST(3 * {decade} + {place} AS INTEGER), {middle})"
    return f"CASE WHEN v = 0 THEN {middle} WHEN v > 0 THEN {middle} + {number} ELSE {middle} - {number} END"
