"""Uniform whole numbers below n, and uniform orders.

A word is rejected when it falls into the incomplete last run of length n; what is kept, modulo n, is uniform. Rejection
drops the whole word, so how many are read says nothing about the numbers returned.

>>> from deniable.noise.source import InsecureSource
>>> int(uniform(6, 1000, source=InsecureSource(1)).max())
5
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from deniable._checks import count
from deniable.noise.shapes import Shape, Size, shaped
from deniable.noise.source import Source, secure


def below(n: int, source: Source) -> int:
    """One uniform whole number in [0, n)."""
    words = max(1, ((n - 1).bit_length() + 63) // 64)
    whole = 1 << (64 * words)
    usable = whole - whole % n
    while True:
        found = 0
        for _ in range(words):
            found = found << 64 | source.word()
        if found < usable:
            return found % n


@overload
def uniform(n: int, size: None = None, *, source: Source | None = None) -> int: ...
@overload
def uniform(n: int, size: Shape, *, source: Source | None = None) -> NDArray[Any]: ...
def uniform(n: int, size: Size = None, *, source: Source | None = None) -> NDArray[Any] | int:
    """Whole numbers in [0, n), all equally likely; an int64 array, or Python integers if n exceeds 2**62."""
    n = count("n", n)
    source = source or secure()
    return shaped(size, lambda: below(n, source), lambda many: _many(n, many, source))


def _many(n: int, size: int, source: Source) -> NDArray[Any]:
    if n > 1 << 62:
        return np.array([below(n, source) for _ in range(size)], dtype=object)
    usable = (1 << 64) - (1 << 64) % n
    found = source.words(size)
    if usable < 1 << 64:
        while (rejected := np.flatnonzero(found >= np.uint64(usable))).size:
            found[rejected] = source.words(rejected.size)
    if n & (n - 1) == 0:
        found &= np.uint64(n - 1)
    else:
        found %= np.uint64(n)
    return found.view(np.int64)


def permutation(n: int, *, source: Source | None = None) -> NDArray[np.int64]:
    """A uniform order of 0 ... n-1: the order of n random words, all drawn again if two of them tie."""
    n = count("n", n, least=0)
    source = source or secure()
    while True:
        words = source.words(n)
        order = np.argsort(words)
        if not (words[order[1:]] == words[order[:-1]]).any():
            return order
