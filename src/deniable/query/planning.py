"""The query plan: everything about a private query that is known before it runs, and the only thing that can run.

A plan is made from SQL, declared bounds and keys, limits and the schema; no row is read. It fixes the event, the
noise, the bounded SQL and the expected error, so looking is free. `run` charges the event to the ledger, durably,
before the engine starts: a crash can only charge too much. After the charge nothing raises because of what the rows
hold.

Each measure is released by the discrete Laplace mechanism (Ghosh, Roughgarden and Sundararajan 2009): integers of L1
sensitivity D plus independent noise with Pr[x] ∝ e^(−|x|/s), s = D/ε′, are ε′-DP. The measures' ε′ add up to ε
exactly (basic composition); everything after the noise is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from math import prod
from operator import add
from typing import Any, Protocol

from deniable import _checks, noise
from deniable._checks import Number
from deniable._forms import Plain
from deniable._remedies import MORE, Option, Remedy, example
from deniable.errors import InvalidArgument, QueryError
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger.records import as_purpose
from deniable.query import grids as gridding
from deniable.query.aggregates import build
from deniable.query.answering import MeasureNoise, answered, shares
from deniable.query.bounding import Bounded, bounded, detailed
from deniable.query.choice import LIMITS, ONE_ROW, AtMost
from deniable.query.engines.base import Engine
from deniable.query.estimates import Aggregate, ExpectedError
from deniable.query.explanation import explain, plan_html, words
from deniable.query.grids import Values
from deniable.query.keys import DeclaredKeys, Keys
from deniable.query.measures import Measure, UnitCounts, move
from deniable.query.reading import ParsedQuery
from deniable.query.release import Release
from deniable.query.schema import Column, Table
from deniable.units import Relation, Unit

DELTA_SHARE = Fraction(1, 100)
"""The part of the ledger's remaining δ that private keys take unless `delta` is given."""

_LARGEST_SCALE = 10**250
"""Noise beyond this would not fit a float."""

_SMALLEST_DELTA = Fraction(1, 10**200)
"""Nor would the threshold of a smaller δ be found with floats."""


class Budget(Protocol):
    """What a plan needs of a ledger."""

    @property
    def unit(self) -> Unit: ...

    @property
    def relation(self) -> Relation: ...

    def charge(self, event: Event, *, purpose: str, who: str | None) -> object: ...

    def remaining(self, *, who: str | None) -> Guarantee: ...


@dataclass(frozen=True)
class PlanningContext:
    """What all plans of a session share: the tables, the engine that has them, the ledger, and who asks."""

    tables: tuple[Table, ...]
    engine: Engine
    ledger: Budget
    who: str | None = None
    key: tuple[int, int] | None = None
    """The key of the choice of rows, where it is fixed; else every run draws one."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The arguments of `Session.plan` that shape one answer."""

    epsilon: Number
    bounds: Mapping[Any, Sequence[Number] | str] | str | None = None
    """By the text that names a column, or by the column itself."""
    keys: Mapping[str, object] | None = None
    per_unit: AtMost | str | None = None
    weights: Mapping[str, Number] | None = None
    confidence: Number = 0.95
    delta: Number | None = None


@dataclass(frozen=True, eq=False)
class QueryPlan(Plain):
    """A private query, ready to run. Every field is public."""

    question: ParsedQuery
    aggregates: tuple[Aggregate, ...]
    keys: tuple[Keys, ...]
    limits: AtMost
    noises: tuple[MeasureNoise, ...]
    bounded: Bounded
    cost: PureDP | ApproxDP
    confidence: Fraction
    options: PlanOptions
    """What was given."""
    context: PlanningContext = field(repr=False)

    @property
    def sql(self) -> str:
        """The question as it was asked."""
        return self.question.statement.sql

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
        return reduce(add, (part.charged for part in self.noises))

    @property
    def groups(self) -> int | None:
        """How many groups are released; None when that is private."""
        return _groups(self.keys)

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
        scales = {part.measure: part.scale for part in self.noises}
        return {a.name: a.error(scales, failure=1 - self.confidence) for a in self.aggregates}

    def run(self) -> Release:
        """Charge the ledger, compute, add noise. Every call charges again and answers with fresh noise."""
        self.engine.check(self.statements)
        self.context.ledger.charge(self.event, purpose=as_purpose(self.sql), who=self.context.who)
        return answer(self)

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
            "per_unit": {"groups": self.limits.groups, "rows": self.limits.rows},
            "groups": self.groups,
            "measures": [
                {"name": n.measure.name, "epsilon": float(n.epsilon), "scale": float(n.scale * n.measure.step)}
                for n in self.noises
            ],
            "error": {name: str(error) for name, error in self.error.items()},
            "confidence": float(self.confidence),
            "bounded_sql": self.engine.written(self.bounded),
        }


def plan(question: ParsedQuery, options: PlanOptions, context: PlanningContext) -> QueryPlan:
    """The plan of one query."""
    epsilon = _checks.positive("epsilon", options.epsilon, remedy=example("epsilon", 0.5))
    confidence = _checks.inner_probability("confidence", options.confidence, remedy=example("confidence", 0.95))
    question = question.with_ranges(gridding.declared(options.bounds))
    engine, ledger = context.engine, context.ledger
    unit = ledger.unit
    column = None if unit.column is None else question.table.find(unit.column)
    stated = _limits(options.per_unit, unit)
    _check_joins(question, unit, engine)
    grids = gridding.collect(question.scope, options.bounds)
    declared = DeclaredKeys(options.keys, question, engine.look)
    keys = declared.groups()
    aggregates = tuple(build(output, grids, unit=column, categories=declared.of) for output in question.measured)
    groups = _groups(keys)
    if not aggregates and groups is not None:
        raise QueryError("every key is declared, so the answer is the list that was given; ask for COUNT(*) as well")
    limits = AtMost(groups=stated.groups if groups is None else min(stated.groups, groups), rows=stated.rows)
    units = _units(question, keys, unit)
    delta = _delta(options.delta, keys, ledger, context.who)
    split = shares(aggregates, epsilon=epsilon, weights=options.weights, keys=units)
    noises = tuple(
        _noise(measure, share, limits, groups, ledger.relation, delta=delta if measure == units else None)
        for measure, share in split.items()
    )
    return QueryPlan(
        question=question,
        aggregates=aggregates,
        keys=keys,
        limits=limits,
        noises=noises,
        bounded=_bounded(question, keys, tuple(split), unit=column, limits=stated, groups=groups, engine=engine),
        cost=_cost(epsilon, delta, ledger),
        confidence=confidence,
        options=options,
        context=context,
    )


def answer(plan: QueryPlan) -> Release:
    """Compute and add noise, without charging: for a caller that has charged an event which covers the plan's."""
    remaining = plan.context.ledger.remaining(who=plan.context.who)
    first, second = plan.context.key or noise.secure().words(2).tolist()
    totals = plan.engine.run(plan.bounded, groups=plan.groups, key=(first, second))
    found = answered(plan.question, plan.keys, plan.aggregates, plan.noises, totals, failure=1 - plan.confidence)
    return Release(
        question=plan.question,
        keys=plan.keys,
        key_values=found.keys,
        estimates=found.estimates,
        cost=plan.cost,
        event=plan.event,
        confidence=plan.confidence,
        remaining=remaining,
    )


def _groups(keys: Sequence[Keys]) -> int | None:
    """How many groups declared keys make; None when some keys are private."""
    sizes = [len(k.values) for k in keys if k.values is not None]
    return prod(sizes) if len(sizes) == len(keys) else None


def _units(question: ParsedQuery, keys: Sequence[Keys], unit: Unit) -> Measure | None:
    """What decides which groups are shown: the number of units in each, where keys are private."""
    if not any(k.private for k in keys):
        return None
    return Measure(None) if unit.column is None else UnitCounts(None, noun=question.table.find(unit.column).name)


def _delta(delta: Number | None, keys: Sequence[Keys], ledger: Budget, who: str | None) -> Fraction | None:
    """The δ of private keys: as stated, or a hundredth of what remains."""
    private = [k.column.name for k in keys if k.private]
    if not private:
        if delta is not None:
            raise InvalidArgument("delta", delta, "left out: all keys are declared", "Noise alone needs no delta.")
        return None
    if delta is not None:
        stated = _checks.inner_probability("delta", delta, remedy=example("delta", 1e-8))
        if stated < _SMALLEST_DELTA:
            raise InvalidArgument("delta", delta, "at least 1e-200", example("delta", 1e-8))
        return stated
    left = ledger.remaining(who=who)
    if not isinstance(left, ApproxDP | ApproxZCDP) or left.delta * DELTA_SHARE < _SMALLEST_DELTA:
        listed = Option("keys", {private[0]: [MORE]})
        raise QueryError(
            Remedy(
                f"GROUP BY {private[0]} needs its keys declared: groups that are found in the data cost a δ, and this "
                f"ledger has none left; give {listed} with the public list of values, or use a ledger whose budget has "
                "a δ",
                listed,
            )
        )
    return left.delta * DELTA_SHARE


def _cost(epsilon: Fraction, delta: Fraction | None, ledger: Budget) -> PureDP | ApproxDP:
    if delta is None:
        return PureDP(epsilon, relation=ledger.relation, unit=ledger.unit)
    return ApproxDP(epsilon, delta, relation=ledger.relation, unit=ledger.unit)


def _check_joins(question: ParsedQuery, unit: Unit, engine: Engine) -> None:
    """Where a row is a unit, a join must not make several rows of one. The tables that are asked are public."""
    for join in question.joins:
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
    limits: AtMost,
    groups: int | None,
    engine: Engine,
) -> Bounded:
    """The SQL that measures them: of sums alone, or of rows where a measure needs them."""
    readings = tuple(dict.fromkeys(m.reading for m in measures if m.reading is not None))
    if all(isinstance(reading, Values) for reading in readings):
        units = any(isinstance(m, UnitCounts) for m in measures)
        found = bounded(
            question, keys, readings, unit=unit, limits=limits, groups=groups, units=units, alike=engine.alike
        )
    else:
        found = detailed(question, keys, readings, unit=unit, limits=limits, groups=groups, alike=engine.alike)
    return found


def _limits(per_unit: AtMost | str | None, unit: Unit) -> AtMost:
    """The limits that hold: stated for people, implied for rows."""
    if per_unit is not None and not isinstance(per_unit, AtMost):
        raise InvalidArgument("per_unit", per_unit, "limits", example("per_unit", LIMITS))
    if unit.column is None:
        if per_unit not in (None, ONE_ROW):
            raise InvalidArgument(
                "per_unit", per_unit, "left out: this ledger protects single rows", "A row is one row."
            )
        return ONE_ROW
    if per_unit is None:
        stated, private = Option("per_unit", LIMITS), Option("per_unit", "private")
        raise QueryError(
            Remedy(
                f"one {unit.noun} may own many rows, and the noise must cover all that count; give {stated}, with "
                f"numbers that most people stay within, from what you know, or {private}, which finds them with a "
                "tenth of ε",
                stated,
                private,
            )
        )
    return per_unit


def _noise(
    measure: Measure,
    epsilon: Fraction,
    limits: AtMost,
    groups: int | None,
    relation: Relation,
    *,
    delta: Fraction | None,
) -> MeasureNoise:
    """Noise that makes a measure ε-DP: scale = sensitivity / ε, as an exact fraction; with δ, and a threshold."""
    moved = move(measure, limits, groups=groups, relation=relation)
    scale = Fraction(moved.sensitivity) / epsilon
    if scale * max(measure.step, Fraction(1)) > _LARGEST_SCALE:
        raise InvalidArgument("epsilon", float(epsilon), f"large enough for noise below {_LARGEST_SCALE:.0e}")
    if delta is not None:
        from deniable.mechanisms.counts import StabilityHistogram  # loads scipy, which few queries need

        threshold = StabilityHistogram(epsilon, delta, limits.groups, relation)
        return MeasureNoise(measure, epsilon, moved, threshold.noise, threshold)
    event = DiscreteLaplace(
        scale,
        moved.sensitivity,
        relation,
        reach=moved.reach if relation is Relation.REPLACE else None,
        coordinates=moved.coordinates,
    )
    return MeasureNoise(measure, epsilon, moved, event)
