"""Steps with finitely many (or countably many) outcomes, as tables of outcome masses.

A table gives the mass of every outcome under "absent" (shift 0) and under any whole shift; a pair is made of two of its
rows. The discrete Gaussian is cut where its tail is below 1e-290; the P-mass beyond is counted as an infinite loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.pairs.law import Array, LossAtoms
from deniable.numerics.arrays import UNIT

LARGEST = 1 << 21
"""The most outcomes a table may have."""

_CUT = 668.0
"""e^−668 ≈ 1e-290."""


@dataclass(frozen=True, eq=False)
class LaplaceTable:
    """Discrete Laplace noise of scale t: the integers, those at or beyond the outer shifts lumped together.

    Beyond the shifts the ratio of any two rows is constant, so lumping loses nothing.
    """

    scale: float
    first: int
    last: int

    def row(self, shift: int) -> Array:
        """The masses when the answer is `shift`, first ≤ shift ≤ last."""
        x = np.arange(self.first, self.last + 1)
        away = np.abs(x - shift).astype(float)
        one = math.exp(-1 / self.scale)
        with np.errstate(under="ignore"):
            mass = np.exp(-away / self.scale) / (1 + one)
        mass[1:-1] *= -math.expm1(-1 / self.scale)
        if self.first == self.last:
            return np.ones(1)
        return mass

    @property
    def beyond(self) -> float:
        """Mass that the table leaves out."""
        return 0.0

    @property
    def slip(self) -> float:
        """The relative error of the masses: exponents are at most the span of the table."""
        return 8 * UNIT * (1 + (self.last - self.first) / self.scale)


@dataclass(frozen=True, eq=False)
class GaussianTable:
    """Discrete Gaussian noise of scale s: the integers out to where the masses vanish."""

    scale: float
    first: int
    last: int

    @classmethod
    def between(cls, scale: float, first: int, last: int) -> GaussianTable | None:
        """A table for shifts between two integers, or None when it would be too large."""
        margin = math.ceil(scale * math.sqrt(2 * _CUT)) + 1
        if margin * 2 + last - first > LARGEST:
            return None
        return cls(scale, first - margin, last + margin)

    def row(self, shift: int) -> Array:
        """The masses when the answer is `shift`."""
        x = np.arange(self.first - shift, self.last - shift + 1).astype(np.longdouble)
        rate = 1 / (2 * np.longdouble(self.scale) ** 2)
        with np.errstate(under="ignore"):
            mass: NDArray[np.longdouble] = np.exp(-(x * x) * rate)
        return np.asarray(mass / mass.sum(), dtype=float)

    @property
    def beyond(self) -> float:
        """A bound on the mass that the table leaves out."""
        return 1e-280

    @property
    def slip(self) -> float:
        """The relative error of the masses, of which the largest exponents are cut."""
        return 8 * UNIT * _CUT


def pair(p: Array, q: Array, losses: Array, *, slip: float, beyond: float = 0.0) -> LossAtoms:
    """The law of a pair of rows whose losses are known in closed form. Outcomes that underflow under P count as
    infinite. `slip` is the relative error of the masses: the scale is rounded once, and that counts as often as the
    exponent is large.
    """
    kept = p > 1e-300
    lost = float(p[~kept].sum()) + beyond
    missed = float(q[~kept].sum()) + beyond
    return LossAtoms.paired(losses[kept], p[kept], q[kept], infinite=lost, vanishing=missed, errors=(slip, 0.0))


def mixed_pair(p: Array, q: Array, *, slip: float, beyond: float = 0.0) -> LossAtoms:
    """The law of a pair of rows, losses from the ratio of the masses, and as good as those."""
    known = (p > 1e-300) & (q > 1e-300)
    lost = float(p[~known].sum()) + beyond
    missed = float(q[~known].sum()) + beyond
    losses = np.log(p[known] / q[known])
    return LossAtoms.paired(losses, p[known], q[known], infinite=lost, vanishing=missed, errors=(slip, 2 * slip))


def discrete_laplace(scale: float, shift: int) -> LossAtoms:
    """Shift against none. Losses (2x − shift)/scale for 0 ≤ x ≤ shift."""
    table = LaplaceTable(scale, 0, shift)
    x = np.arange(0, shift + 1)
    return pair(table.row(shift), table.row(0), (2 * x - shift) / scale, slip=table.slip)


def discrete_gaussian(scale: float, shift: int) -> LossAtoms | None:
    """Shift against none. Losses (2x − shift)·shift/(2 scale²)."""
    table = GaussianTable.between(scale, 0, shift)
    if table is None:
        return None
    x = np.arange(table.first, table.last + 1, dtype=np.float64)
    losses: Array = (2 * x - shift) * (shift / (2 * scale**2))
    return pair(table.row(shift), table.row(0), losses, slip=table.slip, beyond=table.beyond)


def randomized_response(epsilon: float, categories: int = 2) -> LossAtoms:
    """A category against another: told truly, told as the other, or told as a third one."""
    low = math.exp(-epsilon)
    if low < 1e-300:
        # Under P the truth is told but for less than any float.
        return LossAtoms.of([epsilon], [1.0], vanishing=1.0)
    total = 1 + (categories - 1) * low
    masses = [low / total, (categories - 2) * low / total, 1 / total]
    kept = slice(None) if categories > 2 else slice(None, None, 2)
    return LossAtoms.of([-epsilon, 0.0, epsilon][kept], masses[kept], errors=(4 * UNIT * epsilon, 0.0))


def placed_pair(table: LaplaceTable | GaussianTable, here: int, there: int, rate: float) -> LossAtoms | None:
    """On a Poisson sample: a unit that moves the answer to `here`, against a replacement that moves it to `there`."""
    absent = table.row(0)
    p, q = (1 - rate) * absent + rate * table.row(here), (1 - rate) * absent + rate * table.row(there)
    law = mixed_pair(p, q, slip=table.slip, beyond=table.beyond)
    # Where one world's masses are too small for a float and the other's are not, the bound of `sampling` knows more.
    return law if law.infinite <= table.beyond + 1e-250 else None
