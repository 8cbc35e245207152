"""From the arguments of `Session.plan` to a plan: what was left out is completed, found privately, or refused.

| left out | rule |
|---|---|
| `epsilon` | `error` is given in its place, and ε is found |
| `bounds` of a column that is added up | found privately; refused beside `error` |
| `per_unit` where people are protected | found privately, where it matters; refused beside `error` |
| `cover` | a share of ε for the number of units beyond limits and bounds, where there can be any |
| `keys` of a column of GROUP BY | found in the data, behind a threshold that costs δ |
| `delta` | a hundredth of the ledger's remaining δ, where keys are found or the noise is Gaussian |
| `noise` | the one with the smaller error (`planning`) |
| `weights` | every aggregate gets an equal part |

A plan has stages: surveys of bounds and limits first, then the number of units beyond them, the answer, and the
diagnosis, all under one charge.

**Beyond.** Units beyond limits or bounds that are found are left out whole (`allowance`). Those beyond stated ones are
cut and clamped, unless `leave_out` is asked for: who states bounds may mean to clamp, and where many people have some
value outside, leaving them all out would leave nothing. There is no way to cut to limits that were found: the SQL of a
cut has many forms, and which one it is would be known after the charge.

**What is fixed before.** The event that is charged is the sum of the surveys' events, of the answer's, and of the
diagnosis'. The number of units beyond moves by 1, whatever the limits are. Where bounds or limits are found by a
survey, the noise of the answer depends on what was found, so its event cannot be written down beforehand; what can are
its promises: whatever bounds and limits come out, every measure is taken with the same ε, its sensitivity is computed
for what came out, and its noise is scaled to that. So each enters as `Claimed`. A fixed list of promises, each kept
whatever the earlier outputs were, composes like independent ones (adaptive composition: Dwork and Roth 2014, Theorem
B.1, for ε; Zhu, Dong and Wang 2022, Theorem 10, for the dominating pairs that the accountant uses).

**Shares.** Of the query's ε, 9 % go to limits or to bounds that must be found, 13 % to both together, divided evenly;
16 % to the number of units beyond them, or 10 % where both are stated; the stated share to the diagnosis; the rest to
the answer. All are exact fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeAlias

from deniable import _checks
from deniable._checks import Number
from deniable._forms import Plain
from deniable._remedies import example
from deniable.errors import InvalidArgument, QueryError
from deniable.events import Claimed, Event
from deniable.guarantees import GDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger.records import Charge
from deniable.query import googlesql, planning
from deniable.query.accuracy import solve
from deniable.query.bounding import Bounded
from deniable.query.choice import LIMITS, ONE_ROW, AtMost
from deniable.query.diagnosis import BeyondSurvey, Diagnosis, survey_beyond, survey_shares
from deniable.query.engines.base import Engine
from deniable.query.estimates import ExpectedError
from deniable.query.explanation import explain_stages, plan_html, staged_words
from deniable.query.expressions import named_column
from deniable.query.googlesql import GoogleForm
from deniable.query.grids import declared
from deniable.query.keys import DeclaredKeys
from deniable.query.measures import Measure, UnitCounts
from deniable.query.noises import CONCENTRATED, LAPLACE, MeasureNoise, PlanNoise, pure_within
from deniable.query.planning import PlanningContext, PlanOptions, QueryPlan
from deniable.query.reading import ParsedQuery, parse_query, read
from deniable.query.release import Found, Release
from deniable.query.schema import Column
from deniable.query.surveys import (
    BoundsSurvey,
    LimitsSurvey,
    Survey,
    SurveyRows,
    labels,
    limits_to_find,
    survey_bounds,
    survey_limits,
    variants_of_bounds,
    widest_grid,
    widest_limits,
)
from deniable.query.values import name as sql_name

PRIVATE = "private"
"""What a caller writes in place of bounds or limits that are to be found privately."""

SEARCH_SHARE, BOTH_SHARE = Fraction(9, 100), Fraction(13, 100)
"""The part of ε that finds limits or bounds, and that finds both."""

COVER_SHARE, STATED_COVER_SHARE = Fraction(16, 100), Fraction(10, 100)
"""The part of ε that counts the units beyond limits and bounds, where some were found, and where all were stated."""

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
    beyond: BeyondSurvey | None
    """How many units are beyond limits and bounds; None where intervals are for the noise alone."""
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
    def engine(self) -> Engine:
        """What runs the SQL."""
        return self.answer.engine

    @property
    def groups(self) -> int | None:
        """How many groups are released; None when that is private."""
        return self.answer.groups

    @property
    def noises(self) -> tuple[MeasureNoise, ...]:
        """The noise of every measure; at the widest, where bounds or limits are still to be found."""
        return self.answer.noises

    @property
    def noise(self) -> PlanNoise:
        """The noise of the answer, in its form."""
        return self.answer.noise

    @property
    def threshold(self) -> MeasureNoise | None:
        """What decides which groups are released, where keys are private."""
        return self.answer.threshold

    @property
    def bounded(self) -> Bounded:
        """The SQL of the answer."""
        return self.answer.bounded

    @property
    def surveys(self) -> tuple[Survey, ...]:
        """What is measured before the answer."""
        return (*self.bounds, *([self.limits] if self.limits is not None else []))

    @property
    def statements(self) -> tuple[Bounded, ...]:
        """The SQL that running may execute. Bounds and limits that are found stand in it as constants."""
        looks = [look for variant in self.variants for look in self._looks(variant)]
        return (*self._first, *(variant.bounded for variant in self.variants), *(look.sql for look in looks))

    def _looks(self, answer: QueryPlan) -> list[Survey]:
        """What is measured around an answer with its bounds and limits."""
        beyond = None if self.beyond is None else _beyond(answer, self.beyond.epsilon)
        diagnosis = None if self.diagnosis is None else _diagnosis(answer, self.diagnosis.epsilon)
        return [look for look in (beyond, diagnosis) if look is not None]

    @property
    def _first(self) -> tuple[Bounded, ...]:
        """The SQL of the surveys, and of the answer at the widest with what is measured around it."""
        return (*(stage.sql for stage in self.stages), self.answer.bounded)

    @property
    def stages(self) -> tuple[Survey, ...]:
        """Everything that is measured beside the answer."""
        return (*self.surveys, *(look for look in (self.beyond, self.diagnosis) if look is not None))

    @property
    def settled(self) -> bool:
        """Whether the answer's noise is known before the run."""
        return not self.surveys

    @property
    def event(self) -> Event:
        """What running will do to the data; fixed, whatever the surveys find."""
        parts: list[Event] = [survey.event for survey in self.surveys]
        parts += [] if self.beyond is None else [self.beyond.event]
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

    def pay(self, *, key: str | None = None, purpose: str | None = None) -> Charge:
        """Charge the ledger for one answer, durably; `run` does this first, and computes only after it.

        Args:
            key: names the answer that is paid for. A key pays once: `AlreadyPaid` if it has paid before.
            purpose: why, in words; the SQL, if not given.
        """
        context = self.answer.context
        context.engine.check(self._first)  # the variants read the same tables
        return planning.pay(context, self.event, purpose or self.sql, at=self.at, key=key)

    def run(self, *, key: str | None = None, purpose: str | None = None) -> Release:
        """Charge the ledger, survey, compute, add noise. Every call charges again and answers with fresh noise.

        Args:
            key: names the answer that is paid for. A key pays once: `AlreadyPaid` if it has paid before, since its
                answer may have been seen.
            purpose: why, in words; the SQL, if not given.
        """
        self.pay(key=key, purpose=purpose)
        return answer(self)

    def rehearse(self) -> Release:
        """The answer on made-up rows, which no ledger pays for: its shape is right, and its numbers mean nothing."""
        from deniable.query.rehearsal import rehearse

        return rehearse(self)

    @property
    def digest(self) -> str:
        """The SHA-256 of all that running will do: of the question, what is promised, and every statement."""
        return planning.digest(self, self.answer)

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

    def why(self) -> str:
        """Why the answer is as noisy as it is, and what would halve the noise; the release says it where limits or
        bounds are still to be found."""
        return self.answer.why() if self.settled else "The noise is known once bounds and limits are found."

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
        written = self.answer.engine.written
        return {
            **self.answer.to_dict(),
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "settled": self.settled,
            "stages": [
                {"name": s.name, "epsilon": float(s.epsilon), "scale": float(s.scale), "sql": written(s.sql)}
                for s in self.stages
            ],
            "answer_cost": self.promise.to_dict(),
        }


Plan: TypeAlias = QueryPlan | StagedPlan


def compute(plan: Plan) -> Release:
    """Compute and add noise, without charging: for a caller that has charged what covers the plan's event."""
    return planning.answer(plan) if isinstance(plan, QueryPlan) else answer(plan)


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
    engine, groups, key = plan.answer.engine, plan.answer.groups, plan.answer.context.key
    typical = pure_epsilon(plan.promise) / len(plan.answer.noises) if plan.surveys else Fraction(1)
    found: dict[str | Column, tuple[Fraction, Fraction]] = {
        survey.column: survey.read(survey.take(engine, key), epsilon=typical, groups=groups) for survey in plan.bounds
    }
    limits = (
        None if plan.limits is None else plan.limits.read(plan.limits.take(engine, key), epsilon=typical, groups=groups)
    )
    settled = plan.answer if plan.settled else plan.settle(found, limits)
    failure, beyond, findings = 1 - plan.confidence, None, None
    if plan.beyond is not None:
        counted = _beyond(settled, plan.beyond.epsilon)
        # Where units beyond count in part, an interval fails if their number or its noise does.
        part = failure / 2 if settled.cuts else failure
        beyond = counted.read(counted.take(engine, key), failure=part, in_part=settled.cuts)
    release = planning.answer(settled, beyond=beyond)
    if plan.diagnosis is not None and (looked := _diagnosis(settled, plan.diagnosis.epsilon)) is not None:
        findings = looked.read(looked.take(engine, key), failure=failure)
    names = labels([survey.column for survey in plan.bounds])
    shown = dict(zip(names, found.values(), strict=True))
    return replace(release, cost=plan.cost, event=plan.event, found=Found(shown, limits), findings=findings)


def _beyond(plan: QueryPlan, epsilon: Fraction) -> BeyondSurvey:
    """The survey of the units beyond the bounds and limits of an answer."""
    return survey_beyond(_rows(plan), plan.allowance, epsilon=epsilon)


def _limits_to_find(plan: QueryPlan) -> tuple[str, ...]:
    """The limits that an answer needs."""
    units = any(isinstance(part.measure, UnitCounts) for part in plan.noises)
    gaussian = any(noise.form is not LAPLACE for noise in (plan.noise, *plan.alternatives))
    return limits_to_find(plan.limited, units=units, gaussian=gaussian)


def _diagnosis(plan: QueryPlan, epsilon: Fraction) -> Diagnosis | None:
    """The diagnosis of an answer with its bounds and limits; None where they can leave nothing out."""
    cut = not plan.options.whole_limits
    return survey_shares(_rows(plan), plan.grids, plan.limits, plan.whole, cut=cut, epsilon=epsilon)


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
    cover: Number | None = None,
    leave_out: bool = False,
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
        bounds = PRIVATE if _private_columns(question, PRIVATE)[1] else None
    stated = PlanOptions(
        epsilon=epsilon, cost=cost, bounds=bounds, keys=keys, per_unit=per_unit, weights=weights, confidence=confidence,
        delta=delta, noise=noise,
    )  # fmt: skip
    if error is not None:
        stated = _accurate(question, stated, context, error=error, group_size=group_size)
    elif group_size is not None:
        raise InvalidArgument("group_size", group_size, "left out unless error is given")
    if not isinstance(leave_out, bool):
        raise InvalidArgument("leave_out", leave_out, "True or False")
    plan = stage(
        question, stated, context, cover=cover, leave_out=leave_out, diagnose=diagnose, on_top=error is not None
    )
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
    if context.ledger.unit.column is None:
        raise QueryError("this form is for ledgers that protect people by a column, and this one protects rows")


def _google_options(
    form: GoogleForm, question: ParsedQuery, keys: Mapping[str, object] | None, context: PlanningContext
) -> tuple[Fraction, AtMost, Fraction | None]:
    """The ε, the limits and the δ that a GoogleSQL text states."""
    known = DeclaredKeys(keys, question, context.engine.look)
    private = any(known.of(column) is None for column in question.groups)
    if form.public and private:
        raise QueryError("PUBLIC_GROUPS needs keys that are known: give keys=…, or join a public table and group by it")
    limits = AtMost(groups=form.groups or 1, rows=1 if question.people is not None else googlesql.ROWS)
    pure = isinstance(context.ledger.remaining(who=context.who), PureDP)
    return form.epsilon, limits, form.delta if private or not pure else None


def _accurate(
    question: ParsedQuery,
    options: PlanOptions,
    context: PlanningContext,
    *,
    error: Number | Mapping[str, Number],
    group_size: int | None,
) -> PlanOptions:
    """The options with the ε, and the weights, that give the error."""
    bounds: object = options.bounds
    named = bounds.values() if isinstance(bounds, Mapping) else [bounds]
    if any(isinstance(given, str) for given in (options.per_unit, *named)):
        raise InvalidArgument(
            "error", error, "left out when bounds or per_unit are private: the noise is not known beforehand",
            f'Give epsilon, or state what is "{PRIVATE}".',
        )  # fmt: skip
    found = solve(question, options, context, error=error, group_size=group_size)
    return replace(options, epsilon=found.epsilon, weights=found.weights or options.weights, noise=found.noise)


def stage(
    question: ParsedQuery,
    options: PlanOptions,
    context: PlanningContext,
    *,
    cover: Number | None,
    diagnose: Number | None,
    leave_out: bool = False,
    on_top: bool = False,
) -> Plan:
    """The plan of a query whose bounds or limits may have to be found, whose intervals may cover what they leave out,
    and which may be diagnosed. Units beyond what is found are left out whole, and those beyond what is stated with
    `leave_out`. `on_top`: the ε is that of the answer, and the shares of the stages come on top of it."""
    per_unit: object = options.per_unit
    stated, private = _private_columns(question, options.bounds)
    if isinstance(per_unit, str) and per_unit != PRIVATE:
        raise InvalidArgument("per_unit", per_unit, 'limits, or the word "private"', example("per_unit", LIMITS))
    people = context.ledger.unit.column is not None
    if per_unit == PRIVATE and not people:
        raise InvalidArgument("per_unit", per_unit, "left out: this ledger protects single rows", "A row is one row.")
    searched = people and (per_unit is None or per_unit == PRIVATE)
    if searched:
        options = replace(options, per_unit=None)
    whole = {*private, *(named_column(question.scope, given) for given in stated)} if leave_out else {*private}
    options = replace(options, whole_bounds=frozenset(sql_name(column) for column in whole))

    keys = DeclaredKeys(options.keys, question, context.engine.look).groups()
    cost = planning.promise(options, context, [k.column.name for k in keys if k.private])

    left = context.ledger.remaining(who=context.who)
    defaults = options.cost is None and options.delta is None
    if (private or searched) and defaults and not isinstance(left, PureDP | ApproxDP | ApproxZCDP):
        if options.noise == CONCENTRATED.name:
            raise InvalidArgument(
                "epsilon", options.epsilon, "left out: Gaussian noise that is chosen once bounds or limits are found "
                "needs a δ, which this ledger's budget has not", "State the cost, as in cost=dn.ZCDP(0.01)."
            )  # fmt: skip
        # What is promised before its noise can be chosen has to fit a budget that has no δ.
        cost = PureDP(pure_epsilon(cost), relation=cost.relation, unit=cost.unit)

    def plan(ends: Bounds, limit: AtMost) -> QueryPlan:
        """The answer at some bounds and limits that can be found."""
        limited = replace(options, bounds={**stated, **ends} or None)
        return planning.plan(question, replace(limited, per_unit=limit) if searched else limited, context)

    ends: Bounds = {column: _widest(column) for column in private}
    narrow = plan(ends, ONE_ROW)
    if searched and narrow.limited:
        options = replace(options, whole_limits=_limits_to_find(narrow))
    elif searched:
        options, searched = replace(options, per_unit=ONE_ROW), False
    elif leave_out:
        options = replace(options, whole_limits=tuple(limit for limit, _ in narrow.allowance.limits))
    unpaid = not narrow.leaves_out or isinstance(cost, GDP)  # which no Laplace noise fits
    shares = StageShares.of(
        search=bool(private) + searched, cover=0 if cover is None and unpaid else cover, diagnose=diagnose
    )
    if on_top:
        cost = part_of(cost, 1 / shares.answer)
    promise = part_of(cost, shares.answer) if shares.answer < 1 else cost
    # One promise for every part: what the ledger has left, which a default δ is a share of, may change from now on.
    shared = options.cost is None and options.delta is None
    options = replace(options, epsilon=None, cost=promise, delta=None, shared_delta=shared)
    # Planned at the widest that can be found, so that what is refused is refused before the charge.
    widest = plan(ends, widest_limits(options.whole_limits) if searched else ONE_ROW)
    if shares.answer == 1:
        return widest

    def part(share: Fraction) -> Fraction:
        """The ε of a survey that has this share."""
        return pure_epsilon(part_of(cost, share))

    rows = _rows(widest)
    each = shares.search / max(1, bool(private) + searched)
    variants = variants_of_bounds(private) if private else []
    beyond = _beyond(widest, part(shares.cover)) if shares.cover and narrow.leaves_out else None
    diagnosis = _diagnosis(widest, part(shares.diagnose)) if shares.diagnose else None
    if shares.cover and beyond is None:
        raise InvalidArgument("cover", cover, _NOTHING, "Its intervals cover everything as they are.")
    if shares.diagnose and diagnosis is None:
        raise InvalidArgument("diagnose", diagnose, _NOTHING, "Spend it on the answer.")
    return StagedPlan(
        answer=widest,
        variants=tuple(plan(ends, ONE_ROW) for ends in variants),
        bounds=tuple(survey_bounds(rows, column, epsilon=part(each / len(private))) for column in private),
        limits=survey_limits(rows, kinds=options.whole_limits, epsilon=part(each)) if searched else None,
        beyond=beyond,
        diagnosis=diagnosis,
        cost=_whole(cost, widest, settled=not (private or searched)),
        promise=promise,
        options=replace(options, bounds=stated or None),
    )


_NOTHING = "left out: this query clamps nothing and leaves no row out"


class StageShares(NamedTuple):
    """How ε is divided over the stages."""

    search: Fraction
    cover: Fraction
    diagnose: Fraction

    @property
    def answer(self) -> Fraction:
        """What is left for the answer."""
        return 1 - sum(self, Fraction(0))

    @classmethod
    def of(cls, *, search: int, cover: Number | None, diagnose: Number | None) -> StageShares:
        """The shares where so many kinds of things are searched; a `cover` that is left out has a default."""
        default = COVER_SHARE if search else STATED_COVER_SHARE
        shares = cls(
            (Fraction(0), SEARCH_SHARE, BOTH_SHARE)[search],
            default if cover is None else _share("cover", cover, zero=True),
            Fraction(0) if diagnose is None else _share("diagnose", diagnose),
        )
        if shares.answer <= 0:
            left = _checks.shown(1 - shares.search - shares.cover)
            raise InvalidArgument("diagnose", diagnose, f"below {left}, which the other shares leave of ε")
        return shares


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
        return {}, tuple(needed)
    if not isinstance(given, Mapping):
        raise InvalidArgument(
            "bounds", given, 'a mapping from column to (low, high), or the word "private"',
            example("bounds", {"cost": (0, 5000)}),
        )  # fmt: skip
    stated = {name: ends for name, ends in given.items() if not (isinstance(ends, str) and ends == PRIVATE)}
    asked = {named_column(question.scope, name) for name in given if name not in stated}
    known = {named_column(question.scope, name) for name in stated}
    for column in asked:
        if column not in needed:
            raise InvalidArgument("bounds", {column.name: PRIVATE}, "private for columns that the query adds up")
        if not column.kind.numeric:
            raise InvalidArgument("bounds", {column.name: PRIVATE}, "about a column of numbers")
    return stated, tuple(column for column in needed if column not in known)


def _share(name: str, given: Number, *, zero: bool = False) -> Fraction:
    expected = f"a share of ε {'from' if zero else 'above'} 0 and at most 0.5"
    return _checks.between(
        name, given, low=0, high=Fraction(1, 2), open_low=not zero, expected=expected, remedy=example(name, 0.05)
    )


def _widest(column: Column) -> tuple[Fraction, Fraction]:
    grid = widest_grid(column)
    return grid.low, grid.high


def _rows(plan: QueryPlan) -> SurveyRows:
    return SurveyRows(plan.question, plan.keys, plan.unit, plan.context.ledger.relation)
