"""The rule for every operation that has no rule of its own: differentiate the one call, once per unit, under vmap.

It costs one gradient per unit in memory, for the parameters of this call only, and holds for whatever the operation
does, as long as it treats rows alone. Elementwise scales and shifts, einsum, bilinear forms, indexing and learned
activations all go this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from deniable.deep.clipping.calls import Call, Sketch
from deniable.deep.clipping.contributions import Contribution, Stack
from deniable.deep.clipping.origins import Origin, evaluate, leaves


def anything(call: Call) -> Sketch:
    """Per-unit gradients of one call by torch.func."""
    function = call.function
    flat, form = tree_flatten((call.args, dict(call.kwargs)))
    origins: list[Origin] = []
    places: list[tuple[str, int]] = []
    saved: list[Tensor] = []
    constants: list[Any] = []
    for each in flat:
        if (found := call.origin(each)) is not None:
            places.append(("parameter", len(origins)))
            origins.append(found)
        elif isinstance(each, Tensor):
            places.append(("saved", len(saved)))
            saved.append(each)
        else:
            places.append(("constant", len(constants)))
            constants.append(each)
    kind = next((each.device.type for each in saved), "cpu")
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None

    def contribute(tensors: Sequence[Tensor], gradient: Tensor) -> list[tuple[Origin, Contribution]]:
        def one(gradient: Tensor, *tensors: Tensor) -> Any:
            def again(*parameters: Tensor) -> Tensor:
                sources = {"parameter": parameters, "saved": tensors, "constant": constants}
                args, kwargs = tree_unflatten([sources[source][at] for source, at in places], form)
                made = function(*args, **kwargs)
                if not isinstance(made, Tensor):
                    raise TypeError(f"{function} returns more than one tensor")
                return made

            made, pull = torch.func.vjp(again, *values)[:2]
            return pull(gradient.to(made.dtype))

        values = [_value(origin) for origin in origins]
        with torch.autocast(kind, narrow) if narrow is not None else nullcontext():
            stacks = torch.vmap(one)(gradient, *tensors)
        return [(origin, Stack(stack)) for origin, stack in zip(origins, stacks, strict=True)]

    return Sketch(tuple(saved), tuple(saved), contribute, needs_values=True)


def _value(origin: Origin) -> Tensor:
    return evaluate(origin, leaves(origin))
