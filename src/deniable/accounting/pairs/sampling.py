"""Sampling: which pair a step on a random part of the data has.

* **Poisson, ADD_REMOVE and ZERO_OUT.** If (P, Q) dominates a step when the unit is removed, ((1−q)Q + qP, Q) dominates
  it on a Poisson sample; for the other order likewise (Zhu–Dong–Wang 2022, Thm 11). The two orders differ.
* **Poisson, REPLACE, added noise with its reach.** The placement of `normal` and `laplace`, symmetric.
* **Poisson, REPLACE, anything else.** δ′(ε) ≤ q·δ(ε) for ε ≥ 0 is all that holds (`bounds`).
* **Fixed size without replacement, REPLACE.** δ′(ln(1 + q(e^ε − 1))) ≤ q·δ(ε) for ε ≥ 0, q = batch/population, in both
  orders (Balle–Barthe–Gaboardi 2018, Thm 9), so `Symmetric` of `Mixed` dominates (it is C_q of Dong–Roth–Su 2019, Thm
  4.2).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from deniable.accounting.fold import gaussian_squares
from deniable.accounting.pairs.bounds import bounded
from deniable.accounting.pairs.discrete import LARGEST, GaussianTable, LaplaceTable, mixed_pair
from deniable.accounting.pairs.laplace import PlacedLaplaceLaw
from deniable.accounting.pairs.law import Law, Mixed, Reversed, Symmetric
from deniable.accounting.pairs.normal import PlacedNormalLaw
from deniable.events import Claimed, Correlated, DiscreteGaussian, DiscreteLaplace, Event, Laplace, Noise
from deniable.events.sampling import leaves
from deniable.numerics.roots import bisect, enlarge
from deniable.numerics.rounding import root_of

Directions = tuple[Law, ...]
"""One law when both orders are the same, else the law of removing and the law of adding."""


def poisson(inner: Directions, rate: float) -> Directions:
    """A Poisson sample, for a unit that is present or absent."""
    remove, add = inner[0], inner[-1]
    return Mixed(remove, rate), Reversed(Mixed(Reversed(add), rate))


def without_replacement(inner: Directions, rate: float) -> Directions:
    """A batch of fixed size, for a unit that is replaced. The inner law is the same in both orders."""
    return (Symmetric(Mixed(inner[0], rate)),)


def poisson_replaced(event: Event, inner: Directions, rate: float) -> Directions:
    """A Poisson sample, for a unit that is replaced."""
    squares = gaussian_squares(event)
    # A claimed guarantee under REPLACE says nothing about a unit's absence.
    if squares is not None and not any(isinstance(leaf, Claimed) for leaf in leaves(event)):
        shift, reach = root_of(squares[0]), root_of(squares[1])
        return (Symmetric(PlacedNormalLaw(rate, reach, shift)),)
    if isinstance(event, Noise) and event.reach is not None:
        placed = _placed(event, rate)
        if placed is not None:
            return (Symmetric(placed),)
    law = inner[0]
    reach = law.high if law.high < math.inf else farthest(law)
    return (bounded(lambda e: rate * law.profile(e), reach=reach, peak=law.peak),)


def is_placed(event: Event) -> bool:
    """Whether a unit and its replacement can take the worst placement: all noise, its reaches and sensitivities in one
    proportion, so that the vectors of all steps lie on one line.
    """
    found = leaves(event)
    ratios = {leaf.sensitivity / leaf.reach for leaf in found if isinstance(leaf, Noise) and leaf.reach is not None}
    ratios |= {Fraction(2) for leaf in found if isinstance(leaf, Correlated)}
    if len(ratios) != 1 or not all(isinstance(leaf, Noise | Correlated) for leaf in found):
        return False
    return gaussian_squares(event) is not None or (isinstance(event, Noise) and _placed(event, 0.5) is not None)


def _placed(event: Noise, rate: float) -> Law | None:
    """The worst placement of x and x′ around absence, for noise on the line."""
    reach = event.reach or event.sensitivity
    if isinstance(event, Laplace):
        return PlacedLaplaceLaw(rate, float(reach / event.scale), float(event.sensitivity / event.scale))
    if event.coordinates > 1 and not isinstance(event, DiscreteLaplace):
        return None
    # Integer answers: shifts are whole. Two units differ by at most two reaches.
    r, d = math.floor(reach), min(math.floor(event.sensitivity), 2 * math.floor(reach))
    if d == 0:
        return None
    first, last = min(0, r - d), r
    table: LaplaceTable | GaussianTable | None = None
    if isinstance(event, DiscreteLaplace) and last - first < LARGEST:
        table = LaplaceTable(float(event.scale), first, last)
    elif isinstance(event, DiscreteGaussian):
        table = GaussianTable.between(float(event.scale), first, last)
    if table is None:
        return None
    absent, here, there = table.row(0), table.row(r), table.row(r - d)
    p, q = (1 - rate) * absent + rate * here, (1 - rate) * absent + rate * there
    found = mixed_pair(p, q, slip=table.slip, beyond=table.beyond)
    # Where one world's masses are too small for a float and the other's are not, the bound below knows more.
    return found if found.infinite <= table.beyond + 1e-250 else None


def farthest(law: Law) -> float:
    """A loss beyond which an unbounded law has next to nothing: where P[L > l] falls below 1e-300."""

    def reached(loss: float) -> bool:
        return float(law.above(np.array([loss]))[0][0]) <= max(1e-300, 2 * law.infinite)

    return bisect(reached, 0.0, enlarge(reached, 1.0, most=1e15) or 2.0**50)[1]
