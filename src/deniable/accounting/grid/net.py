"""Bounds that always exist: they need no window, no transform and no lattice.

**Moments.** The sketch of a law connects the dots between its nodes, so it dominates the law and so do its moments.
With K(λ) the sum of count·ln E[e^{λL}], the conversion of Canonne–Kamath–Steinke 2020 (Prop. 12, α = λ + 1) gives for
every λ > 0

    ln δ(ε) ≤ K(λ) − λε + (λ + 1)·ln(λ/(λ + 1)) − ln λ,

some ten per cent loose in ε. Losses that the sketch was cut at count as infinite.

**Basic composition.** δ(ε) ≤ Σ count·δ_i(ε/N), N = Σ count (Dwork–Kenthapadi–McSherry–Mironov–Naor 2006): nearly
tight for few steps and for losses so small or so rare that they do not add up to much; at ε = 0 it is the sum of the
total variations.

Where the grid's own bracket is wide (more than 10⁹ steps, losses of very different sizes, losses near 10⁻¹⁵) the
better of the two takes over as the upper end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.grid.cumulants import Cumulants
from deniable.accounting.pairs.law import Law, LossAtoms
from deniable.numerics.arrays import UNIT
from deniable.numerics.roots import border, enlarge


@dataclass(frozen=True, eq=False)
class Basic:
    """Basic composition of one direction: it asks each law for its own curve and nothing else."""

    laws: Sequence[Law]
    counts: Sequence[int]

    def delta(self, epsilon: float) -> float:
        """An upper end of δ(ε)."""
        each = epsilon / float(sum(self.counts))
        spent = (float(n) * _alone(law, each) for law, n in zip(self.laws, self.counts, strict=True))
        return min(1.0, math.fsum(spent) * (1 + 1e-15))

    def epsilon(self, delta: float) -> float:
        """An upper end of ε(δ), by bisection."""

        def kept(epsilon: float) -> bool:
            return self.delta(epsilon) <= delta

        high = enlarge(kept, 1.0, most=1e300, factor=4)
        return math.inf if high is None else border(kept, high)[1]


@dataclass(frozen=True, eq=False)
class Net:
    """Both bounds for one direction of a composition, the first about a tilt."""

    basic: Basic
    view: Cumulants
    tilt: float
    infinite: float
    """P-mass of the losses that the view was cut at."""

    @cached_property
    def _lines(self) -> list[tuple[float, float]]:
        """Pairs (λ, c) with ln δ(ε) ≤ c − λε."""
        parts = list(zip(self.basic.laws, self.view.atoms, map(float, self.basic.counts), strict=True))
        top = max((float(np.max(np.abs(atoms.losses))) for atoms in self.view.atoms if len(atoms.losses)), default=0.0)
        # The laws' masses may be larger by a factor, and their losses by a shift, than the sketch of them says.
        factor = math.fsum(n * (law.relative + 16 * UNIT) for law, _, n in parts)
        shift = math.fsum(
            n * (2 * law.location(top) + 2 * law.relative + 32 * UNIT * (0.25 + top)) for law, _, n in parts
        )
        scales = (max(self.tilt, 1e-6), 1 / self.view.deviation(max(self.tilt, 0.0)))
        found = []
        for at in np.unique(np.concatenate([scale * np.geomspace(1e-3, 1e2, 80) for scale in scales])):
            total = math.fsum(n * _log_moment(atoms, float(at)) for _, atoms, n in parts) * (1 + 1e-15)
            exponent = total + factor + at * shift + (at + 1) * math.log(at / (at + 1)) - math.log(at)
            if math.isfinite(exponent):
                found.append((float(at), exponent + 8 * UNIT * (abs(total) + at * shift + math.log(at + 2))))
        return found

    def delta(self, epsilon: float) -> float:
        """An upper end of δ(ε)."""
        best = min((c - at * epsilon for at, c in self._lines), default=0.0)
        moments = math.exp(min(best, 0.0)) * (1 + 1e-12) + math.ulp(0.0) + self.infinite
        return float(min(1.0, moments, self.basic.delta(epsilon)))

    def epsilon(self, delta: float) -> float:
        """An upper end of ε(δ)."""
        left = delta - self.infinite
        wanted = math.log(left) - 1e-12 if left > 0 else -math.inf
        moments = min(((c - wanted) / at for at, c in self._lines), default=math.inf) * (1 + 1e-15)
        return float(max(0.0, min(moments, self.basic.epsilon(delta))))


def _alone(law: Law, epsilon: float) -> float:
    """δ of one step, rounded up."""
    return 0.0 if epsilon >= law.peak + law.location(abs(law.peak)) else float(law.profile(np.array([epsilon]))[0])


def _log_moment(atoms: LossAtoms, at: float) -> float:
    """ln E[e^{λL}], rounded up."""
    if not len(atoms.losses):
        return 0.0
    exponent = at * atoms.losses
    terms = 8 * UNIT * (len(atoms.p) + 8)
    if np.max(np.abs(exponent)) < 1:
        # From the deviations: their sum is smaller by far than its parts, and each part is good to a few units.
        grown = np.expm1(exponent)
        over = math.fsum([*atoms.p.tolist(), -1.0])
        return math.log1p(float(atoms.p @ grown) + over + terms * float(atoms.p @ np.abs(grown)) + 2 * UNIT)
    log_mass = np.log(atoms.p) + exponent
    peak = float(log_mass.max())
    if not math.isfinite(peak):
        return math.inf
    near = log_mass > peak - 60
    # Far below the peak the exponent's own rounding does not matter; at it, it is a few units of its parts.
    slip = 4 * UNIT * float(np.max(np.abs(np.log(atoms.p[near])) + np.abs(exponent[near])))
    return peak + math.log(float(np.exp(log_mass - peak).sum())) + terms + slip
