"""log(1 − q + q e^u): the density of a sampled step, relative to its absence, where e^u is that of the step itself."""

from __future__ import annotations

import math

import numpy as np

from deniable.numerics.arrays import CALL, UNIT, Reals

_FAR = 30.0


def log_sampled(u: Reals, u_error: Reals, *, rate: float, rest: float) -> tuple[Reals, Reals, Reals]:
    """The logarithm, the share of the step in the density, and a bound on the error of the logarithm.

    `rest` is 1 − rate, rounded from the exact number. Three forms meet: log1p of rate·expm1(u) where the density is
    near 1, the plain logarithm where it is small, and u + log(rate) + … where e^u would overflow. In the first, r =
    rate·expm1(u) has relative error CALL + 2 units, which moves the logarithm by |r|/(1 + r) ≤ 2(1 − e^{−|ℓ|}) times
    that. In the second the sum has relative error CALL + 3 units and 1 − e^{−|ℓ|} is at least 1/2. In the third every
    term is rounded on its own. An error in u counts with the share as its factor.
    """
    beyond = bool(u.max(initial=0.0) > _FAR)
    small = np.minimum(u, _FAR) if beyond else u
    r = rate * np.expm1(small)
    grown = rate * np.exp(small)
    share = grown / (rest + grown)
    value = np.log1p(np.maximum(r, -0.75))
    if rate > 0.5:
        value = np.where(r > -0.5, value, np.log(rest + grown))
    parts = -np.expm1(-np.abs(value))
    if beyond:
        far = u > _FAR
        log_rate = math.log(rate)
        value = np.where(far, u + (log_rate + np.log1p(rest / rate * np.exp(-np.maximum(u, _FAR)))), value)
        share = np.where(far, 1.0, share)
        parts = np.where(far, np.abs(u) + (2.0 + abs(log_rate)), parts)
    error = (share * u_error) * (1 + 1e-9) + 3 * (CALL + 4 * UNIT) * parts + 2 * CALL * np.abs(value)
    return value, share, error


def log_sampled_at(u: float, *, rate: float, rest: float) -> tuple[float, float]:
    """The logarithm and the share at one point."""
    if u > _FAR:
        return u + (math.log(rate) + math.log1p(rest / rate * math.exp(-u))), 1.0
    grown = rate * math.exp(u)
    r = rate * math.expm1(u)
    return (math.log1p(r) if r > -0.5 else math.log(rest + grown)), grown / (rest + grown)
