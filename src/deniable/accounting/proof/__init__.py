"""Proof mode: the same curve in ball arithmetic, an enclosure that needs no trust in floating point.

`proof_curve(folded)` integrates along the line and with the nodes that the contour engine's search picks (a search
proves nothing and needs no proof), but evaluates everything in balls: transforms by rigorous adaptive integration
(Johansson 2018), not by the engine's trapezoid rule; sums, aliasing and truncation with outward rounding throughout.
It shares with the fast engine the formulas of docs/accounting-contour.md, and none of its arithmetic. Needs the extra
`proof` (python-flint).

>>> from deniable.accounting.fold import fold
>>> from deniable.events import Laplace
>>> curve = proof_curve(fold(Laplace(scale=10) * 1000))
>>> found = curve.epsilon_bracket(1e-6)
>>> print(f"{found.lower:.11f} {found.upper:.11f}")
18.95028736754 18.95028736754
"""

from __future__ import annotations

from deniable.accounting.proof.curve import ProofCurve, proof_curve

__all__ = ["ProofCurve", "proof_curve"]
