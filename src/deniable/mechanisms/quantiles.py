"""Quantiles by the exponential mechanism, and the median by smooth sensitivity.

`quantile` needs no δ and works under ADD_REMOVE and REPLACE; its error is in ranks. `median` needs a δ and a public n;
its error is in the unit of the data, and small where the records near the median lie close together.

>>> 0 <= quantile(bounds=(0, 100), q=0.5, epsilon=1)([3, 50, 80]) <= 100
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, noise
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event, ExponentialMechanism
from deniable.guarantees import ApproxDP
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import check_relation
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import LAPLACE, Grid, Source, secure
from deniable.numerics.exact import floor
from deniable.numerics.roots import bisect
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation


@dataclass(frozen=True, repr=False)
class Quantile(Mechanism):
    """One or more quantiles; each costs the same share of the budget."""

    q: tuple[Fraction, ...]
    epsilon: Fraction
    grid: Grid
    single: bool
    stated: Relation

    @property
    def each(self) -> Fraction:
        """The ε of one quantile."""
        return self.epsilon / len(self.q)

    @property
    def event(self) -> Event:
        return ExponentialMechanism(self.each, self.stated) * len(self.q)

    @property
    def points(self) -> int:
        """The number of points of the grid."""
        return self.grid.highest - self.grid.lowest + 1

    def __call__(self, values: object, /, *, source: Source | None = None) -> float | list[float]:
        """The noisy quantiles of the values that are there, in the order of `q`; missing ones are left out."""
        numbers = records.read_numbers(values)
        indices = np.sort(self.grid.place(numbers[~np.isnan(numbers)]))
        stretches = Stretches.of(indices, self.grid)
        chosen = [self._choose(stretches, len(indices), q, source) for q in self.q]
        if self.single:
            return float(chosen[0] * self.grid.step)
        # Quantiles are in order; putting the noisy ones in the order of q is free.
        by_rank = sorted(range(len(self.q)), key=lambda i: self.q[i])
        ordered = dict(zip(by_rank, sorted(chosen), strict=True))
        return [float(ordered[i] * self.grid.step) for i in range(len(chosen))]

    def _choose(self, stretches: Stretches, size: int, q: Fraction, source: Source | None) -> int:
        rate = self.each / (2 * rank_sensitivity(q, self.stated))
        misses = stretches.misses(q * size)
        stretch = int(noise.categorical([-rate * miss for miss in misses], multiples=stretches.sizes, source=source))
        within = noise.uniform(stretches.sizes[stretch], source=source)
        return stretches.starts[stretch] + int(within)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound, for every quantile, on how far the rank of the answer is from q·n."""
        worst = max(rank_sensitivity(q, self.stated) for q in self.q)
        nats = math.log(self.points * len(self.q) / failure(confidence)) * (1 + 1e-12)
        return float_above(2 * worst / self.each * Fraction(nats))


@dataclass(frozen=True)
class Stretches:
    """The grid in stretches of constant rank: first point, number of points, records below, records up to there."""

    starts: list[int]
    sizes: list[int]
    below: list[int]
    upto: list[int]

    @classmethod
    def of(cls, indices: NDArray[np.int64], grid: Grid) -> Stretches:
        """From sorted indices: every different value, and the gaps before, between and after them."""
        values, counts = np.unique(indices, return_counts=True)
        stretches = cls([], [], [], [])
        start, below = grid.lowest, 0
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            stretches._add(start, value - start, below, below)
            stretches._add(value, 1, below, below + count)
            start, below = value + 1, below + count
        stretches._add(start, grid.highest - start + 1, below, below)
        return stretches

    def _add(self, start: int, size: int, below: int, upto: int) -> None:
        if size > 0:
            self.starts.append(start)
            self.sizes.append(size)
            self.below.append(below)
            self.upto.append(upto)

    def misses(self, rank: Fraction) -> list[Fraction]:
        """How far a rank is from each stretch's interval of ranks."""
        zero = Fraction(0)
        return [max(zero, low - rank, rank - high) for low, high in zip(self.below, self.upto, strict=True)]


def rank_sensitivity(q: Fraction, relation: Relation) -> Fraction:
    """How far one record moves the utility of any point."""
    return Fraction(1) if relation is Relation.REPLACE else max(q, 1 - q)


@limit_sizes
def quantile(
    *,
    bounds: tuple[Number, Number],
    q: Number | Iterable[Number],
    epsilon: Number,
    relation: AnyRelation = Relation.ADD_REMOVE,
    step: Number | None = None,
) -> Quantile:
    """Quantiles of a bounded column, by the exponential mechanism on the points of a public grid.

    A point t of the grid has below it L(t) records and at most R(t) at or below it. Its utility is minus the distance
    of the wanted rank q·n from the interval [L(t), R(t)]: 0 exactly where t is a q-quantile, ties included. Adding or
    removing a record moves it by at most max(q, 1 − q), replacing one by at most 1.

    Between two neighbouring values all points have the same utility, so each stretch is one choice with as many copies
    as it has points, and a uniform point within it follows: the exponential mechanism on all points, exactly.

    Accuracy: the rank of the answer is within (2Δ/ε)(ln points + ln(1/β)) of q·n with probability 1 − β.

    Args:
        bounds: the public range (low, high); records outside are clamped to it.
        q: one number between 0 and 1, or a list, whose quantiles cost ε together.
        epsilon: the privacy budget ε of one release.
        relation: ADD_REMOVE or REPLACE.
        step: the grid of the answers; a millionth of the range by default.

    >>> m = quantile(bounds=(0, 100), q=0.5, epsilon=1)
    >>> m.event
    ExponentialMechanism(epsilon=1)
    >>> round(m.error(0.95), 1)      # in ranks
    16.9
    >>> [0 <= value <= 100 for value in quantile(bounds=(0, 100), q=[0.25, 0.75], epsilon=1)([3, 50, 80])]
    [True, True]
    """
    relation = Relation.of(relation)
    single = not isinstance(q, Iterable)
    q_list = list(q) if isinstance(q, Iterable) else [q]
    ranks = tuple(_checks.probability("q", one) for one in q_list)
    if not ranks:
        raise InvalidArgument("q", q, "one quantile or more")
    check_relation(relation, Relation.ADD_REMOVE, Relation.REPLACE, why="A blanked record has no rank.")
    return Quantile(
        q=ranks,
        epsilon=_checks.positive("epsilon", epsilon),
        grid=grids.make_grid(bounds, step),
        single=single,
        stated=relation,
    )


_FLOOR = 1 << 24
"""How far weights fall: the last one counts less than a step of the grid."""

_SLOWEST = Fraction(1, 1 << 18)
"""The least β: weights that fall more slowly are too many to keep."""


@dataclass(frozen=True, repr=False)
class Median(Mechanism):
    """A median with noise scaled to the smooth sensitivity."""

    epsilon: Fraction
    delta: Fraction
    grid: Grid
    size: int

    @property
    def event(self) -> Event:
        return Claimed(ApproxDP(self.epsilon, self.delta, relation=Relation.REPLACE))

    @property
    def alpha(self) -> Fraction:
        """The smooth sensitivity in units of the noise scale."""
        return self.epsilon / 2

    @property
    def beta(self) -> Fraction:
        """How much the smooth sensitivity may change between neighbours, on the log scale, rounded down."""
        return _beta(self.epsilon, self.delta)

    def __call__(self, values: object, /, *, source: Source | None = None) -> float:
        """The noisy median, clamped to the bounds. A missing record counts as the point of the bounds nearest to 0."""
        numbers = records.read_numbers(values)
        records.check_length(numbers, self.size, what="median")
        ordered = np.sort(self.grid.place(numbers))
        scale = smooth_sensitivity(ordered, self.grid, self.beta) / self.alpha
        index = rounded_laplace(int(ordered[(self.size + 1) // 2 - 1]), scale, source)
        return grids.nearest_float(min(max(index, self.grid.lowest), self.grid.highest) * self.grid.step)

    def error(self, confidence: Number = Fraction(19, 20), *, sensitivity: Number | None = None) -> float:
        """A bound on |release − median| for data of at most this smooth sensitivity; by default any data."""
        width = self.grid.high - self.grid.low
        smooth = width if sensitivity is None else _checks.positive("sensitivity", sensitivity)
        noise = smooth / self.alpha * Fraction(-math.log(failure(confidence)) * (1 + 1e-12))
        return float_above(min(noise + self.grid.step, width + 2 * self.grid.step))


@limit_sizes
def median(
    *,
    bounds: tuple[Number, Number],
    size: int,
    epsilon: Number,
    delta: Number,
    step: Number | None = None,
    relation: AnyRelation = Relation.REPLACE,
) -> Median:
    """The median of a bounded column, with noise in proportion to how far this data set's median can be moved.

    The lower one of the middle two if n is even.

    **Smooth sensitivity** (Nissim, Raskhodnikova and Smith 2007). For n sorted records and the median x₍m₎, m = ⌈n/2⌉,
    replacing k records and then one more moves it by at most A_k = max over 0 ≤ t ≤ k+1 of x₍m+t₎ − x₍m+t−k−1₎ (their
    Section 3.1), order statistics out of range being the bounds. With weights W₀ ≥ W₁ ≥ … such that W_k ≤ e^β·W_{k+1},

        S = max over k < K of (W_k/W₀)·A_k,  and (W_K/W₀)·(b − a)

    is at least the local sensitivity A₀, and moves by a factor of at most e^β between neighbours, since A_k(D) ≤
    A_{k+1}(D′).

    **Noise.** The median plus (S/α) times Laplace noise Z is (ε, δ)-DP if

        α + β ≤ ε     and     (e^β − 1)·ln(1/δ) ≤ ε − α + β.

    Proof: on neighbours with scales s = S/α and s′, s = s′e^λ, |λ| ≤ β, the medians differ by at most αs′, so at a
    release of noise Z the loss is at most −λ + α + |Z|(e^λ − 1). For λ ≤ 0 that is at most α + β. For λ > 0 it exceeds
    ε with probability exp(−(ε − α + λ)/(e^λ − 1)), which grows with λ and is at most δ at λ = β. A loss above ε with
    probability at most δ is (ε, δ)-DP.

    α is ε/2. The noisy median is a real number rounded to the grid; the rounding is post-processing, and it is decided
    with as many bits of Z as it takes. n is public (REPLACE).

    Args:
        bounds: the public range (low, high); records outside are clamped to it.
        size: the number of records, where it is public.
        epsilon: the privacy budget ε of one release.
        delta: the δ of (ε, δ)-DP, above 0.
        step: the grid of the records; a millionth of the range by default.
        relation: REPLACE.

    >>> m = median(bounds=(0, 100), size=1001, epsilon=1, delta=1e-6)
    >>> m.event
    Claimed(ApproxDP(epsilon=1, delta=1e-06, relation=REPLACE))
    >>> 0 <= m([50.0] * 1001) <= 100
    True
    >>> round(m.error(0.95, sensitivity=0.01), 2)       # for data whose smooth sensitivity is at most 0.01
    0.06
    """
    relation = Relation.of(relation)
    check_relation(relation, Relation.REPLACE, why="The theorem is about replaced records and a public n.")
    exact_epsilon = _checks.positive("epsilon", epsilon)
    exact_delta = _checks.inner_probability("delta", delta, remedy="Its loss is unbounded: for example delta=1e-6.")
    _beta(exact_epsilon, exact_delta)  # refuses an ε that no β fits
    public_n = _checks.count("size", size)
    _checks.warn_of_delta(exact_delta, size=public_n)
    return Median(epsilon=exact_epsilon, delta=exact_delta, grid=grids.make_grid(bounds, step), size=public_n)


@lru_cache(maxsize=256)
def _beta(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest β found, a multiple of 2**-30, that meets both conditions with α = ε/2; refused below `_SLOWEST`."""
    alpha, nats = float(epsilon / 2), -math.log(float(delta))
    # A β that is smaller meets them too; e^700 is the largest that a float holds.
    most = min(alpha, 700.0)
    largest = bisect(lambda b: math.expm1(b) * nats * (1 + 1e-12) > float(epsilon) - alpha + b, 0.0, most)[0]
    beta = floor(Fraction(largest * (1 - 1e-9)), grid=1 << 30)
    if beta < _SLOWEST:
        raise InvalidArgument(
            "epsilon", float(epsilon), "larger: its noise would drown any median", "At δ = 1e-6 the least is 1e-4."
        )
    return beta


@lru_cache(maxsize=64)
def weights(beta: Fraction) -> tuple[int, ...]:
    """Integers W₀ ≥ … ≥ W_K with W_k ≤ (1 + β)·W_{k+1} ≤ e^β·W_{k+1}, W₀ about 2**24 times W_K."""
    growing = [math.ceil(1024 / beta)]  # so large that rounding down costs a thousandth of the growth
    while growing[-1] < growing[0] * _FLOOR:
        growing.append(growing[-1] + growing[-1] * beta.numerator // beta.denominator)
    return tuple(reversed(growing))


def smooth_sensitivity(ordered: NDArray[np.int64], grid: Grid, beta: Fraction) -> Fraction:
    """S, in grid steps, of sorted indices."""
    w = weights(beta)
    size, m = len(ordered), (len(ordered) + 1) // 2
    width = grid.highest - grid.lowest
    best = w[-1] * width
    # padded[i] is the i-th order statistic; positions out of range are the bounds.
    padded = np.concatenate([[grid.lowest], ordered, [grid.highest]])
    for k, weight in enumerate(w[:-1]):
        if weight * width <= best:
            break
        t = np.arange(k + 2)
        spread = int((padded[np.clip(m + t, 0, size + 1)] - padded[np.clip(m + t - k - 1, 0, size + 1)]).max())
        best = max(best, weight * spread)
        if spread == width:
            break
    return Fraction(best, w[0])


def rounded_laplace(centre: int, scale: Fraction, source: Source | None) -> int:
    """centre + scale·Z rounded half up, Z Laplace noise, exactly: more bits of Z are drawn until it is clear."""
    bits_from = source or secure()
    prefix, bits = bits_from.word(), 64
    while True:
        fixed = bits + 16
        low = LAPLACE.quantile(prefix, bits, bits=fixed)[0]
        high = LAPLACE.quantile(prefix + 1, bits, bits=fixed)[1]
        if low is not None and high is not None:
            bottom, top = (math.floor(scale * end / (1 << fixed) + Fraction(1, 2)) for end in (low, high))
            if bottom == top:
                return centre + bottom
        prefix, bits = prefix << 64 | bits_from.word(), bits + 64
