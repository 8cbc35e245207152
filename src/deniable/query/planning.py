"""The query plan: everything about a private query that is known before it runs, and the only thing that can run.

A plan is made from SQL, declared bounds and keys, limits and the schema; no row is read. It fixes the event, the
noise, the bounded SQL and the expected error, so looking is free. `run` charges the event to the ledger, durably,
before the engine starts: a crash can only charge too much. After the charge nothing raises because of what the rows
hold.

**Which noise.** Every measure of a plan is released with discrete Laplace or with discrete Gaussian noise, all of one
plan with the same (`noises` has the theorems). Laplace noise is scaled to how far a unit moves the measures in L1,
Gaussian noise to L2, which is smaller where a unit is in many groups or many aggregates are asked for; but it promises
a δ. The plan takes the noise with the smaller error among those that keep its promise and that the ledger's filters
still accept. Everything after the noise is post-processing.

**Which δ.** With `epsilon` alone, the δ of a plan is a hundredth of what the ledger has left. A pure ledger has none:
its plans have Laplace noise. A ledger in zCDP, Rényi or Gaussian terms counts no δ: there a plan with Gaussian noise
states its ε at δ = 10⁻⁹, and is charged in the ledger's own terms. A plan with Laplace noise and declared keys has no δ
at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from math import log, prod
from typing import Any, Protocol

from deniable import _checks
from deniable._checks import Number
from deniable._forms import Plain
from deniable._remedies import MORE, Option, Remedy, example
from deniable.errors import AlreadyPaid, InvalidArgument, LedgerError, QueryError
from deniable.events import Claimed, Event
from deniable.guarantees import GDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger.records import Charge, as_purpose
from deniable.noise import Grid
from deniable.numerics.exact import short_below
from deniable.query import grids as gridding
from deniable.query.aggregates import build
from deniable.query.allowance import Allowance
from deniable.query.answering import Beyond, answered, shares
from deniable.query.bounding import Bounded, bounded, detailed
from deniable.query.choice import LIMITS, ONE_ROW, AtMost, draw_key
from deniable.query.complements import share_vectors
from deniable.query.engines.base import Engine
from deniable.query.estimates import Aggregate, ExpectedError
from deniable.query.explanation import explain, plan_html, why, words
from deniable.query.grids import Distinct, Reading, Values
from deniable.query.keys import DeclaredKeys, Keys
from deniable.query.measures import Measure, UnitCounts, move
from deniable.query.noises import FORMS, LAPLACE, NOISES, MeasureNoise, PlanNoise, fit
from deniable.query.reading import ParsedQuery
from deniable.query.release import Release
from deniable.query.schema import Column, Table
from deniable.query.values import name
from deniable.units import Relation, Unit, one_relation

DELTA_SHARE = Fraction(1, 100)
"""The part of the ledger's remaining δ that a plan takes unless `delta` is given."""

UNCOUNTED_DELTA = Fraction(1, 10**9)
"""The δ at which a plan states its ε where the ledger's budget counts no δ and is not pure."""

_SMALLEST_DELTA = Fraction(1, 10**200)
"""Nor would the threshold of a smaller δ be found with floats."""


class Budget(Protocol):
    """What a plan needs of a ledger."""

    @property
    def unit(self) -> Unit: ...

    @property
    def relation(self) -> Relation: ...

    def charge(
        self,
        event: Event,
        *,
        purpose: str,
        who: str | None,
        key: str | None = None,
        at: ApproxDP | None = None,
        envelopes: Sequence[str] = (),
    ) -> Charge: ...

    def fits(self, event: Event, *, who: str | None, at: ApproxDP | None = None) -> bool: ...

    def remaining(self, *, who: str | None) -> Guarantee: ...


@dataclass(frozen=True)
class PlanningContext:
    """What all plans of a session share: the tables, the engine that has them, the ledger, and who asks."""

    tables: tuple[Table, ...]
    engine: Engine
    ledger: Budget
    who: str | None = None
    key: tuple[int, int] | None = None
    """The key of the choice of rows: a session draws one, or is told it; without a session every run draws one."""
    envelopes: tuple[str, ...] = ()
    """The envelopes of the ledger that a charge must fit beside the budgets of all and of the analyst."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The arguments of `Session.plan` that shape one answer."""

    epsilon: Number | None = None
    cost: Guarantee | None = None
    """In place of `epsilon`."""
    bounds: Mapping[Any, Sequence[Number] | str] | str | None = None
    """By the text that names a column, or by the column itself."""
    keys: Mapping[str, object] | None = None
    per_unit: AtMost | str | None = None
    weights: Mapping[str, Number] | None = None
    confidence: Number = 0.95
    delta: Number | None = None
    noise: str | None = None
    shared_delta: bool = False
    """Whether the δ in `cost` is the default share of what the ledger had left."""
    whole_limits: tuple[str, ...] = ()
    """The limits that matter, of "rows", "groups" and "total", where a unit beyond them is left out, and not cut."""
    whole_bounds: frozenset[str] = frozenset()
    """The SQL of columns for which a unit with a value outside of the bounds is left out, and its value not clamped."""


@dataclass(frozen=True, eq=False)
class QueryPlan(Plain):
    """A private query, ready to run. Every field is public."""

    question: ParsedQuery
    aggregates: tuple[Aggregate, ...]
    keys: tuple[Keys, ...]
    limits: AtMost
    noise: PlanNoise
    alternatives: tuple[PlanNoise, ...]
    """The noise that was not taken, where there was a choice; the best first."""
    bounded: Bounded
    whole: Allowance
    """Units beyond it are left out whole."""
    cost: Guarantee
    confidence: Fraction
    options: PlanOptions
    """What was given."""
    context: PlanningContext = field(repr=False)

    @property
    def sql(self) -> str:
        """The question as it was asked."""
        return self.question.statement.sql

    @property
    def unit(self) -> Column | None:
        """The column that says whose a row is; None where every row is protected on its own."""
        return self.question.unit_column(self.context.ledger.unit)

    @property
    def engine(self) -> Engine:
        """What runs the bounded SQL."""
        return self.context.engine

    def on(self, engine: Engine) -> QueryPlan:
        """The same plan on another engine, which has the same tables."""
        return replace(self, context=replace(self.context, engine=engine))

    @property
    def event(self) -> Event:
        """What running will do to the data."""
        return self.noise.event

    @property
    def noises(self) -> tuple[MeasureNoise, ...]:
        """The noise of every measure."""
        return self.noise.parts

    @property
    def at(self) -> ApproxDP | None:
        """The (ε, δ) at which the event enters a ledger's basic filter, where the sum of its parts would not."""
        return self.cost if isinstance(self.cost, ApproxDP) and self.noise.form is not LAPLACE else None

    @property
    def groups(self) -> int | None:
        """How many groups are released; None when that is private."""
        return _groups(self.keys)

    @property
    def grids(self) -> dict[Column, Grid]:
        """Every column that is clamped, with the finest of its grids: quantiles read a coarser one."""
        return _finest(self.bounded.values)

    @property
    def limited(self) -> tuple[str, ...]:
        """Which limits there are: of "rows", unless only units are counted, of "groups", if there are several, and of
        the "total", if it is stated."""
        measures = tuple(part.measure for part in self.noises)
        return _limited(self.question, self.unit, measures, self.keys, self.limits)

    @property
    def leaves_out(self) -> bool:
        """Whether limits or bounds can leave out anything."""
        return bool(self.allowance)

    @property
    def allowance(self) -> Allowance:
        """What a unit may own and count in full."""
        if self.options.whole_limits:
            return Allowance(self.whole.limits, tuple(self.grids.items()))
        limits = {name: getattr(self.limits, name) for name in self.limited}
        return Allowance.of(limits, self.grids, groups=self.groups)

    @property
    def cuts(self) -> bool:
        """Whether units beyond count in part."""
        return any(self.rows_cut(part.measure) for part in self.noises)

    def rows_cut(self, measure: Measure) -> int:
        """How many rows of a unit beyond still count in one group of a measure, cut or clamped; 0 where all units that
        count do so in full."""
        cut = bool(self.allowance.limits) and not self.options.whole_limits
        columns = () if measure.reading is None else _finest([measure.reading])
        clamped = measure.sees_values and any(name(column) not in self.options.whole_bounds for column in columns)
        return measure.most_rows(self.limits) if cut or clamped else 0

    @property
    def statements(self) -> tuple[Bounded, ...]:
        """The SQL that running may execute."""
        return (self.bounded,)

    @property
    def threshold(self) -> MeasureNoise | None:
        """What decides which groups are released, where keys are private."""
        return next((part for part in self.noises if part.threshold is not None), None)

    @property
    def error(self) -> dict[str, ExpectedError]:
        """What the noise does to each aggregate, at the plan's confidence. Clamped and left-out rows come on top."""
        return self.errors(self.noise)

    def errors(self, noise: PlanNoise) -> dict[str, ExpectedError]:
        """The same for another noise."""
        return {a.name: a.error(noise.laws, failure=1 - self.confidence) for a in self.aggregates}

    def pay(self, *, key: str | None = None, purpose: str | None = None) -> Charge:
        """Charge the ledger for one answer, durably; `run` does this first, and computes only after it.

        Args:
            key: names the answer that is paid for. A key pays once: `AlreadyPaid` if it has paid before.
            purpose: why, in words; the SQL, if not given.
        """
        self.engine.check(self.statements)
        return pay(self.context, self.event, purpose or self.sql, at=self.at, key=key)

    def run(self, *, key: str | None = None, purpose: str | None = None) -> Release:
        """Charge the ledger, compute, add noise. Every call charges again and answers with fresh noise.

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
        return digest(self, self)

    def why(self) -> str:
        """Why the answer is as noisy as it is, and what would halve the noise."""
        return why(self)

    def explain(self) -> str:
        """The plan in words: question, cost, split, noise, expected error, and the SQL that will run."""
        return explain(self, sql=True)

    def __str__(self) -> str:
        return explain(self, sql=False)

    def __repr__(self) -> str:
        return str(self)  # what a shell shows

    def _repr_html_(self) -> str:
        return plan_html(words(self))

    def to_dict(self) -> dict[str, Any]:
        return {
            "sql": self.sql,
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "per_unit": self.limits.to_dict(),
            "groups": self.groups,
            "measures": [
                {"name": n.measure.name, self.noise.form.key: float(n.amount), "scale": float(n.scale * n.measure.step)}
                for n in self.noises
            ],
            "noise": self.noise.form.name,
            "error": {name: str(error) for name, error in self.error.items()},
            "confidence": float(self.confidence),
            "bounded_sql": self.engine.written(self.bounded),
        }


def pay(context: PlanningContext, event: Event, purpose: str, *, at: ApproxDP | None, key: str | None = None) -> Charge:
    """Charge a plan's event, durably. Only an (ε, δ) ledger has a basic filter to which `at` speaks. A key that has
    paid before is refused: one charge pays for one answer."""
    who, ledger = context.who, context.ledger
    if at is not None and not isinstance(ledger.remaining(who=who), ApproxDP):
        at = None
    charge = ledger.charge(event, purpose=as_purpose(purpose), who=who, key=key, at=at, envelopes=context.envelopes)
    if not charge.fresh:
        raise AlreadyPaid(
            f"key={key!r} has paid for an answer before (row {charge.seq}), which may have been seen; a second answer "
            "needs another key and another charge. Nothing was charged."
        )
    return charge


def digest(plan: Any, answer: QueryPlan) -> str:
    """What makes two plans one: the text, the promise, the keys, the clamping, and every statement with its lists."""
    facts = {
        "sql": plan.sql,
        "cost": Claimed(plan.cost).to_record(),
        "event": plan.event.to_record(),
        "keys": [(keys.column.name, keys.texts) for keys in answer.keys],
        "bounds": [(column.name, str(grid)) for column, grid in answer.grids.items()],
        "limits": answer.limits.to_dict(),
        "confidence": str(plan.confidence),
        "statements": [(statement.text, statement.lists) for statement in plan.statements],
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def plan(question: ParsedQuery, options: PlanOptions, context: PlanningContext, *, charged: bool = False) -> QueryPlan:
    """The plan of one query; with `charged`, of one whose promise is paid already, so that the ledger is not asked."""
    confidence = _checks.inner_probability("confidence", options.confidence, remedy=example("confidence", 0.95))
    question = question.with_ranges(gridding.declared(options.bounds))
    engine, ledger = context.engine, context.ledger
    unit = ledger.unit
    column = question.unit_column(unit)
    stated = AtMost(groups=1, rows=1) if question.single else _limits(options.per_unit, unit)
    _check_joins(question, unit, engine)
    grids = gridding.collect(question.scope, options.bounds)
    declared = DeclaredKeys(options.keys, question, engine.look)
    keys = declared.groups()
    cost = promise(options, context, [k.column.name for k in keys if k.private])
    built = tuple(build(output, grids, unit=column, categories=declared.of) for output in question.measured)
    aggregates = share_vectors(built)
    groups = _groups(keys)
    if not aggregates and groups is not None:
        raise QueryError("every key is declared, so the answer is the list that was given; ask for COUNT(*) as well")
    stated = stated.within(groups)
    limits = replace(stated, groups=stated.groups if groups is None else min(stated.groups, groups))
    units = _units(question, keys, unit)
    forms = candidates(aggregates, cost, options, context, limits=limits, groups=groups, units=units)
    ranked = sorted(forms, key=lambda noise: _size(aggregates, noise, failure=1 - confidence))
    taken = ranked[0] if charged else _first_fit(ranked, cost, context)
    measures = tuple(taken.laws)
    whole = _whole(options, _limited(question, column, measures, keys, limits), limits, measures, groups=groups)
    cut = None if options.whole_limits else stated
    return QueryPlan(
        question=question,
        aggregates=aggregates,
        keys=keys,
        limits=limits,
        noise=taken,
        alternatives=tuple(noise for noise in ranked if noise is not taken),
        bounded=_bounded(question, keys, measures, unit=column, limits=cut, groups=groups, engine=engine, whole=whole),
        whole=whole,
        cost=_cost(cost, taken),
        confidence=confidence,
        options=options,
        context=context,
    )


def candidates(
    aggregates: Sequence[Aggregate],
    cost: Guarantee,
    options: PlanOptions,
    context: PlanningContext,
    *,
    limits: AtMost,
    groups: int | None,
    units: Measure | None,
) -> list[PlanNoise]:
    """The noise of every form that keeps the promise, and that the ledger's kind of budget can pay for."""
    relation = context.ledger.relation
    pure = isinstance(context.ledger.remaining(who=context.who), PureDP)
    if options.noise is not None and options.noise not in NOISES:
        raise InvalidArgument("noise", options.noise, '"laplace" or "gaussian"', "Left out, the smaller one is taken.")
    found = []
    for form in (LAPLACE,) if pure else FORMS:
        total = form.total(cost, keys=units is not None) if options.noise in (None, form.name) else None
        if total is None:
            continue
        amounts = shares(aggregates, total=total, weights=options.weights, keys=units)
        moves = {measure: move(measure, limits, groups=groups, relation=relation) for measure in amounts}
        found.append(
            fit(
                form,
                amounts,
                moves,
                keys=units,
                groups=limits.groups,
                delta=form.key_delta(cost),
                relation=relation,
            )
        )
    if not found:
        raise InvalidArgument(
            "noise", options.noise, f"one that keeps {cost.figures} on this ledger",
            "Gaussian noise needs a ledger whose budget has a δ or is in zCDP.",
        )  # fmt: skip
    return found


def _size(aggregates: Sequence[Aggregate], noise: PlanNoise, *, failure: Fraction) -> float:
    """How large the errors of a plan are, and the threshold of its keys, as the sum of their logarithms."""
    sizes = [a.error(noise.laws, failure=failure).size_of_noise for a in aggregates]
    sizes += [part.threshold.threshold for part in noise.parts if part.threshold is not None]
    return sum(log(max(size, 1e-300)) for size in sizes)


def _first_fit(ranked: Sequence[PlanNoise], cost: Guarantee, context: PlanningContext) -> PlanNoise:
    """The first noise that the ledger's filters accept now; where none is, the first, and charging refuses it.

    A noise whose promise the accountant cannot confirm is left out: orders are tried on a grid, and a form that needs
    all of its δ may miss by a hair.
    """
    if len(ranked) == 1:
        return ranked[0]
    ledger, who = context.ledger, context.who
    basic = isinstance(ledger.remaining(who=who), ApproxDP) and isinstance(cost, ApproxDP)
    confirmed = []
    for each in ranked:
        at = cost if basic and each.form is not LAPLACE else None
        try:
            if ledger.fits(each.event, who=who, at=at):  # type: ignore[arg-type]
                return each
        except InvalidArgument:
            continue
        except LedgerError:  # it pays in an analyst's name alone, and this plan has none: charging refuses it
            pass
        confirmed.append(each)
    return confirmed[0] if confirmed else ranked[0]


def _cost(cost: Guarantee, noise: PlanNoise) -> Guarantee:
    """What is promised: less than what was allowed where Laplace noise needs no δ."""
    if isinstance(cost, ApproxDP) and noise.form is LAPLACE and not any(part.threshold for part in noise.parts):
        return PureDP(cost.epsilon, relation=cost.relation, unit=cost.unit)
    return cost


def answer(plan: QueryPlan, *, beyond: Beyond | None = None) -> Release:
    """Compute and add noise, without charging: for a caller that has charged an event which covers the plan's. `beyond`
    bounds the units beyond the limits; where nothing can be left out there are none."""
    if beyond is None and not plan.leaves_out:
        beyond = Beyond(0, 0)
    remaining = plan.context.ledger.remaining(who=plan.context.who)
    totals = plan.engine.run(plan.bounded, groups=plan.groups, key=plan.context.key or draw_key())
    found = answered(
        plan.question, plan.keys, plan.aggregates, plan.noises, totals,
        cut=plan.rows_cut, beyond=beyond, failure=1 - plan.confidence,
    )  # fmt: skip
    return Release(
        title=_title(plan),
        outputs=tuple(output.name for output in plan.question.outputs),
        groups={keys.column.name: keys.private for keys in plan.keys},
        key_values=found.keys,
        estimates=found.estimates,
        noise_estimates=found.noise_only,
        beyond=beyond,
        reasons=why(plan),
        cost=plan.cost,
        event=plan.event,
        confidence=plan.confidence,
        remaining=remaining,
    )


def _title(plan: QueryPlan) -> str:
    released = ", ".join(aggregate.text for aggregate in plan.question.measured) or "groups"
    by = " by " + ", ".join(keys.column.name for keys in plan.keys) if plan.keys else ""
    return f"{released} of {plan.question.table.name}{by}"


def _groups(keys: Sequence[Keys]) -> int | None:
    """How many groups declared keys make; None when some keys are private."""
    sizes = [len(k.values) for k in keys if k.values is not None]
    return prod(sizes) if len(sizes) == len(keys) else None


def _limited(
    question: ParsedQuery, unit: Column | None, measures: Sequence[Measure], keys: Sequence[Keys], limits: AtMost
) -> tuple[str, ...]:
    """Which limits there are (see `QueryPlan.limited`)."""
    if unit is None or question.single:
        return ()
    rows = any(not isinstance(measure, UnitCounts) for measure in measures)
    groups = bool(keys) and _groups(keys) != 1
    return ("rows",) * rows + ("groups",) * groups + ("total",) * (rows and limits.total is not None)


def _finest(readings: Sequence[Reading]) -> dict[Column, Grid]:
    """Every column that has bounds, with the finest of its grids."""
    finest: dict[Column, Grid] = {}
    for reading in readings:
        grid = None if isinstance(reading, Distinct) else reading.grid
        if grid is not None and (reading.column not in finest or grid.step < finest[reading.column].step):
            finest[reading.column] = grid
    return finest


def _whole(
    options: PlanOptions, limited: Sequence[str], limits: AtMost, measures: Sequence[Measure], *, groups: int | None
) -> Allowance:
    """Beyond what units are left out whole."""
    grids = _finest([measure.reading for measure in measures if measure.reading is not None])
    left_out = {column: grid for column, grid in grids.items() if name(column) in options.whole_bounds}
    if not options.whole_limits:
        return Allowance((), tuple(left_out.items()))
    stated = {name: getattr(limits, name) for name in limited}
    if "rows" in stated:
        stated["total"] = limits.most_rows
    # A limit that is to be asked for is asked for, also if it follows from others, so that the SQL has one form.
    needed = {name for name, _ in Allowance.of(stated, {}, groups=groups).limits} | {*options.whole_limits}
    return Allowance(tuple((name, most) for name, most in stated.items() if name in needed), tuple(left_out.items()))


def _units(question: ParsedQuery, keys: Sequence[Keys], unit: Unit) -> Measure | None:
    """What decides which groups are shown: the number of units in each, where keys are private."""
    if not any(k.private for k in keys):
        return None
    return Measure(None) if unit.column is None else UnitCounts(None, noun=unit.column)


def promise(options: PlanOptions, context: PlanningContext, private: Sequence[str]) -> Guarantee:
    """What a plan may cost: as stated, with the δ that it has where none was; `private` are the columns whose keys are
    found in the data."""
    ledger = context.ledger
    left = ledger.remaining(who=context.who)
    if isinstance(left, GDP):
        raise QueryError(
            f"a ledger in Gaussian differential privacy cannot pay for queries: {_NO_GDP}; create one with a budget "
            "in ApproxDP or ZCDP"
        )
    stated = None if options.delta is None else _stated_delta(options.delta)
    if options.cost is not None:
        return _stated_cost(options.cost, stated, ledger, private)
    epsilon = _checks.positive(
        "epsilon", 0 if options.epsilon is None else options.epsilon, remedy=example("epsilon", 0.5)
    )
    if stated is not None:
        if not private and isinstance(left, PureDP):
            raise InvalidArgument(
                "delta", options.delta, "left out: all keys are declared, and this ledger has a budget without δ",
                "Laplace noise alone needs no delta.",
            )  # fmt: skip
        return ApproxDP(epsilon, stated, relation=ledger.relation, unit=ledger.unit)
    if options.noise == LAPLACE.name and not private:
        return PureDP(epsilon, relation=ledger.relation, unit=ledger.unit)
    share = left.delta * DELTA_SHARE if isinstance(left, ApproxDP | ApproxZCDP) else Fraction(0)
    if share >= _SMALLEST_DELTA:
        return ApproxDP(epsilon, share, relation=ledger.relation, unit=ledger.unit)
    if private:
        raise _no_delta(private[0])
    if isinstance(left, PureDP | ApproxDP | ApproxZCDP):
        return PureDP(epsilon, relation=ledger.relation, unit=ledger.unit)
    return ApproxDP(epsilon, UNCOUNTED_DELTA, relation=ledger.relation, unit=ledger.unit)


_NO_GDP = "that noise on whole numbers keeps a Gaussian curve is proved but for a δ of 10⁻³⁰⁸"


def _stated_delta(delta: Number) -> Fraction:
    stated = _checks.inner_probability("delta", delta, remedy=example("delta", 1e-8))
    if stated < _SMALLEST_DELTA:
        raise InvalidArgument("delta", delta, "at least 1e-200", example("delta", 1e-8))
    return stated


def _stated_cost(cost: object, delta: Fraction | None, ledger: Budget, private: Sequence[str]) -> Guarantee:
    """A cost that was stated as a guarantee, about the ledger's unit."""
    if isinstance(cost, GDP):
        near = f"ZCDP({_checks.shown(short_below(cost.mu**2 / 2, figures=6))})" if cost.mu else "ZCDP(0.01)"
        raise InvalidArgument(
            "cost", cost, f"PureDP, ApproxDP or ZCDP: {_NO_GDP}", f"cost=dn.{near} has about the same noise."
        )  # fmt: skip
    if not isinstance(cost, PureDP | ApproxDP | ZCDP | ApproxZCDP):
        raise InvalidArgument(
            "cost",
            cost,
            "PureDP, ApproxDP or ZCDP",
            "For example cost=dn.ZCDP(0.01); epsilon=… is the short form.",
        )
    one_relation(ledger.relation, cost.relation, doing="plan")
    if not any(cost.numbers[name] for name in cost.numbers if name != "delta"):
        raise InvalidArgument("cost", cost, "above 0", "With 0 no answer may depend on the data.")
    if delta is not None and not isinstance(cost, ZCDP):
        raise InvalidArgument("delta", float(delta), "left out where cost is given", "dn.ApproxDP states both.")
    if isinstance(cost, ZCDP) and delta is not None:
        return ApproxZCDP(cost.rho, delta, relation=ledger.relation, unit=ledger.unit)
    found = replace(cost, unit=ledger.unit)
    if private and not getattr(found, "delta", Fraction(0)):
        raise _no_delta(private[0])
    return found


def _no_delta(column: str) -> QueryError:
    listed = Option("keys", {column: [MORE]})
    return QueryError(
        Remedy(
            f"GROUP BY {column} needs its keys declared: groups that are found in the data cost a δ, and this "
            f"ledger has none left; give {listed} with the public list of values, or use a ledger whose budget has "
            "a δ",
            listed,
        )
    )


def _check_joins(question: ParsedQuery, unit: Unit, engine: Engine) -> None:
    """Where a row is a unit, a join must not make several rows of one. The tables that are asked are public."""
    for join in question.all_joins:
        if unit.column is None and join.table.public and engine.look(join.repeats)[0][0]:
            raise QueryError(
                f"the public table {join.table.name} has several rows for one key, so a row of {question.table.name} "
                "would count several times, and this ledger protects single rows; join a table with one row per key"
            )


def _bounded(
    question: ParsedQuery,
    keys: Sequence[Keys],
    measures: Sequence[Measure],
    *,
    unit: Column | None,
    limits: AtMost | None,
    groups: int | None,
    engine: Engine,
    whole: Allowance,
) -> Bounded:
    """The SQL that measures them: of sums alone, or of rows where a measure needs them."""
    readings = tuple(dict.fromkeys(m.reading for m in measures if m.reading is not None))
    if all(isinstance(reading, Values) for reading in readings):
        units = any(isinstance(m, UnitCounts) for m in measures)
        found = bounded(
            question, keys, readings, unit=unit, limits=limits, groups=groups, units=units, alike=engine.alike,
            whole=whole,
        )  # fmt: skip
    else:
        found = detailed(
            question, keys, readings, unit=unit, limits=limits, groups=groups, alike=engine.alike, whole=whole
        )
    return found


def _limits(per_unit: AtMost | str | None, unit: Unit) -> AtMost:
    """The limits that hold: stated for people, implied for rows."""
    if per_unit is not None and not isinstance(per_unit, AtMost):
        raise InvalidArgument("per_unit", per_unit, "limits", example("per_unit", LIMITS))
    if unit.column is None:
        if per_unit is not None and per_unit.within(None) != ONE_ROW:
            raise InvalidArgument(
                "per_unit", per_unit, "left out: this ledger protects single rows", "A row is one row."
            )
        return ONE_ROW
    if per_unit is None:
        stated = Option("per_unit", LIMITS)
        raise QueryError(
            Remedy(
                f"one {unit.noun} may own many rows, and the noise must cover all that count; give {stated}, with "
                "numbers that most people stay within, from what you know, or give epsilon in place of an error: then "
                "they are found privately",
                stated,
            )
        )
    return per_unit
