"""A loss known by finitely many weighted points: the atoms of a discrete law, or the nodes of a quadrature.

For any pair, E_P[e^{−L}] = 1 gives E_P[L] = E_P[x(−L)] with x(t) = e^t − 1 − t ≥ 0, and therefore

    M(λ) − 1 = E_P[x(λL)] + λ E_P[x(−L)],

a sum of second-order terms: nothing cancels when M(λ) is 1 + 10^{−12} and the step is repeated 10^{12} times. Along
the line, with m the tilted mean and E_λ the tilted law,

    M(λ + iω) e^{−iωm}/M(λ) − 1 = −2 E_λ[sin²(ω(L − m)/2)] + i E_λ[sin(ω(L − m))],

again second order in the part that decides the modulus. Only sines and cosines of reals are evaluated at every node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.contour.transform import RUN, LogMoments, Ratios
from deniable.numerics.arrays import (
    CALL,
    EXCESS,
    UNIT,
    Reals,
    log_of_one_plus,
    weighted_excess,
    weighted_expm1,
)

_ENTRIES = 1 << 16
"""Matrix entries handled at a time: a few temporaries of this size stay in the cache."""

_BLOCK = 32
"""Sums run over blocks of this many terms, then over the blocks, so that m terms cost 32 + m/32 roundings and not m."""


@dataclass(frozen=True)
class Points:
    """Weighted losses and how far each may be off.

    The weight of a point under P is exp(`weight`). Write it as base·e^{ℓ₊}, and the weight under Q as base·e^{ℓ₋},
    with loss ℓ₊ − ℓ₋. An error in ℓ₊ or ℓ₋ moves weight and loss together, and its effect on M(λ) − 1 is of second
    order; an error in the base multiplies a second-order term. So three kinds of error are kept apart.
    """

    weight: Reals
    """log of the weight under P."""
    loss: Reals
    base_error: Reals
    """Relative error of the base."""
    upper_error: Reals
    """Absolute error of ℓ₊, in units of rounding: parameters and evaluation."""
    lower_error: Reals
    """Absolute error of ℓ₋."""

    @cached_property
    def masses(self) -> Reals:
        """The weights themselves."""
        return np.exp(self.weight)

    @cached_property
    def divergence(self) -> float:
        """E_P[L] = E_P[x(−L)], an estimate."""
        return float(weighted_excess(self.weight, -self.loss).sum())


def moments_of(points: Points, lambdas: Reals) -> LogMoments:
    """Estimates at several λ."""
    steps = lambdas[:, None] * points.loss
    exponent = points.weight + steps
    shift = np.maximum(exponent.max(axis=1), 0.0)
    tilted = np.exp(exponent - shift[:, None])
    total = tilted.sum(axis=1)
    mean = tilted @ points.loss / total
    spread = points.loss[None, :] - mean[:, None]
    variance = np.einsum("ij,ij,ij->i", tilted, spread, spread) / total
    # M − 1 to first order in the rounding of e^{λL} − 1 − λL: good enough to choose by
    small = shift == 0.0
    near = np.where(steps > 30.0, tilted, np.expm1(np.minimum(steps, 30.0)) * points.masses)
    minus = near.sum(axis=1) - steps @ points.masses + lambdas * points.divergence
    value = np.where(small, np.log1p(np.where(small, minus, 0.0)), shift + np.log(total))
    return LogMoments(value, mean, np.maximum(variance, 1e-300))


@dataclass(frozen=True)
class TiltedPoints:
    """A cloud on Re z = tilt. `method` bounds what the points leave out, relative to M(λ): quadrature and range."""

    points: Points
    tilt: float
    method: float

    @cached_property
    def _value(self) -> tuple[float, float]:
        """log M(λ) and a bound on its error."""
        p, tilt = self.points, self.tilt
        kappa, many = 1.0 + tilt, len(p.loss) * UNIT
        if float((p.weight + tilt * p.loss).max()) > 2.0:
            return self._plain
        first, second = weighted_excess(p.weight, tilt * p.loss), weighted_excess(p.weight, -p.loss)
        sizes = first + abs(tilt) * second
        minus = float((first + tilt * second).sum())
        # the derivatives of the sum in ℓ₊ and in ℓ₋ are κ e^{ℓ₊}(e^{λL} − 1) and −λ e^{ℓ₋}(e^{κL} − 1)
        upper = abs(kappa) * weighted_expm1(p.weight, tilt * p.loss)
        lower = abs(tilt) * weighted_expm1(p.weight - p.loss, kappa * p.loss)
        moved = 2 * UNIT * np.abs(p.loss)
        relative = p.base_error + EXCESS + 4 * CALL + 16 * UNIT * (np.abs(p.weight) + np.abs(p.loss) * (1 + abs(tilt)))
        error = (
            float((relative + many) @ sizes)
            + float(upper @ (p.upper_error + moved))
            + float(lower @ (p.lower_error + moved))
        )
        if minus < -0.5:
            return self._plain
        value = math.log1p(minus)
        return value, 1.01 * error / (1.0 + minus) + self.method + CALL * abs(value)

    @property
    def _plain(self) -> tuple[float, float]:
        """log M(λ) where M is far from 1: the plain sum, relative to its largest term."""
        exponent = self.points.weight + self.tilt * self.points.loss
        top = float(exponent.max())
        tilted = np.exp(exponent - top)
        total = float(tilted.sum())
        relative = float(self._weight_error @ tilted) / total + len(tilted) * UNIT + CALL
        return top + math.log(total), relative + self.method + 2 * UNIT * abs(top) + CALL * abs(math.log(total))

    @cached_property
    def _weight_error(self) -> Reals:
        """Relative error of each tilted weight: base, both densities, the exponent's roundings, exp itself."""
        p, tilt = self.points, self.tilt
        return np.asarray(
            p.base_error
            + abs(1 + tilt) * p.upper_error
            + abs(tilt) * p.lower_error
            + 4 * UNIT * (np.abs(p.weight) + np.abs(tilt * p.loss))
            + CALL
        )

    @property
    def logarithm(self) -> float:
        """log M(λ)."""
        return self._value[0]

    @property
    def error(self) -> float:
        """Rounding, parameters, and what the points leave out."""
        return self._value[1]

    @property
    def size(self) -> int:
        """Terms per frequency."""
        return len(self.points.loss)

    @property
    def atomic(self) -> bool:
        """Unless the points are those of a quadrature alone."""
        return True

    @cached_property
    def probabilities(self) -> Reals:
        """The tilted law: weights that add up to 1, nearly."""
        return np.exp(self.points.weight + self.tilt * self.points.loss - self.logarithm)

    @cached_property
    def mean(self) -> float:
        """The tilted mean, rounded: an exact number from here on."""
        return float(self.probabilities @ self.points.loss)

    @cached_property
    def _centred(self) -> Reals:
        return self.points.loss - self.mean

    @cached_property
    def _errors(self) -> tuple[float, float]:
        """Bounds on the errors of E_λ[sin ωx] per |ω| and of E_λ[2 sin²(ωx/2)] per ω²."""
        p, x = self.probabilities, np.abs(self._centred)
        off = self.points.upper_error + self.points.lower_error + 3 * UNIT * (np.abs(self.points.loss) + abs(self.mean))
        # ω and ωx/2 are rounded; sines and cosines cost two calls and three units each, of which two meet in a product
        adding = _BLOCK + len(x) / _BLOCK + 4
        relative = self._weight_error + 8 * CALL + (adding + 2 * abs(self.logarithm)) * UNIT
        return float(p @ (relative * x + off)), float(p @ (relative * x * x / 2 + x * off))

    def ratios(self, omegas: Reals) -> Ratios:
        """The characteristic function of the tilted loss, centred."""
        each = min(_BLOCK, len(self._centred))
        blocks = -(-len(self._centred) // each)
        x, p = np.zeros(blocks * each), np.zeros(blocks * each)
        x[: len(self._centred)], p[: len(self._centred)] = 0.5 * self._centred, 2.0 * self.probabilities
        shares = p.reshape(blocks, each)
        down, side = np.empty(len(omegas)), np.empty(len(omegas))
        rows = max(1, _ENTRIES // len(x) // RUN * RUN)
        for start in range(0, len(omegas), rows):
            sine, cosine = _waves(omegas[start : start + rows], x)
            sine, cosine = sine.reshape(-1, blocks, each), cosine.reshape(-1, blocks, each)
            side[start : start + rows] = np.einsum("rbk,rbk,bk->rb", sine, cosine, shares).sum(axis=1)
            down[start : start + rows] = -np.einsum("rbk,rbk,bk->rb", sine, sine, shares).sum(axis=1)
        logarithm = log_of_one_plus(down, side)
        size = np.exp(logarithm.real)
        along, across = self._errors
        absolute = (
            along * np.abs(omegas)
            + across * omegas * omegas
            + (self.error + 16 * UNIT) * (np.abs(down) + np.abs(side))
            + 2.0 * self.method
            + 16 * UNIT * (np.abs(down) + np.abs(side)) / np.minimum(size, 1.0)
        )
        return Ratios(logarithm, 1.01 * absolute / size + 8 * UNIT * np.abs(logarithm.imag))


def _waves(omegas: Reals, x: Reals) -> tuple[Reals, Reals]:
    """Sines and cosines of all ω·x, for ω in runs, by the addition theorem from a few of them.

    ω = A + B with A the first of its run. sin(A + B)x = sin Ax cos Bx + cos Ax sin Bx is off by at most three units
    and two calls of |Ax| + |Bx|: as good, up to a factor, as a sine of its own. A cosine is off by as much,
    absolutely.
    """
    if len(omegas) < 2 * RUN:
        angle = np.multiply.outer(omegas, x)
        return np.sin(angle), np.cos(angle)
    heads = np.multiply.outer(omegas[::RUN], x)
    steps = np.multiply.outer(omegas[:RUN] - omegas[0], x)
    sine, cosine, small, near = np.sin(heads)[:, None], np.cos(heads)[:, None], np.sin(steps)[None], np.cos(steps)[None]
    shape = (-1, len(x))
    sines = (sine * near + cosine * small).reshape(shape)[: len(omegas)]
    return sines, (cosine * near - sine * small).reshape(shape)[: len(omegas)]
