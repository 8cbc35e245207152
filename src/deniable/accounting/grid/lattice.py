"""A law on a lattice of losses, from above and from below.

**From above**: connect the dots (`pairs.tables`). The lattice pair dominates the law.

**From below**: outcomes whose losses fall into one cell are merged, which is post-processing, so the merged pair is
dominated by the law. The merged loss ln(p/q) of a cell lies near the cell's centre; cells are moved a little so that
it lies nearer (any cells are valid), then losses are lowered to a lattice that may be shifted as a whole. Lowering a
loss means adding Q-mass, which can only lower the curve.

Masses carry rounding errors. What is proved is about *upper sets* {L > l}: the true P-mass is within a factor 1 ±
relative of the stored one, likewise Q, at a loss moved by at most `location`. Hence for n steps the true curve is at
most (1 + relative)^n times the stored one, taken n·(2·location + 2·relative) further down, and at least the mirror
image of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.accounting.pairs.law import Array, Law, LossAtoms
from deniable.accounting.pairs.sampling import cells, split
from deniable.numerics.arrays import UNIT

_ROUNDING = 1e-11
"""Relative to what lies above it, less than this in a cell may be nothing but rounding."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """P-masses at the losses origin + step·(first + i), and P-mass at an infinite loss."""

    origin: float
    step: float
    first: int
    mass: Array
    infinite: float
    factor: float
    """Per step: how much larger (from above) or smaller (from below) the true masses may be, relatively."""

    shift: float
    """Per step: how far the true losses may be from the lattice."""

    kept: float = 0.0
    """The first mass, without what was moved up to it."""

    @property
    def losses(self) -> Array:
        """All losses of the lattice."""
        return self.origin + self.step * (self.first + np.arange(len(self.mass), dtype=np.float64))


def alignment(law: Law) -> tuple[float, float] | None:
    """An atom of the law and the spacing of its atoms, when a lattice should meet them; of atoms that lie on no lattice
    the distance of the outermost, which it can meet.
    """
    atoms = law.losses if isinstance(law, LossAtoms) else np.array(law.jumps)
    if (even := spacing(atoms)) is not None:
        return float(atoms[-1]), even
    if not law.jumps:
        return None
    return law.jumps[-1], law.jumps[-1] - law.jumps[0] if len(law.jumps) > 1 else math.inf


def spacing(losses: Array) -> float | None:
    """The spacing of the lattice that some losses lie on, if they do."""
    gaps = np.diff(losses)
    gap = float(gaps.min(initial=math.inf))
    if not 0 < gap < math.inf or not np.all(np.abs(gaps / gap - np.rint(gaps / gap)) < 1e-9):
        return None
    # The mean spacing is better determined than the smallest gap.
    return float((losses[-1] - losses[0]) / np.rint(gaps / gap).sum())


def from_above(law: Law, step: float, low: float, high: float) -> Lattice:
    """A lattice law that dominates. Losses below `low` are moved up to it, losses above `high` are counted as
    infinite.
    """
    origin = _origin(law)
    exact = _exactly(law, origin, step, low, high)
    if exact is not None:
        return exact
    # One node more at the top: an atom at `high` may be rounded to either side of its node.
    first, last = math.floor((low - origin) / step), math.ceil((high - origin) / step) + 1
    nodes: Array = origin + step * np.arange(first, last + 1, dtype=np.float64)
    mass, infinite, factor, shift = _connected(law, nodes)
    return Lattice(origin, step, first, mass, infinite, factor, shift)


def _connected(law: Law, nodes: Array) -> tuple[Array, float, float, float]:
    """Masses at the nodes that dominate a law, the mass of infinite losses, and a lattice's factor and shift."""
    under, (p, taken), over = cells(law, nodes)
    # Masses near underflow have no relative accuracy: they count as infinite losses.
    tiny = p < 1e-290
    over += float(p[tiny].sum())
    p, taken = np.where(tiny, 0.0, p), np.where(tiny, 0.0, taken)
    lower, upper = split(nodes, p, taken)
    mass = np.zeros(len(nodes))
    mass[:-1] += lower
    mass[1:] += upper
    mass[0] += under[0][0]
    top = float(max(abs(nodes[0]), abs(nodes[-1])))
    factor = law.relative + 8 * UNIT
    # Where rounding left a cell more P than its upper node can carry, the Q-mass stored there is too large. Up to 16
    # units that is a shift; beyond, the curve is raised by a factor that covers it: at a node it is at least
    # (1 − e^−gap) × the P above.
    gaps = np.diff(nodes)
    grown = np.exp(np.minimum(gaps, 700.0))
    excess = np.maximum(p - taken * grown * (1 + 16 * UNIT * (1 + np.abs(nodes[1:]))), 0.0)
    if np.any(excess > 0):
        beyond = np.cumsum(excess[::-1])[::-1]
        there = np.cumsum(mass[:0:-1])[::-1]
        needed = beyond > 0
        factor += float(np.max(beyond[needed] / (there * -np.expm1(-gaps))[needed])) * (1 + 1e-9)
    return mass, over * (1 + factor), factor, 2 * law.location(top) + 2 * factor + 32 * UNIT * (0.25 + top)


@dataclass(frozen=True, eq=False)
class LossTable:
    """P-masses at losses on no lattice, ascending, with the errors of a `Lattice`."""

    losses: Array
    mass: Array
    infinite: float
    factor: float
    shift: float

    @classmethod
    def of(cls, law: Law, losses: Array, mass: Array) -> LossTable:
        """A law of atoms as it is."""
        held, top = mass > 1e-290, float(np.max(np.abs(losses), initial=0.0))
        infinite = law.infinite + float(mass[~held].sum())
        shift = 2 * law.location(top) + 2 * law.relative + 32 * UNIT * (0.25 + top)
        return cls(losses[held], mass[held], infinite * (1 + 1e-9), law.relative + 8 * UNIT, shift)

    def less(self) -> LossTable:
        """Without infinite losses, and a hair less of the others: the masses do not add up to more than 1."""
        hair = 64 * UNIT + 2 * self.factor
        return LossTable(self.losses, self.mass * (1 - hair), 0.0, self.factor + 2 * hair, self.shift)


def table_above(law: Law, nodes: Array) -> LossTable:
    """Atoms at the nodes that dominate a law."""
    mass, infinite, factor, shift = _connected(law, nodes)
    held = mass > 0
    return LossTable(nodes[held], mass[held], infinite, factor, shift)


def table_below(law: Law, nodes: Array) -> LossTable:
    """Atoms that a law dominates: the outcomes of each cell are merged, all below the first node are, and all above the
    last but one.
    """
    under, (p, taken), over = cells(law, nodes)
    # Cells that hold nothing but rounding of the tails go to the cell below.
    some = p > _ROUNDING * (over + np.cumsum(p[::-1])[::-1])
    if not some.all():
        nodes = np.concatenate((nodes[:1], nodes[1:-1][some[1:]], nodes[-1:]))
        under, (p, taken), over = cells(law, nodes)
    p[-1], taken[-1] = p[-1] + over, float(law.above(nodes[-2:-1])[1][0])
    # e^a × the Q-mass of a cell, with a = 0 for the first
    edges = np.append(0.0, nodes[:-1])
    p, taken = np.append(under[0], p), np.append(under[1], taken)
    held = (p > 1e-290) & (taken > 1e-290)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(p) - np.log(taken) + edges - 8 * UNIT * (1 + np.abs(edges))
    # No merged loss lies above its cell, though rounding may make it seem so. What is above the last node is lowered.
    losses = np.minimum(losses, np.minimum(nodes, law.high))
    # Lowered to the order of the cells, so that what lies above a loss is an upper set.
    losses = np.minimum.accumulate(losses[held][::-1])[::-1]
    top = float(np.max(np.abs(losses), initial=float(np.max(np.abs(nodes)))))
    shift = 2 * law.location(top) + 2 * law.relative + 32 * UNIT * (0.25 + top)
    return LossTable(losses, p[held], 0.0, law.relative + 8 * UNIT, shift).less()


def from_below(law: Law, step: float, low: float, high: float, tilt: float) -> Lattice:
    """A lattice law that is dominated. Losses outside [low, high] and infinite ones are left out."""
    origin = _origin(law)
    exact = _exactly(law, origin, step, low, high)
    if exact is not None:
        # What was moved up to `low` is left out here, and so is what was counted as infinite.
        exact.mass[0] = exact.kept
        return exact
    first, last = math.floor((low - origin) / step), math.ceil((high - origin) / step)
    nodes: Array = origin + step * np.arange(first, last + 1, dtype=np.float64)
    edges: Array = np.append(nodes - step / 2, nodes[-1] + step / 2)
    top = float(max(abs(nodes[0]), abs(nodes[-1])))
    best: tuple[float, Array, Array] | None = None
    for _ in range(9 if len(nodes) < 1 << 18 else 4):
        p, off = _merged(law, edges, nodes)
        held = np.isfinite(off) & (p > 0)
        if not held.any():
            return Lattice(origin, step, first, np.zeros(1), 0.0, 0.0, 0.0)
        lowered = _best_offset(off[held], np.log(p[held]) + tilt * nodes[held], step)
        if best is None or abs(lowered) < abs(best[0]):
            best = lowered, p, off
        if abs(lowered) < 1e-5 * step:
            break
        edges[1:-1] += _better(edges, nodes, p, off)
    lowered, p, off = best if best is not None else (0.0, p, off)
    # A merged loss below its cell is nothing but rounding of the tails, which a run of cells shares: each run costs two
    # relative errors of Q, and its cells keep their places.
    under = off < -step
    runs = int(under[0]) + int(np.sum(under[1:] & ~under[:-1]))
    held = np.isfinite(off) & (p > 0)
    index = np.flatnonzero(held) + np.floor((np.maximum(off[held], -step) - lowered) / step).astype(np.int64)
    # In the order of the cells, so that what lies above a point of the lattice is an upper set.
    index = np.minimum.accumulate(index[::-1])[::-1]
    mass = np.asarray(
        np.bincount(np.maximum(index, 0), weights=np.where(index >= 0, p[held], 0.0), minlength=len(nodes)),
        dtype=np.float64,
    )
    shift = 2 * law.location(top) + (2 + 2 * runs) * law.relative + 32 * UNIT * (0.25 + top)
    return Lattice(origin + lowered, step, first, mass, 0.0, law.relative + 8 * UNIT, shift)


def _origin(law: Law) -> float:
    found = alignment(law)
    return 0.0 if found is None else found[0]


def _exactly(law: Law, origin: float, step: float, low: float, high: float) -> Lattice | None:
    """A law whose every atom is on the lattice already: above and below at once, but for what lies outside [low,
    high].
    """
    if not isinstance(law, LossAtoms) or not len(law.losses):
        return None
    index = np.rint((law.losses - origin) / step)
    misfit = float(np.max(np.abs(origin + step * index - law.losses)))
    top = float(np.max(np.abs(law.losses)))
    if misfit > 1e-13 * (1 + top):
        return None
    inside = (law.losses >= low - step) & (law.losses <= high + step)
    if not inside.any() or index[inside][-1] - index[inside][0] > 1 << 23:
        return None
    under, over = law.losses < low - step, law.losses > high + step
    mass = np.asarray(
        np.bincount((index[inside] - index[inside][0]).astype(np.int64), weights=law.p[inside]), dtype=np.float64
    )
    kept = float(mass[0])
    mass[0] += law.p[under].sum()
    infinite = law.infinite + float(law.p[over].sum()) * (1 + 1e-9)
    shift = 2 * law.location(top) + misfit + 2 * law.relative + 32 * UNIT * (0.25 + top)
    return Lattice(origin, step, int(index[inside][0]), mass, infinite, law.relative, shift, kept)


def _merged(law: Law, edges: Array, nodes: Array) -> tuple[Array, Array]:
    """Masses of the cells, and how far the merged loss lies from the node."""
    _, (p, taken), _ = cells(law, edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log(p) - np.log(taken) + (edges[:-1] - nodes) - 8 * UNIT * (1 + np.abs(nodes))
    # No merged loss lies above its cell; where rounding is all there is in a cell it could seem to. A cell whose Q-mass
    # is too small for a float has no known loss and is left out.
    return p, np.where((taken > 1e-290) | (p == 0), np.minimum(off, edges[1:] - nodes), np.inf)


def _better(edges: Array, nodes: Array, p: Array, off: Array) -> Array:
    """Moves of the inner edges that bring the merged losses nearer to the nodes: one Gauss–Newton step of least norm.

    The merged loss ln(p/q) of a cell changes with its upper edge e at the rate f·(1/p − e^−e/q), f the density there,
    and with its lower edge likewise. Whatever comes out is valid as long as the edges stay in order.
    """
    from scipy.linalg import solveh_banded

    width = np.diff(edges)
    density = (p[:-1] + p[1:]) / (width[:-1] + width[1:])
    good = np.isfinite(off) & (np.abs(off) < width) & (p > 1e-290)
    merged = np.where(good, off + nodes, nodes)
    per_mass = np.where(good, 1 / np.where(good, p, 1.0), 0.0)
    # In a cell as wide as this a finer move gains nothing, and e^width is no float.
    up = density * (-np.expm1(np.minimum(merged - edges[1:], 30.0)) * per_mass)[:-1]
    down = density * (np.expm1(np.minimum(merged - edges[:-1], 30.0)) * per_mass)[1:]
    # off_k changes by up_k·s_k + down_{k−1}·s_{k−1}; the moves of least norm that cancel it are Jᵀ(JJᵀ)⁻¹off.
    diagonal = np.zeros(len(nodes))
    diagonal[:-1] += up**2
    diagonal[1:] += down**2
    beside = up * down
    banded = np.zeros((2, len(nodes)))
    banded[0, 1:] = beside
    banded[1] = diagonal + 1e-6
    solved = solveh_banded(banded, np.where(good, -off, 0.0), check_finite=False)
    moves = up * solved[:-1] + down * solved[1:]
    most = 0.2 * np.minimum(width[:-1], width[1:])
    return np.asarray(np.clip(moves, -most, most))


def _best_offset(off: Array, log_weight: Array, step: float) -> float:
    """The shift of the lattice at which rounding losses down loses least, weighted by tilted mass."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    inside = np.mod(off + step / 2, step) - step / 2
    order = np.argsort(inside)
    sorted_off, before = inside[order], np.concatenate(([0.0], np.cumsum(weight[order])[:-1]))
    # A hair lower, so that the cell that decides is not itself rounded down by a whole step.
    return float(sorted_off[np.argmax(sorted_off - step * before)]) - 1e-9 * step
