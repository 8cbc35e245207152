"""A request: a question with everything that was said about it, and the rules for what was not said.

| left out | rule |
|---|---|
| `epsilon` | `error` is given in its place, and ε is found |
| `bounds` of a column that is added up | refused, with how to choose them; or `"private"`: found with a tenth of ε |
| `per_unit` where people are protected | refused, with how to choose it; or `"private"`: found with a tenth of ε |
| `keys` of a column of GROUP BY | found in the data, behind a threshold that costs δ |
| `delta` where keys are found | a hundredth of the ledger's remaining δ |
| `weights` | every aggregate gets an equal part |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from deniable import _checks
from deniable._checks import Number
from deniable._remedies import example
from deniable.errors import InvalidArgument, QueryError
from deniable.query import googlesql, planning
from deniable.query.accuracy import solve
from deniable.query.engines.base import Engine
from deniable.query.grids import declared
from deniable.query.keys import DeclaredKeys
from deniable.query.limits import AtMost
from deniable.query.planning import Budget, QueryPlan
from deniable.query.reading import read
from deniable.query.schema import Table
from deniable.query.staging import PRIVATE, StagedPlan, stage

Plan: TypeAlias = QueryPlan | StagedPlan


@dataclass(frozen=True)
class PlanningContext:
    """Where a request is planned: the tables, the engine that holds them, the ledger, who asks, and the key of the
    choice of rows, where it is fixed."""

    tables: tuple[Table, ...]
    engine: Engine
    ledger: Budget
    who: str | None
    key: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """One question; the fields are the arguments of `Session.plan`."""

    sql: str
    epsilon: Number | None = None
    error: Number | Mapping[str, Number] | None = None
    group_size: int | None = None
    bounds: Mapping[str, Sequence[Number] | str] | str | None = None
    keys: Mapping[str, object] | None = None
    per_unit: AtMost | str | None = None
    weights: Mapping[str, Number] | None = None
    confidence: Number = 0.95
    diagnose: Number | None = None
    delta: Number | None = None

    def plan(self, place: PlanningContext) -> Plan:
        """The plan; free, reads no rows. The engine has bound every statement of it."""
        plan = self._frozen()._completed(place)._plan(place)
        for statement in plan.statements:
            place.engine.bind(statement)
        return plan

    def _frozen(self) -> Request:
        """The request with copies of what it was given: a plan with surveys reads it again after the charge, when a
        list may have changed, and an iterator be at its end."""
        copied: dict[str, Any] = {
            part: {name: _copied(value) for name, value in given.items()}
            for part in ("bounds", "keys", "weights", "error")
            if isinstance(given := getattr(self, part), Mapping)
        }
        return replace(self, **copied)

    def _completed(self, place: PlanningContext) -> Request:
        """The request with what a GoogleSQL text itself says about privacy."""
        form = googlesql.form(self.sql)
        if form is None:
            return self
        for what in ("epsilon", "error", "bounds", "per_unit", "delta"):
            if getattr(self, what) not in (None, {}):
                raise InvalidArgument(what, getattr(self, what), "left out: WITH DIFFERENTIAL_PRIVACY states it")
        unit = place.ledger.unit
        if unit.column is None or unit.column.casefold() != form.unit.casefold():
            raise QueryError(f"privacy_unit_column is {form.unit}, and the ledger protects {unit.column or 'rows'}")
        question = read(self.sql, place.tables)
        if question.groups and form.groups is None:
            raise QueryError("max_groups_contributed is missing from OPTIONS: one unit may be in many groups")
        said = DeclaredKeys(self.keys, question, place.engine.look)
        found = any(said.of(column) is None for column in question.groups)
        return replace(
            self,
            epsilon=form.epsilon,
            delta=form.delta if found else None,
            per_unit=AtMost(groups=form.groups or 1, rows=googlesql.ROWS if form.per_row else 1),
        )

    def _plan(self, place: PlanningContext) -> Plan:
        if self.epsilon is None and self.error is None:
            raise InvalidArgument("epsilon", None, "given, or error in its place", example("epsilon", 0.5))
        if self.epsilon is not None and self.error is not None:
            raise InvalidArgument("error", self.error, "left out when epsilon is given", "One follows from the other.")
        question = read(self.sql, place.tables, declared(self.bounds))
        epsilon, weights = self._accurate(place) if self.error is not None else (self._whole, self.weights)

        def remake(whole: Fraction, bounds: Any, limits: AtMost | None, delta: Number | None) -> QueryPlan:
            return self._planned(place, whole, bounds, limits, weights, delta=delta)

        return stage(
            remake, question, epsilon=epsilon, given=self.bounds, per_unit=self.per_unit, diagnose=self.diagnose
        )

    @property
    def _whole(self) -> Fraction:
        if self.group_size is not None:
            raise InvalidArgument("group_size", self.group_size, "left out unless error is given")
        return _checks.positive("epsilon", self.epsilon or 0, remedy=example("epsilon", 0.5))

    def _accurate(self, place: PlanningContext) -> tuple[Fraction, Mapping[str, Number] | None]:
        """The ε, and the weights, that give the error; the diagnosis' share comes on top."""
        named = self.bounds.values() if isinstance(self.bounds, Mapping) else [self.bounds]
        if any(isinstance(given, str) for given in (self.per_unit, *named)) or self.error is None:
            raise InvalidArgument(
                "error", self.error, "left out when bounds or per_unit are private: the noise is not known beforehand",
                f'Give epsilon, or state what is "{PRIVATE}".',
            )  # fmt: skip

        def make(whole: Fraction, parts: Mapping[str, Number] | None) -> QueryPlan:
            return self._planned(place, whole, self.bounds, self.per_unit, parts)

        found = solve(make, error=self.error, group_size=self.group_size, weights=self.weights)
        share = Fraction(0) if self.diagnose is None else _checks.exact(self.diagnose)
        return found.epsilon / (1 - share) if 0 <= share < 1 else found.epsilon, found.weights or self.weights

    def _planned(
        self,
        place: PlanningContext,
        epsilon: Fraction,
        bounds: Any,
        limits: Any,
        weights: Mapping[str, Number] | None,
        *,
        delta: Number | None = None,
    ) -> QueryPlan:
        return planning.plan(
            self.sql,
            tables=place.tables,
            engine=place.engine,
            ledger=place.ledger,
            who=place.who,
            epsilon=epsilon,
            bounds=bounds,
            keys=self.keys,
            per_unit=limits,
            weights=weights,
            confidence=self.confidence,
            delta=self.delta if delta is None else delta,
            key=place.key,
        )


def _copied(given: Any) -> Any:
    """A list or another iterable of values as a tuple; a text, a number or an array without a dimension as it is."""
    listed = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    return tuple(given) if listed and getattr(given, "ndim", None) != 0 else given
