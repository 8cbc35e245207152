"""One training run with many canaries, each in or out by its own fair coin (Steinke, Nasr and Jagielski 2023).

The attacker guesses "in" or "out" for r of m canaries, chosen after seeing the model, and v guesses are right. If the
training is (ε, δ)-DP for adding, removing or blanking out one canary, then with q = e^ε/(1 + e^ε)

    P[at least v right] ≤ P[Bin(r, q) ≥ v] + 2mδ · max over 1 ≤ i ≤ v of (1/i)·P[v > Bin(r, q) ≥ v − i]

(their main theorem, for δ > 0). It needs r fixed before the run. It holds for any training, however canaries disturb
each other, and pays for that: its bound stays below ln(r/ln(1/level)).

>>> round(one_run_p_value(correct=100, guesses=100, canaries=100, epsilon=1, delta=1e-3), 8)
0.00563309
>>> print(one_run_epsilon(correct=95, guesses=100, canaries=1000, delta=1e-5).statement)
ε ≥ 2.16 at δ = 1e-5 but for a chance of 0.05
"""

from __future__ import annotations

import math

import numpy as np

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics import Bound
from deniable.errors import InvalidArgument
from deniable.guarantees.printing import small

ONE_RUN = "a fair coin for every canary, and a number of guesses that was fixed before the run"

_STEP = 0.01
"""The walk over ε: rejections are counted from 0 upwards until the first that fails, so no correction is needed."""


def one_run_p_value(*, correct: int, guesses: int, canaries: int, epsilon: Number, delta: Number = 0) -> float:
    """How likely so many right guesses are, at most, if the training is (ε, δ)-DP."""
    from scipy import stats

    check_guesses(correct, guesses, canaries)
    leak = float(_checks.probability("delta", delta))
    chance = 1 / (1 + math.exp(-float(_checks.nonnegative("epsilon", epsilon))))
    tail = float(stats.binom.sf(correct - 1, guesses, chance))
    if leak == 0 or correct == 0:
        return min(1.0, tail)
    # P[v > Bin ≥ v − i] for every i at once: cumulative sums of the probabilities below v, from the top.
    below = stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, chance)
    worst = float((np.cumsum(below) / np.arange(1, correct + 1)).max())
    return min(1.0, tail + 2 * canaries * leak * worst)


def one_run_epsilon(
    *, correct: int, guesses: int, canaries: int, delta: Number = 0, confidence: Number = 0.95
) -> Bound:
    """ε is at least this at δ, with the stated confidence, from one run."""
    level = float(1 - _checks.inner_probability("confidence", confidence))
    found = 0.0
    while (
        one_run_p_value(
            correct=correct, guesses=guesses, canaries=canaries, epsilon=round(found + _STEP, 10), delta=delta
        )
        <= level
    ):
        found = round(found + _STEP, 10)
    return Bound(found, True, f"ε ≥ {found:.2f} at δ = {small(delta)} but for a chance of {level:.2g}", ONE_RUN)


def check_guesses(correct: int, guesses: int, canaries: int) -> None:
    """Refuse counts that cannot be."""
    most = _checks.count("canaries", canaries)
    said = _checks.count("guesses", guesses)
    right = _checks.count("correct", correct, least=0)
    if not right <= said <= most:
        raise InvalidArgument("guesses", said, f"between correct={right} and canaries={most}")
