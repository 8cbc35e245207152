"""Shuffled local reports: the pair of the clones (Feldman–McMillan–Talwar 2021).

n people send one report each of a randomizer R that is ε₀-DP, in an order that hides who sent which. Let x₀, x₁ be the
two values of the one person who differs. R(x₀) = (e^ε₀ Q₀ + Q₁)/(e^ε₀ + 1) and R(x₁) = (Q₀ + e^ε₀ Q₁)/(e^ε₀ + 1) for
some laws Q₀, Q₁ (Kairouz–Oh–Viswanath 2015). If everybody else's report is, with probability p, a draw from (Q₀ +
Q₁)/2, then giving away all but the counts of Q₀ and Q₁ among those draws and the differing person leaves

    C ~ Bin(n − 1, p), A ~ Bin(C, ½), B ~ Bernoulli(e^ε₀/(e^ε₀ + 1)):   (A + B, C − A + 1 − B) against (A + 1 − B, C −
    A + B).

* **Any ε₀-DP randomizer.** R(x) ≥ e^−ε₀ R(x_j) pointwise for both j, so R(x) ≥ e^−ε₀ (Q₀ + Q₁)/2: p = e^−ε₀.
* **k-ary randomized response.** A report is uniform on the k values with probability k/(e^ε₀ + k − 1), so it is a fair
  draw from {x₀, x₁} with probability p = 2/(e^ε₀ + k − 1). The differing person names neither with probability
  (k − 2)/(e^ε₀ + k − 1); that this happened is given away too. For k = 2 nothing is given away but truthful reports.

Fewer clones are worse (adding fair draws is post-processing), so C is rounded down to blocks, and its far lower tail
to 0. Given C = c, a count a of Q₀ out of c + 1 has the loss ln((e^ε₀ a + c + 1 − a)/(a + e^ε₀ (c + 1 − a))), which
grows with a.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from deniable.accounting.pairs.law import Array, Atoms, Law, Masses
from deniable.accounting.pairs.tables import tabulated
from deniable.events import RandomizedResponse, Shuffled
from deniable.guarantees import PureDP

BLOCKS = 300
"""How many values of C are kept apart, about its mean."""


def shuffled(event: Shuffled) -> Atoms:
    """The law of one round of shuffled reports."""
    inner = event.event
    if isinstance(inner, RandomizedResponse):
        epsilon, k = float(inner.epsilon), inner.categories
        grown = math.expm1(epsilon) + k
        return clones(epsilon, event.population, 2 / grown, names=(grown - k + 2) / grown)
    epsilon = float(inner.guarantee.epsilon if isinstance(inner.guarantee, PureDP) else math.inf)  # type: ignore[attr-defined]
    return clones(epsilon, event.population, math.exp(-epsilon))


def clones(epsilon: float, population: int, clone: float, *, names: float = 1.0) -> Atoms:
    """The law of the pair above; with probability 1 − names nothing is learnt."""
    law = _Clones(epsilon, population, min(clone, 1.0), names)
    near, far = (min(epsilon, law.spread(k)) for k in (10.0, 40.0))
    nodes = np.unique(
        np.concatenate((np.linspace(0, near, 1200), np.linspace(0, far, 400), np.linspace(0, epsilon, 100)))
    )
    return tabulated(law, np.concatenate((-nodes[:0:-1], nodes)))


class _Clones(Law):
    """The law itself, exact but slow: every query sums over the blocks of C."""

    def __init__(self, epsilon: float, population: int, clone: float, names: float) -> None:
        self.epsilon, self.names = epsilon, names
        self.low, self.high = -epsilon, epsilon
        # The incomplete beta function is good to 1e-12 in its tails (tests/accounting/test_pairs.py).
        self.relative = 1e-12
        n = population - 1
        mean, deviation = n * clone, math.sqrt(n * clone * (1 - clone))
        near = np.linspace(mean - 8 * deviation, mean + 8 * deviation, BLOCKS)
        far = np.linspace(mean - 39 * deviation - 40, mean + 39 * deviation + 40, 64)
        edges = np.unique(np.clip(np.floor(np.concatenate((near, far))), 0, n + 1)).astype(np.int64)
        # Block [edge, next edge) counts as C = edge; everything below the first edge as C = 0.
        under, over = binomial_below(edges - 1, n, clone), binomial_above(edges - 1, n, clone)
        weights = np.where(edges[:-1] > mean, over[:-1] - over[1:], under[1:] - under[:-1])
        weights[-1] += over[-1]
        self.counts = np.concatenate(([0], edges[:-1])).astype(float)
        self.weights = np.maximum(np.concatenate(([under[0]], weights)), 0.0)
        self.weights /= self.weights.sum()

    def location(self, top: float) -> float:
        return 1e-13 * (1 + top)

    def spread(self, deviations: float) -> float:
        """The loss of a count that is so many standard deviations off."""
        off = min(0.5, deviations / 2 / math.sqrt(float(np.sum(self.counts * self.weights)) + 1))
        grown = math.expm1(self.epsilon)
        return math.log((grown * (0.5 + off) + 1) / (grown * (0.5 - off) + 1))

    def _loss(self, a: Array, c: Array) -> Array:
        """The loss of a count a out of c + 1."""
        rest, low = c + 1 - a, math.exp(-self.epsilon)
        return np.asarray(np.log((a + low * rest) / (low * a + rest)))

    def _binomial(self, loss: Array, *, above: bool) -> Masses:
        """The masses of {L > l} or {L ≤ l}, given that the person names one of the two values."""
        at = np.clip(loss, -self.epsilon, self.epsilon)[:, None]
        c = self.counts[None, :]
        # loss > l iff a > (c + 1)·(e^{l+ε₀} − 1)/((e^ε₀ − 1)(1 + e^l)), up to rounding; then look at the losses
        # themselves.
        share = -np.expm1(-at - self.epsilon) / (-math.expm1(-self.epsilon) * (1 + np.exp(-at)))
        cut = np.clip(np.floor((c + 1) * share), 0.0, c + 1)
        cut = np.where(self._loss(cut, c) > at, cut - 1, cut)
        cut = np.where(self._loss(np.minimum(cut + 1, c + 1), c) <= at, cut + 1, cut)
        told = 1 / (1 + math.exp(-self.epsilon))
        # a is A + 1 with probability `told` and A otherwise under P, the other way round under Q.
        tail = binomial_above if above else binomial_below
        with_one, without = tail(cut - 1, c, 0.5), tail(cut, c, 0.5)
        p = (told * with_one + (1 - told) * without) @ self.weights
        q = ((1 - told) * with_one + told * without) @ self.weights
        return p, q

    def above(self, loss: Array) -> Masses:
        p, q = self._binomial(loss, above=True)
        rest = (1 - self.names) * (loss < 0)
        none, everything = loss >= self.epsilon, loss < -self.epsilon
        scale = np.exp(np.minimum(loss, self.epsilon))
        return (
            np.where(none, 0.0, np.where(everything, 1.0, self.names * p + rest)),
            np.where(none, 0.0, np.where(everything, 1.0, self.names * q + rest)) * scale,
        )

    def below(self, loss: Array) -> Masses:
        p, q = self._binomial(loss, above=False)
        rest = (1 - self.names) * (loss >= 0)
        none, everything = loss < -self.epsilon, loss >= self.epsilon
        return (
            np.where(none, 0.0, np.where(everything, 1.0, self.names * p + rest)),
            np.where(none, 0.0, np.where(everything, 1.0, self.names * q + rest)),
        )


def binomial_above(k: ArrayLike, n: ArrayLike, p: float) -> Array:
    """P[Bin(n, p) > k], also where k lies outside 0 … n."""
    k, n = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(n, dtype=float))
    inside = (k >= 0) & (k < n)
    found = special.betainc(np.where(inside, k + 1, 1.0), np.where(inside, n - k, 1.0), p)
    return np.where(inside, found, np.where(k < 0, 1.0, 0.0))


def binomial_below(k: ArrayLike, n: ArrayLike, p: float) -> Array:
    """P[Bin(n, p) ≤ k], also where k lies outside 0 … n."""
    k, n = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(n, dtype=float))
    inside = (k >= 0) & (k < n)
    found = special.betaincc(np.where(inside, k + 1, 1.0), np.where(inside, n - k, 1.0), p)
    return np.where(inside, found, np.where(k < 0, 0.0, 1.0))
