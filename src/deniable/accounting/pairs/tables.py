"""From a law to atoms: the pair that connects the dots.

Between two nodes a < b, the mass (p, q) of a cell is split between a and b so that both the P-mass and the Q-mass are
kept: the pair that results has the curve that joins the true values at the nodes by straight lines in e^ε, and since
the true curve is convex there, it dominates (Doroshenko–Ghazi–Kamath–Kumar–Manurangsi 2022, "Connect the dots"). Mass
above the last node is an infinite loss; mass below the first node is moved up to it.
"""

from __future__ import annotations

import numpy as np

from deniable.accounting.pairs.law import Array, Atoms, Law, Masses


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


def tabulated(law: Law, nodes: Array) -> Atoms:
    """The pair with atoms at the nodes that dominates a law."""
    first, inside, last = cells(law, nodes)
    lower, upper = split(nodes, *inside)
    mass = np.zeros(len(nodes))
    mass[:-1] += lower
    mass[1:] += upper
    mass[0] += first[0][0]
    held = mass > 0
    # Where the masses vanish below the top, they are too small for a float, not 0.
    rare = 1e-300 if not held.any() or nodes[held][-1] < law.high else 0.0
    return Atoms.of(
        nodes[held],
        mass[held],
        infinite=last + rare,
        vanishing=float(first[1][0]) + rare,
        bound=law.peak,
        errors=(law.relative, law.location(float(np.max(np.abs(nodes))))),
    )
