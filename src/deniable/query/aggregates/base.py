"""What an aggregate is: the measures it needs, and how it reads its answer off their noisy values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from numpy.typing import NDArray

from deniable.numerics.discrete import laplace_radius
from deniable.query.intervals import roomy
from deniable.query.measures import Measure


class Noisy(NamedTuple):
    """A measure with its noise: integers per group, and the scale of the discrete Laplace noise in them."""

    values: NDArray[Any]
    scale: Fraction

    def margin(self, failure: Fraction) -> int:
        """How far each value may be off, but for a probability of `failure` per value."""
        return laplace_radius(self.scale, failure)

    def ends(self, failure: Fraction) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ends of an interval around each value that fails with at most this probability."""
        far = self.margin(failure)
        values = roomy(self.values, far)
        return values - far, values + far


class EstimateColumn(NamedTuple):
    """A released column: one value per group, with the ends of its interval."""

    value: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]

    @property
    def endings(self) -> tuple[str, ...]:
        """What the names of the three columns end in."""
        return "", "_low", "_high"


class Choice(NamedTuple):
    """A released column of choices: one category per group, and those that it may be in truth."""

    value: NDArray[Any]
    among: NDArray[Any]

    @property
    def endings(self) -> tuple[str, ...]:
        """What the names of the two columns end in."""
        return "", "_among"


class ExpectedError(ABC):
    """What the noise does to one aggregate, known before any data are read."""

    confidence: Fraction

    @abstractmethod
    def __call__(self, rows: int | None = None) -> float:
        """The error that is not exceeded with the stated confidence, in a group that keeps this many rows."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Aggregate(ABC):
    """One aggregate of one query. Its fields are public; the data arrive as arguments of `estimate`."""

    name: str

    @property
    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """What must be measured for it; equal measures of several aggregates are measured once."""

    @abstractmethod
    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> EstimateColumn | Choice:
        """The released column. Each interval fails with at most this probability."""

    @abstractmethod
    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        """The expected error at these noise scales."""


@dataclass(frozen=True)
class PlainError(ExpectedError):
    """An error that is the same in every group."""

    size: Fraction
    confidence: Fraction

    def __call__(self, rows: int | None = None) -> float:
        return float(self.size)

    def __str__(self) -> str:
        return f"± {rounded(float(self.size))}"


def rounded(value: float) -> str:
    """A size to three significant digits, in plain digits where they are short.

    >>> rounded(1234567), rounded(0.01234), rounded(24)
    ('1,230,000', '0.0123', '24')
    """
    if value == 0:
        return "0"
    short = float(f"{value:.3g}")
    return f"{short:,.0f}" if abs(short) >= 100 or short == int(short) else f"{short:g}"
