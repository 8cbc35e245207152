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
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import prod
from operator import add
from typing import Any, Protocol

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import InvalidArgument, QueryError
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import Guarantee, PureDP
from deniable.query import grids as gridding
from deniable.query import keys as keying
from deniable.query.aggregates import Aggregate, ExpectedError, Noisy, build
from deniable.query.bounding import Bounded, bounded
from deniable.query.engines.base import Engine
from deniable.query.explanation import explain
from deniable.query.keys import Keys
from deniable.query.limits import ONE_ROW, AtMost
from deniable.query.measures import Measure, Move, Values, move
from deniable.query.reading import Question, read
from deniable.query.release import Release
from deniable.query.schema import Table
from deniable.query.split import shares
from deniable.units import Relation, Unit

_LARGEST_SCALE = 10**250
"""Noise beyond this would not fit a float."""


class Budget(Protocol):
    """What a plan needs of a ledger."""

    @property
    def unit(self) -> Unit: ...

    @property
    def relation(self) -> Relation: ...

    def charge(self, event: Event, *, purpose: str, who: str | None) -> object: ...

    def remaining(self, *, who: str | None) -> Guarantee: ...


@dataclass(frozen=True)
class Noise:
    """The noise of one measure: its part of ε, how far a unit moves the measure, and the event."""

    measure: Measure
    epsilon: Fraction
    move: Move
    event: DiscreteLaplace

    @property
    def scale(self) -> Fraction:
        """The scale of the discrete Laplace noise, in steps of the measure's grid."""
        return self.event.scale


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """A private query, ready to run. Every field is public."""

    sql: str
    question: Question
    aggregates: tuple[Aggregate, ...]
    keys: tuple[Keys, ...]
    limits: AtMost
    noises: tuple[Noise, ...]
    bounded: Bounded
    cost: PureDP
    confidence: Fraction
    _engine: Engine = field(repr=False)
    _ledger: Budget = field(repr=False)
    _who: str | None = field(default=None, repr=False)

    @property
    def event(self) -> Event:
        """What running will do to the data."""
        return reduce(add, (part.event for part in self.noises))

    @property
    def groups(self) -> int:
        """How many groups are released."""
        return prod(len(k.values) for k in self.keys)

    @property
    def error(self) -> dict[str, ExpectedError]:
        """What the noise does to each aggregate, at the plan's confidence. Clamped and left-out rows come on top."""
        scales = {part.measure: part.scale for part in self.noises}
        return {a.name: a.error(scales, failure=1 - self.confidence) for a in self.aggregates}

    def run(self) -> Release:
        """Charge the ledger, compute, add noise. Every call charges again and answers with fresh noise."""
        self._ledger.charge(self.event, purpose=" ".join(self.sql.split()), who=self._who)
        remaining = self._ledger.remaining(who=self._who)
        first, second = noise.secure().words(2).tolist()
        totals = self._engine.run(self.bounded, groups=self.groups, key=(first, second))
        noisy = {
            part.measure: Noisy(
                noise.add(part.measure.of(totals), noise.discrete_laplace(part.scale, self.groups)), part.scale
            )
            for part in self.noises
        }
        del totals
        estimates = {a.name: a.estimate(noisy, failure=1 - self.confidence) for a in self.aggregates}
        return Release(
            question=self.question,
            keys=self.keys,
            estimates=estimates,
            cost=self.cost,
            event=self.event,
            confidence=self.confidence,
            remaining=remaining,
        )

    def explain(self) -> str:
        """The plan in words: question, cost, split, noise, expected error, and the SQL that will run."""
        return explain(self, sql=True)

    def __str__(self) -> str:
        return explain(self, sql=False)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values, for machines."""
        return {
            "sql": self.sql,
            "cost": str(self.cost),
            "epsilon": float(self.cost.epsilon),
            "event": self.event.to_json(),
            "per_unit": {"groups": self.limits.groups, "rows": self.limits.rows},
            "groups": self.groups,
            "measures": [
                {"name": n.measure.name, "epsilon": float(n.epsilon), "scale": float(n.scale * n.measure.step)}
                for n in self.noises
            ],
            "error": {name: str(error) for name, error in self.error.items()},
            "confidence": float(self.confidence),
            "bounded_sql": self.bounded.text,
        }


def plan(
    sql: str,
    *,
    tables: tuple[Table, ...],
    engine: Engine,
    ledger: Budget,
    who: str | None,
    epsilon: Number,
    bounds: Mapping[str, Sequence[Number]] | None,
    keys: Mapping[str, object] | None,
    per_unit: AtMost | None,
    weights: Mapping[str, Number] | None,
    confidence: Number,
) -> QueryPlan:
    """The plan of one query; the arguments are those of `Session.plan`."""
    whole = _checks.positive("epsilon", epsilon, remedy="Try epsilon=0.5.")
    sure = _checks.inner_probability("confidence", confidence, remedy="Try confidence=0.95.")
    question = read(sql, tables)
    unit = ledger.unit
    column = None if unit.column is None else question.table.find(unit.column)
    limits = _limits(per_unit, unit)
    grids = gridding.collect(question.table, bounds)
    aggregates = tuple(build(output, grids) for output in question.aggregates)
    declared = keying.collect(question.groups, keys, question.table)
    groups = prod(len(k.values) for k in declared)
    split = shares(aggregates, epsilon=whole, weights=weights)
    noises = tuple(_noise(m, share, limits, groups, ledger.relation) for m, share in split.items())
    return QueryPlan(
        sql=sql,
        question=question,
        aggregates=aggregates,
        keys=declared,
        limits=AtMost(groups=min(limits.groups, groups), rows=limits.rows),
        noises=noises,
        bounded=bounded(question, declared, _values(split), unit=column, limits=limits, groups=groups),
        cost=PureDP(whole, relation=ledger.relation, unit=unit),
        confidence=sure,
        _engine=engine,
        _ledger=ledger,
        _who=who,
    )


def _limits(per_unit: AtMost | None, unit: Unit) -> AtMost:
    """The limits that hold: stated for people, implied for rows."""
    if per_unit is not None and not isinstance(per_unit, AtMost):
        raise InvalidArgument("per_unit", per_unit, "limits", "For example per_unit=dn.AtMost(groups=2, rows=4).")
    if unit.column is None:
        if per_unit not in (None, ONE_ROW):
            raise InvalidArgument(
                "per_unit", per_unit, "left out: this ledger protects single rows", "A row is one row."
            )
        return ONE_ROW
    if per_unit is None:
        raise QueryError(
            f"per_unit is missing: one {unit.noun} may own many rows, and the noise must cover all that count; give "
            "per_unit=dn.AtMost(groups=2, rows=4), with numbers that most people stay within, from what you know"
        )
    return per_unit


def _values(measures: Mapping[Measure, Fraction]) -> tuple[Values, ...]:
    """What the measures read of each row, each once."""
    return tuple(dict.fromkeys(measure.values for measure in measures if measure.values is not None))


def _noise(measure: Measure, epsilon: Fraction, limits: AtMost, groups: int, relation: Relation) -> Noise:
    """Noise that makes a measure ε-DP: scale = sensitivity / ε, as an exact fraction."""
    moved = move(measure, limits, groups=groups, relation=relation)
    scale = Fraction(moved.sensitivity) / epsilon
    if scale * max(measure.step, Fraction(1)) > _LARGEST_SCALE:
        raise InvalidArgument("epsilon", float(epsilon), f"large enough for noise below {_LARGEST_SCALE:.0e}")
    event = DiscreteLaplace(
        scale,
        moved.sensitivity,
        relation,
        reach=moved.reach if relation is Relation.REPLACE else None,
        coordinates=moved.coordinates,
    )
    return Noise(measure, epsilon, moved, event)
