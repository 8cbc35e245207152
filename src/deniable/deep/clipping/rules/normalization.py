"""The scale and shift after a normalization: LayerNorm, GroupNorm, RMSNorm.

The normalized input is computed again rather than kept: it is cheaper to make than to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor

from deniable.deep.clipping.calls import Call, Sketch
from deniable.deep.clipping.contributions import Contribution, Stack
from deniable.deep.clipping.origins import Origin
from deniable.deep.clipping.precision import widened
from deniable.deep.clipping.shelves import piecewise


def layer_norm(call: Call) -> Sketch:
    """F.layer_norm(x, shape, weight, bias, eps)."""
    shape, eps = tuple(call.argument(1, "normalized_shape")), call.argument(4, "eps", 1e-5)
    return _scaled(
        call,
        weight=call.argument(2, "weight"),
        bias=call.argument(3, "bias"),
        normalize=lambda x: F.layer_norm(x, shape, None, None, eps),
        reduce=lambda values: values.flatten(1, values.dim() - 1 - len(shape)).sum(1),
    )


def rms_norm(call: Call) -> Sketch:
    """F.rms_norm(x, shape, weight, eps)."""
    shape, eps = tuple(call.argument(1, "normalized_shape")), call.argument(3, "eps")
    return _scaled(
        call,
        weight=call.argument(2, "weight"),
        bias=None,
        normalize=lambda x: F.rms_norm(x, shape, None, eps),
        reduce=lambda values: values.flatten(1, values.dim() - 1 - len(shape)).sum(1),
    )


def group_norm(call: Call) -> Sketch:
    """F.group_norm(x, groups, weight, bias, eps): one scale per channel, the channels on axis 1."""
    groups, eps = call.argument(1, "num_groups"), call.argument(4, "eps", 1e-5)
    return _scaled(
        call,
        weight=call.argument(2, "weight"),
        bias=call.argument(3, "bias"),
        normalize=lambda x: F.group_norm(x.flatten(0, 1), groups, None, None, eps).view_as(x),
        reduce=lambda values: values.flatten(3).sum((1, 3)) if values.dim() > 3 else values.sum(1),
    )


def _scaled(
    call: Call,
    *,
    weight: Tensor | None,
    bias: Tensor | None,
    normalize: Callable[[Tensor], Tensor],
    reduce: Callable[[Tensor], Tensor],
) -> Sketch:
    """`reduce` sums [units, rows, …] over everything but the unit and the parameter's own axes."""
    inputs: Tensor = call.argument(0, "input")
    weight_origin, bias_origin = call.origin(weight), call.origin(bias)

    def contribute(saved: Sequence[Tensor], gradient: Tensor) -> list[tuple[Origin, Contribution]]:
        outs = widened(gradient)
        parts: list[tuple[Origin, Contribution]] = []
        if weight_origin is not None:
            scales = piecewise(lambda x, out: reduce(normalize(widened(x)).mul_(out)), saved[0], outs)
            parts.append((weight_origin, Stack(scales)))
        if bias_origin is not None:
            parts.append((bias_origin, Stack(reduce(outs))))
        return parts

    kept = () if weight_origin is None else (inputs,)
    return Sketch(kept, kept, contribute)
