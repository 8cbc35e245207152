"""Binomial masses for any number of trials, accurate in the far tail.

The mass of Bin(n, q) at j is √(n/(2πj(n−j)))·exp(s(n) − s(j) − s(n−j) − d(j, nq) − d(n−j, n(1−q))), where s is the
error of Stirling's formula and d(x, m) = x ln(x/m) + m − x the deviance (Loader 2000). Nothing of size n ln n is
subtracted, so n = 10¹² keeps its digits.

>>> round(float(log_masses(10, 0.5, [5])[0]), 12) == round(math.log(252 / 1024), 12)
True
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def log_masses(trials: Any, success: float, at: Any, *, failure: float | None = None) -> Floats:
    """ln P[Bin(n, q) = j] at arrays of j in 0..n (and n); `failure` is 1 − q where it is known to more digits."""
    import numpy as np

    j = np.asarray(at, dtype=float)
    n = np.asarray(trials, dtype=float)
    other = n - j
    fail = 1 - success if failure is None else failure
    log = _stirling(n) - _stirling(j) - _stirling(other) - _deviance(j, n * success) - _deviance(other, n * fail)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 0.5 * (np.log(n / (2 * math.pi)) - np.log(j) - np.log(other))
    inner = (j > 0) & (other > 0)
    ends = np.where(j == 0, n * _log_other(success, fail), n * _log_other(fail, success))
    return np.where(inner, log + np.where(inner, scale, 0.0), ends)


def _log_other(share: float, other: float) -> float:
    """ln(1 − share), from whichever of the two has more digits."""
    return math.log1p(-share) if share < 0.5 else math.log(other)


def mass_error(trials: int, success: float, at: float) -> float:
    """A bound on the relative error of exp(log_masses): q is known to an ulp, which counts |j − nq| times."""
    return 2.0**-52 * (64 + 8 * abs(at - trials * success) + 128 * _deviance_scalar(at, trials * success))


def _deviance_scalar(x: float, mean: float) -> float:
    return x * math.log(x / mean) + mean - x if x > 0 else mean


def _stirling(n: Floats) -> Floats:
    """ln n! − ln(√(2πn)(n/e)^n): the series beyond 15, exact differences below."""
    import numpy as np
    from scipy.special import gammaln

    safe = np.maximum(n, 1.0)
    direct = gammaln(safe + 1) - (safe + 0.5) * np.log(safe) + safe - 0.5 * math.log(2 * math.pi)
    inverse = 1 / safe
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    found: Floats = np.where(n < 16, direct, series)
    return np.where(n == 0, 0.0, found)


def _deviance(x: Floats, mean: Floats) -> Floats:
    """x ln(x/m) + m − x ≥ 0; by its series where x is close to m, where the direct form cancels."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.where(x > 0, x * np.log(np.maximum(x, 1e-300) / mean), 0.0) + mean - x
    ratio = (x - mean) / np.maximum(x + mean, 1e-300)
    near = np.abs(ratio) < 0.1
    small = np.where(near, ratio, 0.0)
    # Loader: d = (x − m)v + 2x·Σ_{k≥1} v^{2k+1}/(2k+1), v = (x − m)/(x + m).
    square = small * small
    power, total = small, np.zeros_like(small)
    for k in range(1, 16):
        power = power * square
        total = total + power / (2 * k + 1)
    series = (x - mean) * small + 2 * x * total
    found: Floats = np.where(near, series, direct)
    return np.maximum(found, 0.0)
