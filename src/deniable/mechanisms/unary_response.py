"""Optimised unary encoding: a person reports one bit per category, the true one set with probability 1/2, the others
with 1/(e^ε + 1).

ε-local DP: two categories differ in two bits, whose odds are 1 and e^−ε (Wang, Blocki, Li and Jha 2017). With Q =
1/(e^ε + 1) and c_v set bits for v, the unbiased estimate of a share is (c_v/n − Q)/(1/2 − Q); its variance is
4e^ε/(n(e^ε − 1)²) for rare categories, whatever their number. By Hoeffding all k shares are within
√(ln(2k/β)/(2n))/(1/2 − Q) with probability 1 − β.

>>> m = unary_response(keys=list(range(100)), epsilon=1)
>>> m.event
Claimed(PureDP(epsilon=1, relation=REPLACE))
>>> m([3, 7]).shape
(2, 100)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import DataError
from deniable.events import Claimed, Event
from deniable.guarantees import PureDP
from deniable.mechanisms import records
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.estimates import Estimate, around, hoeffding, people
from deniable.mechanisms.histogram import distinct
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class UnaryResponse(Mechanism):
    """One row of bits per person, each row with ε-local differential privacy."""

    keys: tuple[Hashable, ...]
    epsilon: Fraction

    @property
    def event(self) -> Event:
        return Claimed(PureDP(self.epsilon, relation=Relation.REPLACE))

    @property
    def false(self) -> float:
        """Q: how often a bit that is not the true one is set."""
        odds = math.exp(-float(self.epsilon))
        return odds / (1 + odds)

    def __call__(self, values: object, /, *, source: Source | None = None) -> NDArray[np.bool_]:
        """The reports, a row per person. A value that is not among the keys has no true bit."""
        truth = records.places(values, self.keys)
        shape = (len(truth), len(self.keys))
        reports = np.asarray(np.asarray(noise.categorical([0, -self.epsilon], shape, source=source)) == 1)
        # Both coins are tossed for everybody, so that what is drawn does not depend on what is reported.
        coins = np.asarray(noise.bernoulli(Fraction(1, 2), len(truth), source=source))
        known = np.flatnonzero(truth >= 0)
        reports[known, truth[known]] = coins[known]
        return reports

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> dict[Hashable, Estimate]:
        """The share of every category among those asked: unbiased, with intervals that all hold together.

        A report that is no row of bits has none set.
        """
        rows = records.table(reports, columns=len(self.keys))
        if not len(rows):
            raise DataError("an estimate needs at least one report")
        shares = ((rows != 0) & ~np.isnan(rows)).mean(axis=0)
        radius = self.error(confidence, n=len(rows))
        found = (shares - self.false) / (0.5 - self.false)
        return {key: around(float(value), radius) for key, value in zip(self.keys, found, strict=True)}

    def variance(self, *, n: int, share: Number) -> float:
        """The variance of one category's estimated share, given that this share of n people has it."""
        held, q = float(_checks.probability("share", share)), self.false
        return (held / 4 + (1 - held) * q * (1 - q)) / ((0.5 - q) ** 2 * people("n", n))

    def error(self, confidence: Number = Fraction(19, 20), *, n: int | None = None) -> float:
        """A bound on the largest error of any estimated share when n people answer."""
        return hoeffding(failure(confidence) / len(self.keys), people("n", n)) / (0.5 - self.false)


def unary_response(*, keys: Iterable[Hashable], epsilon: Number) -> UnaryResponse:
    """Optimised unary encoding over a public list of categories."""
    return UnaryResponse(distinct("keys", keys), _checks.positive("epsilon", epsilon))
