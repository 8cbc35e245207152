"""Accuracy first: the ε that gives a stated error.

`error=50` asks that every released value lie within 50 of what the same bounded query would give without noise, with
the plan's confidence (95 % unless stated), for each value on its own. It is the expected error that a plan prints,
solved for ε. Each aggregate gets the smallest ε of four digits that is enough for it alone, so an exact count does not
pay for a coarse sum beside it; the query costs their sum. A measure that two aggregates share gets both their parts,
which can only make it better. Keys that are found in the data get as much as an aggregate on average. The errors of
the plan that results are checked once more, so nothing rests on the search. With `weights`, the parts are fixed and
only the whole is solved for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from deniable import _checks
from deniable._checks import Number
from deniable._remedies import example
from deniable.errors import InvalidArgument
from deniable.query import planning
from deniable.query.aggregates import RankError
from deniable.query.answering import KEYS, shares
from deniable.query.estimates import ExpectedError
from deniable.query.planning import PlanningContext, PlanOptions, QueryPlan
from deniable.query.reading import ParsedQuery

MOST_EPSILON = Fraction(10**4)
"""No larger ε is looked at: it would not be private."""

_LITTLE = Fraction(1, 10**9)
"""The weight of the aggregates that are not looked at, so that what they add to a shared measure does not count."""


class Accurate(NamedTuple):
    """An ε and the weights with which it is enough; None where they were given."""

    epsilon: Fraction
    weights: Mapping[str, Number] | None


def solve(
    question: ParsedQuery,
    options: PlanOptions,
    context: PlanningContext,
    *,
    error: Number | Mapping[str, Number],
    group_size: int | None,
) -> Accurate:
    """The smallest ε found with which every expected error of the plan is within `error`; that of `options` does not
    matter.

    An average's error depends on how many values its group has: `group_size` is the smallest group for which the error
    must hold.
    """

    def plan(epsilon: Fraction, weights: Mapping[str, Number] | None) -> QueryPlan:
        return planning.plan(question, replace(options, epsilon=epsilon, weights=weights), context)

    weights = options.weights
    errors = _Errors(
        plan(Fraction(1), weights), None if group_size is None else _checks.count("group_size", group_size)
    )
    goals = _goals(error, errors.plan)
    if weights is not None:
        whole, parts = errors.smallest(goals, weights), None
    else:
        names = [*goals, *([KEYS] if errors.plan.threshold is not None else [])]
        parts = {
            name: errors.smallest({name: goal}, {n: Fraction(1) if n == name else _LITTLE for n in names})
            for name, goal in goals.items()
        }
        if errors.plan.threshold is not None:
            parts.setdefault(KEYS, sum(parts.values(), Fraction(0)) / len(parts))
        whole = sum(parts.values(), Fraction(0))
    if not errors.of(plan(whole, parts or weights)).meet(goals):
        raise InvalidArgument("error", error, "reachable", "Ask for a slightly larger error.")
    return Accurate(whole, parts)


@dataclass(frozen=True)
class _Errors:
    """The expected errors of a plan, at its own ε or another: the scale of every noise is in proportion to 1/ε."""

    plan: QueryPlan
    size: int | None

    def of(self, plan: QueryPlan) -> _Errors:
        return replace(self, plan=plan)

    def at(self, epsilon: Fraction, weights: Mapping[str, Number]) -> dict[str, ExpectedError]:
        """The errors that another ε and other weights would give."""
        plan, keys = self.plan, self.plan.threshold
        split = shares(plan.aggregates, epsilon=epsilon, weights=weights, keys=None if keys is None else keys.measure)
        scales = {part.measure: part.scale * part.epsilon / split[part.measure] for part in plan.noises}
        return {a.name: a.error(scales, failure=1 - plan.confidence) for a in plan.aggregates}

    def meet(self, goals: Mapping[str, Fraction], errors: Mapping[str, ExpectedError] | None = None) -> bool:
        """Whether errors, the plan's own or others, are within the goals."""
        known = self.plan.error if errors is None else errors
        return all(_within(known[name], goal, self.size) for name, goal in goals.items())

    def smallest(self, goals: Mapping[str, Fraction], weights: Mapping[str, Number]) -> Fraction:
        """The smallest ε that meets the goals."""
        from deniable.mechanisms.sample_size import smallest_epsilon  # loads scipy, which few queries need

        strongest = self.at(MOST_EPSILON, weights)
        for name, goal in goals.items():
            _check_reachable(name, strongest[name], goal, self.size)
        return smallest_epsilon(lambda epsilon: self.meet(goals, self.at(epsilon, weights)))


def _goals(error: Number | Mapping[str, Number], plan: QueryPlan) -> dict[str, Fraction]:
    """The error that is asked for, per aggregate."""
    names = [aggregate.name for aggregate in plan.aggregates]
    if not isinstance(error, Mapping):
        goal = _checks.positive("error", error, remedy=example("error", 50))
        return dict.fromkeys(names, goal)
    for name in error:
        if name not in names:
            raise InvalidArgument("error", name, f"about the aggregates {', '.join(names)}", "Use the name after AS.")
    for name in names:
        if name not in error:
            raise InvalidArgument("error", dict(error), f"given for every aggregate, {name} too")
    return {name: _checks.positive(f"error[{name!r}]", error[name]) for name in names}


def _within(error: ExpectedError, goal: Fraction, size: int | None) -> bool:
    """Whether an expected error is within the goal; a float that is not whole may be a little too low."""
    found = error(rows=size)
    if not math.isfinite(found):
        return False
    exact = Fraction(found)
    return exact * (1 if exact.denominator == 1 else 1 + Fraction(1, 10**15)) <= goal


def _check_reachable(name: str, least: ExpectedError, goal: Fraction, size: int | None) -> None:
    """Refuse, with the reason, what not even the largest ε gives."""
    if _within(least, goal, size):
        return
    said = _checks.shown(goal)
    if isinstance(least, RankError):
        raise InvalidArgument(
            "error", said, f"left out: how far {name} is off depends on how close the values lie, which is private",
            "Give epsilon; the plan states the error in ranks.",
        )  # fmt: skip
    if not _within(least, goal, 10**12):
        raise InvalidArgument(
            "error", said, f"reachable for {name}",
            "Not even ε = 10000 gives it: ask for a larger error, or take closer bounds or a finer step.",
        )  # fmt: skip
    if size is None:
        raise InvalidArgument(
            "error", said, f"given with group_size: the error of {name} depends on how many values a group has",
            example("group_size", 1000),
        )  # fmt: skip
    raise InvalidArgument(
        "error", said, f"reachable for {name} in a group of {size} values",
        "Not even ε = 10000 gives it: ask for a larger error, or of larger groups, or take closer bounds.",
    )  # fmt: skip
