"""Local reports in random order: the same estimate, and much less to learn about anybody.

A shuffler that the analyst cannot see through mixes the reports of n people. Everybody keeps the local guarantee ε₀,
and what the analyst sees satisfies (ε, δ) with ε of order √(e^ε₀ ln(1/δ)/n) (Feldman, McMillan and Talwar 2021,
2023); the accountant computes it from the event. n is public (REPLACE).

>>> from deniable.mechanisms.binary_response import binary_response
>>> m = shuffled(binary_response(epsilon=1), n=1000)
>>> m.event
RandomizedResponse(epsilon=1).shuffled(population=1000)
>>> m.error(0.95) == binary_response(epsilon=1).error(0.95, n=1000)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.events import Event
from deniable.mechanisms.base import Mechanism
from deniable.mechanisms.binary_response import BinaryResponse
from deniable.mechanisms.category_response import CategoryResponse
from deniable.mechanisms.unary_response import UnaryResponse
from deniable.noise import Source

Local: TypeAlias = BinaryResponse | CategoryResponse | UnaryResponse


@dataclass(frozen=True, repr=False)
class Shuffled(Mechanism):
    """The local reports of n people, in an order that hides who sent which."""

    local: Local
    n: int

    @property
    def event(self) -> Event:
        return self.local.event.shuffled(population=self.n)

    def __call__(self, values: object, /, *, source: Source | None = None) -> Any:
        """The shuffled reports of n people."""
        reports = self.local(values, source=source)
        if len(reports) != self.n:
            raise DataError(f"this is about n={self.n} people, which is public; the values have another length")
        order = noise.permutation(self.n, source=source)
        return reports[order] if isinstance(reports, np.ndarray) else [reports[place] for place in order.tolist()]

    def estimate(self, reports: object, *, confidence: Number = Fraction(19, 20)) -> Any:
        """As from unshuffled reports: an estimate does not look at the order."""
        return self.local.estimate(reports, confidence=confidence)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the error of the estimate, as for the local reports."""
        return self.local.error(confidence, n=self.n)


def shuffled(local: Local, *, n: int) -> Shuffled:
    """The shuffled version of a local mechanism for n people."""
    if not isinstance(local, BinaryResponse | CategoryResponse | UnaryResponse):
        raise InvalidArgument(
            "local", local, "a local mechanism", "Use binary_response, category_response or unary_response."
        )
    return Shuffled(local, _checks.count("n", n))
