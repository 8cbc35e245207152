"""The discrete Laplace law: Pr[X = x] proportional to exp(-|x| / scale) on the integers, drawn exactly.

An integer is its sign and the binary digits of ``y = x`` (x >= 0) or ``y = -1 - x`` (x < 0). Its weight,
``exp(-(y + [x < 0]) / scale)``, is a product over the sign, the leading part of y and its digits, so these are
independent: the sign and the leading part are drawn from one table, each group of lower digits from another. Nothing is
rejected, and every draw reads the same number of words (one per table) but for refinements (see `tables`).

This is the two-sided geometric mechanism of Ghosh, Roughgarden and Sundararajan (2009): added to an integer of
sensitivity D it is (D / scale)-differentially private.

>>> from deniable.noise.source import InsecureSource
>>> discrete_laplace(3, 6, source=InsecureSource(1)).dtype
dtype('int64')
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from deniable._checks import Number, positive
from deniable.noise.laws import Ladder, Run
from deniable.noise.shapes import Shape, Size, shaped
from deniable.noise.source import Source, secure
from deniable.noise.tables import Table

_RUNGS = 256  # leading parts per sign, at most
_DIGITS = 10  # binary digits per table, at most
_NATS = 45  # exp(-45) < 2**-64: what lies further out is left to refinement
FITS = 1 << 62
"""Magnitudes below this stay int64, so that adding a value of like size cannot overflow."""


class DiscreteLaplace:
    """The sampler of one scale. `discrete_laplace` keeps the recent ones."""

    def __init__(self, scale: Fraction, *, word_bits: int = 64) -> None:
        self.scale = scale
        self.low_bits = (_NATS * scale // _RUNGS).bit_length()
        groups = -(-self.low_bits // _DIGITS)
        edges = [self.low_bits * g // groups for g in range(groups, -1, -1)] if groups else []
        self._top = Table(Ladder(1 / scale, degree=1, length=1 << self.low_bits), word_bits=word_bits)
        self._low = [
            (high - low, Table(Run((1 << low) / scale, 1 << (high - low)), word_bits=word_bits))
            for high, low in pairwise(edges)
        ]
        # In int64 all arithmetic on table outcomes stays below 2**62; refined ones are checked when they occur.
        self.wide = self.low_bits + (2 * _RUNGS).bit_length() > 61

    def draw_one(self, source: Source) -> int:
        rung = self._top.draw_one(source)
        y = rung >> 1
        for width, table in self._low:
            y = y << width | table.draw_one(source)
        return ~y if rung & 1 else y

    def draw(self, size: int, source: Source) -> NDArray[Any]:
        if self.wide:
            return np.array([self.draw_one(source) for _ in range(size)], dtype=object)
        rungs = self._top.draw(size, source)
        far = bool(size) and int(rungs.max()) >> 1 >= FITS >> self.low_bits
        y = rungs.astype(object) if far else rungs
        signs = -(y & 1)
        y = y >> 1
        for width, table in self._low:
            y = (y << width) | table.draw(size, source)
        return y ^ signs


@lru_cache(maxsize=64, typed=True)
def _sampler(scale: Number) -> DiscreteLaplace:
    return DiscreteLaplace(positive("scale", scale))


@overload
def discrete_laplace(scale: Number, size: None = None, *, source: Source | None = None) -> int: ...
@overload
def discrete_laplace(scale: Number, size: Shape, *, source: Source | None = None) -> NDArray[Any]: ...
def discrete_laplace(scale: Number, size: Size = None, *, source: Source | None = None) -> NDArray[Any] | int:
    """Discrete Laplace noise of the exact scale given: an integer, or an int64 array of shape `size`.

    No value is ever wrapped or clipped. An array that holds a magnitude of 2**62 or more has dtype object and holds
    Python integers: every array at scales from about 2**54 on; at smaller ones that has probability below exp(-256).
    """
    sampler = _sampler(scale if isinstance(scale, Hashable) else positive("scale", scale))
    source = source or secure()
    return shaped(size, lambda: sampler.draw_one(source), lambda many: sampler.draw(many, source))
