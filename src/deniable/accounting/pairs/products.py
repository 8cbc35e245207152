"""The law of several steps on one and the same sample, when they are not all Gaussian.

Each step is put on one lattice by connecting the dots; the lattices are convolved term by term. All terms are
positive, so nothing cancels and the tail keeps its relative accuracy. What leaves the window at the top becomes an
infinite loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.accounting.pairs.law import Array, Atoms, Law
from deniable.accounting.pairs.sampling import farthest
from deniable.accounting.pairs.tables import tabulated
from deniable.numerics.arrays import UNIT

HALF = 4096
"""Nodes on either side of 0."""


def product(parts: Sequence[tuple[Law, int]]) -> Atoms:
    """A pair that dominates the product of laws, each with its count."""
    reach = sum(count * min(max(law.high, -law.low), farthest(law)) for law, count in parts)
    # Each of the steps is rounded up by less than one node; the window has room for that, up to a point.
    step = reach / (HALF - min(sum(count for _, count in parts), HALF // 2)) or 1.0
    nodes: Array = step * np.arange(-HALF, HALF + 1, dtype=np.float64)
    total, infinite, vanishing = np.zeros(len(nodes)), 0.0, 0.0
    total[HALF] = 1.0
    rounds, location, relative = 0, 0.0, 0.0
    for law, count in parts:
        atoms = tabulated(law, nodes)
        mass = np.zeros(len(nodes))
        mass[np.searchsorted(nodes, atoms.losses)] = atoms.p
        location += count * law.location(reach)
        relative += count * law.relative
        lost, missed = atoms.infinite, atoms.vanishing
        while count:
            if count & 1:
                total, over, under = _convolved(total, mass, step)
                infinite, vanishing = infinite + over + lost, vanishing + under + missed
                rounds += 1
            count >>= 1
            if count:
                mass, over, under = _convolved(mass, mass, step)
                lost, missed = 2 * lost + over, 2 * missed + under
                rounds += 1
    errors = (relative + rounds * len(nodes) * 4 * UNIT, location)
    held = total > 0
    return Atoms.of(nodes[held], total[held], infinite=min(1.0, infinite), vanishing=min(1.0, vanishing), errors=errors)


def _convolved(a: Array, b: Array, step: float) -> tuple[Array, float, float]:
    """The convolution inside the window, what is below it moved up to its first node; the P-mass above the window, and
    the Q-mass below it.
    """
    full = np.convolve(a, b)
    inside = full[HALF : HALF + len(a)].copy()
    inside[0] += full[:HALF].sum()
    with np.errstate(divide="ignore", under="ignore"):
        below = np.exp(np.minimum(np.log(full[:HALF]) - step * np.arange(-2 * HALF, -HALF), 0.0))
    return inside, float(full[HALF + len(a) :].sum()), min(1.0, float(below.sum()))
