"""Labels of memory: whose numbers lie in a storage, and where a tensor that looks into it has its rows.

A label sits on a storage, not on a tensor. `step` bytes belong to one unit, then come the next unit's, and after all
units the first one's again: byte f of the storage belongs to unit (f // step) mod units. Where the rows of a tensor lie
(its `Place`) follows from its offset, sizes and strides. So operations that only look at memory in another way (view,
permute, slice, expand, unfold, …) need no rule, what autograd unpacks is known by its storage, and writing through a
view writes into labelled memory.

>>> place_of(Geometry((3, 4, 5), (20, 5, 1), 0), item=4, step=80, units=3)  # [rows, tokens, width]
Place(axis=0, inner=1)
>>> place_of(Geometry((12, 5), (5, 1), 0), item=4, step=80, units=3)  # the same memory as [rows · tokens, width]
Place(axis=0, inner=4)
>>> place_of(Geometry((2, 4, 5), (20, 5, 1), 20), item=4, step=80, units=3) is None  # without the first row
True
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Place(NamedTuple):
    """Where the units lie in a tensor: on `axis`, each taking `inner` places in succession, and coming round again
    where the axis is longer than that.

    With one row per unit [rows, …] has inner 1, [rows · tokens, …] has inner = tokens, and [tokens · rows, …] has
    inner 1 again: there the rows come round once per token. `LOOSE` in the place of a number: every place along the
    axis holds the same, or an independent draw, so units may lie there in any way.
    """

    axis: int
    inner: int


LOOSE = 0


class Kind(IntEnum):
    """What the numbers in a storage come from; of several the highest counts."""

    CONSTANT = 0
    """Python numbers alone. They may be looked at."""
    RANDOM = 1
    """Independent draws."""
    PUBLIC = 2
    """Parameters, buffers, tensors from outside the step. Never looked at: what is zero now may not stay so."""
    PRIVATE = 3
    """The batch."""


class Fault(NamedTuple):
    """Why a tensor may hold one unit's numbers in the place of another's: what happened, by which operation, where."""

    reason: str
    operation: str
    where: str

    def __str__(self) -> str:
        return f"{self.operation}{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Label:
    """Of one storage. `step` is the number of bytes of a unit; None where all units share every number, `LOOSE` where
    units may lie in any way. With a `fault` nothing is known about whose numbers these are."""

    kind: Kind
    step: int | None = None
    fault: Fault | None = None


class Geometry(NamedTuple):
    """How a tensor looks into its storage, in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


def geometry_of(tensor: Tensor) -> Geometry:
    """The geometry of a tensor."""
    return Geometry(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))


def storage_of(tensor: Tensor) -> tuple[int, Any]:
    """A key of the storage that is good while the storage lives, and the storage."""
    storage = tensor.untyped_storage()
    return storage._cdata, storage


def place_of(geometry: Geometry, *, item: int, step: int, units: int) -> Place | None:
    """Where the units lie in a tensor over memory with that `step`; None where they do not lie one after another,
    complete and from the first one on."""
    period = step * units
    inside = geometry.offset * item % period
    if inside >= step:
        return None  # begins with another unit
    found: tuple[int, int] | None = None
    for axis, (size, stride) in enumerate(zip(geometry.shape, geometry.stride, strict=True)):
        width = stride * item
        if size == 1 or width % period == 0:
            continue
        if inside + (size - 1) * width < step and width * (size - 1) < step:
            inside += (size - 1) * width
            continue
        if found is not None:
            return None
        found = axis, width
    if found is None:
        return None
    axis, width = found
    if step % width or inside + item > width or geometry.shape[axis] % (step // width * units):
        return None
    return Place(axis, step // width)


def step_of(geometry: Geometry, place: Place, *, item: int, units: int) -> int | None:
    """The step of memory in which a tensor has its rows at a place; None where no step says it."""
    step = geometry.stride[place.axis] * place.inner * item
    if step <= 0 or place_of(geometry, item=item, step=step, units=units) != place:
        return None
    return step


def grown_axis(before: tuple[int, ...], now: tuple[int, ...], *, few: int, many: int) -> int | None:
    """The axis that has `few` places now for every `many` it had before; None where no size differs.

    Raises ValueError where sizes differ in another way.
    """
    if before == now:
        return None
    axes = [axis for axis, (one, two) in enumerate(zip(before, now, strict=False)) if one != two]
    if len(before) != len(now) or len(axes) != 1 or before[axes[0]] * few != now[axes[0]] * many:
        raise ValueError("sizes depend on the number of rows")
    return axes[0]


def alike(before: Geometry, now: Geometry, *, item: int, step: int, units: tuple[int, int]) -> bool:
    """Whether two runs, with as many units each, look into memory of one `step` in the same way: nothing but the
    number of units differs."""
    long, short = step * units[0], step * units[1]
    if len(before.shape) != len(now.shape):
        return False
    if divmod(before.offset * item, long) != divmod(now.offset * item, short):
        return False
    for sizes, strides in zip(
        zip(before.shape, now.shape, strict=True), zip(before.stride, now.stride, strict=True), strict=True
    ):
        if sizes[0] != sizes[1] and sizes[0] * units[1] != sizes[1] * units[0]:
            return False
        if max(sizes) > 1 and divmod(strides[0] * item, long) != divmod(strides[1] * item, short):
            return False
    return True


def same_view(before: Geometry, now: Geometry) -> bool:
    """Whether two tensors look into shared memory in the same way; along an axis without a stride sizes may differ."""
    if before.offset != now.offset or len(before.shape) != len(now.shape):
        return False
    for one, two, first, second in zip(before.shape, now.shape, before.stride, now.stride, strict=True):
        if one == two:
            if one > 1 and first != second:
                return False
        elif first or second:
            return False
    return True


def compact(tensor: Tensor) -> Tensor:
    """Every number of a tensor once: axes without a stride are cut to one place."""
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def uniform(values: Tensor, place: Place, units: int) -> Tensor | None:
    """What every unit has of a constant, [outer, …, inner at the place's axis]; None where units differ."""
    axis, inner = place
    if values.shape[axis] == 1:
        return values
    split = torch.unflatten(values, axis, (values.shape[axis] // (units * inner), units, inner))
    first = split.narrow(axis + 1, 0, 1)
    return first if bool((split == first).all()) else None
