"""Two atoms at the ends of a loss: how far they alone pull the characteristic function below 1.

Atoms of tilted mass p and p′, d apart, leave |φ(ω)| ≤ 1 − (p + p′) + |p + p′e^{iωd}|, and the last term is
√((p + p′)² − 4pp′ sin²(ωd/2)), which falls until ω = π/d, where the phases are opposite.
"""

from __future__ import annotations

import math

import numpy as np

from deniable.numerics.arrays import Reals


def ends_decay(low: float, high: float, apart: float, omegas: Reals, far: Reals, *, slack: float) -> Reals:
    """An upper bound on log |φ| from ω on: the ends up to their turn, and `far`, a bound beyond it, everywhere.

    `far` must be taken at max(ω, π/apart); the larger of the two bounds holds for all larger ω.
    """
    both, turn = low + high, math.pi / apart
    sine = np.sin(0.5 * apart * np.minimum(omegas, turn)) ** 2
    # 1 − (p + p′) + √(…) as 1 − gap, so that nothing is lost when the gap is tiny
    gap = 4 * low * high * sine / (both + np.sqrt(np.maximum(both * both - 4 * low * high * sine, 0.0)))
    near = np.where(omegas < turn, np.log1p(-np.minimum(gap * (1 - slack), 1 - 1e-16)), -np.inf)
    return np.asarray(np.minimum(np.maximum(near, far), 0.0))
