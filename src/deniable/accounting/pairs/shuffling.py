"""Shuffled local reports: the pair of the clones (Feldman–McMillan–Talwar 2021).

n people send one report each of a randomizer R that is ε₀-DP, in an order that hides who sent which. Let x₀, x₁ be the
two values of the one person who differs. R(x₀) = (e^ε₀ Q₀ + Q₁)/(e^ε₀ + 1) and R(x₁) = (Q₀ + e^ε₀ Q₁)/(e^ε₀ + 1) for
some laws Q₀, Q₁ (Kairouz–Oh–Viswanath 2015). If everybody else's report is, with probability p, a draw from (Q₀ +
Q₁)/2, then giving away all but the counts of Q₀ and Q₁ among those draws and the differing person leaves

    C ~ Bin(n − 1, p), A ~ Bin(C, ½), B ~ Bernoulli(s), s = e^ε₀/(e^ε₀ + 1):
    (A + B, C − A + 1 − B) against (A + 1 − B, C − A + B).

* **Any ε₀-DP randomizer.** R(x) ≥ e^−ε₀ R(x_j) pointwise for both j, so R(x) ≥ e^−ε₀ (Q₀ + Q₁)/2: p = e^−ε₀.
* **k-ary randomized response.** A report is uniform on the k values with probability k/(e^ε₀ + k − 1), so it is a fair
  draw from {x₀, x₁} with probability p = 2/(e^ε₀ + k − 1). The differing person names neither with probability
  (k − 2)/(e^ε₀ + k − 1); that this happened is given away too. For k = 2 nothing is given away but truthful reports.

Given C = c the loss grows with A + B, so the best event is a tail and, with t its first count,

    δ_c(ε) = max_t (s − e^ε(1 − s))·P[A = t − 1] − (e^ε − 1)·P[A ≥ t],        δ(ε) = Σ_c P[C = c]·δ_c(ε),

the same in both orders. Nothing cancels at ε = 0, so the curve of 10¹⁵ people is as good as that of ten. More clones
never help the attacker (they can be added by post-processing), so c may be rounded down, in blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from deniable.accounting.pairs.bounds import hull
from deniable.accounting.pairs.discrete import randomized_response
from deniable.accounting.pairs.law import Array, LossAtoms
from deniable.numerics.discrete import log_masses
from deniable.numerics.rounding import above

_BLOCKS = 25
"""Blocks of clone counts in a standard deviation, where that is finer than three millionths of the mean."""

_MOST = 10**14
"""More people count as this many: counts stay exact floats."""


def shuffled(epsilon: float, clone: float, names: float, size: int) -> LossAtoms:
    """The law of one round of `size` shuffled reports: its curve at some hundred nodes, the dots connected.

    A report is `epsilon`-DP and a clone with probability `clone`; the differing person names one of the two values with
    probability `names`.
    """
    if clone < 1e-300:
        return randomized_response(epsilon)
    clones = Clones(epsilon, size, clone)
    near, far = (min(epsilon, clones.spread(deviations)) for deviations in (8.0, 40.0))
    nodes = np.unique(
        np.concatenate((np.linspace(0, near, 600), np.linspace(0, far, 150), np.linspace(0, epsilon, 60)))
    )
    values = np.minimum.accumulate([min(1.0, above(names * clones.delta(node), ulps=4)) for node in nodes])
    return hull(nodes, values, peak=epsilon)


def _tail_error(trials: ArrayLike) -> Array:
    """What the incomplete beta function may be off by, relatively: four times what tests measure far out."""
    return np.asarray(1e-12 + 2e-14 * np.sqrt(trials))


@dataclass(frozen=True)
class Clones:
    """The curve of the pair above; `local` is ε₀, `clone` the probability that a report is a clone."""

    local: float
    size: int
    clone: float

    def delta(self, epsilon: float) -> float:
        """δ(ε), rounded up."""
        if epsilon >= self.local:
            return 0.0
        counts, weights = self._counts
        truth, kept = 1 / (1 + math.exp(-self.local)), -math.expm1(-self.local)
        gain, loss = -truth * math.expm1(epsilon - self.local), math.expm1(epsilon)
        # P > e^ε Q where x·(s − e^ε(1 − s)) > (c + 1 − x)·(e^ε s − (1 − s)).
        edge = (loss + kept) / ((2 + loss) * kept)
        t = np.clip(np.floor((counts + 1) * min(edge, 1.0)) + 1, 1, counts + 1)
        mass = np.exp(log_masses(counts, 0.5, t - 1))
        inside = t <= counts
        tail = np.where(
            inside, special.betainc(np.where(inside, t, 1.0), np.where(inside, counts - t + 1, 1.0), 0.5), 0.0
        )
        # Any threshold is a valid event, and the three nearest contain the best one.
        after = mass * (counts - t + 1) / t
        before = mass * (t - 1) / (counts - t + 2)
        best = np.maximum(
            gain * mass - loss * tail,
            np.maximum(gain * after - loss * (tail - after), gain * before - loss * (tail + mass)),
        )
        # A mass is good to 1e-14 of its exponent.
        size = gain * (mass + after + before) + loss * (tail + mass + after)
        slack = (2e-11 + _tail_error(counts)) * size
        total = float(weights @ (np.maximum(best, 0.0) + slack))
        return min(above(total * (1 + 1e-12), ulps=64), 1.0)

    def spread(self, deviations: float) -> float:
        """The loss of a count that is so many standard deviations off."""
        off = min(0.5, deviations / 2 / math.sqrt(self._others * self.clone + 1))
        low = math.exp(-self.local)
        rest = low * (0.5 + off) + 0.5 - off
        return math.log((0.5 + off + low * (0.5 - off)) / rest) if rest else self.local

    @property
    def _others(self) -> int:
        return min(self.size, _MOST) - 1

    @cached_property
    def _counts(self) -> tuple[Array, Array]:
        """Numbers of clones, rounded down to the start of a block, and the masses of the blocks.

        The share of counts below each edge is rounded up: fewer clones than there are.
        """
        people, clone = self._others, min(self.clone * (1 - 2.0**-50), 1.0)
        mean, spread = people * clone, math.sqrt(people * clone * (1 - clone))
        fine = max(1, math.ceil(spread / _BLOCKS), math.ceil(min(3e-6 * mean, spread)))
        coarse = max(fine, math.ceil(spread / 2))
        first, last = (math.floor(mean + side * (9 * spread + 9)) for side in (-1, 1))
        reach = 39 * math.ceil(spread) + 40
        edges = [*range(first - reach, first, coarse), *range(first, last, fine), *range(last, last + reach, coarse)]
        starts = np.array(sorted({0, *(edge for edge in edges if 0 < edge <= people)}), dtype=float)
        inner = starts[1:]
        slack = _tail_error(people)
        under = special.betaincc(inner, people - inner + 1, clone) * (1 + slack)
        over = special.betainc(inner, people - inner + 1, clone) * (1 - slack)
        below = np.maximum.accumulate(
            np.concatenate(([0.0], np.minimum(np.where(under < 0.5, under, 1 - over), 1.0), [1.0]))
        )
        return starts, np.diff(below)
