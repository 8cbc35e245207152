"""A threshold from validation runs, and the counts it gives on fresh ones.

A threshold chosen on the runs that it is judged by makes every statistic here wrong: an in-sample best threshold alarms
in about 40 % of audits where 5 % is nominal. So choose on validation runs, then count on others.

>>> rule = choose_threshold([0.1, 0.2, 0.3, 0.2] * 9, [0.9, 0.8, 0.2, 0.9] * 9, delta=0)
>>> rule.above, 0.3 < rule.value < 0.8, count_at(rule, [0.1, 0.2], [0.9, 0.1])
(True, True, Counts(true_positives=1, positives=2, false_positives=0, negatives=2))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics.counts import Counts
from deniable.errors import InvalidArgument

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]

_CANDIDATES = 512


@dataclass(frozen=True)
class Threshold:
    """Say "in" for scores above the value, or for scores at most the value."""

    value: float
    above: bool


def choose_threshold(without: Any, with_: Any, *, delta: Number = 0, confidence: Number = 0.95) -> Threshold:
    """The rule with the best Clopper–Pearson bound on validation runs in D and D′. Never count on these again."""
    out, inside = _scores("without", without), _scores("with_", with_)
    level, at = float(1 - _checks.inner_probability("confidence", confidence)), float(delta)
    values = np.unique(np.concatenate([out, inside]))
    places = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    if len(places) > _CANDIDATES:
        places = np.quantile(places, np.linspace(0, 1, _CANDIDATES))
    hits = np.searchsorted(np.sort(inside), places, side="right")  # scores at most the place
    misses = np.searchsorted(np.sort(out), places, side="right")
    worth = []
    for above in (True, False):
        said, wrong = (len(inside) - hits, len(out) - misses) if above else (hits, misses)
        # Where no rule shows anything, the one with the widest gap between the rates.
        gap = said / len(inside) - wrong / len(out)
        worth.append(_bounds(said, len(inside), wrong, len(out), delta=at, level=level) + 1e-6 * gap)
    below, place = divmod(int(np.argmax(np.concatenate(worth))), len(places))
    return Threshold(float(places[place]), below == 0)


def _bounds(hits: Whole, runs: int, misses: Whole, others: int, *, delta: float, level: float) -> Floats:
    """Clopper–Pearson bounds on ε for many rules at once."""
    from scipy import stats

    false_negative = np.where(hits == 0, 1.0, stats.beta.isf(level / 2, runs - hits + 1, np.maximum(hits, 1)))
    false_positive = np.where(
        misses == others, 1.0, stats.beta.isf(level / 2, misses + 1, np.maximum(others - misses, 1))
    )
    ratios = [
        np.maximum(1 - delta - one, 1e-300) / other
        for one, other in ((false_negative, false_positive), (false_positive, false_negative))
    ]
    return np.asarray(np.maximum(np.log(np.maximum(*ratios)), 0.0))


def count_at(rule: Threshold, without: Any, with_: Any) -> Counts:
    """What the rule says on other runs."""
    out, inside = _scores("without", without), _scores("with_", with_)
    said = [(scores > rule.value) if rule.above else (scores <= rule.value) for scores in (out, inside)]
    return Counts(int(said[1].sum()), len(inside), int(said[0].sum()), len(out))


def _scores(name: str, scores: Any) -> Floats:
    found = np.asarray(scores, dtype=np.float64).ravel()
    if not len(found) or np.isnan(found).any():
        raise InvalidArgument(name, f"{len(found)} scores", "at least one score, and no NaN")
    return found
