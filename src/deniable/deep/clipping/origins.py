"""Where a tensor comes from, when it comes from parameters alone.

A parameter may be sliced, cast, transposed or normalised before it meets the data: the packed projection of an
attention layer, weight normalisation, a merged adapter. Such a tensor is remembered with the call that made it. A
gradient for it, one per unit, is pulled back to the parameters by the ordinary chain rule, all units at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from deniable.deep.clipping.contributions import Contribution, Stack


@dataclass(frozen=True, eq=False)
class Leaf:
    """A trainable parameter, by its name in the model."""

    name: str
    tensor: Tensor


@dataclass(frozen=True, eq=False)
class Derived:
    """`function(*args, **kwargs)`, or its `part`-th tensor; origins stand in `args` for the tensors they describe."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    part: int


Origin: TypeAlias = Leaf | Derived


def leaves(origin: Origin) -> dict[str, Tensor]:
    """The parameters that an origin is made of."""
    if isinstance(origin, Leaf):
        return {origin.name: origin.tensor}
    found: dict[str, Tensor] = {}
    for each in tree_flatten((origin.args, dict(origin.kwargs)))[0]:
        if isinstance(each, Leaf | Derived):
            found |= leaves(each)
    return found


def evaluate(origin: Origin, values: Mapping[str, Tensor]) -> Tensor:
    """The tensor again, from other values of the parameters."""
    if isinstance(origin, Leaf):
        return values[origin.name]
    args, kwargs = tree_map(
        lambda each: evaluate(each, values) if isinstance(each, Leaf | Derived) else each,
        (origin.args, dict(origin.kwargs)),
    )
    made = tree_flatten(origin.function(*args, **kwargs))[0][origin.part]
    if not isinstance(made, Tensor):
        raise TypeError(f"expected a tensor from {origin.function}")
    return made


def pulled_back(origin: Origin, part: Contribution) -> list[tuple[str, Contribution]]:
    """A contribution to a tensor, as contributions to the parameters it is made of."""
    if isinstance(origin, Leaf):
        return [(origin.name, part)]
    with torch.enable_grad():
        values = {name: tensor.detach().requires_grad_() for name, tensor in leaves(origin).items()}
        made = evaluate(origin, values)
        if not made.requires_grad:
            return []
        stacks = torch.autograd.grad(
            made, list(values.values()), part.stack().to(made.dtype), is_grads_batched=True, allow_unused=True
        )
    return [(name, Stack(each)) for name, each in zip(values, stacks, strict=True) if each is not None]
