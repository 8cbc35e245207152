"""Domains that are found in the data, privately: categories behind a threshold, and bounds of numbers.

A column that is declared as `"private"` is surveyed before anything else is measured, with a tenth of ε and a hundredth
of δ:

- *Text, truth values and dates*: the values that enough units have, by the noisy counts of a query with private keys
  (`query.answering`): at most `MOST_FOUND`, those with the largest noisy counts. All other values count as missing.
- *Numbers*: bounds by a noisy histogram over public cells (`query.surveys`), divided into `BINS` bins of one width.

Every unit counts once in each survey. What a survey found is released, so what follows may depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from deniable.errors import DeniableError
from deniable.events import Event
from deniable.query import planning
from deniable.query.choice import ONE_ROW
from deniable.query.planning import PlanningContext, PlanOptions, QueryPlan
from deniable.query.reading import Statement, parse_query, read
from deniable.query.schema import Column, ColumnKind
from deniable.query.surveys import BoundsSurvey, SurveyRows, survey_bounds
from deniable.query.values import quoted
from deniable.synthesis.counting import RowSource, unit_column
from deniable.synthesis.domain import Attribute, ColumnBins, ColumnCategories, attribute, no_categories

EPSILON_SHARE = Fraction(1, 10)
DELTA_SHARE = Fraction(1, 100)
"""Of what the whole release has, for all surveys together."""

MOST_FOUND = 64
"""Categories that are kept of one column, at most."""

BINS = 16
"""Bins between bounds that were found."""

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
class BinSurvey:
    """The bins of one column of numbers."""

    name: str
    column: Column
    survey: BoundsSurvey = field(repr=False)

    @property
    def event(self) -> Event:
        """What it does to the data."""
        return self.survey.event

    def take(self, context: PlanningContext) -> Attribute:
        """The column with what was found. The caller has charged the event."""
        noisy = self.survey.take(context.engine, context.key)
        return self._binned(*self.survey.read(noisy, epsilon=self.survey.epsilon, groups=None))

    @property
    def widest(self) -> Attribute:
        """The column between bounds that can come out."""
        return self._binned(Fraction(-1000), Fraction(1000))

    def _binned(self, low: Fraction, high: Fraction) -> Attribute:
        whole = self.column.kind is ColumnKind.INTEGER
        step = (high - low) / BINS
        step = Fraction(-(-step // 1)) if whole else step
        return attribute(self.name, self.column, ColumnBins.steps(low, high, step))

    @property
    def most(self) -> int:
        """Codes that the column may have."""
        return BINS + 1


DomainSurvey = CategorySurvey | BinSurvey


def plan_surveys(
    source: RowSource, columns: Mapping[str, Column], context: PlanningContext, *, epsilon: Fraction, delta: Fraction
) -> tuple[DomainSurvey, ...]:
    """The surveys of some columns, which share ε and δ evenly. Reads no rows."""
    each = epsilon / max(1, len(columns))
    kept = [name for name, column in columns.items() if not _is_number(column)]
    return tuple(
        BinSurvey(name, column, _bounds(source, column, context, each))
        if _is_number(column)
        else CategorySurvey(name, column, _keys(source, name, column, context, each, delta / len(kept)))
        for name, column in columns.items()
    )


def _is_number(column: Column) -> bool:
    return column.kind in (ColumnKind.INTEGER, ColumnKind.REAL)


def _bounds(source: RowSource, column: Column, context: PlanningContext, epsilon: Fraction) -> BoundsSurvey:
    rows = SurveyRows(source.question, (), unit_column(source, context), context.ledger.relation)
    return survey_bounds(rows, column, epsilon=epsilon)


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
