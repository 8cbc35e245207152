"""What is found in the data, privately: categories behind a threshold, bins of numbers, rows of one unit.

A column that is declared as `"private"` is surveyed before anything else is measured, with a tenth of ε and a hundredth
of δ:

- *Text, truth values and dates*: the values that enough units have, by the noisy counts of a query with private keys
  (`query.answering`): at most `MOST_FOUND`, those with the largest noisy counts. All other values count as missing.
- *Numbers*: bounds by a noisy histogram over public cells (`query.surveys`), with half of the column's ε. With the
  other half the values between them are counted in `FINE` cells of one width, and neighbours are joined to at most
  `BINS` bins with about as many units each: private quantiles. A value that many units share has a bin to itself.
- *Rows of a unit*, for `per_unit="private"`: a noisy histogram of units by how many rows they own, as in queries. The
  limit is the number with the least expected error, and never above `MOST_ROWS_FOUND`.

Every unit counts once in each survey. What a survey found is released, so what follows may depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import DeniableError
from deniable.events import Event
from deniable.query import planning
from deniable.query.bounding import Bounded
from deniable.query.choice import ONE_ROW
from deniable.query.planning import PlanningContext, PlanOptions, QueryPlan
from deniable.query.reading import Statement, parse_query, read
from deniable.query.schema import Column, ColumnKind
from deniable.query.surveys import BoundsSurvey, LimitsSurvey, Survey, SurveyRows, survey_bounds, survey_limits
from deniable.query.values import quoted
from deniable.synthesis.counting import Counting, RowSource, unit_column
from deniable.synthesis.domain import Attribute, ColumnBins, ColumnCategories, Domain, attribute, no_categories

EPSILON_SHARE = Fraction(1, 10)
DELTA_SHARE = Fraction(1, 100)
"""Of what the whole release has, for all surveys together."""

MOST_FOUND = 64
"""Categories that are kept of one column, at most."""

BINS = 16
"""Bins between bounds that were found, at most."""

FINE = 256
"""Cells between these bounds whose noisy counts say where the bins end."""

MOST_ROWS_FOUND = 200
"""Rows of one unit that count, at most, where the limit is found."""

_KEYS, _ROWS = "category", "n"


@dataclass(frozen=True)
class CategorySurvey:
    """The categories of one column."""

    name: str
    column: Column
    plan: QueryPlan = field(repr=False)

    @property
    def event(self) -> Event:
        """What it does to the data."""
        return self.plan.event

    @property
    def statements(self) -> list[Bounded]:
        """The SQL that runs."""
        return [self.plan.bounded]

    def take(self, context: PlanningContext) -> Attribute:
        """The column with what was found. The caller has charged the event."""
        columns = planning.answer(self.plan.on(context.engine)).columns
        largest = sorted(zip(columns[_ROWS], columns[_KEYS], strict=True), key=lambda one: -one[0])[:MOST_FOUND]
        values: list[Any] = []
        for _, value in largest:
            try:
                attribute(self.name, self.column, ColumnCategories([*values, value]))
            except DeniableError:  # a released value that cannot be a category, as a time beyond the calendar
                continue
            values.append(value)
        return attribute(self.name, self.column, ColumnCategories(values)) if values else self.widest

    @property
    def widest(self) -> Attribute:
        """The column without categories: all that is known beforehand."""
        return no_categories(self.name, self.column)

    @property
    def most(self) -> int:
        """Codes that the column may have."""
        return MOST_FOUND + 1


@dataclass(frozen=True)
class FineCounts(Survey):
    """How many units have a value in each of many narrow cells; each counts with one of its rows."""

    size: int

    @property
    def cells(self) -> int:
        return self.size

    @property
    def most(self) -> int:
        return 1

    @property
    def name(self) -> str:
        return "bins"


@dataclass(frozen=True)
class BinSurvey:
    """The bins of one column of numbers."""

    name: str
    column: Column
    survey: BoundsSurvey = field(repr=False)
    """Where the values lie; as much is spent on where the bins between them end."""
    source: RowSource = field(repr=False)
    unit: Column | None = field(repr=False)
    alike: bool = field(repr=False)

    @property
    def event(self) -> Event:
        """What it does to the data."""
        return self.survey.event + self._fine(self._divided(-1000, 1000, FINE)).event

    @property
    def statements(self) -> list[Bounded]:
        """The SQL that runs; of the second statement the edges are not known yet."""
        return [self.survey.sql, self._fine(self._divided(-1000, 1000, FINE)).sql]

    def take(self, context: PlanningContext) -> Attribute:
        """The column with what was found. The caller has charged the event."""
        noisy = self.survey.take(context.engine, context.key)
        cells = self._divided(*self.survey.read(noisy, epsilon=self.survey.epsilon, groups=None), FINE)
        counts = self._fine(cells).take(context.engine, context.key)[: cells.listed]
        edges = cells.edges or ()
        return attribute(self.name, self.column, ColumnBins([edges[place] for place in even_places(counts)]))

    @property
    def widest(self) -> Attribute:
        """The column between bounds that can come out."""
        return self._divided(-1000, 1000, BINS)

    def _divided(self, low: Fraction | int, high: Fraction | int, parts: int) -> Attribute:
        """Cells of one width between two numbers, so many at most; of whole numbers, whole ones."""
        step = Fraction(high - low) / parts
        step = Fraction(-(-step // 1)) if self.column.kind is ColumnKind.INTEGER else step
        return attribute(self.name, self.column, ColumnBins.steps(low, high, step))

    def _fine(self, cells: Attribute) -> FineCounts:
        counting = Counting(self.source, Domain((cells,)), self.unit, 1, self.alike)
        (sql,) = counting.statements([(0,)])
        return FineCounts(sql, self.survey.epsilon, self.survey.relation, cells.size)

    @property
    def most(self) -> int:
        """Codes that the column may have."""
        return BINS + 1


def even_places(counts: NDArray[Any]) -> list[int]:
    """Places at which a row of noisy counts is cut into at most `BINS` parts of about the same sum, with its ends."""
    upto = np.maximum.accumulate(np.cumsum(counts.astype(np.float64)))
    whole = max(1.0, float(upto[-1]))
    inner = np.searchsorted(upto, np.arange(1, BINS) * whole / BINS) + 1
    # A cell that holds more than a part is cut off before it, too.
    heavy = np.flatnonzero(counts > whole / BINS)
    places = sorted({0, len(counts), *inner.tolist()} & set(range(len(counts) + 1)))
    for place in heavy.tolist():
        if len(places) <= BINS and place not in places:
            places = sorted([*places, place])
    return places


DomainSurvey = CategorySurvey | BinSurvey


def plan_surveys(
    source: RowSource, columns: Mapping[str, Column], context: PlanningContext, *, each: Fraction, delta: Fraction
) -> tuple[DomainSurvey, ...]:
    """The surveys of some columns, with ε `each`, and a δ that those of categories share. Reads no rows."""
    kept = [name for name, column in columns.items() if not _is_number(column)]
    unit, alike = unit_column(source, context), context.engine.alike
    return tuple(
        BinSurvey(name, column, _bounds(source, column, context, each / 2), source, unit, alike)
        if _is_number(column)
        else CategorySurvey(name, column, _keys(source, name, column, context, each, delta / len(kept)))
        for name, column in columns.items()
    )


def plan_limit(source: RowSource, context: PlanningContext, *, epsilon: Fraction) -> LimitsSurvey:
    """The survey of how many rows units own. Reads no rows."""
    return survey_limits(_survey_rows(source, context), kinds=("total",), epsilon=epsilon)


def take_limit(survey: LimitsSurvey, context: PlanningContext, *, noise: float) -> int:
    """How many rows of a unit count, where each of them adds so much to the noise. The caller has charged the event."""
    noisy = survey.take(context.engine, context.key)
    found = survey.read(noisy, epsilon=Fraction(1 / noise), groups=None)
    return min(found.total or 1, MOST_ROWS_FOUND)


def _is_number(column: Column) -> bool:
    return column.kind in (ColumnKind.INTEGER, ColumnKind.REAL)


def _bounds(source: RowSource, column: Column, context: PlanningContext, epsilon: Fraction) -> BoundsSurvey:
    return survey_bounds(_survey_rows(source, context), column, epsilon=epsilon)


def _survey_rows(source: RowSource, context: PlanningContext) -> SurveyRows:
    return SurveyRows(source.question, (), unit_column(source, context), context.ledger.relation)


def _keys(
    source: RowSource, name: str, column: Column, context: PlanningContext, epsilon: Fraction, delta: Fraction
) -> QueryPlan:
    tree = source.question.statement.tree.copy()
    model = parse_query(f"SELECT {quoted(name)} AS {_KEYS}, COUNT(*) AS {_ROWS} FROM t GROUP BY 1").tree
    if name in source.items:
        model.expressions[0].set("this", source.items[name].unalias().copy())
    tree.set("expressions", model.expressions)
    tree.set("group", model.args["group"])
    question = read(Statement(source.question.statement.sql, tree), context.tables)
    limits = None if context.ledger.unit.column is None else ONE_ROW
    return planning.plan(question, PlanOptions(epsilon=epsilon, per_unit=limits, delta=delta), context)
