"""How many people, how much privacy, how much error: any one of the three from the other two.

>>> print(central_and_local(epsilon=0.5, error=0.01))
with a trusted curator: n = 600; with randomised response: n = 307483 (512 times as many)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable._forms import Plain
from deniable._signatures import limit_sizes
from deniable.errors import InvalidArgument
from deniable.mechanisms.base import Mechanism, round_up_text
from deniable.mechanisms.local import binary_response
from deniable.mechanisms.moments import mean
from deniable.numerics.exact import short_above
from deniable.numerics.roots import bisect, first_whole
from deniable.units import Relation

_MOST_PEOPLE = 10**15
_LEAST_EPSILON, _MOST_EPSILON = Fraction(1, 10**6), Fraction(10**4)


@dataclass(frozen=True)
class SizePlan(Plain):
    """A plan: the number of people, ε and the error. `size` is None where the error does not depend on it."""

    size: int | None
    epsilon: Fraction
    error: float
    confidence: Fraction
    mechanism: Mechanism

    def to_dict(self) -> dict[str, Any]:
        numbers = {"epsilon": float(self.epsilon), "error": self.error, "confidence": float(self.confidence)}
        return {"size": self.size, **numbers}

    def __str__(self) -> str:
        people = "" if self.size is None else f"n = {self.size}, "
        chance = f"{float(self.confidence * 100):.6g} %"
        error = round_up_text(self.error)
        return f"{people}ε = {_checks.shown(self.epsilon)}: with probability {chance} the error is at most {error}"


@dataclass(frozen=True)
class CentralAndLocal(Plain):
    """The same plan with a trusted curator (central) and without one (local)."""

    central: SizePlan
    local: SizePlan

    def to_dict(self) -> dict[str, Any]:
        return {"central": self.central.to_dict(), "local": self.local.to_dict()}

    def __str__(self) -> str:
        one, other = self.central, self.local
        if one.size != other.size and one.size and other.size:
            answers, ratio = (f"n = {one.size}", f"n = {other.size}"), f"{other.size / one.size:.0f} times as many"
        elif one.epsilon != other.epsilon:
            answers = tuple(f"ε = {_checks.shown(plan.epsilon)}" for plan in (one, other))  # type: ignore[assignment]
            ratio = f"{float(other.epsilon / one.epsilon):.3g} times as much"
        else:
            answers = tuple(f"error {round_up_text(plan.error)}" for plan in (one, other))  # type: ignore[assignment]
            ratio = f"{other.error / one.error:.3g} times as large"
        return f"with a trusted curator: {answers[0]}; with randomised response: {answers[1]} ({ratio})"


@limit_sizes
def size(
    mechanism: Callable[..., Mechanism],
    *,
    size: int | None = None,
    epsilon: Number | None = None,
    error: Number | None = None,
    confidence: Number = Fraction(19, 20),
    relative: bool = False,
    **settings: Any,
) -> SizePlan:
    """The missing one of n, ε and error, for a mechanism given by its function (`mechanisms.mean`) and other settings.

    `relative=True` reads `error` as a share of n, for counts and tables, whose absolute error does not depend on n. The
    n found is the smallest whose statement meets the error, ε the smallest of four digits.

    `size` takes a mechanism and asks its own error statement, so that the plan and the release can never disagree. The
    sample sizes of the notes come out of it: a mean of values in [0, 1] needs about ln(1/β)/(αε) people when one is
    trusted with the data, and about ln(2/β)/(2 tanh²(ε/2) α²) when nobody is.

    Args:
        mechanism: the function that makes the mechanism, such as `mechanisms.mean`; or a linear model, such as
            `learning.LogisticRegression`, with its `columns`.
        size: the number of people.
        epsilon: the privacy budget.
        error: the error that is still good enough.
        confidence: the probability with which the error statement holds.
        relative: True reads `error` as a share of n, for counts and tables.
        settings: the other arguments of the mechanism.

    >>> from deniable.mechanisms.moments import mean
    >>> from deniable.units import Relation
    >>> print(size(mean, bounds=(0, 1), relation=Relation.REPLACE, epsilon=0.5, error=0.01))
    n = 600, ε = 0.5: with probability 95 % the error is at most 0.01
    >>> print(size(mean, bounds=(0, 1), relation=Relation.REPLACE, size=600, error=0.01))
    n = 600, ε = 0.4997: with probability 95 % the error is at most 0.01
    >>> size(mean, bounds=(0, 1), relation=Relation.REPLACE, size=600, epsilon=0.5).error < 0.01
    True
    >>> print(central_and_local(epsilon=0.5, error=0.01))
    with a trusted curator: n = 600; with randomised response: n = 307483 (512 times as many)
    """
    planner = getattr(mechanism, "plan_size", None)
    if planner is not None:  # a model that plans by its own theorems, which have no confidence
        plan: SizePlan = planner(size=size, epsilon=epsilon, error=error, **settings)
        return plan
    exact_confidence = _checks.inner_probability("confidence", confidence, remedy="For example 0.95.")
    family = _MechanismFamily(mechanism, settings, exact_confidence, relative)
    arguments = {"epsilon": epsilon, "error": error, **({"size": size} if family.depends_on_size else {})}
    missing = [name for name, value in arguments.items() if value is None]
    if len(missing) != 1:
        raise InvalidArgument(
            "size", missing or "all of them", f"left without exactly one of {', '.join(sorted(arguments))}"
        )
    if not family.depends_on_size and size is not None:
        raise InvalidArgument(
            "size", size, "left out: this error does not depend on n", "For a share of n say relative=True."
        )
    people = None if size is None else _checks.count("size", size)
    budget = None if epsilon is None else _checks.positive("epsilon", epsilon)
    if error is not None:
        goal = float(_checks.positive("error", error))
        if budget is None:
            budget = smallest_epsilon(lambda e: family.error(people, e) <= goal)
        else:
            people = _smallest_count(lambda people: family.error(people, budget) <= goal)
    if budget is None:
        raise InvalidArgument("epsilon", epsilon, "given")
    return SizePlan(people, budget, family.error(people, budget), exact_confidence, family.build(people, budget))


_solve = size  # where a parameter is called size


@limit_sizes
def central_and_local(
    *,
    size: int | None = None,
    epsilon: Number | None = None,
    error: Number | None = None,
    confidence: Number = Fraction(19, 20),
) -> CentralAndLocal:
    """The share of people who say yes: by a mean with a trusted curator, and by randomised response without one."""
    question: dict[str, Any] = {"size": size, "epsilon": epsilon, "error": error, "confidence": confidence}
    return CentralAndLocal(
        _solve(mean, bounds=(0, 1), relation=Relation.REPLACE, **question), _solve(binary_response, **question)
    )


@dataclass(frozen=True)
class _MechanismFamily:
    """A mechanism function with all its arguments except n and ε."""

    mechanism: Callable[..., Mechanism]
    settings: dict[str, Any]
    confidence: Fraction
    relative: bool

    @property
    def _private_n(self) -> bool:
        """Whether n is private under the relation that is used."""
        parameters = inspect.signature(self.mechanism).parameters
        default = parameters["relation"].default if "relation" in parameters else None
        relation = self.settings.get("relation", default)
        return relation is not None and Relation.of(relation) is Relation.ADD_REMOVE

    @property
    def _builds_with_n(self) -> bool:
        return "size" in inspect.signature(self.mechanism).parameters and not self._private_n

    @property
    def depends_on_size(self) -> bool:
        """Whether the error depends on n."""
        return self.relative or self._builds_with_n or "size" in self._error_parameters

    @property
    def _error_parameters(self) -> set[str]:
        return set(inspect.signature(self.build(2**20, Fraction(1)).error).parameters)

    def build(self, size: int | None, epsilon: Fraction) -> Mechanism:
        """The mechanism for n people and this ε."""
        chosen = {"size": size} if self._builds_with_n else {}
        return self.mechanism(epsilon=epsilon, **chosen, **self.settings)

    def error(self, size: int | None, epsilon: Fraction) -> float:
        """The error of that mechanism; divided by n if `relative`."""
        mechanism = self.build(size, epsilon)
        known = {"size": size} if "size" in inspect.signature(mechanism.error).parameters else {}
        error = mechanism.error(self.confidence, **known)
        return error / size if self.relative and size is not None else error


def _smallest_count(fits: Callable[[int], bool]) -> int:
    """The smallest n that fits, for errors that fall as n grows."""
    high = 1
    while not _fits(fits, high):
        high *= 2
        if high > _MOST_PEOPLE:
            raise InvalidArgument(
                "error", "too small", "reachable", "No number of people is enough: raise ε, or take a finer step."
            )
    return first_whole(lambda n: _fits(fits, n), high // 2, high)


def _fits(fits: Callable[[int], bool], size: int) -> bool:
    """Whether n is enough. An n that the mechanism refuses is not."""
    try:
        return fits(size)
    except InvalidArgument as error:
        if error.name != "size":
            raise
        return False


def smallest_epsilon(fits: Callable[[Fraction], bool]) -> Fraction:
    """The smallest ε of four digits found that fits, for errors that fall as ε grows; the one returned does fit."""
    if not fits(_MOST_EPSILON):
        raise InvalidArgument("error", "too small", "reachable", "No ε is enough: take more people, or a finer step.")

    def of(logarithm: float) -> Fraction:
        return short_above(math.exp(logarithm), figures=4)

    ends = math.log(_LEAST_EPSILON), math.log(_MOST_EPSILON)
    return of(bisect(lambda logarithm: fits(of(logarithm)), *ends, turns=40)[1])
