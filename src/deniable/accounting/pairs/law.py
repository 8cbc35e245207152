"""The privacy loss of one step in one direction: how much mass lies above and below a loss, under both worlds.

For a pair (P, Q) the loss is L = ln dP/dQ. A `Law` gives P[L > l] and e^l·Q[L > l] (the factor keeps it a float where Q
itself is none), and the complements P[L ≤ l] and Q[L ≤ l], each to a relative error of `relative`, after moving l by at
most `location`, and by the same amount under P and under Q. That is all an engine needs: the curve is

    δ(ε) = P[L > ε] − e^ε Q[L > ε],

a pair whose curve is nowhere lower *dominates* (Zhu–Dong–Wang 2022, Def. 7), and domination survives adaptive
composition (Thm 10 there). P-mass at L = +∞ is `infinite`, Q-mass at L = −∞ is `vanishing`.

>>> import numpy as np
>>> law = LossAtoms.of([-1.0, 1.0], [0.2689414213699951, 0.7310585786300049])
>>> above, below = law.above(np.array([0.0])), law.below(np.array([0.0]))
>>> round(float(above[0][0]), 4), round(float(above[1][0]), 4), round(float(below[1][0]), 4)
(0.7311, 0.2689, 0.7311)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable.numerics.arrays import UNIT

Array: TypeAlias = NDArray[np.float64]
Masses: TypeAlias = tuple[Array, Array]
"""Masses under P and under Q; those above a loss l have the second one multiplied by e^l."""


class Law(ABC):
    """The loss of a pair (P, Q)."""

    low: float
    """Below this lies no finite loss; may be −inf."""

    high: float
    """Above this lies no finite loss; may be inf."""

    infinite: float = 0.0
    """P[L = +∞], or a bound on the P-mass of losses too rare for a float."""

    vanishing: float = 0.0
    """Q[L = −∞], likewise."""

    jumps: tuple[float, ...] = ()
    """The losses of the atoms that a lattice should meet; empty when the law is smooth."""

    relative: float = 16 * UNIT
    """Bound on the relative error of every mass."""

    @property
    def peak(self) -> float:
        """The pure ε: no loss exceeds it, not even one too rare for a float; infinite when there is none."""
        return math.inf if self.infinite else self.high

    def location(self, top: float) -> float:
        """By how much a loss of size up to `top` may be misplaced."""
        return 8 * UNIT * top

    def atoms(self) -> tuple[Array, Array, Array] | None:
        """All finite losses, ascending, with their masses under P and under Q, where there are finitely many."""
        return None

    @abstractmethod
    def above(self, loss: Array) -> Masses:
        """P[L > loss], e^loss·Q[L > loss]."""

    @abstractmethod
    def below(self, loss: Array) -> Masses:
        """P[L ≤ loss], Q[L ≤ loss]."""

    def profile(self, epsilon: ArrayLike) -> Array:
        """δ(ε), rounded up by the errors that the law admits to: it falls, so it is asked a little earlier."""
        at = np.asarray(epsilon, dtype=float)
        slip = self.location(float(np.max(np.abs(at), initial=0.0)))
        p, taken = self.above(at - slip)
        up = p * (1 + self.relative) - taken * (1 - self.relative - 2 * slip)
        floor = -np.expm1(np.minimum(at, 0.0))
        return np.asarray(np.minimum(1.0, np.maximum(up * (1 + 4 * UNIT), floor)))


@dataclass(frozen=True, eq=False)
class LossAtoms(Law):
    """Finitely many losses, ascending, with their P-masses; Q has mass e^{−loss} for each."""

    losses: Array
    p: Array
    q: Array
    infinite: float = 0.0
    vanishing: float = 0.0
    jumps: tuple[float, ...] = ()
    tails: tuple[Array, ...] = ()
    errors: tuple[float, float] = (0.0, 0.0)
    """Relative and location errors that the masses were made with."""

    bound: float | None = None
    """The pure ε, where it is known besides the masses."""

    @classmethod
    def of(
        cls,
        losses: ArrayLike,
        p: ArrayLike,
        *,
        infinite: float = 0.0,
        vanishing: float = 0.0,
        errors: tuple[float, float] = (0.0, 0.0),
        bound: float | None = None,
    ) -> LossAtoms:
        """Sorted, with the Q-masses filled in."""
        l, w = np.asarray(losses, dtype=float), np.asarray(p, dtype=float)
        with np.errstate(under="ignore", divide="ignore"):
            # In halves, so that e^−l cannot overflow where w is tiny.
            q = np.minimum(w * np.exp(-l / 2) * np.exp(-l / 2), 1.0) if np.all(np.abs(l) < 1400) else _far(l, w)
        return cls.paired(l, w, q, infinite=infinite, vanishing=vanishing, errors=errors, bound=bound)

    @classmethod
    def paired(
        cls,
        l: Array,
        p: Array,
        q: Array,
        *,
        infinite: float = 0.0,
        vanishing: float = 0.0,
        errors: tuple[float, float] = (0.0, 0.0),
        bound: float | None = None,
    ) -> LossAtoms:
        """From both masses, which must agree with the losses."""
        order = np.argsort(l, kind="stable")
        l, p, q = l[order], p[order], q[order]
        tails = (_sums_above(p, infinite), _scaled_above(l, p, q), _sums_below(p, 0.0), _sums_below(q, vanishing))
        jumps = tuple(l.tolist()) if len(l) <= 64 else ()
        return cls(l, p, q, infinite, vanishing, jumps, tails, errors, bound)

    @property
    def low(self) -> float:  # type: ignore[override]
        return float(self.losses[0]) if len(self.losses) else 0.0

    @property
    def high(self) -> float:  # type: ignore[override]
        return float(self.losses[-1]) if len(self.losses) else 0.0

    @property
    def peak(self) -> float:
        return super().peak if self.bound is None else self.bound

    @property
    def relative(self) -> float:  # type: ignore[override]
        # Masses are good to a few units; a sum of n positive terms in extended precision adds n of its units.
        return self.errors[0] + 16 * UNIT + len(self.losses) * float(np.finfo(np.longdouble).eps)

    def location(self, top: float) -> float:
        return self.errors[1] + 8 * UNIT * top

    def atoms(self) -> tuple[Array, Array, Array] | None:
        return self.losses, self.p, self.q

    def above(self, loss: Array) -> Masses:
        at = np.searchsorted(self.losses, loss, side="right")
        if not len(self.losses):
            return self.tails[0][at], np.zeros(np.shape(loss))
        # Scaled at the next atom, and from there down to the loss itself.
        with np.errstate(under="ignore"):
            scale = np.exp(np.minimum(loss - self.losses[np.minimum(at, len(self.losses) - 1)], 0.0))
        return self.tails[0][at], np.where(at < len(self.losses), self.tails[1][at] * scale, 0.0)

    def below(self, loss: Array) -> Masses:
        at = np.searchsorted(self.losses, loss, side="right")
        return self.tails[2][at], self.tails[3][at]


def _far(l: Array, w: Array) -> Array:
    """w·e^−l where e^−l is no float."""
    return np.exp(np.minimum(np.log(w) - l, 0.0))


def _sums_above(mass: Array, beyond: float) -> Array:
    """Entry i: the sum of mass[i:] and what lies beyond, added from the small end."""
    return np.concatenate((np.cumsum(mass[::-1], dtype=np.longdouble)[::-1] + beyond, [beyond])).astype(float)


def _scaled_above(l: Array, p: Array, q: Array) -> Array:
    """Entry i: e^{l_i} times the sum of q[i:]."""
    if not len(l) or (abs(l[0]) < 600 and abs(l[-1]) < 600):
        return np.append(_sums_above(q, 0.0)[:-1] * np.exp(l), 0.0)
    scaled = np.zeros(len(l) + 1)
    for i in range(len(l) - 1, -1, -1):
        scaled[i] = p[i] + (scaled[i + 1] * math.exp(l[i] - l[i + 1]) if i + 1 < len(l) else 0.0)
    return scaled


def _sums_below(mass: Array, beyond: float) -> Array:
    """Entry i: the sum of mass[:i] and what lies beyond."""
    return np.concatenate(([beyond], np.cumsum(mass, dtype=np.longdouble) + beyond)).astype(float)


@dataclass(frozen=True, eq=False)
class Reversed(Law):
    """The same pair in the other order: the loss changes sign and the worlds change places."""

    law: Law

    @property
    def peak(self) -> float:
        return math.inf if self.law.vanishing else -self.law.low

    def __post_init__(self) -> None:
        law = self.law
        for name, value in (
            ("low", -law.high),
            ("high", -law.low),
            ("infinite", law.vanishing),
            ("vanishing", law.infinite),
            ("jumps", tuple(-j for j in reversed(law.jumps))),
            ("relative", law.relative),
        ):
            object.__setattr__(self, name, value)

    def location(self, top: float) -> float:
        return self.law.location(top)

    def atoms(self) -> tuple[Array, Array, Array] | None:
        known = self.law.atoms()
        return None if known is None else (-known[0][::-1], known[2][::-1], known[1][::-1])

    def above(self, loss: Array) -> Masses:
        p, q = self.law.below(-loss)
        with np.errstate(over="ignore", under="ignore"):
            return q, np.minimum(p * np.exp(np.minimum(loss, 700.0)), q)

    def below(self, loss: Array) -> Masses:
        p, taken = self.law.above(-loss)
        with np.errstate(over="ignore", under="ignore"):
            return np.minimum(taken * np.exp(np.minimum(loss, 700.0)), 1.0), p


@dataclass(frozen=True, eq=False)
class Symmetric(Law):
    """The pair whose curve is that of `law` for ε ≥ 0 and that is the same in both orders.

    When the curve of `law` bounds a step for ε ≥ 0 in *both* orders, the step is dominated for all ε by this pair: for
    ε < 0 the identity H_{1/g}(Q‖P) = 1 − 1/g + H_g(P‖Q)/g turns the bound around. The mass that is left sits at 0.
    """

    law: Law

    @property
    def peak(self) -> float:
        return max(self.law.peak, 0.0)

    def __post_init__(self) -> None:
        law = self.law
        high = max(law.high, 0.0)
        for name, value in (
            ("low", -high),
            ("high", high),
            ("infinite", law.infinite),
            ("vanishing", law.infinite),
            ("jumps", tuple(sorted({0.0, *(s * j for j in law.jumps if j > 0 for s in (-1, 1))}))),
            ("relative", law.relative),
        ):
            object.__setattr__(self, name, value)

    def location(self, top: float) -> float:
        return self.law.location(top)

    def atoms(self) -> tuple[Array, Array, Array] | None:
        known = self.law.atoms()
        if known is None:
            return None
        l, p, q = (part[known[0] > 0] for part in known)
        rest = max(0.0, 1 - math.fsum([*p.tolist(), *q.tolist(), self.infinite]))
        ends = ((-l, [0.0], l), (q, [rest], p), (p, [rest], q))
        below, p, q = (np.concatenate((first[::-1], middle, last)) for first, middle, last in ends)
        return below, p, q

    def above(self, loss: Array) -> Masses:
        p, taken = self.law.above(np.abs(loss))
        up, small = loss >= 0, np.exp(-np.abs(loss))
        return np.where(up, p, 1 - taken * small), np.where(up, taken, (1 - p) * small)

    def below(self, loss: Array) -> Masses:
        p, taken = self.law.above(np.abs(loss))
        under_p, under_q = self.law.below(np.maximum(loss, 0.0))
        up, small = loss >= 0, np.exp(-np.abs(loss))
        return np.where(up, under_p, taken * small), np.where(up, under_q, p)


@dataclass(frozen=True, eq=False)
class Mixed(Law):
    """The pair ((1 − rate)·Q + rate·P, Q): a step that happens to the unit only with probability `rate`.

    L′ = ln(1 − rate + rate·e^L) grows with L, so the masses above a loss are those of the inner law.
    """

    law: Law
    rate: float

    @property
    def peak(self) -> float:
        return mixed_loss(self.law.peak, self.rate)

    def __post_init__(self) -> None:
        law, rate = self.law, self.rate
        least = (math.log1p(-rate),) if law.vanishing and law.jumps else ()
        for name, value in (
            # Where P has nothing, the mixture still has (1 − rate)·Q: an atom at ln(1 − rate).
            ("low", math.log1p(-rate) if law.vanishing else mixed_loss(law.low, rate)),
            ("high", mixed_loss(law.high, rate)),
            ("infinite", rate * law.infinite),
            ("jumps", (*least, *(mixed_loss(j, rate) for j in law.jumps))),
            ("relative", law.relative + 8 * UNIT),
        ):
            object.__setattr__(self, name, value)

    def location(self, top: float) -> float:
        # dL′/dL = rate·e^L/e^{L′} ≤ min(1, rate + e^{L′} − 1) for L′ ≥ 0, and ≤ rate below. The inner loss is at most
        # ln(1/rate) larger than the outer one; where it is very negative, rate·e^L makes up for its size.
        slope = min(1.0, self.rate + math.expm1(min(top, 1.0)))
        return slope * (self.law.location(top - math.log(self.rate)) + 8 * UNIT) + 16 * UNIT * top

    def atoms(self) -> tuple[Array, Array, Array] | None:
        known = self.law.atoms()
        if known is None:
            return None
        l, p, q = known
        if self.law.vanishing:
            absent = self.law.vanishing
            l, p, q = np.append(-math.inf, l), np.append(0.0, p), np.append(absent, q)
        return _mixed_losses(l, self.rate), (1 - self.rate) * q + self.rate * p, q

    def above(self, loss: Array) -> Masses:
        inner = unmixed_loss(loss, self.rate)
        everything = (loss < self.low) | (inner == -math.inf)
        # At `low` itself, and where no inner loss is left, all is above but the atom where P has nothing.
        absent_q = np.where(loss < self.low, 0.0, self.law.vanishing)
        inner = np.where(everything, 0.0, inner)
        p, taken = self.law.above(inner)
        with np.errstate(under="ignore", over="ignore"):
            # e^{L′} = 1 − rate + rate·e^L
            absent = (1 - self.rate) * np.minimum(taken * np.exp(np.minimum(-inner, 700.0)), 1.0)
            all_of_q = np.exp(np.minimum(loss, 0.0))
        return (
            np.where(everything, 1.0 - (1 - self.rate) * absent_q, absent + self.rate * p),
            np.where(everything, all_of_q * (1 - absent_q), absent + self.rate * taken),
        )

    def below(self, loss: Array) -> Masses:
        p, q = self.law.below(unmixed_loss(loss, self.rate))
        nothing = loss < self.low
        return np.where(nothing, 0.0, (1 - self.rate) * q + self.rate * p), np.where(nothing, 0.0, q)


def mixed_loss(loss: float, rate: float) -> float:
    """ln(1 − rate + rate·e^loss)."""
    if loss > 30:
        return loss + math.log(rate) + math.log1p((1 - rate) / rate * math.exp(-loss)) if loss < math.inf else math.inf
    if loss == -math.inf and rate == 1:
        return -math.inf
    return math.log1p(rate * math.expm1(loss))


def _mixed_losses(losses: Array, rate: float) -> Array:
    """`mixed_loss` of many."""
    with np.errstate(over="ignore", under="ignore"):
        large = losses + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-np.maximum(losses, 1.0)))
        return np.where(losses > 30, large, np.log1p(rate * np.expm1(np.minimum(losses, 30.0))))


def unmixed_loss(loss: Array, rate: float) -> Array:
    """The inverse of `mixed_loss`; −inf at and below ln(1 − rate)."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(loss, 1.0)) / rate, -1.0))
        large = loss - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 1.0)))
    return np.where(loss > 1, large, small)
