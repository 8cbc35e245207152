"""Released values with their intervals, drawn from a release: one figure for every number it holds.

>>> class Visits:
...     confidence = Fraction(19, 20)
...     columns = {"city": ["Bern", "Basel"], "n": [9, 4], "n_low": [7, 2], "n_high": [11, 6]}
>>> [figure] = value_figures(Visits())
>>> figure.title, figure.alt
('n', 'Bern: 9, from 7 to 11. Basel: 4, from 2 to 6.')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from deniable._checks import shown
from deniable.explaining.curves import intervals_figure
from deniable.explaining.figures import Interval, IntervalFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels

MOST_ROWS = 40
"""How many rows a figure shows, the first ones."""


@runtime_checkable
class Answers(Protocol):
    """What is drawn of a release: its columns, where a number `n` is followed by `n_low` and `n_high`."""

    @property
    def confidence(self) -> Fraction:
        """Of every interval."""
        ...

    @property
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """The answer by column."""
        ...


def value_figures(release: Answers, *, labels: Labels = ENGLISH_LABELS) -> list[IntervalFigure]:
    """One figure per released number; a row is named by its keys."""
    columns = release.columns
    label = labels.values_intervals.format(confidence=shown(100 * release.confidence))
    numbers = [name for name in columns if f"{name}_low" in columns and f"{name}_high" in columns]
    ends = {f"{name}{ending}" for name in numbers for ending in ("_low", "_high", "_among")}
    keys = [column for name, column in columns.items() if name not in numbers and name not in ends]
    figures = []
    for name in numbers:
        cells = zip(columns[name], columns[f"{name}_low"], columns[f"{name}_high"], strict=True)
        rows = [
            Interval(", ".join(str(column[place]) for column in keys) or name, *map(float, ends_of))
            for place, ends_of in enumerate(cells)
            if all(map(math.isfinite, ends_of))
        ]
        if rows:
            cut = labels.values_first.format(name=name, shown=MOST_ROWS, all=len(rows))
            title = cut if len(rows) > MOST_ROWS else name
            figures.append(intervals_figure(title, rows[:MOST_ROWS], x_label=label, labels=labels))
    return figures
