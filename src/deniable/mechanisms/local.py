"""Local privacy: everybody randomises their own report, and nobody need be trusted.

The estimates correct for the randomisation and come with an interval. `shuffled` hides who sent which report, which
makes the privacy of all of them much stronger.

>>> m = binary_response(epsilon=1)
>>> m.statement(0.95, size=10_000)
'with probability 95 % the error is at most 0.0294'
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, noise
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import DataError, InvalidArgument
from deniable.events import Claimed, Event, RandomizedResponse
from deniable.guarantees import PureDP
from deniable.mechanisms import records
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.counts import check_keys
from deniable.noise import Source
from deniable.units import Relation


class Estimate(NamedTuple):
    """A number and the interval that holds the truth with the stated probability."""

    value: float
    lower: float
    upper: float


def _hoeffding_radius(failure: float, size: int) -> float:
    """How far the mean of n independent numbers in [0, 1] strays from its expectation: √(ln(2/failure)/(2n))."""
    return math.sqrt(math.log(2 / failure) / (2 * size)) * (1 + 1e-12)


def _check_people(name: str, size: int | None) -> int:
    """The number of people an accuracy is stated for."""
    return _checks.count(name, size)


def _interval(value: float, radius: float, *, low: float = 0.0, high: float = 1.0) -> Estimate:
    """An unbiased estimate, which may lie outside, and its interval cut to what is possible."""
    return Estimate(value, min(max(value - radius, low), high), max(min(value + radius, high), low))


@dataclass(frozen=True, repr=False)
class BinaryResponse(Mechanism):
    """One bit per person, each with ε-local differential privacy."""

    epsilon: Fraction

    @property
    def event(self) -> Event:
        return RandomizedResponse(self.epsilon)

    @property
    def bias(self) -> float:
        """g: how much likelier the truth is than a coin toss."""
        return math.tanh(float(self.epsilon) / 2) / 2

    def __call__(self, bits: object, /, *, source: Source | None = None) -> NDArray[np.bool_]:
        """The reports. Each person's is private on its own; a missing bit counts as no."""
        truth = records.read_flags(bits)
        # Weights 1 and e^−ε: kept with probability 1/(1 + e^−ε), exactly.
        flipped = noise.categorical([0, -self.epsilon], len(truth), source=source)
        return np.asarray(truth ^ (np.asarray(flipped) == 1))

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> Estimate:
        """The share of yes among those asked: unbiased, with an interval."""
        answers = records.read_flags(reports)
        if not len(answers):
            raise DataError("an estimate needs at least one report")
        share = float(np.mean(answers))
        return _interval((share - (0.5 - self.bias)) / (2 * self.bias), self.error(confidence, size=len(answers)))

    def variance(self, *, size: int) -> float:
        """The variance of the estimate, given the truth."""
        return (1 - 4 * self.bias**2) / (16 * self.bias**2 * _check_people("size", size))

    def error(self, confidence: Number = Fraction(19, 20), *, size: int | None = None) -> float:
        """A bound on the error of the estimated share when n people answer."""
        return _hoeffding_radius(failure(confidence), _check_people("size", size)) / (2 * self.bias)


@limit_sizes
def binary_response(*, epsilon: Number | None = None, bias: Number | None = None) -> BinaryResponse:
    """Randomised response: everybody answers yes or no, truthfully with probability 1/2 + g.

    ε = ln((1/2 + g)/(1/2 − g)), so g = tanh(ε/2)/2 (Warner 1965; exact). From n answers of mean ȳ the unbiased estimate
    of the share p of yes is

        p̂ = (ȳ − (1/2 − g))/(2g),

    not ȳ itself, whose error does not vanish as n grows. Given the truth it has variance (1 − 4g²)/(16g²n). By
    Hoeffding, |p̂ − p| ≤ √(ln(2/β)/(8g²n)) with probability 1 − β. p is the share among those asked.

    Args:
        epsilon: the ε of each person's report; give this or `bias`.
        bias: the truth is told with probability 1/2 + bias, below 1/2; ε is rounded up to nine digits.

    >>> m = binary_response(epsilon=1)
    >>> round(m.bias, 4), m.event
    (0.2311, RandomizedResponse(epsilon=1))
    >>> m.statement(0.95, size=10_000)
    'with probability 95 % the error is at most 0.0294'
    >>> reports = m([1, 0, 1, 1])
    >>> found = m.estimate(reports, confidence=0.95)
    >>> 0 <= found.lower <= found.upper <= 1
    True
    """
    if (epsilon is None) == (bias is None):
        raise InvalidArgument("epsilon", epsilon, "given, or bias instead")
    if epsilon is not None:
        return BinaryResponse(_checks.positive("epsilon", epsilon))
    g = _checks.between("bias", bias, low=0, high=Fraction(1, 2), open_low=True, open_high=True,  # type: ignore[arg-type]
                        expected="above 0 and below 1/2")  # fmt: skip
    exact_epsilon = math.log((0.5 + float(g)) / (0.5 - float(g)))
    return BinaryResponse(Fraction(math.ceil(exact_epsilon * 10**9), 10**9))


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
        truth = np.maximum(records.find_positions(values, self.keys), 0)
        others = len(self.keys) - 1
        lies = np.asarray(noise.categorical([0, -self.epsilon], len(truth), multiples=[1, others], source=source))
        steps = 1 + np.asarray(
            noise.uniform(others, len(truth), source=source)
        )  # to any other category, all equally likely
        reported = (truth + lies * steps) % len(self.keys)
        return [self.keys[position] for position in reported.tolist()]

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> dict[Hashable, Estimate]:
        """The share of every category among those asked: unbiased, with intervals that all hold together."""
        positions = records.find_positions(reports, self.keys)
        size = len(positions)
        if not size:
            raise DataError("an estimate needs at least one report")
        p, q = self.chances
        radius = self.error(confidence, size=size)
        report_counts = np.bincount(positions[positions >= 0], minlength=len(self.keys)).tolist()
        return {
            key: _interval((count / size - q) / (p - q), radius)
            for key, count in zip(self.keys, report_counts, strict=True)
        }

    def variance(self, *, size: int, share: Number) -> float:
        """The variance of one category's estimated share, given that this share of n people has it."""
        p, q = self.chances
        true_share = float(_checks.probability("share", share))
        return (true_share * p * (1 - p) + (1 - true_share) * q * (1 - q)) / (
            (p - q) ** 2 * _check_people("size", size)
        )

    def error(self, confidence: Number = Fraction(19, 20), *, size: int | None = None) -> float:
        """A bound on the largest error of any estimated share when n people answer."""
        p, q = self.chances
        return _hoeffding_radius(failure(confidence) / len(self.keys), _check_people("size", size)) / (p - q)


@limit_sizes
def category_response(*, keys: Iterable[Hashable], epsilon: Number) -> CategoryResponse:
    """Randomised response with k categories: the truth with probability P = e^ε/(e^ε + k − 1), else one of the others
    uniformly.

    ε-local DP. With c_v reports of v among n and Q = 1/(e^ε + k − 1), the unbiased estimate of the number of people
    with v is (c_v − nQ)/(P − Q), of variance (n_v·P(1 − P) + (n − n_v)·Q(1 − Q))/(P − Q)². By Hoeffding all k shares
    are within √(ln(2k/β)/(2n))/(P − Q) with probability 1 − β. For small ε and many categories `unary_response` is more
    accurate. Estimates may be negative: see `simplex`.

    Args:
        keys: the public list of two categories or more.
        epsilon: the ε of each person's report.

    >>> m = category_response(keys=["a", "b", "c", "d"], epsilon=2)
    >>> m.event
    RandomizedResponse(epsilon=2, categories=4)
    >>> m.statement(0.95, size=10_000)
    'with probability 95 % the error is at most 0.026'
    >>> sorted(m.estimate(m(["a", "b", "a"])))
    ['a', 'b', 'c', 'd']
    """
    key_list = check_keys("keys", keys)
    if len(key_list) < 2:
        raise InvalidArgument("keys", list(key_list), "two categories or more")
    return CategoryResponse(key_list, _checks.positive("epsilon", epsilon))


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
        truth = records.find_positions(values, self.keys)
        shape = (len(truth), len(self.keys))
        reports = np.asarray(np.asarray(noise.categorical([0, -self.epsilon], shape, source=source)) == 1)
        # Both coins are tossed for everybody, so that what is drawn does not depend on what is reported.
        coins = np.asarray(noise.bernoulli(Fraction(1, 2), len(truth), source=source))
        with_key = np.flatnonzero(truth >= 0)
        reports[with_key, truth[with_key]] = coins[with_key]
        return reports

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> dict[Hashable, Estimate]:
        """The share of every category among those asked: unbiased, with intervals that all hold together.

        A report that is no row of bits has none set.
        """
        rows = records.read_table(reports, columns=len(self.keys))
        if not len(rows):
            raise DataError("an estimate needs at least one report")
        shares = ((rows != 0) & ~np.isnan(rows)).mean(axis=0)
        radius = self.error(confidence, size=len(rows))
        estimates = (shares - self.false) / (0.5 - self.false)
        return {key: _interval(float(value), radius) for key, value in zip(self.keys, estimates, strict=True)}

    def variance(self, *, size: int, share: Number) -> float:
        """The variance of one category's estimated share, given that this share of n people has it."""
        true_share, q = float(_checks.probability("share", share)), self.false
        return (true_share / 4 + (1 - true_share) * q * (1 - q)) / ((0.5 - q) ** 2 * _check_people("size", size))

    def error(self, confidence: Number = Fraction(19, 20), *, size: int | None = None) -> float:
        """A bound on the largest error of any estimated share when n people answer."""
        return _hoeffding_radius(failure(confidence) / len(self.keys), _check_people("size", size)) / (0.5 - self.false)


@limit_sizes
def unary_response(*, keys: Iterable[Hashable], epsilon: Number) -> UnaryResponse:
    """Optimised unary encoding: a person reports one bit per category.

    The bit of the true category is set with probability 1/2, each of the others with 1/(e^ε + 1).

    ε-local DP: two categories differ in two bits, whose odds are 1 and e^−ε (Wang, Blocki, Li and Jha 2017). With Q =
    1/(e^ε + 1) and c_v set bits for v, the unbiased estimate of a share is (c_v/n − Q)/(1/2 − Q); its variance is
    4e^ε/(n(e^ε − 1)²) for rare categories, whatever their number. By Hoeffding all k shares are within
    √(ln(2k/β)/(2n))/(1/2 − Q) with probability 1 − β.

    Args:
        keys: the public list of categories.
        epsilon: the ε of each person's report.

    >>> m = unary_response(keys=list(range(100)), epsilon=1)
    >>> m.event
    Claimed(PureDP(epsilon=1, relation=REPLACE))
    >>> m([3, 7]).shape
    (2, 100)
    """
    return UnaryResponse(check_keys("keys", keys), _checks.positive("epsilon", epsilon))


Local: TypeAlias = BinaryResponse | CategoryResponse | UnaryResponse


@dataclass(frozen=True, repr=False)
class ShuffledResponse(Mechanism):
    """The local reports of n people, in an order that hides who sent which."""

    local: Local
    size: int

    @property
    def event(self) -> Event:
        return self.local.event.shuffled(size=self.size)

    def __call__(self, values: object, /, *, source: Source | None = None) -> Any:
        """The shuffled reports of n people."""
        reports = self.local(values, source=source)
        if len(reports) != self.size:
            raise DataError(f"this is about size={self.size} people, which is public; the values have another length")
        order = noise.permutation(self.size, source=source)
        return reports[order] if isinstance(reports, np.ndarray) else [reports[position] for position in order.tolist()]

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> Any:
        """As from unshuffled reports: an estimate does not look at the order."""
        return self.local.estimate(reports, confidence=confidence)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the error of the estimate, as for the local reports."""
        return self.local.error(confidence, size=self.size)


@limit_sizes
def shuffled(local: Local, *, size: int) -> ShuffledResponse:
    """Local reports in random order: the same estimate, and much less to learn about anybody.

    A shuffler that the analyst cannot see through mixes the reports of n people. Everybody keeps the local guarantee
    ε₀, and what the analyst sees satisfies (ε, δ) with ε of order √(e^ε₀ ln(1/δ)/n) (Feldman, McMillan and Talwar 2021,
    2023); the accountant computes it from the event. n is public (REPLACE).

    Args:
        local: a binary, category or unary response.
        size: the public number of people.

    >>> m = shuffled(binary_response(epsilon=1), size=1000)
    >>> m.event
    RandomizedResponse(epsilon=1).shuffled(size=1000)
    >>> m.error(0.95) == binary_response(epsilon=1).error(0.95, size=1000)
    True
    """
    if not isinstance(local, BinaryResponse | CategoryResponse | UnaryResponse):
        raise InvalidArgument(
            "local", local, "a local mechanism", "Use binary_response, category_response or unary_response."
        )
    return ShuffledResponse(local, _checks.count("size", size))
