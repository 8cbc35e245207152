"""The auction of the notes: one price for all, such that those who bid at least that much pay it.

The revenue of a price p is p times the number of bids that reach it. The best price jumps when one bid changes (bids
1, 1, 1, 3.01: price 3.01 earns 3.01, price 3.02 nothing), but the revenue of any fixed price moves by at most p ≤
p_max, so the exponential mechanism over a public list of prices applies, with Δ = p_max. One more bid never lowers a
revenue: under ADD_REMOVE it is monotone.

>>> m = auction_price(prices=[1, 2, 3, 3.01, 3.02], epsilon=1)
>>> m([1, 1, 1, 3.01]) in m.prices
True
>>> round(m.error(0.95), 1)      # revenue that may be lost
13.9
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Event, ExponentialMechanism
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import records
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class AuctionPrice(Mechanism):
    """A price from a public list that earns nearly the most."""

    prices: tuple[Fraction, ...]
    epsilon: Fraction
    stated: Relation

    @property
    def event(self) -> Event:
        return ExponentialMechanism(self.epsilon, self.stated)

    @property
    def rate(self) -> Fraction:
        """What a revenue is multiplied by: ε/(2·p_max), or ε/p_max where revenue is monotone."""
        times = 2 if self.stated is Relation.REPLACE else 1
        return self.epsilon / (times * max(self.prices))

    def revenues(self, bids: object) -> list[Fraction]:
        """The revenue of every price, exactly. A missing bid buys at no price."""
        found = records.numbers(bids)
        return [price * int(np.count_nonzero(found >= float(price))) for price in self.prices]

    def __call__(self, bids: object, /, *, source: Source | None = None) -> Fraction:
        """The chosen price."""
        common = lcm(*(price.denominator for price in self.prices))
        whole = [int(revenue * common) for revenue in self.revenues(bids)]
        return self.prices[noise.race(whole, rate=self.rate / common, noise=noise.GUMBEL, source=source)]

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the best revenue minus that of the chosen price."""
        nats = float(np.log(len(self.prices) / failure(confidence))) * (1 + 1e-12)
        return float_above(Fraction(nats) / self.rate)


def auction_price(
    *, prices: Iterable[Number], epsilon: Number, relation: Relation = Relation.ADD_REMOVE
) -> AuctionPrice:
    """A price for bids of one person each, chosen from a public list."""
    found = tuple(_checks.positive("prices", price) for price in prices)
    if not found or len(set(found)) != len(found):
        raise InvalidArgument("prices", [float(p) for p in found], "one or more different prices")
    _checks.member("relation", relation, Relation, remedy="Use ADD_REMOVE, REPLACE or ZERO_OUT.")
    return AuctionPrice(found, _checks.positive("epsilon", epsilon), relation)
