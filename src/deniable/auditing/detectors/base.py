"""What a detector is, and how it reads outputs as a table of numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.outputs import Output

Floats: TypeAlias = NDArray[np.float64]
Worlds: TypeAlias = NDArray[np.bool_]

MISSING = -2e300
"""What a table holds where an output has no such number."""


class Detector(Protocol):
    """Guesses the world from an output, having seen past rounds only."""

    @property
    def name(self) -> str:
        """The name under which a won bet is reported."""
        ...

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """More past rounds; `worlds[i]` says whether round i ran on D′."""
        ...

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """The estimated P(D′ | output) of rounds not learnt yet, each strictly between 0 and 1."""
        ...


class Codes:
    """Whole numbers for labels, in the order in which they were first met."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, label: Hashable, *, new: bool) -> int:
        """The code of a label; −1 for one never met, unless it is to be remembered."""
        if new and label not in self._known:
            self._known[label] = len(self._known)
        return self._known.get(label, -1)


def table(outputs: Sequence[Output], width: int) -> Floats:
    """The first `width` numbers of every output, one row each."""
    if outputs and all(len(output.numbers) == width for output in outputs):
        return np.stack([output.numbers for output in outputs])
    rows = np.full((len(outputs), width), MISSING)
    for row, output in zip(rows, outputs, strict=True):
        size = min(width, len(output.numbers))
        row[:size] = output.numbers[:size]
    return rows


def low_bits(numbers: Floats) -> Floats:
    """The exponent of the lowest set bit of each float: 0.75 = 3·2⁻² has −2. Zero has 0.

    A sum of floats is a multiple of its terms' last places, so which exponents are reachable may tell the terms
    (Mironov 2012).
    """
    mantissa, exponent = np.frexp(numbers)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.where(whole == 0, 0.0, exponent - 53 + np.log2(lowest))
