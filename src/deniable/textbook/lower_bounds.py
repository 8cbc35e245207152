"""What no private method can do, and what is known to be reached: bounds with constants.

They hold under REPLACE, for a public number n of records. The constants are valid, not the best: between a lower and an
upper bound lies a constant factor that these proofs do not decide.

>>> packing_size(columns=100, epsilon=1, error=0.01)
3382
>>> risk = excess_risk(size=1000, dimension=2500, mu=0.24)
>>> risk.sco_lower < risk.sco_upper
True
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from deniable import _checks
from deniable._checks import Number


def packing_size(*, columns: int, epsilon: Number, error: Number) -> int:
    """The fewest records with which an ε-DP method can have all column means of [0, 1]ᵈ within α, half of the time.

    Packing (Hardt–Talwar 2010): take m = ⌊2αn⌋ + 1 copies of v in {0, 1}ᵈ and zeros else. The 2ᵈ data sets lie within m
    records of all zeros, and their good answers are disjoint. By group privacy 2ᵈ/2 ≤ e^{mε}, so

        n ≥ ((d − 1)·ln 2/ε − 1)/(2α).
    """
    wide = _checks.count("columns", columns)
    strength, most = float(_checks.positive("epsilon", epsilon)), float(_checks.positive("error", error))
    return max(1, math.ceil(((wide - 1) * math.log(2) / strength - 1) / (2 * most)))


def fingerprinting_error(*, size: int, columns: int, mu: Number) -> float:
    """The least root mean square error per column that a μ-GDP method can have on all column means of [0, 1]ᵈ.

    The fingerprinting identity: for X₁ … X_m in {±1} with mean p, p uniform on [−1, 1], and any f,

        E f(X)·Σ(Xᵢ − p) = 2 E p·f(X) = 1/3 + E f² − E(f − p)².

    Privacy bounds the left side: one record moves f by s = √(e^{μ²} − 1) standard deviations at most (χ² and
    Cauchy–Schwarz). With m real records and n − m zeros, for every m ≤ n

        error ≥ (m/2n)·(√(1/3 − m²s²/(4d)) − √(2/(3m))),      which is about √d/(6ns) at the best m.
    """
    records, wide = _checks.count("size", size), _checks.count("columns", columns)
    s = _moved(mu)
    most = min(records, math.floor(math.sqrt(4 * wide / 3) / s)) if s > 0 else records
    if most < 1:
        return 0.0
    m = np.unique(np.geomspace(1, most, 20_000).astype(np.int64)).astype(np.float64)
    inside = np.sqrt(np.maximum(0.0, 1 / 3 - m**2 * s**2 / (4 * wide))) - np.sqrt(2 / (3 * m))
    return max(0.0, float(np.max(m / (2 * records) * inside)))


class ExcessRisk(NamedTuple):
    """Bounds on the smallest excess risk of μ-GDP methods, divided by the Lipschitz constant and the radius."""

    erm_lower: float
    erm_upper: float
    sco_lower: float
    sco_upper: float
    costs_below: float
    """With fewer records the lower bound of privacy is above that of statistics: privacy must cost."""

    free_from: float
    """From this many records on the upper bound is at most √2 times that without privacy."""


def excess_risk(*, size: int, dimension: int, mu: Number) -> ExcessRisk:
    """The rates of private convex optimisation with constants, for 1-Lipschitz losses on the unit ball.

    Lower, on losses −⟨θ, x⟩: m records are ±1 vectors over √d with uniform means p, the others 0. An accurate θ must
    correlate with p, and by the fingerprinting identity 2E⟨p, θ⟩ = EΣ⟨θ, Xᵢ − p⟩ ≤ m·s, s = √(e^{μ²} − 1). With
    a = (1 − 2/(5d))/√3 ≤ E‖p‖/√d the empirical excess is at least max over m of (m/n)(a − (m + 2)s/(2√d)), and the
    population's max over l ≤ 1 of l(a − nls/(2√d)), or 0.34/√n, what n records can tell (0.25 below ten).

    Upper: noisy gradient descent with many steps has 2√d/(nμ); one pass of phased SGD √(8/(3n) + 256d/(μn)²).
    """
    n, d = _checks.count("size", size), _checks.count("dimension", dimension)
    s, strength, root = _moved(mu), float(_checks.positive("mu", mu)), math.sqrt(dimension)
    most = (1 - 2 / (5 * d)) / math.sqrt(3)
    best = min(max(most * root / s - 1, 1.0), float(n))
    erm = max(m / n * (most - (m + 2) * s / (2 * root)) for m in (math.floor(best), math.ceil(best)))
    part = min(1.0, most * root / (n * s))
    private = part * (most - part * n * s / (2 * root))
    return ExcessRisk(
        erm_lower=max(0.0, erm),
        erm_upper=min(2.0, 2 * root / (n * strength)),
        sco_lower=max((0.34 if n >= 10 else 0.25) / math.sqrt(n), private),
        sco_upper=min(2.0, math.sqrt(8 / (3 * n) + 256 * d / (n * strength) ** 2)),
        costs_below=d / (4.2 * s * s),
        free_from=96 * d / strength**2,
    )


def low_rank_risk(*, size: int, rank: int, steps: int, mu: Number, radius: Number = 1) -> float:
    """The expected empirical excess risk of noisy gradient descent on rows of rank r, whatever the dimension.

    For 1-Lipschitz losses of ⟨θ, x⟩, started at 0, without projection, with noise σ = 2√T/(nμ) in all coordinates:

        E F(average) − F* ≤ ‖θ*‖·√((1 + rσ²)/T).

    The risk sees only the part of θ in the rows' span, and that part is noisy descent in r dimensions (Song et al.
    2021). Projecting onto a ball would mix in the noise of the other dimensions. r must be declared, not read off the
    data.
    """
    n, r, t = _checks.count("size", size), _checks.count("rank", rank), _checks.count("steps", steps)
    noise = 2 * math.sqrt(t) / (n * float(_checks.positive("mu", mu)))
    return float(_checks.positive("radius", radius)) * math.sqrt((1 + r * noise**2) / t)


def _moved(mu: Number) -> float:
    """√(e^{μ²} − 1): how far one record moves the mean of a private answer, in standard deviations."""
    return math.sqrt(math.expm1(min(float(_checks.positive("mu", mu)) ** 2, 700.0)))
