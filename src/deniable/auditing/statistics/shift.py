"""μ from scores that are normal: the whole sample instead of one threshold.

White-box canaries give scores that are N(m, s²) without the canary and N(m + μs, s²) with it. The difference of the
means over the pooled deviation, times r = √(n₀n₁/(n₀ + n₁)), then has the noncentral t law with n₀ + n₁ − 2 degrees of
freedom and noncentrality rμ; its quantile in the noncentrality is an exact lower bound. It needs scores that are normal
with one variance, which a mechanism under audit need not give: where that is in doubt, use `mu_lower`.

P[T ≥ t] = E Φ(rμ − tS), S² a chi-square over its degrees of freedom, is computed by quadrature: SciPy's own quantile
is off by orders of magnitude at levels below 1e-6.

>>> scores = np.random.default_rng(0).normal(size=(2, 1000))
>>> round(shift_lower(scores[0], scores[1] + 1).value, 2)      # the truth is 1
0.96
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics.counts import FIXED, Bound
from deniable.errors import InvalidArgument
from deniable.numerics.roots import bisect


def shift_lower(without: Any, with_: Any, *, confidence: Number = 0.95) -> Bound:
    """μ is at least this, with the stated confidence, if scores are normal; the direction was fixed before: up."""
    level = float(1 - _checks.inner_probability("confidence", confidence))
    out, inside = (np.asarray(scores, dtype=np.float64).ravel() for scores in (without, with_))
    if min(out.size, inside.size) < 2 or not np.isfinite(out).all() or not np.isfinite(inside).all():
        raise InvalidArgument("scores", f"{out.size} and {inside.size}", "two or more finite scores from each world")
    freedom = out.size + inside.size - 2
    pooled = math.sqrt((out.var() * out.size + inside.var() * inside.size) / freedom)
    if pooled == 0:
        raise InvalidArgument("scores", "all equal", "scores that vary")
    root = math.sqrt(out.size * inside.size / (out.size + inside.size))
    observed = (inside.mean() - out.mean()) / pooled * root
    return noncentral_lower(observed, root=root, freedom=freedom, level=level)


def noncentral_lower(observed: float, *, root: float, freedom: int, level: float) -> Bound:
    """μ is at least this if `observed` has the noncentral t law with noncentrality root·μ."""
    from scipy import special

    spreads, chances = _spreads(freedom)

    def possible(noncentrality: float) -> bool:
        return float((chances * special.ndtr(noncentrality - observed * spreads)).sum()) > level

    # P[T ≥ observed] grows with the noncentrality, and is about ½ at the observed one.
    value = float(bisect(possible, 0.0, max(0.0, float(observed)))[0] / root)
    return Bound(
        value, True, f"μ ≥ {value:.4f} but for a chance of {level:.2g}", f"{FIXED}; normal scores of one variance"
    )


def _spreads(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of a quadrature over √(chi-square/freedom), in panels between its quantiles."""
    from scipy import special

    nodes, weights = np.polynomial.legendre.leggauss(40)
    tails = np.array([1e-40, 1e-25, 1e-15, 1e-8, 1e-3, 0.1])
    lower, upper = 2 * special.gammaincinv(freedom / 2, tails), 2 * special.gammainccinv(freedom / 2, tails[::-1])
    edges = np.sqrt(np.concatenate([lower, [freedom - 2 / 3], upper]) / freedom)
    low, wide = edges[:-1, None], np.diff(edges)[:, None]
    at = low + wide * (nodes + 1) / 2
    square = freedom * at**2
    # The density of the root: 2·freedom·at times that of the chi-square.
    density = (freedom / 2 - 1) * np.log(square / 2) - square / 2 - special.gammaln(freedom / 2)
    return at.ravel(), (wide / 2 * weights * np.exp(density) * freedom * at).ravel()
