"""The joint posterior of both error rates, pushed through to ε (Zanella-Béguelin et al. 2023).

With independent Beta(a, a) priors (a = ½, Jeffreys) the rates have independent Beta posteriors, and

    P[ε ≤ v] = ∫ f(b)·P[FPR ≥ max((1 − δ − b)·e^{−v}, 1 − δ − b·e^v)] db        over FNR = b,

which is computed by quadrature, not by samples: credible bounds at 1e-10 are as easy as at 0.05. The bound is credible
under the prior; it does not promise how often it is wrong.

>>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
>>> round(bayes_epsilon(notes, delta=1e-5, confidence=1 - 1e-10).value, 3)
2.886
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics.counts import FIXED, Bound, Counts
from deniable.numerics.roots import bisect

_LARGEST = 60.0


def posterior_below(counts: Counts, epsilon: float, *, delta: float, prior: float = 0.5) -> float:
    """P[ε ≤ `epsilon`] under the posterior."""
    from scipy import stats

    missed = stats.beta(counts.false_negatives + prior, counts.true_positives + prior)
    said = stats.beta(counts.false_positives + prior, counts.negatives - counts.false_positives + prior)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    total = 0.0
    # Panels between quantiles, so that no mass hides between two nodes.
    levels = [0.0, 1e-30, 1e-20, 1e-14, 1e-10, 1e-6, 1e-3, 0.05, 0.3, 0.7, 0.95]
    edges = np.concatenate([missed.ppf(levels), missed.isf([1e-3, 1e-6, 1e-10, 1e-14, 1e-20, 0.0])])
    for low, high in itertools.pairwise(edges):
        b = low + (high - low) * (nodes + 1) / 2
        least = np.maximum((1 - delta - b) * math.exp(-epsilon), 1 - delta - b * math.exp(epsilon))
        total += float((weights * missed.pdf(b) * said.sf(np.clip(least, 0, 1))).sum() * (high - low) / 2)
    return min(1.0, total)


def bayes_epsilon(counts: Counts, *, delta: Number = 0, confidence: Number = 0.95, prior: Number = 0.5) -> Bound:
    """ε is at least this with the stated posterior probability, under Beta(prior, prior) for both rates."""
    level = float(1 - _checks.inner_probability("confidence", confidence))
    shape = float(_checks.positive("prior", prior))
    at = float(_checks.probability("delta", delta))

    def possible(epsilon: float) -> bool:
        return posterior_below(counts, epsilon, delta=at, prior=shape) > level

    low = 0.0 if possible(0.0) else bisect(possible, 0.0, _LARGEST)[0]
    needs = f"{FIXED}; a Beta({shape:g}, {shape:g}) prior on both error rates"
    return Bound(low, False, f"ε ≥ {low:.4f} with posterior probability {1 - level:.12g}", needs)
