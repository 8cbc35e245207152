"""Operations that come again in a proof, as in layers of one kind: what is known of them is not worked out again.

A proof never looks at private numbers: Python may not (`looking`), and rules go by places. So where an operation comes
again, with arguments that lie in memory in the same way, of the same types and beside the same numbers, two things are
known without doing it: how its results lie in memory, and, if the labels are the same too, the labels of its results.
Fresh memory of that layout stands for the results. What lies there is nobody's, and a kernel that refuses it ends the
attempt; the proof is then made with all arithmetic (proving.py).

That a layout follows from those things is a fact about an operation, and holds for those that are listed here: torch
lays out the result of an operation that works element by element by its arguments alone, and the results of the others
in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload

from deniable.deep.clipping.labels import Geometry

_PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm"))
"""Their results are laid out by one function for all devices, so the device "meta", without memory, tells."""
_OTHERS = (
    "clone _to_copy native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward"
    " native_group_norm native_group_norm_backward _softmax _softmax_backward_data _log_softmax"
    " _log_softmax_backward_data sum mean gelu gelu_backward embedding slice_backward select_backward cat"
    " _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward"
)
NAMES = _PRODUCTS | frozenset(_OTHERS.split())
"""Operations, besides those that work element by element, whose layout follows from their arguments."""

Key: TypeAlias = tuple[Hashable, ...]


class Layout(NamedTuple):
    """How a result lies in memory."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


Layouts: TypeAlias = tuple[Layout | None, ...] | Layout
"""Of everything that an operation returns."""


def key_of(
    operation: OpOverload, tensors: Sequence[Tensor], geometries: Sequence[Geometry], numbers: Mapping[str, Any]
) -> Key | None:
    """What the layouts of an operation's results follow from; None where that is not known. 1, 1.0 and True differ."""
    if any(type(each) not in (Tensor, torch.nn.Parameter) or each.is_complex() for each in tensors):
        return None
    named = [(name, _plain(value)) for name, value in numbers.items()]  # a tensor that is left out is told by its name
    key = (operation, *geometries, *[each.dtype for each in tensors], *named)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _plain(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple([_plain(each) for each in value])
    return type(value), value


def product_layout(name: str, func: OpOverload, args: Sequence[Any]) -> Layouts | None:
    """The layout of a product that was not made yet; None for other operations."""
    if name not in _PRODUCTS:
        return None
    abstract = [
        torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="meta")
        if isinstance(each, Tensor)
        else each
        for each in args
    ]
    return layouts_of(func(*abstract))


def layouts_of(made: Any) -> Layouts | None:
    """The layouts of what an operation returned; None where some of it could be an index, or is no tensor."""
    if isinstance(made, Tensor):
        return Layout(tuple(made.shape), made.stride(), made.dtype) if made.is_floating_point() else None
    if not isinstance(made, tuple):
        return None
    parts = [None if each is None else layouts_of(each) for each in made]
    if any(not isinstance(part, Layout) and each is not None for part, each in zip(parts, made, strict=True)):
        return None
    return tuple(part for part in parts if part is None or isinstance(part, Layout))


def fresh(layouts: Layouts) -> Any:
    """Fresh memory in the place of results."""
    if isinstance(layouts, Layout):
        return torch.empty_strided(layouts.shape, layouts.stride, dtype=layouts.dtype)
    return tuple(None if each is None else fresh(each) for each in layouts)
