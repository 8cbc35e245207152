"""One training run against a whole trade-off curve (Mahloujifar, Melis and Chaudhuri 2025).

m canaries, each in or out by its own fair coin; the attacker makes exactly k guesses, chosen after seeing the model,
and C of them are right. Let the training be f-DP in both orders for exchanging the state of one canary, and write
g(x) = 1 − f(x), the greatest power of a test of level x: concave and nondecreasing. Let q_i = P[C = i].

**Lemma.** Σ_{j≥i} (j/m) q_j ≤ g( Σ_{j≥i−1} ((k − j)/m) q_j ) for i = 1 … k.

*Proof.* Fix a canary s and the coins of the others. The outputs in which s is guessed to have the state b, and i − 1 or
more of the other guesses are right, are one set S. If b is the true state, S is "s is right and C ≥ i"; if the other
one is, it is "s is wrong and C ≥ i − 1". By f-DP the probability of the first is at most g of that of the second.
Average over b, the other coins and a canary s drawn at random: g is concave, so Jensen's inequality keeps the
direction. The mean of "s is right" is C/m, that of "s is wrong" (k − C)/m. ∎

Write r_i = Σ_{j≥i} (j/m) q_j and h_i = Σ_{j≥i} ((k − j)/m) q_j. The lemma says h_{i−1} ≥ g⁻¹(r_i), and by definition
r_{i−1} = r_i + (i − 1)/(k − i + 1)·(h_{i−1} − h_i), r_0 + h_0 = k/m. Suppose P[C ≥ c] ≥ τ. Start from r = τc/m and
h = τ(k − c)/m, as if all of it were at c, and for i = c, …, 1 replace h by max(h, g⁻¹(r)) and r accordingly.

**Theorem.** What comes out is at most the true r_0 + h_0 = k/m. So if r + h > k/m at the end, P[C ≥ c] < τ.

*Proof.* Capitals R, H are the recursion's, and κ = (i − 1)/(k − i + 1), which falls with i. Three things stay true down
to i = 0: r ≥ R; r − R ≥ κ(h − H); r + h ≥ R + H. They hold at i = c, because mass at or above c makes r at least c/k of
r + h, and c/(k − c) ≥ κ. In a step in which H becomes g⁻¹(R): the true h becomes at least g⁻¹(r) ≥ g⁻¹(R), and r − κh
is kept, so all three follow, the second also with the next, smaller κ since h ≥ H. In any other step R and H stay as
they are; r and r + h do not fall; and the second holds because r − R is both at least κ(h − H) and at least 0. ∎

The smallest such τ is a p-value: the test of level τ refuses for C ≥ c only. k must be fixed before the run.

>>> from deniable.guarantees import GDP
>>> one_run_curve_p_value(correct=56, guesses=60, canaries=200, claim=GDP(0.7)) < 0.05
True
>>> print(one_run_mu(correct=56, guesses=60, canaries=200).statement)
μ ≥ 0.76 but for a chance of 0.05
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.claims import Claim, Claimable
from deniable.auditing.statistics import Bound
from deniable.auditing.training.one_run import ONE_RUN, check_guesses
from deniable.guarantees import GDP, Profile
from deniable.numerics.roots import bisect

_ROUNDING = 1e-9
"""What the recursion and the curve may owe to rounding, as a part of k/m."""

_NORMAL = NormalDist()


def one_run_curve_p_value(*, correct: int, guesses: int, canaries: int, claim: Claimable) -> float:
    """How likely so many right guesses are, at most, if the training keeps the claim's whole curve."""
    check_guesses(correct, guesses, canaries)
    inverse = _inverse(claim)

    def refused(level: float) -> bool:
        return _refused(inverse, level, correct, guesses, canaries)

    if not refused(1.0):
        return 1.0
    # Logarithms: what is refused at a level is refused at a larger one.
    return math.exp(bisect(lambda log: refused(math.exp(log)), -700.0, 0.0, turns=50)[1])


def one_run_mu(*, correct: int, guesses: int, canaries: int, confidence: Number = 0.95) -> Bound:
    """The training is not μ-GDP for any μ below this, with the stated confidence, from one run."""
    check_guesses(correct, guesses, canaries)
    level = float(1 - _checks.inner_probability("confidence", confidence))
    # Curves of larger μ allow more, so what refuses one refuses every smaller one.
    low = bisect(lambda mu: not _refused(_gaussian(mu), level, correct, guesses, canaries), 0.0, 40.0, turns=40)[0]
    return Bound(low, True, f"μ ≥ {low:.2f} but for a chance of {level:.2g}", ONE_RUN)


def _refused(inverse: Callable[[float], float], level: float, correct: int, guesses: int, canaries: int) -> bool:
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct, 0, -1):
        higher = max(wrong, inverse(min(1.0, right)))
        right += (i - 1) / (guesses - i + 1) * (higher - wrong)
        wrong = higher
    return right + wrong > guesses / canaries * (1 + _ROUNDING)


def _inverse(claim: Claimable) -> Callable[[float], float]:
    """g⁻¹ of a claim: the least level at which a power is possible; from below."""
    if isinstance(claim, GDP):
        return _gaussian(float(claim.mu) * (1 + 1e-12))
    read = Claim.of(claim)
    lines = read.lines if len(read.lines) == 1 else _dense(read.profile)

    def inverse(power: float) -> float:
        # δ + e^ε x ≥ power, and the same line in the other order: 1 − x ≤ e^ε(1 − power) + δ.
        return max(0.0, *(max((power - d) / math.exp(e), 1 - d - math.exp(e) * (1 - power)) for e, d in lines))

    return inverse


def _gaussian(mu: float) -> Callable[[float], float]:
    def inverse(power: float) -> float:
        # erfc keeps its digits in the tail; `NormalDist.cdf` is off by 1e-16 there, and so would tiny p-values be.
        at = _NORMAL.inv_cdf(power) - mu if 0 < power < 1 else math.inf if power >= 1 else -math.inf
        return 0.5 * math.erfc(-at / math.sqrt(2))

    return inverse


def _dense(profile: Profile) -> tuple[tuple[float, float], ...]:
    """Lines of a curve, close together; each is implied by it, so fewer lose power and nothing else."""
    most = profile.delta(0)
    places = [profile.epsilon(most * 0.5**i) for i in range(1, 24)]
    return tuple((e, profile.delta(e)) for e in (0.0, *places) if math.isfinite(e) and e < 50)
