"""Divergences of two given laws: Rényi, Kullback–Leibler, total variation, hockey-stick.

A law is a mapping from outcomes to probabilities, or a continuous law of `scipy.stats`, such as `norm(1)`. Sums are
exact up to rounding. Integrals are composite Gauss–Legendre sums, for laws that are smooth but at their median: good to
nine digits, and to six where the integrand itself has a corner (total variation, hockey-stick). They are for teaching
and for tests; the accountant has its own, proven integrals.

>>> round(kl_divergence({"yes": 0.9, "no": 0.1}, {"yes": 0.5, "no": 0.5}), 4)
0.3681
>>> from scipy.stats import norm
>>> round(renyi_divergence(norm(1), norm(0), order=2), 6)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument

Law: TypeAlias = Mapping[Any, float] | Any
"""Probabilities by outcome, or a continuous law with `logpdf`, `ppf` and `median`, as `scipy.stats` has them."""

Floats: TypeAlias = NDArray[np.float64]
PANELS = 400
POINTS = 12


def renyi_divergence(first: Law, second: Law, *, order: Number) -> float:
    """D_α(P‖Q) = ln E_Q (P/Q)^α / (α − 1), for α > 1; infinite where P has an outcome that Q has not."""
    alpha = float(_checks.order("order", order))

    def log_weight(p: Floats, q: Floats) -> Floats:
        return alpha * p + (1 - alpha) * q

    logs, widths = _log_values(first, second, log_weight)
    top = float(np.max(logs))
    if top in (math.inf, -math.inf):
        return top
    return max(0.0, (top + math.log(float(widths @ np.exp(logs - top)))) / (alpha - 1))


def kl_divergence(first: Law, second: Law) -> float:
    """KL(P‖Q) = E_P ln(P/Q), the mean of the privacy loss."""
    return _sum(first, second, lambda p, q: np.exp(p) * np.where(np.isneginf(p), 0.0, p - q))


def total_variation(first: Law, second: Law) -> float:
    """½∫|P − Q|, the largest difference of the probabilities of an event."""
    return hockey_stick(first, second, epsilon=0)


def hockey_stick(first: Law, second: Law, *, epsilon: Number) -> float:
    """∫(P − e^ε Q)₊: the smallest δ with which P keeps (ε, δ) against Q."""
    shift = float(_checks.nonnegative("epsilon", epsilon))
    return _sum(first, second, lambda p, q: np.maximum(0.0, np.exp(p) - np.exp(q + shift)))


def random_record_laws(size: int) -> tuple[dict[str, float], dict[str, float]]:
    """What is published if one of n records is, at random: with somebody's record, and with another's in its place.

    Total variation is 1/n, which looks harmless. But δ(ε) is 1/n for every ε, and in every release somebody is exposed.
    """
    share = 1 / _checks.count("size", size, least=2)
    others = {"another record": 1 - share}
    return {"your record": share, **others}, {"the record in its place": share, **others}


def binary_test_divergence(mu: Number, *, order: Number) -> float:
    """The largest D_α that any test between N(μ, 1) and N(0, 1) has, of the αμ²/2 that the laws themselves have.

    A test has two outcomes. Hockey-stick divergences are reached by a test; Rényi divergences are not (Balle et al.
    2020), so a bound on D_α is not a statement about tests. By the Neyman–Pearson lemma thresholds are the best tests.
    """
    from scipy.special import log_ndtr

    shift, alpha = float(_checks.positive("mu", mu)), float(_checks.order("order", order))

    def divergence(threshold: float) -> float:
        terms = [
            alpha * log_ndtr(sign * (shift - threshold)) + (1 - alpha) * log_ndtr(sign * -threshold) for sign in (1, -1)
        ]
        return float(np.logaddexp(*terms)) / (alpha - 1)

    # The tilted law is N(αμ, 1): the best threshold lies between the two means and there.
    grid = np.linspace(-2, alpha * shift + 2, 4001)
    return max(map(divergence, grid.tolist()))


def _sum(first: Law, second: Law, term: Callable[[Floats, Floats], Floats]) -> float:
    values, widths = _log_values(first, second, term)
    return max(0.0, float(widths @ values))


def _log_values(first: Law, second: Law, term: Callable[[Floats, Floats], Floats]) -> tuple[Floats, Floats]:
    """`term` of both log densities at points, and the weight of each point."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        outcomes = [*first, *(each for each in second if each not in first)]
        p, q = _log_masses("first", first, outcomes), _log_masses("second", second, outcomes)
        held = ~(np.isneginf(p) & np.isneginf(q))
        with np.errstate(invalid="ignore"):
            values = term(p[held], q[held])
        return np.where(np.isnan(values), -math.inf, values), np.ones(int(held.sum()))
    if not (hasattr(first, "logpdf") and hasattr(second, "logpdf")):
        raise InvalidArgument(
            "first", first, "two mappings of outcomes to probabilities, or two continuous laws of scipy.stats"
        )
    points, widths = _points(first, second)
    with np.errstate(invalid="ignore"):
        values = term(first.logpdf(points), second.logpdf(points))
    return np.where(np.isnan(values), -math.inf, values), widths


def _log_masses(name: str, law: Mapping[Hashable, float], outcomes: list[Hashable]) -> Floats:
    masses = np.array([float(law.get(each, 0.0)) for each in outcomes])
    if (masses < 0).any() or not math.isclose(masses.sum(), 1, rel_tol=1e-9):
        raise InvalidArgument(name, law, "probabilities that add up to 1")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(masses))


def _points(first: Any, second: Any) -> tuple[Floats, Floats]:
    """Nodes and weights that cover both laws and, far beyond them, what high orders weigh."""
    ends = [float(law.ppf(share)) for law in (first, second) for share in (1e-14, 1 - 1e-14)]
    low, high = min(ends), max(ends)
    reach = high - low
    middles = sorted({float(first.median()), float(second.median())})
    edges = [low - 4 * reach, *np.linspace(low, high, PANELS).tolist(), *middles, high + 4 * reach]
    edges += np.linspace(low - 4 * reach, high + 4 * reach, PANELS).tolist()
    cuts = np.unique(np.array(edges))
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    halves = np.diff(cuts) / 2
    return (
        (cuts[:-1, None] + halves[:, None] * (nodes + 1)).ravel(),
        (halves[:, None] * weights).ravel(),
    )
