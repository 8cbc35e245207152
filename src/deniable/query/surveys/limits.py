"""How many groups and rows of one person should count, privately: `per_unit="private"`.

Every person adds a one to each of two histograms over the public numbers of `STEPS`: one by the number of groups they
are in, one by the rows they have in their fullest group (without GROUP BY only the second). The limit is the first step
that, by the noisy counts, holds all but one in twenty people. More than the last step counts as the last step: limits
are never above it.

Whatever limits come out, the answer is computed within them and its noise is scaled to them, so they cannot make it
less private; a bad choice costs accuracy, which the plan's diagnosis shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.query.bounding import Bounded
from deniable.query.limits import AtMost
from deniable.query.surveys.base import Survey, SurveyRows

STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000)
"""The limits that can come out."""

MOST = AtMost(groups=STEPS[-1], rows=STEPS[-1])
"""The widest limits that can come out."""

VARIANTS = (
    AtMost(groups=1, rows=1), AtMost(groups=60, rows=STEPS[-1]), AtMost(groups=80, rows=1),
    AtMost(groups=80, rows=STEPS[-1]),
)  # fmt: skip
"""Limits that can come out, with which SQL takes every form that it can take with others, beside the widest: `choice`
has other steps below 64 groups, and `shortcut` other marks where numbers are large."""

HELD = Fraction(19, 20)
"""The share of people that a limit should hold."""


@dataclass(frozen=True)
class LimitsSurvey(Survey):
    """The limits of one query."""

    grouped: bool

    @property
    def cells(self) -> int:
        return len(STEPS) * self.most

    @property
    def most(self) -> int:
        return 2 if self.grouped else 1

    @property
    def name(self) -> str:
        return "groups and rows per unit" if self.grouped else "rows per unit"

    def read(self, noisy: NDArray[Any]) -> AtMost:
        """The limits that noisy counts suggest."""
        parts = [_step(part) for part in np.split(np.asarray(noisy), self.most)]
        return AtMost(groups=parts[1] if self.grouped else 1, rows=parts[0])


def survey(rows: SurveyRows, *, epsilon: Fraction) -> LimitsSurvey:
    """The survey of the limits over the rows that count."""
    grouped = bool(rows.keys)
    cells = f"SELECT {_cell('c')} AS g FROM units"
    if grouped:
        cells += f" UNION ALL SELECT {len(STEPS)} + {_cell('k')} AS g FROM units"
    text = (
        f"WITH {rows.base([])},\n"
        f"shares AS (\n  SELECT u, COUNT(*) AS c FROM base GROUP BY u, {rows.group}\n),\n"
        "units AS MATERIALIZED (\n  SELECT MAX(c) AS c, COUNT(*) AS k FROM shares GROUP BY u\n),\n"
        f"cells AS (\n  {cells}\n)\n"
        "SELECT g, COUNT(*) AS n FROM cells GROUP BY g"
    )
    return LimitsSurvey(Bounded(text, rows.lists, ()), epsilon, rows.relation, grouped)


def _cell(count: str) -> str:
    """SQL of the place of a count among the steps."""
    cases = " ".join(f"WHEN {count} <= {step} THEN {place}" for place, step in enumerate(STEPS[:-1]))
    return f"CASE {cases} ELSE {len(STEPS) - 1} END"


def _step(noisy: NDArray[Any]) -> int:
    """The first step that holds the wanted share of a noisy total; the first one where the total is noise."""
    upto = np.cumsum(noisy.astype(object))
    total = int(upto[-1])
    held = [place for place, count in enumerate(upto) if count >= HELD * total]
    return STEPS[held[0]] if total > 0 and held else STEPS[0]
