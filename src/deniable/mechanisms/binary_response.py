"""Randomised response: everybody answers yes or no, truthfully with probability 1/2 + g, and nobody need be trusted.

ε = ln((1/2 + g)/(1/2 − g)), so g = tanh(ε/2)/2 (Warner 1965; exact). From n answers of mean ȳ the unbiased estimate
of the share p of yes is

    p̂ = (ȳ − (1/2 − g))/(2g),

not ȳ itself, whose error does not vanish as n grows. Given the truth it has variance (1 − 4g²)/(16g²n). By Hoeffding,
|p̂ − p| ≤ √(ln(2/β)/(8g²n)) with probability 1 − β. p is the share among those asked.

>>> m = binary_response(epsilon=1)
>>> round(m.bias, 4), m.event
(0.2311, RandomizedResponse(epsilon=1))
>>> m.statement(0.95, n=10_000)
'with probability 95 % the error is at most 0.0294'
>>> reports = m([1, 0, 1, 1])
>>> found = m.estimate(reports, confidence=0.95)
>>> 0 <= found.lower <= found.upper <= 1
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.events import Event, RandomizedResponse
from deniable.mechanisms import records
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.estimates import Estimate, around, hoeffding, people
from deniable.noise import Source


@dataclass(frozen=True, repr=False)
class BinaryResponse(Mechanism):
    """One bit per person, each with ε-local differential privacy."""

    epsilon: Fraction

    @property
    def event(self) -> Event:
        return RandomizedResponse(self.epsilon)

    @property
    def bias(self) -> float:
        """g: how much likelier the truth is than a coin toss."""
        return math.tanh(float(self.epsilon) / 2) / 2

    def __call__(self, bits: object, /, *, source: Source | None = None) -> NDArray[np.bool_]:
        """The reports. Each person's is private on its own; a missing bit counts as no."""
        truth = records.flags(bits)
        # Weights 1 and e^−ε: kept with probability 1/(1 + e^−ε), exactly.
        flipped = noise.categorical([0, -self.epsilon], len(truth), source=source)
        return np.asarray(truth ^ (np.asarray(flipped) == 1))

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> Estimate:
        """The share of yes among those asked: unbiased, with an interval."""
        said = records.flags(reports)
        if not len(said):
            raise DataError("an estimate needs at least one report")
        share = float(np.mean(said))
        return around((share - (0.5 - self.bias)) / (2 * self.bias), self.error(confidence, n=len(said)))

    def variance(self, *, n: int) -> float:
        """The variance of the estimate, given the truth."""
        return (1 - 4 * self.bias**2) / (16 * self.bias**2 * people("n", n))

    def error(self, confidence: Number = Fraction(19, 20), *, n: int | None = None) -> float:
        """A bound on the error of the estimated share when n people answer."""
        return hoeffding(failure(confidence), people("n", n)) / (2 * self.bias)


def binary_response(*, epsilon: Number | None = None, bias: Number | None = None) -> BinaryResponse:
    """Randomised response with a guarantee ε, or with the truth told with probability 1/2 + bias, 0 < bias < 1/2.

    A bias is turned into the smallest ε of nine digits that is not below it.
    """
    if (epsilon is None) == (bias is None):
        raise InvalidArgument("epsilon", epsilon, "given, or bias instead")
    if epsilon is not None:
        return BinaryResponse(_checks.positive("epsilon", epsilon))
    g = _checks.between("bias", bias, low=0, high=Fraction(1, 2), open_low=True, open_high=True,  # type: ignore[arg-type]
                        expected="above 0 and below 1/2")  # fmt: skip
    wanted = math.log((0.5 + float(g)) / (0.5 - float(g)))
    return BinaryResponse(Fraction(math.ceil(wanted * 10**9), 10**9))
