"""Composition of trade-off functions: f ⊗ g = T(P × P′, Q × Q′) when f = T(P, Q), g = T(P′, Q′).

It does not depend on the pairs chosen, and bounds the adaptive composition of an f-DP and a g-DP step (Dong–Roth–Su
2019, Def. 3.1 and Theorem 3.2). Piecewise linear functions come from finite pairs (`TradeOff.atoms`), so the product is
finite and computed exactly; it has up to as many lines as the product of the two numbers, and may be lowered.

>>> from deniable.guarantees import FDP, TradeOff
>>> half = FDP(TradeOff.of_lines([(2, 0)]))
>>> len(compose_fdp([half, half]).tradeoff.corners)
4
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from deniable import _checks
from deniable.accounting.theorems.basic import together
from deniable.guarantees import FDP, TradeOff


def compose_fdp(parts: Sequence[FDP], *, lines: int = 256) -> FDP:
    """f₁ ⊗ … ⊗ f_k, symmetrised first. Exact up to `lines` lines; beyond, lowered to that many (an upper bound)."""
    first = together(parts)
    most = _checks.count("lines", lines, least=3)
    total = TradeOff.perfect()
    for part in parts:
        total = product(total, part.tradeoff.symmetrized()).lowered(most)
    return FDP(total, relation=first.relation, unit=first.unit)


def product(first: TradeOff, second: TradeOff) -> TradeOff:
    """f ⊗ g, exactly: all products of atoms, the most telling ones first."""
    masses: dict[Fraction | None, tuple[Fraction, Fraction]] = {}
    for p, q in first.atoms:
        for r, s in second.atoms:
            false, caught = p * r, q * s
            if not false and not caught:
                continue
            # The likelihood ratio P/Q: small means telling; None (nothing caught) comes last.
            key = false / caught if caught else None
            before = masses.get(key, (Fraction(0), Fraction(0)))
            masses[key] = (before[0] + false, before[1] + caught)
    alpha, missed = Fraction(0), Fraction(1)
    corners: list[tuple[Fraction, Fraction]] = []
    ordered = sorted((key for key in masses if key is not None), key=lambda ratio: ratio)
    if not ordered or ordered[0] > 0:
        corners.append((alpha, missed))
    for key in [*ordered, *([None] if None in masses else [])]:
        false, caught = masses[key]
        alpha, missed = alpha + false, missed - caught
        corners.append((alpha, missed))
    return TradeOff(corners)
