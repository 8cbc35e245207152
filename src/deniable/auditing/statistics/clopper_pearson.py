"""Clopper–Pearson: a lower bound on ε that is never wrong more often than stated.

With k of n successes the exact one-sided ends at level g are BetaInv(1 − g; k + 1, n − k) and BetaInv(g; k, n − k + 1)
(Clopper–Pearson 1934). ε ≥ ln((1 − δ − FNR)/FPR) and ε ≥ ln((1 − δ − FPR)/FNR) fall in both error rates, so both
*upper* ends are put in, at half the level each (Bonferroni). n runs in each world cannot show more than about ln n.

>>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
>>> round(epsilon_lower(notes, delta=1e-5, confidence=1 - 1e-10).value, 4)
2.795
"""

from __future__ import annotations

import math

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics.counts import FIXED, Bound, Counts


def clopper_pearson_upper(successes: int, runs: int, *, level: float) -> float:
    """The upper end of a rate, exceeded with probability at most `level`."""
    from scipy import stats

    return 1.0 if successes >= runs else float(stats.beta.isf(level, successes + 1, runs - successes))


def clopper_pearson_lower(successes: int, runs: int, *, level: float) -> float:
    """The lower end of a rate."""
    from scipy import stats

    return 0.0 if successes <= 0 else float(stats.beta.ppf(level, successes, runs - successes + 1))


def error_rates(counts: Counts, *, level: float) -> tuple[float, float]:
    """Upper ends of (FPR, FNR) that both hold with probability 1 − level."""
    return (
        clopper_pearson_upper(counts.false_positives, counts.negatives, level=level / 2),
        clopper_pearson_upper(counts.false_negatives, counts.positives, level=level / 2),
    )


def implied_epsilon(false_positive: float, false_negative: float, *, delta: float) -> float:
    """The smallest ε ≥ 0 for which a test with these errors is possible under (ε, δ)-DP."""
    found = 0.0
    for one, other in ((false_positive, false_negative), (false_negative, false_positive)):
        if 1 - delta - other > 0:
            found = max(found, math.log((1 - delta - other) / one) if one > 0 else math.inf)
    return found


def epsilon_lower(counts: Counts, *, delta: Number = 0, confidence: Number = 0.95) -> Bound:
    """ε at δ is at least this, with the stated confidence; exact, for any mechanism."""
    level = float(1 - _checks.inner_probability("confidence", confidence))
    value = implied_epsilon(*error_rates(counts, level=level), delta=float(_checks.probability("delta", delta)))
    return Bound(value, True, f"ε ≥ {value:.4f} but for a chance of {level:.2g}", FIXED)
