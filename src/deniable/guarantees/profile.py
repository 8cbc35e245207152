"""The privacy curve: δ as a function of ε, with a proven bracket around every value.

A `Profile` is what the accountant returns. It holds a `Curve`, the engine's answer, and reads everything else off it.
`epsilon` and `delta` are proven upper ends; `epsilon_bracket` and `delta_bracket` give both ends; `tradeoff` is the
proven lower end of the false-negative rate of any test. An engine is asked at the float that was typed.

Attack risks come from the same curve, each rounded against us: `advantage`, `true_positive_rate`, `accuracy` (of the
best guess at a prior) and `posterior` (the most that an attacker with a prior can come to believe).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from deniable import _checks
from deniable._checks import Number
from deniable._notebook import Shown
from deniable.guarantees.printing import cost_line
from deniable.numerics.roots import highest
from deniable.numerics.rounding import Bracket, above, below, float_above, log_of, typed_below
from deniable.units import RECORD, Relation, Unit, change_text


class Curve(Protocol):
    """The answer of an engine: the larger of both directions of the pair."""

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


@dataclass(frozen=True)
class LossOdds:
    """In one direction of the neighbours: how likely the loss L = ln P/Q is above 0 under P, and under Q.

    An output with L > 0 speaks for P: an attacker who sees it believes in P more than before. The difference of the two
    is the advantage δ(0). They add up to 1 only where P and Q are mirror images.
    """

    under_p: Bracket
    under_q: Bracket


@runtime_checkable
class DirectedCurve(Protocol):
    """A curve that knows its pairs, one direction after the other."""

    def odds(self) -> tuple[LossOdds, ...]:
        """For a unit that is removed (P with it, Q without) and one that is added; once where both are alike."""
        ...


_STEPS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1)
"""The ε > 0 between which the slope of a curve at 0 is bracketed."""


def odds_of_curve(own: Callable[[float], Bracket], other: Callable[[float], Bracket]) -> LossOdds:
    """The odds of a pair from proven ends of its curve in both directions, `own` = H(P‖Q) and `other` = H(Q‖P).

    H_g(P‖Q) is convex in g, with slope −Q[L > 0] on the right of g = 1 and −Q[L ≥ 0] on its left, and
    H_{1/g}(P‖Q) = 1 − 1/g + H_g(Q‖P)/g. So for every g = e^h > 1

        (H_1 − H_g(P‖Q))/(g − 1) ≤ Q[L > 0] ≤ 1 − (g·H_1 − H_g(Q‖P))/(g − 1),        P[L > 0] = H_1 + Q[L > 0].

    An atom at L = 0 is the gap between the two ends.
    """
    start = own(0.0)
    low, high = 0.0, 1.0
    for h in _STEPS:
        rise = above(math.expm1(h), ulps=4)
        low = max(low, (start.lower - own(h).upper - _SLACK) / rise)
        # 1 − (g·H_1 − H_g)/(g − 1) = 1 − H_1 − (H_1 − H_g)/(g − 1); a negative fall proves nothing here.
        high = min(high, 1 - start.lower - max(start.lower - other(h).upper - _SLACK, -rise) / rise + _SLACK)
    low, high = max(0.0, below(low)), min(1.0, above(high, ulps=4))
    return LossOdds(
        Bracket(below(start.lower + low), min(1.0, above(start.upper + high))), Bracket(min(low, high), high)
    )


def odds_of(curve: Curve) -> tuple[LossOdds, ...]:
    """The odds of every direction. A curve without directions is that of a promise, whose worst pair is symmetric."""
    if isinstance(curve, DirectedCurve):
        return curve.odds()
    return (odds_of_curve(curve.delta_bracket, curve.delta_bracket),)


_LARGEST_EPSILON = 700.0
"""A search over ε stops here: beyond it, e^ε overflows a float."""

_SLACK = 2.0**-50
"""What rounding may add to a sum of three numbers of at most 1."""


@dataclass(frozen=True)
class Profile(Shown):
    """The privacy curve of what was done, for one unit under one relation."""

    curve: Curve
    relation: Relation
    unit: Unit = RECORD

    def __repr__(self) -> str:
        return f"Profile({self.method}; {change_text(self.unit, self.relation)})"

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
        return self.curve.epsilon_bracket(typed_below(_checks.probability("delta", delta)))

    def delta_bracket(self, epsilon: Number) -> Bracket:
        """Both proven ends of δ at an ε."""
        at = typed_below(_checks.nonnegative("epsilon", epsilon))
        bracket = self.curve.delta_bracket(at)
        if bracket.upper == 0 and at < self.curve.epsilon_bracket(0.0).upper:
            # δ is positive but too small for a float. It is 0 only where the loss is never above ε.
            return Bracket(bracket.lower, math.ulp(0.0))
        return bracket

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
        best = highest(steep, last, most=lambda epsilon: 1 - math.exp(epsilon) * at)
        best = max(best, highest(shallow, _LARGEST_EPSILON, most=lambda epsilon: math.exp(-epsilon), least=best))
        return max(0.0, below(best))

    @property
    def advantage(self) -> float:
        """The largest true-positive rate minus false-positive rate of any test: the total variation distance, δ(0)."""
        return self.delta(0)

    def true_positive_rate(self, alpha: Number) -> float:
        """The largest true-positive rate of any test with false-positive rate `alpha`."""
        return min(1.0, above(1 - self.tradeoff(alpha), ulps=2))

    def accuracy(self, prior: Number) -> float:
        """How often the best guess at "in or out" is right, for an attacker who held `prior` for "in".

        With odds o = (1 − π)/π ≥ 1 it is 1 − π + π·δ(ln o); for π > ½ the roles change (both orders have this curve).
        """
        chance = _checks.inner_probability("prior", prior)
        rare, likely = min(chance, 1 - chance), max(chance, 1 - chance)
        # δ falls in ε, so ε rounded down is the safe side.
        epsilon = max(0.0, below(log_of(likely / rare)))
        return min(1.0, above(float(likely) + float(rare) * self.curve.delta_bracket(epsilon).upper))

    def posterior(self, prior: Number, *, failure: Number = 0) -> float:
        """The most that an attacker with this prior can come to believe, but for outputs of probability `failure`.

        For t > ε, P[L > t] ≤ δ(ε)/(1 − e^{ε−t}). So with probability 1 − η over the outputs, in either world, the odds
        grow by a factor of at most e^t with t = ε − ln(1 − δ(ε)/η), for every ε with δ(ε) < η; the best of several is
        taken. With failure=0 it is the pure ε, and 1 when there is none.
        """
        chance = float_above(_checks.inner_probability("prior", prior))
        room = float(_checks.probability("failure", failure))
        if room == 0:
            odds = self.epsilon(0)
        else:
            shares = [2.0**-k for k in range(1, 13)]
            odds = min(
                [self.epsilon(0), *(self.curve.epsilon_bracket(room * s).upper - math.log1p(-s) for s in shares)]
            )
        return min(1.0, above(chance / (chance + (1 - chance) * math.exp(-odds))))

    def odds(self) -> tuple[LossOdds, ...]:
        """How likely the loss is above 0 in each of the two worlds, with proven ends: P[L > 0] and Q[L > 0].

        First for P with the unit and Q without it; then, where the order matters, for P without it. Of 100 reports,
        100·P[L > 0] would raise the belief of an attacker that the unit took part if it did, 100·Q[L > 0] if it did
        not. They are those of the dominating pair: where `method` says "of the bound", they say nothing about the
        rates of the mechanism itself.

        >>> from deniable.accounting import account
        >>> from deniable.events import Gaussian
        >>> removed, added = account(Gaussian(scale=1).sampled(rate=0.01)).odds()
        >>> round(removed.under_p.upper, 4), round(removed.under_q.upper, 4)
        (0.3124, 0.3085)
        """
        return odds_of(self.curve)

    def cost(self, delta: Number) -> str:
        """One line of cost at a δ."""
        return cost_line(self.epsilon(delta), delta, change_text(self.unit, self.relation))
