"""The privacy curve: δ as a function of ε, with a proven bracket around every value.

A `Profile` is what the accountant returns. It holds a `Curve`, the engine's answer, and reads everything else off it.
`epsilon` and `delta` are proven upper ends; `epsilon_bracket` and `delta_bracket` give both ends; `tradeoff` is the
proven lower end of the false-negative rate of any test. An engine is asked at the float nearest to the number typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from deniable import _checks
from deniable._checks import Number
from deniable.guarantees.printing import cost_line
from deniable.guarantees.rounding import below, float_above
from deniable.units import RECORD, Relation, Unit


class Bracket(NamedTuple):
    """Two proven ends around a true value."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """How far apart the ends are."""
        return self.upper - self.lower


class Curve(Protocol):
    """What an engine answers: both directions of the pair, the larger of the two."""

    @property
    def method(self) -> str:
        """The engine that answers, and the theorem when it is a bound."""
        ...

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε), for any finite ε ≥ 0."""
        ...

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around the smallest ε ≥ 0 with δ(ε) ≤ delta; the upper end is inf when there is none."""
        ...


_LARGEST_EPSILON = 700.0
"""Beyond this, e^ε is no float; where a search over ε stops."""

_SLACK = 2.0**-50
"""What rounding may add to a sum of three numbers of at most 1."""


@dataclass(frozen=True)
class Profile:
    """The privacy curve of what was done, for one unit under one relation."""

    curve: Curve
    relation: Relation
    unit: Unit = RECORD

    @property
    def method(self) -> str:
        """Which engine answered."""
        return self.curve.method

    def epsilon(self, delta: Number) -> float:
        """The proven upper end of ε at a δ; inf when no ε reaches that δ."""
        return self.epsilon_bracket(delta).upper

    def delta(self, epsilon: Number) -> float:
        """The proven upper end of δ at an ε."""
        return self.delta_bracket(epsilon).upper

    def epsilon_bracket(self, delta: Number) -> Bracket:
        """Both proven ends of ε at a δ."""
        return self.curve.epsilon_bracket(float(_checks.probability("delta", delta)))

    def delta_bracket(self, epsilon: Number) -> Bracket:
        """Both proven ends of δ at an ε."""
        return self.curve.delta_bracket(float(_checks.nonnegative("epsilon", epsilon)))

    def tradeoff(self, alpha: Number) -> float:
        """The smallest false-negative rate of any test with false-positive rate `alpha`: a proven lower end.

        f(α) = sup over ε ≥ 0 of max(0, 1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α)); Dong–Roth–Su 2019, Prop. 2.12 read
        backwards. Every ε gives a valid bound, so the search can cost tightness only.
        """
        at = float_above(_checks.probability("alpha", alpha))

        def steep(epsilon: float) -> float:
            return 1 - self.delta(epsilon) - math.exp(epsilon) * at - _SLACK

        def shallow(epsilon: float) -> float:
            return math.exp(-epsilon) * (1 - self.delta(epsilon) - at - _SLACK)

        # The steep line is above 0 only where e^ε α < 1.
        last = min(_LARGEST_EPSILON, -math.log(at)) if at else _LARGEST_EPSILON
        found = max(_highest(steep, last), _highest(shallow, _LARGEST_EPSILON))
        return max(0.0, below(found))

    def cost(self, delta: Number) -> str:
        """One line of cost at a δ."""
        return cost_line(self.epsilon(delta), delta, f"{self.unit.one} {self.relation.verb}")


def _highest(function: Callable[[float], float], last: float) -> float:
    """The largest value found of a function with one peak on [0, last]: doubling steps, then golden sections."""
    places = [0.0]
    step = min(last, 2.0**-10)
    while places[-1] < last:
        places.append(min(last, step))
        step *= 2
    values = list(map(function, places))
    best = max(range(len(places)), key=values.__getitem__)
    low, high = places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)]
    ratio = (math.sqrt(5) - 1) / 2
    one, two = high - ratio * (high - low), low + ratio * (high - low)
    at_one, at_two = function(one), function(two)
    top = max(*values, at_one, at_two)
    while high - low > 2.0**-26 * max(1.0, high):  # the peak is flat: half the digits in ε give all in the value
        if at_one < at_two:
            low, one, at_one = one, two, at_two
            two = low + ratio * (high - low)
            at_two = function(two)
        else:
            high, two, at_two = two, one, at_one
            one = high - ratio * (high - low)
            at_one = function(one)
        top = max(top, at_one, at_two)
    return top
