"""Amplification by shuffling: local reports whose order hides who sent which. REPLACE.

n people send one ε₀-DP report each; the order is lost. Let x, x′ be the two values of the person who changes, and a, b
the laws of the report for them. By Kairouz–Oh–Viswanath 2015 there are laws Q, Q′ with a = (e^{ε₀}Q + Q′)/(e^{ε₀} + 1)
and b the same with Q and Q′ exchanged; then Q + Q′ = a + b. Everybody else's law is at least e^{−ε₀}·max(a, b) ≥
e^{−ε₀}(Q + Q′)/2, so with probability p = e^{−ε₀} their report is a fair coin between Q and Q′: a *clone*. Handing the
attacker everything but the clones' coins, the shuffled reports are a function of two counts,

    C ~ Bin(n − 1, p), A ~ Bin(C, 1/2), B ~ Bernoulli(e^{ε₀}/(1 + e^{ε₀})):   (A + B, C − A + 1 − B)

against the same with B flipped (Feldman–McMillan–Talwar 2021 and 2022). For k-ary randomized response every law is at
least (a + b)/(e^{ε₀} + 1), which gives p = 2/(e^{ε₀} + 1), more clones. That larger p for *every* ε₀-DP report (2022
paper) is not used here: the argument above does not give it.

Given C = c the ratio of the two laws rises with A + B, so the best event is a tail and δ is a sum over c of
(s − e^ε(1 − s))·P[A = t − 1] − (e^ε − 1)·P[A ≥ t], s = e^{ε₀}/(1 + e^{ε₀}). More clones never help the attacker (they
can be added by post-processing), so c may be rounded down, in blocks.

>>> print(shuffle(PureDP(1, relation=Relation.REPLACE), population=1000, delta=1e-5))
ε ≤ 0.16, δ = 1e-5, one record replaced by another
"""

from __future__ import annotations

import math
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.theorems.binomial import log_masses, mass_error
from deniable.accounting.theorems.optimal import falls_to
from deniable.errors import UnitMismatch
from deniable.guarantees import ApproxDP, PureDP
from deniable.guarantees.rounding import above, float_above, float_below, promised
from deniable.units import Relation

_BLOCKS = 40
"""Blocks of clone counts in a standard deviation."""


def shuffle(local: PureDP, *, population: int, delta: Number) -> ApproxDP:
    """The promise of n shuffled ε₀-DP reports at a δ, never worse than ε₀. Upper bound."""
    return _shuffled(local, population, delta, math.exp(-float_above(local.epsilon)))


def shuffle_responses(local: PureDP, *, population: int, delta: Number) -> ApproxDP:
    """The same for reports by randomized response (any number of categories), which leaves more clones. Upper bound."""
    epsilon = float_above(local.epsilon)
    return _shuffled(local, population, delta, 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon)))


def shuffled_delta(epsilon: float, *, local: float, population: int, clone: float) -> float:
    """δ(ε) of the two counts, rounded up; `local` is ε₀, `clone` the probability that a report is a clone."""
    import numpy as np

    if epsilon >= local:
        return 0.0
    people = population - 1
    keep = min(max(clone * (1 - 2.0**-50), 0.0), 1.0)
    if people == 0 or keep == 0:
        counts, weights = np.zeros(1), np.ones(1)
        rest = 0.0
    else:
        counts, weights, rest = _clones(people, keep)
    truth, odds = 1 / (1 + math.exp(-local)), math.exp(epsilon)
    gain, loss = truth - odds * (1 - truth), math.expm1(epsilon)
    # P > e^ε Q where x·(s − e^ε(1 − s)) > (c + 1 − x)·(e^ε s − (1 − s)).
    edge = (odds * truth - (1 - truth)) / ((1 + odds) * (2 * truth - 1))
    starts = np.floor((counts + 1) * min(edge, 1.0)) + 1
    best = np.zeros_like(counts)
    slack = np.zeros_like(counts)
    for shift in (-1, 0, 1):  # any threshold is a valid event; the three nearest contain the best one
        value, error = _event(counts, starts + shift, gain, loss)
        better = value > best
        best, slack = np.where(better, value, best), np.where(better, error, slack)
    total = float(np.sum(weights * (best + slack)))
    return min(above(total * (1 + 1e-12) + rest, ulps=64), 1.0)


def _event(counts: Any, at: Any, gain: float, loss: float) -> tuple[Any, Any]:
    """(s − e^ε(1 − s))·P[A = t − 1] − (e^ε − 1)·P[A ≥ t] for A ~ Bin(c, 1/2), and its rounding."""
    import numpy as np
    from scipy.special import betainc

    t = np.clip(at, 0, counts + 1)
    before = np.clip(t - 1, 0, counts)
    mass = np.where(t >= 1, np.exp(log_masses(counts, 0.5, before)), 0.0)
    inside = (t >= 1) & (t <= counts)
    tail = np.where(inside, betainc(np.where(inside, t, 1.0), np.where(inside, counts - t + 1, 1.0), 0.5), t < 1)
    value = gain * mass - loss * tail
    # The incomplete beta function is good to about 5e-15·√c far out (the tests compare it); four times that is allowed.
    error = (1e-12 + 2e-14 * np.sqrt(counts)) * (gain * mass + loss * tail)
    return value, error


def _clones(people: int, clone: float) -> tuple[Any, Any, float]:
    """Numbers of clones, rounded down to the start of a block, their probabilities, and what is left out."""
    import numpy as np

    mean, spread = people * clone, math.sqrt(people * clone * (1 - clone))
    low = max(0, math.floor(mean - 60 * spread - 60))
    high = min(people, math.ceil(mean + 10 * spread + 40))
    block = max(1, math.ceil(spread / _BLOCKS))
    edges = np.arange(low, high + 1, block)
    weights = _block_masses(people, clone, edges, block)
    weights *= 1 + mass_error(people, clone, float(low)) + mass_error(people, clone, float(high))
    # Chernoff: P[C ≤ m − t] ≤ e^{−t²/(2m)}, P[C ≥ m + t] ≤ e^{−t²/(2m + 2t/3)}, and the same for those who are not
    # clones. Beyond `high`, clones count as `high`.
    if high < people:
        weights[-1] += math.exp(-((high - mean) ** 2) / (2 * mean + 2 * (high - mean) / 3))
    short = mean - low
    fall = short**2 / min(2 * mean, 2 * people * (1 - clone) + 2 * short / 3)
    return edges.astype(float), weights, math.exp(-fall) if low > 0 else 0.0


def _block_masses(people: int, clone: float, starts: Any, block: int) -> Any:
    """Upper ends of P[start ≤ C < start + block]: masses are log-concave, so they lie below their tangent there."""
    import numpy as np

    logs = log_masses(people, clone, starts)
    if block == 1:
        return np.exp(logs)
    ratio = np.log((people - starts) / (starts + 1)) + math.log(clone) - math.log1p(-clone)
    safe = np.where(np.abs(ratio) < 1e-12, 1e-12, ratio)
    return np.exp(logs) * np.expm1(block * safe) / np.expm1(safe)


def _shuffled(local: PureDP, population: int, delta: Number, clone: float) -> ApproxDP:
    people = _checks.count("population", population)
    allowed = _checks.inner_probability("delta", delta)
    if local.relation is not Relation.REPLACE:
        raise UnitMismatch("shuffling is analysed under REPLACE only; state the local report under REPLACE.")
    epsilon = float_above(local.epsilon)
    if epsilon > 700:  # fewer than e^{−700} of the others are clones: nothing is gained
        return ApproxDP(local.epsilon, allowed, relation=local.relation, unit=local.unit)
    found = falls_to(
        float_below(allowed),
        lambda e: shuffled_delta(e, local=epsilon, population=people, clone=clone),
        above(epsilon, ulps=1),
        relative=1e-9,
    )[1]
    return ApproxDP(min(promised(found), local.epsilon), allowed, relation=local.relation, unit=local.unit)
