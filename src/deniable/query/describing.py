"""`Session.describe`: one paid survey of a table, before the first question.

How many people and rows it has, how many rows people own, which shares of its columns are missing, between which ends
numbers lie, and how large the error of a count would be under limits of rows. All of it is measured under one charge:
half of ε for the counts, a quarter for the rows per person, and a quarter for the ranges; what is not needed goes to
the counts. The counts are an ordinary query whose limits are found (`staging`), the rest are its surveys (`surveys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from deniable import _checks
from deniable._checks import Number
from deniable._escapes import printable
from deniable._forms import Plain
from deniable._remedies import example
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees import PureDP
from deniable.numerics.discrete import laplace_radius
from deniable.query import planning, staging
from deniable.query.estimates import rounded
from deniable.query.explanation import aligned
from deniable.query.planning import PlanningContext
from deniable.query.release import Release, Value
from deniable.query.schema import Column
from deniable.query.surveys import (
    STEPS,
    BoundsSurvey,
    LimitsSurvey,
    OutwardCounts,
    Survey,
    SurveyRows,
    survey_bounds,
    survey_limits,
)
from deniable.query.values import quoted

SHOWN_ROWS = (1, 2, 5, 10, 20, 50, 100)
"""The limits of rows for which an error is shown."""


@dataclass(frozen=True)
class TableDescription(Plain):
    """What a survey found of one table; all of it may be published."""

    table: str
    people: Value | None
    """None where every row is protected on its own."""
    rows: Value
    missing: dict[str, float]
    """Per column, the estimated share of rows without a value."""
    ranges: dict[str, tuple[Fraction, Fraction]]
    """Per column of numbers, ends that hold nearly all values: bounds for a query."""
    owners: tuple[tuple[int, float], ...]
    """How many people are estimated to own at most so many rows, and more than the limit before."""
    errors: tuple[tuple[int, float, float], ...]
    """Per limit of rows: the error of a count's noise at ε = 1, with 95 %, and the rows that it would leave out."""
    cost: PureDP
    event: Event = field(repr=False)
    covers: str
    """What the intervals of people and rows cover."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "people": None if self.people is None else self.people._asdict(),
            "rows": self.rows._asdict(),
            "missing": self.missing,
            "ranges": {name: [float(end) for end in ends] for name, ends in self.ranges.items()},
            "rows_per_unit": [{"at_most": step, "units": many} for step, many in self.owners],
            "errors": [{"rows": step, "noise": noise, "left_out": lost} for step, noise, lost in self.errors],
            "interval": self.covers,
            "cost": self.cost.to_dict(),
        }

    def __str__(self) -> str:
        noun = self.cost.unit.noun
        lines = [] if self.people is None else [f"{noun}s   {_span(self.people)}"]
        lines += [f"rows   {_span(self.rows)}", ""]
        names = list(dict.fromkeys([*self.missing, *self.ranges]))
        columns: list[tuple[str, ...]] = [("column", "missing", "from", "to")]
        for name in names:
            ends = [f"{float(end):g}" for end in self.ranges.get(name, ())] or ["", ""]
            columns.append((name, f"{100 * self.missing[name]:.1f} %", *ends))
        lines += aligned(columns, right=(False, True, True, True))
        if self.errors:
            table = [(f"rows of each {noun}", "error of a count at ε = 1", "rows left out")]
            table += [(str(step), f"± {rounded(noise)}", rounded(round(lost))) for step, noise, lost in self.errors]
            lines += ["", *aligned(table, right=(True, True, True))]
        lines += ["", f"cost       {self.cost}", f"intervals  95 % each, {self.covers}"]
        return "\n".join(printable(line) for line in lines)

    def __repr__(self) -> str:
        return str(self)  # what a shell shows


def _span(value: Value) -> str:
    return f"{value.value} ({value.low} to {value.high})"


def describe(name: str, context: PlanningContext, *, epsilon: Number) -> TableDescription:
    """Charge, survey one private table, and tell what was found."""
    whole = _checks.positive("epsilon", epsilon, remedy=example("epsilon", 0.5))
    table = next((t for t in context.tables if t.name.casefold() == str(name).casefold() and not t.public), None)
    if table is None:
        known = ", ".join(t.name for t in context.tables if not t.public)
        raise InvalidArgument("table", name, f"one of the private tables {known}", "A public table can be looked at.")
    unit = context.ledger.unit
    owner = None if unit.column is None else table.find(unit.column)
    others = [column for column in table.columns if column != owner]
    numbers = [column for column in others if column.kind.numeric]
    quarter = Fraction(1, 4)
    part = whole * (1 - quarter * (owner is not None) - quarter * bool(numbers))
    people = "" if owner is None else f"COUNT(DISTINCT {quoted(owner.name)}) AS people, "
    values = "".join(f", COUNT({quoted(column.name)}) AS v{i}" for i, column in enumerate(others))
    sql = f"SELECT {people}COUNT(*) AS n{values} FROM {quoted(table.name)}"
    counts = staging.plan_query(sql, context, epsilon=part, noise="laplace")
    rows = SurveyRows(counts.question, (), owner, context.ledger.relation)
    owned = None if owner is None else survey_limits(rows, kinds=("total",), epsilon=whole * quarter)
    ranges = [survey_bounds(rows, column, epsilon=whole * quarter / len(numbers)) for column in numbers]
    surveys: list[Survey] = [*([] if owned is None else [owned]), *ranges]
    event = reduce(add, (survey.event for survey in surveys), counts.event)
    for survey in surveys:
        context.engine.bind(survey.sql)
    context.engine.check([*counts.statements, *(survey.sql for survey in surveys)])
    planning.pay(context, event, f"describe {table.name}", at=None)
    release = staging.compute(counts)
    return _combine(release, others, owned, ranges, context, cost=_cost(whole, context), event=event, name=table.name)


def _cost(epsilon: Fraction, context: PlanningContext) -> PureDP:
    return PureDP(epsilon, relation=context.ledger.relation, unit=context.ledger.unit)


def _combine(
    release: Release,
    columns: Sequence[Column],
    owned: LimitsSurvey | None,
    ranges: Sequence[BoundsSurvey],
    context: PlanningContext,
    *,
    cost: PureDP,
    event: Event,
    name: str,
) -> TableDescription:
    """Take the surveys, and put together what all found."""
    engine, (row,) = context.engine, release.rows
    ends = {s.column.name: s.read(s.take(engine, context.key), epsilon=Fraction(1), groups=1) for s in ranges}
    owners: tuple[tuple[int, float], ...] = ()
    errors: tuple[tuple[int, float, float], ...] = ()
    if owned is not None:
        counts = OutwardCounts.of(owned.take(engine, context.key), owned.scale, start=0).counts
        owners = tuple((step, float(many)) for step, many in zip(STEPS, counts, strict=True))
        steps = np.array(STEPS, dtype=np.float64)
        errors = tuple(
            (limit, float(laplace_radius(Fraction(limit), Fraction(1, 20))),
             float((counts * np.maximum(steps - limit, 0)).sum()))
            for limit in SHOWN_ROWS
        )  # fmt: skip
    total = max(float(row["n"].value), 1.0)
    return TableDescription(
        table=name,
        people=row.get("people"),
        rows=row["n"],
        missing={
            column.name: min(max(1 - float(row[f"v{i}"].value) / total, 0.0), 1.0) for i, column in enumerate(columns)
        },
        ranges=ends,
        owners=owners,
        errors=errors,
        cost=cost,
        event=event,
        covers=release.covers,
    )
