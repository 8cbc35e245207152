"""Exact choices among candidates by their scores: the exponential mechanism, and the winner of a race with noise.

`categorical` draws with probabilities proportional to multiples·exp(rate·score). `race` and `ranking` add continuous
noise to every score and find the largest, without computing the noise to more digits than the decision needs.

>>> int(categorical([0, -50])) in (0, 1), race([0, 100], rate=1) in (0, 1)
(True, True)

**Races.** Contestant i runs with ``rate * scores[i] + N_i``, the N_i independent with a continuous law. The winner
under

- `GUMBEL` noise is i with probability proportional to exp(rate * scores[i]): the exponential mechanism (Gumbel 1954;
  Yellott 1977); the first k in order are k draws of it without replacement;
- `EXPONENTIAL` noise is the choice of permute-and-flip (McKenna and Sheldon 2020; Ding, Kifer et al. 2021);
- `LAPLACE` noise is report noisy max.

The noise of a contestant is the quantile function at a uniform U, of which one word is read. Quantile functions
increase, so a word confines the noise to an interval with certified ends. A table of coarse intervals excludes the
contestants that cannot win, all at once and in integers. The others are compared with all bits of their words, and two
whose intervals still overlap get more bits. Ties have probability 0, so no rule for ties is needed and nothing is
rounded.

>>> from deniable.noise.source import InsecureSource
>>> race([0, 0, 10**6], source=InsecureSource(1)), ranking([5, 900, 70, 40000], 2, source=InsecureSource(1))
(2, [3, 1])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from math import lcm
from typing import overload

import numpy as np
from numpy.typing import NDArray

from deniable import _values
from deniable._checks import Number, count, exact, member, positive
from deniable.errors import InvalidArgument
from deniable.noise.enclosure import log, take
from deniable.noise.laws import DrawTable, Weights
from deniable.noise.shapes import Shape, Size, fill
from deniable.noise.source import Source, Words, secure


@dataclass(frozen=True)
class Gaps:
    """Score i lies ``below[i] * unit`` below the best, times the rate."""

    below: list[int]
    unit: Fraction


def gaps(scores: Iterable[int | Fraction], *, rate: Number = 1, eligible: list[bool] | None = None) -> Gaps:
    """How far each score lies below the best eligible one, as exact multiples of one unit.

    Scores that are not eligible have gap 0.

    >>> gaps([3, Fraction(5, 2), 0], rate=2)
    Gaps(below=[0, 1, 6], unit=Fraction(1, 1))
    """
    exact_scores = list(scores)
    unit = positive("rate", rate)
    common = lcm(*{score.denominator for score in exact_scores})
    heights = [score.numerator * (common // score.denominator) for score in exact_scores]
    if eligible is None:
        best = max(heights, default=0)
        return Gaps([best - height for height in heights], unit / common)
    best = max((height for height, may in zip(heights, eligible, strict=True) if may), default=0)
    below = [best - height if may else 0 for height, may in zip(heights, eligible, strict=True)]
    return Gaps(below, unit / common)


def read_scores(scores: object) -> list[int | Fraction]:
    """Read private scores one by one: a float means its shortest decimal, and a score that is not finite is 0."""
    array = _values.array_of(scores)
    if array is not None and array.ndim != 1:
        raise InvalidArgument("scores", f"an array of {array.ndim} dimensions", "a list of numbers")
    return [_score(score) for score in (_values.items(scores) if array is None else array.tolist())]


_FLOATS = (float, np.float64, np.float32, np.float16)
"""Plain floats. One of a type derived from them may have methods of its own, which may raise."""


def _score(score: object) -> int | Fraction:
    if isinstance(score, _FLOATS) and type(score) in _FLOATS:
        return exact(score) if np.isfinite(score) else 0
    return _values.exact(score)


def check_exact_numbers(name: str, values: Iterable[Number]) -> list[Fraction | int]:
    """Read finite numbers that are parameters of a law. A refusal names the type of the wrong one, not its value."""
    exact_values: list[Fraction | int] = []
    for value in values.tolist() if isinstance(values, np.ndarray) else values:
        if type(value) is int:
            exact_values.append(value)
            continue
        try:
            exact_values.append(exact(value))
        except (TypeError, ValueError):
            kind = "a float that is not finite" if isinstance(value, float) else type(value).__name__
            raise InvalidArgument(name, kind, "finite numbers") from None
    return exact_values


class Categorical:
    """Draws k with probability proportional to multiples[k] * exp(rate * log_weights[k]), exactly.

    One object serves many draws from the same weights. It is not cached, because weights may hold private data. Their
    normalising sum is irrational; it is bounded to as many bits as a draw needs, never rounded (see `laws.DrawTable`).

    Args:
        log_weights: rational numbers, one for each choice.
        rate: a factor of all log-weights.
        multiples: whole numbers, such as the size of a group; 1 for every choice if left out.
        word_bits: below 64 only in tests.

    >>> from deniable.noise.source import InsecureSource
    >>> categorical([0, -1, -50], 8, source=InsecureSource(4)).tolist()
    [0, 1, 1, 0, 1, 1, 0, 0]
    """

    def __init__(
        self,
        log_weights: Iterable[Number],
        *,
        rate: Number = 1,
        multiples: Iterable[int] | None = None,
        word_bits: int = 64,
    ) -> None:
        weights = list(log_weights)
        times = [1] * len(weights) if multiples is None else check_exact_numbers("multiples", multiples)
        if any(m < 0 or m.denominator > 1 for m in times):
            raise InvalidArgument("multiples", "another number", "whole numbers, 0 or more")
        if len(times) != len(weights):
            raise InvalidArgument("multiples", len(times), f"as many as log_weights, {len(weights)}")
        if not any(times):
            raise InvalidArgument("log_weights", "none", "at least one choice of positive weight")
        distances = gaps(check_exact_numbers("log_weights", weights), rate=rate, eligible=[m > 0 for m in times])
        self._table = DrawTable(
            Weights(tuple(distances.below), distances.unit, tuple(m.numerator for m in times)), word_bits=word_bits
        )

    def draw_one(self, source: Source) -> int:
        return self._table.draw_one(source)

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return self._table.draw(size, source)


@overload
def categorical(
    log_weights: Iterable[Number],
    size: None = None,
    *,
    rate: Number = 1,
    multiples: Iterable[int] | None = None,
    source: Source | None = None,
) -> int: ...
@overload
def categorical(
    log_weights: Iterable[Number],
    size: Shape,
    *,
    rate: Number = 1,
    multiples: Iterable[int] | None = None,
    source: Source | None = None,
) -> NDArray[np.int64]: ...
def categorical(
    log_weights: Iterable[Number],
    size: Size = None,
    *,
    rate: Number = 1,
    multiples: Iterable[int] | None = None,
    source: Source | None = None,
) -> NDArray[np.int64] | int:
    """Positions in `log_weights`, drawn with probability proportional to multiples * exp(rate * log_weights).

    Args:
        log_weights: rational numbers, one for each choice.
        size: None for one position, else the shape of an array.
        rate: a factor of all log-weights.
        multiples: whole numbers, such as the size of a group; 1 for every choice if left out.
        source: where random bits come from; the operating system, if it is left out.
    """
    sampler = Categorical(log_weights, rate=rate, multiples=multiples)
    source = source or secure()
    return fill(size, lambda: sampler.draw_one(source), lambda many: sampler.draw(many, source))


class ContinuousNoise(Enum):
    """A continuous law, by its quantile function."""

    GUMBEL = "gumbel"
    EXPONENTIAL = "exponential"
    LAPLACE = "laplace"

    def quantile(self, index: int, of_bits: int, *, bits: int) -> tuple[int | None, int | None]:
        """Bounds of the quantile at ``U = index / 2**of_bits``, times ``2**bits``; None is the infinity at that end."""
        one = 1 << of_bits
        if index == 0:
            return (0, 0) if self is ContinuousNoise.EXPONENTIAL else (None, None)
        if index == one:
            return None, None
        if self is ContinuousNoise.EXPONENTIAL:
            return log(one, one - index, bits=bits)
        if self is ContinuousNoise.LAPLACE:
            return log(2 * index, one, bits=bits) if 2 * index <= one else log(one, 2 * (one - index), bits=bits)
        # Gumbel: -log(-log U). Near U = 1 the inner logarithm is as small as 2**-of_bits, and must stay positive.
        inner = bits + 2 * of_bits + 8
        low, high = log(one, index, bits=inner)
        return -log(high, 1 << inner, bits=bits)[1], -log(low, 1 << inner, bits=bits)[0]

    def __repr__(self) -> str:
        return self.name


GUMBEL = ContinuousNoise.GUMBEL
EXPONENTIAL = ContinuousNoise.EXPONENTIAL
LAPLACE = ContinuousNoise.LAPLACE


def race(
    scores: Iterable[Number], *, rate: Number = 1, noise: ContinuousNoise = GUMBEL, source: Source | None = None
) -> int:
    """The position of the winner.

    Args:
        scores: one for each contestant. They may be private: one that is not a finite number is 0.
        rate: a factor of all scores.
        noise: the law of the noise: `GUMBEL`, `EXPONENTIAL` or `LAPLACE`.
        source: where random bits come from; the operating system, if it is left out.
    """
    return ranking(scores, 1, rate=rate, noise=noise, source=source)[0]


def ranking(
    scores: Iterable[Number],
    places: int,
    *,
    rate: Number = 1,
    noise: ContinuousNoise = GUMBEL,
    source: Source | None = None,
    word_bits: int = 64,
) -> list[int]:
    """The positions of the first contestants, winner first.

    Args:
        scores: one for each contestant. They may be private: one that is not a finite number is 0.
        places: how many positions to return.
        rate: a factor of all scores.
        noise: the law of the noise: `GUMBEL`, `EXPONENTIAL` or `LAPLACE`.
        source: where random bits come from; the operating system, if it is left out.
        word_bits: below 64 only in tests.
    """
    member("noise", noise, ContinuousNoise, remedy="Pass noise.GUMBEL, noise.EXPONENTIAL or noise.LAPLACE.")
    starts = gaps(read_scores(scores), rate=rate)
    places = count("places", places)
    if len(starts.below) < places:
        raise InvalidArgument("places", places, f"at most the number of scores, {len(starts.below)}")
    source = source or secure()
    words = source.words(len(starts.below)) >> np.uint64(64 - word_bits)
    hopefuls = _possible_winners(starts, words, places, noise, word_bits).tolist()
    field = [_Runner(i, -starts.below[i] * starts.unit, int(words[i]), word_bits, noise) for i in hopefuls]

    def compare(one: _Runner, other: _Runner) -> int:
        return one.against(other, source, word_bits)

    runners = sorted(field, key=cmp_to_key(compare), reverse=True)
    return [runner.index for runner in runners[:places]]


class _Runner:
    """A contestant, with the bits of its U that were read so far."""

    def __init__(self, index: int, start: Fraction, prefix: int, bits: int, noise: ContinuousNoise) -> None:
        self.index, self.start, self.prefix, self.bits, self.noise = index, start, prefix, bits, noise
        self._enclose()

    def _enclose(self) -> None:
        """Bounds of start plus noise, times 2**fixed; None where the noise is unbounded."""
        self.fixed = self.bits + 32
        low = self.noise.quantile(self.prefix, self.bits, bits=self.fixed)[0]
        high = self.noise.quantile(self.prefix + 1, self.bits, bits=self.fixed)[1]
        whole, rest = divmod(self.start.numerator << self.fixed, self.start.denominator)
        self.low = None if low is None else low + whole
        self.high = None if high is None else high + whole + (rest > 0)

    def extend(self, source: Source, word_bits: int) -> None:
        self.prefix = self.prefix << word_bits | take(source, word_bits)
        self.bits += word_bits
        self._enclose()

    def ahead_of(self, other: _Runner) -> bool:
        """Whether this one is proven to be ahead."""
        return (
            self.low is not None
            and other.high is not None
            and self.low << max(other.fixed - self.fixed, 0) >= other.high << max(self.fixed - other.fixed, 0)
        )

    def against(self, other: _Runner, source: Source, word_bits: int) -> int:
        """1 if this one is ahead, -1 if the other; both get more bits until it is clear."""
        if self is other:
            return 0
        while True:
            if self.ahead_of(other):
                return 1
            if other.ahead_of(self):
                return -1
            # The runner with fewer bits is extended first, so that one that is compared often does not outgrow the
            # rest.
            shorter, longer = (self, other) if self.bits < other.bits else (other, self)
            shorter.extend(source, word_bits)
            if longer.bits < shorter.bits:
                longer.extend(source, word_bits)


_COARSE = 20  # binary places of the coarse intervals
_FURTHEST = -(1 << 60)  # starts further behind are cut to this
_UNBOUNDED = 1 << 62  # stands for infinity, at either end


def _possible_winners(
    gaps: Gaps, words: Words, places: int, noise: ContinuousNoise, word_bits: int
) -> NDArray[np.intp]:
    """The runners that may finish among the first `places`, by coarse intervals. No runner who does is excluded."""
    edges, noise_low, noise_high = _coarse(noise, word_bits)
    cells = np.searchsorted(edges, words, side="right") - 1
    low, high = noise_low[cells], noise_high[cells]
    top, bottom = gaps.unit.numerator << _COARSE, gaps.unit.denominator
    starts = np.array([max(-below * top // bottom, _FURTHEST) for below in gaps.below], dtype=np.int64)
    # A start that was cut is bounded above by the cut, and not bounded below.
    low = np.where((starts > _FURTHEST) & (low > -_UNBOUNDED), low + starts, -_UNBOUNDED)
    high = np.where(high < _UNBOUNDED, high + starts + 1, _UNBOUNDED)
    mark = np.partition(low, len(low) - places)[len(low) - places]  # `places` runners are proven to reach this
    return np.flatnonzero(high >= mark)


@lru_cache(maxsize=8)
def _coarse(noise: ContinuousNoise, word_bits: int) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
    """Cells of words, finer towards both ends, with bounds of the noise on each."""
    half = 1 << (word_bits - 1)
    corners = {0} | {lead << shift for lead in (4, 5, 6, 7) for shift in range(word_bits)} | {1, 2, 3}
    left = sorted(corner for corner in corners if corner <= half)
    edges = sorted(set(left) | {2 * half - corner for corner in left})
    bounds = [noise.quantile(edge, word_bits, bits=_COARSE) for edge in edges]
    low = [-_UNBOUNDED if pair[0] is None else pair[0] for pair in bounds[:-1]]
    high = [_UNBOUNDED if pair[1] is None else pair[1] for pair in bounds[1:]]
    return np.array(edges[:-1], dtype=np.uint64), np.array(low), np.array(high)
