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
from deniable.errors import InvalidArgument
from deniable.mechanisms.base import Mechanism, shown_up
from deniable.mechanisms.local import binary_response
from deniable.mechanisms.moments import mean
from deniable.numerics.exact import short_above
from deniable.numerics.roots import bisect, first_whole
from deniable.units import Relation

_MOST_PEOPLE = 10**15
_LEAST_EPSILON, _MOST_EPSILON = Fraction(1, 10**6), Fraction(10**4)


@dataclass(frozen=True)
class Size:
    """A plan: the number of people, ε and the error. `n` is None where the error does not depend on it."""

    n: int | None
    epsilon: Fraction
    error: float
    confidence: Fraction
    mechanism: Mechanism

    def __str__(self) -> str:
        people = "" if self.n is None else f"n = {self.n}, "
        chance = f"{float(self.confidence * 100):.6g} %"
        error = shown_up(self.error)
        return f"{people}ε = {_checks.shown(self.epsilon)}: with probability {chance} the error is at most {error}"


@dataclass(frozen=True)
class CentralAndLocal:
    """The same plan with a trusted curator (central) and without one (local)."""

    central: Size
    local: Size

    def __str__(self) -> str:
        one, other = self.central, self.local
        if one.n != other.n and one.n and other.n:
            answers, ratio = (f"n = {one.n}", f"n = {other.n}"), f"{other.n / one.n:.0f} times as many"
        elif one.epsilon != other.epsilon:
            answers = tuple(f"ε = {_checks.shown(plan.epsilon)}" for plan in (one, other))  # type: ignore[assignment]
            ratio = f"{float(other.epsilon / one.epsilon):.3g} times as much"
        else:
            answers = tuple(f"error {shown_up(plan.error)}" for plan in (one, other))  # type: ignore[assignment]
            ratio = f"{other.error / one.error:.3g} times as large"
        return f"with a trusted curator: {answers[0]}; with randomised response: {answers[1]} ({ratio})"


def size(
    mechanism: Callable[..., Mechanism],
    *,
    n: int | None = None,
    epsilon: Number | None = None,
    error: Number | None = None,
    confidence: Number = Fraction(19, 20),
    relative: bool = False,
    **settings: Any,
) -> Size:
    """The missing one of n, ε and error, for a mechanism given by its function (`mechanisms.mean`) and other settings.

    `relative=True` reads `error` as a share of n, for counts and tables, whose absolute error does not depend on n. The
    n found is the smallest whose statement meets the error, ε the smallest of four digits.

    `size` takes a mechanism and asks its own error statement, so that the plan and the release can never disagree. The
    sample sizes of the notes come out of it: a mean of values in [0, 1] needs about ln(1/β)/(αε) people when one is
    trusted with the data, and about ln(2/β)/(2 tanh²(ε/2) α²) when nobody is.

    Args:
        mechanism: the function that makes the mechanism, such as `mechanisms.mean`.
        n: the number of people.
        epsilon: the privacy budget.
        error: the error that is still good enough.
        confidence: the probability with which the error statement holds.
        relative: True reads `error` as a share of n, for counts and tables.
        settings: the other arguments of the mechanism.

    >>> from deniable.mechanisms.moments import mean
    >>> from deniable.units import Relation
    >>> print(size(mean, bounds=(0, 1), relation=Relation.REPLACE, epsilon=0.5, error=0.01))
    n = 600, ε = 0.5: with probability 95 % the error is at most 0.01
    >>> print(size(mean, bounds=(0, 1), relation=Relation.REPLACE, n=600, error=0.01))
    n = 600, ε = 0.4997: with probability 95 % the error is at most 0.01
    >>> size(mean, bounds=(0, 1), relation=Relation.REPLACE, n=600, epsilon=0.5).error < 0.01
    True
    >>> print(central_and_local(epsilon=0.5, error=0.01))
    with a trusted curator: n = 600; with randomised response: n = 307483 (512 times as many)
    """
    exact_confidence = _checks.inner_probability("confidence", confidence, remedy="For example 0.95.")
    family = _MechanismFamily(mechanism, settings, exact_confidence, relative)
    arguments = {"epsilon": epsilon, "error": error, **({"n": n} if family.sized else {})}
    missing = [name for name, value in arguments.items() if value is None]
    if len(missing) != 1:
        raise InvalidArgument(
            "size", missing or "all of them", f"left without exactly one of {', '.join(sorted(arguments))}"
        )
    if not family.sized and n is not None:
        raise InvalidArgument(
            "n", n, "left out: this error does not depend on n", "For a share of n say relative=True."
        )
    people = None if n is None else _checks.count("n", n)
    budget = None if epsilon is None else _checks.positive("epsilon", epsilon)
    if error is not None:
        goal = float(_checks.positive("error", error))
        if budget is None:
            budget = smallest_epsilon(lambda e: family.error(people, e) <= goal)
        else:
            people = _smallest_count(lambda people: family.error(people, budget) <= goal)
    if budget is None:
        raise InvalidArgument("epsilon", epsilon, "given")
    return Size(people, budget, family.error(people, budget), exact_confidence, family.build(people, budget))


def central_and_local(
    *,
    n: int | None = None,
    epsilon: Number | None = None,
    error: Number | None = None,
    confidence: Number = Fraction(19, 20),
) -> CentralAndLocal:
    """The share of people who say yes: by a mean with a trusted curator, and by randomised response without one."""
    question: dict[str, Any] = {"n": n, "epsilon": epsilon, "error": error, "confidence": confidence}
    return CentralAndLocal(
        size(mean, bounds=(0, 1), relation=Relation.REPLACE, **question), size(binary_response, **question)
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
        return self.settings.get("relation", default) is Relation.ADD_REMOVE

    @property
    def _builds_with_n(self) -> bool:
        return "n" in inspect.signature(self.mechanism).parameters and not self._private_n

    @property
    def sized(self) -> bool:
        """Whether the error depends on n."""
        return self.relative or self._builds_with_n or "n" in self._error_parameters

    @property
    def _error_parameters(self) -> set[str]:
        return set(inspect.signature(self.build(2**20, Fraction(1)).error).parameters)

    def build(self, n: int | None, epsilon: Fraction) -> Mechanism:
        """The mechanism for n people and this ε."""
        chosen = {"n": n} if self._builds_with_n else {}
        return self.mechanism(epsilon=epsilon, **chosen, **self.settings)

    def error(self, n: int | None, epsilon: Fraction) -> float:
        """The error of that mechanism; divided by n if `relative`."""
        mechanism = self.build(n, epsilon)
        size = {"n": n} if "n" in inspect.signature(mechanism.error).parameters else {}
        error = mechanism.error(self.confidence, **size)
        return error / n if self.relative and n is not None else error


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


def _fits(fits: Callable[[int], bool], n: int) -> bool:
    """Whether n is enough. An n that the mechanism refuses is not."""
    try:
        return fits(n)
    except InvalidArgument as error:
        if error.name != "n":
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
