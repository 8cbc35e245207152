"""The release: rows of private answers, an interval on every number, one line of cost.

Intervals cover the privacy noise and nothing else, each with the stated confidence: not who happened to be in the
table, not values clamped to their bounds, not rows beyond a unit's limits.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from deniable._checks import shown
from deniable.descriptions import Description
from deniable.errors import NotSupported
from deniable.events import Event
from deniable.guarantees import Guarantee, PureDP
from deniable.query.aggregates.base import Estimate
from deniable.query.explanation import aligned
from deniable.query.keys import Keys
from deniable.query.reading import KeyOutput, Question

MOST_SHOWN = 60
"""Rows that a printed release shows."""


class Value(NamedTuple):
    """A released number with the ends of its interval."""

    value: int | float
    low: int | float
    high: int | float


@dataclass(frozen=True, eq=False)
class Release:
    """Private answers; all of it may be published. Group keys come in the declared order."""

    question: Question
    keys: tuple[Keys, ...] = field(repr=False)
    estimates: Mapping[str, Estimate] = field(repr=False)
    cost: PureDP
    event: Event
    confidence: Fraction
    remaining: Guarantee
    """What the ledger still allows, after this charge."""

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The answer by column, in the order of the SELECT list; a number `n` is followed by `n_low` and `n_high`."""
        combinations = list(itertools.product(*(k.values for k in self.keys)))
        places = {k.column: i for i, k in enumerate(self.keys)}
        found: dict[str, list[Any]] = {}
        for output in self.question.outputs:
            if isinstance(output, KeyOutput):
                found[output.name] = [combination[places[output.column]] for combination in combinations]
            else:
                for ending, end in zip(("", "_low", "_high"), self.estimates[output.name], strict=True):
                    found[output.name + ending] = end.tolist()
        return found

    @cached_property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """One mapping per group: keys as declared, numbers as `Value(value, low, high)`."""
        parts: dict[str, list[Any]] = {}
        for output in self.question.outputs:
            if isinstance(output, KeyOutput):
                parts[output.name] = self.columns[output.name]
            else:
                ends = (self.columns[output.name + ending] for ending in ("", "_low", "_high"))
                parts[output.name] = [Value(*three) for three in zip(*ends, strict=True)]
        return tuple(dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True))

    def to_pandas(self) -> Any:
        """A pandas DataFrame of `columns`."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise NotSupported("to_pandas() needs pandas, which is not installed; run: pip install pandas") from None
        return pandas.DataFrame(self.columns)

    def to_arrow(self) -> Any:
        """A pyarrow Table of `columns`."""
        try:
            import pyarrow
        except ModuleNotFoundError:
            raise NotSupported("to_arrow() needs pyarrow, which is not installed; run: pip install pyarrow") from None
        return pyarrow.table(self.columns)

    def to_csv(self) -> str:
        """The columns as CSV text, with a line of names."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return out.getvalue()

    def to_json(self) -> dict[str, Any]:
        """The release as plain values, for machines."""
        return {
            "rows": [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)],
            "confidence": float(self.confidence),
            "interval": "privacy noise only",
            "cost": str(self.cost),
            "event": self.event.to_json(),
            "remaining": self.remaining.figures,
        }

    def describe(self) -> Description:
        """The release in public facts."""
        released = ", ".join(a.text for a in self.question.aggregates)
        by = " by " + ", ".join(k.column.name for k in self.keys) if self.keys else ""
        return Description(
            f"{released} of {self.question.table.name}{by}",
            self.cost,
            (
                ("event", repr(self.event)),
                ("intervals", f"{shown(self.confidence * 100)} % each, privacy noise only"),
                ("remaining", self.remaining.figures),
            ),
        )

    def __str__(self) -> str:
        rows = [[_text(cell) for cell in row] for row in zip(*self._rounded(), strict=True)]
        right = [not isinstance(column[0], str) for column in self.columns.values()]
        lines = aligned([list(self.columns), *rows], right=right)
        groups = len(next(iter(self.columns.values())))
        if groups > MOST_SHOWN:
            lines.append(f"… and {groups - MOST_SHOWN} more rows")
        sure = f"{shown(self.confidence * 100)} %"
        return "\n".join(
            [
                *lines,
                "",
                f"cost       {self.cost}",
                f"remaining  {self.remaining.figures}",
                f"intervals  {sure} each, privacy noise only",
            ]
        )

    def _rounded(self) -> list[list[Any]]:
        """The columns that are shown, numbers to two digits of their interval's half width."""
        found: list[list[Any]] = []
        for output in self.question.outputs:
            if isinstance(output, KeyOutput):
                found.append(self.columns[output.name][:MOST_SHOWN])
                continue
            three = [self.columns[output.name + ending][:MOST_SHOWN] for ending in ("", "_low", "_high")]
            digits = [_digits(low, high) for low, high in zip(three[1], three[2], strict=True)]
            found += [[_cut(v, d) for v, d in zip(column, digits, strict=True)] for column in three]
        return found


def _digits(low: float, high: float) -> int:
    """Decimals that show two digits of half an interval's width."""
    half = (high - low) / 2
    return 2 if half <= 0 else max(0, 1 - math.floor(math.log10(half)))


def _cut(value: float, digits: int) -> str | int:
    return value if isinstance(value, int) else f"{value:.{digits}f}"


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else str(cell)
