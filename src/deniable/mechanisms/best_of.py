"""Selection among private candidates: run private mechanisms a random number of times and keep the best result.

Each trial picks one of the candidates uniformly, runs it, and scores its *output*. After K trials the output with the
best score is released, nothing else. K is drawn before the data are touched, from the truncated negative binomial law
with parameters η and γ (Papernot and Steinke 2022, Definition 1): Pr[K = k] ∝ (1 − γ)^k·Π_{l<k} (l + η)/(l + 1), in
the limit (1 − γ)^k/k for η = 0. If every candidate is ε-DP, the result is (2 + η)ε-DP (their Theorem 2 at infinite
order). η = 1 is the geometric law of Liu and Talwar (2019), which costs 3ε; η = 0, the logarithmic law, costs 2ε.

The reason: with F the probability that one trial scores below y, and q that it yields y, the release yields y with
probability between q·f′(F) and q·f′(F + q), where f is the generating function of K and f′(x) ∝ (1 − (1 −
γ)x)^(−1−η). Neighbours change q by e^ε and 1 − F, hence 1 − (1 − γ)F = γ + (1 − γ)(1 − F), by e^ε at most.

How many trials were run must stay secret: do not let it show in the time a caller sees.

>>> from deniable.mechanisms.count import count
>>> m = best_of([count(epsilon=0.1)], score=lambda output: output, trials=10, eta=1)
>>> m.event
Claimed(PureDP(epsilon=0.3))
>>> type(m([True] * 50).output)
<class 'int'>
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial, reduce
from typing import Any, NamedTuple

from deniable import _checks, _values, noise
from deniable._checks import Number
from deniable.accounting.filters import cost
from deniable.errors import InvalidArgument, NotSupported
from deniable.events import Claimed, Event
from deniable.guarantees import PureDP
from deniable.mechanisms import records
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.units import Unit, one_unit


class Best(NamedTuple):
    """The best of the trials: which candidate made it, what it released, and the score of that."""

    candidate: int
    output: Any
    score: float


@dataclass(frozen=True, repr=False)
class BestOf(Mechanism):
    """The best-scored output of a random number of trials."""

    candidates: tuple[Mechanism, ...]
    score: Callable[[Any], float] = field(compare=False)
    gamma: Fraction
    eta: Fraction

    @property
    def event(self) -> Event:
        each = max(pure_epsilon(candidate.event) for candidate in self.candidates)
        unit = unit_of([candidate.event for candidate in self.candidates])
        return Claimed(PureDP((2 + self.eta) * each, relation=self.candidates[0].relation, unit=unit))

    def __call__(self, data: Any, /, *, source: Source | None = None) -> Best:
        """One release. A score that is not a number ranks last; among equal scores the earliest trial wins."""
        found: list[Best] = []
        data = records.repeatable(data)
        for _ in range(self.draw_trials(source)):
            place = int(noise.uniform(len(self.candidates), source=source))
            output = self.candidates[place](data, source=source)
            score = _values.number(self.score(output))
            found.append(Best(place, output, -math.inf if math.isnan(score) else score))
        return max(found, key=lambda best: best.score)

    def draw_trials(self, source: Source | None) -> int:
        """K, exactly: a geometric number, accepted with probability Π_{0<l<k} (l + η)/(l + 1), which is at most 1."""
        while True:
            k = 1
            accept = Fraction(1)
            while not noise.bernoulli(self.gamma, source=source):
                accept *= (k + self.eta) / (k + 1)
                k += 1
            if noise.bernoulli(accept, source=source):
                return k

    @property
    def _law(self) -> tuple[float, float]:
        """γ and η as floats; an η below 1e-100 is 0 to every digit, and its products would lose theirs."""
        return float(self.gamma), 0.0 if self.eta < Fraction(1, 10**100) else float(self.eta)

    def generating(self, x: float) -> float:
        """E[x^K]."""
        gamma, eta = self._law
        if gamma == 1:
            return x
        if eta == 0:
            return math.log1p(-(1 - gamma) * x) / math.log(gamma)
        # expm1 keeps the digits where η is small or γ near 1.
        return math.expm1(-eta * math.log1p(-(1 - gamma) * x)) / math.expm1(-eta * math.log(gamma))

    @property
    def trials(self) -> float:
        """E[K]."""
        gamma, eta = self._law
        if 1 - gamma < 1e-12:  # the quotient below would lose its digits
            return 1.0
        if eta == 0:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return eta * (1 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """The share p of one trial's outcomes such that the result is among the best p, but for the failure allowed.

        All K trials miss the best p with probability E[(1 − p)^K].
        """
        risk = failure(confidence)
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.generating(1 - middle) <= risk else (middle, high)
        return high


def best_of(
    candidates: Sequence[Mechanism], *, score: Callable[[Any], float], trials: Number, eta: Number = 0
) -> BestOf:
    """The best of about `trials` runs of candidates with a pure guarantee, by a score of their outputs.

    `eta` in [0, 1] shapes the number of trials: 0 costs 2ε and varies most, 1 costs 3ε.
    """
    found = tuple(candidates)
    if not found or not all(isinstance(candidate, Mechanism) for candidate in found):
        raise InvalidArgument("candidates", found, "one mechanism or more")
    if len({candidate.relation for candidate in found}) > 1:
        raise InvalidArgument("candidates", found, "under one relation")
    shape = _checks.between("eta", eta, low=0, high=1, expected="between 0 and 1")
    for candidate in found:
        pure_epsilon(candidate.event)
    unit_of([candidate.event for candidate in found])
    return BestOf(found, score, gamma_of(_checks.between("trials", trials, low=1, expected="1 or more"), shape), shape)


def pure_epsilon(event: Event) -> Fraction:
    """The ε of an event that has a pure guarantee."""
    found = cost(event)
    if found.epsilon is not None and not found.delta:
        return found.epsilon
    raise NotSupported(f"selection among private candidates needs a pure guarantee; {event!r} has none")


def unit_of(events: Sequence[Event]) -> Unit:
    """The unit that all candidates speak of."""
    return reduce(partial(one_unit, doing="search"), (event.unit for event in events))


def gamma_of(trials: Fraction, eta: Fraction) -> Fraction:
    """The γ that gives the wanted mean, to nine digits; more trials for a smaller γ."""
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        probe = BestOf((), lambda _: 0.0, Fraction(middle), eta)
        low, high = (middle, high) if probe.trials > trials else (low, middle)
    return min(Fraction(math.ceil(high * 10**9), 10**9), Fraction(1))
