"""A plan in stages: surveys first, then the answer, then the diagnosis, all under one charge.

**What is fixed before.** The event that is charged is the sum of the surveys' events, of the answer's, and of the
diagnosis'. Where bounds or limits are found by a survey, the noise of the answer depends on what was found, so its
event cannot be written down beforehand; what can are its promises: whatever bounds and limits come out, every measure
is taken with the same ε, its sensitivity is computed for what came out, and its noise is scaled to that. So each enters
as `Claimed`. A fixed list of promises, each kept whatever the earlier outputs were, composes like independent
ones (adaptive composition: Dwork and Roth 2014, Theorem B.1, for ε; Zhu, Dong and Wang 2022, Theorem 10, for the
dominating pairs that the accountant uses).

**Shares.** Of the query's ε, a tenth goes to private bounds (divided evenly over the columns), a tenth to private
limits, the stated share to the diagnosis, the rest to the answer, as exact fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable._forms import Plain
from deniable._remedies import example
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger.records import as_purpose
from deniable.noise import Grid
from deniable.query import planning
from deniable.query.aggregates import ExpectedError
from deniable.query.bounding import Bounded
from deniable.query.explanation import explain_stages, staged_words
from deniable.query.limits import LIMITS, AtMost
from deniable.query.measures import Measure
from deniable.query.notebook import plan_html
from deniable.query.planning import QueryPlan
from deniable.query.reading import ParsedQuery
from deniable.query.readings import Distinct
from deniable.query.release import Found, Release
from deniable.query.schema import Column
from deniable.query.surveys import BoundsSurvey, Diagnosis, LimitsSurvey, Survey, bounds, diagnosis, limits
from deniable.query.surveys.base import SurveyRows

PRIVATE = "private"
"""What a caller writes in place of bounds or limits that are to be found privately."""

BOUNDS_SHARE = LIMITS_SHARE = Fraction(1, 10)

Bounds = Mapping[str | Column, Sequence[Number]]
"""Bounds that were stated, by the text that names a column, and that were found, by the column itself."""

Remake = Callable[[Fraction, Bounds | None, AtMost | None, Fraction | None], QueryPlan]
"""Plans the answer with an ε, bounds, limits, and a δ in place of the one that was asked for."""


@dataclass(frozen=True, eq=False)
class StagedPlan(Plain):
    """A private query with surveys or a diagnosis, ready to run. It reads like a `QueryPlan`."""

    answer: QueryPlan
    """What is asked; where bounds or limits are still to be found, at the widest that can be."""
    variants: tuple[QueryPlan, ...]
    """The answer at other bounds and limits that can be found: its SQL takes every form that it can take."""
    bounds: tuple[BoundsSurvey, ...]
    limits: LimitsSurvey | None
    diagnosis: Diagnosis | None
    cost: PureDP | ApproxDP
    _given: Bounds = field(repr=False)
    _per_unit: AtMost | None = field(repr=False)
    _remake: Remake = field(repr=False)

    @property
    def sql(self) -> str:
        """The question as it was asked."""
        return self.answer.sql

    @property
    def question(self) -> ParsedQuery:
        """The question as it was read."""
        return self.answer.question

    @property
    def confidence(self) -> Fraction:
        """The confidence of every interval."""
        return self.answer.confidence

    @property
    def surveys(self) -> tuple[Survey, ...]:
        """What is measured before the answer."""
        return (*self.bounds, *([self.limits] if self.limits is not None else []))

    @property
    def statements(self) -> tuple[Bounded, ...]:
        """The SQL that running may execute. Bounds and limits that are found stand in it as constants."""
        looks = [_diagnosis(variant, self.diagnosis) for variant in self.variants]
        return (
            *self._first,
            *(variant.bounded for variant in self.variants),
            *(look.sql for look in looks if look is not None),
        )

    @property
    def _first(self) -> tuple[Bounded, ...]:
        """The SQL of the surveys, and of the answer and its diagnosis at the widest."""
        diagnosis = [] if self.diagnosis is None else [self.diagnosis.sql]
        return (*(survey.sql for survey in self.surveys), self.answer.bounded, *diagnosis)

    @property
    def settled(self) -> bool:
        """Whether the answer's noise is known before the run."""
        return not self.surveys

    @property
    def event(self) -> Event:
        """What running will do to the data; fixed, whatever the surveys find."""
        parts: list[Event] = [survey.event for survey in self.surveys]
        parts += [self.answer.event] if self.settled else promises(self.answer)
        if self.diagnosis is not None:
            pure = PureDP(self.diagnosis.epsilon, relation=self.cost.relation, unit=self.cost.unit)
            parts.append(self.diagnosis.event if self.settled else Claimed(pure))
        return reduce(add, parts)

    @property
    def error(self) -> dict[str, ExpectedError]:
        """What the noise does to each aggregate; empty while bounds or limits are still to be found."""
        return self.answer.error if self.settled else {}

    def run(self) -> Release:
        """Charge the ledger, survey, compute, add noise. Every call charges again and answers with fresh noise."""
        plan = self.answer
        plan._engine.check(self._first)  # the variants read the same tables
        plan._ledger.charge(self.event, purpose=as_purpose(plan.sql), who=plan._who)
        return answer(self)

    def explain(self) -> str:
        """The plan in words, with the SQL that will run."""
        return explain_stages(self, sql=True)

    def __str__(self) -> str:
        return explain_stages(self, sql=False)

    def __repr__(self) -> str:
        return str(self)  # what a shell shows

    def _repr_html_(self) -> str:
        return plan_html(staged_words(self))

    def to_dict(self) -> dict[str, Any]:
        stages = [*self.surveys, *([self.diagnosis] if self.diagnosis is not None else [])]
        written = self.answer._engine.written
        return {
            **self.answer.to_dict(),
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "settled": self.settled,
            "stages": [
                {"name": s.name, "epsilon": float(s.epsilon), "scale": float(s.scale), "sql": written(s.sql)}
                for s in stages
            ],
            "answer_epsilon": float(self.answer.cost.epsilon),
        }


def promises(plan: QueryPlan) -> list[Event]:
    """What an answer promises before its bounds and limits are known: an ε for the measures of each kind.

    Measures that differ by grid or centre only have one promise, since with other bounds they may be one measure, as a
    sum and the sum of an average are where the middle of the bounds is 0.
    """
    parts: dict[object, Fraction] = {}
    for part in plan.noises:
        kind = _kind(part.measure)
        parts[kind] = parts.get(kind, Fraction(0)) + part.epsilon
    keys = None if plan.threshold is None else _kind(plan.threshold.measure)
    relation, unit = plan.cost.relation, plan.cost.unit
    return [
        Claimed(
            ApproxDP(epsilon, plan.cost.delta, relation=relation, unit=unit)
            if kind == keys and isinstance(plan.cost, ApproxDP)
            else PureDP(epsilon, relation=relation, unit=unit)
        )
        for kind, epsilon in parts.items()
    ]


def _kind(measure: Measure) -> object:
    """What is measured, whatever the bounds."""
    column = None if measure.reading is None else measure.reading.column
    return type(measure), column, measure.summed, measure.values is not None and measure.values.squared


def answer(plan: StagedPlan) -> Release:
    """Survey, compute and add noise, without charging: for a caller that has charged what covers the plan's event."""
    engine = plan.answer._engine
    found: dict[str | Column, tuple[Fraction, Fraction]] = {
        survey.column: survey.read(survey.take(engine)) for survey in plan.bounds
    }
    kept = None if plan.limits is None else plan.limits.read(plan.limits.take(engine))
    settled = plan.answer
    if not plan.settled:
        cost = plan.answer.cost
        # The δ that was charged, not a share of what the ledger has left by now.
        delta = cost.delta if isinstance(cost, ApproxDP) else None
        remade = plan._remake(cost.epsilon, {**plan._given, **found}, kept or plan._per_unit, delta)
        # On the same engine: a rehearsal runs on another one than the session's.
        settled = replace(remade, _engine=engine)
    release = planning.answer(settled)
    looked = _diagnosis(settled, plan.diagnosis)
    findings = None if looked is None else looked.read(looked.take(engine), failure=1 - plan.confidence)
    labels = diagnosis.labels([survey.column for survey in plan.bounds])
    shown = dict(zip(labels, found.values(), strict=True))
    return replace(release, cost=plan.cost, event=plan.event, found=Found(shown, kept), findings=findings)


def _diagnosis(plan: QueryPlan, planned: Diagnosis | None) -> Diagnosis | None:
    """The diagnosis of an answer with its bounds and limits."""
    if planned is None:
        return None
    return diagnosis.survey(_rows(plan), grids(plan), plan.limits, epsilon=planned.epsilon)


def stage(
    remake: Remake,
    question: ParsedQuery,
    *,
    epsilon: Fraction,
    given: Bounds | Mapping[str, Sequence[Number] | str] | str | None,
    per_unit: AtMost | str | None,
    diagnose: Number | None,
) -> QueryPlan | StagedPlan:
    """The plan of a query whose bounds or limits may be private, and which may be diagnosed."""
    stated, private = _private_columns(question, given)
    if isinstance(per_unit, str) and per_unit != PRIVATE:
        raise InvalidArgument("per_unit", per_unit, 'limits, or the word "private"', example("per_unit", LIMITS))
    searched = per_unit == PRIVATE
    looked = Fraction(0) if diagnose is None else _share(diagnose)
    rest = 1 - looked - (BOUNDS_SHARE if private else 0) - (LIMITS_SHARE if searched else 0)
    wide: dict[str | Column, Any] = {column: _widest(column) for column in private}
    limit = limits.MOST if isinstance(per_unit, str) else per_unit
    # Planned at the widest that can be found, so that what is refused is refused before the charge.
    made = remake(epsilon * rest, {**stated, **wide} or None, limit, None)
    if not (private or searched or looked):
        return made
    rows = _rows(made)
    if searched and not rows.people:
        raise InvalidArgument("per_unit", per_unit, "left out: this ledger protects single rows", "A row is one row.")
    each = epsilon * BOUNDS_SHARE / max(1, len(private))
    variants = zip(bounds.variants(private), limits.VARIANTS, strict=True) if private or searched else ()
    found = StagedPlan(
        answer=made,
        variants=tuple(
            remake(epsilon * rest, {**stated, **ends} or None, some if searched else limit, None)
            for ends, some in variants
        ),
        bounds=tuple(bounds.survey(rows, column, epsilon=each) for column in private),
        limits=limits.survey(rows, epsilon=epsilon * LIMITS_SHARE) if searched else None,
        diagnosis=(diagnosis.survey(rows, grids(made), made.limits, epsilon=epsilon * looked) if looked else None),
        cost=replace(made.cost, epsilon=epsilon),
        _given=stated,
        _per_unit=None if searched else limit,
        _remake=remake,
    )
    if looked and found.diagnosis is None:
        raise InvalidArgument(
            "diagnose", diagnose, "left out: this query clamps nothing and leaves no row out", "Spend it on the answer."
        )
    return found


def _private_columns(question: ParsedQuery, given: object) -> tuple[dict[str | Column, Any], tuple[Column, ...]]:
    """The stated bounds, and the columns whose bounds are to be found."""
    needed = dict.fromkeys(
        a.column
        for a in question.aggregates
        if a.column is not None
        and a.function not in ("count", "mode")
        and a.column.kind.numeric
        and a.column.low is None
    )
    if given is None or (isinstance(given, str) and given == PRIVATE):
        return {}, tuple(needed) if given else ()
    if not isinstance(given, Mapping):
        raise InvalidArgument(
            "bounds", given, 'a mapping from column to (low, high), or the word "private"',
            example("bounds", {"cost": (0, 5000)}),
        )  # fmt: skip
    stated = {name: ends for name, ends in given.items() if not (isinstance(ends, str) and ends == PRIVATE)}
    asked = {question.reader.stated(name) for name in given if name not in stated}
    for column in asked:
        if column not in needed:
            raise InvalidArgument("bounds", {column.name: PRIVATE}, "private for columns that the query adds up")
        if not column.kind.numeric:
            raise InvalidArgument("bounds", {column.name: PRIVATE}, "about a column of numbers")
    return stated, tuple(column for column in needed if column in asked)


def _share(diagnose: Number) -> Fraction:
    return _checks.between(
        "diagnose", diagnose, low=0, high=Fraction(1, 2), open_low=True,
        expected="a share of ε above 0 and at most 0.5", remedy=example("diagnose", 0.05),
    )  # fmt: skip


def _widest(column: Column) -> tuple[Fraction, Fraction]:
    grid = bounds.widest(column)
    return grid.low, grid.high


def _rows(plan: QueryPlan) -> SurveyRows:
    unit = plan._ledger.unit.column
    column = None if unit is None else plan.question.table.find(unit)
    return SurveyRows(plan.question, plan.keys, column, plan._ledger.relation)


def grids(plan: QueryPlan) -> dict[Column, Grid]:
    """Every column that is clamped, with the finest of its grids: quantiles read a coarser one."""
    found: dict[Column, Grid] = {}
    for reading in plan.bounded.values:
        grid = None if isinstance(reading, Distinct) else reading.grid
        if grid is not None and (reading.column not in found or grid.step < found[reading.column].step):
            found[reading.column] = grid
    return found
