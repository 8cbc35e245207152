"""Accuracy first: the ε that gives a stated error.

`error=50` asks that every released value lie within 50 of what the same bounded query would give without noise, with
the plan's confidence (95 % unless stated), for each value on its own. It is the expected error that a plan prints,
solved for ε. Each aggregate gets the smallest ε of four digits that is enough for it alone, so an exact count does not
pay for a coarse sum beside it. The query costs what these amounts come to together: with Laplace noise the sum of the
ε, with Gaussian noise the ε of the sum of their ρ (`noises`). It is solved for each form of noise that the promise
allows, and the smallest ε is taken. Aggregates that read the same measures get the largest of their parts together. A
measure that two others share gets both their parts, which can only make it better. Keys that are found in the data get
as much as an aggregate on average. The errors of the plan that results are checked once more, so nothing rests on the
search. With `weights`, the parts are fixed and only the whole is solved for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from deniable import _checks
from deniable._checks import Number
from deniable._remedies import example
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.numerics.exact import short_above
from deniable.query import planning
from deniable.query.aggregates import RankError
from deniable.query.answering import KEYS, shares
from deniable.query.estimates import ExpectedError
from deniable.query.measures import Measure
from deniable.query.noises import LAPLACE, NoiseForm
from deniable.query.planning import PlanningContext, PlanOptions, QueryPlan
from deniable.query.reading import ParsedQuery

MOST_EPSILON = Fraction(10**4)
"""No larger ε is looked at: it would not be private."""

_LITTLE = Fraction(1, 10**9)
"""The weight of the aggregates that are not looked at, so that what they add to a shared measure does not count."""


class Accurate(NamedTuple):
    """An ε, the weights with which it is enough (None where they were given), and the noise."""

    epsilon: Fraction
    weights: Mapping[str, Number] | None
    noise: str


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

    def plan(epsilon: Fraction, weights: Mapping[str, Number] | None, noise: str | None) -> QueryPlan:
        return planning.plan(question, replace(options, epsilon=epsilon, weights=weights, noise=noise), context)

    first = plan(Fraction(1), options.weights, options.noise)
    goals = _goals(error, first)
    size = None if group_size is None else _checks.count("group_size", group_size)
    promise = planning.promise(replace(options, epsilon=1), context, [k.column.name for k in first.keys if k.private])
    forms = [noise.form for noise in (first.noise, *first.alternatives)]
    reached, refusals = [], {}
    for form in forms:
        try:
            reached.append(_Errors(first, form, promise, size).solve(goals, options.weights))
        except InvalidArgument as refusal:  # a form of noise may have a least size
            refusals[form] = refusal
    if not reached:
        raise refusals.get(LAPLACE) or refusals[forms[0]]
    for best in sorted(reached, key=lambda accurate: accurate.epsilon):
        errors = plan(best.epsilon, best.weights or options.weights, best.noise).error
        if all(_within(errors[name], goal, size) for name, goal in goals.items()):
            return best
    raise InvalidArgument("error", error, "reachable", "Ask for a slightly larger error.")


@dataclass(frozen=True)
class _Errors:
    """The expected errors of a plan, with noise of one form, at any ε."""

    plan: QueryPlan
    form: NoiseForm
    promise: Guarantee
    size: int | None

    def solve(self, goals: Mapping[str, Fraction], weights: Mapping[str, Number] | None) -> Accurate:
        """The smallest ε, and the weights."""
        if weights is not None:
            return Accurate(self.smallest(goals, weights), None, self.form.name)
        keys = self.plan.threshold is not None
        names = [*goals, *([KEYS] if keys else [])]
        alone = {
            name: self.smallest({name: goal}, {n: Fraction(1) if n == name else _LITTLE for n in names})
            for name, goal in goals.items()
        }
        parts = {name: short_above(self.amount(epsilon), figures=6) for name, epsilon in alone.items()}
        for together in self._together():
            # One measure serves them all: the largest part is enough for each.
            most = max(parts[name] for name in together)
            parts |= dict.fromkeys(together, most / len(together))
        if keys:
            parts.setdefault(KEYS, sum(parts.values(), Fraction(0)) / len(parts))
        whole = sum(parts.values(), Fraction(0))
        if self.form is LAPLACE:
            return Accurate(whole, parts, self.form.name)
        return Accurate(_smallest_epsilon(lambda epsilon: self.amount(epsilon) >= whole), parts, self.form.name)

    def _together(self) -> list[list[str]]:
        """The names of aggregates that read the same measures and no others."""
        names: dict[tuple[Measure, ...], list[str]] = {}
        for aggregate in self.plan.aggregates:
            names.setdefault(aggregate.measures, []).append(aggregate.name)
        return list(names.values())

    def amount(self, epsilon: Fraction) -> Fraction:
        """The amount that an ε buys."""
        if not isinstance(self.promise, PureDP | ApproxDP):
            raise TypeError("an error is solved for ε")
        cost = replace(self.promise, epsilon=epsilon)
        return self.form.total(cost, keys=self.plan.threshold is not None) or Fraction(1, 10**300)

    def at(self, epsilon: Fraction, weights: Mapping[str, Number]) -> dict[str, ExpectedError]:
        """The errors that an ε and weights would give."""
        plan, keys = self.plan, self.plan.threshold
        measure = None if keys is None else keys.measure
        split = shares(plan.aggregates, total=self.amount(epsilon), weights=weights, keys=measure)
        laws = {part.measure: self.form.noise(part.move, split[part.measure]) for part in plan.noises}
        return {a.name: a.error(laws, failure=1 - plan.confidence) for a in plan.aggregates}

    def smallest(self, goals: Mapping[str, Fraction], weights: Mapping[str, Number]) -> Fraction:
        """The smallest ε that meets the goals."""
        strongest = self.at(MOST_EPSILON, weights)
        for name, goal in goals.items():
            _check_reachable(name, strongest[name], goal, self.size)

        def meets(epsilon: Fraction) -> bool:
            errors = self.at(epsilon, weights)
            return all(_within(errors[name], goal, self.size) for name, goal in goals.items())

        return _smallest_epsilon(meets)


def _smallest_epsilon(holds: Callable[[Fraction], bool]) -> Fraction:
    from deniable.mechanisms.sample_size import smallest_epsilon  # loads scipy, which few queries need

    return smallest_epsilon(holds)


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
