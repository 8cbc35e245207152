"""What the integral needs to know of one private step, in one direction of its pair.

With L the privacy loss under P, a step's *transform* is M(z) = E_P[e^{zL}], an analytic function of z in Re z > −1.
Along a vertical line Re z = λ it is known by its value at λ, by the ratio M(λ + iω)/M(λ), which is the characteristic
function of the tilted loss, and by a bound on that ratio for all larger ω. Each comes with a proven bound on its
error.

**Points.** Many losses are known by finitely many weighted points: the atoms of a discrete law, or the nodes of a
quadrature. For any pair, E_P[e^{−L}] = 1 gives E_P[L] = E_P[x(−L)] with x(t) = e^t − 1 − t ≥ 0, and therefore

    M(λ) − 1 = E_P[x(λL)] + λ E_P[x(−L)],

a sum of second-order terms: nothing cancels when M(λ) is 1 + 10^{−12} and the step is repeated 10^{12} times. Along
the line, with m the tilted mean and E_λ the tilted law,

    M(λ + iω) e^{−iωm}/M(λ) − 1 = −2 E_λ[sin²(ω(L − m)/2)] + i E_λ[sin(ω(L − m))],

again second order in the part that decides the modulus. Only sines and cosines of reals are evaluated at every node.

**Compositions.** In one direction transforms multiply, so their logarithms add, each with its count (`Direction`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.certificate import NotCertified
from deniable.numerics.arrays import (
    CALL,
    EXCESS,
    UNIT,
    Complexes,
    Reals,
    log_of_one_plus,
    weighted_excess,
    weighted_expm1,
)

RUN = 16
"""Frequencies come in runs of this many, equally spaced by one spacing throughout; only the last run may be shorter."""


class LogMoments(NamedTuple):
    """log M and its first two derivatives at several λ. Estimates: they choose the contour and prove nothing."""

    value: Reals
    slope: Reals
    curvature: Reals


class Ratios(NamedTuple):
    """log of M(λ + iω)/M(λ)·e^{−iωm}, and the relative error of the ratio itself."""

    logarithm: Complexes
    error: Reals


class LossLattice(NamedTuple):
    """Losses that lie in offset + spacing·ℤ."""

    offset: Fraction
    spacing: Fraction


class Tilted(Protocol):
    """A transform on one line Re z = λ."""

    @property
    def logarithm(self) -> float:
        """log M(λ)."""
        ...

    @property
    def error(self) -> float:
        """A bound on the error of `logarithm`."""
        ...

    @property
    def mean(self) -> float:
        """m, about the mean of the tilted loss: an exact number by definition, near d log M/dλ by choice."""
        ...

    @property
    def size(self) -> int:
        """How many terms one ratio is a sum of."""
        ...

    @property
    def atomic(self) -> bool:
        """Whether the loss has atoms, so that the ratio does not fall to 0."""
        ...

    def ratios(self, omegas: Reals) -> Ratios:
        """The characteristic function of the tilted loss, centred at `mean`; ω in runs (`RUN`)."""
        ...

    def decay(self, omegas: Reals, last: float) -> Reals:
        """For each ω, an upper bound on log |M(λ + iv)/M(λ)| that holds for all v between ω and `last`."""
        ...


class Transform(Protocol):
    """M(z) of one step in one direction."""

    @property
    def lattice(self) -> LossLattice | None:
        """Where the losses lie, when that is a lattice."""
        ...

    @property
    def largest(self) -> float:
        """An upper bound on the loss; inf when there is none."""
        ...

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates for the search of a contour."""
        ...

    def tilted(self, tilt: float, *, reach: float, digits: float) -> Tilted:
        """The transform on Re z = tilt, good for |ω| ≤ reach, with a method error of about e^{−digits}."""
        ...


@runtime_checkable
class Cuttable(Protocol):
    """A transform that becomes better behaved when its ends are cut off."""

    def cut(self, log_mass: float, digits: float, tilt: float) -> Transform:
        """The same but for outputs that have at most e^log_mass under P and under Q, and e^{−digits} tilted."""
        ...


SPARE, ROUGH = 29.0, 21.0
"""Aliasing and truncation are pushed below e^{−29} of δ, 3·10^{−13}; below e^{−21} where ends are cut off."""

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
    def powers(self) -> tuple[Reals, Reals]:
        """The weights times 1, L and L², and their sums."""
        columns = np.stack([self.masses, self.masses * self.loss, self.masses * self.loss**2], axis=1)
        return columns, columns.sum(axis=0)

    @cached_property
    def divergence(self) -> float:
        """E_P[L] = E_P[x(−L)], an estimate."""
        return float(weighted_excess(self.weight, -self.loss).sum())


_GROWS = 600.0
"""An exponent that no double overflows at, whatever the weight beside it."""


def moments_of(points: Points, lambdas: Reals) -> LogMoments:
    """Estimates at several λ."""
    steps = np.multiply.outer(lambdas, points.loss)
    if not float(steps.max(initial=0.0)) < _GROWS:
        return moments_far(points, steps)
    # E[e^{λL} − 1], and the same weighted with L and with L²
    columns, sums = points.powers
    grown = np.expm1(steps) @ columns
    # M − 1 to first order in the rounding of e^{λL} − 1 − λL: good enough to choose by
    minus = grown[:, 0] + lambdas * (points.divergence - sums[1])
    total, first, second = (grown + sums).T
    mean = first / total
    return LogMoments(np.log1p(np.maximum(minus, -1.0)), mean, np.maximum(second / total - mean * mean, 1e-300))


def moments_far(points: Points, steps: Reals) -> LogMoments:
    """The same where e^{λL} leaves the range of doubles."""
    exponent = points.weight + steps
    shift = exponent.max(axis=1)
    tilted = np.exp(exponent - shift[:, None])
    total = tilted.sum(axis=1)
    mean = tilted @ points.loss / total
    spread = points.loss[None, :] - mean[:, None]
    variance = np.einsum("ij,ij,ij->i", tilted, spread, spread) / total
    return LogMoments(shift + np.log(total), mean, np.maximum(variance, 1e-300))


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
    def deviation(self) -> float:
        """E|x| of the points: how fast their characteristic function can change."""
        return float(self.probabilities @ np.abs(self._centred)) * (1 + 1e-9)

    def around(self, omegas: Reals, half: float) -> Reals:
        """An upper bound on log |ratio| at all frequencies within `half` of each ω; ω in runs (`RUN`).

        The points' own characteristic function changes by at most `half`·E|x|. All errors of `ratios` grow with ω.
        """
        down, side = _waves(omegas, self._centred, self.probabilities)
        along, across = self._errors
        far = omegas + half
        # `down` is at most 2 in size, `side` at most 1
        absolute = along * far + across * far * far + 4 * (self.error + 32 * UNIT) + 2.0 * self.method
        bound = np.hypot(1.0 + down, side) + half * self.deviation + 1.01 * absolute
        return np.log(np.clip(bound, 1e-300, 1.0)) * (1 - 4 * CALL)

    @cached_property
    def _errors(self) -> tuple[float, float]:
        """Bounds on the errors of E_λ[sin ωx] per |ω| and of E_λ[2 sin²(ωx/2)] per ω²."""
        p, x = self.probabilities, np.abs(self._centred)
        off = self.points.upper_error + self.points.lower_error + 3 * UNIT * (np.abs(self.points.loss) + abs(self.mean))
        # `_waves`: two sines and two cosines at most meet in a product, whose sizes add up to three times the result
        adding = _BLOCK + len(x) / _BLOCK + 4
        relative = self._weight_error + 3 * (8 * CALL + adding * UNIT) + 2 * abs(self.logarithm) * UNIT
        return float(p @ (relative * x + off)), float(p @ (relative * x * x / 2 + x * off))

    def ratios(self, omegas: Reals) -> Ratios:
        """The characteristic function of the tilted loss, centred."""
        down, side = _waves(omegas, self._centred, self.probabilities)
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


def _waves(omegas: Reals, x: Reals, p: Reals) -> tuple[Reals, Reals]:
    """E[cos ωx − 1] and E[sin ωx] for ω in runs, from the sines of the first ω of each run and of the steps of one run.

    ω = A + B with A the first of its run. With a(t) = 1 − cos t = 2 sin² t/2,

        a(α + β) = a(α) + a(β) − a(α)a(β) + sin α sin β,
        sin(α + β) = sin α + sin β − a(α) sin β − sin α a(β):

    products of matrices. α = Ax and β = Bx have one sign and a(t) ≤ min(2, t²/2), so the four sizes add up to at most
    twice (α + β)²/2 in the first line and to three times |α + β| in the second.
    """
    each = min(_BLOCK, len(x))
    blocks = -(-len(x) // each)
    half, weights = np.zeros((blocks, 1, each)), np.zeros((blocks, 1, each))
    half.ravel()[: len(x)], weights.ravel()[: len(x)] = 0.5 * x, p
    heads = omegas[::RUN]
    small, large = _bends((omegas[:RUN] - omegas[0])[:, None] * half)
    many = small.shape[1]
    right = np.concatenate([small, large, np.ones_like(half)], axis=1).swapaxes(1, 2)
    still = (weights @ right).sum(axis=0)[0]
    down, side = np.empty((len(heads), many)), np.empty((len(heads), many))
    rows = max(1, _ENTRIES // half.size)
    for start in range(0, len(heads), rows):
        bends, sines = _bends(heads[start : start + rows, None] * half)
        of_bends = ((weights * bends) @ right).sum(axis=0)
        of_sines = ((weights * sines) @ right).sum(axis=0)
        stop = start + rows
        down[start:stop] = of_bends[:, :many] - of_sines[:, many:-1] - of_bends[:, -1:] - still[:many]
        side[start:stop] = of_sines[:, -1:] + still[many:-1] - of_bends[:, many:-1] - of_sines[:, :many]
    return down.ravel()[: len(omegas)], side.ravel()[: len(omegas)]


def _bends(half: Reals) -> tuple[Reals, Reals]:
    """1 − cos t and sin t, from t/2."""
    sine, cosine = np.sin(half), np.cos(half)
    double = 2.0 * sine
    return double * sine, double * cosine


_LOOK = 4
"""How many steps are asked before looking which frequencies still matter."""

_TURN, _MANY = 0.25, 16
"""How much of a ratio's modulus may be lost by asking at one frequency for a whole group around it, and
from how many steps on that is tried."""


@dataclass(frozen=True)
class Direction:
    """Steps with their counts, all in one direction of their pairs."""

    parts: tuple[tuple[Transform, int], ...]
    smooth: bool = False
    """Whether a little Gaussian noise is added to make the integrand decay (`smoothing`)."""
    leak: float = 0.0
    """What the parts leave out of δ, at most (`cut`)."""
    spare: float = SPARE
    """Aliasing and truncation are pushed below e^{−spare} of δ."""

    @cached_property
    def lattice(self) -> LossLattice | None:
        """The lattice of the total loss, when every step has one: offsets add, the spacing is the common divisor."""
        found = [(part.lattice, count) for part, count in self.parts]
        offset, spacing = Fraction(0), Fraction(0)
        for lattice, count in found:
            if lattice is None:
                return None
            offset += lattice.offset * count
            spacing = _common(spacing, lattice.spacing)
        return LossLattice(offset, spacing)

    @cached_property
    def largest(self) -> float:
        """An upper bound on the total loss."""
        return math.fsum(part.largest * count for part, count in self.parts) * (1 + 4 * UNIT)

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates of K, K′ and K″."""
        value, slope, curvature = (np.zeros_like(lambdas) for _ in range(3))
        for part, count in self.parts:
            one = part.moments(lambdas)
            value, slope, curvature = value + count * one[0], slope + count * one[1], curvature + count * one[2]
        return LogMoments(value, slope, curvature)

    def cut(self, log_delta: float, tilt: float = 0.0) -> Direction:
        """With the ends of all mixtures cut off: what is lost is below e^{−22} of δ, and of M(λ) on likely lines. The
        ends are far enough for lines up to `tilt`.
        """
        cuttable = [(part, count) for part, count in self.parts if isinstance(part, Cuttable)]
        if not cuttable:
            raise NotCertified("no step has ends that could be cut")
        total = math.log(sum(count for _, count in cuttable))
        spread = float(self.moments(np.array([1e-12])).curvature[0])
        level = min(log_delta - 22.0, -ROUGH - math.log1p(30.0 / math.sqrt(spread))) - total - 1.0
        digits = ROUGH + total + 6.0
        parts = tuple(
            (part.cut(level, digits, tilt) if isinstance(part, Cuttable) else part, count) for part, count in self.parts
        )
        return replace(self, parts=parts, leak=self.leak + math.exp(level + total) * (1 + 1e-9), spare=ROUGH)

    def tilted(self, tilt: float, *, reach: float, digits: float) -> ContourLine:
        """The composition on Re z = tilt; a step's method error times its count stays below e^{−digits}."""
        return ContourLine(
            tilt,
            [
                (part.tilted(tilt, reach=reach, digits=digits + math.log(count)), float(count))
                for part, count in self.parts
            ],
        )


def _runs(wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The places of all runs that hold a wanted one."""
    held = np.zeros(-(-len(wanted) // RUN) * RUN, dtype=bool)
    held[: len(wanted)] = wanted
    return np.flatnonzero(np.repeat(held.reshape(-1, RUN).any(axis=1), RUN)[: len(wanted)])


def _common(first: Fraction, second: Fraction) -> Fraction:
    """The greatest common divisor of two fractions; 0 counts as divisible by all."""
    denominator = math.lcm(first.denominator, second.denominator)
    return Fraction(math.gcd(int(first * denominator), int(second * denominator)), denominator)


@dataclass(frozen=True)
class ContourLine:
    """A composition on one line: K(λ), the tilted mean, the ratios along the line and their decay, with errors."""

    tilt: float
    parts: Sequence[tuple[Tilted, float]]

    @cached_property
    def logarithm(self) -> float:
        """K(λ)."""
        return math.fsum(count * part.logarithm for part, count in self.parts)

    @cached_property
    def error(self) -> float:
        """A bound on the error of K(λ). A count is rounded once, a product once."""
        return math.fsum(count * (part.error + 3 * UNIT * abs(part.logarithm)) for part, count in self.parts) * (
            1 + 1e-9
        )

    @cached_property
    def mean(self) -> float:
        """The tilted mean of the total loss."""
        return math.fsum(count * part.mean for part, count in self.parts)

    @cached_property
    def mean_error(self) -> float:
        """How far `mean` is from the sum of the means of the parts, which are exact numbers."""
        return math.fsum(3 * UNIT * count * abs(part.mean) for part, count in self.parts) + UNIT * abs(self.mean)

    @property
    def size(self) -> int:
        """Terms per frequency, all parts together."""
        return sum(part.size for part, _ in self.parts)

    @property
    def atomic(self) -> bool:
        """Whether every step has atoms."""
        return all(part.atomic for part, _ in self.parts)

    def first_size(self, spacing: float) -> float:
        """Terms per frequency of the steps that are asked before looking which frequencies still matter."""
        return sum(sorted(part.size for part, _ in self.parts)[:_LOOK]) / max(self._group(spacing), 1)

    @cached_property
    def _points(self) -> list[tuple[TiltedPoints, float]]:
        """The steps that are known by points, those that tell most for their size first."""
        known = [(part, count) for part, count in self.parts if isinstance(part, TiltedPoints)]
        return sorted(known, key=lambda item: item[0].size / item[1])

    def _group(self, spacing: float) -> int:
        """How many frequencies one question can answer for (`_followed`); whole runs, or 0."""
        steps = sum(count for _, count in self._points)
        mean = sum(count * part.deviation for part, count in self._points) / max(steps, 1.0)
        # few steps prove nothing before their own ratios are tiny
        return RUN * int(2 * _TURN / (spacing * mean * RUN)) if steps >= _MANY and mean * spacing > 0 else 0

    def _followed(self, omegas: Reals, least: float) -> tuple[NDArray[np.int64], Reals]:
        """The frequencies at which the ratio is not proven to be below e^least, and the bounds for all.

        A composition of many steps changes with the frequency faster than any step of it does. So one frequency of a
        group answers for all of the group (`TiltedPoints.around`): most groups are far below `least`.
        """
        everything, bounds = np.arange(len(omegas)), np.zeros(len(omegas))
        spacing = float(omegas[1] - omegas[0]) if len(omegas) > 1 else 0.0
        group = min(self._group(spacing), len(omegas) // RUN * RUN) if spacing else 0
        if not group or least == -math.inf:
            return everything, bounds
        half = 0.5 * group * spacing
        centres = half + 2 * half * np.arange(-(-len(omegas) // group), dtype=np.float64)
        bound, left = np.zeros(len(centres)), np.arange(len(centres))
        for part, count in self._points:
            bound[left] += count * part.around(centres[left], half * (1 + 1e-9))
            left = _runs(bound >= least)
            if not len(left):
                break
        bounds = np.repeat(bound, group)[: len(omegas)]
        return _runs(bounds >= least), bounds

    def ratios(self, omegas: Reals, *, least: float = -math.inf, most: float = math.inf) -> tuple[Complexes, Reals]:
        """log of the total ratio, and X such that the total ratio is off by at most (e^X − 1) of its modulus.

        |Πr − Πr̂| ≤ Π(|r̂| + e) − Π|r̂| for factors with |r − r̂| ≤ e, so relative errors add as logarithms. No factor
        exceeds 1 in modulus: where some of them already prove the ratio below e^least, the others are not asked, and
        all that is said is |r| ≤ e^x. Small steps are asked first; more than `most` terms are not computed.
        """
        left, bounds = self._followed(omegas, least)
        total, slip = bounds.astype(np.complex128), np.zeros(len(omegas))
        total[left] = 0.0
        for number, (part, count) in enumerate(sorted(self.parts, key=lambda item: item[0].size), start=1):
            most -= len(left) * part.size
            if most < 0:
                raise NotCertified("the integral would take too long")
            logarithm, error = part.ratios(omegas[left])
            total[left] += count * logarithm
            slip[left] += count * (np.log1p(error) + 2 * CALL * np.abs(logarithm))
            if number % _LOOK == 0 and least > -math.inf:
                left = left[_runs(total[left].real + slip[left] >= least)]
        slip += 8 * UNIT * np.abs(total.imag)
        small = np.ones(len(omegas), dtype=bool)
        small[left] = False
        # r and e^x are then at most 2e^x apart
        return np.where(small, total.real + slip, total), np.where(small, math.log(3) * (1 + CALL), slip)

    def decay(self, omegas: Reals, last: float) -> Reals:
        """An upper bound on log |total ratio| for all frequencies between ω and `last`."""
        total = np.zeros(len(omegas))
        for part, count in self.parts:
            total += count * part.decay(omegas, last)
        return total * (1 - 1e-12)
