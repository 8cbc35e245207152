"""How far discrete noise strays: exact tails, and the smallest radius that holds a given probability.

Discrete Laplace of scale t, with r = e^{−1/t}:  Pr[X ≥ m] = r^m/(1 + r) for m ≥ 1, and Pr[|X| ≥ m] is twice that.
Discrete Gaussian of scale σ:  summed where the scale is small; otherwise Pr[X ≥ m] ≤ Pr[N(0, σ²) ≥ m − 1] (Canonne,
Kamath and Steinke 2020, their tail bound).

>>> laplace_radius(Fraction(2), 0.05)   # 2 ln 20 = 5.99
6
>>> laplace_threshold(Fraction(1), 1e-6)
14
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from statistics import NormalDist

import numpy as np

_DIGITS = Context(prec=60)
_SUMMED = 2048
"""Scales up to which the discrete Gaussian's tail is summed term by term."""


def laplace_radius(scale: Fraction, tail: float) -> int:
    """The smallest m with Pr[|X| > m] ≤ tail, for discrete Laplace noise."""
    return max(laplace_threshold(scale, tail / 2) - 1, 0)


def laplace_threshold(scale: Fraction, tail: float | Fraction) -> int:
    """The smallest m ≥ 1 with Pr[X ≥ m] ≤ tail: m ≥ t·ln(1/(tail·(1 + r)))."""
    t = _decimal(scale)
    r = _DIGITS.exp(_DIGITS.divide(Decimal(-1), t))
    reached = _DIGITS.multiply(_decimal(Fraction(tail)), _DIGITS.add(Decimal(1), r))
    if reached >= 1:
        return 1
    # 60 digits leave an error far below this push, which can only move the answer up.
    exact = _DIGITS.multiply(t, -_DIGITS.ln(reached))
    return max(math.ceil(_DIGITS.multiply(exact, Decimal("1") + Decimal("1e-50"))), 1)


def gaussian_radius(scale: Fraction, tail: float) -> int:
    """The smallest m found with Pr[|X| > m] ≤ tail, for discrete Gaussian noise."""
    sigma = float(scale)
    if sigma <= _SUMMED:
        # Masses far below the tail are left to the bound: 40 σ is far beyond e^−700.
        x = np.arange(math.ceil(40 * sigma) + 3)
        mass = np.exp(-0.5 * (x / sigma) ** 2)
        mass[1:] *= 2
        beyond = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0) / mass.sum()  # Pr[|X| > m] at m
        return int(np.argmax(beyond * (1 + 1e-9) <= tail))
    # Pr[|X| ≥ m] ≤ 2 Pr[N ≥ m − 1] ≤ tail for m − 1 ≥ σz; |X| > m − 1 is |X| ≥ m.
    return math.ceil(-NormalDist().inv_cdf(tail / 2) * sigma * (1 + 1e-9))


def each_of(failure: float, count: int) -> float:
    """The failure that each of `count` independent statements may have: 1 − (1 − failure)^(1/count)."""
    return -math.expm1(math.log1p(-failure) / count) * (1 - 1e-12)


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
