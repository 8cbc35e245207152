"""Uniform whole numbers below n, and uniform orders.

A word is rejected when it falls into the incomplete last run of length n; an accepted word, modulo n, is uniform.
Rejection drops the whole word, so the number of words read reveals nothing about the numbers returned.

>>> from deniable.noise.source import InsecureSource
>>> int(uniform(6, 1000, source=InsecureSource(1)).max())
5
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from deniable._checks import count
from deniable.noise.shapes import Shape, Size, fill
from deniable.noise.source import Source, secure


def below(n: int, source: Source) -> int:
    """One uniform whole number in [0, n)."""
    words = max(1, ((n - 1).bit_length() + 63) // 64)
    whole = 1 << (64 * words)
    usable = whole - whole % n
    while True:
        number = 0
        for _ in range(words):
            number = number << 64 | source.word()
        if number < usable:
            return number % n


@overload
def uniform(n: int, size: None = None, *, source: Source | None = None) -> int: ...
@overload
def uniform(n: int, size: Shape, *, source: Source | None = None) -> NDArray[Any]: ...
def uniform(n: int, size: Size = None, *, source: Source | None = None) -> NDArray[Any] | int:
    """Whole numbers in [0, n), all equally likely.

    Args:
        n: how many numbers there are to choose from; beyond 2**62 the array holds Python integers.
        size: None for one integer, else the shape of an array.
        source: where random bits come from; the operating system, if it is left out.
    """
    n = count("n", n)
    source = source or secure()
    return fill(size, lambda: below(n, source), lambda many: _many(n, many, source))


def _many(n: int, size: int, source: Source) -> NDArray[Any]:
    if n > 1 << 62:
        return np.array([below(n, source) for _ in range(size)], dtype=object)
    usable = (1 << 64) - (1 << 64) % n
    words = source.words(size)
    if usable < 1 << 64:
        while (rejected := np.flatnonzero(words >= np.uint64(usable))).size:
            words[rejected] = source.words(rejected.size)
    if n & (n - 1) == 0:
        words &= np.uint64(n - 1)
    else:
        words %= np.uint64(n)
    return words.view(np.int64)


def permutation(n: int, *, source: Source | None = None) -> NDArray[np.int64]:
    """A uniform order of 0 ... n-1. It is the order of n random words, which are all drawn again if two of them tie.

    Args:
        n: how many numbers to order.
        source: where random bits come from; the operating system, if it is left out.
    """
    n = count("n", n, least=0)
    source = source or secure()
    while True:
        words = source.words(n)
        order = np.argsort(words)
        if not (words[order[1:]] == words[order[:-1]]).any():
            return order
