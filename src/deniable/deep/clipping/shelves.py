"""Memory that one step leaves to the next, on a CPU.

Finished gradients are large: for a batch of 32, thirty-two times a weight. A C library maps such blocks anew for every
step and the system clears them page by page, which takes as long as the product that fills them. A shelf keeps the
block of each parameter instead. What lies on it is good until the next step takes the place.

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

Place: TypeAlias = Callable[[tuple[int, ...], Tensor], Tensor | None]
"""Memory of a shape, for numbers like those of a tensor; None where there is nothing to gain."""


class Shelf:
    """One block of memory per name, as large as was ever asked for."""

    def __init__(self) -> None:
        self._blocks: dict[str, Tensor] = {}

    def place(self, name: str) -> Place:
        """The memory of a name, for whoever knows its shape."""

        def taken(shape: tuple[int, ...], like: Tensor) -> Tensor | None:
            # Devices have allocators that keep memory, and a graph that is being traced has none yet.
            if like.device.type != "cpu" or type(like) is not Tensor:
                return None
            size = prod(shape)
            block = self._blocks.get(name)
            if block is None or block.numel() < size or block.dtype != like.dtype:
                self._blocks[name] = block = torch.empty(size, dtype=like.dtype)
            return block[:size].view(shape)

        return taken
