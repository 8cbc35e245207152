"""How many records a linear model needs, what ε, or what error: `dn.size(dn.learning.LogisticRegression, …)`.

The error is the excess of the expected loss over the best parameters within `radius`, for rows of norm 1. Two lines
bound what can be reached, for a loss with Lipschitz constant L, radius D, rank r (the number of parameters, or fewer
where rows are declared to span fewer) and μ-Gaussian privacy under REPLACE:

* upper, by one pass of phased SGD (Feldman–Koren–Talwar 2020): LD·√(8/(3n) + 256r/(μ²n²));
* lower, for every Gaussian private method: what n records can tell anybody, about LD·0.34/√n, or what privacy hides,
  about LD·√r/(6ns) with s = √(e^{μ²} − 1). `textbook.excess_risk` states both with their proofs, for L = D = 1.

Their meeting points say when privacy must cost (n ≤ r/(4.2s²): its lower line is above the statistical one) and when it
is nearly free (n ≥ 96r/μ²: it at most doubles the squared upper line). In between these constants do not decide. They
are worst cases over all data; on ordinary tables fits do far better, and `outlook` says by how much, measured.

>>> from deniable.learning import LogisticRegression
>>> plan = plan_size(LogisticRegression, columns=10, epsilon=1, error=0.05)
>>> plan.size, plan.least_size, plan.free_from
(4842, 47, 17134)
>>> plan_size(LogisticRegression, columns=10, size=plan.size, epsilon=1).error <= 0.05
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP
from deniable.learning.privacy import largest_mu
from deniable.textbook.lower_bounds import ExcessRisk, excess_risk
from deniable.units import REPLACE


@dataclass(frozen=True)
class LearningPlan:
    """n, ε and the excess risk that go together, with what no method can do."""

    size: int
    epsilon: Fraction
    delta: Fraction
    error: float
    """The excess risk is at most this, by one pass of phased SGD."""

    lower: float
    """No Gaussian private method's worst excess risk is smaller."""

    least_size: int
    """With fewer records no such method can promise the error."""

    costs_below: int
    """Below this number of records privacy must cost."""

    free_from: int
    """From this number of records privacy at most doubles the squared bound."""

    def __str__(self) -> str:
        return (
            f"n = {self.size}, ε = {_checks.shown(self.epsilon)}, δ = {float(self.delta):g}: "
            f"the excess risk is at most {self.error:.3g} and, on some data, at least {self.lower:.3g} for every "
            f"Gaussian private method, which all need {self.least_size} records. Privacy must cost below "
            f"n = {self.costs_below}, and is nearly free from n = {self.free_from}"
        )


@dataclass(frozen=True)
class RiskLines:
    """The two lines for one problem. Each falls with n and with ε."""

    scale: float
    """L × D."""

    rank: int
    delta: Fraction

    def mu(self, epsilon: Number) -> float:
        return largest_mu(ApproxDP(epsilon, self.delta, relation=REPLACE))

    def risk(self, size: int, epsilon: Number) -> ExcessRisk:
        """Both lines and their meeting points, for L = D = 1."""
        return excess_risk(size=size, dimension=self.rank, mu=self.mu(epsilon))

    def upper(self, size: int, epsilon: Number) -> float:
        return self.scale * self.risk(size, epsilon).sco_upper

    def lower(self, size: int, epsilon: Number) -> float:
        return self.scale * self.risk(size, epsilon).sco_lower


def plan_size(
    model: Any,
    *,
    columns: int,
    classes: int = 2,
    rank: int | None = None,
    radius: Number = 1,
    size: int | None = None,
    epsilon: Number | None = None,
    delta: Number = Fraction(1, 10**6),
    error: Number | None = None,
) -> LearningPlan:
    """The missing one of n, ε and the excess risk, for a linear model.

    Args:
        model: an estimator's class, such as `LogisticRegression`.
        columns: how many columns a row has, the constant among them.
        classes: how many classes there are.
        rank: how many directions rows are declared to span, where that is fewer.
        radius: how long the parameters may be, where rows have norm 1.
        size: the number of records.
        epsilon: the privacy budget.
        delta: the δ that goes with it.
        error: the excess risk that is still good enough.
    """
    parameters = _checks.count("columns", columns) * (1 if _checks.count("classes", classes, least=2) == 2 else classes)
    most = parameters if rank is None else min(parameters, _checks.count("rank", rank))
    slope = math.sqrt(2) if classes > 2 else float(model.planned_lipschitz)
    lines = RiskLines(
        slope * float(_checks.positive("radius", radius)), most, _checks.inner_probability("delta", delta)
    )
    missing = [name for name, value in (("size", size), ("epsilon", epsilon), ("error", error)) if value is None]
    if len(missing) != 1:
        raise InvalidArgument("size", missing or "all of them", "left without exactly one of epsilon, error, size")
    people = None if size is None else _checks.count("size", size)
    budget = None if epsilon is None else _checks.positive("epsilon", epsilon)
    goal = None if error is None else float(_checks.positive("error", error))
    if people is None:
        people = _least(lambda n: lines.upper(n, budget) <= goal, "error")  # type: ignore[arg-type,operator]
    if budget is None:
        steps = _least(lambda k: lines.upper(people, Fraction(k, 1000)) <= goal, "epsilon", most=10**6)  # type: ignore[operator]
        budget = Fraction(steps, 1000)
    _checks.warn_of_delta(lines.delta, size=people)
    reached = lines.upper(people, budget)
    aim = reached if goal is None else goal
    risk = lines.risk(people, budget)
    return LearningPlan(
        size=people,
        epsilon=budget,
        delta=lines.delta,
        error=reached,
        lower=lines.lower(people, budget),
        least_size=_least(lambda n: lines.lower(n, budget) <= aim, "error"),
        costs_below=math.floor(risk.costs_below),
        free_from=math.ceil(risk.free_from),
    )


def _least(enough: Callable[[int], bool], name: str, *, most: int = 10**15) -> int:
    """The smallest number that is enough, by bisection: every line here falls."""
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > most:
            raise InvalidArgument(name, "out of reach", "one that some number meets", "Allow a larger error.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
