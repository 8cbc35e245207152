"""From the arguments of `Session.plan` to a plan: what was left out is completed, found privately, or refused.

| left out | rule |
|---|---|
| `epsilon` | `error` is given in its place, and ε is found |
| `bounds` of a column that is added up | refused, with how to choose them; or `"private"`: found with a tenth of ε |
| `per_unit` where people are protected | refused, with how to choose it; or `"private"`: found with a tenth of ε |
| `keys` of a column of GROUP BY | found in the data, behind a threshold that costs δ |
| `delta` | a hundredth of the ledger's remaining δ, where keys are found or the noise is Gaussian |
| `noise` | the one with the smaller error (`planning`) |
| `weights` | every aggregate gets an equal part |

A plan with private bounds or limits has stages: surveys first, then the answer, then the diagnosis, all under one
charge.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any, TypeAlias

from deniable import _checks
from deniable._checks import Number
from deniable._forms import Plain
from deniable._remedies import example
from deniable.errors import InvalidArgument, QueryError
from deniable.events import Claimed, Event
from deniable.guarantees import ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.noise import Grid
from deniable.query import googlesql, planning
from deniable.query.accuracy import solve
from deniable.query.bounding import Bounded
from deniable.query.choice import LIMITS, AtMost
from deniable.query.engines.base import Engine
from deniable.query.estimates import ExpectedError
from deniable.query.explanation import explain_stages, plan_html, staged_words
from deniable.query.expressions import named_column
from deniable.query.googlesql import GoogleForm
from deniable.query.grids import Distinct, declared
from deniable.query.keys import DeclaredKeys
from deniable.query.measures import Measure
from deniable.query.noises import LAPLACE, pure_within
from deniable.query.planning import PlanningContext, PlanOptions, QueryPlan
from deniable.query.reading import ParsedQuery, parse_query, read
from deniable.query.release import Found, Release
from deniable.query.schema import Column
from deniable.query.surveys import (
    MOST,
    VARIANTS,
    BoundsSurvey,
    Diagnosis,
    LimitsSurvey,
    Survey,
    SurveyRows,
    labels,
    survey_bounds,
    survey_limits,
    survey_shares,
    variants_of_bounds,
    widest_grid,
)

PRIVATE = "private"
"""What a caller writes in place of bounds or limits that are to be found privately."""

BOUNDS_SHARE = LIMITS_SHARE = Fraction(1, 10)

Bounds = Mapping[str | Column, Sequence[Number]]
"""Bounds that were stated, by the text that names a column, and that were found, by the column itself."""


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
    cost: Guarantee
    promise: Guarantee
    """The part of the cost that the answer gets."""
    options: PlanOptions = field(repr=False)
    """How the answer is planned once bounds and limits are found: its share of ε, and what was stated."""

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
        parts += [self.answer.event] if self.settled else promises(self.answer, self.promise)
        if self.diagnosis is not None:
            pure = PureDP(self.diagnosis.epsilon, relation=self.cost.relation, unit=self.cost.unit)
            parts.append(self.diagnosis.event if self.settled else Claimed(pure))
        return reduce(add, parts)

    @property
    def at(self) -> ApproxDP | None:
        """The (ε, δ) at which the event enters a ledger's basic filter, where the sum of its parts would not."""
        gaussian = self.settled and self.answer.at is not None
        return self.cost if gaussian and isinstance(self.cost, ApproxDP) else None

    @property
    def error(self) -> dict[str, ExpectedError]:
        """What the noise does to each aggregate; empty while bounds or limits are still to be found."""
        return self.answer.error if self.settled else {}

    def run(self) -> Release:
        """Charge the ledger, survey, compute, add noise. Every call charges again and answers with fresh noise."""
        context = self.answer.context
        context.engine.check(self._first)  # the variants read the same tables
        planning.pay(context, self.event, self.sql, at=self.at)
        return answer(self)

    def settle(self, bounds: Bounds, per_unit: AtMost | None) -> QueryPlan:
        """The answer's plan with the bounds and limits that were found, and what was charged for it."""
        stated = self.options.bounds if isinstance(self.options.bounds, Mapping) else {}
        options = replace(
            self.options, epsilon=None, delta=None, cost=self.promise, bounds={**stated, **bounds},
            per_unit=per_unit or self.options.per_unit,
        )  # fmt: skip
        return planning.plan(self.question, options, self.answer.context, charged=True)

    def on(self, engine: Engine) -> StagedPlan:
        """The same plan on another engine, which has the same tables."""
        return replace(self, answer=self.answer.on(engine))

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
        written = self.answer.engine.written
        return {
            **self.answer.to_dict(),
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "settled": self.settled,
            "stages": [
                {"name": s.name, "epsilon": float(s.epsilon), "scale": float(s.scale), "sql": written(s.sql)}
                for s in stages
            ],
            "answer_cost": self.promise.to_dict(),
        }


Plan: TypeAlias = QueryPlan | StagedPlan


def promises(plan: QueryPlan, promise: Guarantee) -> list[Event]:
    """What an answer promises before its bounds and limits are known.

    Where it may have Gaussian noise, the noise is chosen once they are: whichever it is, it keeps the whole promise,
    which is one. Where it can only have Laplace noise, there is an ε for the measures of each kind. Measures that
    differ by grid or centre only have one promise, since with other bounds they may be one measure, as a sum and the
    sum of an average are where the middle of the bounds is 0.
    """
    if plan.alternatives or plan.noise.form is not LAPLACE:
        return [Claimed(promise)]
    parts: dict[object, Fraction] = {}
    for part in plan.noises:
        kind = _kind(part.measure)
        parts[kind] = parts.get(kind, Fraction(0)) + part.amount
    keys = None if plan.threshold is None else _kind(plan.threshold.measure)
    relation, unit = plan.cost.relation, plan.cost.unit
    return [
        Claimed(
            ApproxDP(epsilon, plan.cost.delta, relation=relation, unit=unit)
            if kind == keys and isinstance(plan.cost, ApproxDP | ApproxZCDP)
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
    engine = plan.answer.engine
    found: dict[str | Column, tuple[Fraction, Fraction]] = {
        survey.column: survey.read(survey.take(engine)) for survey in plan.bounds
    }
    kept = None if plan.limits is None else plan.limits.read(plan.limits.take(engine))
    settled = plan.answer if plan.settled else plan.settle(found, kept)
    release = planning.answer(settled)
    looked = _diagnosis(settled, plan.diagnosis)
    findings = None if looked is None else looked.read(looked.take(engine), failure=1 - plan.confidence)
    names = labels([survey.column for survey in plan.bounds])
    shown = dict(zip(names, found.values(), strict=True))
    return replace(release, cost=plan.cost, event=plan.event, found=Found(shown, kept), findings=findings)


def _diagnosis(plan: QueryPlan, planned: Diagnosis | None) -> Diagnosis | None:
    """The diagnosis of an answer with its bounds and limits."""
    if planned is None:
        return None
    return survey_shares(_rows(plan), grids(plan), plan.limits, epsilon=planned.epsilon)


def plan_query(
    sql: str,
    context: PlanningContext,
    *,
    epsilon: Number | None = None,
    cost: Guarantee | None = None,
    error: Number | Mapping[str, Number] | None = None,
    group_size: int | None = None,
    bounds: Mapping[str, Sequence[Number] | str] | str | None = None,
    keys: Mapping[str, object] | None = None,
    per_unit: AtMost | str | None = None,
    weights: Mapping[str, Number] | None = None,
    confidence: Number = 0.95,
    diagnose: Number | None = None,
    delta: Number | None = None,
    noise: str | None = None,
) -> Plan:
    """The plan of a query; the arguments are those of `Session.plan`. Reads no rows. The engine has bound every
    statement of it."""
    bounds, keys, weights, error = (_copied(given) for given in (bounds, keys, weights, error))
    form = googlesql.form(sql)
    if form is not None:
        given = {
            "epsilon": epsilon,
            "cost": cost,
            "error": error,
            "bounds": bounds,
            "per_unit": per_unit,
            "delta": delta,
        }
        _check_google(form, given, context)
    elif epsilon is None and cost is None and error is None:
        raise InvalidArgument("epsilon", None, "given, or error in its place", example("epsilon", 0.5))
    elif epsilon is not None and cost is not None:
        raise InvalidArgument("epsilon", epsilon, "left out where cost is given", "It is the short form of cost.")
    elif error is not None and (epsilon is not None or cost is not None):
        name = "epsilon" if cost is None else "cost"
        raise InvalidArgument("error", error, f"left out when {name} is given", "One follows from the other.")
    question = read(parse_query(sql), context.tables, declared(bounds))
    if form is not None:
        epsilon, per_unit, delta = _google_options(form, question, keys, context)
    stated = PlanOptions(
        epsilon=epsilon, cost=cost, bounds=bounds, keys=keys, per_unit=per_unit, weights=weights, confidence=confidence,
        delta=delta, noise=noise,
    )  # fmt: skip
    if error is not None:
        stated = _accurate(question, stated, context, error=error, group_size=group_size, diagnose=diagnose)
    elif group_size is not None:
        raise InvalidArgument("group_size", group_size, "left out unless error is given")
    plan = stage(question, stated, context, diagnose=diagnose)
    for statement in plan.statements:
        context.engine.bind(statement)
    return plan


def _copied(given: Any) -> Any:
    """A mapping with copies of its lists. A plan with surveys reads it again after the charge, when a list may have
    changed, and an iterator be at its end."""
    if not isinstance(given, Mapping):
        return given
    return {name: tuple(value) if _is_list(value) else value for name, value in given.items()}


def _is_list(value: Any) -> bool:
    """Whether a value is a list or another iterable; a text, a mapping or an array without a dimension is none."""
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return listed and getattr(value, "ndim", None) != 0


def _check_google(form: GoogleForm, given: Mapping[str, object], context: PlanningContext) -> None:
    """Refuse arguments that a GoogleSQL text states itself, and another unit than the ledger's."""
    for name, value in given.items():
        if value not in (None, {}):
            raise InvalidArgument(name, value, "left out: WITH DIFFERENTIAL_PRIVACY states it")
    unit = context.ledger.unit
    if unit.column is None or unit.column.casefold() != form.unit.casefold():
        raise QueryError(f"privacy_unit_column is {form.unit}, and the ledger protects {unit.column or 'rows'}")


def _google_options(
    form: GoogleForm, question: ParsedQuery, keys: Mapping[str, object] | None, context: PlanningContext
) -> tuple[Fraction, AtMost, Fraction | None]:
    """The ε, the limits and the δ that a GoogleSQL text states."""
    if question.groups and form.groups is None:
        raise QueryError("max_groups_contributed is missing from OPTIONS: one unit may be in many groups")
    known = DeclaredKeys(keys, question, context.engine.look)
    private = any(known.of(column) is None for column in question.groups)
    limits = AtMost(groups=form.groups or 1, rows=googlesql.ROWS if form.per_row else 1)
    pure = isinstance(context.ledger.remaining(who=context.who), PureDP)
    return form.epsilon, limits, form.delta if private or not pure else None


def _accurate(
    question: ParsedQuery,
    options: PlanOptions,
    context: PlanningContext,
    *,
    error: Number | Mapping[str, Number],
    group_size: int | None,
    diagnose: Number | None,
) -> PlanOptions:
    """The options with the ε, and the weights, that give the error; the diagnosis' share comes on top."""
    bounds: object = options.bounds
    named = bounds.values() if isinstance(bounds, Mapping) else [bounds]
    if any(isinstance(given, str) for given in (options.per_unit, *named)):
        raise InvalidArgument(
            "error", error, "left out when bounds or per_unit are private: the noise is not known beforehand",
            f'Give epsilon, or state what is "{PRIVATE}".',
        )  # fmt: skip
    found = solve(question, options, context, error=error, group_size=group_size)
    share = Fraction(0) if diagnose is None else _checks.exact(diagnose)
    epsilon = found.epsilon / (1 - share) if 0 <= share < 1 else found.epsilon
    return replace(options, epsilon=epsilon, weights=found.weights or options.weights, noise=found.noise)


def stage(question: ParsedQuery, options: PlanOptions, context: PlanningContext, *, diagnose: Number | None) -> Plan:
    """The plan of a query whose bounds or limits may be private, and which may be diagnosed."""
    per_unit: object = options.per_unit
    stated, private = _private_columns(question, options.bounds)
    if isinstance(per_unit, str) and per_unit != PRIVATE:
        raise InvalidArgument("per_unit", per_unit, 'limits, or the word "private"', example("per_unit", LIMITS))
    searched = per_unit == PRIVATE
    diagnosed = Fraction(0) if diagnose is None else _share(diagnose)
    if not (private or searched or diagnosed):
        return planning.plan(question, replace(options, bounds=stated or None), context)
    keys = DeclaredKeys(options.keys, question, context.engine.look).groups()
    cost = planning.promise(options, context, [k.column.name for k in keys if k.private])
    promise = part_of(cost, 1 - diagnosed - (BOUNDS_SHARE if private else 0) - (LIMITS_SHARE if searched else 0))
    if options.cost is None:
        options = replace(options, epsilon=pure_epsilon(promise))
    else:
        options = replace(options, cost=promise, delta=None)
    options = replace(options, bounds=stated or None, per_unit=None if searched else options.per_unit)

    def plan(ends: Bounds, limit: AtMost) -> QueryPlan:
        """The answer at some bounds and limits that can be found."""
        limited = replace(options, bounds={**stated, **ends} or None, per_unit=limit if searched else options.per_unit)
        return planning.plan(question, limited, context)

    # Planned at the widest that can be found, so that what is refused is refused before the charge.
    widest = plan({column: _widest(column) for column in private}, MOST)
    rows = _rows(widest)
    if searched and not rows.people:
        raise InvalidArgument("per_unit", per_unit, "left out: this ledger protects single rows", "A row is one row.")
    each = pure_epsilon(part_of(cost, BOUNDS_SHARE / max(1, len(private))))
    variants = zip(variants_of_bounds(private), VARIANTS, strict=True) if private or searched else ()
    found = StagedPlan(
        answer=widest,
        variants=tuple(plan(ends, limit) for ends, limit in variants),
        bounds=tuple(survey_bounds(rows, column, epsilon=each) for column in private),
        limits=survey_limits(rows, epsilon=pure_epsilon(part_of(cost, LIMITS_SHARE))) if searched else None,
        diagnosis=(
            survey_shares(rows, grids(widest), widest.limits, epsilon=pure_epsilon(part_of(cost, diagnosed)))
            if diagnosed
            else None
        ),
        cost=_whole(cost, widest, settled=not (private or searched)),
        promise=promise,
        options=options,
    )
    if diagnosed and found.diagnosis is None:
        raise InvalidArgument(
            "diagnose", diagnose, "left out: this query clamps nothing and leaves no row out", "Spend it on the answer."
        )
    return found


def part_of(cost: Guarantee, share: Fraction) -> Guarantee:
    """A part of a cost; the parts compose to the whole. The δ goes to the answer, because surveys are pure."""
    match cost:
        case PureDP(epsilon=epsilon) | ApproxDP(epsilon=epsilon):
            return replace(cost, epsilon=epsilon * share)
        case ZCDP(rho=rho) | ApproxZCDP(rho=rho):
            return replace(cost, rho=rho * share)
    raise InvalidArgument("cost", cost, "PureDP, ApproxDP or ZCDP", "What is found privately has Laplace noise.")


def pure_epsilon(cost: Guarantee) -> Fraction:
    """The ε of a pure survey that a cost allows."""
    if isinstance(cost, PureDP | ApproxDP):
        return cost.epsilon
    if isinstance(cost, ZCDP | ApproxZCDP):
        return pure_within(cost.rho)
    raise InvalidArgument("cost", cost, "PureDP, ApproxDP or ZCDP", "What is found privately has Laplace noise.")


def _whole(cost: Guarantee, answer: QueryPlan, *, settled: bool) -> Guarantee:
    """What all stages cost together: without δ where the answer is known to need none."""
    if settled and isinstance(cost, ApproxDP) and isinstance(answer.cost, PureDP):
        return PureDP(cost.epsilon, relation=cost.relation, unit=cost.unit)
    return cost


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
    asked = {named_column(question.scope, name) for name in given if name not in stated}
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
    grid = widest_grid(column)
    return grid.low, grid.high


def _rows(plan: QueryPlan) -> SurveyRows:
    return SurveyRows(plan.question, plan.keys, plan.unit, plan.context.ledger.relation)


def grids(plan: QueryPlan) -> dict[Column, Grid]:
    """Every column that is clamped, with the finest of its grids: quantiles read a coarser one."""
    found: dict[Column, Grid] = {}
    for reading in plan.bounded.values:
        grid = None if isinstance(reading, Distinct) else reading.grid
        if grid is not None and (reading.column not in found or grid.step < found[reading.column].step):
            found[reading.column] = grid
    return found
