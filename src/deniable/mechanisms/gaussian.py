"""The Gaussian mechanism: an answer plus discrete Gaussian noise, (ε, δ)-differentially private.

With noise of scale σ and L2 sensitivity Δ it is Δ²/(2σ²)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4). σ is the
smallest that the accountant confirms for (ε, δ); see `calibration`. A vector's sensitivity is stated in L2, or in L1
(Δ₂ ≤ Δ₁) or L∞ (Δ₂ ≤ √d·Δ∞). Rounding is as in `laplace`.

>>> m = gaussian(sensitivity=1, epsilon=1, delta=1e-6, step=1)
>>> m.event
DiscreteGaussian(scale=4.2...)
>>> m.error(0.95) < 10
True
"""

from __future__ import annotations

from deniable import _checks
from deniable._checks import Number
from deniable.mechanisms.additive import budget_of
from deniable.mechanisms.laplace import Answer, prepared
from deniable.units import Relation


class Gaussian(Answer):
    """An answer with discrete Gaussian noise."""


def gaussian(
    *,
    sensitivity: Number,
    epsilon: Number,
    delta: Number,
    norm: float = 2,
    dimension: int | None = None,
    step: Number | None = None,
    relation: Relation = Relation.ADD_REMOVE,
) -> Gaussian:
    """Gaussian noise for a number, or for `dimension` numbers whose sensitivity is stated in `norm` 1, 2 or inf."""
    _checks.inner_probability("delta", delta, remedy="laplace(...) needs no delta.")
    found, allowed = budget_of(epsilon, delta)
    return Gaussian(**prepared(sensitivity, norm, dimension, found, allowed, step, relation))
