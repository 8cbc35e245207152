"""Randomised response with k categories: the truth with probability P = e^ε/(e^ε + k − 1), else one of the others
uniformly.

ε-local DP. With c_v reports of v among n and Q = 1/(e^ε + k − 1), the unbiased estimate of the number of people with
v is (c_v − nQ)/(P − Q), of variance (n_v·P(1 − P) + (n − n_v)·Q(1 − Q))/(P − Q)². By Hoeffding all k shares are
within √(ln(2k/β)/(2n))/(P − Q) with probability 1 − β. For small ε and many categories `unary_response` is more
accurate. Estimates may be negative: see `postprocessing.simplex`.

>>> m = category_response(keys=["a", "b", "c", "d"], epsilon=2)
>>> m.event
RandomizedResponse(epsilon=2, categories=4)
>>> m.statement(0.95, n=10_000)
'with probability 95 % the error is at most 0.026'
>>> sorted(m.estimate(m(["a", "b", "a"])))
['a', 'b', 'c', 'd']
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.events import Event, RandomizedResponse
from deniable.mechanisms import records
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.estimates import Estimate, around, hoeffding, people
from deniable.mechanisms.histogram import distinct
from deniable.noise import Source


@dataclass(frozen=True, repr=False)
class CategoryResponse(Mechanism):
    """One category per person, each with ε-local differential privacy."""

    keys: tuple[Hashable, ...]
    epsilon: Fraction

    @property
    def event(self) -> Event:
        return RandomizedResponse(self.epsilon, len(self.keys))

    @property
    def chances(self) -> tuple[float, float]:
        """P and Q: of reporting the truth, and of reporting any one other category."""
        odds = math.exp(-float(self.epsilon))
        truth = 1 / (1 + (len(self.keys) - 1) * odds)
        return truth, truth * odds

    def __call__(self, values: object, /, *, source: Source | None = None) -> list[Hashable]:
        """The reports. A value that is not among the keys counts as the first of them."""
        truth = np.maximum(records.places(values, self.keys), 0)
        others = len(self.keys) - 1
        lies = np.asarray(noise.categorical([0, -self.epsilon], len(truth), multiples=[1, others], source=source))
        steps = 1 + np.asarray(
            noise.uniform(others, len(truth), source=source)
        )  # to any other category, all equally likely
        said = (truth + lies * steps) % len(self.keys)
        return [self.keys[place] for place in said.tolist()]

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> dict[Hashable, Estimate]:
        """The share of every category among those asked: unbiased, with intervals that all hold together."""
        found = records.places(reports, self.keys)
        n = len(found)
        if not n:
            raise DataError("an estimate needs at least one report")
        p, q = self.chances
        radius = self.error(confidence, n=n)
        said = np.bincount(found[found >= 0], minlength=len(self.keys)).tolist()
        return {key: around((count / n - q) / (p - q), radius) for key, count in zip(self.keys, said, strict=True)}

    def variance(self, *, n: int, share: Number) -> float:
        """The variance of one category's estimated share, given that this share of n people has it."""
        p, q = self.chances
        held = float(_checks.probability("share", share))
        return (held * p * (1 - p) + (1 - held) * q * (1 - q)) / ((p - q) ** 2 * people("n", n))

    def error(self, confidence: Number = Fraction(19, 20), *, n: int | None = None) -> float:
        """A bound on the largest error of any estimated share when n people answer."""
        p, q = self.chances
        return hoeffding(failure(confidence) / len(self.keys), people("n", n)) / (p - q)


def category_response(*, keys: Iterable[Hashable], epsilon: Number) -> CategoryResponse:
    """Randomised response over a public list of two categories or more."""
    found = distinct("keys", keys)
    if len(found) < 2:
        raise InvalidArgument("keys", list(found), "two categories or more")
    return CategoryResponse(found, _checks.positive("epsilon", epsilon))
