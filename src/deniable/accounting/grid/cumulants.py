"""A first look at a composition: its cumulants, its saddle point, and where its mass lies.

Nothing here is part of a proof. The numbers choose the tilt, the window and the step of the lattice; whatever they
are, the bracket is proven afterwards, and bad choices only make it wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deniable.accounting.pairs.bounds import farthest
from deniable.accounting.pairs.law import Array, Law, LossAtoms
from deniable.accounting.pairs.sampling import tabulate
from deniable.numerics.roots import bisect, enlarge

CUT = 1e-7
"""The part of δ that losses counted as infinite may cost."""


def sketch(law: Law) -> LossAtoms:
    """A law on some thousand nodes, dense about 0 and about its median."""
    high = min(law.high, farthest(law)) if law.high == math.inf else law.high
    low = law.low if law.low > -math.inf else -_farthest_below(law)
    size = max(abs(high), abs(low), 1e-300)
    spread = np.geomspace(size * 1e-13, 2 * size, 1000)
    middle = _median(law, low, high)
    nodes = np.concatenate(
        (-spread, [0.0], spread, middle - spread, [middle], middle + spread, law.jumps[:64], [low, high])
    )
    inside = np.unique(nodes[(nodes >= low) & (nodes <= high)])
    # A last node above the top, in case an atom is rounded to its far side.
    return tabulate(law, np.append(inside, high + 1e-9 * size))


def _farthest_below(law: Law) -> float:
    """Minus the loss below which P has next to nothing."""
    return enlarge(lambda loss: float(law.below(np.array([-loss]))[0][0]) <= 1e-300, 1.0, most=1e15) or 2.0**50


def _median(law: Law, low: float, high: float) -> float:
    return bisect(lambda loss: float(law.above(np.array([loss]))[0][0]) <= 0.5, low, high, turns=70)[1]


class Window(NamedTuple):
    """Where a tilted composition lives, and the tilts that prove it."""

    low: float
    high: float
    slopes: tuple[float, float]
    spread: float = 1.0

    def scaled(self, middle: float, spread: float) -> Window:
        """The window of a composition that is wider by a factor."""
        grown = max(spread / self.spread, 1.0)
        low, high = middle - (middle - self.low) * grown, middle + (self.high - middle) * grown
        return Window(low, high, (self.slopes[0] / grown, self.slopes[1] / grown), max(spread, self.spread))


@dataclass(frozen=True, eq=False)
class Cumulants:
    """K(λ) = Σ count·ln E_P[e^{λL}; L finite] of sketched laws."""

    atoms: tuple[LossAtoms, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, laws: Sequence[Law], counts: Sequence[int]) -> Cumulants:
        """From the laws of the steps."""
        return cls(tuple(sketch(law) for law in laws), tuple(counts))

    def cut(self, goal: float) -> Cumulants:
        """Without the largest losses: those that together have a P-mass that is small against δ = goal.

        Losses that never happen can dominate E[e^{λL}]; counted as infinite instead, they cost next to nothing.
        """
        kept = []
        for atoms, count in zip(self.atoms, self.counts, strict=True):
            tails = atoms.tails[0][:-1] - atoms.infinite
            most = max(1, int((tails > CUT * goal / (count * len(self.atoms))).sum()))
            kept.append(LossAtoms.paired(atoms.losses[:most], atoms.p[:most], atoms.q[:most]))
        return Cumulants(tuple(kept), self.counts)

    def trimmed(self, tilt: float) -> Cumulants:
        """With the losses that a tilt makes negligible moved up to the first that is not: they need no room then."""
        kept = []
        for number, atoms in enumerate(self.atoms):
            first = self.start(tilt, number)
            p = atoms.p[first:].copy()
            p[0] += atoms.p[:first].sum()
            kept.append(LossAtoms.of(atoms.losses[first:], p))
        return Cumulants(tuple(kept), self.counts)

    def start(self, tilt: float, number: int) -> int:
        """The first loss of one law that matters. What lies below is moved up to it, so it counts with the tilt
        there.
        """
        atoms, count = self.atoms[number], self.counts[number]
        _, v = self.tilted(tilt, number)
        moved = np.log(atoms.p.cumsum()) - np.log(atoms.p) + np.log(np.maximum(v, 1e-320))
        return max(int((moved > math.log(1e-18 / count)).argmax()) - 1, 0)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """K, K′ and K″."""
        value = slope = bend = 0.0
        for atoms, count in zip(self.atoms, self.counts, strict=True):
            if not len(atoms.losses):
                continue
            log_mass = np.log(atoms.p) + tilt * atoms.losses
            peak = float(log_mass.max())
            v = np.exp(log_mass - peak)
            total = float(v.sum())
            mean = float(v @ atoms.losses) / total
            value += count * (peak + math.log(total))
            slope += count * mean
            bend += count * float(v @ (atoms.losses - mean) ** 2) / total
        return value, slope, bend

    def log_delta(self, tilt: float) -> tuple[float, float]:
        """The ε whose saddle is at a tilt, and the saddle-point estimate of ln δ there."""
        value, slope, bend = self.at(tilt)
        return slope, value - tilt * slope - math.log(tilt) - math.log1p(tilt) - 0.5 * math.log(2 * math.pi * bend + 1)

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """The saddle of an ε, at least 0."""

        def over(tilt: float) -> float:
            _, slope, bend = self.at(tilt)
            return 1.0 if bend < 1e-8 * slope * slope and tilt > 0 else slope - epsilon

        return _rising(over)

    def tilt_for_delta(self, delta: float) -> float:
        """The saddle of a δ."""
        goal = math.log(max(delta, 1e-320))

        def over(tilt: float) -> float:
            slope, found = self.log_delta(max(tilt, 1e-12))
            # Once all the mass is at the top, more tilt tells nothing.
            frozen = self.at(tilt)[2] < 1e-8 * slope * slope
            return 1.0 if frozen else goal - min(found, 0.0)

        return _rising(over)

    def deviation(self, tilt: float) -> float:
        """The standard deviation of the tilted composition; a hair where it has none."""
        _, slope, bend = self.at(tilt)
        return max(math.sqrt(bend), 1e-9 * (1e-6 + abs(slope)))

    def window(self, tilt: float, *, exponent: float) -> Window:
        """Losses outside which the tilted composition has at most e^−exponent on either side, by Chernoff."""
        value, deviation = self.at(tilt)[0], self.deviation(tilt)
        ends = []
        for sign in (-1.0, 1.0):
            best, steep = math.inf, 1.0
            for power in np.geomspace(1e-2, 1e3, 50):
                s = float(power) / deviation
                end = (self.at(tilt + sign * s)[0] - value + exponent) / s if math.isfinite(s) else math.inf
                if end < best:
                    best, steep = end, s
            ends.append((sign * best, steep))
        return Window(ends[0][0], ends[1][0], (ends[0][1], ends[1][1]))

    def widened(self, tilt: float, step: float, origins: Sequence[float]) -> float:
        """How much wider the composition becomes when each loss is split between two points of a lattice."""
        extra = 0.0
        for number, (count, origin) in enumerate(zip(self.counts, origins, strict=True)):
            losses, v = self.tilted(tilt, number)
            apart = np.mod(losses - origin, step)
            extra += count * float(v @ (apart * (step - apart)))
        return math.sqrt(1 + extra / self.deviation(tilt) ** 2)

    def tilted(self, tilt: float, part: int) -> tuple[Array, Array]:
        """The losses of one law and its tilted masses, normalised."""
        atoms = self.atoms[part]
        log_mass = np.log(atoms.p) + tilt * atoms.losses
        v = np.exp(log_mass - log_mass.max())
        return atoms.losses, v / v.sum()


def _rising(over: Callable[[float], float]) -> float:
    """The zero of a rising function of a tilt, at least 0."""
    if over(0.0) >= 0:
        return 0.0

    def reached(tilt: float) -> bool:
        return not over(tilt) < 0

    high = enlarge(reached, 1e-3, most=1e9, factor=3) or 1e9
    return bisect(reached, high / 3 if high > 1e-3 else 0.0, high, turns=40)[1]
