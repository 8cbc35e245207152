"""What the integral needs to know of one private step, in one direction of its pair.

With L the privacy loss under P, a step's *transform* is M(z) = E_P[e^{zL}], an analytic function of z in Re z > −1.
Along a vertical line Re z = λ it is known by its value at λ, by the ratio M(λ + iω)/M(λ), which is the characteristic
function of the tilted loss, and by a bound on that ratio for all larger ω. Each comes with a proven bound on its
error.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, Protocol

from deniable.numerics.arrays import Complexes, Reals

RUN = 8
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
