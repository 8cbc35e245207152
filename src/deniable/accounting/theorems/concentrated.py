"""Composition of concentrated differential privacy: ρ adds up.

Rényi divergences of adaptive compositions add at every order (Bun–Steinke 2016, Lemma 2.2; the chain rule), so
Σρ_i-zCDP; truncated CDP keeps the orders that all parts have; approximate zCDP adds its failures. Sums are exact.

>>> from deniable.guarantees import ZCDP
>>> compose_zcdp([ZCDP(0.1), ZCDP(0.2)])
ZCDP(rho=0.3)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.theorems.advanced import failure
from deniable.accounting.theorems.basic import together
from deniable.conversions.formulas import exponential_rho
from deniable.guarantees import TCDP, ZCDP, ApproxZCDP
from deniable.units import Relation


def compose_zcdp(parts: Sequence[ZCDP]) -> ZCDP:
    """Σρ_i. Exact for Gaussians."""
    first = together(parts)
    return ZCDP(sum((part.rho for part in parts), Fraction(0)), relation=first.relation, unit=first.unit)


def compose_tcdp(parts: Sequence[TCDP]) -> TCDP:
    """Σρ_i, the smallest ω_i (Bun–Dwork–Rothblum–Steinke 2018, composition of tCDP)."""
    first = together(parts)
    rho = sum((part.rho for part in parts), Fraction(0))
    return TCDP(rho, min(part.omega for part in parts), relation=first.relation, unit=first.unit)


def compose_approx_zcdp(parts: Sequence[ApproxZCDP]) -> ApproxZCDP:
    """Σρ_i, and 1 − Π(1 − δ_i) (Bun–Steinke 2016, section 8): condition on the good events of all parts."""
    first = together(parts)
    rho = sum((part.rho for part in parts), Fraction(0))
    failed = failure([(part.delta, 1) for part in parts])
    return ApproxZCDP(rho, failed, relation=first.relation, unit=first.unit)


def gaussian_zcdp(*, scale: Number, sensitivity: Number = 1, relation: Relation = Relation.ADD_REMOVE) -> ZCDP:
    """ρ = Δ²/(2σ²). Exact; for the discrete Gaussian an upper bound, equal at integer orders (Canonne et al. 2020)."""
    ratio = _checks.positive("sensitivity", sensitivity) / _checks.positive("scale", scale)
    return ZCDP(ratio**2 / 2, relation=relation)


def exponential_mechanism_zcdp(*, epsilon: Number, relation: Relation = Relation.ADD_REMOVE) -> ZCDP:
    """ρ = ε²/8: the loss of the exponential mechanism has range ε, not 2ε. Upper bound; `formulas` has the proof."""
    return ZCDP(exponential_rho(_checks.positive("epsilon", epsilon)), relation=relation)
