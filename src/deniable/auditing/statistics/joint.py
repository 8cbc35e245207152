"""An exact test of (ε, δ) on both worlds' counts together.

Two intervals, each at half the level, waste power: both errors are rarely at their worst at once. Here the two counts
are judged by one statistic,

    T = (TP/n₁ − e^ε·FP/n₀ − δ) / s(FP),

s² being the variance of the numerator on the boundary of the claim, with FPR read off FP. T grows in TP and falls in
FP, so the p-value is the largest probability of its upper set over the boundary TPR = e^ε·FPR + δ, whatever FPR is (the
unconditional test of Barnard 1945), within a confidence interval for FPR of level 1 − γ, plus γ (Berger–Boos 1994:
rates that the data exclude need not be feared). On a cell of FPRs that probability is at most its value with the cell's
smallest FPR in one world and its largest in the other; the maximum over cells is therefore no underestimate. Both
directions are tested, at twice the smaller p-value.

>>> round(joint_test(Counts(60, 100, 40, 100), epsilon=0, delta=0), 3)
0.022
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import numpy as np

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics.clopper_pearson import clopper_pearson_lower, clopper_pearson_upper
from deniable.auditing.statistics.counts import FIXED, Bound, Counts
from deniable.numerics.roots import bisect

_CELLS = 24
_HALVINGS = 400
_FAR = 45.0
"""Standard deviations beyond which a binomial has no mass that a float can hold."""


def joint_test(counts: Counts, *, epsilon: Number, delta: Number = 0, gamma: Number = 1e-12) -> float:
    """The p-value of the claim (ε, δ): exact, whatever the error rates are. It is never below 2γ."""
    aside = float(_checks.inner_probability("gamma", gamma))
    odds = math.exp(float(_checks.nonnegative("epsilon", epsilon)))
    at = float(_checks.probability("delta", delta))
    caught = _one_sided(
        counts.true_positives, counts.positives, counts.false_positives, counts.negatives,
        odds=odds, delta=at, gamma=aside,
    )  # fmt: skip
    cleared = _one_sided(
        counts.negatives - counts.false_positives, counts.negatives, counts.false_negatives, counts.positives,
        odds=odds, delta=at, gamma=aside,
    )  # fmt: skip
    return min(1.0, 2 * min(caught, cleared))


def joint_epsilon(counts: Counts, *, delta: Number = 0, confidence: Number = 0.95) -> Bound:
    """The largest ε that the joint test refutes, by bisection; its p-value grows with ε."""
    level = float(1 - _checks.inner_probability("confidence", confidence))

    def refuted(epsilon: float) -> bool:
        return joint_test(counts, epsilon=epsilon, delta=delta, gamma=level / 200) <= level

    low, high = 0.0, 1.0
    while high < 40 and refuted(high):
        low, high = high, 2 * high
    if low == 0.0 and not refuted(0.0):
        high = 0.0
    low = bisect(lambda epsilon: not refuted(epsilon), low, high, turns=16)[0]
    return Bound(low, True, f"ε ≥ {low:.4f} but for a chance of {level:.2g}", FIXED)


def _one_sided(hits: int, runs: int, misses: int, others: int, *, odds: float, delta: float, gamma: float) -> float:
    """γ + sup over the boundary of P[T ≥ observed], for `hits` of `runs` against `misses` of `others`."""
    from scipy import special

    def numerator(hit: float, miss: float) -> float:
        return hit / runs - odds * miss / others - delta

    if numerator(hits, misses) <= 0:
        return 1.0
    places = np.arange(others + 1)
    rate = (places + 0.5) / (others + 1)
    meant = np.minimum(odds * rate + delta, 1 - 0.5 / (runs + 1))
    spread = np.sqrt(meant * (1 - meant) / runs + odds**2 * rate * (1 - rate) / others)
    observed = numerator(hits, misses) / spread[misses]
    # The smallest number of hits with T ≥ observed for each number of misses; made monotone outwards.
    needed = np.ceil(runs * (odds * places / others + delta + observed * spread) - 1e-9)
    needed = np.minimum.accumulate(np.minimum(needed, np.where(places == misses, hits, math.inf))[::-1])[::-1]
    choices = special.gammaln(others + 1) - special.gammaln(places + 1) - special.gammaln(others - places + 1)
    top = (1 - delta) / odds

    def chance(low: float, high: float) -> float:
        """P[T ≥ observed] with FPR `low` in one world and the TPR that belongs to `high` in the other."""
        middle, width = others * low, _FAR * math.sqrt(others * low * (1 - low)) + _FAR
        window = places[max(0, math.floor(middle - width)) : math.ceil(middle + width) + 1]
        window = window[needed[window] <= runs]
        chances = np.exp(choices[window] + special.xlogy(window, low) + special.xlog1py(others - window, -low))
        # P[Bin(n, p) ≥ k] is the incomplete beta function.
        hit, least = min(1.0, odds * high + delta), np.maximum(needed[window], 1e-300)
        return float((chances * special.betainc(least, runs + 1 - least, hit)).sum())

    least = min(top, clopper_pearson_lower(misses, others, level=gamma / 2))
    most = min(top, clopper_pearson_upper(misses, others, level=gamma / 2))
    return min(1.0, gamma + _highest(chance, np.linspace(least, most, _CELLS).tolist()))


def _highest(chance: Callable[[float, float], float], edges: list[float]) -> float:
    """An upper bound on max chance(a, a), the cells that matter being halved until it is within a hundredth."""
    cells = [(-chance(low, high), low, high) for low, high in itertools.pairwise(edges)]
    heapq.heapify(cells)
    reached = 0.0
    for _ in range(_HALVINGS):
        upper, low, high = cells[0]
        middle = (low + high) / 2
        reached = max(reached, chance(middle, middle))
        if -upper <= 1.01 * reached or not low < middle < high:
            break
        heapq.heapreplace(cells, (-chance(low, middle), low, middle))
        heapq.heappush(cells, (-chance(middle, high), middle, high))
    return -cells[0][0]
