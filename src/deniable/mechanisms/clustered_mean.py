"""The mean of data that lie close together, without bounds given beforehand: propose-test-release with a trimmed mean.

The plain mean of unbounded data is never safe: one record can move it anywhere. The m-trimmed mean, over x₍m+1₎ …
x₍n−m₎ in order, moves by at most w/(n − 2m) when a record is replaced, with w = x₍n−m+1₎ − x₍m₎. The analyst proposes
a width τ without looking at the data; data with w ≤ τ are safe, and how many records must be replaced before w
exceeds τ is

    d = min{k : max over 0 ≤ t ≤ k of x₍n−m+1+t₎ − x₍m−k+t₎ > τ},     order statistics out of range being ±∞.

Half of ε pays for the test, half for Laplace noise of scale 2τ/((n − 2m)ε) on the trimmed mean. n is public
(REPLACE). As d is never above m, m must exceed about 2 ln(1/δ)/ε for the test ever to pass; by default it is chosen
so that clustered data pass with probability 99.9 %.

>>> m = clustered_mean(width=1, n=1000, epsilon=1, delta=1e-6)
>>> m.trim, m.statement(0.95)
(39, 'with probability 95 % the error is at most 0.00651')
>>> m.needed(0.999) <= m.trim      # so that data all in one place are answered with probability 99.9 %
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event
from deniable.guarantees import PureDP
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, lengths, records
from deniable.mechanisms.additive import Noised, Statistic, fit, relation_of
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.propose_test_release import needed, passes, whole
from deniable.noise import Source
from deniable.units import Relation

_STEPS = 1 << 20
_FARTHEST = float(1 << 62)


@dataclass(frozen=True, repr=False)
class ClusteredMean(Mechanism):
    """A trimmed mean of n records, or None if they do not lie close enough together."""

    width: Fraction
    n: int
    trim: int
    epsilon: Fraction
    delta: Fraction
    noised: Noised = field(repr=False)

    @property
    def event(self) -> Event:
        half = self.epsilon / 2
        return Claimed(whole(PureDP(half, relation=Relation.REPLACE), half, self.delta))

    @property
    def step(self) -> Fraction:
        """The grid that records are placed on: a millionth of the proposed width."""
        return self.width / _STEPS

    def __call__(self, values: object, /, *, source: Source | None = None) -> float | None:
        """The noisy trimmed mean, or None. A missing record counts as 0, one beyond 2**62 steps as lying there."""
        found = records.numbers(values)
        lengths.held(found, self.n, what="mean")
        with np.errstate(over="ignore"):
            scaled = np.nan_to_num(found, nan=0.0) / float(self.step)
        ordered = np.sort(np.rint(np.clip(scaled, -_FARTHEST, _FARTHEST)).astype(np.int64))
        if not passes(distance(ordered, self.trim, _STEPS), self.epsilon / 2, self.delta, source):
            return None
        kept = ordered[self.trim : self.n - self.trim]
        total = self.noised.release_one(sum(kept.tolist()), source)
        return grids.float_of(total / len(kept) * self.step)

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The distance from which on there is an answer with this probability; it is at most `trim`."""
        return needed(self.epsilon / 2, self.delta, confidence)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − trimmed mean| for answers that are given, rounding included."""
        kept = self.n - 2 * self.trim
        return float_above(self.noised.radius(failure(confidence)) * self.step / kept + self.step / 2)


def clustered_mean(
    *,
    width: Number,
    n: int,
    epsilon: Number,
    delta: Number,
    trim: int | None = None,
    relation: Relation = Relation.REPLACE,
) -> ClusteredMean:
    """The mean of n records believed to lie within `width` of each other, but for some outliers on either side."""
    relation_of(relation, Relation.REPLACE, why="The theorem is about replaced records and a public n.")
    tau = _checks.between(
        "width", width, low=Fraction(1, 10**290), high=10**290,
        expected="between 1e-290 and 1e290", remedy="Change the unit.",
    )  # fmt: skip
    budget = _checks.positive("epsilon", epsilon)
    allowed = _checks.inner_probability(
        "delta", delta, remedy="The test must be allowed to fail: for example delta=1e-6."
    )
    many = _checks.count("n", n)
    cut = needed(budget / 2, allowed, Fraction(999, 1000)) if trim is None else _checks.count("trim", trim)
    if 2 * cut >= many:
        remedy = f"This ε and δ need trim={cut} and n above {2 * cut}."
        if trim is None:
            raise InvalidArgument("n", n, "more than twice as many records as are trimmed", remedy)
        raise InvalidArgument("trim", trim, "below half of the records", remedy)
    (noised,) = fit([Statistic(_STEPS)], epsilon=budget / 2, delta=Fraction(0), relation=Relation.REPLACE)
    return ClusteredMean(tau, many, cut, budget, allowed, noised)


def distance(ordered: NDArray[np.int64], trim: int, width: int) -> int:
    """How many records must be replaced before the (trimmed) spread exceeds the width; 0 if it does."""
    n = len(ordered)
    padded = [-math.inf, *ordered.tolist(), math.inf]  # padded[i] is the i-th order statistic, i from 1
    for k in range(trim + 1):
        for t in range(k + 1):
            high, low = n - trim + 1 + t, trim - k + t
            if low <= 0 or high > n or padded[high] - padded[low] > width:
                return k
    return trim
