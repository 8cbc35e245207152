"""The best of a random number of private trials, paid for once.

Each trial picks one of the candidates uniformly, runs it, and scores its output. After K trials the best output is
released, and nothing else. K is drawn before the data are touched. `best_of` runs mechanisms with a pure guarantee;
`search` runs anything that an event describes, such as a training, and is paid by the curve of one trial.

>>> from deniable.events import Gaussian
>>> print(search([Gaussian(scale=3.7306)], trials=10).guarantee(delta=1e-5))      # each trial is (1, 1e-5)-DP
ε ≤ 1.52, δ = 1e-5, one record added or removed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

from deniable import _checks, _values, noise
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.accounting.accountant import account
from deniable.accounting.filters import cost
from deniable.accounting.rules.selection import selection_excess
from deniable.errors import InvalidArgument, NotSupported
from deniable.events import Claimed, Event, Selected
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms import records
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.numerics.exact import short_above
from deniable.numerics.roots import bisect, enlarge
from deniable.units import Unit, one_relation, one_unit


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
        each = max(_pure_epsilon(candidate.event) for candidate in self.candidates)
        unit = _common_unit([candidate.event for candidate in self.candidates])
        return Claimed(PureDP((2 + self.eta) * each, relation=self.candidates[0].relation, unit=unit))

    def __call__(self, data: Any, /, *, source: Source | None = None) -> Best:
        """One release. A score that is not a number ranks last; among equal scores the earliest trial wins."""
        trials: list[Best] = []
        data = records.keep_generator(data)
        for _ in range(self.draw_trials(source)):
            candidate = int(noise.uniform(len(self.candidates), source=source))
            output = self.candidates[candidate](data, source=source)
            score = _values.number(self.score(output))
            trials.append(Best(candidate, output, -math.inf if math.isnan(score) else score))
        return max(trials, key=lambda best: best.score)

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
        return bisect(lambda share: self.generating(1 - share) <= risk, 0.0, 1.0)[1]


@limit_sizes
def best_of(
    candidates: Sequence[Mechanism], *, score: Callable[[Any], float], trials: Number, eta: Number = 0
) -> BestOf:
    """Selection among private candidates: run private mechanisms a random number of times and keep the best result.

    Each trial picks one of the candidates uniformly, runs it, and scores its *output*. After K trials the output with
    the best score is released, nothing else. K is drawn before the data are touched, from the truncated negative
    binomial law with parameters η and γ (Papernot and Steinke 2022, Definition 1): Pr[K = k] ∝ (1 − γ)^k·Π_{l<k} (l +
    η)/(l + 1), in the limit (1 − γ)^k/k for η = 0. If every candidate is ε-DP, the result is (2 + η)ε-DP (their Theorem
    2 at infinite order). η = 1 is the geometric law of Liu and Talwar (2019), which costs 3ε; η = 0, the logarithmic
    law, costs 2ε.

    The reason: with F the probability that one trial scores below y, and q that it yields y, the release yields y with
    probability between q·f′(F) and q·f′(F + q), where f is the generating function of K and f′(x) ∝ (1 − (1 −
    γ)x)^(−1−η). Neighbours change q by e^ε and 1 − F, hence 1 − (1 − γ)F = γ + (1 − γ)(1 − F), by e^ε at most.

    How many trials were run must stay secret: do not let it show in the time a caller sees.

    Args:
        candidates: mechanisms with a pure guarantee.
        score: rates an output without looking at private data.
        trials: the expected number of trials.
        eta: the shape of their law, from 0 (costs 2ε, varies most) to 1 (costs 3ε).

    >>> from deniable.mechanisms.counts import count
    >>> m = best_of([count(epsilon=0.1)], score=lambda output: output, trials=10, eta=1)
    >>> m.event
    Claimed(PureDP(epsilon=0.3))
    >>> type(m([True] * 50).output)
    <class 'int'>
    """
    mechanisms = tuple(candidates)
    if not mechanisms or not all(isinstance(candidate, Mechanism) for candidate in mechanisms):
        raise InvalidArgument("candidates", mechanisms, "one mechanism or more")
    if len({candidate.relation for candidate in mechanisms}) > 1:
        raise InvalidArgument("candidates", mechanisms, "under one relation")
    exact_eta = _checks.between("eta", eta, low=0, high=1, expected="between 0 and 1")
    for candidate in mechanisms:
        _pure_epsilon(candidate.event)
    _common_unit([candidate.event for candidate in mechanisms])
    return BestOf(
        mechanisms,
        score,
        solve_gamma(_checks.between("trials", trials, low=1, expected="1 or more"), exact_eta),
        exact_eta,
    )


def _pure_epsilon(event: Event) -> Fraction:
    """The ε of an event that has a pure guarantee."""
    pure_cost = cost(event)
    if pure_cost.epsilon is not None and not pure_cost.delta:
        return pure_cost.epsilon
    raise NotSupported(f"selection among private candidates needs a pure guarantee; {event!r} has none")


def _common_unit(events: Sequence[Event]) -> Unit:
    """The unit that all candidates speak of."""
    return reduce(partial(one_unit, doing="search"), (event.unit for event in events))


def solve_gamma(trials: Fraction, eta: Fraction) -> Fraction:
    """The γ that gives the wanted mean, to nine digits; more trials for a smaller γ."""

    def few(gamma: float) -> bool:
        return BestOf((), lambda _: 0.0, Fraction(gamma), eta).trials <= trials

    return min(Fraction(math.ceil(bisect(few, 0.0, 1.0, turns=80)[1] * 10**9), 10**9), Fraction(1))


_MOST = 1e4
"""A loss above this is no promise; searches for ε stop here."""


@dataclass(frozen=True)
class PrivateSearch:
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
        exact_delta = _checks.inner_probability("delta", delta)
        excess = selection_excess(self._curve, gamma=self.gamma)
        own = _smallest_holding(lambda epsilon: self._curve(epsilon) * self.trials <= float(exact_delta) * (1 - 1e-12))
        total = own + (1 + float(self.eta)) * excess
        epsilon = short_above(total * (1 + 1e-12), figures=9)
        return ApproxDP(epsilon, exact_delta, relation=self.events[0].relation, unit=_common_unit(self.events))

    def event(self, *, delta: Number) -> Event:
        """What a ledger is charged for the whole search."""
        return Claimed(self.guarantee(delta=delta))

    @property
    def selected(self) -> Event:
        """The whole search as an event with its curve, which composes with others; for one candidate, or equal ones."""
        if len(set(self.events)) > 1:
            raise NotSupported(
                "candidates that differ have no common curve; use event(delta=...), or one search for each"
            )
        return Selected(self.events[0], gamma=self.gamma, eta=self.eta)

    def run(self, trial: Callable[[int], Any], *, score: Callable[[Any], float], source: Source | None = None) -> Best:
        """Run `trial(i)`, which does what event i says, as often as the law says; the best-scored output.

        A score that is not a number ranks last; among equal scores the earliest trial wins.
        """
        best: Best | None = None
        for _ in range(self._law.draw_trials(source)):
            candidate = int(noise.uniform(len(self.events), source=source))
            output = trial(candidate)
            number = _values.number(score(output))
            value = -math.inf if math.isnan(number) else number
            if best is None or value > best.score:
                best = Best(candidate, output, value)
        if best is None:
            raise InvalidArgument("trials", 0, "1 or more")
        return best

    @cached_property
    def _profiles(self) -> tuple[tuple[int, Any], ...]:
        """Each different event's curve, with how many candidates have it."""
        return tuple((self.events.count(event), account(event)) for event in dict.fromkeys(self.events))

    def _curve(self, epsilon: float) -> float:
        """δ(ε) of one trial: the candidates' mean, by its proven upper end."""
        total = math.fsum(copies * profile.delta(epsilon) for copies, profile in self._profiles)
        return total / len(self.events) * (1 + 1e-15)


@limit_sizes
def search(events: Sequence[Event], *, trials: Number, eta: Number = 0, scoring: Event | None = None) -> PrivateSearch:
    """Private search over trainings: run some of them, keep the best, and pay little more than for one.

    Each trial picks one of the candidates uniformly, runs it, and scores its *output*; after K trials the best output
    is released and nothing else. K is drawn before the data are touched, from the truncated negative binomial law of
    `best_of`.

    **Theorem.** Let δ(ε) be the curve of one trial, the mean of the candidates' curves (the pick is public and does not
    depend on the data). Let m = E[K], and let ε̂ satisfy δ(ε̂) ≤ (e^ε̂ − 1)·γ/(1 − γ). Then for every ε ≥ 0 the release is

        (ε + (1 + η)·ε̂,  m·δ(ε))-DP.

    *Proof.* Let q, q′ be the laws of one trial's output on neighbours, and φ the generating function of K, so that
    φ′(x) = m·((1 − (1 − γ)x)/γ)^(−1−η), which rises and is at most φ′(1) = m. The release has density q(y)·∫φ′(1 −
    G_u(y))du over u in [0, 1], where G_u(y) is the probability that one trial scores above y, or equals it and a coin
    of bias 1 − u shows heads (the earliest of equals wins). That is an event of one trial, so G′_u ≤ e^ε̂·G_u +
    δ(ε̂), and by the choice of ε̂

        γ + (1 − γ)G′_u ≤ e^ε̂(γ + (1 − γ)G_u) + (1 − γ)δ(ε̂) − (e^ε̂ − 1)γ ≤ e^ε̂(γ + (1 − γ)G_u).

    Hence φ′(1 − G_u) ≤ e^((1+η)ε̂)·φ′(1 − G′_u). For any set S of outputs, first q ≤ e^ε·q′ + (q − e^ε·q′)₊ with φ′ ≤ m
    on the rest, then this: ∫_S q·φ′(1 − G) ≤ e^ε∫_S q′·φ′(1 − G) + m·δ(ε) ≤ e^(ε+(1+η)ε̂)∫_S q′·φ′(1 − G′) + m·δ(ε). ∎

    (The form with curves is that of Koskela–Redberg–Wang 2024; Papernot–Steinke 2022 have it for Rényi divergences,
    Liu–Talwar 2019 for pure promises, where ε̂ = ε₀ and the cost is (2 + η)ε₀.)

    A score is computed from a trial's output and public data. One that looks at private data is part of the trial: give
    its event as `scoring`, and score with noise. How many trials were run must stay secret; do not let it show in the
    time a caller sees.

    Args:
        events: what each candidate does to the data.
        trials: the expected number of trials.
        eta: the shape of their law, between 0 and 1.
        scoring: what scoring one output does to the data; None if it sees public data only.

    >>> from deniable.events import Gaussian
    >>> found = search([Gaussian(scale=3.7306)], trials=10)   # each of them (1, 1e-5)-DP
    >>> print(found.guarantee(delta=1e-5))
    ε ≤ 1.52, δ = 1e-5, one record added or removed
    """
    candidates = tuple(events)
    if not candidates or not all(isinstance(event, Event) for event in candidates):
        raise InvalidArgument("events", candidates, "one event or more, such as plan.event")
    for event in candidates:
        one_relation(candidates[0].relation, event.relation, doing="search")
    _common_unit(candidates)
    exact_eta = _checks.between("eta", eta, low=0, high=1, expected="between 0 and 1")
    exact_trials = _checks.between("trials", trials, low=1, expected="1 or more")
    if scoring is not None:
        candidates = tuple(event + scoring for event in candidates)
    return PrivateSearch(candidates, solve_gamma(exact_trials, exact_eta), exact_eta)


def _smallest_holding(holds: Callable[[float], bool]) -> float:
    """Bisects for the least value from which on a condition holds; the condition holds at the value returned."""
    high = enlarge(holds, 1e-3, most=_MOST)
    if high is None:
        raise InvalidArgument("events", "…", "with a promise that is worth something at this delta")
    return bisect(holds, 0.0, high, turns=50)[1]
