"""Private search over trainings: run some of them, keep the best, and pay little more than for one.

Each trial picks one of the candidates uniformly, runs it, and scores its *output*; after K trials the best output is
released and nothing else. K is drawn before the data are touched, from the truncated negative binomial law of
`best_of`.

**Theorem.** Let δ(ε) be the curve of one trial, the mean of the candidates' curves (the pick is public and does not
depend on the data). Let m = E[K], and let ε̂ satisfy δ(ε̂) ≤ (e^ε̂ − 1)·γ/(1 − γ). Then for every ε ≥ 0 the release is

    (ε + (1 + η)·ε̂,  m·δ(ε))-DP.

*Proof.* Let q, q′ be the laws of one trial's output on neighbours, and φ the generating function of K, so that φ′(x) =
m·((1 − (1 − γ)x)/γ)^(−1−η), which rises and is at most φ′(1) = m. The release has density q(y)·∫φ′(1 − G_u(y))du over u
in [0, 1], where G_u(y) is the probability that one trial scores above y, or equals it and a coin of bias 1 − u shows
heads (the earliest of equals wins). That is an event of one trial, so G′_u ≤ e^ε̂·G_u + δ(ε̂), and by the choice of ε̂

    γ + (1 − γ)G′_u ≤ e^ε̂(γ + (1 − γ)G_u) + (1 − γ)δ(ε̂) − (e^ε̂ − 1)γ ≤ e^ε̂(γ + (1 − γ)G_u).

Hence φ′(1 − G_u) ≤ e^((1+η)ε̂)·φ′(1 − G′_u). For any set S of outputs, first q ≤ e^ε·q′ + (q − e^ε·q′)₊ with φ′ ≤ m on
the rest, then this: ∫_S q·φ′(1 − G) ≤ e^ε∫_S q′·φ′(1 − G) + m·δ(ε) ≤ e^(ε+(1+η)ε̂)∫_S q′·φ′(1 − G′) + m·δ(ε). ∎

(The form with curves is that of Koskela–Redberg–Wang 2024; Papernot–Steinke 2022 have it for Rényi divergences,
Liu–Talwar 2019 for pure promises, where ε̂ = ε₀ and the cost is (2 + η)ε₀.)

A score is computed from a trial's output and public data. One that looks at private data is part of the trial: give its
event as `scoring`, and score with noise. How many trials were run must stay secret; do not let it show in the time a
caller sees.

>>> from deniable.events import Gaussian
>>> found = search([Gaussian(scale=3.7306)], trials=10)   # each of them (1, 1e-5)-DP
>>> print(found.guarantee(delta=1e-5))
ε ≤ 1.52, δ = 1e-5, one record added or removed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from deniable import _checks, _values, noise
from deniable._checks import Number
from deniable.accounting.accountant import account
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP
from deniable.mechanisms.best_of import Best, BestOf, gamma_of, unit_of
from deniable.noise import Source
from deniable.units import one_relation

_MOST = 1e4
"""A loss above this is no promise; searches for ε stop here."""


@dataclass(frozen=True)
class Search:
    """The best of a random number of trials of candidates with any guarantee."""

    events: tuple[Event, ...]
    gamma: Fraction
    eta: Fraction

    @cached_property
    def _law(self) -> BestOf:
        return BestOf((), lambda _: 0.0, self.gamma, self.eta)

    @property
    def trials(self) -> float:
        """E[K], rounded up."""
        return self._law.trials * (1 + 1e-12)

    def guarantee(self, *, delta: Number) -> ApproxDP:
        """What the whole search promises at a δ."""
        allowed = _checks.inner_probability("delta", delta)
        excess = selection_excess(self._curve, gamma=self.gamma)
        own = _least(lambda epsilon: self._curve(epsilon) * self.trials <= float(allowed) * (1 - 1e-12))
        total = own + (1 + float(self.eta)) * excess
        place = Fraction(10) ** (8 - math.floor(math.log10(max(total, 1e-300))))
        epsilon = math.ceil(Fraction(total * (1 + 1e-12)) * place) / place
        return ApproxDP(epsilon, allowed, relation=self.events[0].relation, unit=unit_of(self.events))

    def event(self, *, delta: Number) -> Event:
        """What a ledger is charged for the whole search."""
        return Claimed(self.guarantee(delta=delta))

    def run(self, trial: Callable[[int], Any], *, score: Callable[[Any], float], source: Source | None = None) -> Best:
        """Run `trial(i)`, which does what event i says, as often as the law says; the best-scored output.

        A score that is not a number ranks last; among equal scores the earliest trial wins.
        """
        best: Best | None = None
        for _ in range(self._law.draw_trials(source)):
            place = int(noise.uniform(len(self.events), source=source))
            output = trial(place)
            found = _values.number(score(output))
            value = -math.inf if math.isnan(found) else found
            if best is None or value > best.score:
                best = Best(place, output, value)
        if best is None:
            raise InvalidArgument("trials", 0, "1 or more")
        return best

    @cached_property
    def _profiles(self) -> tuple[tuple[int, Any], ...]:
        """Each different event's curve, with how many candidates have it."""
        return tuple((self.events.count(event), account(event)) for event in dict.fromkeys(self.events))

    def _curve(self, epsilon: float) -> float:
        """δ(ε) of one trial: the candidates' mean, by its proven upper end."""
        total = math.fsum(many * profile.delta(epsilon) for many, profile in self._profiles)
        return total / len(self.events) * (1 + 1e-15)


def search(events: Sequence[Event], *, trials: Number, eta: Number = 0, scoring: Event | None = None) -> Search:
    """A search over candidates, given by their events, of about `trials` trials."""
    found = tuple(events)
    if not found or not all(isinstance(event, Event) for event in found):
        raise InvalidArgument("events", found, "one event or more, such as plan.event")
    for event in found:
        one_relation(found[0].relation, event.relation, doing="search")
    unit_of(found)
    shape = _checks.between("eta", eta, low=0, high=1, expected="between 0 and 1")
    many = _checks.between("trials", trials, low=1, expected="1 or more")
    if scoring is not None:
        found = tuple(event + scoring for event in found)
    return Search(found, gamma_of(many, shape), shape)


def selection_excess(curve: Callable[[float], float], *, gamma: Fraction | float) -> float:
    """The least ε̂ with curve(ε̂) ≤ (e^ε̂ − 1)·γ/(1 − γ), rounded up; 0 when there is always one trial."""
    if gamma == 1:
        return 0.0
    chance = Fraction(gamma)  # exact: near 1 the float of 1 − γ has few digits
    slope = float(chance / (1 - chance)) * (1 - 1e-12)
    return _least(lambda epsilon: curve(epsilon) <= math.expm1(min(epsilon, 700.0)) * slope)


def _least(holds: Callable[[float], bool]) -> float:
    """A value from which on a condition holds, near the least one; the condition is checked at it."""
    high = 1e-3
    while not holds(high):
        high *= 2
        if high > _MOST:
            raise InvalidArgument("events", "…", "with a promise that is worth something at this delta")
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
