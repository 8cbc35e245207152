"""The form of a batch: what is public about it. Structure, shapes without the number of rows, types; no values.

The proof (typing.py) and the check (checks.py) run on made-up values of a form. So what they find is a fact about the
model, the loss and the form, and no row decides it.

>>> form = Form.of((torch.ones(7, 2), torch.zeros(7, dtype=torch.long)))
>>> form == Form.of((torch.ones(3, 2), torch.ones(3, dtype=torch.long)))
True
>>> [tuple(each.shape) for each in form.made_up(4)]
[(4, 2), (4,)]
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from deniable.errors import InvalidArgument


class TensorForm(NamedTuple):
    """A tensor of a batch. `order` is the order of its axes in memory where that is not the usual one."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    order: tuple[int, ...] | None


@dataclass(frozen=True)
class Form:
    """The form of a batch (inputs, targets). `ranges` are the least and greatest integers of a public sample."""

    leaves: tuple[TensorForm | Hashable, ...]
    structure: str
    tree: TreeSpec = field(compare=False, repr=False)
    ranges: tuple[tuple[int, int] | None, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, batch: Any, *, sample: bool = False) -> Form:
        """The form of a batch. Of a sample, which is public, the range of integers is kept too."""
        leaves, tree = tree_flatten(batch)
        ranges = tuple(_range(each) for each in leaves) if sample else ()
        return cls(tuple(_leaf(each) for each in leaves), str(tree), tree, ranges)

    def on(self, device: torch.device) -> Form:
        """The same on another device."""
        leaves = tuple(each._replace(device=device) if isinstance(each, TensorForm) else each for each in self.leaves)
        return replace(self, leaves=leaves)

    def made_up(self, rows: int, *, seed: int = 0) -> Any:
        """A batch of so many rows: fractions between 0 and 1, integers 0 and 1, or as in the sample."""
        random = torch.Generator().manual_seed(seed)
        ranges: Sequence[tuple[int, int] | None] = self.ranges or [None] * len(self.leaves)
        made = [
            _values(each, rows, span, random) if isinstance(each, TensorForm) else each
            for each, span in zip(self.leaves, ranges, strict=True)
        ]
        return tree_unflatten(made, self.tree)


def dense(batch: Any) -> Any:
    """A batch whose tensors hold every number once, in some order of their axes, and require no gradient."""
    leaves, tree = tree_flatten(batch)
    return tree_unflatten([_dense(each) if isinstance(each, Tensor) else each for each in leaves], tree)


def _dense(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return tensor if torch.ops.aten.is_non_overlapping_and_dense(tensor) else tensor.contiguous()


def _leaf(value: Any) -> TensorForm | Hashable:
    if isinstance(value, Tensor):
        order, strides = None, value.stride()
        if not value.is_contiguous():
            order = tuple(sorted(range(value.dim()), key=lambda axis: (-strides[axis], axis)))
        return TensorForm(tuple(value.shape[1:]), value.dtype, value.device, order)
    if not isinstance(value, Hashable):
        raise InvalidArgument("batch", type(value).__name__, "tensors, and numbers or text that all examples share")
    return value


def _range(value: Any) -> tuple[int, int] | None:
    if not isinstance(value, Tensor) or value.is_floating_point() or value.is_complex() or not value.numel():
        return None
    return int(value.min()), int(value.max())


def _values(form: TensorForm, rows: int, span: tuple[int, int] | None, random: torch.Generator) -> Tensor:
    shape = (rows, *form.shape)
    if form.dtype.is_floating_point or form.dtype.is_complex:
        made = torch.rand(shape, generator=random).to(form.dtype)
    else:
        low, high = span or (0, 1)
        made = torch.randint(low, high + 1, shape, generator=random).to(form.dtype)
    if form.order is not None:
        back = [form.order.index(axis) for axis in range(len(shape))]
        made = made.permute(form.order).contiguous().permute(back)
    return made.to(form.device)
