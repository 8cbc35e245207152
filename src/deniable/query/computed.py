"""An aggregate that is computed of others: `SUM(cost) / COUNT(*)`, `ROUND(AVG(age), 1)`, CASE of a count.

Its measures are those of its parts, each taken once. Its interval fails with at most the stated probability: each of m
parts fails with an m-th of it, and where none fails the formula's interval holds the truth (see `formulas`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.query.cells import Cell, Pick, Span, exact
from deniable.query.estimates import Aggregate, Choice, EstimateColumn, ExpectedError, Noisy
from deniable.query.formulas import VALUE, Leaf, RowFormula
from deniable.query.measures import Measure
from deniable.query.noises import IntegerNoise


@dataclass(frozen=True)
class ComputedAggregate(Aggregate):
    """A formula of aggregates, and perhaps of the keys of its group."""

    formula: RowFormula
    parts: tuple[Aggregate, ...]
    keys: Mapping[Leaf, Sequence[Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def measures(self) -> tuple[Measure, ...]:
        return tuple(dict.fromkeys(measure for part in self.parts for measure in part.measures))

    def with_keys(self, keys: Mapping[Any, list[Any]]) -> Aggregate:
        return replace(self, keys={leaf: keys[leaf] for leaf in self.formula.leaves if leaf in keys})

    def part(self, places: NDArray[np.int64]) -> Aggregate:
        some = {leaf: [values[place] for place in places.tolist()] for leaf, values in self.keys.items()}
        return replace(self, keys=some)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn | Choice:
        each = failure / len(self.parts)
        columns: dict[Leaf, list[Cell]] = {
            leaf: [exact(value) for value in values] for leaf, values in self.keys.items()
        }
        whole = self.formula.whole
        for part in self.parts:
            found = part.estimate(noisy, failure=each)
            whole = whole and found.value.dtype.kind != "f"
            ends = (end.tolist() for end in found)
            columns[VALUE, part.name] = [Span(*cell) for cell in zip(*ends, strict=True)]
        rows = zip(*columns.values(), strict=True)
        cells = [self.formula.evaluate(dict(zip(columns, row, strict=True))) for row in rows]
        if not self.formula.kind.numeric:
            return _picked([cell for cell in cells if isinstance(cell, Pick)])
        spans = [cell for cell in cells if isinstance(cell, Span)]
        return EstimateColumn(*(_numbers([span[end] for span in spans], whole=whole) for end in range(3)))

    def error(self, laws: Mapping[Measure, IntegerNoise], *, failure: Fraction) -> ExpectedError:
        each = failure / len(self.parts)
        return ComputedError(tuple((part.name, part.error(laws, failure=each)) for part in self.parts), 1 - failure)


def _numbers(values: Sequence[Any], *, whole: bool) -> NDArray[Any]:
    """A column of numbers: whole ones where all are, whatever the values; NULL is NaN."""
    if not whole:
        return np.array([math.nan if value is None else float(value) for value in values], dtype=np.float64)
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array([*values, None], dtype=object)[:-1]


def _picked(cells: Sequence[Pick]) -> Choice:
    """A column of texts or truth values, and what else each may be."""
    among = [", ".join(sorted(str(one) for one in cell.can if one is not None)) for cell in cells]
    values = np.array([*(cell.value for cell in cells), None], dtype=object)[:-1]
    return Choice(values, np.array([*among, None], dtype=object)[:-1])


@dataclass(frozen=True)
class ComputedError(ExpectedError):
    """The error of a formula. It depends on the numbers themselves, which are not known beforehand."""

    parts: tuple[tuple[str, ExpectedError], ...]
    confidence: Fraction

    def __call__(self, rows: int | None = None) -> float:
        return math.inf

    @property
    def size_of_noise(self) -> float:
        logarithms = [math.log(max(error.size_of_noise, 1e-300)) for _, error in self.parts]
        return math.exp(sum(logarithms) / len(logarithms))

    def __str__(self) -> str:
        errors = "; ".join(str(error) for _, error in self.parts)
        return f"follows from its parts: {errors}"
