"""The rule of private selection: the best of a random number of trials, paid for by the curve of one trial.

K trials of one and the same event are run, K drawn in secret from the truncated negative binomial law, Pr[K = k] ∝
(1 − γ)^k Π_{l<k} (l + η)/(l + 1), and the best-scored output is released. Let m = E[K].

* **Curve.** With δ(ε) the curve of one trial and ε̂ such that δ(ε̂) ≤ (e^ε̂ − 1)γ/(1 − γ), the release is
  (ε + (1 + η)ε̂, m·δ(ε))-DP for every ε ≥ 0, in both orders. `mechanisms.search` has the proof. As a bound on a curve it
  becomes a pair (`pairs.bounds`), so selections compose with everything else.
* **Pure.** ε-DP becomes (2 + η)ε-DP (Liu and Talwar 2019; Papernot and Steinke 2022, Theorem 2 at infinite order).
* **Rényi**, for filters (Papernot and Steinke 2022, Theorem 2; η > −1, orders λ > 1 and λ̂ ≥ 1):
  D′_λ ≤ D_λ + (1 + η)((1 − 1/λ̂) D_λ̂ + log(1/γ)/λ̂) + log(m)/(λ − 1).

A trial may be any event, a group or a move to REPLACE included: the theorem uses nothing but its curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from deniable.accounting.filters.costs import Cost, Orders, cost, pure, unknown
from deniable.accounting.rules import TINY, Part, Rule, revealing, rule_of
from deniable.errors import NotSupported
from deniable.events import Event, Selected
from deniable.numerics.exact import log_up, short_above
from deniable.numerics.roots import bisect, enlarge

if TYPE_CHECKING:
    from deniable.accounting.pairs.law import Law

_OTHERS: Orders = tuple(Fraction(order) for order in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256))
"""Orders λ̂ that are tried; any is valid."""

_DELTAS = tuple(10.0**-power for power in (0.001, 0.05, 0.2, 0.5, *(0.25 * k for k in range(4, 80))))
"""Where the curve of one trial is asked."""

_MOST = 1e4
"""A loss above this is no promise."""


class SelectedRule(Rule[Selected]):
    """The best of a random number of trials."""

    def parts(self, event: Selected) -> tuple[Part, ...] | None:
        """At γ = 1 there is one trial."""
        return (Part(event.event),) if event.gamma == 1 else None

    def steps(self, event: Selected, members: int, moved: bool) -> Iterator[tuple[Event, int]]:
        trial = event.event.to_replace() if moved else event.event
        yield Selected(trial.for_group(members), gamma=event.gamma, eta=event.eta), 1

    def is_free(self, event: Selected) -> bool:
        return rule_of(event.event).is_free(event.event)

    def clamp(self, event: Selected) -> Event:
        """The trial is accounted for by itself; a law of trials beyond all floats reveals everything."""
        return revealing(event.relation) if _is_far(event) else event

    def laws(self, step: Selected) -> tuple[Law, ...]:
        import numpy as np

        from deniable.accounting.accountant import account
        from deniable.accounting.pairs.bounds import hull

        curve, often = account(step.event), mean_trials(step.gamma, step.eta)
        excess = selection_excess(curve.delta, gamma=step.gamma)
        added = (1 + float(step.eta)) * excess * (1 + 1e-12)
        known = [(0.0, 1.0), (added, min(1.0, often * curve.delta(0.0)))]
        for delta in _DELTAS:
            epsilon = curve.epsilon(delta)
            if math.isfinite(epsilon) and epsilon < _MOST:
                known.append((epsilon * (1 + 1e-12) + added, min(1.0, often * delta * (1 + 1e-12))))
        nodes, values = (np.array(each) for each in zip(*sorted(known), strict=True))
        nodes, places = np.unique(nodes, return_index=True)
        # δ falls: what holds at one ε holds at every larger one
        return (hull(nodes, np.minimum.accumulate(values[places])),)

    def cost(self, step: Selected, orders: Orders) -> Cost:
        plain = cost(step.event, orders + _OTHERS)
        if plain.delta:
            return unknown(orders)
        if plain.epsilon is not None:
            return pure((2 + step.eta) * plain.epsilon, orders)
        if _is_far(step):
            return unknown(orders)
        often, surprise = log_up(Fraction(mean_trials(step.gamma, step.eta))), log_up(1 / step.gamma)
        others = [
            (1 - 1 / order) * value + surprise / order
            for order, value in zip(orders + _OTHERS, plain.renyi, strict=True)
            if value is not None
        ]
        if not others:
            return unknown(orders)
        extra = (1 + step.eta) * min(others)
        return Cost(
            renyi=tuple(
                None if value is None else short_above(value + extra + often / (order - 1), figures=15)
                for order, value in zip(orders, plain.renyi, strict=False)
            )
        )


def _is_far(event: Selected) -> bool:
    """Whether the law of trials is beyond what floats hold."""
    return event.gamma < TINY or event.eta > 1000


def mean_trials(gamma: Fraction, eta: Fraction) -> float:
    """E[K], rounded up: η(1 − γ)/(γ(1 − γ^η)), in the limit (1/γ − 1)/log(1/γ) for η = 0."""
    rest = float(1 - gamma)
    if rest < 1e-9:
        # E[K] grows as γ falls, and is at most 1/γ^(1 + η).
        return (1 + 2 * rest * (1 + float(eta))) * (1 + 1e-12)
    logarithm = -math.log1p(-rest) if rest < 0.5 else -math.log(float(gamma))
    shape = 0.0 if eta < Fraction(1, 10**100) else float(eta)
    spread = shape * logarithm
    lost = 1.0 if spread == 0 else spread / -math.expm1(-spread)
    return rest / (float(gamma) * logarithm) * lost * (1 + 1e-12)


def selection_excess(curve: Callable[[float], float], *, gamma: Fraction | float) -> float:
    """The least ε̂ with curve(ε̂) ≤ (e^ε̂ − 1)·γ/(1 − γ), rounded up; 0 when there is always one trial."""
    if gamma == 1:
        return 0.0
    chance = Fraction(gamma)  # exact: near 1 the float of 1 − γ has few digits
    slope = float(chance / (1 - chance)) * (1 - 1e-12)

    def holds(epsilon: float) -> bool:
        return curve(epsilon) <= math.expm1(min(epsilon, 700.0)) * slope

    high = enlarge(holds, 1e-3, most=_MOST)
    if high is None:
        raise NotSupported("one trial promises nothing that a selection could keep")
    return bisect(holds, 0.0, high, turns=50)[1]
