"""Memory on a CPU: what one step leaves to the next, and what stays in the cache.

Finished gradients are large: for a batch of 32, thirty-two times a weight. A C library maps such blocks anew for every
step and the system clears them page by page, which takes as long as the product that fills them. A shelf keeps the
block of each parameter instead. What lies on it is good until the next step takes the place.

What is needed for a moment only is made for a few units at a time (`piecewise`): it then never leaves the cache.

>>> shelf = Shelf()
>>> first = shelf.place("weight")((2, 3), torch.zeros(1))
>>> shelf.place("weight")((3, 2), torch.zeros(1)).data_ptr() == first.data_ptr()
True
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

PIECE = 2**16
"""Numbers that stay in a cache with what is made of them."""

Place: TypeAlias = Callable[[tuple[int, ...], Tensor], Tensor | None]
"""Memory of a shape, for numbers like those of a tensor; None where there is nothing to gain."""


class Shelf:
    """One block of memory per name, as large as was ever asked for."""

    def __init__(self) -> None:
        self._blocks: dict[str, Tensor] = {}

    def place(self, name: str) -> Place:
        """The memory of a name, for whoever knows its shape."""

        def taken(shape: tuple[int, ...], like: Tensor) -> Tensor | None:
            if not _counts(like):
                return None
            size = prod(shape)
            block = self._blocks.get(name)
            if block is None or block.numel() < size or block.dtype != like.dtype:
                self._blocks[name] = block = torch.empty(size, dtype=like.dtype)
            return block[:size].view(shape)

        return taken


def piecewise(make: Callable[..., Tensor], *values: Tensor) -> Tensor:
    """make(*values), all [units, …], a few units at a time where that spares memory."""
    many = max(1, PIECE // max(1, prod(values[0].shape[1:])))
    if many >= values[0].shape[0] or not _counts(values[0]):
        return make(*values)
    return torch.cat([make(*parts) for parts in zip(*(torch.split(each, many) for each in values), strict=True)])


def _counts(values: Tensor) -> bool:
    """Whether memory has to be thought of: devices have allocators that keep it, and a graph that is being traced has
    none yet."""
    return values.device.type == "cpu" and type(values) is Tensor
