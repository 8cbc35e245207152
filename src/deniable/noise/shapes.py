"""One number or an array of them, filled in pieces that fit in the processor's cache.

>>> fill((2, 3), lambda: 7, lambda many: np.arange(many)).tolist()
[[0, 1, 2], [3, 4, 5]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable._checks import count

Shape: TypeAlias = int | tuple[int, ...]
Size: TypeAlias = Shape | None
"""None for one number, else the shape of an array."""

PIECE = 1 << 14
"""Draws made at a time: a few arrays of this length stay in the second-level cache."""

One = TypeVar("One", int, bool)


def fill(size: Size, one: Callable[[], One], many: Callable[[int], NDArray[Any]]) -> NDArray[Any] | One:
    """`one()` for size None, else an array of that shape out of `many(n)` with n at most PIECE."""
    if size is None:
        return one()
    shape = _shape(size)
    total = prod(shape)
    if total <= PIECE:
        return many(total).reshape(shape)
    first = many(PIECE)
    out = np.empty(total, dtype=first.dtype)
    out[:PIECE] = first
    for start in range(PIECE, total, PIECE):
        stop = min(start + PIECE, total)
        piece = many(stop - start)
        if piece.dtype != out.dtype:  # a draw beyond 64 bits: go on in Python integers
            out = out.astype(object)
        out[start:stop] = piece
    return out.reshape(shape)


def _shape(size: object) -> tuple[int, ...]:
    return tuple(count("size", n, least=0) for n in (size if isinstance(size, tuple) else (size,)))


def blocks(draw: Callable[[int], NDArray[Any]], total: int, *, block: int = 1 << 20) -> Iterator[NDArray[Any]]:
    """`total` draws in arrays of at most `block`, for more numbers than memory should hold at once.

    >>> sum(part.size for part in blocks(lambda n: np.zeros(n), 10, block=4))
    10
    """
    total, block = count("total", total, least=0), count("block", block)
    for start in range(0, total, block):
        yield draw(min(block, total - start))
