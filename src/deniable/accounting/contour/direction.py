"""A whole composition in one direction: transforms multiply, so their logarithms add, each with its count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.contour.transform import RUN, LogMoments, LossLattice, Tilted, Transform
from deniable.numerics.arrays import CALL, UNIT, Complexes, Reals

_LOOK = 4
"""How many steps are asked before looking which frequencies still matter."""


@dataclass(frozen=True)
class Direction:
    """Steps with their counts, all in one direction of their pairs."""

    parts: tuple[tuple[Transform, int], ...]
    smooth: bool = False
    """Whether a little Gaussian noise is added to make the integrand decay (`smoothing`)."""

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

    def ratios(self, omegas: Reals, *, least: float = -math.inf) -> tuple[Complexes, Reals]:
        """log of the total ratio, and X such that the total ratio is off by at most (e^X − 1) of its modulus.

        |Πr − Πr̂| ≤ Π(|r̂| + e) − Π|r̂| for factors with |r − r̂| ≤ e, so relative errors add as logarithms. No factor
        exceeds 1 in modulus: where some of them already prove the ratio below e^least, the others are not asked, and
        all that is said is |r| ≤ e^x.
        """
        total, slip = np.zeros(len(omegas), dtype=np.complex128), np.zeros(len(omegas))
        left = np.arange(len(omegas))
        for number, (part, count) in enumerate(self.parts, start=1):
            logarithm, error = part.ratios(omegas[left])
            total[left] += count * logarithm
            slip[left] += count * (np.log1p(error) + 2 * CALL * np.abs(logarithm))
            if number % _LOOK == 0 and least > -math.inf:
                left = _runs(total.real + slip >= least)
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
