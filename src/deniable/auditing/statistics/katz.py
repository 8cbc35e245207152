"""Katz: the logarithm of the ratio of two rates, by a normal approximation.

ln(TPR/FPR) − z·√(1/TP − 1/n₁ + 1/FP − 1/n₀), z the two-sided quantile (Katz et al. 1978). It is asymptotic, it is about
δ = 0, and it breaks where a count is 0: an estimate beside the certificate of Clopper and Pearson.

>>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
>>> round(katz_epsilon(notes, confidence=1 - 1e-10).value, 3)
2.844
"""

from __future__ import annotations

import math

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics.counts import FIXED, Bound, Counts


def katz_epsilon(counts: Counts, *, confidence: Number = 0.95) -> Bound:
    """An estimate of a lower end of ε at δ = 0, the better of both directions; 0 where a count is 0."""
    from scipy import stats

    level = float(1 - _checks.inner_probability("confidence", confidence))
    far = float(stats.norm.isf(level / 2))
    caught = (counts.true_positives, counts.positives, counts.false_positives, counts.negatives)
    cleared = (
        counts.negatives - counts.false_positives, counts.negatives, counts.false_negatives, counts.positives,
    )  # fmt: skip
    value = max(_lower(*caught, far), _lower(*cleared, far), 0.0)
    needs = f"{FIXED}; δ = 0; counts large enough for a normal law"
    return Bound(value, False, f"ln of the ratio of rates is about {value:.4f} or more", needs)


def _lower(hits: int, runs: int, misses: int, others: int, far: float) -> float:
    if not hits or not misses:
        return 0.0
    width = math.sqrt(1 / hits - 1 / runs + 1 / misses - 1 / others)
    return math.log(hits / runs * others / misses) - far * width
