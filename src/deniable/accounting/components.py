"""A random number of shifts under one Gaussian noise: the density, and the pair that dominates a group.

**The pair.** A secret draw decides how far the data of the unit in question move the answer: by a vector v_i with
probability w_i, |v_i| ≤ c_i. Without the unit it is not moved at all. In units of the noise, with a_i = c_i/scale,

    P = Σ_i w_i N(a_i, 1)   against   Q = N(0, 1)

dominates the step in both orders. The draw must not depend on the other units' data; v_i may, and may depend on
everything that was released before.

*Proof.* Given what is the same in both worlds, dP/dQ = Σ w_i W_i with W_i = exp(⟨v_i, y⟩ − |v_i|²/2), y ~ N(0, I): log
normal under Q, with mean 1, and Cov(ln W_i, ln W_j) = ⟨v_i, v_j⟩ ≤ a_i a_j. Both H_g(P‖Q) = E_Q(Σ w_i W_i − g)₊ and
H_g(Q‖P) = E_Q(1 − g Σ w_i W_i)₊ are expectations of a convex function of a positive combination of such variables,
and those grow with every entry of the covariance matrix (Kahane 1986). All entries are largest at once on a line,
v_i = a_i. ∎

**Groups.** k units of one group are added, or removed, together. Under Poisson sampling of rate q the number of them in
the sample is Bin(k, q), and j of them move the answer by at most j sensitivities (one after the other: the triangle
inequality). So w_j = Bin(k, q){j} and c_j = j·Δ. The pair is attained by k equal contributions. (Ganesh 2024, "Tight
group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians mechanisms", has the statement by another
proof.) Some units added while others leave is no case of this; it is a group that is replaced.

**A group that is replaced.** Let P = Σ w_i N(v_i) and Q = Σ w_i N(v′_i) with |v_i|, |v′_i| ≤ a_i. Then

    Σ w_i N(a_i, 1)   against   Σ w_i N(−a_i, 1)

dominates. *Proof.* With Gaussian variables of covariance C and f convex, s = Σ α_i W_i, interpolation gives
d/dt E f(s) = ½ Σ Ċ_ij α_i α_j E[f″(s) W_i W_j]: the expectation grows with C_ij where α_i and α_j have one sign, and
falls where their signs differ. Here H_g(P‖Q) = E_{N(0)}(Σ w_i W_i − g Σ w_i W′_i)₊. Within P and within Q the products
are at most a_i a_j, across they are at least −a_i a_j, and the placement above takes all of these values at once. ∎

For a clipped contribution, a_i is the reach over the scale and this is exact. Where two units differ by less than two
reaches it is only an upper bound, and is not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from deniable.accounting.pairs.law import Array, Law, Masses
from deniable.numerics.arrays import (
    CALL,
    UNIT,
    Reals,
    exact_difference,
    normal_above,
    normal_above_scaled,
    tail_at,
)
from deniable.numerics.rounding import log_of

_TINIEST = 1e-300


def binomial_weights(members: int, rate: Fraction) -> list[Fraction]:
    """How likely 0, 1, …, `members` of a group are in a Poisson sample, exactly."""
    rest = 1 - rate
    return [math.comb(members, j) * rate**j * rest ** (members - j) for j in range(members + 1)]


@dataclass(frozen=True, eq=False)
class Components:
    """Σ_j w_j e^{a_j y − a_j²/2} relative to N(0, 1), with 0 = a_0 < a_1 < …: log f, its slope, and how f turns.

    Near 1 the sum is taken as Σ w_j expm1(u_j), elsewhere as it stands. A weight too small for a float still has its
    logarithm, so that a rare but far part is never lost.
    """

    weights: Reals
    log_weights: Reals
    shifts: Reals

    @classmethod
    def of(cls, weights: Sequence[Fraction], shifts: Sequence[float]) -> Components:
        """From exact positive weights, which add up to 1, and ascending shifts to a unit or two in the last place."""
        return cls(
            np.array([float(weight) for weight in weights]),
            np.array([log_of(weight) for weight in weights]),
            np.array(shifts, dtype=float),
        )

    @property
    def span(self) -> float:
        """The largest shift."""
        return float(self.shifts[-1])

    @property
    def floor(self) -> float:
        """−log of the weight at 0, rounded up: log f is never below that."""
        return -float(self.log_weights[0]) * (1 + 2 * CALL) if self.shifts[0] == 0 else math.inf

    @property
    def rarity(self) -> float:
        """−log of the last weight."""
        return -float(self.log_weights[-1])

    @property
    def units(self) -> float:
        """How much larger the error of `turned` is than that of an exponent.

        Let all shares be off by a factor within 1 ± η. With angles θ_j ≤ 0.9π the sum z has |z| ≥ cos(0.45π) > 0.15;
        its argument moves by at most η Σ share_j |θ_j − arg z|/|z|, and Σ share_j θ_j ≤ 9.2 arg z, since x ≤ 9.2 sin x
        up to 0.9π. That is below 70η of the argument; log |z| moves by 2η(1 − |z|)/|z|, which is below 14η of it.
        """
        return 80.0

    def terms(self, y: Reals) -> tuple[Reals, Reals, Reals]:
        """log f, the shares (one row for each part), and a bound on the error of log f."""
        a, w, log_w = self.shifts[:, None], self.weights[:, None], self.log_weights[:, None]
        u = a * (y - 0.5 * a)
        # a carries two roundings, its square root included, the difference one, the product one
        u_error = 8 * UNIT * a * (np.abs(y) + a)
        exponent = log_w + u
        top = exponent.max(axis=0)
        grown = np.exp(exponent - top)
        total = grown.sum(axis=0)
        share = grown / total
        plain = top + np.log(total)
        # log_of is within CALL of its value; adding u costs a unit of both
        inner = u_error + CALL * np.abs(log_w) + 4 * UNIT * (np.abs(log_w) + np.abs(u))
        many = (len(a) + 8) * UNIT + 3 * CALL
        plain_error = (share * inner).sum(axis=0) + many + 2 * UNIT * np.abs(top) + 2 * CALL * np.abs(plain)
        small = u <= 1.0
        low = np.minimum(u, 1.0)
        large = np.where(small, 0.0, np.exp(np.minimum(exponent, 30.0)))
        parts = np.where(small, w * np.expm1(low), large - w)
        r = parts.sum(axis=0)
        near = (r > -0.5) & (top < 2.0)
        value = np.where(near, np.log1p(np.where(near, r, 0.0)), plain)
        sizes = np.abs(parts) * many + np.where(small, w * np.exp(low) * u_error, large * (inner + CALL) + UNIT * w)
        near_error = (sizes.sum(axis=0) + len(a) * _TINIEST) / np.maximum(1.0 + r, 0.25) + 2 * CALL * np.abs(value)
        return value, share, np.where(near, near_error, plain_error) * (1 + 1e-9)

    def log_density(self, y: Reals) -> tuple[Reals, Reals, Reals]:
        """log f, its slope Σ share_j a_j, and a bound on the error of log f."""
        value, share, error = self.terms(y)
        return value, self.shifts @ share, error

    def at(self, y: float) -> tuple[float, float]:
        """log f and its slope at one point; the slope is rounded up."""
        value, slope, _ = self.log_density(np.array([y]))
        return float(value[0]), min(float(slope[0]) * (1 + 1e-9), self.span)

    def turned(self, y: Reals, c: Reals) -> tuple[Reals, Reals, Reals]:
        """f(y + ic)/f(y) = 1 − A + iB with A = Σ share_j (1 − cos a_j c), B = Σ share_j sin a_j c."""
        share = self.terms(y)[1]
        angle = np.multiply.outer(c, self.shifts)
        a, b = (2 * np.sin(0.5 * angle) ** 2) @ share, np.sin(angle) @ share
        square = np.maximum(-2 * a + a * a + b * b, -0.999)
        return 0.5 * np.log1p(square), (2 * a + a * a + b * b) / (1 + square), np.arctan2(b, 1 - a)

    def tail(self, y: float, *, below: bool = False) -> float:
        """A bound on the mass of Σ w_j N(a_j) above y, or below it."""
        sign = -1 if below else 1
        tails = [0.5 * math.erfc(sign * (y - a) / math.sqrt(2)) for a in self.shifts.tolist()]
        return float(np.exp(self.log_weights) @ np.array(tails)) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class ComponentsLaw(Law):
    """Σ w_j N(a_j) against N(0), or with `mirrored` against Σ w_j N(−a_j): the loss grows with the point."""

    parts: Components
    mirrored: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", -math.inf if self.mirrored else self._first)
        object.__setattr__(self, "high", math.inf)
        object.__setattr__(self, "relative", (64 + 4 * len(self.parts.shifts)) * UNIT)

    def location(self, top: float) -> float:
        # The exponents at the point are at most as large as the loss, the logarithms of the weights and the square of
        # the span, and the last Newton step leaves as much again. An error in an exponent counts with the share of the
        # shifted parts, which is 1 − w_0 e^{−L} (of one density; of two it is at most 1).
        first = self._first
        share = 1.0 if self.mirrored else -math.expm1(min(first - top, 0.0))
        wide = 128 * UNIT * (1 + top + self._rare + self.parts.span**2 + len(self.parts.shifts))
        return share * wide + 16 * UNIT * (top + (abs(first) if first > -math.inf else 0.0))

    @property
    def _first(self) -> float:
        """The logarithm of the weight at shift 0."""
        return float(self.parts.log_weights[0]) if self.parts.shifts[0] == 0 else -math.inf

    @property
    def _shifted(self) -> tuple[Array, Array]:
        """Shifts above 0 and the logarithms of their weights, as columns."""
        start = int(self.parts.shifts[0] == 0)
        return self.parts.shifts[start:, None], self.parts.log_weights[start:, None]

    @cached_property
    def _rare(self) -> float:
        return float(np.max(np.abs(self.parts.log_weights)))

    def _farthest(self, loss: Array) -> Array:
        """A point where the loss is at least that large: one part alone reaches it."""
        a, log_w = self._shifted
        return np.asarray(((loss - log_w) / a + a / 2).min(axis=0))

    def _point(self, loss: Array) -> Array:
        """Where the loss is `loss`, for losses inside the range."""
        if self.mirrored:
            return np.copysign(self._inverse(np.abs(loss)), loss)
        # log(e^l − w_0) = log Σ_{j≥1} w_j e^{u_j}, a convex function of slope a_1 or more: Newton from the right.
        with np.errstate(divide="ignore"):
            goal = loss + np.log(-np.expm1(np.minimum(self._first - loss, 0.0)))
        goal = np.maximum(goal, -1e6)
        a, log_w = self._shifted
        z = np.asarray(((goal - log_w) / a + a / 2).min(axis=0))
        for _ in range(60):
            exponent = log_w + a * (z - 0.5 * a)
            top = exponent.max(axis=0)
            grown = np.exp(exponent - top)
            total = grown.sum(axis=0)
            step = (top + np.log(total) - goal) * total / (a * grown).sum(axis=0)
            z = z - step
            sizes = 1 + np.abs(goal) + self._rare + self.parts.span * (np.abs(z) + self.parts.span)
            if np.all(np.abs(step) * self.parts.span <= 32 * UNIT * sizes):
                break
        return z

    def _inverse(self, loss: Array) -> Array:
        """The point of a mirrored pair, for losses from 0 on: Newton's steps, halving where they leave the bracket."""
        low, high = np.zeros_like(loss), np.maximum(self._farthest(loss), 0.0)
        z = high.copy()
        open_ = np.arange(z.size)
        for _ in range(120):
            at, goal = z[open_], loss[open_]
            (up, rise, over), (down, fall, under) = self.parts.log_density(at), self.parts.log_density(-at)
            gap = up - down - goal
            below = gap < 0
            low[open_[below]], high[open_[~below]] = at[below], at[~below]
            following = at - gap / np.maximum(rise + fall, 1e-300)
            out = (following < low[open_]) | (following > high[open_])
            z[open_] = np.where(out, (low[open_] + high[open_]) / 2, following)
            # once the loss is met up to the rounding of its own, a step more is as good as any
            open_ = open_[np.abs(gap) > over + under + 4 * UNIT * goal]
            if not open_.size:
                break
        return z

    def above(self, loss: Array) -> Masses:
        parts = self.parts
        everything = loss <= self.low
        at = np.where(everything, 1.0, loss)
        z = self._point(at)
        w, log_w, a = parts.weights, parts.log_weights, parts.shifts
        p = np.zeros_like(z)
        for weight, shift in zip(w, a, strict=True):
            p += weight * tail_at(exact_difference(z, shift))
        best = np.argmax(log_w[:, None] + a[:, None] * (z - 0.5 * a[:, None]), axis=0)
        here = exact_difference(z, a[best])
        taken = np.zeros_like(z)
        for log_weight, shift in zip(log_w, a, strict=True) if self.mirrored else ((0.0, 0.0),):
            # each tail of Q in units of the bell about the part of P that decides there
            rest = at + log_weight - (a[best] + shift) * z + (a[best] - shift) * (a[best] + shift) / 2
            with np.errstate(under="ignore", over="ignore"):
                taken += normal_above_scaled(z + shift, here) * np.exp(np.minimum(rest, 700.0))
        near = (at < 300) & (z < 20) & (z + parts.span < 30)
        with np.errstate(under="ignore", over="ignore"):
            other = self._tails(z) * np.exp(np.clip(at, -700.0, 300.0))
            all_of_it = np.exp(np.minimum(loss, 0.0))
        taken = np.where(near | (z < 0), other, taken)
        return np.where(everything, 1.0, p), np.where(everything, all_of_it, taken)

    def _tails(self, z: Array) -> Array:
        """Q above a point."""
        if not self.mirrored:
            return normal_above(z)
        found = np.zeros_like(z)
        for weight, shift in zip(self.parts.weights, self.parts.shifts, strict=True):
            found += weight * tail_at(exact_difference(z, -shift))
        return found

    def below(self, loss: Array) -> Masses:
        nothing = loss <= self.low
        z = self._point(np.where(nothing, 1.0, loss))
        p, q = np.zeros_like(z), np.zeros_like(z)
        for weight, shift in zip(self.parts.weights, self.parts.shifts, strict=True):
            p += weight * tail_at(exact_difference(-z, -shift))
            q += weight * tail_at(exact_difference(-z, shift))
        q = q if self.mirrored else normal_above(-z)
        return np.where(nothing, 0.0, p), np.where(nothing, 0.0, q)

    @cached_property
    def directions(self) -> tuple[Law, ...]:
        """Both orders; one where they are alike."""
        from deniable.accounting.pairs.law import Reversed

        return (self,) if self.mirrored else (self, Reversed(self))
