"""The median of a bounded column, with noise in proportion to how far this data set's median can be moved.

**Smooth sensitivity** (Nissim, Raskhodnikova and Smith 2007). For n sorted records and the median x₍m₎, m = ⌈n/2⌉,
replacing k records and then one more moves it by at most A_k = max over 0 ≤ t ≤ k+1 of x₍m+t₎ − x₍m+t−k−1₎ (their
Section 3.1), order statistics out of range being the bounds. With weights W₀ ≥ W₁ ≥ … such that W_k ≤ e^β·W_{k+1},

    S = max over k < K of (W_k/W₀)·A_k,  and (W_K/W₀)·(b − a)

is at least the local sensitivity A₀, and moves by a factor of at most e^β between neighbours, since A_k(D) ≤
A_{k+1}(D′).

**Noise.** The median plus (S/α) times Laplace noise Z is (ε, δ)-DP if

    α + β ≤ ε     and     (e^β − 1)·ln(1/δ) ≤ ε − α + β.

Proof: on neighbours with scales s = S/α and s′, s = s′e^λ, |λ| ≤ β, the medians differ by at most αs′, so at a
release of noise Z the loss is at most −λ + α + |Z|(e^λ − 1). For λ ≤ 0 that is at most α + β. For λ > 0 it exceeds ε
with probability exp(−(ε − α + λ)/(e^λ − 1)), which grows with λ and is at most δ at λ = β. A loss above ε with
probability at most δ is (ε, δ)-DP.

α is ε/2. The noisy median is a real number rounded to the grid; the rounding is post-processing, and it is decided
with as many bits of Z as it takes. n is public (REPLACE).

>>> m = median(bounds=(0, 100), n=1001, epsilon=1, delta=1e-6)
>>> m.event
Claimed(ApproxDP(epsilon=1, delta=1e-06, relation=REPLACE))
>>> 0 <= m([50.0] * 1001) <= 100
True
>>> round(m.error(0.95, sensitivity=0.01), 2)       # for data whose smooth sensitivity is at most 0.01
0.06
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids, lengths, records
from deniable.mechanisms.additive import relation_of
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import LAPLACE, Grid, Source, secure
from deniable.units import Relation

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
    n: int

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
        found = records.numbers(values)
        lengths.held(found, self.n, what="median")
        ordered = np.sort(self.grid.place(found))
        scale = smooth_sensitivity(ordered, self.grid, self.beta) / self.alpha
        index = rounded_laplace(int(ordered[(self.n + 1) // 2 - 1]), scale, source)
        return grids.float_of(min(max(index, self.grid.lowest), self.grid.highest) * self.grid.step)

    def error(self, confidence: Number = Fraction(19, 20), *, sensitivity: Number | None = None) -> float:
        """A bound on |release − median| for data of at most this smooth sensitivity; by default any data."""
        width = self.grid.high - self.grid.low
        smooth = width if sensitivity is None else _checks.positive("sensitivity", sensitivity)
        noise = smooth / self.alpha * Fraction(-math.log(failure(confidence)) * (1 + 1e-12))
        return float_above(min(noise + self.grid.step, width + 2 * self.grid.step))


def median(
    *,
    bounds: tuple[Number, Number],
    n: int,
    epsilon: Number,
    delta: Number,
    step: Number | None = None,
    relation: Relation = Relation.REPLACE,
) -> Median:
    """The median of n bounded records (the lower one of the middle two if n is even)."""
    relation_of(relation, Relation.REPLACE, why="The theorem is about replaced records and a public n.")
    budget = _checks.positive("epsilon", epsilon)
    allowed = _checks.inner_probability("delta", delta, remedy="Its loss is unbounded: for example delta=1e-6.")
    _beta(budget, allowed)  # refuses an ε that no β fits
    return Median(
        epsilon=budget,
        delta=allowed,
        grid=grids.record_grid(bounds, step),
        n=_checks.count("n", n),
    )


@lru_cache(maxsize=256)
def _beta(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest β found, a multiple of 2**-30, that meets both conditions with α = ε/2; refused below `_SLOWEST`."""
    alpha, nats = float(epsilon / 2), -math.log(float(delta))
    low, high = 0.0, alpha
    for _ in range(60):
        middle = (low + high) / 2
        fits = math.expm1(middle) * nats * (1 + 1e-12) <= float(epsilon) - alpha + middle
        low, high = (middle, high) if fits else (low, middle)
    found = Fraction(math.floor(low * (1 << 30) * (1 - 1e-9)), 1 << 30)
    if found < _SLOWEST:
        raise InvalidArgument(
            "epsilon", float(epsilon), "larger: its noise would drown any median", "At δ = 1e-6 the least is 1e-4."
        )
    return found


@lru_cache(maxsize=64)
def weights(beta: Fraction) -> tuple[int, ...]:
    """Integers W₀ ≥ … ≥ W_K with W_k ≤ (1 + β)·W_{k+1} ≤ e^β·W_{k+1}, W₀ about 2**24 times W_K."""
    found = [math.ceil(1024 / beta)]  # so large that rounding down costs a thousandth of the growth
    while found[-1] < found[0] * _FLOOR:
        found.append(found[-1] + found[-1] * beta.numerator // beta.denominator)
    return tuple(reversed(found))


def smooth_sensitivity(ordered: NDArray[np.int64], grid: Grid, beta: Fraction) -> Fraction:
    """S, in grid steps, of sorted indices."""
    w = weights(beta)
    n, m = len(ordered), (len(ordered) + 1) // 2
    width = grid.highest - grid.lowest
    best = w[-1] * width
    at = np.concatenate([[grid.lowest], ordered, [grid.highest]])  # at[i] is the i-th order statistic; bounds beyond
    for k, weight in enumerate(w[:-1]):
        if weight * width <= best:
            break
        t = np.arange(k + 2)
        spread = int((at[np.clip(m + t, 0, n + 1)] - at[np.clip(m + t - k - 1, 0, n + 1)]).max())
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
