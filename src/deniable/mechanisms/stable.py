"""Propose-test-release: exact or nearly exact answers where the data are stable, and None elsewhere.

A private test asks how many units must change before the answer could change much. Only if the noisy distance is
large is the answer released. `mode`, `clustered_mean` and `clustered_means` are uses of it; `propose_test_release`
takes any algorithm.

>>> mode(epsilon=1, delta=1e-6)(["flu"] * 60 + ["cold"] * 10)
'flu'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, _values, noise
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import InvalidArgument
from deniable.events import Claimed, DiscreteLaplace, Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import AdditiveNoise, Statistic, check_relation, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.numerics import discrete
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation

_MOST_UNITS = float(1 << 62)
"""More units than any data set has."""


@dataclass(frozen=True, repr=False)
class ProposeTestRelease(Mechanism):
    """A base algorithm behind a private test of its safety."""

    base: Callable[[Any, Source | None], Any] = field(compare=False)
    distance: Callable[[Any], int] = field(compare=False)
    promise: PureDP | ApproxDP
    epsilon: Fraction
    delta: Fraction

    @property
    def event(self) -> Event:
        return Claimed(_total_promise(self.promise, self.epsilon, self.delta))

    def __call__(self, data: Any, /, *, source: Source | None = None) -> Any:
        """What the base algorithm releases, or None if the test failed."""
        data = records.keep_generator(data)
        return self.base(data, source) if _pass_test(self.distance(data), self.epsilon, self.delta, source) else None

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The distance from which on there is an answer with this probability."""
        return distance_needed(self.epsilon, self.delta, confidence)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """0: the test adds nothing to the error of the base algorithm, whose own statement holds for its answers."""
        failure(confidence)
        return 0.0


@limit_sizes
def propose_test_release(
    *,
    base: Callable[[Any, Source | None], Any],
    distance: Callable[[Any], int],
    promise: PureDP | ApproxDP,
    epsilon: Number,
    delta: Number,
) -> ProposeTestRelease:
    """Propose-test-release: run a base algorithm only where the data make it safe, after a private test that they do.

    The base algorithm A is (ε_A, δ_A)-indistinguishable on *safe* data: for every D in SAFE and every neighbour D′.
    `distance` counts how many units must change before the data are no longer safe; any function that is 0 on unsafe
    data and moves by at most 1 between neighbours will do, so a lower bound that is cheap to compute is as sound. The
    test draws discrete Laplace noise X of scale 1/ε_T and passes if distance + X ≥ m, with m the smallest integer for
    which Pr[X ≥ m] ≤ δ_T. If it fails, the release is None.

    This is (ε_T + ε_A, max(δ_T, δ_A))-DP (Dwork and Lei 2009): on unsafe data anything but None is released with
    probability at most δ_T, and None is ε_T-indistinguishable; on safe data the test and A compose. The distance itself
    is never released.

    Args:
        base: the algorithm, called as base(data, source).
        distance: how many units must change before the data are not safe; 0 on unsafe data.
        promise: what the base algorithm guarantees on safe data.
        epsilon: the ε of the test.
        delta: the probability with which the test may pass on unsafe data.

    >>> from deniable.guarantees import PureDP
    >>> def largest(data, source): return max(data)
    >>> m = propose_test_release(base=largest, distance=lambda data: 40, promise=PureDP(0), epsilon=1, delta=1e-6)
    >>> m.event
    Claimed(ApproxDP(epsilon=1, delta=1e-06))
    >>> m([1, 2, 3]), m.needed(0.95)
    (3, 16)
    """
    if not isinstance(promise, PureDP | ApproxDP):
        raise InvalidArgument("promise", promise, "a PureDP or ApproxDP: what the base algorithm keeps on safe data")
    return ProposeTestRelease(
        base, distance, promise,
        _checks.positive("epsilon", epsilon),
        _checks.inner_probability("delta", delta, remedy="The test must be allowed to fail: for example delta=1e-6."),
    )  # fmt: skip


def _total_promise(promise: PureDP | ApproxDP, epsilon: Fraction, delta: Fraction) -> ApproxDP:
    """The guarantee of test and release together."""
    base = promise.delta if isinstance(promise, ApproxDP) else Fraction(0)
    return ApproxDP(epsilon + promise.epsilon, max(delta, base), relation=promise.relation, unit=promise.unit)


def _pass_test(distance: int, epsilon: Fraction, delta: Fraction, source: Source | None) -> bool:
    """Runs the private test: whether distance plus noise reaches the threshold. What is no number counts as 0."""
    number = _values.number(distance)
    units = 0 if math.isnan(number) or number < 0 else math.floor(min(number, _MOST_UNITS))
    sample = noise.discrete_laplace(DiscreteLaplace(1 / epsilon).scale, source=source)
    return units + int(sample) >= discrete.laplace_threshold(1 / epsilon, delta)


def distance_needed(epsilon: Fraction, delta: Fraction, confidence: Number) -> int:
    """The distance d with Pr[d + X ≥ m] ≥ confidence: X ≤ m − d − 1 fails, and −X has the law of X."""
    bar = discrete.laplace_threshold(1 / epsilon, delta)
    return max(bar - 1 + discrete.laplace_threshold(1 / epsilon, failure(confidence)), 0)


@dataclass(frozen=True, repr=False)
class Mode(Mechanism):
    """The most common value, or None."""

    epsilon: Fraction
    delta: Fraction
    stated: Relation

    @property
    def event(self) -> Event:
        return Claimed(_total_promise(PureDP(0, relation=self.stated), self.epsilon, self.delta))

    def __call__(self, values: object, /, *, source: Source | None = None) -> Hashable | None:
        """The exact mode, or None if the test failed. Missing values are left out."""
        most_common, gap = find_mode(records.read_keys(values))
        return most_common if _pass_test(mode_distance(gap, self.stated), self.epsilon, self.delta, source) else None

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The gap between the two largest counts from which on the mode is released with this probability."""
        distance = distance_needed(self.epsilon, self.delta, confidence)
        return 2 * distance + 1 if self.stated is Relation.REPLACE else distance + 1

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """0: what is released is the mode."""
        failure(confidence)
        return 0.0


@limit_sizes
def mode(*, epsilon: Number, delta: Number, relation: AnyRelation = Relation.ADD_REMOVE) -> Mode:
    """The most common value, by propose-test-release: exact when it is released at all.

    The mode itself is released, so data are safe when no neighbour has another mode. With g the gap between the two
    largest counts and a fixed rule for ties, the distance to unsafe data is max(0, ⌈g/2⌉ − 1) under REPLACE and max(0,
    g − 1) under ADD_REMOVE. Values may come from any set, even the real numbers: none is listed beforehand.

    Exercise: noisy histogram or PTR? A noisy histogram (or noisy max, which needs no more noise for k counts than for
    one) must know its k keys and always answers; the winner is the true one with high probability once the gap is about
    (ln k)/ε. PTR needs a gap of about 2 ln(1/δ)/ε, whatever k, and says nothing below that. `histogram_or_ptr` puts
    numbers to it.

    Args:
        epsilon: the privacy budget ε of one release.
        delta: the probability with which the test may pass on unsafe data.
        relation: ADD_REMOVE or REPLACE.

    >>> m = mode(epsilon=1, delta=1e-6)
    >>> m(["flu"] * 60 + ["cold"] * 10), m(["flu", "cold"])
    ('flu', None)
    >>> m.needed(0.95)
    17
    >>> [histogram_or_ptr(epsilon=1, delta=1e-6, keys=keys).better for keys in (100, 10**9)]
    ['noisy max', 'propose-test-release']
    """
    relation = Relation.of(relation)
    check_relation(relation, Relation.ADD_REMOVE, Relation.REPLACE, why="A blanked record has no value.")
    exact_delta = _checks.inner_probability(
        "delta", delta, remedy="The test must be allowed to fail: for example delta=1e-6."
    )
    return Mode(_checks.positive("epsilon", epsilon), exact_delta, relation)


def find_mode(values: list[Hashable]) -> tuple[Hashable | None, int]:
    """The mode and its lead over the next. Ties go by the printed form of a value, which no other record can change."""
    ranked = sorted(records.tally(values), key=lambda pair: -pair[1])
    if not ranked:
        return None, 0
    (first, most), *others = ranked
    return first, most - (others[0][1] if others else 0)


def mode_distance(gap: int, relation: Relation) -> int:
    """How many records must change before one more can change the mode."""
    return max(0, (gap + 1) // 2 - 1) if relation is Relation.REPLACE else max(0, gap - 1)


@dataclass(frozen=True)
class ModeComparison:
    """The gap that each way of finding the mode needs, to be right with the given probability."""

    noisy_max_gap: int
    ptr_gap: int

    @property
    def better(self) -> str:
        """The one that needs the smaller gap."""
        return "noisy max" if self.noisy_max_gap <= self.ptr_gap else "propose-test-release"


@limit_sizes
def histogram_or_ptr(
    *,
    epsilon: Number,
    delta: Number,
    keys: int,
    confidence: Number = Fraction(19, 20),
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> ModeComparison:
    """The exercise of the notes, in numbers: with a histogram of `keys` public keys or by propose-test-release?

    Noisy max with exponential noise of scale b misses if another noise exceeds the gap: (keys − 1)·e^{−gap/b} at most.
    """
    relation = Relation.of(relation)
    key_count = _checks.count("keys", keys, least=2)
    exact_epsilon = _checks.positive("epsilon", epsilon)
    scale = (2 if relation is Relation.REPLACE else 1) / exact_epsilon
    gap = math.ceil(float(scale) * math.log((key_count - 1) / failure(confidence)))
    return ModeComparison(max(gap, 1), mode(epsilon=epsilon, delta=delta, relation=relation).needed(confidence))


_STEPS = 1 << 20
_FARTHEST_STEP = float(1 << 62)


@dataclass(frozen=True, repr=False)
class ClusteredMean(Mechanism):
    """A trimmed mean of n records, or None if they do not lie close enough together."""

    width: Fraction
    size: int
    trim: int
    epsilon: Fraction
    delta: Fraction
    noise: AdditiveNoise = field(repr=False)

    @property
    def event(self) -> Event:
        half = self.epsilon / 2
        return Claimed(_total_promise(PureDP(half, relation=Relation.REPLACE), half, self.delta))

    @property
    def step(self) -> Fraction:
        """The grid that records are placed on: a millionth of the proposed width."""
        return self.width / _STEPS

    def __call__(self, values: object, /, *, source: Source | None = None) -> float | None:
        """The noisy trimmed mean, or None. A missing record counts as 0, one beyond 2**62 steps as lying there."""
        numbers = records.read_numbers(values)
        records.check_length(numbers, self.size, what="mean")
        ordered = _in_steps(numbers, self.step)
        if not _pass_test(spread_distance(ordered, self.trim, _STEPS), self.epsilon / 2, self.delta, source):
            return None
        trimmed = ordered[self.trim : self.size - self.trim]
        total = self.noise.release_one(sum(trimmed.tolist()), source)
        return grids.nearest_float(total / len(trimmed) * self.step)

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The distance from which on there is an answer with this probability; it is at most `trim`."""
        return distance_needed(self.epsilon / 2, self.delta, confidence)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − trimmed mean| for answers that are given, rounding included."""
        trimmed_size = self.size - 2 * self.trim
        return float_above(self.noise.radius(failure(confidence)) * self.step / trimmed_size + self.step / 2)


@limit_sizes
def clustered_mean(
    *,
    width: Number,
    size: int,
    epsilon: Number,
    delta: Number,
    trim: int | None = None,
    relation: AnyRelation = Relation.REPLACE,
) -> ClusteredMean:
    """The mean of data that lie close together, without bounds: propose-test-release with a trimmed mean.

    The plain mean of unbounded data is never safe: one record can move it anywhere. The m-trimmed mean, over x₍m+1₎ …
    x₍n−m₎ in order, moves by at most w/(n − 2m) when a record is replaced, with w = x₍n−m+1₎ − x₍m₎. The analyst
    proposes a width τ without looking at the data; data with w ≤ τ are safe, and how many records must be replaced
    before w exceeds τ is

        d = min{k : max over 0 ≤ t ≤ k of x₍n−m+1+t₎ − x₍m−k+t₎ > τ},     order statistics out of range being ±∞.

    Half of ε pays for the test, half for Laplace noise of scale 2τ/((n − 2m)ε) on the trimmed mean. n is public
    (REPLACE). As d is never above m, m must exceed about 2 ln(1/δ)/ε for the test ever to pass; by default it is chosen
    so that clustered data pass with probability 99.9 %.

    Args:
        width: how far apart the records are believed to lie; proposed without looking at them.
        size: the number of records, where it is public.
        epsilon: the privacy budget ε of one release.
        delta: the probability with which the test may pass on unsafe data.
        trim: how many records are left out on either side; enough for the test by default.
        relation: REPLACE.

    >>> m = clustered_mean(width=1, size=1000, epsilon=1, delta=1e-6)
    >>> m.trim, m.statement(0.95)
    (39, 'with probability 95 % the error is at most 0.00651')
    >>> m.needed(0.999) <= m.trim      # so that data all in one place are answered with probability 99.9 %
    True
    """
    exact_width = _check_width("width", width)
    exact_epsilon, exact_delta, public_n, trim_size = _check_test(epsilon, delta, size, trim, relation)
    (additive_noise,) = fit(
        [Statistic(_STEPS)], epsilon=exact_epsilon / 2, delta=Fraction(0), relation=Relation.REPLACE
    )
    return ClusteredMean(exact_width, public_n, trim_size, exact_epsilon, exact_delta, additive_noise)


def _in_steps(numbers: NDArray[np.float64], step: Fraction) -> NDArray[np.int64]:
    """A column in steps of a grid, in order. A missing number counts as 0, one beyond 2**62 steps as lying there."""
    with np.errstate(over="ignore"):
        scaled = np.nan_to_num(numbers, nan=0.0) / float(step)
    return np.sort(np.rint(np.clip(scaled, -_FARTHEST_STEP, _FARTHEST_STEP)).astype(np.int64))


@dataclass(frozen=True, repr=False)
class ClusteredMeans(Mechanism):
    """The trimmed means of several columns over n records, or None if some column does not lie close together."""

    widths: tuple[Fraction, ...]
    size: int
    trim: int
    epsilon: Fraction
    delta: Fraction
    noise: AdditiveNoise = field(repr=False)

    @property
    def event(self) -> Event:
        half = self.epsilon / 2
        return Claimed(_total_promise(ApproxDP(half, self.delta, relation=Relation.REPLACE), half, self.delta))

    def __call__(self, rows: object, /, *, source: Source | None = None) -> NDArray[np.float64] | None:
        """The noisy trimmed means of n rows, or None. A missing value counts as 0."""
        table = records.read_table(rows, columns=len(self.widths))
        records.check_length(table, self.size, what="vector of means")
        columns = [_in_steps(table[:, column], width / _STEPS) for column, width in enumerate(self.widths)]
        distance = min(spread_distance(ordered, self.trim, _STEPS) for ordered in columns)
        if not _pass_test(distance, self.epsilon / 2, self.delta, source):
            return None
        totals = [sum(ordered[self.trim : self.size - self.trim].tolist()) for ordered in columns]
        noisy = self.noise.release(totals, source)
        left = self.size - 2 * self.trim
        means = [total / left * width / _STEPS for total, width in zip(noisy, self.widths, strict=True)]
        return np.array([grids.nearest_float(mean) for mean in means])

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The distance from which on there is an answer with this probability; it is at most `trim`."""
        return distance_needed(self.epsilon / 2, self.delta, confidence)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest |release − trimmed mean|, in the widest column, for answers that are given."""
        step = max(self.widths) / _STEPS
        return float_above(self.noise.radius(failure(confidence)) * step / (self.size - 2 * self.trim) + step / 2)


@limit_sizes
def clustered_means(
    *,
    widths: Sequence[Number],
    size: int,
    epsilon: Number,
    delta: Number,
    trim: int | None = None,
    relation: AnyRelation = Relation.REPLACE,
) -> ClusteredMeans:
    """The means of several columns that each lie close together, without bounds: propose-test-release for vectors.

    Every column is trimmed as in `clustered_mean`. Data are safe if every column's width is at most what was proposed
    for it, so the distance to unsafe data is the least of the columns' distances: to leave the safe set it is enough to
    widen one column, and a record that is replaced for that may keep its other values. On safe data a replaced record
    moves the trimmed mean of column j by at most τ_j/(n − 2m), so the vector of means in units of its widths has L2
    sensitivity √d/(n − 2m). Half of ε pays for one test of all columns, half for Gaussian noise of standard deviation
    τ_j·√d/((n − 2m)μ), where μ is the largest that keeps (ε/2, δ). The whole is (ε, δ)-DP, as for every
    propose-test-release.

    Laplace noise for d columns would need a scale that grows with d, not √d. For one column `clustered_mean`, with
    Laplace noise, is the better one unless ε is small or many means are composed.

    Args:
        widths: how far apart the records of each column are believed to lie; proposed without looking at them.
        size: the number of records, where it is public.
        epsilon: the privacy budget ε of one release.
        delta: of (ε, δ)-DP; also the probability with which the test may pass on unsafe data.
        trim: how many records are left out on either side of each column; enough for the test by default.
        relation: REPLACE.

    >>> m = clustered_means(widths=[1] * 100, size=10_000, epsilon=1, delta=1e-6)
    >>> m.trim, m.statement(0.95)
    (39, 'with probability 95 % the error is at most 0.0305')
    >>> m.event
    Claimed(ApproxDP(epsilon=1, delta=1e-06, relation=REPLACE))
    """
    if not isinstance(widths, list | tuple | np.ndarray) or not len(widths):
        raise InvalidArgument("widths", widths, "one width per column", "For example [1, 1, 0.5].")
    exact_widths = tuple(_check_width("widths", width) for width in widths)
    exact_epsilon, exact_delta, public_n, trim_size = _check_test(epsilon, delta, size, trim, relation)
    d = len(exact_widths)
    statistic = Statistic(_STEPS, d, d, Fraction(d), d)
    (additive_noise,) = fit([statistic], epsilon=exact_epsilon / 2, delta=exact_delta, relation=Relation.REPLACE)
    return ClusteredMeans(exact_widths, public_n, trim_size, exact_epsilon, exact_delta, additive_noise)


def _check_width(name: str, width: Number) -> Fraction:
    """A proposed width."""
    return _checks.between(
        name, width, low=Fraction(1, 10**290), high=10**290,
        expected="between 1e-290 and 1e290", remedy="Change the unit.",
    )  # fmt: skip


def _check_test(
    epsilon: Number, delta: Number, size: int, trim: int | None, relation: AnyRelation
) -> tuple[Fraction, Fraction, int, int]:
    """ε, δ, the number of records and how many are trimmed, for a test that half of ε pays for."""
    relation = Relation.of(relation)
    check_relation(relation, Relation.REPLACE, why="The theorem is about replaced records and a public n.")
    exact_epsilon = _checks.positive("epsilon", epsilon)
    exact_delta = _checks.inner_probability(
        "delta", delta, remedy="The test must be allowed to fail: for example delta=1e-6."
    )
    public_n = _checks.count("size", size)
    _checks.warn_of_delta(exact_delta, size=public_n)
    trim_size = (
        distance_needed(exact_epsilon / 2, exact_delta, Fraction(999, 1000))
        if trim is None
        else _checks.count("trim", trim)
    )
    if 2 * trim_size >= public_n:
        remedy = f"This ε and δ need trim={trim_size} and n above {2 * trim_size}."
        if trim is None:
            raise InvalidArgument("size", size, "more than twice as many records as are trimmed", remedy)
        raise InvalidArgument("trim", trim, "below half of the records", remedy)
    return exact_epsilon, exact_delta, public_n, trim_size


def spread_distance(ordered: NDArray[np.int64], trim: int, width: int) -> int:
    """How many records must be replaced before the (trimmed) spread exceeds the width; 0 if it does."""
    size = len(ordered)
    padded = [-math.inf, *ordered.tolist(), math.inf]  # padded[i] is the i-th order statistic, i from 1
    for k in range(trim + 1):
        for t in range(k + 1):
            high, low = size - trim + 1 + t, trim - k + t
            if low <= 0 or high > size or padded[high] - padded[low] > width:
                return k
    return trim
