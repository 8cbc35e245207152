"""Private selection: choose among public candidates by utilities that are computed from the data.

A choice among k candidates sees one utility per candidate. `sensitivity` is how far one unit can move any one of them.
Real utilities are rounded half up to a grid of a millionth of the sensitivity, and one step is added to the
sensitivity for it; with `step=1` they are integers. The choice itself compares exact numbers only.

Utilities are *monotone* when one unit's arrival never lowers any of them: counts are, under ADD_REMOVE and ZERO_OUT.
Then half the noise suffices. Under REPLACE one count falls while another rises, so nothing is monotone and
`monotone=True` is refused: noisy max with half the noise has a loss of up to 1.9 ε there.

All choices of one candidate are noisy max with some noise, of scale 2Δ/ε (Δ/ε if monotone):

| noise | the choice is | its event |
|---|---|---|
| `LAPLACE` | report noisy max (Dwork and Roth 2014, Claim 3.9) | ε-DP |
| `EXPONENTIAL` | permute-and-flip | ε-DP |
| `GUMBEL` | the exponential mechanism | range ε |

>>> m = exponential(candidates=3, sensitivity=1, epsilon=1, step=1)
>>> 0 <= m([3, 100, 2]) < 3
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np

from deniable import _checks, noise
from deniable._checks import Number
from deniable._signatures import check_size, limit_sizes
from deniable.calibration import calibrate
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event, ExponentialMechanism
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms import grids, records
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import EXPONENTIAL, GUMBEL, LAPLACE, ContinuousNoise, Source
from deniable.numerics.exact import short_below
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation


@dataclass(frozen=True, repr=False)
class SelectionMechanism(Mechanism):
    """A private choice of one or more of `candidates` by their utilities. `epsilon` is the guarantee."""

    candidates: int
    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool
    step: Fraction
    stated: Relation

    @property
    def steps(self) -> int:
        """The sensitivity of utilities in steps of the grid."""
        return grids.sensitivity_in_steps(self.sensitivity, self.step)

    @property
    def each(self) -> Fraction:
        """The ε of one choice."""
        return self.epsilon

    @property
    def rate(self) -> Fraction:
        """The factor from utilities in steps to units of the noise: ε/(2Δ), or ε/Δ if monotone."""
        return self.each / (self.steps if self.monotone else 2 * self.steps)

    def utilities(self, values: object) -> list[int]:
        """Utilities in steps. What is no finite number (with `step=1`: no integer) counts as 0."""
        if self.step == 1:
            return grids.read_integers(values, size=self.candidates)
        return grids.round_vector(values, self.step, size=self.candidates)

    def shortfall(self, confidence: Number, *, width: int = 1) -> float:
        """(width/rate)·ln(candidates/failure), and the step that rounding may cost."""
        nats = math.log(self.candidates / failure(confidence)) * (1 + 1e-12)
        rounding = 0 if self.step == 1 else self.step
        return float_above(width * Fraction(nats) / self.rate * self.step + rounding)


def check_monotone(relation: Relation, *, what: str, monotone: bool) -> None:
    """Refuses `monotone=True` under REPLACE, where no utility or query is monotone."""
    if monotone and relation is Relation.REPLACE:
        remedy = f"A replaced record lowers one {what} while it raises another."
        raise InvalidArgument("monotone", monotone, "False under REPLACE", remedy)


def _check_choice(
    candidates: int, sensitivity: Number, epsilon: Number, step: Number | None, relation: Relation, *, monotone: bool
) -> dict[str, object]:
    """Checks the arguments of a choice and returns the fields of a `SelectionMechanism`."""
    remedy = "Utilities that nobody can change are public."
    exact_sensitivity, grid = grids.check_sensitivity(sensitivity, step, remedy=remedy)
    check_monotone(relation, what="utility", monotone=monotone)
    return {
        "candidates": _checks.count("candidates", candidates),
        "epsilon": _checks.positive("epsilon", epsilon, remedy="ε = 0 is a uniform choice, which needs no data."),
        "sensitivity": exact_sensitivity,
        "monotone": bool(monotone),
        "step": grid,
        "stated": relation,
    }


@dataclass(frozen=True, repr=False)
class NoisyMax(SelectionMechanism):
    """The position of the largest noisy utility."""

    noise: ContinuousNoise = EXPONENTIAL

    @property
    def event(self) -> Event:
        if self.noise is GUMBEL:
            return ExponentialMechanism(self.epsilon, self.stated)
        return Claimed(PureDP(self.epsilon, relation=self.stated))

    def __call__(self, utilities: object, /, *, source: Source | None = None) -> int:
        """The position of the winner."""
        return noise.race(self.utilities(utilities), rate=self.rate, noise=self.noise, source=source)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the best utility minus the chosen one; twice as wide where noise can hurt the best one too."""
        return self.shortfall(confidence, width=2 if self.noise is LAPLACE else 1)


@limit_sizes
def noisy_max(
    *,
    candidates: int,
    sensitivity: Number,
    epsilon: Number,
    noise: ContinuousNoise = EXPONENTIAL,
    monotone: bool = False,
    step: Number | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> NoisyMax:
    """Report noisy max: every utility gets independent noise, and only the position of the largest is released.

    Scale Δ/ε is right for monotone utilities only, such as counts when a record is added or removed. The noisy value of
    the winner is not released: that would need noise and budget of its own.

    Args:
        candidates: how many candidates there are.
        sensitivity: how far one unit can move any one utility.
        epsilon: the privacy budget ε of one release.
        noise: `deniable.noise.EXPONENTIAL`, `LAPLACE` or `GUMBEL`.
        monotone: True halves the noise where one unit moves all utilities the same way; refused under REPLACE.
        step: the grid that answers are rounded to, a power of two; 1 for integers, a millionth of Δ by default.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> from deniable.noise import GUMBEL, LAPLACE
    >>> noisy_max(candidates=10, sensitivity=1, epsilon=1, step=1, noise=LAPLACE, monotone=True).rate
    Fraction(1, 1)
    >>> noisy_max(candidates=10, sensitivity=1, epsilon=1, step=1, noise=GUMBEL).event
    ExponentialMechanism(epsilon=1)
    """
    relation = Relation.of(relation)
    _checks.member("noise", noise, ContinuousNoise, remedy="Use deniable.noise.EXPONENTIAL, LAPLACE or GUMBEL.")
    fields = _check_choice(candidates, sensitivity, epsilon, step, relation, monotone=monotone)
    return NoisyMax(**fields, noise=noise)  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class Exponential(NoisyMax):
    """A choice by the exponential mechanism: the largest utility after Gumbel noise."""

    noise: ContinuousNoise = field(default=GUMBEL, init=False, repr=False)


@limit_sizes
def exponential(
    *,
    candidates: int,
    sensitivity: Number,
    epsilon: Number,
    monotone: bool = False,
    step: Number | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> Exponential:
    """The exponential mechanism: a candidate is chosen with probability proportional to exp(ε·utility/(2Δ)).

    ε-differentially private (McSherry and Talwar 2007; Dwork and Roth 2014, Theorem 3.10); with monotone utilities
    exp(ε·utility/Δ) is. `epsilon` is the guarantee: the notes' exp(ε·utility/Δ) is 2ε-DP in general. Its loss has range
    ε, which composes better than ε-DP does (Durfee and Rogers 2019); the event says so.

    Accuracy: the chosen utility is within (2Δ/ε)(ln k + ln(1/β)) of the best with probability 1 − β (Dwork and Roth,
    Theorem 3.11).

    Args:
        candidates: how many candidates there are.
        sensitivity: how far one unit can move any one utility.
        epsilon: the privacy budget ε of one release.
        monotone: True halves the noise where one unit moves all utilities the same way; refused under REPLACE.
        step: the grid that answers are rounded to, a power of two; 1 for integers, a millionth of Δ by default.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = exponential(candidates=3, sensitivity=1, epsilon=1, step=1)
    >>> 0 <= m([3, 100, 2]) < 3
    True
    >>> m.event, round(m.error(0.95), 2)
    (ExponentialMechanism(epsilon=1), 8.19)
    """
    relation = Relation.of(relation)
    return Exponential(**_check_choice(candidates, sensitivity, epsilon, step, relation, monotone=monotone))  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class PermuteAndFlip(NoisyMax):
    """A choice by permute-and-flip: the largest utility after exponential noise."""

    noise: ContinuousNoise = field(default=EXPONENTIAL, init=False, repr=False)


@limit_sizes
def permute_and_flip(
    *,
    candidates: int,
    sensitivity: Number,
    epsilon: Number,
    monotone: bool = False,
    step: Number | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> PermuteAndFlip:
    """Permute-and-flip: candidates in random order, each accepted with probability exp(ε·(utility − best)/(2Δ)).

    ε-differentially private and never less accurate than the exponential mechanism (McKenna and Sheldon 2020). It is
    the same choice as adding exponential noise of scale 2Δ/ε to every utility and taking the largest (Ding, Kifer et
    al. 2021), which is how it is drawn.

    Args:
        candidates: how many candidates there are.
        sensitivity: how far one unit can move any one utility.
        epsilon: the privacy budget ε of one release.
        monotone: True halves the noise where one unit moves all utilities the same way; refused under REPLACE.
        step: the grid that answers are rounded to, a power of two; 1 for integers, a millionth of Δ by default.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = permute_and_flip(candidates=3, sensitivity=1, epsilon=1, step=1)
    >>> 0 <= m([0, -1, -4]) < 3, m.event
    (True, Claimed(PureDP(epsilon=1)))
    """
    relation = Relation.of(relation)
    return PermuteAndFlip(**_check_choice(candidates, sensitivity, epsilon, step, relation, monotone=monotone))  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class TopK(SelectionMechanism):
    """The `places` best candidates, which cost (ε, δ) together."""

    places: int = 1
    delta: Fraction = Fraction(0)

    @property
    def each(self) -> Fraction:
        """The ε of one place."""
        return _share(self.epsilon, self.delta, self.places)

    @property
    def event(self) -> Event:
        return ExponentialMechanism(self.each, self.stated) * self.places

    def __call__(self, utilities: object, /, *, source: Source | None = None) -> list[int]:
        """The positions of the chosen candidates, best first."""
        return noise.ranking(self.utilities(utilities), self.places, rate=self.rate, noise=noise.GUMBEL, source=source)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound, for every position, on the best utility among those not chosen yet minus the chosen one."""
        each = 1 - (1 - _checks.inner_probability("confidence", confidence)) / self.places
        return self.shortfall(each)


@limit_sizes
def top_k(
    *,
    candidates: int,
    places: int,
    sensitivity: Number,
    epsilon: Number,
    delta: Number = 0,
    monotone: bool = False,
    step: Number | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> TopK:
    """The `places` best candidates, in order: exponential mechanisms without replacement, in one draw.

    Adding Gumbel noise once and taking the k largest is the same as choosing one by one and removing it (Durfee and
    Rogers 2019), so the event is k exponential mechanisms. Given ε alone each gets ε/k; given δ too, each gets as much
    as the accountant lets k of them have.

    Args:
        candidates: how many candidates there are.
        places: how many candidates are chosen.
        sensitivity: how far one unit can move any one utility.
        epsilon: the ε of all choices together.
        delta: the δ of all choices together; 0 for pure ε-DP.
        monotone: True halves the noise where one unit moves all utilities the same way; refused under REPLACE.
        step: the grid that answers are rounded to, a power of two; 1 for integers, a millionth of Δ by default.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = top_k(candidates=10, places=3, sensitivity=1, epsilon=3, step=1)
    >>> m.event
    ExponentialMechanism(epsilon=1) * 3
    >>> len(m(range(10)))
    3
    >>> top_k(candidates=1000, places=20, sensitivity=1, epsilon=1, delta=1e-6, step=1).each > Fraction(1, 20)
    True
    """
    relation = Relation.of(relation)
    k = _checks.count("places", places)
    if k > _checks.count("candidates", candidates):
        raise InvalidArgument("places", places, f"at most the {candidates} candidates")
    fields = _check_choice(candidates, sensitivity, epsilon, step, relation, monotone=monotone)
    exact_delta = _checks.between("delta", delta, low=0, high=1, open_high=True, expected="0 or a probability below 1")
    mechanism = TopK(**fields, places=k, delta=exact_delta)  # type: ignore[arg-type]
    _ = mechanism.each  # computed once, and refused here if it cannot be
    return mechanism


@lru_cache(maxsize=256)
def _share(epsilon: Fraction, delta: Fraction, places: int) -> Fraction:
    """The largest ε of one place found, within a hundredth, for which the accountant confirms the promise for all."""
    if not delta or places == 1:
        return epsilon / places

    def event(each: float) -> Event:
        return ExponentialMechanism(short_below(each, figures=5)) * places

    calibrated = calibrate(event, ApproxDP(epsilon, delta), tolerance=Fraction(1, 100))
    return max(short_below(calibrated.value, figures=5), epsilon / places)


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
        amounts = records.read_numbers(bids)
        return [price * int(np.count_nonzero(amounts >= float(price))) for price in self.prices]

    def __call__(self, bids: object, /, *, source: Source | None = None) -> Fraction:
        """The chosen price."""
        common = lcm(*(price.denominator for price in self.prices))
        whole = [int(revenue * common) for revenue in self.revenues(bids)]
        return self.prices[noise.race(whole, rate=self.rate / common, noise=noise.GUMBEL, source=source)]

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the best revenue minus that of the chosen price."""
        nats = float(np.log(len(self.prices) / failure(confidence))) * (1 + 1e-12)
        return float_above(Fraction(nats) / self.rate)


@limit_sizes
def auction_price(
    *, prices: Iterable[Number], epsilon: Number, relation: AnyRelation = Relation.ADD_REMOVE
) -> AuctionPrice:
    """One price for all, from a public list: those who bid at least that much pay it.

    The revenue of a price p is p times the number of bids that reach it. The best price jumps when one bid changes
    (bids 1, 1, 1, 3.01: price 3.01 earns 3.01, price 3.02 nothing), but the revenue of any fixed price moves by at most
    p ≤ p_max, so the exponential mechanism over a public list of prices applies, with Δ = p_max. One more bid never
    lowers a revenue: under ADD_REMOVE it is monotone.

    Args:
        prices: the public list of prices.
        epsilon: the privacy budget ε of one release.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = auction_price(prices=[1, 2, 3, 3.01, 3.02], epsilon=1)
    >>> m([1, 1, 1, 3.01]) in m.prices
    True
    >>> round(m.error(0.95), 1)      # revenue that may be lost
    13.9
    """
    relation = Relation.of(relation)
    price_list = tuple(_checks.positive("prices", price) for price in prices)
    for price in price_list:
        check_size("prices", price)
    if not price_list or len(set(price_list)) != len(price_list):
        raise InvalidArgument("prices", [float(p) for p in price_list], "one or more different prices")
    return AuctionPrice(price_list, _checks.positive("epsilon", epsilon), relation)
