"""A parameter repeated for every row: a class token, a learned start state (expand, repeat, broadcast_to)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deniable.deep.clipping.calls import Call, Sketch
from deniable.deep.clipping.contributions import Contribution, Stack
from deniable.deep.clipping.origins import Origin
from deniable.deep.clipping.precision import widened
from deniable.deep.clipping.rules.anything import anything


def spread(call: Call) -> Sketch:
    """The gradient of a copy belongs to its row; the copies inside a unit add up."""
    origin, shape = call.origin(call.args[0]), tuple(call.args[0].shape)
    if origin is None:
        return anything(call)

    def contribute(saved: Sequence[Tensor], gradient: Tensor) -> list[tuple[Origin, Contribution]]:
        return [(origin, Stack(folded(widened(gradient), shape)))]

    return Sketch((), (), contribute)


def folded(values: Tensor, shape: Sequence[int]) -> Tensor:
    """[units, …] summed over all copies, down to [units, *shape]."""
    while values.dim() - 1 > len(shape):
        values = values.sum(1)
    for axis, size in enumerate(shape, start=1):
        values = torch.unflatten(values, axis, (values.shape[axis] // size, size)).sum(axis)
    return values
