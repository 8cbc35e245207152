"""A choice among finitely many, with probabilities proportional to multiples[k] * exp(rate * log_weights[k]), exactly.

Log-weights and the rate are rational numbers, multiples whole ones (the length of an interval, the size of a group).
Their normalising sum is irrational; it is bounded to as many bits as a draw needs, never rounded (see `tables`).

>>> from deniable.noise.source import InsecureSource
>>> categorical([0, -1, -50], 8, source=InsecureSource(4)).tolist()
[0, 1, 1, 0, 1, 1, 0, 0]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

import numpy as np
from numpy.typing import NDArray

from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.noise.laws import Weights
from deniable.noise.scores import exactly, gaps
from deniable.noise.shapes import Shape, Size, shaped
from deniable.noise.source import Source, secure
from deniable.noise.tables import Table


class Categorical:
    """A sampler for many draws from the same weights. It is not cached: weights may hold private data."""

    def __init__(
        self,
        log_weights: Iterable[Number],
        *,
        rate: Number = 1,
        multiples: Iterable[int] | None = None,
        word_bits: int = 64,
    ) -> None:
        given = list(log_weights)
        times = [1] * len(given) if multiples is None else exactly("multiples", multiples)
        if any(m < 0 or m.denominator > 1 for m in times):
            raise InvalidArgument("multiples", "another number", "whole numbers, 0 or more")
        if len(times) != len(given):
            raise InvalidArgument("multiples", len(times), f"as many as log_weights, {len(given)}")
        if not any(times):
            raise InvalidArgument("log_weights", "none", "at least one choice of positive weight")
        found = gaps(exactly("log_weights", given), rate=rate, eligible=[m > 0 for m in times])
        self._table = Table(
            Weights(tuple(found.below), found.unit, tuple(m.numerator for m in times)), word_bits=word_bits
        )

    def draw_one(self, source: Source) -> int:
        return self._table.draw_one(source)

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return self._table.draw(size, source)


@overload
def categorical(
    log_weights: Iterable[Number],
    size: None = None,
    *,
    rate: Number = 1,
    multiples: Iterable[int] | None = None,
    source: Source | None = None,
) -> int: ...
@overload
def categorical(
    log_weights: Iterable[Number],
    size: Shape,
    *,
    rate: Number = 1,
    multiples: Iterable[int] | None = None,
    source: Source | None = None,
) -> NDArray[np.int64]: ...
def categorical(
    log_weights: Iterable[Number],
    size: Size = None,
    *,
    rate: Number = 1,
    multiples: Iterable[int] | None = None,
    source: Source | None = None,
) -> NDArray[np.int64] | int:
    """Positions in `log_weights`, each with probability proportional to its weight: an int, or an int64 array."""
    sampler = Categorical(log_weights, rate=rate, multiples=multiples)
    source = source or secure()
    return shaped(size, lambda: sampler.draw_one(source), lambda many: sampler.draw(many, source))
