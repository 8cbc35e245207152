"""Sampling: which pair a step on a random part of the data has.

* **Poisson, ADD_REMOVE and ZERO_OUT.** If (P, Q) dominates a step when the unit is removed, ((1−q)Q + qP, Q) dominates
  it on a Poisson sample; for the other order likewise (Zhu–Dong–Wang 2022, Thm 11). The two orders differ.
* **Poisson, REPLACE, added noise with its reach.** The placement of `normal` and `laplace`, symmetric.
* **Poisson, REPLACE, anything else.** δ′(ε) ≤ q·δ(ε) for ε ≥ 0 is all that holds (`bounds`).
* **Fixed size without replacement, REPLACE.** δ′(ln(1 + q(e^ε − 1))) ≤ q·δ(ε) for ε ≥ 0, q = batch/size, in both
  orders (Balle–Barthe–Gaboardi 2018, Thm 9), so `Symmetric` of `Mixed` dominates (it is C_q of Dong–Roth–Su 2019, Thm
  4.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deniable.accounting.pairs.bounds import bounded, farthest
from deniable.accounting.pairs.law import Array, Law, LossAtoms, Masses, Mixed, Reversed, Symmetric
from deniable.numerics.arrays import UNIT


def cells(law: Law, edges: Array) -> tuple[Masses, Masses, float]:
    """The masses below the first edge, those of the cells (a, b] (the second times e^a), and the P-mass above the last
    edge.

    Right of the median a cell is a difference of tails, left of it of heads, so that it is small where the law is
    small. A difference of neighbouring floats is exact, so that the cells above an edge add up to the tail there:
    rounding is that of the tails, however many cells there are. It must not make a mass negative, so tails are made to
    fall, heads to rise.
    """
    tail, taken = law.above(edges)
    head, head_q = law.below(edges)
    tail, head, head_q = _falling(tail), np.maximum.accumulate(head), np.maximum.accumulate(head_q)
    p = np.where(tail[:-1] < 0.5, tail[:-1] - tail[1:], head[1:] - head[:-1])
    p = np.where((tail[:-1] >= 0.5) & (tail[1:] < 0.5), np.maximum(1 - head[:-1] - tail[1:], 0.0), p)
    # Q[L > l] ≤ e^−l, so the median of Q lies below ln 2.
    with np.errstate(under="ignore"):
        left = (head_q[1:] - head_q[:-1]) * np.exp(np.minimum(edges[:-1], 1.0))
    return (head[:1], head_q[:1]), (p, np.where(head_q[1:] < 0.5, left, _taken(edges, taken))), float(tail[-1])


def _falling(tail: Array) -> Array:
    """The smallest falling sequence at or above one that falls but for rounding."""
    return np.maximum.accumulate(tail[::-1])[::-1]


def _taken(edges: Array, taken: Array) -> Array:
    """e^a × the Q-mass of each cell (a, b], from e^l·Q[L > l] at the edges.

    Q itself may underflow where e^l·Q does not, so it is scaled by e^c with the same c for a long run of cells.
    """
    gaps = np.diff(edges)
    if np.all(gaps > 40):
        # Q above b is nothing beside Q above a, unless the cell lies left of the median of Q, where it is not used.
        return np.asarray(np.maximum(taken[:-1] - taken[1:] * np.exp(-gaps), 0.0))
    found = np.zeros(len(edges) - 1)
    begin = 0
    while begin < len(found):
        # The first run also takes all that lies below 0.
        scale = max(float(edges[begin]), 0.0)
        end = min(len(found), max(begin + 1, int(np.searchsorted(edges, scale + 300.0))))
        with np.errstate(under="ignore"):
            scaled = _falling(taken[begin : end + 1] * np.exp(np.minimum(scale - edges[begin : end + 1], 700.0)))
            found[begin:end] = (scaled[:-1] - scaled[1:]) * np.exp(edges[begin:end] - scale)
        begin = end
    return found


def split(nodes: Array, p: Array, taken: Array) -> tuple[Array, Array]:
    """For each cell (a, b], the P-mass that goes to a and to b; `taken` is e^a × its Q-mass."""
    upper = np.clip((p - taken) / -np.expm1(-np.diff(nodes)), 0.0, p)
    return p - upper, upper


def tabulate(law: Law, nodes: Array) -> LossAtoms:
    """The pair with atoms at the nodes that dominates a law.

    From a law to atoms: the pair that connects the dots.

    Between two nodes a < b, the mass (p, q) of a cell is split between a and b so that both the P-mass and the Q-mass
    are kept: the pair that results has the curve that joins the true values at the nodes by straight lines in e^ε, and
    since the true curve is convex there, it dominates (Doroshenko–Ghazi–Kamath–Kumar–Manurangsi 2022, "Connect the
    dots"). Mass above the last node is an infinite loss; mass below the first node is moved up to it.
    """
    first, inside, last = cells(law, nodes)
    lower, upper = split(nodes, *inside)
    mass = np.zeros(len(nodes))
    mass[:-1] += lower
    mass[1:] += upper
    mass[0] += first[0][0]
    held = mass > 0
    # Where the masses vanish below the top, they are too small for a float, not 0.
    rare = 1e-300 if not held.any() or nodes[held][-1] < law.high else 0.0
    return LossAtoms.of(
        nodes[held],
        mass[held],
        infinite=last + rare,
        vanishing=float(first[1][0]) + rare,
        bound=law.peak,
        errors=(law.relative, law.location(float(np.max(np.abs(nodes))))),
    )


Directions = tuple[Law, ...]
"""One law when both orders are the same, else the law of removing and the law of adding."""


def poisson(inner: Directions, rate: float) -> Directions:
    """A Poisson sample, for a unit that is present or absent."""
    remove, add = inner[0], inner[-1]
    return Mixed(remove, rate), Reversed(Mixed(Reversed(add), rate))


def without_replacement(inner: Directions, rate: float) -> Directions:
    """A batch of fixed size, for a unit that is replaced. The inner law is the same in both orders."""
    return (Symmetric(Mixed(inner[0], rate)),)


def poisson_replaced(placed: Law) -> Directions:
    """A Poisson sample, for a unit that is replaced, by the worst placement of unit and replacement."""
    return (Symmetric(placed),)


def poisson_bound(inner: Directions, rate: float) -> Directions:
    """A Poisson sample, for a unit that is replaced, when nothing is known of its absence."""
    law = inner[0]
    reach, known = law.high if law.high < math.inf else farthest(law), law.atoms()
    # Between the losses of finitely many atoms a curve is straight in e^ε.
    nodes = np.unique(np.append(0.0, known[0][known[0] > 0])) if known is not None else None
    return (bounded(lambda e: rate * law.profile(e), reach=reach, peak=law.peak, nodes=nodes),)


@dataclass(frozen=True, eq=False)
class Blend(Law):
    """One of several pairs, drawn with known probabilities, and which one is told: all masses are averages."""

    parts: tuple[tuple[float, Law], ...]

    def __post_init__(self) -> None:
        laws = [law for _, law in self.parts]
        for name, value in (
            ("low", min(law.low for law in laws)),
            ("high", max(law.high for law in laws)),
            ("infinite", sum(weight * law.infinite for weight, law in self.parts)),
            ("vanishing", sum(weight * law.vanishing for weight, law in self.parts)),
            ("relative", max(law.relative for law in laws) + 8 * UNIT),
        ):
            object.__setattr__(self, name, value)

    def location(self, top: float) -> float:
        return max(law.location(top) for _, law in self.parts)

    def above(self, loss: Array) -> Masses:
        return self._mean([law.above(loss) for _, law in self.parts])

    def below(self, loss: Array) -> Masses:
        return self._mean([law.below(loss) for _, law in self.parts])

    def _mean(self, masses: Sequence[Masses]) -> Masses:
        weights = np.array([weight for weight, _ in self.parts])
        p, q = (np.tensordot(weights, np.array([pair[world] for pair in masses]), axes=1) for world in (0, 1))
        return np.asarray(p), np.asarray(q)


def blend(parts: Sequence[tuple[float, Law]]) -> Law:
    """The average of laws; those of weight 0 are left out."""
    return Blend(tuple((weight, law) for weight, law in parts if weight > 0))


HALF = 4096
"""Nodes on either side of 0."""

_FEW, _MOST = 8, 1024
"""Up to this many steps that together have at most so many losses are multiplied out."""


def product(parts: Sequence[tuple[Law, int]]) -> LossAtoms:
    """A pair that dominates the product of laws, each with its count.

    The law of several steps on one and the same sample, when they are not all Gaussian.

    Each step is put on one lattice by connecting the dots; the lattices are convolved term by term. All terms are
    positive, so nothing cancels and the tail keeps its relative accuracy. What leaves the window at the top becomes an
    infinite loss.
    """
    exact = _product_of_atoms(parts)
    if exact is not None:
        return exact
    reach = sum(count * min(max(law.high, -law.low), farthest(law)) for law, count in parts)
    # Each of the steps is rounded up by less than one node; the window has room for that, up to a point.
    step = reach / (HALF - min(sum(count for _, count in parts), HALF // 2)) or 1.0
    nodes: Array = step * np.arange(-HALF, HALF + 1, dtype=np.float64)
    total, infinite, vanishing = np.zeros(len(nodes)), 0.0, 0.0
    total[HALF] = 1.0
    rounds, location, relative = 0, 0.0, 0.0
    for law, count in parts:
        atoms = tabulate(law, nodes)
        mass = np.zeros(len(nodes))
        mass[np.searchsorted(nodes, atoms.losses)] = atoms.p
        location += count * law.location(reach)
        relative += count * law.relative
        lost, missed = atoms.infinite, atoms.vanishing
        while count:
            if count & 1:
                total, over, under = _convolve(total, mass, step)
                infinite, vanishing = infinite + over + lost, vanishing + under + missed
                rounds += 1
            count >>= 1
            if count:
                mass, over, under = _convolve(mass, mass, step)
                lost, missed = 2 * lost + over, 2 * missed + under
                rounds += 1
    errors = (relative + rounds * len(nodes) * 4 * UNIT, location)
    held = total > 0
    return LossAtoms.of(
        nodes[held], total[held], infinite=min(1.0, infinite), vanishing=min(1.0, vanishing), errors=errors
    )


def _product_of_atoms(parts: Sequence[tuple[Law, int]]) -> LossAtoms | None:
    """The product itself, where all of its factors have few losses."""
    if sum(count for _, count in parts) > _FEW:
        return None
    every = [law for law, count in parts for _ in range(count)]
    known = [one for law in every if (one := law.atoms()) is not None and len(one[0])]
    if len(known) < len(every) or math.prod(len(one[0]) for one in known) > _MOST:
        return None
    l, p, q = np.zeros(1), np.ones(1), np.ones(1)
    for losses, own_p, own_q in known:
        l, p, q = np.add.outer(l, losses).ravel(), np.outer(p, own_p).ravel(), np.outer(q, own_q).ravel()
    tops = [float(np.max(np.abs(losses))) for losses, _, _ in known]
    errors = (
        math.fsum(law.relative + 4 * UNIT for law in every),
        math.fsum(law.location(top) for law, top in zip(every, tops, strict=True)),
    )
    infinite = _any_of([law.infinite for law in every])
    vanishing = _any_of([law.vanishing for law in every])
    return LossAtoms.paired(l, p, q, infinite=infinite, vanishing=vanishing, errors=errors)


def _any_of(chances: Sequence[float]) -> float:
    """1 − Π(1 − c), rounded up."""
    if max(chances) >= 1:
        return 1.0
    return min(1.0, -math.expm1(math.fsum(math.log1p(-chance) for chance in chances)) * (1 + 16 * UNIT))


def _convolve(a: Array, b: Array, step: float) -> tuple[Array, float, float]:
    """The convolution inside the window, what is below it moved up to its first node; the P-mass above the window, and
    the Q-mass below it.
    """
    # A narrow law has nothing at most of its nodes.
    full = np.zeros(len(a) + len(b) - 1)
    first, second = np.flatnonzero(a), np.flatnonzero(b)
    if len(first) and len(second):
        some = np.convolve(a[first[0] : first[-1] + 1], b[second[0] : second[-1] + 1])
        full[first[0] + second[0] :][: len(some)] = some
    inside = full[HALF : HALF + len(a)].copy()
    inside[0] += full[:HALF].sum()
    with np.errstate(divide="ignore", under="ignore"):
        below = np.exp(np.minimum(np.log(full[:HALF]) - step * np.arange(-2 * HALF, -HALF), 0.0))
    return inside, float(full[HALF + len(a) :].sum()), min(1.0, float(below.sum()))
