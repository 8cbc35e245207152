"""Privacy prevents overfitting: the transfer theorem, how many adaptive queries a sample carries, and why ERM may fail.

>>> from deniable.guarantees import ApproxDP
>>> round(generalisation_gap(ApproxDP(0.05, 1e-6)), 4)
0.0513
>>> adaptive_size(queries=10_000, error=0.1) < splitting_size(queries=10_000, error=0.1)
True
"""

from __future__ import annotations

import math

import numpy as np

from deniable import _checks
from deniable._checks import Number
from deniable.guarantees import ApproxDP, PureDP
from deniable.textbook.composition import delta_of


def generalisation_gap(guarantee: PureDP | ApproxDP) -> float:
    """How much more a private algorithm's query finds in its sample than in the population, on average: e^ε − 1 + δ.

    For queries into [0, 1] and independent records, under REPLACE: exchange a record for a fresh one.
    """
    return math.expm1(float(guarantee.epsilon)) + float(delta_of(guarantee))


def transfer_bound(guarantee: PureDP | ApproxDP, *, error: Number, failure: Number, confidence: Number) -> float:
    """The error on the population of answers that are right on the sample (Jung et al. 2020).

    If all answers to adaptive queries into [0, 1] are within α of the sample's, but for probability β, then for all c
    and t

        all are within α + (e^ε − 1) + c + 2t of the population's, but for probability β/c + δ/t.

    With c and t at their best for the wanted confidence 1 − η the last two terms are (√β + √(2δ))²/η.
    """
    within, beta = float(_checks.nonnegative("error", error)), float(_checks.probability("failure", failure))
    allowed = 1 - float(_checks.inner_probability("confidence", confidence))
    delta = float(delta_of(guarantee))
    return within + math.expm1(float(guarantee.epsilon)) + (math.sqrt(beta) + math.sqrt(2 * delta)) ** 2 / allowed


def adaptive_size(*, queries: int, error: Number, confidence: Number = 0.95) -> int:
    """How many records answer that many adaptive queries within the error on the population, by Gaussian noise.

    Every query's mean gets noise √k/(nμ), so all together are μ-GDP. The transfer theorem is taken at the best μ, ε and
    β of a grid.
    """
    from scipy.special import ndtr, ndtri

    k, most = _checks.count("queries", queries), float(_checks.positive("error", error))
    allowed = 1 - float(_checks.inner_probability("confidence", confidence))
    mu = np.geomspace(most / 1000, most, 160)[:, None, None]
    epsilon = mu * np.linspace(0.5, 12, 116)[None, :, None]
    beta = np.geomspace(1e-12, allowed, 60)[None, None, :]
    delta = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    rest = np.expm1(epsilon) + (np.sqrt(beta) + np.sqrt(2 * np.maximum(delta, 0))) ** 2 / allowed
    left = most - rest
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(left > 0, math.sqrt(k) * ndtri(1 - beta / (2 * k)) / (mu * left), np.inf)
    return math.ceil(float(size.min()))


def splitting_size(*, queries: int, error: Number, confidence: Number = 0.95) -> int:
    """The same with a fresh part of the data for every query: k·ln(2k/η)/(2α²), by Hoeffding's bound."""
    k, most = _checks.count("queries", queries), float(_checks.positive("error", error))
    allowed = 1 - float(_checks.inner_probability("confidence", confidence))
    return k * math.ceil(math.log(2 * k / allowed) / (2 * most**2))


def zero_column_chance(*, size: int, columns: int) -> float:
    """How often empirical risk minimisation learns nothing (Shalev-Shwartz et al. 2009): 1 − (1 − 2⁻ⁿ)ᵈ.

    Losses Σxⱼwⱼ² on the unit ball, x uniform in {0, 1}ᵈ. If some column is 0 in all n records, its unit vector has
    empirical risk 0, the minimum, and risk ½ on the population, where the best has 0. A strongly convex penalty mends
    it.
    """
    n, d = _checks.count("size", size), _checks.count("columns", columns)
    return -math.expm1(d * math.log1p(-(0.5**n)))
