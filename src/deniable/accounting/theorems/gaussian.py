"""Composition of Gaussian differential privacy: μ² adds up.

N(μ₁, 1) × N(μ₂, 1) against N(0, 1)² is one Gaussian pair at distance √(μ₁² + μ₂²), so GDP composes exactly (Dong–Roth–
Su 2019, Cor. 3.3), adaptively when the μ_i are fixed in advance. With Gaussian steps do not split (ε, δ): compose μ.

>>> from deniable.guarantees import GDP
>>> compose_gdp([GDP(3), GDP(4)])
GDP(mu=5)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.theorems.basic import together
from deniable.errors import InvalidArgument
from deniable.guarantees import GDP
from deniable.numerics.exact import root_above


def compose_gdp(parts: Sequence[GDP]) -> GDP:
    """√Σμ_i², rounded up unless it is rational. Exact for Gaussians."""
    first = together(parts)
    squares = sum((part.mu**2 for part in parts), Fraction(0))
    return GDP(root_above(squares), relation=first.relation, unit=first.unit)


def compose_gdp_repeated(guarantee: GDP, *, count: int) -> GDP:
    """√k·μ. Exact for Gaussians."""
    times = _checks.count("count", count)
    return GDP(root_above(times * guarantee.mu**2), relation=guarantee.relation, unit=guarantee.unit)


def scale_per_query(total: GDP, *, count: int, sensitivity: Number = 1) -> Fraction:
    """The σ = √k·Δ/μ of each of k Gaussian queries that are together μ-GDP, rounded up."""
    times = _checks.count("count", count)
    moved = _checks.positive("sensitivity", sensitivity)
    if not total.mu:
        raise InvalidArgument("mu", total.mu, "a positive number", "No finite noise gives μ = 0.")
    return root_above(times * (moved / total.mu) ** 2)
