"""A bound that always exists: moments of the sketched laws.

The sketch of a law connects the dots between its nodes, so it dominates the law and so do its moments. With K(λ) the
sum of count·ln E[e^{λL}], the conversion of Canonne–Kamath–Steinke 2020 (Prop. 12, α = λ + 1) gives for every λ > 0

    ln δ(ε) ≤ K(λ) − λε + (λ + 1)·ln(λ/(λ + 1)) − ln λ.

It is some ten per cent loose and needs no window, no transform and no lattice: where the grid's own bracket is wide (a
number of steps beyond 10⁹, losses of very different sizes) it takes over as the upper end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.grid.cumulants import Cumulants


@dataclass(frozen=True, eq=False)
class Net:
    """The bound over a range of λ about a tilt."""

    view: Cumulants
    tilt: float
    factor: float
    """ln of the factor by which all true masses may be larger."""

    shift: float
    """How far the true losses may lie above the sketched ones."""

    infinite: float
    """P-mass of losses that were cut."""

    @cached_property
    def _lines(self) -> list[tuple[float, float]]:
        """Pairs (λ, c) with ln δ(ε) ≤ c − λε."""
        found = []
        for grown in np.geomspace(1e-3, 1e2, 160):
            at = max(self.tilt, 1e-6) * float(grown)
            value = self.view.at(at)[0]
            if math.isfinite(value):
                # The sum of some thousand terms is good to 1e-12 of its size; the exponents to 1e-15 of theirs.
                margin = 1e-12 * (1 + abs(value)) + self.factor + at * self.shift
                found.append((at, value + margin + (at + 1) * math.log(at / (at + 1)) - math.log(at)))
        return found

    def delta(self, epsilon: float) -> float:
        """An upper end of δ(ε)."""
        best = min((c - at * epsilon for at, c in self._lines), default=0.0)
        return min(1.0, math.exp(min(best, 0.0)) * (1 + 1e-12) + 5e-324 + self.infinite)

    def epsilon(self, delta: float) -> float:
        """An upper end of ε(δ)."""
        left = delta - self.infinite
        if left <= 0:
            return math.inf
        wanted = math.log(left) - 1e-12
        return max(0.0, min(((c - wanted) / at for at, c in self._lines), default=math.inf) * (1 + 1e-15))
